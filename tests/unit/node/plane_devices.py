# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs with planes of ``tests/recordings/planes`` as trees of sysfs, and a kernel that answers over RDMA netlink."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.info.node_info import Info
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    ARPHRD_INFINIBAND,
    Link,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.test_rdma import Kernel
from tests.unit.node.test_vpd import field, resource
from tests.unit.node.trees import NETWORK, Tree

RECORDINGS = Path(__file__).parents[2] / "recordings" / "planes"
ACTIVE, DOWN, LINK_UP, DISABLED = 4, 1, 5, 3
Row = t.Dict[str, t.Any]


def recorded(name: str) -> Row:
    found: Row = json.loads((RECORDINGS / (name + ".json")).read_text())
    return found


class Machine:
    """A node with these functions and RDMA devices. ``down``: (device, port) that are DOWN although they carry data."""

    def __init__(self, root: Path, recording: Row) -> None:
        self.tree, self.recording = Tree(root), recording
        self.down: set[tuple[str, int]] = set()
        self.links: list[Link] = []
        # the devices in the order of the kernel's indexes
        self.devices: list[Row] = list(recording["rdma"])
        self.management: dict[str, str] = {}
        for row in recording["functions"]:
            self._function(row)
        for row in self.devices:
            self.tree.rdma(row["pci"], row["device"], row.get("link_layer", "Ethernet"), ports=row["ports"])
            # the kernel's link names the function
            link = self.tree.root / ("sys/class/infiniband/%s/device" % row["device"])
            link.unlink()
            link.symlink_to("../../../" + row["pci"])
            if not row.get("parent"):
                number = self.devices.index(row)
                place = "%s/infiniband_verbs/uverbs%d" % (self.tree.real(row["pci"]), number)
                self.tree.write(place + "/ibdev", row["device"])
            for port in row["netdevs"]:
                place = "/sys/class/infiniband/%s/ports/%s/" % (row["device"], port)
                self.tree.write(place + "rate", "200 Gb/sec (1X NDR)")
                self.tree.write(place + "gid_attrs/ndevs/0", row["netdevs"][port])

    def _function(self, row: Row) -> None:
        """A function below a bridge, beside its GPU."""
        domain, bus = row["pci"].split(":")[:2]
        above = row.get("above") or "pci%s:00/%s:00:%02x.0" % (domain, domain, int(bus, 16) % 32)
        pci = self.tree.function(
            "%s/%s" % (above, row["pci"]),
            row.get("class", NETWORK),
            row.get("vendor", "15b3"),
            row["device"],
            sriov_totalvfs="16",
        )
        self.tree.driver(pci, row.get("driver", "mlx5_core"))
        self.tree.link("/sys/bus/pci/drivers/%s/%s" % (row.get("driver", "mlx5_core"), pci), self.tree.real(pci))
        if row.get("gpu"):
            self.tree.function("%s/%s" % (above, row["gpu"]), "0x030200", "10de", "2901")
        if row.get("uuid"):
            data = resource(0x82, b"a NIC") + resource(0x90, field(b"V3", row["uuid"].encode())) + b"\x78"
            (self.tree.root / ("sys/bus/pci/devices/%s/vpd" % pci)).write_bytes(data)
        if row.get("management"):
            self.management[pci] = "%s carries this connection" % row["netdevs"][0]
        kind = ARPHRD_INFINIBAND if row.get("class") == "0x020700" else 1
        for name in row.get("netdevs") or ():
            self.tree.netdev(pci, name, type=str(kind), speed="200000")
            number = len(self.links) + 1
            mac = bytes((2, 0, 0, 0, 0, number))
            self.links.append(
                Link(
                    number, name, True, 9000, 68, 9978, mac, (), carrier=True, operstate="UP", permanent=mac, type=kind
                )
            )

    def kernel(self) -> Kernel:
        """The RDMA subsystem."""
        return Kernel(get=[self._device(at, row) for at, row in enumerate(self.devices)], port_get=self._ports)

    def _device(self, index: int, row: Row) -> bytes:
        answer = (
            codec.u32(rdma_netlink.ATTR_DEV_INDEX, index)
            + codec.string(rdma_netlink.ATTR_DEV_NAME, row["device"])
            + codec.u32(rdma_netlink.ATTR_PORT_INDEX, row["ports"])
            + codec.string(rdma_netlink.ATTR_DEV_PROTOCOL, "ib" if row.get("link_layer") == "InfiniBand" else "roce")
        )
        parent = row.get("parent")
        return answer + codec.string(rdma_netlink.ATTR_PARENT_NAME, parent) if parent else answer

    def _ports(self, asked: dict[int, bytes]) -> list[bytes]:
        row = self.devices[codec.number(asked[rdma_netlink.ATTR_DEV_INDEX])]
        return [self._port(row, number) for number in range(1, row["ports"] + 1)]

    def _port(self, row: Row, number: int) -> bytes:
        netdev = row["netdevs"].get(str(number))
        up = bool(netdev or row.get("parent")) and (row["device"], number) not in self.down
        answer = (
            codec.u32(rdma_netlink.ATTR_PORT_INDEX, number)
            + codec.u8(rdma_netlink.ATTR_PORT_STATE, ACTIVE if up else DOWN)
            + codec.u8(rdma_netlink.ATTR_PORT_PHYS_STATE, LINK_UP if up else DISABLED)
        )
        if netdev and not row.get("silent"):
            answer += codec.string(rdma_netlink.ATTR_NDEV_NAME, netdev)
        return answer

    def info(self) -> Info:
        management = ManagementPath({}, dict(self.management))
        return Info(
            self.tree.system(),
            lambda: list(self.links),
            lambda system: t.cast(t.Any, self.kernel()),
            drivers=lambda names: {},
            verbs=lambda ports: {},
            management_of=lambda system: management,
            permanent=lambda names: {},
        )

    def look(self, *parts: str) -> Row:
        return self.info().look(parts or ("nics", "rdma", "gpus", "vfs"))
