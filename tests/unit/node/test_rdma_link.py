# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA links of ports, on a fake node whose kernel keeps devices and answers in real messages."""

from __future__ import annotations

import errno
import json
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_state import BootState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rename_order import renames
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma import rdma_links
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_links import RdmaLink
from tests.unit.node.stored_notes import stored

DRIVERS = {"hardware": 1, "rxe": 14, "siw": 18}


class Host:
    """A node with eight PCI functions 0000:01:00.0 ... 0000:08:00.0, netdevs enp1s0 ... enp8s0, and mgmt0."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(str(root), self.run)
        self.loaded = True
        self.modules = {"rdma_rxe"}
        self.devices: dict[int, dict[str, t.Any]] = {}
        self.users: dict[str, list[bytes]] = {}
        self.connections: dict[str, list[bytes]] = {}
        self.next_index = 0
        self.fail_after = -1
        (root / "sys/class/infiniband").mkdir(parents=True)
        (root / "proc/1/fd").mkdir(parents=True)
        for number in range(1, 9):
            self.netdev("enp%ds0" % number, "0000:%02x:00.0" % number)
        self.netdev("mgmt0", "0000:1e:00.0")
        self.put(
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
            "mgmt0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\n",
        )
        self.put("sys/module/rdma_rxe/x", "")

    def put(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def netdev(self, name: str, pci: str) -> None:
        function = self.root / "sys/devices/pci0000:00" / pci
        function.mkdir(parents=True)
        place = self.root / "sys/bus/pci/devices"
        place.mkdir(parents=True, exist_ok=True)
        (place / pci).symlink_to(function)
        self.put("sys/class/net/%s/flags" % name, "0x1003\n")
        self.put("sys/class/net/%s/carrier" % name, "1\n")
        (self.root / "sys/class/net" / name / "device").symlink_to(function)

    def bond(self, name: str, *numbers: int, vlan: int | None = None) -> None:
        """A bond of the functions with these numbers. ``vlan``: the id of a VLAN on it, named as the kernel does."""
        self.put("sys/class/net/%s/uevent" % name, "DEVTYPE=bond\nINTERFACE=%s\n" % name)
        self.put("sys/class/net/%s/flags" % name, "0x1003\n")
        for number in numbers:
            self.put("sys/class/net/%s/lower_enp%ds0" % (name, number), "")
        if vlan is not None:
            above = "%s.%d" % (name, vlan)
            self.put("sys/class/net/%s/uevent" % above, "DEVTYPE=vlan\nINTERFACE=%s\n" % above)
            self.put("sys/class/net/%s/lower_%s" % (above, name), "")

    def device(self, name: str, kind: str, number: int, state: int = 4, netdev: str = "") -> None:
        netdev = netdev or ("mgmt0" if number == 0x1E else "enp%ds0" % number)
        self.next_index += 1
        self.devices[self.next_index] = {"name": name, "type": kind, "netdev": netdev, "state": state}
        self._sysfs(name, "0000:%02x:00.0" % number)

    def _sysfs(self, name: str, pci: str) -> None:
        place = self.root / "sys/class/infiniband" / name
        place.mkdir()
        (place / "device").symlink_to(self.root / "sys/devices/pci0000:00" / pci)

    def names(self) -> dict[str, str]:
        return {row["netdev"]: row["name"] for row in self.devices.values()}

    def run(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        if argv[0].endswith("modprobe"):
            module = argv[-1]
            if module not in self.modules:
                return CommandResult(1, "", "modprobe: FATAL: Module %s not found" % module)
            if "--dry-run" not in argv:
                self.put("sys/module/%s/x" % module, "")
                self.loaded = True
        return CommandResult(0, "", "")

    # the socket

    def connect(self, system: System) -> t.Any:
        return self if self.loaded else None

    def close(self) -> None:
        pass

    def dump(self, kind: int, payload: bytes = b"", most: int | None = None) -> list[bytes]:
        table = codec.table(payload)
        index = codec.number(table[rdma_netlink.ATTR_DEV_INDEX]) if table else 0
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_GET):
            return [
                codec.u32(rdma_netlink.ATTR_DEV_INDEX, index)
                + codec.string(rdma_netlink.ATTR_DEV_NAME, row["name"])
                + codec.string(rdma_netlink.ATTR_DEV_PROTOCOL, "roce")
                for index, row in self.devices.items()
            ]
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_PORT_GET):
            row = self.devices[index]
            return [
                codec.u32(rdma_netlink.ATTR_PORT_INDEX, 1)
                + codec.u8(rdma_netlink.ATTR_PORT_STATE, row["state"])
                + codec.u8(rdma_netlink.ATTR_PORT_PHYS_STATE, 5 if row["state"] == 4 else 3)
                + codec.string(rdma_netlink.ATTR_NDEV_NAME, row["netdev"])
            ]
        held = {rdma_netlink.CMD_RES_QP_GET: (rdma_netlink.ATTR_RES_QP, self.users)}.get(
            kind & 0x3FF, (rdma_netlink.ATTR_RES_CM_ID, self.connections)
        )
        entries = held[1].get(self.devices[index]["name"], [])
        return [codec.attribute(held[0], b"".join(codec.attribute(held[0] + 1, entry) for entry in entries))]

    def request(self, kind: int, payload: bytes = b"") -> list[bytes]:
        table = codec.table(payload)
        text = {key: codec.text(value) for key, value in table.items()}
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_GET_CHARDEV):
            row = self.devices[codec.number(table[rdma_netlink.ATTR_DEV_INDEX])]
            return [
                codec.string(rdma_netlink.ATTR_CHARDEV_NAME, "uverbs0")
                + codec.u32(rdma_netlink.ATTR_UVERBS_DRIVER_ID, DRIVERS[row["type"]])
            ]
        if not self.fail_after:
            raise KeyboardInterrupt
        self.fail_after -= 1
        names = [row["name"] for row in self.devices.values()]
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_NEWLINK):
            if text[rdma_netlink.ATTR_DEV_NAME] in names:
                raise NetlinkError(errno.EEXIST)
            netdev = text[rdma_netlink.ATTR_NDEV_NAME]
            number = int(netdev[3:-2]) if netdev.startswith("enp") else 0
            self.device(text[rdma_netlink.ATTR_DEV_NAME], text[rdma_netlink.ATTR_LINK_TYPE], number, netdev=netdev)
            return []
        index = codec.number(table[rdma_netlink.ATTR_DEV_INDEX])
        place = self.root / "sys/class/infiniband"
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_SET):
            if text[rdma_netlink.ATTR_DEV_NAME] in names:
                raise NetlinkError(errno.EEXIST)
            (place / self.devices[index]["name"]).rename(place / text[rdma_netlink.ATTR_DEV_NAME])
            self.devices[index]["name"] = text[rdma_netlink.ATTR_DEV_NAME]
            return []
        assert kind == rdma_netlink.message_type(rdma_netlink.CMD_DELLINK)
        row = self.devices.pop(index)
        (place / row["name"] / "device").unlink()
        (place / row["name"]).rmdir()
        return []

    def link(self, *ports: dict[str, t.Any], **options: t.Any) -> RdmaLink:
        # the kernel of this test lives in this process alone
        run_apart = options.pop("run_apart", lambda act, seconds: act() or True)
        return RdmaLink(dict(options, ports=ports), self.system, self.connect, run_apart)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def rxe(number: int, name: str = "", **more: t.Any) -> dict[str, t.Any]:
    return dict({"name": name or "rxe_gpu%02d" % number, "type": "rxe", "netdev": "enp%ds0" % number}, **more)


def nic(number: int, name: str, **more: t.Any) -> dict[str, t.Any]:
    return dict({"name": name, "type": "hardware", "pci": "0000:%02x:00.0" % number}, **more)


def act(link: RdmaLink) -> list[tuple[t.Any, ...]]:
    """Do it; what was predicted. The prediction is the act, and a second run does nothing."""
    state = link.observe()
    changes = link.changes(state)
    done: list[Change] = []
    converge(link, state, changes, done)
    assert done == changes
    assert link.changes(link.observe()) == []
    return [(change.subject, change.attribute, change.before, change.after) for change in changes]


def refused(link: RdmaLink) -> str:
    with pytest.raises(RailyardError) as caught:
        link.changes(link.observe())
    assert "Remedy: " in str(caught.value)
    return str(caught.value)


def test_soft_links_are_added(host: Host) -> None:
    assert act(host.link(rxe(1), rxe(2))) == [
        ("rxe_gpu01", "link", None, "rxe on enp1s0"),
        ("rxe_gpu02", "link", None, "rxe on enp2s0"),
    ]
    assert host.names() == {"enp1s0": "rxe_gpu01", "enp2s0": "rxe_gpu02"}


def test_observed_in_the_shape_of_the_options(host: Host) -> None:
    host.device("mlx5_0", "hardware", 3)
    host.device("rxe0", "rxe", 1, state=1)
    assert host.link().observe() == {
        "ports": [
            {"name": "mlx5_0", "type": "hardware", "netdev": "enp3s0", "pci": "0000:03:00.0", "state": "present"},
            {"name": "rxe0", "type": "rxe", "netdev": "enp1s0", "pci": "0000:01:00.0", "state": "present"},
        ],
        "links": [
            {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP", "netdev": "enp3s0"},
            {"device": "rxe0", "port": 1, "state": "DOWN", "physical_state": "DISABLED", "netdev": "enp1s0"},
        ],
    }


def test_observed_links_as_options_change_nothing(host: Host) -> None:
    host.device("mlx5_0", "hardware", 3)
    host.device("rxe0", "rxe", 1)
    assert act(host.link(*host.link().observe()["ports"])) == []


def test_the_module_is_loaded_first(host: Host) -> None:
    (host.root / "sys/module/rdma_rxe/x").unlink()
    (host.root / "sys/module/rdma_rxe").rmdir()
    host.loaded = False
    assert act(host.link(rxe(1)))[0] == ("rdma_rxe", "module", None, "loaded")


def test_a_kernel_without_the_type_is_an_error_before_anything_is_done(host: Host) -> None:
    host.put("proc/sys/kernel/osrelease", "6.1.0\n")
    assert "ports[1].type: the kernel 6.1.0 has no module siw" in refused(host.link(rxe(1), rxe(2, type="siw")))
    assert host.devices == {}


def test_another_name_on_the_same_netdev_is_renamed(host: Host) -> None:
    host.device("rxe0", "rxe", 1)
    assert act(host.link(rxe(1))) == [("0000:01:00.0", "name", "rxe0", "rxe_gpu01")]


def test_hardware_is_named_by_pci_or_netdev(host: Host) -> None:
    host.device("mlx5_0", "hardware", 1)
    host.device("mlx5_1", "hardware", 2)
    link = host.link(nic(1, "mlx5_gpu01"), nic(2, "mlx5_gpu02", pci=None, netdev="enp2s0"))
    assert [change[2:] for change in act(link)] == [("mlx5_0", "mlx5_gpu01"), ("mlx5_1", "mlx5_gpu02")]


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("netdev", ["bond0", "bond0.100"])
def test_the_device_of_a_lag_is_found_on_any_of_its_functions(host: Host, number: int, netdev: str) -> None:
    host.bond("bond0", 3, 4, vlan=100)
    host.device("mlx5_0", "hardware", 1)
    host.device("mlx5_bond_0", "hardware", number)
    link = host.link({"name": "mlx5_stor1", "type": "hardware", "netdev": netdev})
    assert act(link) == [("0000:%02x:00.0" % number, "name", "mlx5_bond_0", "mlx5_stor1")]


def test_functions_with_a_device_each_are_not_a_lag(host: Host) -> None:
    host.bond("bond0", 3, 4)
    host.device("mlx5_0", "hardware", 3)
    host.device("mlx5_1", "hardware", 4)
    message = refused(host.link({"name": "mlx5_bond_0", "type": "hardware", "netdev": "bond0"}))
    assert "ports[0]: the functions below bond0 have an RDMA device each (mlx5_0, mlx5_1)" in message
    assert "active-backup, balance-xor and 802.3ad" in message


def test_a_bond_without_any_device_is_reported_with_a_function(host: Host) -> None:
    host.bond("bond0", 3, 4)
    message = refused(host.link({"name": "mlx5_bond_0", "type": "hardware", "netdev": "bond0"}))
    assert "no RDMA device of 0000:03:00.0 is visible here" in message


def test_a_bond_without_functions_is_not_a_port(host: Host) -> None:
    host.bond("bond0")
    message = refused(host.link({"name": "mlx5_bond_0", "type": "hardware", "netdev": "bond0"}))
    assert "netdev bond0 is not a PCI function" in message


def test_soft_links_are_made_on_a_bond_and_not_on_its_vlan(host: Host) -> None:
    host.bond("bond0", 3, 4, vlan=100)
    assert act(host.link(rxe(1, "rxe_stor1", netdev="bond0"))) == [("rxe_stor1", "link", None, "rxe on bond0")]
    message = refused(host.link(rxe(1, "rxe_vlan", netdev="bond0.100")))
    assert "ports[0].netdev: bond0.100 is a VLAN, on which the kernel makes no rxe device" in message
    assert "Remedy: give bond0: its device has the GIDs of the VLAN too." in message


def test_names_are_exchanged(host: Host) -> None:
    host.device("mlx5_0", "hardware", 1)
    host.device("mlx5_1", "hardware", 2)
    host.device("mlx5_2", "hardware", 3)
    ring = host.link(nic(1, "mlx5_1"), nic(2, "mlx5_2"), nic(3, "mlx5_0"))
    assert act(ring) == [
        ("0000:01:00.0", "name", "mlx5_0", "railyard-0"),
        ("0000:03:00.0", "name", "mlx5_2", "mlx5_0"),
        ("0000:02:00.0", "name", "mlx5_1", "mlx5_2"),
        ("0000:01:00.0", "name", "railyard-0", "mlx5_1"),
    ]
    assert host.names() == {"enp1s0": "mlx5_1", "enp2s0": "mlx5_2", "enp3s0": "mlx5_0"}


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_an_interrupted_exchange_is_completed_by_the_next_run(host: Host, steps: int) -> None:
    for number in (1, 2, 3):
        host.device("mlx5_%d" % (number - 1), "hardware", number)
    ring = host.link(nic(1, "mlx5_1"), nic(2, "mlx5_2"), nic(3, "mlx5_0"))
    host.fail_after = steps
    with pytest.raises(KeyboardInterrupt):
        act(ring)
    host.fail_after = -1
    act(ring)
    assert host.names() == {"enp1s0": "mlx5_1", "enp2s0": "mlx5_2", "enp3s0": "mlx5_0"}


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_interrupted_removals_renames_and_additions_are_completed(host: Host, steps: int) -> None:
    host.device("rxe_gpu01", "rxe", 4)  # on the wrong netdev
    host.device("rxe0", "rxe", 2)
    host.device("old", "rxe", 3)
    link = host.link(rxe(1), rxe(2), rxe(3, "old", state="absent"), rxe(5))
    host.fail_after = steps
    with pytest.raises(KeyboardInterrupt):
        act(link)
    host.fail_after = -1
    act(link)
    assert host.names() == {"enp1s0": "rxe_gpu01", "enp2s0": "rxe_gpu02", "enp5s0": "rxe_gpu05"}


def test_soft_links_exchange_netdevs_by_their_names(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 2)
    host.device("rxe_gpu02", "rxe", 1)
    assert [change[1] for change in act(host.link(rxe(1), rxe(2)))] == ["name"] * 3


def test_a_link_of_another_type_with_the_name_is_replaced(host: Host) -> None:
    host.device("rxe_gpu01", "siw", 1)
    assert act(host.link(rxe(1))) == [
        ("rxe_gpu01", "link", "siw on enp1s0", None),
        ("rxe_gpu01", "link", None, "rxe on enp1s0"),
    ]


def test_an_absent_soft_link_is_removed(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    host.device("rxe_gpu02", "rxe", 2)
    assert act(host.link({"name": "rxe_gpu01", "type": "rxe", "state": "absent"})) == [
        ("rxe_gpu01", "link", "rxe on enp1s0", None)
    ]
    assert host.names() == {"enp2s0": "rxe_gpu02"}


def test_absent_keeps_other_links(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 2)
    host.device("other", "siw", 3)
    assert act(host.link(rxe(1, state="absent"), rxe(3, "other", state="absent"), rxe(4, state="absent"))) == []


def test_hardware_cannot_be_absent(host: Host) -> None:
    host.device("mlx5_0", "hardware", 1)
    assert "ports[0]: a hardware device cannot be taken away" in refused(host.link(nic(1, "mlx5_0", state="absent")))


def qp(pid: int) -> bytes:
    return codec.u8(rdma_netlink.ATTR_RES_TYPE, 2) + codec.u32(rdma_netlink.ATTR_RES_PID, pid)


def test_a_device_in_use_is_refused_with_the_name_of_the_user(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    host.device("mlx5_0", "hardware", 2)
    host.users = {"mlx5_0": [qp(70), qp(70)]}
    host.connections = {"rxe_gpu01": [codec.u32(rdma_netlink.ATTR_RES_PID, 71)]}
    host.put("proc/70/comm", "ib_write_bw\n")
    host.put("proc/71/comm", "trainer\n")
    ports = (rxe(1, state="absent"), nic(2, "mlx5_gpu02"), rxe(3))
    assert refused(host.link(*ports)).splitlines() == [
        "ports[0]: rxe_gpu01 is in use by trainer (pid 71, 1 connection ids) and is not taken away. "
        "Remedy: end the users, or set rdma_links_force to true (option force of the module).",
        "ports[1]: mlx5_0 is in use by ib_write_bw (pid 70, 2 queue pairs) and is not renamed. "
        "Remedy: end the users, or set rdma_links_force to true (option force of the module).",
    ]
    act(host.link(*ports, force=True))
    assert host.names() == {"enp2s0": "mlx5_gpu02", "enp3s0": "rxe_gpu03"}


def test_an_unchanged_link_may_be_in_use(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    host.users = {"rxe_gpu01": [qp(70)]}
    assert act(host.link(rxe(1), rxe(2))) == [("rxe_gpu02", "link", None, "rxe on enp2s0")]


def test_a_removal_that_blocks_in_the_kernel_is_an_error(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    host.users = {"rxe_gpu01": [qp(70)]}
    link = host.link(rxe(1, state="absent"), force=True, run_apart=lambda act, seconds: False)
    (change,) = link.changes(link.observe())
    with pytest.raises(RailyardError, match=r"waits until it is closed by \? \(pid 70, 1 queue pairs\).*run again"):
        change.act()


@pytest.mark.parametrize("wanted", [rxe(1, state="absent"), rxe(1, "other")])
def test_a_device_in_use_since_the_first_look_is_kept(host: Host, wanted: dict[str, t.Any]) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    link = host.link(wanted)
    (change,) = link.changes(link.observe())
    host.users = {"rxe_gpu01": [qp(70)]}
    host.put("proc/70/comm", "trainer\n")
    with pytest.raises(Refused, match=r"rxe_gpu01 is in use by trainer \(pid 70, 1 queue pairs\)"):
        change.act()
    assert [device["name"] for device in host.devices.values()] == ["rxe_gpu01"]
    forced = host.link(wanted, force=True)
    act(forced)


def test_an_open_device_may_be_renamed_but_not_removed(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 1)
    (host.root / "proc/70/fd").mkdir(parents=True)
    (host.root / "proc/70/fd/5").symlink_to("/dev/infiniband/uverbs0")
    host.put("proc/70/comm", "ib_write_bw\n")
    assert "in use by ib_write_bw (pid 70, device open)" in refused(host.link(rxe(1, state="absent")))
    assert len(act(host.link(rxe(1, "other")))) == 1


@pytest.mark.parametrize(
    "port",
    [
        {"name": "rxe0", "type": "rxe", "netdev": "mgmt0"},
        {"name": "mlx5_mgmt", "type": "hardware", "pci": "0000:1e:00.0"},
        {"name": "mlx5_mgmt", "type": "hardware", "netdev": "mgmt0"},
        {"name": "rxe0", "type": "rxe", "netdev": "mgmt0", "state": "absent"},
    ],
)
def test_the_management_path_is_refused(host: Host, port: dict[str, t.Any]) -> None:
    host.device("rxe0", "hardware", 0x1E)
    assert "mgmt0 carries the default route" in refused(host.link(port))


def test_a_name_that_the_management_path_holds_is_refused(host: Host) -> None:
    host.device("rxe_gpu01", "rxe", 0x1E)
    assert "held by the link of mgmt0 carries the default route" in refused(host.link(rxe(1)))


def test_a_name_that_other_hardware_holds_is_an_error(host: Host) -> None:
    host.device("mlx5_0", "hardware", 1)
    host.device("mlx5_1", "hardware", 2)
    assert "the name mlx5_1 is held by the hardware device of 0000:02:00.0" in refused(host.link(nic(1, "mlx5_1")))
    assert "held by the hardware device" in refused(host.link(rxe(3, "mlx5_1")))


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (rxe(1, "a/b"), "ports[0].name: 'a/b' cannot name"),
        (rxe(1, ".."), "'..' cannot name"),
        (rxe(1, "x" * 64), "cannot name"),
        (rxe(1, netdev=None), "ports[0]: names neither pci nor netdev"),
        (rxe(1, netdev="eth9"), "ports[0].netdev: there is no netdev eth9. Remedy: see 'ip link'"),
        (rxe(1, pci="0000:02:00.0"), "ports[0]: netdev enp1s0 is 0000:01:00.0, not 0000:02:00.0"),
        (rxe(1, netdev=None, pci="0000:01:00.0"), "ports[0]: names no netdev"),
        (nic(9, "mlx5_9"), "ports[0].pci: there is no PCI function 0000:09:00.0"),
        (nic(9, "mlx5_9", pci="9:0"), "ports[0].pci: '9:0' is not a PCI address"),
        (nic(1, "mlx5_1"), "no RDMA device of 0000:01:00.0 is visible here: the function has no driver"),
    ],
)
def test_errors_of_a_port(host: Host, port: dict[str, t.Any], words: str) -> None:
    assert words in refused(host.link(port))


def test_why_hardware_is_not_visible(host: Host) -> None:
    (host.root / "sys/devices/pci0000:00/0000:01:00.0/driver").symlink_to("/sys/bus/pci/drivers/mlx5_core")
    assert "its driver mlx5_core gives none" in refused(host.link(nic(1, "mlx5_1")))
    host.put("sys/module/ib_core/parameters/netns_mode", "N\n")
    host.put("proc/1/mountinfo", "80 25 0:4 net:[77] /run/netns/pod1 rw - nsfs nsfs rw\n")
    (host.root / "proc/1/ns").mkdir(parents=True)
    (host.root / "proc/1/ns/mnt").symlink_to("mnt:[1]")
    (host.root / "proc/1/ns/net").symlink_to("net:[1]")
    assert "may be in another network namespace (pod1)" in refused(host.link(nic(1, "mlx5_1")))


def test_a_device_that_a_pod_has_is_not_changed_and_stays_persistent(host: Host) -> None:
    """Whole devices go with their RDMA device; a soft one goes with its netdev."""
    host.device("mlx5_2", "hardware", 2)
    for number, what in ((1, "infiniband"), (3, "net")):
        (host.root / ("sys/devices/pci0000:00/0000:0%d:00.0/%s" % (number, what))).mkdir()
    shutil.rmtree(host.root / "sys/class/net/enp3s0")
    wanted = (nic(1, "mlx5_gpu01"), nic(2, "mlx5_gpu02"), rxe(3, pci="0000:03:00.0"))
    link = host.link(*wanted, persist=True)
    changes = link.changes(link.observe())
    assert [each.subject for each in changes if each.attribute in ("name", "link")] == ["0000:02:00.0"]
    assert [each.partition(":")[0] for each in link.warnings] == ["mlx5_gpu01 (0000", "rxe_gpu03 (0000"]
    assert "its RDMA device is in another network namespace" in link.warnings[0]
    for each in changes:
        each.act()
    kept = json.loads((host.root / "etc/railyard/boot.d/20-rdma_link.json").read_text())["options"]["ports"]
    assert [each["name"] for each in kept] == ["mlx5_gpu01", "mlx5_gpu02", "rxe_gpu03"]
    again = host.link(*wanted, persist=True)
    assert again.changes(again.observe()) == []


def test_every_error_is_reported_at_once(host: Host) -> None:
    link = host.link(rxe(1, netdev="eth9"), nic(9, "mlx5_9"), rxe(2), rxe(2, "again"), rxe(3, "rxe_gpu02"))
    assert [line.partition(":")[0] for line in refused(link).splitlines()] == [
        "ports[3]",
        "ports[4]",
        "ports[0].netdev",
        "ports[1].pci",
    ]


def test_waits_until_active(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.device("rxe_gpu01", "rxe", 1, state=1)

    def sleep(seconds: float) -> None:
        host.devices[1]["state"] = 4

    monkeypatch.setattr(rdma_links.time, "sleep", sleep)
    link = host.link(rxe(1), wait_active=5)
    state = link.observe()
    assert link.outcome(state, []) == {"reboot_required": False, "reboot_reasons": []}
    assert state["links"][0]["state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("path", "text", "state", "words"),
    [
        ("flags", "0x1002\n", 1, "is DOWN (DISABLED) after 0.01 s: enp1s0 is administratively down"),
        ("carrier", "0\n", 1, "enp1s0 has no carrier"),
        ("x", "", 2, "no subnet manager has brought it up"),
        ("x", "", 1, "is DOWN (DISABLED) after 0.01 s. Remedy: look at the cable"),
    ],
)
def test_why_a_link_is_not_active(host: Host, path: str, text: str, state: int, words: str) -> None:
    host.put("sys/class/net/enp1s0/%s" % path, text)
    host.device("rxe_gpu01", "rxe", 1, state)
    host.device("rxe_gpu02", "rxe", 2, state=1)
    link = host.link(rxe(1), rxe(2, state="absent"), wait_active=0.01)
    with pytest.raises(RailyardError) as caught:
        link.outcome(link.observe(), [])
    assert words in str(caught.value)
    assert "rxe_gpu02" not in str(caught.value)


def test_check_mode_does_not_wait(host: Host) -> None:
    link = host.link(rxe(1), wait_active=60)
    state = link.observe()
    assert link.outcome(state, link.changes(state)) == {"reboot_required": False, "reboot_reasons": []}


def test_links_are_persistent(host: Host) -> None:
    host.device("mlx5_0", "hardware", 2)
    changes = act(host.link(rxe(1), nic(2, "mlx5_gpu02"), persist=True))
    boot = BootState(host.system, 20, "rdma_link")
    assert changes[-1][0] == boot.file
    assert boot.read() == {
        "ports": [
            {"name": "mlx5_gpu02", "type": "hardware", "netdev": None, "pci": "0000:02:00.0"},
            {"name": "rxe_gpu01", "type": "rxe", "netdev": "enp1s0", "pci": None},
        ]
    }
    kept = json.loads((host.root / boot.file.lstrip("/")).read_text())["options"]
    # the same options bring the same state at boot
    host.devices.clear()
    for entry in (host.root / "sys/class/infiniband").iterdir():
        (entry / "device").unlink()
        entry.rmdir()
    host.device("mlx5_0", "hardware", 2)
    at_boot = RdmaLink(kept, host.system)
    at_boot._connect = host.connect
    assert len(act(at_boot)) == 2
    assert host.names() == {"enp1s0": "rxe_gpu01", "enp2s0": "mlx5_gpu02"}


def test_persistent_settings_of_other_ports_are_kept(host: Host) -> None:
    act(host.link(rxe(1), rxe(2), rxe(3), persist=True))
    boot = BootState(host.system, 20, "rdma_link")

    def kept() -> list[str]:
        return [port["name"] for port in (boot.read() or {"ports": []})["ports"]]

    act(host.link(rxe(2, "other"), rxe(3, state="absent"), persist=True))
    assert kept() == ["other", "rxe_gpu01"]
    act(host.link(rxe(1, state="absent"), rxe(2, "other", state="absent"), persist=True))
    assert boot.read() is None
    assert not host.system.exists(boot.file)


def test_a_port_with_another_name_and_another_netdev_is_one_port(host: Host) -> None:
    """A rail that is renamed renames both: at boot the former name would have come back."""
    port = {"type": "hardware", "pci": "0000:03:00.0"}
    host.device("mlx5_0", "hardware", 3)
    act(host.link(dict(port, name="mlx5_west01", netdev="west01"), persist=True))
    act(host.link(dict(port, name="mlx5_gpu01", netdev="gpu01"), persist=True))
    kept = (BootState(host.system, 20, "rdma_link").read() or {})["ports"]
    assert kept == [dict(port, name="mlx5_gpu01", netdev="gpu01")]


def test_a_refused_spec_is_not_kept(host: Host) -> None:
    refused(host.link(rxe(1), {"name": "rxe0", "type": "rxe", "netdev": "mgmt0"}, persist=True))
    assert not (host.root / "etc").exists()


def test_a_link_that_the_kernel_refuses_names_the_port(host: Host) -> None:
    link = host.link(rxe(1))
    (change,) = link.changes(link.observe())
    host.device("rxe_gpu01", "rxe", 5)  # made by another meanwhile
    with pytest.raises(
        RailyardError, match=r"^ports\[0\]: File exists \(EEXIST\).*Remedy: another device has the name"
    ):
        change.act()


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [
        ({"a": "a"}, []),
        ({"a": "b", "b": "c"}, [("b", "c"), ("a", "b")]),
        ({"a": "b", "b": "a"}, [("a", "railyard-1"), ("b", "a"), ("railyard-1", "b")]),
    ],
)
def test_order_of_renames(wanted: dict[str, str], steps: list[tuple[str, str]]) -> None:
    assert renames(["a", "b", "railyard-0"], wanted) == steps


# -- taken back ------------------------------------------------------------------------------------------------------

KEPT = "/etc/railyard/boot.d/20-rdma_link.json"
NOTED = "/run/railyard/until_boot/rdma_link"
NAMES_STAY = "the RDMA devices mlx5_gpu03, mlx5_gpu04 keep their names until the next boot"


def made(host: Host) -> Host:
    """Two soft links and two named devices, kept for boot, beside a soft link of another."""
    for number, name in ((3, "mlx5_0"), (4, "mlx5_1")):
        host.device(name, "hardware", number)
    host.device("rxe0", "rxe", 7)
    act(host.link(rxe(1), rxe(2), nic(3, "mlx5_gpu03"), nic(4, "mlx5_gpu04"), persist=True))
    return host


def take_back(host: Host, *ports: dict[str, t.Any], **options: t.Any) -> tuple[list[tuple[t.Any, ...]], list[str]]:
    """The planned changes, applied; the second run changes nothing and reports the same."""
    options = dict({"persist": True, "state": "absent"}, **options)
    foreseen = host.link(*ports, **options)
    expected = foreseen.changes(foreseen.observe())
    link = host.link(*ports, **options)
    done = act(link)
    assert done == [(each.subject, each.attribute, each.before, each.after) for each in expected]
    reported = link.outcome({}, [])
    assert foreseen.outcome({}, expected) == reported
    again = host.link(*ports, **options)
    assert again.changes(again.observe()) == []
    assert again.outcome({}, []) == reported and reported["reboot_required"] == bool(reported["reboot_reasons"])
    return done, reported["reboot_reasons"]


def test_absent_removes_links_and_reports_names(host: Host) -> None:
    done, reasons = take_back(made(host))
    assert [each[:2] for each in done[:4]] == [
        ("rxe_gpu01", "link"),
        ("rxe_gpu02", "link"),
        (NOTED, "reboot_reasons"),
        (KEPT, "options"),
    ]
    assert reasons == [NAMES_STAY] and not host.system.exists("/etc/railyard")
    assert host.names() == {"enp3s0": "mlx5_gpu03", "enp4s0": "mlx5_gpu04", "enp7s0": "rxe0"}
    # of a port that is set up again, nothing waits for a boot; of the other it does
    left = ["the RDMA device mlx5_gpu04 keeps its name until the next boot"]
    assert act(host.link(nic(3, "mlx5_gpu03"), persist=True))[-1] == (NOTED, "reboot_reasons", [NAMES_STAY], left)
    assert act(host.link(nic(3, "mlx5_gpu03"), persist=True)) == []
    assert act(host.link(nic(4, "mlx5_gpu04"), persist=True))[-1] == (NOTED, "reboot_reasons", left, None)
    assert not host.system.exists(NOTED)


def test_absent_of_some_ports(host: Host) -> None:
    made(host)
    done, reasons = take_back(host, {"name": "rxe_gpu01"}, nic(3, "mlx5_gpu03"))
    assert [each[0] for each in done] == ["rxe_gpu01", NOTED, KEPT]
    assert reasons == ["the RDMA device mlx5_gpu03 keeps its name until the next boot"]
    assert [each["name"] for each in json.loads(host.system.read(KEPT) or "")["options"]["ports"]] == [
        "mlx5_gpu04",
        "rxe_gpu02",
    ]
    # a link of another, named with its type, and hardware that never was ours
    assert [each[0] for each in take_back(host, {"name": "rxe0", "type": "rxe"}, nic(8, "mlx5_8"))[0]] == ["rxe0"]
    assert host.names() == {"enp2s0": "rxe_gpu02", "enp3s0": "mlx5_gpu03", "enp4s0": "mlx5_gpu04"}
    assert take_back(host)[1] == reasons + ["the RDMA device mlx5_gpu04 keeps its name until the next boot"]


def test_absent_without_persist_removes_only_live_settings(host: Host) -> None:
    done, _reasons = take_back(made(host), persist=False)
    assert [each[0] for each in done] == ["rxe_gpu01", "rxe_gpu02"] and host.system.exists(KEPT)


def test_absent_on_an_unprepared_node_changes_nothing(host: Host) -> None:
    host.device("rxe0", "rxe", 7)
    assert take_back(host) == ([], []) and host.names() == {"enp7s0": "rxe0"}


def test_absent_of_a_link_in_use(host: Host) -> None:
    made(host)
    host.users["rxe_gpu02"] = [codec.u32(rdma_netlink.ATTR_RES_PID, 4711)]
    assert "rxe_gpu02 is in use by" in refused(host.link(state="absent", persist=True))
    assert host.system.exists(KEPT) and len(host.names()) == 5
    assert take_back(host, force=True)[1] == [NAMES_STAY]


def test_absent_killed_at_any_point_is_completed_by_the_next_run(tmp_path: Path) -> None:
    for number in range(99):
        root = tmp_path / str(number)
        root.mkdir()
        host = made(Host(root))
        link = host.link(state="absent", persist=True)
        wanted = link.changes(link.observe())
        for change in wanted[:number]:
            change.act()
        assert take_back(host)[1] == [NAMES_STAY]
        assert sorted(host.names()) == ["enp3s0", "enp4s0", "enp7s0"] and not host.system.exists("/etc/railyard")
        if number > len(wanted):
            break
    assert number > 9


def test_absent_keeps_the_management_path_until_the_boot(host: Host) -> None:
    made(host)
    host.put("proc/net/route", (host.system.read("/proc/net/route") or "").replace("mgmt0", "enp2s0"))
    why = "enp2s0 carries the default route"
    for named in ({"name": "rxe_gpu02"}, {"name": "rxe_gpu02", "type": "rxe"}):
        assert why in refused(host.link(named, state="absent", persist=True))
    _done, reasons = take_back(host)
    assert reasons == ["rxe_gpu02 stays until the next boot: " + why, NAMES_STAY]
    assert host.names()["enp2s0"] == "rxe_gpu02" and "enp1s0" not in host.names()
    # freed, and named: then it does not stay
    host.put("proc/net/route", "")
    done, reasons = take_back(host, {"name": "rxe_gpu02", "type": "rxe"})
    assert [each[0] for each in done] == ["rxe_gpu02", NOTED] and reasons == [NAMES_STAY]


def test_a_removed_rail_has_no_persistent_settings_if_the_ports_are_complete(host: Host) -> None:
    """Its soft link came back with each boot, and for a card that went with it the boot waited for two minutes."""
    made(host)
    options = {"persist": True, "complete": True}
    shutil.rmtree(host.root / "sys/devices/pci0000:00/0000:04:00.0")
    (host.root / "sys/bus/pci/devices/0000:04:00.0").unlink()
    del host.devices[next(index for index, row in host.devices.items() if row["name"] == "mlx5_gpu04")]
    host.users["rxe_gpu02"] = [codec.u32(rdma_netlink.ATTR_RES_PID, 4711)]
    assert "rxe_gpu02 is in use by" in refused(host.link(rxe(1), **options))
    del host.users["rxe_gpu02"]
    done = act(host.link(rxe(1), **options))
    note = ["the RDMA device mlx5_gpu03 keeps its name until the next boot"]
    assert [each[:2] for each in done] == [("rxe_gpu02", "link"), (NOTED, "reboot_reasons"), (KEPT, "options")]
    assert stored(host.system.read(NOTED)) == note
    kept = (BootState(host.system, 20, "rdma_link").read() or {})["ports"]
    assert [each["name"] for each in kept] == ["rxe_gpu01"] and host.names()["enp7s0"] == "rxe0"
    # a soft link that has another name now is not one that left
    act(host.link(rxe(1, "rxe_west01"), **options))
    assert host.names()["enp1s0"] == "rxe_west01" and len(host.names()) == 3
    act(host.link(**options))
    assert sorted(host.names()) == ["enp3s0", "enp7s0"] and not host.system.exists(KEPT)
    assert stored(host.system.read(NOTED)) == note


def test_a_management_link_of_a_removed_rail_stays_until_the_boot(host: Host) -> None:
    made(host)
    host.put("proc/net/route", (host.system.read("/proc/net/route") or "").replace("mgmt0", "enp2s0"))
    act(host.link(rxe(1), persist=True, complete=True))
    assert stored(host.system.read(NOTED))[0].startswith("rxe_gpu02 stays until the next boot: enp2s0")
    assert host.names()["enp2s0"] == "rxe_gpu02"


def test_present_keeps_records_of_soft_links_that_stay(host: Host) -> None:
    made(host)
    host.put("proc/net/route", (host.system.read("/proc/net/route") or "").replace("mgmt0", "enp2s0"))
    stays = take_back(host)[1][0]
    host.put("proc/net/route", "")
    ports = (rxe(1), nic(3, "mlx5_gpu03"), nic(4, "mlx5_gpu04"))
    act(host.link(*ports, persist=True))
    assert stored(host.system.read(NOTED)) == [stays] and stays.startswith("rxe_gpu02 stays")
    act(host.link(*ports, rxe(2), persist=True))
    assert not host.system.exists(NOTED)


def test_a_soft_link_of_the_management_path_is_not_removed_by_its_name(host: Host) -> None:
    host.device("rxe0", "rxe", 0x1E)
    assert "mgmt0 carries the default route" in refused(host.link({"name": "rxe0", "type": "rxe", "state": "absent"}))


def test_absent_of_a_device_in_a_pod(host: Host) -> None:
    """A whole device is not visible in rdma mode exclusive, and has its name all the same."""
    made(host)
    del host.devices[next(index for index, row in host.devices.items() if row["name"] == "mlx5_gpu03")]
    (host.root / "sys/devices/pci0000:00/0000:03:00.0/infiniband").mkdir()
    next(row for row in host.devices.values() if row["name"] == "rxe_gpu01")["netdev"] = ""
    _done, reasons = take_back(host)
    assert reasons == ["rxe_gpu01 stays until the next boot: its netdev is in another network namespace", NAMES_STAY]


def test_absent_of_unknown_names(host: Host) -> None:
    made(host)
    host.devices.clear()
    assert take_back(host)[1] == [] and not host.system.exists("/etc/railyard")
