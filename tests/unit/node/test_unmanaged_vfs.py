# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs on a node with NetworkManager, which sets up every NIC that no udev rule excludes."""

from __future__ import annotations

import contextlib
import ipaddress
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import FILE, STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Address
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov import unmanaged_vfs
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import SriovVfs
from tests.unit.node.nic_kernel import Killed, NicKernel, NicTable

PF, OTHER = "0000:05:00.0", "0000:06:00.0"
PORT, OTHER_PORT = {"pci": PF, "count": 2}, {"pci": OTHER, "count": 1}
RULES, LIVE_RULES = unmanaged_vfs.FILE, unmanaged_vfs.LIVE_FILE
VFS = ("enp5s0v0", "enp5s0v1")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NicKernel:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    kernel = NicKernel(tmp_path)
    kernel.nic(5, "enp5s0")
    kernel.nic(6, "enp6s0")
    kernel.start_network_manager()
    return kernel


def run(
    kernel: NicKernel, held: t.Collection[str] = (), warnings: t.Sequence[str] = (), **options: t.Any
) -> list[tuple[str, str, str]]:
    """Subject, attribute and kind of the changes done, which are those that check mode predicts."""
    table: t.Any = NicTable(kernel)
    given = dict({"timeout": 0, "persist": True}, **options)

    def build() -> SriovVfs:
        return SriovVfs(given, kernel, table, lambda _s, vfs, _t: {vf: ["a pod"] for vf in vfs if vf in held})

    it, check = build(), build()
    predicted = check.changes(check.observe())
    assert check.warnings == list(warnings)
    done: list[Change] = []
    state = it.observe()
    converge(it, state, it.changes(state), done)
    assert [each.as_dict() for each in done] == [each.as_dict() for each in predicted]
    return [(each.subject, each.attribute, each.kind) for each in done]


def create_vfs(kernel: NicKernel) -> None:
    """Create the VFs as a program without udev rules does."""
    kernel.resize(PF, 2)
    assert are_up(kernel) == [True, True]


def are_up(kernel: NicKernel) -> list[bool]:
    return [kernel.links[name]["up"] for name in VFS]


def test_the_rules_exist_before_the_vfs(kernel: NicKernel) -> None:
    done = run(kernel, ports=[PORT])
    assert done[:3] == [(RULES, "rules", FILE), ("udev", "rules", STEP), (PF, "sriov_numvfs", "setting")]
    text = kernel.read_file(RULES) or ""
    assert text.splitlines()[1:] == [
        'SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn", '
        'ATTR{device/physfn/uevent}=="*PCI_SLOT_NAME=0000:05:00.0*", ENV{NM_UNMANAGED}="1"'
    ]
    assert are_up(kernel) == [False, False]
    kernel.operations.clear()
    assert run(kernel, ports=[PORT]) == [] and kernel.operations == []


def test_without_network_manager_nothing_is_written(kernel: NicKernel) -> None:
    for path in ("NetworkManager.conf", ""):
        place = Path(kernel.path(unmanaged_vfs.INSTALLED)) / path
        place.unlink() if path else place.rmdir()
    run(kernel, ports=[PORT])
    assert not kernel.exists("/etc/udev") and not [each for each in kernel.operations if "udevadm" in each]


def test_vfs_that_network_manager_has_set_up_are_set_down(kernel: NicKernel) -> None:
    create_vfs(kernel)
    kernel.operations.clear()
    done = run(kernel, ports=[PORT])
    downs = [(name, "state", "setting") for name in VFS]
    assert done[:4] == [(RULES, "rules", FILE), ("udev", "rules", STEP), *downs]
    assert kernel.operations[1:3] == [
        "udevadm control --reload",
        "udevadm trigger --action=change --settle /sys/class/net/enp5s0v0 /sys/class/net/enp5s0v1",
    ]
    assert are_up(kernel) == [False, False]
    # later, a user sets a VF up
    kernel.links[VFS[0]]["up"] = True
    assert run(kernel, ports=[PORT]) == [] and are_up(kernel) == [True, False]


def test_a_vf_in_use_stays_up(kernel: NicKernel) -> None:
    create_vfs(kernel)
    done = run(kernel, ports=[PORT], held=[kernel.vf_addresses(PF)[0]])
    assert (VFS[1], "state", "setting") in done and are_up(kernel) == [True, False]


def test_vfs_that_are_removed_are_not_set_down(kernel: NicKernel) -> None:
    create_vfs(kernel)
    done = run(kernel, ports=[dict(PORT, count=3)], allow_recreate=True)
    assert "state" not in [attribute for _subject, attribute, _kind in done] and are_up(kernel) == [False, False]


@pytest.mark.parametrize("use", ["address", "upper_br0"])
def test_network_manager_keeps_vfs_that_it_may_have_configured(kernel: NicKernel, use: str) -> None:
    create_vfs(kernel)
    if use == "address":
        interface = ipaddress.ip_interface("192.0.2.1/24")
        kernel.other_addresses = [Address(kernel.links[VFS[1]]["index"], interface, 0, 0)]
    else:
        kernel.tree.write("/sys/class/net/%s/%s" % (VFS[1], use), "")
    warning = (
        "0000:05:00.0 (enp5s0): NetworkManager still manages its VFs, because enp5s0v1 has an address or is part of "
        "another interface. Remedy: remove that from enp5s0v1, and run again."
    )
    run(kernel, ports=[PORT, OTHER_PORT], warnings=[warning])
    assert are_up(kernel) == [True, True] and not kernel.is_unmanaged(PF) and kernel.is_unmanaged(OTHER)


def test_a_rule_for_another_pf_sets_no_vf_of_the_first_down(kernel: NicKernel) -> None:
    run(kernel, ports=[PORT])
    kernel.links[VFS[0]]["up"] = True
    assert (RULES, "rules", FILE) in run(kernel, ports=[PORT, OTHER_PORT])
    assert are_up(kernel) == [True, False] and kernel.is_unmanaged(PF) and kernel.is_unmanaged(OTHER)


@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.parametrize("exist", [True, False])
def test_an_interrupted_run_is_completed_by_the_next(kernel: NicKernel, exist: bool, persist: bool) -> None:
    for place in range(99):
        if exist:
            create_vfs(kernel)
        kernel.kill_at = len(kernel.operations) + place
        finished = True
        try:
            run(kernel, ports=[PORT], persist=persist)
        except Killed:
            finished = False
        kernel.kill_at = None
        run(kernel, ports=[PORT])
        assert are_up(kernel) == [False, False] and kernel.is_unmanaged(PF)
        assert unmanaged_vfs.UNREAD not in (kernel.read_file(RULES) or "") and not kernel.exists(LIVE_RULES)
        assert run(kernel, ports=[PORT]) == []
        run(kernel, state="absent", allow_recreate=True)
        kernel.resize(PF, 0)
        kernel.udev_rules = ""
        if finished:
            break
    assert finished and place > (6 if persist else 3)


def test_absent_removes_the_rules(kernel: NicKernel) -> None:
    run(kernel, ports=[PORT, OTHER_PORT])
    assert (RULES, "rules", FILE) in run(kernel, state="absent", ports=[{"pci": PF}])
    text = kernel.read_file(RULES) or ""
    assert PF not in text and OTHER in text
    assert run(kernel, ports=[OTHER_PORT]) == []
    assert (RULES, "rules", FILE) in run(kernel, state="absent") and not kernel.exists(RULES)
    assert run(kernel, state="absent") == []


def test_absent_completes_an_interrupted_run(kernel: NicKernel) -> None:
    kernel.kill_at = 1
    with contextlib.suppress(Killed):
        run(kernel, ports=[PORT])
    kernel.kill_at = None
    assert kernel.exists(RULES)
    assert run(kernel, state="absent") == [(RULES, "rules", FILE)] and not kernel.exists(RULES)


def test_ports_without_vfs_have_no_rules(kernel: NicKernel) -> None:
    run(kernel, ports=[PORT])
    assert (RULES, "rules", FILE) in run(kernel, ports=[dict(PORT, count=0)], allow_recreate=True)
    assert not kernel.exists(RULES)


def test_without_persist_the_rules_end_with_the_boot(kernel: NicKernel) -> None:
    create_vfs(kernel)
    done = run(kernel, ports=[PORT], persist=False)
    assert done[:2] == [(LIVE_RULES, "rules", FILE), ("udev", "rules", STEP)]
    assert are_up(kernel) == [False, False] and kernel.is_unmanaged(PF) and not kernel.exists(RULES)
    # later, a user sets a VF up
    kernel.links[VFS[0]]["up"] = True
    assert run(kernel, ports=[PORT], persist=False) == []
    done = run(kernel, ports=[PORT])
    assert done[0] == (RULES, "rules", FILE) and (LIVE_RULES, "rules", FILE) in done
    assert are_up(kernel) == [True, False] and not kernel.exists(LIVE_RULES)


def test_without_persist_persistent_rules_stay(kernel: NicKernel) -> None:
    run(kernel, ports=[PORT])
    text = kernel.read_file(RULES)
    assert run(kernel, ports=[PORT], persist=False) == []
    run(kernel, ports=[PORT, OTHER_PORT], persist=False)
    assert kernel.read_file(RULES) == text and PF not in (kernel.read_file(LIVE_RULES) or "")
    assert kernel.is_unmanaged(PF) and kernel.is_unmanaged(OTHER)
    assert (LIVE_RULES, "rules", FILE) in run(kernel, ports=[PORT], persist=False)
    assert kernel.read_file(RULES) == text and not kernel.exists(LIVE_RULES)


@pytest.mark.parametrize("ports", [[], [{"pci": OTHER}]])
def test_absent_without_persist_removes_live_rules(kernel: NicKernel, ports: list[t.Any]) -> None:
    run(kernel, ports=[PORT])
    run(kernel, ports=[PORT, OTHER_PORT], persist=False)
    assert (LIVE_RULES, "rules", FILE) in run(kernel, state="absent", ports=ports, persist=False)
    assert kernel.exists(RULES) and not kernel.exists(LIVE_RULES)


def test_the_boot_program_changes_no_rules(kernel: NicKernel) -> None:
    table: t.Any = NicTable(kernel)
    it = SriovVfs({"ports": [PORT], "timeout": 0}, kernel, table)
    assert [each.attribute for each in it.changes(it.observe())] == ["sriov_numvfs"]


@pytest.mark.parametrize("persist", [True, False])
def test_a_vf_as_a_port_is_refused(kernel: NicKernel, persist: bool) -> None:
    create_vfs(kernel)
    with pytest.raises(RailyardError, match="enp5s0v0 is a VF of 0000:05:00.0. Remedy: name the PF, 0000:05:00.0"):
        run(kernel, ports=[{"netdev": VFS[0]}], persist=persist)
    assert not kernel.exists(RULES) and not kernel.exists(LIVE_RULES) and are_up(kernel) == [True, True]


def test_vfs_of_another_owner_keep_network_manager(kernel: NicKernel) -> None:
    create_vfs(kernel)
    kernel.operations.clear()
    part = dict(PORT, range="1")
    done = run(kernel, ports=[part])
    assert (VFS[1], "state", "setting") in done and are_up(kernel) == [True, False]
    assert (kernel.read_file(RULES) or "").splitlines()[1:] == [
        'TEST=="device/physfn/virtfn1/net/$kernel", SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn", '
        'ATTR{device/physfn/uevent}=="*PCI_SLOT_NAME=0000:05:00.0*", ENV{NM_UNMANAGED}="1"'
    ]
    assert "udevadm trigger --action=change --settle /sys/class/net/enp5s0v1" in kernel.operations
    assert run(kernel, ports=[part]) == []
    run(kernel, state="absent")
    assert kernel.read_file(RULES) is None
