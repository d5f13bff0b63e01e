# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports and cards as tools printed them on real servers, laid out as in sysfs."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware import FIRMWARE
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import Firmware, Observers
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.trees import INFINIBAND, NETWORK, Tree

RECORDINGS = Path(__file__).parents[2] / "recordings"
# ibstat's words for the states, and those of the kernel's sysfs
STATES = {"Active": "4: ACTIVE", "Down": "1: DOWN", "Initializing": "2: INIT"}
PHYSICAL = {"LinkUp": "5: LinkUp", "Disabled": "3: Disabled"}


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)


def recording(name: str) -> str:
    return (RECORDINGS / name).read_text()


class Node(System):
    """A node with a tree of its own, and an old text-only mstconfig that gives one recorded answer for all cards."""

    def __init__(self, root: Path, answer: str = "mstconfig/connectx5-vpi-next.txt") -> None:
        super().__init__(str(root), self._run)
        self.tree = Tree(root)
        self.answer = answer

    def which(self, program: str) -> str | None:
        return "/usr/bin/" + program if program == "mstconfig" else None

    def _run(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        assert argv[0] == "/usr/bin/mstconfig" and "set" not in argv
        wrong = next((word for word in argv if word in ("-j", "-e")), None)
        message = "-E- invalid argument: %s\n" % wrong if wrong else recording(self.answer)
        return CommandResult(3 if wrong else 0, message, "")

    def port(self, address: str, netdev: str, device: str, infiniband: bool) -> None:
        """A PF, whose bridge is ours."""
        bus = address.split(":")[1]
        kind, layer = (INFINIBAND, "InfiniBand") if infiniband else (NETWORK, "Ethernet")
        self.tree.function("pci0000:00/0000:00:01.0/0000:%s:00.0/%s" % (bus, address), kind)
        self.tree.driver(address, "mlx5_core")
        self.tree.netdev(address, netdev, type="32" if infiniband else "1")
        self.tree.rdma(address, device, layer)

    def server(self, name: str) -> dict[str, str]:
        """The ports of an ``ibdev2netdev``; their addresses are in the names, decimal. Netdev -> address."""
        found = {}
        for device, netdev in re.findall(r"(\w+) +port +1 +==> +(\w+) ", recording(name)):
            kind, bus, slot, function = re.findall(r"(en|ib)p(\d+)s(\d+)(?:f(\d+))?", netdev)[0]
            found[netdev] = "0000:%02x:%02x.%s" % (int(bus), int(slot), function or 0)
            self.port(found[netdev], netdev, device, kind == "ib")
        return found

    def ibstat(self, name: str) -> None:
        """The ports of an ``ibstat``, at addresses of ours."""
        for number, part in enumerate(recording(name).split("CA '")[1:]):
            reported = dict(re.findall(r"^\s+([A-Z][\w ]+): (.+)$", part, re.MULTILINE))
            device = part.partition("'")[0]
            self.port("0000:0b:00.%d" % number, "port%d" % number, device, reported["Link layer"] == "InfiniBand")
            values = {"state": STATES[reported["State"]], "phys_state": PHYSICAL[reported["Physical state"]]}
            values.update(lid="0x%x" % int(reported["Base lid"]), sm_lid="0x%x" % int(reported["SM lid"]))
            for attribute, text in values.items():
                self.tree.write("/sys/class/infiniband/%s/ports/1/%s" % (device, attribute), text)

    def firmware(self, *ports: dict[str, t.Any], **observers: t.Any) -> Firmware:
        return Firmware({"ports": list(ports)}, self, FIRMWARE, Observers(**observers))


def test_the_management_card_of_a_server_is_not_touched(tmp_path: Path) -> None:
    """That the default route is over the first card's port is ours: the recording has no routes."""
    node = Node(tmp_path)
    ports = node.server("infiniband/ibdev2netdev-h100.txt")
    route = "enp27s0f0np0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000"
    node.tree.write("/proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n" + route)
    options: dict[str, t.Any] = {"ports": None, "tool": "auto", "reset": "never", "never_reset": [], "timeout": 1.0}
    state = Firmware.from_options(options, node).observe()
    assert len(state["ports"]) == 12 and len(state["cards"]) == 10
    assert state["cards"]["0000:1b:00.0"]["functions"] == ["0000:1b:00.0", "0000:1b:00.1"]

    def changed(*netdevs: str) -> list[str]:
        firmware = node.firmware(*({"pci": ports[netdev], "num_of_vfs": 8} for netdev in netdevs))
        return [change.subject for change in firmware.changes(firmware.observe())]

    rails = [netdev for netdev in ports if netdev.startswith("ib")]
    assert sorted(changed(*rails)) == sorted(ports[netdev] for netdev in rails)
    assert changed("enp157s0f1np1") == ["0000:9d:00.0"]
    # the port beside that of the default route, which nothing is plugged into
    with pytest.raises(RailyardError, match="0000:1b:00.0 is not changed: .*enp27s0f0np0.* default route"):
        changed("enp27s0f1np1")


def test_a_card_with_a_port_of_each_type_shows_which_is_which(tmp_path: Path) -> None:
    """The tool's answer is another card's: it has the types the other way round."""
    node = Node(tmp_path, "mstconfig/connectx3-types.txt")
    ports = node.server("infiniband/ibdev2netdev-a100.txt")
    with_netdev = re.findall(r"^link (\w+)/1 .* netdev (\w+)$", recording("infiniband/rdma-link-a100.txt"), re.M)
    assert with_netdev == [("mlx5_4", "enp97s0f0")]  # as the kernel shows the one that is Ethernet
    assert (ports["enp97s0f0"], ports["ibp97s0f1"]) == ("0000:61:00.0", "0000:61:00.1")
    firmware = node.firmware(
        {"pci": ports["enp97s0f0"], "link_types": {"1": "ib", "2": "eth"}}, management=ManagementPath({}, {})
    )
    state = firmware.observe()
    assert firmware.changes(state) == []
    assert firmware.outcome(state, [])["reboot_reasons"] == [
        "0000:61:00.0: LINK_TYPE_P1 is ETH(2) now, IB(1) at the next boot",
        "0000:61:00.0: LINK_TYPE_P2 is IB(1) now, ETH(2) at the next boot",
    ]


@pytest.mark.parametrize(
    ("name", "netdev", "message", "lids"),
    [
        # the LID and the manager's are of before the port went down
        ("ibstat-vpi-both", "port1", "port1 has no subnet manager: the port is DOWN (Disabled)", (2, 1)),
        ("ibstat-initializing", "port0", "port0 has no subnet manager: the port is INIT (LinkUp)", (65535, 0)),
    ],
)
def test_a_port_without_a_subnet_manager(
    tmp_path: Path, name: str, netdev: str, message: str, lids: tuple[int, int]
) -> None:
    node = Node(tmp_path)
    node.ibstat("infiniband/%s.txt" % name)
    ports = IbPorts({"ports": [{"netdev": netdev}], "persist": False}, node, management=ManagementPath({}, {}))
    state = ports.observe()
    (row,) = state["ports"]
    assert not row["subnet_manager"]["reachable"]
    assert (row["subnet_manager"]["lid"], row["subnet_manager"]["sm_lid"]) == lids
    assert ports.changes(state) == [] and ports.warnings[0].startswith("ports[0]: " + message)
    required = IbPorts({"ports": [{"netdev": netdev}], "persist": False, "subnet_manager": "required"}, node)
    with pytest.raises(RailyardError, match=re.escape(message)):
        required.changes(required.observe())


def test_the_ethernet_port_of_such_a_card_is_not_an_infiniband_port(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.ibstat("infiniband/ibstat-vpi-both.txt")
    with pytest.raises(RailyardError, match="port0 is not an IPoIB interface"):
        IbPorts({"ports": [{"netdev": "port0"}]}, node).observe()


@pytest.mark.parametrize(("name", "count", "infiniband"), [("vpi-both", 3, "mlx5_1"), ("server", 19, "mlx5_5")])
def test_a_recorded_gid_table_is_read(tmp_path: Path, name: str, count: int, infiniband: str) -> None:
    node = Node(tmp_path)
    text = recording("infiniband/show_gids-%s.txt" % name)
    rows = [line.split() for line in text.splitlines() if line.startswith("mlx5_")]
    devices = sorted({row[0] for row in rows})
    for number, device in enumerate(devices):
        node.port("0000:%02x:00.0" % number, "port%d" % number, device, device == infiniband)
    expected = []
    for row in rows:
        device, _port, index, gid, rest = row[0], row[1], row[2], row[3], row[4:]
        address = rest.pop(0) if "." in rest[0] else None
        version, netdev = rest[0], rest[1] if len(rest) > 1 else ""
        place = "/sys/class/infiniband/%s/ports/1" % device
        node.tree.write("%s/gids/%s" % (place, index), gid)
        node.tree.write("%s/gid_attrs/types/%s" % (place, index), "RoCE v2" if version == "v2" else "IB/RoCE v1")
        node.tree.write("%s/gid_attrs/ndevs/%s" % (place, index), netdev)
        kind = "IB" if device == infiniband else "RoCE " + version
        expected.append((device, int(index), gid, kind, netdev or None, address))
    found = [row for device in devices for row in gids.from_sysfs(node, device)]
    assert len(found) == count == int(text.rpartition("n_gids_found=")[2])
    reported = [(row["device"], row["index"], row["gid"], row["type"], row["netdev"], row["address"]) for row in found]
    # the tool shows an address where it is IPv4
    assert [each[:5] + (each[5] if "." in (each[5] or "") else None,) for each in reported] == expected
    assert [each[5] for each in reported if each[3] == "IB"] == [None]


@pytest.mark.parametrize(
    ("name", "version", "psid"),
    [
        ("bluefield3-inbox", "32.43.1014", "MT_0000000884"),
        ("connectx3", "2.42.5000", None),
        ("connectx4lx-old-driver", "14.23.1020", None),
        ("connectx6-ipoib-vf", "20.30.1004", "MT_0000000226"),
        ("connectx7-ofed", "28.39.3560", "MT_0000000838"),
    ],
)
def test_the_firmware_that_a_driver_reports(tmp_path: Path, name: str, version: str, psid: str | None) -> None:
    node = Node(tmp_path)
    reported = dict(line.split(": ", 1) for line in recording("ethtool/%s.txt" % name).splitlines() if ": " in line)
    address = reported["bus-info"]
    node.tree.function("pci0000:00/0000:00:01.0/" + address)
    node.tree.netdev(address, "eth7")
    firmware = node.firmware(
        {"pci": address}, drivers=lambda names: {each: reported["firmware-version"] for each in names}
    )
    card = firmware.observe()["cards"][address]
    assert (card["version"], card["psid"]) == (version, psid)
