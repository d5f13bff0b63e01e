# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand ports on a tree that answers as drivers/infiniband/ulp/ipoib does, and keeps what is written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    Errors,
    RailyardError,
    Refused,
    Unsupported,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.stored_notes import stored
from tests.unit.node.trees import INFINIBAND, Tree

FIRST, SECOND = "0000:18:00.0", "0000:40:00.0"
NO_HOLDERS = ManagementPath({}, {})
SMINFO = (Path(__file__).parents[2] / "recordings/infiniband/sminfo-master.txt").read_text()
Option = t.Dict[str, t.Any]


class IbKernel(System):
    """Two ports with IPoIB. ``enhanced``: it has no connected mode; ``kill_at``: the write that is the last one."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), self.answer)
        self.tree = Tree(root)
        self.enhanced = False
        self.kill_at: int | None = None
        self.writes: list[tuple[str, str]] = []
        self.sminfo: CommandResult | None = None
        for number, pci in enumerate((FIRST, SECOND), 1):
            self.tree.function("pci0000:00/0000:00:0%d.0/%s" % (number, pci), INFINIBAND)
            self.tree.rdma(pci, "mlx5_%d" % number)
            name = "ibs%d" % number
            self.tree.netdev(pci, name, type="32", mtu="4092", flags="0x1003", dev_port="0x0", mode="datagram")
            self.port("mlx5_%d" % number)

    def port(self, device: str, state: str = "4: ACTIVE", physical: str = "5: LinkUp", sm_lid: str = "0x19") -> None:
        place = "/sys/class/infiniband/%s/ports/1" % device
        values = {"state": state, "phys_state": physical, "sm_lid": sm_lid, "lid": "0xc", "rate": "400 Gb/sec (4X NDR)"}
        for name, text in dict(values, **{"pkeys/0": "0xffff", "pkeys/1": "0x8001", "pkeys/2": "0x0000"}).items():
            self.tree.write("%s/%s" % (place, name), text)

    def which(self, program: str) -> str | None:
        return "/usr/sbin/sminfo" if program == "sminfo" and self.sminfo else None

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        assert argv[0] == "/usr/sbin/sminfo" and argv[1] == "-C" and argv[3:] == ["-P", "1"]
        return self.sminfo or CommandResult(127, "", "")

    def write_attribute(self, path: str, text: str) -> None:
        if self.kill_at is not None and len(self.writes) >= self.kill_at:
            raise Killed
        netdev, attribute = path.split("/")[-2:]
        if attribute == "mode" and (text not in ("datagram\n", "connected\n") or (self.enhanced and "conn" in text)):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.writes.append((path, text))
        if attribute == "mode":
            self.tree.write(path, text.strip())
            return
        key = int(text, 0)
        child = "%s.%04x" % (netdev, key)
        there = self.exists("/sys/class/net/" + child)
        if attribute == "create_child":
            if there:
                raise OSError(errno.ENOTUNIQ, os.strerror(errno.ENOTUNIQ))
            self.child(netdev, key)
        else:
            if not there:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            shutil.rmtree(os.path.realpath(self.tree.root / ("sys/class/net/" + child)))
            os.unlink(self.tree.root / ("sys/class/net/" + child))

    def child(self, netdev: str, key: int) -> str:
        pci = os.path.basename(os.path.realpath(self.tree.root / ("sys/class/net/%s/device" % netdev)))
        child = "%s.%04x" % (netdev, key)
        self.tree.netdev(pci, child, type="32", mtu="4092", flags="0x1002", parent=netdev, pkey="0x%04x" % key)
        return child

    def up(self, netdev: str) -> None:
        assert self.exists("/sys/class/net/" + netdev)
        self.tree.write("/sys/class/net/%s/flags" % netdev, "0x1003")

    def children(self) -> list[str]:
        return [name for name in self.listdir("/sys/class/net") if "." in name]

    def ports(self, *ports: Option, management: ManagementPath = NO_HOLDERS, **options: t.Any) -> IbPorts:
        return IbPorts(dict(options, ports=list(ports)), self, management=management, bring_up=self.up)

    def apply(self, *ports: Option, **options: t.Any) -> list[tuple[str, str, t.Any]]:
        foreseen = self.ports(*ports, **options)
        expected = [each.as_dict() for each in foreseen.changes(foreseen.observe())]
        subsystem = self.ports(*ports, **options)
        done: list[Change] = []
        state = subsystem.observe()
        converge(subsystem, state, subsystem.changes(state), done)
        assert [each.as_dict() for each in done] == expected
        again = self.ports(*ports, **options)
        assert again.changes(again.observe()) == []
        return [(each.subject, each.attribute, each.after) for each in done if not each.subject.startswith("/")]


@pytest.fixture
def kernel(tmp_path: Path) -> IbKernel:
    return IbKernel(tmp_path)


def test_mode_and_children_are_set_once(kernel: IbKernel) -> None:
    kernel.tree.write("/sys/class/net/ibs1/mode", "connected")
    wanted = [{"pci": FIRST, "mode": "datagram", "pkeys": ["0x8001", "2"]}, {"netdev": "ibs2", "pkeys": ["0x1"]}]
    assert kernel.apply(*wanted) == [
        ("ibs1", "mode", "datagram"),
        ("ibs1.8001", "pkey", "0x8001"),
        ("ibs1.8002", "pkey", "0x8002"),
        ("ibs2.8001", "pkey", "0x8001"),
    ]
    assert kernel.children() == ["ibs1.8001", "ibs1.8002", "ibs2.8001"]
    assert kernel.read("/sys/class/net/ibs1.8002/flags") == "0x1003"
    kernel.tree.write("/sys/class/net/ibs1.8002/flags", "0x1002")
    assert kernel.apply(*wanted) == [("ibs1.8002", "up", True)]


def test_an_unplanned_partition_is_removed_and_children_of_others_are_kept(kernel: IbKernel) -> None:
    theirs = kernel.child("ibs1", 0x8009)
    kernel.apply({"pci": FIRST, "pkeys": ["0x8001", "0x8002"]})
    assert kernel.apply({"pci": FIRST, "pkeys": ["0x8002"]}) == [("ibs1.8001", "pkey", None)]
    assert kernel.children() == ["ibs1.8002", theirs]
    # a port that is not named any more loses what it had from here
    assert kernel.apply({"pci": SECOND}) == [("ibs1.8002", "pkey", None)]
    assert not kernel.exists("/etc/railyard/boot.d/15-ib_ports.json")


def test_the_boot_program_sets_the_same(kernel: IbKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.apply({"pci": FIRST, "netdev": "ibs1", "mode": "datagram", "pkeys": ["0x8001"]}, {"pci": SECOND})
    rules = kernel.read_file("/etc/udev/rules.d/90-railyard-ib_ports.rules") or ""
    assert 'KERNEL=="%s"' % FIRST in rules and SECOND not in rules
    os.unlink(kernel.tree.root / "sys/class/net/ibs1.8001")
    monkeypatch.setattr(
        "ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports._bring_up",
        kernel.up,
        raising=True,
    )
    assert boot_program.main([], kernel, patience=0) == 0
    assert kernel.children() == ["ibs1.8001"]
    # the manager may come later than the port
    kernel.port("mlx5_1", "2: INIT", sm_lid="0x0")
    assert boot_program.main([], kernel, patience=0) == 0


def test_a_kill_at_any_point_is_fixed_by_the_next_run(kernel: IbKernel) -> None:
    wanted = [{"pci": FIRST, "mode": "connected", "pkeys": ["0x8001", "0x8002"]}, {"pci": SECOND, "pkeys": ["0x8001"]}]
    for at in range(4):
        kernel.kill_at = len(kernel.writes) + at
        subsystem = kernel.ports(*wanted)
        with pytest.raises(Killed):
            converge(subsystem, {}, subsystem.changes(subsystem.observe()), [])
        kernel.kill_at = None
        kernel.apply(*wanted)
        assert kernel.children() == ["ibs1.8001", "ibs1.8002", "ibs2.8001"]
        kernel.apply({"pci": FIRST, "mode": "datagram"}, {"pci": SECOND})
        assert kernel.children() == []


def test_a_card_without_connected_mode(kernel: IbKernel) -> None:
    kernel.enhanced = True
    subsystem = kernel.ports({"pci": FIRST, "mode": "connected"})
    with pytest.raises(Unsupported, match="has none but datagram") as caught:
        converge(subsystem, {}, subsystem.changes(subsystem.observe()), [])
    assert caught.value.place == "ports[0].mode" and "ipoib_enhanced=0" in caught.value.remedy


def test_the_interface_of_the_connection_is_not_changed(kernel: IbKernel) -> None:
    management = ManagementPath({"ibs2": "carries this connection"}, {})
    assert kernel.ports({"pci": SECOND, "mode": "datagram"}, management=management).changes
    subsystem = kernel.ports(
        {"pci": FIRST, "mode": "connected"}, {"pci": SECOND, "mode": "connected"}, management=management
    )
    with pytest.raises(Refused, match="ibs2 is not changed: carries this connection"):
        subsystem.changes(subsystem.observe())
    assert kernel.writes == []


def manager(kernel: IbKernel, **options: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    subsystem = kernel.ports({"pci": FIRST, "pkeys": ["0x8001"]}, **options)
    state = subsystem.observe()
    subsystem.changes(state)
    return state["ports"][0]["subnet_manager"], subsystem.warnings


def test_a_reachable_subnet_manager(kernel: IbKernel) -> None:
    found, warnings = manager(kernel)
    assert found["reachable"] and (found["lid"], found["sm_lid"], found["guid"]) == (12, 25, None) and not warnings
    kernel.sminfo = CommandResult(0, SMINFO, "")
    found, warnings = manager(kernel)
    assert (found["guid"], found["priority"], found["role"]) == ("0x7cfe90030016aef1", 14, "SMINFO_MASTER")
    assert found["virtualization"] is None and not warnings


def test_a_missing_subnet_manager(kernel: IbKernel) -> None:
    kernel.port("mlx5_1", "2: INIT", sm_lid="0x0")
    found, warnings = manager(kernel)
    assert not found["reachable"]
    assert warnings[0].startswith("ports[0]: ibs1 has no subnet manager: the port is INIT (LinkUp). Remedy: start a")
    with pytest.raises(RailyardError, match="has no subnet manager"):
        manager(kernel, subnet_manager="required")
    assert manager(kernel, subnet_manager="ignored")[1] == []
    # the port keeps the LID of a manager that has died
    kernel.port("mlx5_1")
    kernel.sminfo = CommandResult(1, "", "ibwarn: [1] _do_madrpc: recv failed\nsminfo: iberror: failed: query\n")
    _found, warnings = manager(kernel)
    assert "the subnet manager with the LID 25 does not answer" in warnings[0]


def test_a_partition_that_the_manager_does_not_give(kernel: IbKernel) -> None:
    subsystem = kernel.ports({"pci": FIRST, "pkeys": ["0x8002"]}, subnet_manager="required")
    with pytest.raises(RailyardError, match="has not put ibs1 into the partition 0x8002") as caught:
        subsystem.changes(subsystem.observe())
    assert caught.value.place == "ports[0].pkeys"


def test_a_manager_that_does_not_serve_vfs(kernel: IbKernel) -> None:
    vf = kernel.tree.vf(FIRST, 0, "pci0000:00/0000:00:01.0/0000:18:00.2")
    kernel.tree.rdma(vf, "mlx5_9")
    for name, text in (("node_guid", "0000:0000:0000:0000"), ("ports/1/state", "1: DOWN")):
        kernel.tree.write("/sys/class/infiniband/mlx5_9/" + name, text)
    assert manager(kernel)[0]["virtualization"] is None, "a VF without a GUID shows nothing"
    kernel.tree.write("/sys/class/infiniband/mlx5_9/node_guid", "1234:0000:0000:0001")
    found, warnings = manager(kernel)
    assert found["virtualization"] is False and "none of its VFs that have GUIDs is" in warnings[0]
    kernel.tree.write("/sys/class/infiniband/mlx5_9/ports/1/state", "4: ACTIVE")
    assert manager(kernel)[0]["virtualization"] is True


@pytest.mark.parametrize(
    ("port", "place"),
    [
        ({"mode": "datagram"}, "ports[0]"),
        ({"pci": "0000:99:00.0"}, "ports[0].pci"),
        ({"netdev": "ibs9"}, "ports[0].netdev"),
        ({"netdev": "eth0"}, "ports[0].netdev"),
        ({"netdev": "ibs1", "pkeys": ["0xffff"]}, "ports[0].pkeys[0]"),
        ({"netdev": "ibs1", "pkeys": ["x"]}, "ports[0].pkeys[0]"),
    ],
)
def test_ports_that_are_invalid(kernel: IbKernel, port: Option, place: str) -> None:
    kernel.tree.write("/sys/class/net/eth0/type", "1")
    with pytest.raises(RailyardError) as caught:
        kernel.ports(port).observe()
    assert caught.value.place == place and caught.value.remedy


def test_every_error_is_reported_at_once(kernel: IbKernel) -> None:
    with pytest.raises(Errors) as caught:
        kernel.ports({"pci": "0000:99:00.0"}, {"netdev": "ibs9"}).observe()
    assert [error.place for error in caught.value.errors] == ["ports[0].pci", "ports[1].netdev"]


def test_all_ports_are_gathered_without_their_children(kernel: IbKernel) -> None:
    kernel.child("ibs1", 0x8001)
    options = {"ports": None, "state": "gathered", "persist": True}
    rows = IbPorts(options, kernel).observe()["ports"]
    assert [(row["pci"], row["netdev"], row["mode"], row["mtu"], row["children"]) for row in rows] == [
        (FIRST, "ibs1", "datagram", 4092, ["ibs1.8001"]),
        (SECOND, "ibs2", "datagram", 4092, []),
    ]
    assert rows[0]["known_pkeys"] == ["0x8001", "0xffff"]


def test_a_port_that_a_pod_has_is_not_changed_and_stays_persistent(kernel: IbKernel) -> None:
    wanted = [{"pci": FIRST, "mode": "datagram", "pkeys": ["0x8001"]}, {"pci": SECOND, "pkeys": ["0x8002"]}]
    shutil.rmtree(kernel.tree.root / ("sys/bus/pci/devices/%s/net/ibs1" % FIRST))
    os.unlink(kernel.tree.root / "sys/class/net/ibs1")
    assert [each for each in kernel.apply(*wanted) if each[1] == "pkey"] == [("ibs2.8002", "pkey", "0x8002")]
    kept = json.loads(kernel.read_file("/etc/railyard/boot.d/15-ib_ports.json") or "")["options"]["ports"]
    assert [each["pci"] for each in kept] == [FIRST, SECOND]
    ports = kernel.ports(*wanted)
    ports.changes(ports.observe())
    assert "ports[0] (%s) is not changed: its netdev is in another" % FIRST in ports.warnings[0]


# -- taken back ------------------------------------------------------------------------------------------------------

KEPT = "/etc/railyard/boot.d/15-ib_ports.json"
NOTED = "/run/railyard/until_boot/ib_ports"
MODE_STAYS = "IPoIB mode of ibs1 stays as set until the next boot"
WANTED = [
    {"pci": FIRST, "netdev": "ibs1", "mode": "connected", "pkeys": ["0x8001", "0x8002"]},
    {"netdev": "ibs2", "pkeys": ["0x8001"]},
]


def take_back(
    kernel: IbKernel, management: ManagementPath = NO_HOLDERS, **options: t.Any
) -> tuple[list[t.Any], list[str]]:
    """The planned changes, applied; the second run changes nothing and reports the same."""
    options = dict({"state": "absent"}, **options)
    foreseen = kernel.ports(management=management, **options)
    expected = foreseen.changes(foreseen.observe())
    it = kernel.ports(management=management, **options)
    done: list[Change] = []
    state = it.observe()
    converge(it, state, it.changes(state), done)
    assert [each.as_dict() for each in done] == [each.as_dict() for each in expected]
    reported = it.outcome({}, [])
    assert foreseen.outcome({}, expected) == reported
    again = kernel.ports(management=management, **options)
    assert again.changes(again.observe()) == [] and again.warnings == []
    assert again.outcome({}, []) == reported and reported["reboot_required"] == bool(reported["reboot_reasons"])
    return [(each.subject, each.attribute, each.after) for each in done], reported["reboot_reasons"]


def test_absent_removes_our_children_and_reports_the_mode(kernel: IbKernel) -> None:
    theirs = kernel.child("ibs1", 0x8009)
    kernel.apply(*WANTED)
    kernel.sminfo = CommandResult(1, "", "the manager is not asked")
    done, reasons = take_back(kernel)
    assert done[:5] == [
        ("ibs1.8001", "pkey", None),
        ("ibs1.8002", "pkey", None),
        ("ibs2.8001", "pkey", None),
        (NOTED, "reboot_reasons", [MODE_STAYS]),
        ("/etc/udev/rules.d/90-railyard-ib_ports.rules", "rules", None),
    ]
    assert reasons == [MODE_STAYS] and kernel.children() == [theirs] and not kernel.exists("/etc/railyard")
    assert kernel.read("/sys/class/net/ibs1/mode") == "connected"
    # set up again, nothing waits for a boot
    kernel.apply(*WANTED)
    assert not kernel.exists(NOTED)


def test_a_port_by_its_other_name_is_the_same_port(kernel: IbKernel) -> None:
    """Its address was not in the fabric file before: the child was taken away, and the run ended in an error."""
    kernel.apply({"netdev": "ibs1", "pkeys": ["0x8001"]})
    done = kernel.apply({"pci": FIRST, "netdev": "ibs1", "pkeys": ["0x8001"]})
    assert done == [] and kernel.children() == ["ibs1.8001"]


def test_a_too_long_name_of_a_child_is_refused_before_any_change(kernel: IbKernel) -> None:
    kernel.tree.netdev(FIRST, "ibrail00001", type="32", mtu="4092", flags="0x1003", mode="datagram")
    it = kernel.ports({"netdev": "ibrail00001", "mode": "connected", "pkeys": ["0x8001"]})
    with pytest.raises(RailyardError, match="ibrail00001.8001 is longer than an interface's name may be") as caught:
        it.changes(it.observe())
    assert "ports[0].pkeys" in str(caught.value) and kernel.writes == []


@pytest.mark.parametrize("key", ["0x8001", "0x8002"])
def test_a_child_that_carries_the_connection_is_not_removed(kernel: IbKernel, key: str) -> None:
    management = ManagementPath({"ibs1.8001": "carries this connection"}, {})
    kernel.apply(*WANTED)
    it = kernel.ports(dict(WANTED[0], pkeys=["0x8002"]), WANTED[1], management=management)
    with pytest.raises(RailyardError, match="ibs1.8001 is not changed: carries this connection"):
        it.changes(it.observe())
    # of a port that is not a rail's any more it stays too, and is reported until the boot
    done: list[Change] = []
    it = kernel.ports(WANTED[1], management=management)
    state = it.observe()
    converge(it, state, it.changes(state), done)
    assert kernel.children() == ["ibs1.8001", "ibs2.8001"]
    stays = "ibs1.8001 stays until the next boot: carries this connection"
    again = kernel.ports(WANTED[1], management=management)
    assert again.changes(again.observe()) == []
    assert stored(kernel.read(NOTED)) == [MODE_STAYS, stays]
    # what is wanted again does not wait for a boot
    kernel.apply(WANTED[1], {"pci": FIRST, "netdev": "ibs1", "pkeys": [key]})
    assert stored(kernel.read(NOTED)) == [MODE_STAYS, *([stays] if key == "0x8002" else [])]
    kernel.apply(*WANTED)
    assert not kernel.exists(NOTED)


def test_a_port_removed_from_the_fabric_while_a_pod_has_it_stays_recorded(kernel: IbKernel) -> None:
    kernel.apply(*WANTED)
    given_to_a_pod(kernel)
    it = kernel.ports(WANTED[1])
    done: list[Change] = []
    state = it.observe()
    converge(it, state, it.changes(state), done)
    noted = stored(kernel.read(NOTED))
    assert noted[0] == MODE_STAYS and noted[1].startswith("ibs1.8001 stays until the next boot: its netdev is in")


def test_a_manager_that_is_ignored_is_not_asked(kernel: IbKernel) -> None:
    """At boot it may be away, and each port would wait for it."""
    kernel.sminfo = CommandResult(124, "", "no answer within 10 s")
    it = kernel.ports(WANTED[0], subnet_manager="ignored")
    assert it.observe()["ports"][0]["subnet_manager"]["reachable"]


def test_absent_without_persist_removes_only_live_settings(kernel: IbKernel) -> None:
    kernel.apply(*WANTED)
    assert [each[0] for each in take_back(kernel, persist=False)[0]] == ["ibs1.8001", "ibs1.8002", "ibs2.8001"]
    assert kernel.exists(KEPT)


def test_absent_on_an_unprepared_node_changes_nothing(kernel: IbKernel) -> None:
    kernel.child("ibs1", 0x8001)
    assert take_back(kernel) == ([], []) and kernel.children() == ["ibs1.8001"]


def test_absent_with_ports_is_refused(kernel: IbKernel) -> None:
    with pytest.raises(RailyardError, match="reverts the settings of all ports, not of some") as caught:
        kernel.ports({"pci": FIRST}, state="absent")
    assert caught.value.place == "ports"


def test_absent_killed_at_any_point_is_completed_by_the_next_run(tmp_path: Path) -> None:
    for number in range(99):
        root = tmp_path / str(number)
        root.mkdir()
        kernel = IbKernel(root)
        kernel.apply(*WANTED)
        it = kernel.ports(state="absent")
        wanted = it.changes(it.observe())
        for change in wanted[:number]:
            change.act()
        assert take_back(kernel)[1] == [MODE_STAYS]
        assert kernel.children() == [] and not kernel.exists("/etc/railyard")
        if number > len(wanted):
            break
    assert number > 11


def test_absent_keeps_the_management_path_until_the_boot(kernel: IbKernel) -> None:
    kernel.apply(*WANTED)
    management = ManagementPath({"ibs2": "carries this connection", "ibs1.8002": "carries the default route"}, {})
    _done, reasons = take_back(kernel, management)
    assert reasons == [
        MODE_STAYS,
        "ibs1.8002 stays until the next boot: carries the default route",
        "ibs2.8001 stays until the next boot: carries this connection",
    ]
    assert kernel.children() == ["ibs1.8002", "ibs2.8001"] and not kernel.exists("/etc/railyard")


def given_to_a_pod(kernel: IbKernel) -> None:
    for name in ("ibs1", "ibs1.8001", "ibs1.8002"):
        shutil.rmtree(kernel.tree.root / ("sys/bus/pci/devices/%s/net/%s" % (FIRST, name)))
    os.unlink(kernel.tree.root / "sys/class/net/ibs1")
    place = kernel.tree.root / "sys/class/net/ibs1.8001"
    for name in ("ibs1.8001", "ibs1.8002"):
        os.unlink(place.with_name(name))
    for name, text in (("parent", "ibs1"), ("pkey", "0x8001"), ("flags", "0x1003")):
        kernel.tree.write("/sys/class/net/ibs1.8001/" + name, text)


def test_absent_of_a_port_that_a_pod_has(kernel: IbKernel) -> None:
    kernel.apply(*WANTED)
    given_to_a_pod(kernel)
    done, reasons = take_back(kernel)
    assert done[0] == ("ibs2.8001", "pkey", None) and reasons[0] == MODE_STAYS
    assert reasons[1].startswith("ibs1.8001 stays until the next boot: its netdev is in another network namespace")
    assert len(reasons) == 2 and kernel.children() == ["ibs1.8001"]


def test_absent_of_a_missing_card(kernel: IbKernel) -> None:
    kernel.apply(*WANTED)
    for name in ("ibs1", "ibs1.8001", "ibs1.8002"):
        os.unlink(kernel.tree.root / ("sys/class/net/" + name))
    os.unlink(kernel.tree.root / ("sys/bus/pci/devices/" + FIRST))
    done, reasons = take_back(kernel)
    assert done[0] == ("ibs2.8001", "pkey", None) and reasons == []
