# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a VF: everything but what is in other namespaces is read from a tree; the lab has real namespaces."""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import namespace_entry
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Address
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import namespace_holders, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.namespace_holders import Elsewhere
from tests.unit.node.trees import Tree, no_file_left

VF = "0000:05:10.0"
POD = "net:[4026532281]"


SCOPES = {"global": 0, "link": 253, "host": 254}


def link(index: int, name: str) -> Link:
    return Link(index, name, True, 1500, 68, 9216, b"", ())


class Table:
    def __init__(self, *addresses: tuple[str, str]) -> None:
        self.rows = [Address(20, ipaddress.ip_interface(address), SCOPES[scope], 0) for address, scope in addresses]

    def links(self, vfs: bool = False) -> list[Link]:
        return [link(1, "lo"), link(20, "enp5s0v0")]

    def addresses(self) -> list[Address]:
        return [Address(1, ipaddress.ip_interface("127.0.0.1/8"), SCOPES["host"], 0), *self.rows]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:05.0/" + VF)
    tree.driver(VF, "igbvf")
    process(tree, 1, "systemd")
    return tree


def process(tree: Tree, pid: int, command: str, *opened: str, namespace: str = "net:[4026531840]") -> None:
    place = tree.root / "proc" / str(pid)
    for directory in ("fd", "ns", "task/%d/ns" % pid):
        (place / directory).mkdir(parents=True)
    tree.write("/proc/%d/comm" % pid, command)
    for number, path in enumerate(opened):
        (place / "fd" / str(number)).symlink_to(path)
    for directory in ("ns", "task/%d/ns" % pid):
        (place / directory / "net").symlink_to(namespace)


def held(tree: Tree, *addresses: tuple[str, str], elsewhere: dict[str, Elsewhere] | None = None) -> list[str]:
    look: t.Any = lambda _system, _namespaces: elsewhere or {}  # noqa: E731
    return vf_holders.of(tree.system(), [VF], Table(*addresses), look)[VF]


def test_a_device_without_holders_is_free(tree: Tree) -> None:
    process(tree, 7, "bash", "/dev/null", "socket:[123]")
    tree.netdev(VF, "enp5s0v0")
    assert held(tree, ("fe80::1/64", "link")) == []


def test_an_address_is_a_holder(tree: Tree) -> None:
    tree.netdev(VF, "enp5s0v0")
    assert held(tree, ("172.16.11.9/24", "global"), ("fd00::9/64", "global")) == [
        "its netdev enp5s0v0 has the address 172.16.11.9/24",
        "its netdev enp5s0v0 has the address fd00::9/64",
    ]


def test_a_user_of_the_device_is_a_holder(tree: Tree) -> None:
    tree.netdev(VF, "enp5s0v0")
    tree.write("/sys/class/net/enp5s0v0/upper_bond0", "")
    tree.write("/sys/class/infiniband/rxe_gpu05/parent", "enp5s0v0")
    tree.write("/sys/class/infiniband/rxe_gpu06/parent", "enp6s0")
    assert held(tree) == [
        "bond0 uses its netdev enp5s0v0",
        "the RDMA link rxe_gpu05 uses its netdev enp5s0v0",
    ]


def test_an_open_vfio_group_holds_and_is_named(tree: Tree) -> None:
    tree.link("/sys/bus/pci/devices/%s/iommu_group" % VF, "/sys/kernel/iommu_groups/12")
    process(tree, 4711, "qemu-system-x86", "/dev/vfio/12", "/dev/vfio/12", "/dev/kvm")
    process(tree, 4712, "other", "/dev/vfio/13", "/dev/12")
    # the group's number has no meaning while a network driver has the VF
    assert held(tree) == []
    tree.driver(VF, "vfio-pci")
    assert held(tree) == ["/dev/vfio/12 is open in qemu-system-x86 pid 4711"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("vfio-dev/vfio3", "/dev/vfio/devices/vfio3"),
        ("uio/uio0", "/dev/uio0"),
        ("infiniband_verbs/uverbs5", "/dev/infiniband/uverbs5"),
    ],
)
def test_other_device_files_hold(tree: Tree, entry: str, path: str) -> None:
    (Path(os.path.realpath(tree.root / "sys/bus/pci/devices" / VF)) / entry).mkdir(parents=True)
    for pid in (11, 12, 13, 14, 15):
        process(tree, pid, "dpdk", path)
    assert held(tree) == ["%s is open in dpdk pid 11, dpdk pid 12, dpdk pid 13, 2 more" % path]


@pytest.mark.parametrize(
    "path", ["/infiniband/uverbs5", "/rootfs/dev/infiniband/uverbs5", "/dev/infiniband/uverbs5 (deleted)"]
)
def test_a_device_file_of_another_mount_namespace_holds(tree: Tree, path: str) -> None:
    (Path(os.path.realpath(tree.root / "sys/bus/pci/devices" / VF)) / "infiniband_verbs/uverbs5").mkdir(parents=True)
    process(tree, 11, "train", path)
    assert held(tree) == ["/dev/infiniband/uverbs5 is open in train pid 11"]


class Busy(System):
    """Other processes start each time when /proc is listed."""

    def __init__(self, tree: Tree, starts: int) -> None:
        super().__init__(str(tree.root))
        self.tree, self.starts = tree, starts

    def listdir(self, path: str, complete: bool = False) -> list[str]:
        found = super().listdir(path, complete)
        if path == "/proc" and self.starts:
            self.starts -= 1
            process(self.tree, 1000 + self.starts, "worker", "/dev/infiniband/uverbs5", namespace=POD)
        return found


@pytest.mark.parametrize("starts", [1, 3])
def test_a_process_that_starts_during_the_scan_is_seen(tree: Tree, starts: int) -> None:
    (Path(os.path.realpath(tree.root / "sys/bus/pci/devices" / VF)) / "infiniband_verbs/uverbs5").mkdir(parents=True)
    system: t.Any = Busy(tree, starts)
    (text,) = vf_holders.of(system, [VF], Table())[VF]
    assert text.count("worker pid") == starts
    assert [len(each.processes) for each in network_namespaces.others(Busy(tree, 0))] == [starts]


def test_processes_that_start_too_fast_are_refused(tree: Tree) -> None:
    with pytest.raises(RailyardError, match="processes start faster than they can be read") as error:
        network_namespaces.others(Busy(tree, 10000), complete=True)
    assert error.value.place == "/proc" and error.value.remedy


def test_what_root_cannot_read_is_refused(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as in a container without CAP_SYS_PTRACE, or with /proc mounted with hidepid=2."""
    (Path(os.path.realpath(tree.root / "sys/bus/pci/devices" / VF)) / "infiniband_verbs/uverbs5").mkdir(parents=True)
    tree.netdev(VF, "enp5s0v0")
    process(tree, 7, "train")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    listdir, readlink = os.listdir, os.readlink

    def deny(name: str, act: t.Any) -> t.Any:
        def denied(path: t.Any) -> t.Any:
            if str(path).endswith(name):
                raise PermissionError(errno.EACCES, "Permission denied")
            return act(path)

        return denied

    for function, name in (
        ("listdir", "/proc/7/fd"),
        ("listdir", "/proc/7/task"),
        ("readlink", "/proc/7/task/7/ns/net"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(os, function, deny(name, listdir if function == "listdir" else readlink))
            with pytest.raises(RailyardError, match="cannot be read: Permission denied") as error:
                held(tree)
            assert error.value.place == name and "become" in error.value.remedy
    shutil.rmtree(tree.root / "proc/1")
    with pytest.raises(RailyardError, match="process 1 is hidden"):
        held(tree)


def test_too_many_open_files_are_not_a_free_device(tree: Tree) -> None:
    (Path(os.path.realpath(tree.root / "sys/bus/pci/devices" / VF)) / "infiniband_verbs/uverbs5").mkdir(parents=True)
    process(tree, 7, "train", "/dev/infiniband/uverbs5")
    with no_file_left(), pytest.raises(RailyardError, match="Too many open files"):
        held(tree)


def test_a_zombie_is_not_an_error() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert str(child) in network_namespaces.processes(System(), complete=True)
        place = "/proc/%d" % child
        for name in ("ns/net", "ns/mnt", "task/%d/ns/net" % child):
            assert System().link_name("%s/%s" % (place, name), complete=True) is None
        assert System().listdir(place + "/fd", complete=True) == []
    finally:
        os.waitpid(child, 0)


def test_a_namespace_that_cannot_be_read_may_use_the_netdev(tree: Tree) -> None:
    tree.netdev(VF, "enp5s0v0")
    process(tree, 77, "pause", namespace=POD)
    assert held(tree) == ["network namespace %s (pause pid 77) cannot be read, and may use its netdev enp5s0v0" % POD]

    def ended(_system: System, _namespaces: t.Any) -> dict[str, Elsewhere]:
        shutil.rmtree(tree.root / "proc/77")
        return {}

    assert vf_holders.of(tree.system(), [VF], Table(), ended)[VF] == []


def test_xen_is_a_holder(tree: Tree) -> None:
    tree.driver(VF, "pciback")
    assert held(tree) == ["Xen holds it for a guest (driver pciback)"]


def test_a_netdev_in_another_namespace(tree: Tree) -> None:
    hide(tree, "net")
    process(tree, 77, "pause", namespace=POD)
    there = Elsewhere([{"name": "net1", "kind": None, "pci": VF, "below": None}], [])
    assert held(tree, elsewhere={POD: there}) == ["its netdev net1 is in network namespace %s (pause pid 77)" % POD]
    assert held(tree) == ["its netdev is in another network namespace, which cannot be entered"]


def test_an_rdma_device_in_another_namespace(tree: Tree) -> None:
    hide(tree, "infiniband")
    (tree.root / tree.real(VF).lstrip("/") / "infiniband_verbs/uverbs5").mkdir(parents=True)
    process(tree, 77, "pause", namespace=POD)
    assert held(tree, elsewhere={POD: Elsewhere([], ["uverbs4", "uverbs5"])}) == [
        "its RDMA device is in network namespace %s (pause pid 77)" % POD
    ]
    assert held(tree) == ["its RDMA device is in another network namespace, which cannot be entered"]


def test_a_macvlan_in_another_namespace_uses_it(tree: Tree) -> None:
    tree.netdev(VF, "enp5s0v0")
    process(tree, 77, "pause", namespace=POD)
    there = Elsewhere(
        [
            {"name": "lo", "kind": None, "pci": None, "below": None},
            {"name": "eth0", "kind": "veth", "pci": None, "below": 9},
            {"name": "net1", "kind": "macvlan", "pci": None, "below": 20},
        ],
        [],
    )
    assert held(tree, elsewhere={POD: there}) == [
        "macvlan net1 in network namespace %s (pause pid 77) uses its netdev enp5s0v0" % POD
    ]


def hide(tree: Tree, what: str) -> None:
    """As sysfs has it while the device is in another namespace: the directory is there and empty."""
    (tree.root / tree.real(VF).lstrip("/") / what).mkdir()


def test_looking_into_no_namespace_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert namespace_holders.look(System(), []) == {}


def test_a_namespace_that_has_ended_is_omitted() -> None:
    gone = Namespace("net:[1]")
    gone.processes[os.getpid()] = "reused"
    gone.mounts.append("/run/netns/there-is-no-such")
    # this process is not in the namespace that is given for it, so it does not lead there
    assert namespace_entry.open_namespace(System(), gone) is None
    assert namespace_holders.look(System(), [gone]) == {}


def test_the_namespace_is_entered_by_the_right_path() -> None:
    here = os.readlink("/proc/self/ns/net")
    own = Namespace(here)
    own.processes[os.getpid()] = "us"
    fd = namespace_entry.open_namespace(System(), own)
    assert fd is not None
    with os.fdopen(fd) as stream:
        assert "net:[%d]" % os.fstat(stream.fileno()).st_ino == here


def test_a_virtual_link_has_no_bus() -> None:
    assert namespace_holders.bus_info("lo") is None


def test_a_moved_device_is_reported_with_its_former_name(tree: Tree) -> None:
    asked: list[int] = []

    def look(_system: System, namespaces: t.Sequence[Namespace]) -> dict[str, Elsewhere]:
        asked.append(len(namespaces))
        row = {"name": "net1", "alias": "enp5s0v0", "mac": "02:00:00:00:00:05", "kind": None, "pci": VF, "below": None}
        return {POD: Elsewhere([row, dict(row, name="eth0", pci=None)], ["uverbs5"])}

    tree.netdev(VF, "enp5s0v0")
    process(tree, 4711, "pause", namespace=POD)
    system = tree.system()
    assert vf_holders.moved(system, [VF, None, "0000:ff:00.0"], look=look) == {} and asked == []
    os.unlink(tree.root / "sys/class/net/enp5s0v0")
    shutil.rmtree(tree.root / "sys/bus/pci/devices" / VF / "net")
    hide(tree, "net")
    why = "its netdev net1 is in network namespace %s (pause pid 4711)" % POD
    assert vf_holders.moved(system, [VF, None], look=look) == {VF: (why, "enp5s0v0", "02:00:00:00:00:05")}
    # access denied, or it disappeared before
    blind = vf_holders.moved(system, [VF], look=lambda _system, _namespaces: {})
    assert blind == {VF: ("its netdev is in another network namespace, which cannot be entered", None, None)}
    assert vf_holders.moved(system, [VF], "infiniband", look) == {}
    tree.write("/sys/bus/pci/devices/%s/infiniband_verbs/uverbs5/dev" % VF, "231:5")
    hide(tree, "infiniband")
    (found,) = vf_holders.moved(system, [VF], "infiniband", look).values()
    assert "its RDMA device is in network namespace %s (pause pid 4711)" % POD in found.why
