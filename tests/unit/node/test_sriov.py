# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs on a kernel that makes, binds and takes them away on a fake tree."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import SriovVfs
from tests.unit.node.nic_kernel import Killed, NicKernel, NicTable

PF = "0000:05:00.0"
MACS = ["02:52:00:05:00:00", "02:52:00:05:00:01"]
TWO = [{"index": n, "mac": mac, "vlan": 100, "qos": 3, "trust": True} for n, mac in enumerate(MACS)]
GUID = "02:52:00:18:00:00:00:01"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NicKernel:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    kernel = NicKernel(tmp_path)
    kernel.nic(5, "enp5s0")
    return kernel


def subsystem(kernel: NicKernel, holders: dict[str, list[str]] | None = None, **options: t.Any) -> SriovVfs:
    held = {} if holders is None else holders
    table: t.Any = NicTable(kernel)
    given = dict({"timeout": 0}, **options)
    return SriovVfs(given, kernel, table, lambda _system, vfs, _table: {vf: held.get(vf, []) for vf in vfs})


def run(kernel: NicKernel, **options: t.Any) -> tuple[list[dict[str, t.Any]], State]:
    """What the module would do, done and read back."""
    it = subsystem(kernel, **options)
    state = it.observe()
    changes = it.changes(state)
    done: list[Change] = []
    state = converge(it, state, changes, done)
    return [change.as_dict() for change in done], state


def refused(kernel: NicKernel, **options: t.Any) -> list[str]:
    before = list(kernel.operations)
    with pytest.raises(RailyardError) as caught:
        run(kernel, **options)
    assert kernel.operations == before
    errors = caught.value.errors if isinstance(caught.value, Errors) else [caught.value]
    return [str(error) for error in errors]


def port(count: int | None = 2, attributes: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    return dict({"pci": PF, "count": count, "attributes": TWO if attributes is None else attributes}, **more)


def brief(changes: list[dict[str, t.Any]]) -> list[tuple[str, str, t.Any, t.Any]]:
    return [(each["subject"], each["attribute"], each["before"], each["after"]) for each in changes]


def assert_two(kernel: NicKernel) -> None:
    assert [row["mac"] for row in kernel.settings[PF]] == MACS
    assert [(row["vlan"], row["qos"], row["trust"]) for row in kernel.settings[PF]] == [(100, 3, True)] * 2
    assert kernel.read("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % PF) == "1"
    assert kernel.listdir("/run/railyard") == []
    for number, mac in enumerate(MACS):
        place = "/sys/bus/pci/devices/%s/virtfn%d" % (PF, number)
        assert kernel.link_name(place + "/driver") == "igbvf"
        assert kernel.read("/sys/class/net/enp5s0v%d/address" % number) == mac


def test_vfs_come_up_as_desired(kernel: NicKernel) -> None:
    done, state = run(kernel, ports=[port()])
    assert brief(done)[:3] == [
        (PF, "sriov_numvfs", 0, 2),
        (PF + " vf 0", "mac", None, MACS[0]),
        (PF + " vf 0", "vlan", None, 100),
    ]
    assert_two(kernel)
    # none was ever bound with another MAC
    assert [address for _vf, address in kernel.bound_with] == MACS
    assert state["ports"][0]["attributes"][1]["mac"] == MACS[1]
    assert run(kernel, ports=[port()])[0] == []


def test_gathered_settings_as_options_change_nothing(kernel: NicKernel) -> None:
    _done, state = run(kernel, ports=[port(attributes=[TWO[0]])])
    assert state["ports"][0]["attributes"][1]["mac"] is None
    assert run(kernel, ports=state["ports"])[0] == []


def test_vlan_and_qos_are_set_as_one(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    assert kernel.operations.count("vf 0 ['qos', 'vlan']") == 1
    run(kernel, ports=[port(attributes=[{"index": 0, "vlan": 200}])])
    assert (kernel.settings[PF][0]["vlan"], kernel.settings[PF][0]["qos"]) == (200, 3)


def test_without_attributes_the_kernel_binds(kernel: NicKernel) -> None:
    done, _state = run(kernel, ports=[port(attributes=[])])
    assert brief(done) == [(PF, "sriov_numvfs", 0, 2)]
    assert kernel.operations == [PF + " 2"]


@pytest.mark.parametrize("lasting", [True, False, None])
def test_killed_at_any_operation_the_next_run_converges(kernel: NicKernel, lasting: bool | None) -> None:
    place = 0
    while True:
        kernel.operations.clear()
        kernel.kill_at = place
        try:
            run(kernel, ports=[port()], autoprobe=True if lasting else None)
            break
        except Killed:
            pass
        kernel.kill_at = None
        run(kernel, ports=[port()])
        assert_two(kernel)
        assert run(kernel, ports=[port()])[0] == []
        if lasting is False:
            # the other way of getting there: another MAC on a VF that is there
            kernel.operations.clear()
            kernel.kill_at = place
            moved = [TWO[0], dict(TWO[1], mac="02:52:00:05:00:77")]
            with contextlib.suppress(Killed):
                run(kernel, ports=[port(attributes=moved)])
            kernel.kill_at = None
            run(kernel, ports=[port()])
            assert_two(kernel)
        kernel.resize(PF, 0)
        place += 1
    assert place > 9


def test_a_failure_restores_autoprobe(kernel: NicKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    it = subsystem(kernel, ports=[port()])
    changes = it.changes(it.observe())
    kernel.unknown.add("vlan")
    with pytest.raises(
        RailyardError, match=r"0000:05:00.0 vf 0: the driver igb of 0000:05:00.0 \(enp5s0\) cannot set vlan and qos"
    ):
        converge(it, {}, changes, [])
    assert kernel.read("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % PF) == "1"
    assert kernel.listdir("/run/railyard") == []
    # not bound with half of the desired attributes, and repaired by the next run
    assert kernel.bound_with == []
    kernel.unknown.discard("vlan")
    run(kernel, ports=[port()])
    assert_two(kernel)


def test_another_mac_rebinds_that_vf_alone(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    kernel.operations.clear()
    done, _state = run(kernel, ports=[port(attributes=[TWO[0], dict(TWO[1], mac="02:52:00:05:00:77")])])
    assert brief(done) == [(PF + " vf 1", "mac", MACS[1], "02:52:00:05:00:77")]
    assert kernel.operations == ["unbind 0000:05:10.2", "vf 1 ['mac']", "drivers_probe 0000:05:10.2"]


def test_other_attributes_rebind_nothing(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    kernel.operations.clear()
    run(kernel, ports=[port(attributes=[dict(TWO[0], trust=False, max_tx_rate=500)])])
    assert kernel.operations == ["vf 0 ['trust']", "vf 0 ['max_tx_rate', 'min_tx_rate']"]


def test_a_vf_that_came_up_before_its_mac_is_bound_again(kernel: NicKernel) -> None:
    run(kernel, ports=[port(attributes=[])])
    kernel.settings[PF][0]["mac"] = MACS[0]
    done, _state = run(kernel, ports=[port(attributes=[{"index": 0, "mac": MACS[0]}])])
    assert brief(done) == [(PF + " vf 0", "mac", "ba:dd:00:00:00:00", MACS[0])]
    assert kernel.read("/sys/class/net/enp5s0v0/address") == MACS[0]


def test_the_mac_address_given_by_a_bond_is_kept(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    kernel.tree.write("/sys/class/net/enp5s0v0/address", "02:52:00:05:00:aa")
    kernel.tree.write("/sys/class/net/enp5s0v0/upper_bond0", "")
    assert run(kernel, ports=[port()])[0] == []


def test_a_vf_for_a_virtual_machine_keeps_its_driver(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    vf = "0000:05:10.2"
    kernel.release(vf)
    kernel.tree.driver(vf, "vfio-pci")
    kernel.operations.clear()
    run(kernel, ports=[port(attributes=[dict(TWO[1], mac="02:52:00:05:00:77")])])
    assert kernel.operations == ["vf 1 ['mac']"]
    assert kernel.link_name("/sys/bus/pci/devices/%s/driver" % vf) == "vfio-pci"


def test_a_bound_vf_gets_its_driver_again_where_new_ones_get_none(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    other = port(attributes=[{"index": 0, "mac": "02:00:00:00:00:99"}, *port()["attributes"][1:]])
    done, state = run(kernel, ports=[other], autoprobe=False)
    assert ("%s vf 0" % PF, "mac") in [each[:2] for each in brief(done)]
    assert [vf["driver"] for vf in state["pfs"][0]["vfs"]] == ["igbvf", "igbvf"]
    assert state["pfs"][0]["autoprobe"] is False and not kernel.exists("/run/railyard/sriov_drivers_autoprobe-%s" % PF)
    assert run(kernel, ports=[other], autoprobe=False)[0] == []


def test_autoprobe_false_leaves_vfs_unbound(kernel: NicKernel) -> None:
    done, state = run(kernel, ports=[port()], autoprobe=False)
    assert brief(done)[0] == (PF, "sriov_drivers_autoprobe", True, False)
    assert kernel.bound_with == [] and state["pfs"][0]["autoprobe"] is False
    assert [row["mac"] for row in kernel.settings[PF]] == MACS
    assert run(kernel, ports=[port()], autoprobe=False)[0] == []
    # left alone: a person's own setting
    assert run(kernel, ports=[port()])[0] == []
    done, _state = run(kernel, ports=[port()], autoprobe=True)
    assert [each[1] for each in brief(done)] == ["sriov_drivers_autoprobe", "bound", "bound"]
    assert_two(kernel)


def test_a_pf_that_is_down_is_set_up_first(kernel: NicKernel) -> None:
    kernel.links["enp5s0"]["up"] = False
    done, _state = run(kernel, ports=[port()])
    assert brief(done)[0] == ("enp5s0", "state", "down", "up")
    kernel.links["enp5s0"]["up"] = False
    assert brief(run(kernel, ports=[port(count=None, attributes=[])])[0]) == [("enp5s0", "state", "down", "up")]


def test_no_driver_takes_the_vfs(kernel: NicKernel) -> None:
    kernel.vf_driver = None
    with pytest.raises(RailyardError, match="no driver bound VF 0000:05:10.0") as caught:
        run(kernel, ports=[port()])
    assert "autoprobe to false" in caught.value.remedy


def test_vfs_without_the_pfs_netdev_are_waited_for(kernel: NicKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.tree, "netdev", lambda *_args, **_more: None)
    with pytest.raises(RailyardError, match="VF 0000:05:10.0 has the driver igbvf, but no netdev appeared in time"):
        run(kernel, ports=[port()])


def test_a_driver_that_is_not_ready_is_asked_again(kernel: NicKernel) -> None:
    kernel.busy = 3
    run(kernel, ports=[port()], timeout=5)
    assert_two(kernel)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_another_number_of_vfs_needs_permission(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    for count in (0, 1, 3):
        attributes: list[t.Any] = []
        (text,) = refused(kernel, ports=[port(count=count, attributes=attributes)])
        assert text.startswith(
            "ports[0].count: 0000:05:00.0 (enp5s0) has 2 VFs, which are all removed to have %d" % count
        )
        assert "sriov_allow_recreate to true" in text
    done, _state = run(kernel, ports=[port(count=3)], allow_recreate=True)
    assert brief(done)[0] == (PF, "sriov_numvfs", 2, 3)
    assert kernel.bound_with[-1][0] == "0000:05:10.4"
    run(kernel, ports=[port(count=0, attributes=[])], allow_recreate=True)
    assert kernel.settings[PF] == []


def test_a_held_vf_is_never_removed(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    held = {"0000:05:10.2": ["its netdev enp5s0v1 is in network namespace pod (pause pid 7)"]}
    wanted = (
        "0000:05:00.0 vf 1: VF 0000:05:10.2 is held: its netdev enp5s0v1 is in network namespace pod (pause pid 7). "
        "Remedy: stop the holder, or drain the node, and run again."
    )
    assert refused(kernel, ports=[port(count=3)], allow_recreate=True, holders=held) == [wanted]
    assert len(refused(kernel, ports=[port(count=3)], holders=held)) == 2
    moved = [TWO[0], dict(TWO[1], mac="02:52:00:05:00:77")]
    assert refused(kernel, ports=[port(attributes=moved)], holders=held) == [wanted]
    # of the others, and what needs no new driver, nothing is refused
    run(kernel, ports=[port(attributes=[dict(TWO[0], mac="02:52:00:05:00:78"), dict(TWO[1], vlan=7)])], holders=held)


HELD = {"0000:05:10.2": ["pod0 uses its netdev enp5s0v1"]}


@pytest.mark.parametrize(
    ("when", "wanted"),
    [
        ("", {"count": 3}),
        ("unbind 0000:05:10.0", {"count": 3}),
        ("unbind 0000:05:10.2", {"count": 3}),
        ("", {"attributes": [TWO[0], dict(TWO[1], mac="02:52:00:05:00:77")]}),
    ],
)
def test_a_vf_held_since_the_first_read_is_kept(
    kernel: NicKernel, monkeypatch: pytest.MonkeyPatch, when: str, wanted: dict[str, t.Any]
) -> None:
    """Also by a program that takes no lock, and at any moment until its driver is unbound."""
    run(kernel, ports=[port()])
    held: dict[str, list[str]] = {}
    it = subsystem(kernel, ports=[port(**wanted)], allow_recreate=True, holders=held)
    changes = it.changes(it.observe())
    did, operations = kernel.did, len(kernel.operations)

    def act(operation: str) -> None:
        did(operation)
        if operation == when:
            held.update(HELD)

    monkeypatch.setattr(kernel, "did", act)
    held.update({} if when else HELD)
    with pytest.raises(RailyardError, match="pod0 uses its netdev enp5s0v1"):
        changes[0].act()
    assert "sriov_numvfs 0" not in " ".join(kernel.operations[operations:])
    assert_two(kernel)


def test_vfs_stay_if_the_kernel_does_not_unbind_one(kernel: NicKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    run(kernel, ports=[port()])
    release = kernel.release

    def refuse(vf: str) -> None:
        if vf == "0000:05:10.2":
            raise OSError(errno.ENODEV, "No such device")
        release(vf)

    monkeypatch.setattr(kernel, "release", refuse)
    with pytest.raises(RailyardError, match="refuses 0000:05:10.2 in unbind"):
        run(kernel, ports=[port(count=3)], allow_recreate=True)
    assert_two(kernel)


def test_the_management_path_is_never_touched(kernel: NicKernel) -> None:
    kernel.tree.write(
        "/proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "enp5s0 00000000 0100000A 0003 0 0 0 00000000 0 0 0",
    )
    assert refused(kernel, ports=[port()]) == [
        "ports[0]: 0000:05:00.0 (enp5s0) is not touched: enp5s0 carries the default route. Remedy: leave this port out."
    ]


def test_a_nic_without_sriov_that_carries_the_default_route(kernel: NicKernel) -> None:
    """Of a virtio NIC, the netdev is not the PCI function's own: the one that was given is repeated."""
    kernel.nic(6, "enp6s0", total=0)
    kernel.tree.write(
        "/proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "enp6s0 00000000 0100000A 0003 0 0 0 00000000 0 0 0",
    )
    impossible, refusal = refused(kernel, ports=[{"netdev": "enp6s0", "count": 2}])
    assert (
        "(enp6s0) has no SR-IOV (driver igb). Remedy: enable SR-IOV in the BIOS and in the NIC's firmware" in impossible
    )
    assert "mlx_linktype" not in impossible and "or name a NIC that has SR-IOV" in impossible
    assert "is not touched: enp6s0 carries the default route. Remedy: leave this port out" in refusal


def test_wrong_options_and_missing_netdevs_are_reported_at_once(kernel: NicKernel) -> None:
    ports = [port(-1, []), {"netdev": "nothere", "count": 2}, {"count": 1}, {"pci": "what", "count": 1}]
    texts = [text.partition(". Remedy")[0] for text in refused(kernel, ports=ports)]
    assert texts == [
        "ports[0].count: -1 is not a number of VFs",
        "ports[2]: names neither pci nor netdev",
        "ports[3].pci: 'what' is not a PCI address",
        "ports[1].netdev: there is no netdev nothere",
    ]


def test_every_refusal_is_reported_before_any_change(kernel: NicKernel) -> None:
    kernel.nic(6, "enp6s0", total=0)
    kernel.nic(7, "enp7s0")
    kernel.nic(8, "enp8s0")
    (kernel.place("0000:08:00.0") / "driver").unlink()
    texts = refused(
        kernel,
        ports=[
            port(
                attributes=[
                    {"index": 0, "link_state": "enable", "node_guid": GUID},
                    {"index": 1, "link_state": "enable"},
                ]
            ),
            {"netdev": "enp6s0", "count": 1},
            {"netdev": "enp7s0", "count": 8},
            {"netdev": "enp8s0", "count": 1},
        ],
    )
    assert [text.partition(". Remedy")[0] for text in texts] == [
        "ports[0].attributes[0].node_guid: node_guid is for VFs of InfiniBand NICs, and this is an Ethernet one: "
        "VF 0 of 0000:05:00.0 (enp5s0)",
        "ports[0].attributes[0].link_state: the driver igb cannot set link_state: VF 0 of 0000:05:00.0 (enp5s0)",
        "ports[1]: 0000:06:00.0 (enp6s0) has no SR-IOV (driver igb)",
        "ports[2].count: 8 VFs are more than the 7 that 0000:07:00.0 (enp7s0) has",
        "ports[3]: 0000:08:00.0 (enp8s0) has no driver, so its VFs cannot change",
    ]


def test_an_unsupported_vf_attribute_raises_no_error(kernel: NicKernel) -> None:
    kernel.unknown.update(("trust", "spoofchk"))
    neutral = {"index": 0, "link_state": "auto", "trust": False, "spoofchk": False, "vlan": 0, "max_tx_rate": 0}
    run(kernel, ports=[port(attributes=[neutral])])
    assert run(kernel, ports=[port(attributes=[neutral])])[0] == []
    (text,) = refused(kernel, ports=[port(attributes=[{"index": 1, "trust": True}])])
    assert "the driver igb cannot set trust: VF 1" in text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"pci": "0000:99:00.0"}, "ports[0].pci: there is no PCI function 0000:99:00.0"),
        ({"netdev": "enp9s0"}, "ports[0].netdev: there is no netdev enp9s0"),
        ({"netdev": "lo"}, "ports[0].netdev: netdev lo is not a PCI function"),
        ({"pci": "0000:06:00.0", "netdev": "enp5s0"}, "ports[0]: netdev enp5s0 is 0000:05:00.0, not 0000:06:00.0"),
        ({"pci": "0000:05:10.0"}, "ports[0]: 0000:05:10.0 is a VF of 0000:05:00.0"),
        ({"netdev": "enp5s0v1"}, "ports[0]: enp5s0v1 is a VF of 0000:05:00.0"),
        (
            {"pci": PF, "attributes": [{"index": 2, "vlan": 1}]},
            "ports[0].attributes[0].index: VF 2 does not exist: 0000:05:00.0 (enp5s0) has 2",
        ),
    ],
)
def test_only_pfs_and_vfs_are_accepted(kernel: NicKernel, given: dict[str, t.Any], text: str) -> None:
    kernel.nic(6, "enp6s0")
    kernel.tree.write("/sys/class/net/lo/address", "")
    run(kernel, ports=[port()])
    (message,) = refused(kernel, ports=[given])
    assert message.startswith(text)


def test_a_netdev_without_its_planned_name_is_found_by_pci(kernel: NicKernel) -> None:
    run(kernel, ports=[port(netdev="rail5")])
    assert_two(kernel)


def test_one_pf_twice(kernel: NicKernel) -> None:
    (text,) = refused(kernel, ports=[port(), {"netdev": "enp5s0", "count": 1}])
    assert text.startswith("ports[1]: enp5s0 is the PF 0000:05:00.0, as is 0000:05:00.0")


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOMEM, "pci=realloc"), (errno.EPERM, "become"), (errno.EIO, "dmesg")]
)
def test_the_kernels_refusals_have_remedies(
    kernel: NicKernel, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(_pf: str, _count: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(kernel, "resize", refuse)
    with pytest.raises(RailyardError, match="0000:05:00.0: the kernel refuses 2 in sriov_numvfs: ") as caught:
        run(kernel, ports=[port()])
    assert remedy in caught.value.remedy
    assert kernel.read("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % PF) == "1"


# -- InfiniBand, many VFs, switchdev ---------------------------------------------------------------------------------


def infiniband(kernel: NicKernel, netdev: str | None) -> str:
    pf = kernel.nic(0x18, netdev, layer="infiniband", driver="mlx5_core")
    kernel.vf_driver = "mlx5_core"
    kernel.tree.write("%s/mlx5_num_vfs" % kernel.tree.real(pf), "0")
    return pf


@pytest.mark.parametrize("netdev", ["ibp24s0", None])
def test_guids_through_the_vendors_directory(kernel: NicKernel, netdev: str | None) -> None:
    pf = infiniband(kernel, netdev)
    wanted = [{"index": 0, "node_guid": "0252:0018:0000:0001", "port_guid": GUID, "link_state": "auto"}]
    done, state = run(kernel, ports=[{"pci": pf, "count": 1, "attributes": wanted}])
    assert [each[1:] for each in brief(done)] == [
        ("sriov_numvfs", 0, 1),
        ("node_guid", None, GUID),
        ("port_guid", None, GUID),
        ("link_state", None, "auto"),
    ]
    place = "/sys/bus/pci/devices/%s/sriov/0/" % pf
    assert [kernel.read(place + entry) for entry in ("node", "port", "policy")] == [GUID, GUID, "Follow"]
    row = state["ports"][0]["attributes"][0]
    assert (row["node_guid"], row["link_state"], row["mac"], row["trust"]) == (GUID, "auto", None, None)
    assert run(kernel, ports=[{"pci": pf, "count": 1, "attributes": wanted}])[0] == []
    kernel.operations.clear()
    wanted[0]["node_guid"] = "02:52:00:18:00:00:00:02"
    run(kernel, ports=[{"pci": pf, "count": 1, "attributes": wanted}])
    assert kernel.operations == ["unbind 0000:18:10.0", "node 02:52:00:18:00:00:00:02", "drivers_probe 0000:18:10.0"]


def test_macs_are_not_for_infiniband(kernel: NicKernel) -> None:
    pf = infiniband(kernel, "ibp24s0")
    (text,) = refused(kernel, ports=[{"pci": pf, "count": 1, "attributes": [{"index": 0, "mac": MACS[0]}]}])
    assert "mac is for VFs of Ethernet NICs, and this is an InfiniBand one" in text


def test_a_pf_whose_netdev_is_elsewhere(kernel: NicKernel) -> None:
    pf = kernel.nic(9, None)
    (text,) = refused(kernel, ports=[{"pci": pf, "count": 1, "attributes": [{"index": 0, "mac": MACS[0]}]}])
    assert "mac is set through the PF's netdev, which is missing in this network namespace" in text
    run(kernel, ports=[{"pci": pf, "count": 1}])


def test_more_vfs_than_a_message_holds(kernel: NicKernel) -> None:
    run(kernel, ports=[port()])
    kernel.too_long = True
    (text,) = refused(kernel, ports=[port()])
    assert "the attributes of 2 VFs do not fit into one netlink message" in text
    it = subsystem(kernel, ports=[port()], state="gathered")
    assert it.observe()["ports"][0]["attributes"] == [] and "do not fit" in it.warnings[0]
    kernel.tree.write("/sys/bus/pci/devices/%s/vendor" % PF, "0x15b3")
    for number, mac in enumerate(MACS):
        kernel.tree.write(
            "%s/sriov/%d/config" % (kernel.tree.real(PF), number),
            "VF         : %d\nMAC        : %s\nVLAN       : 100\nQoS        : 3\nVLAN Proto : 802.1Q\n"
            "SpoofCheck : OFF\nTrust      : ON\nLinkState  : Follow\nMinTxRate  : 0\nMaxTxRate  : 200"
            % (number, mac.upper()),
        )
    assert run(kernel, ports=[port()])[0] == []
    row = subsystem(kernel, ports=[port()]).observe()["ports"][0]["attributes"][0]
    assert (row["spoofchk"], row["link_state"], row["max_tx_rate"]) == (False, "auto", 200)


def test_representors_are_not_the_pfs_netdev(kernel: NicKernel) -> None:
    kernel.tree.netdev(PF, "enp5s0_0", phys_port_name="pf0vf0")
    kernel.tree.netdev(PF, "a5s0", phys_port_name="c1pf0sf3")
    state = subsystem(kernel, state="gathered").observe()
    assert (state["pfs"][0]["netdev"], state["pfs"][0]["switchdev"]) == ("enp5s0", True)


# -- reading and boot ------------------------------------------------------------------------------------------------


def test_gathered_without_ports_is_every_pf_with_sriov(kernel: NicKernel) -> None:
    kernel.nic(6, "enp6s0", total=0)
    kernel.nic(7, "enp7s0")
    run(kernel, ports=[port()])
    state = subsystem(kernel, state="gathered").observe()
    assert [(row["netdev"], row["count"]) for row in state["ports"]] == [("enp5s0", 2), ("enp7s0", 0)]
    assert [vf["netdev"] for vf in state["pfs"][0]["vfs"]] == ["enp5s0v0", "enp5s0v1"]


def test_boot_settings_contain_no_permission_and_no_management_card(kernel: NicKernel) -> None:
    kernel.nic(6, "enp6s0")
    kernel.nic(7, "enp7s0")
    run(kernel, ports=[{"netdev": "enp6s0", "count": 1}])
    kernel.tree.write(
        "/proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "enp6s0 00000000 0100000A 0003 0 0 0 00000000 0 0 0",
    )
    ports = [port(), {"netdev": "enp6s0", "count": 1}, {"netdev": "enp7s0", "count": 0}]
    it = subsystem(kernel, ports=ports, persist=True, allow_recreate=True)
    converge(it, {}, it.changes(it.observe()), [])
    kept = json.loads(kernel.read("/etc/railyard/boot.d/10-sriov_vfs.json") or "")
    assert kept == {"module": "sriov_vfs", "options": {"ports": [port()], "timeout": 0}}
    assert "enp6s0" in it.warnings[0] and "not made persistent" in it.warnings[0]
    assert isinstance(boot_program.layer(kept["module"]).build(kept["options"], kernel), SriovVfs)
    # a call that wants none takes it away
    it = subsystem(kernel, ports=[port(count=0, attributes=[])], persist=True, allow_recreate=True)
    converge(it, {}, it.changes(it.observe()), [])
    assert not kernel.exists("/etc/railyard/boot.d/10-sriov_vfs.json")


def test_persistent_settings_survive_a_new_default_route(kernel: NicKernel) -> None:
    run(kernel, ports=[port()], persist=True)
    before = kernel.read("/etc/railyard/boot.d/10-sriov_vfs.json")
    kernel.tree.write(
        "/proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "enp5s0 00000000 0100000A 0003 0 0 9000 00000000 0 0 0",
    )
    it = subsystem(kernel, ports=[port()], persist=True)
    assert it.changes(it.observe()) == [] and it.warnings == []
    assert before and kernel.read("/etc/railyard/boot.d/10-sriov_vfs.json") == before


def test_at_boot_a_missing_card_does_not_affect_others(kernel: NicKernel, capsys: pytest.CaptureFixture[str]) -> None:
    gone = {"pci": "0000:06:00.0", "count": 1}
    options = {"ports": [gone, {"pci": PF, "count": 2}, dict(gone, pci="0000:07:00.0")], "timeout": 0}
    kernel.write_file(KEPT, json.dumps({"module": "sriov_vfs", "options": options}))
    assert boot_program.main(["--check"], kernel) == 1 and kernel.settings[PF] == []
    assert boot_program.main([], kernel, patience=0) == 1
    assert len(kernel.settings[PF]) == 2 and kernel.link_name(kernel.tree.real(PF) + "/virtfn1/driver") == "igbvf"
    output = capsys.readouterr()
    assert output.out == (PF + " sriov_numvfs: 0 -> 2\n") * 2
    assert output.err.splitlines() == 2 * [
        "%s, %s: ports[0].pci: there is no PCI function %s. Remedy: see 'lspci -D'." % (KEPT, pci, pci)
        for pci in ("0000:06:00.0", "0000:07:00.0")
    ]
    # a single error is printed as it is
    kernel.write_file(KEPT, json.dumps({"module": "sriov_vfs", "options": {"ports": [gone]}}))
    assert boot_program.main([], kernel, patience=0) == 1
    assert capsys.readouterr().err.startswith(KEPT + ": ports[0].pci: there is no PCI function 0000:06:00.0")


# -- taken back ------------------------------------------------------------------------------------------------------

KEPT = "/etc/railyard/boot.d/10-sriov_vfs.json"
NOTED = "/run/railyard/until_boot/sriov_vfs"
OTHER = "0000:06:00.0"
DEFAULT_ROUTE = (
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    "%s 00000000 0100000A 0003 0 0 0 00000000 0 0 0"
)


@pytest.fixture
def two(kernel: NicKernel) -> NicKernel:
    """Two PFs with VFs, kept for boot, and a third whose VFs are another's."""
    kernel.nic(6, "enp6s0")
    kernel.nic(7, "enp7s0")
    kernel.resize("0000:07:00.0", 3)
    run(kernel, ports=[port(), {"netdev": "enp6s0", "count": 1}], persist=True)
    return kernel


def take_back(kernel: NicKernel, holders: t.Any = None, **options: t.Any) -> tuple[list[t.Any], list[str]]:
    """The planned changes, applied; the second run changes nothing and reports the same."""
    options = dict({"persist": True, "state": "absent"}, **options)
    foreseen = subsystem(kernel, holders, **options)
    expected = foreseen.changes(foreseen.observe())
    it = subsystem(kernel, holders, **options)
    state = it.observe()
    done: list[Change] = []
    state = converge(it, state, it.changes(state), done)
    assert [each.as_dict() for each in done] == [each.as_dict() for each in expected]
    outcome = it.outcome(state, [])
    assert foreseen.outcome(state, expected) == outcome
    again = subsystem(kernel, holders, **options)
    assert again.changes(again.observe()) == []
    assert again.outcome({}, []) == outcome and outcome["reboot_required"] == bool(outcome["reboot_reasons"])
    return [(each.subject, each.attribute, each.before, each.after) for each in done], outcome["reboot_reasons"]


def test_absent_removes_only_our_vfs(two: NicKernel) -> None:
    done, reasons = take_back(two)
    assert done[:2] == [(PF, "sriov_numvfs", 2, 0), (OTHER, "sriov_numvfs", 1, 0)]
    assert done[2][0] == KEPT and not two.exists("/etc/railyard") and reasons == []
    assert [len(two.settings["0000:0%d:00.0" % bus]) for bus in (5, 6, 7)] == [0, 0, 3]
    assert not two.exists(NOTED)


def test_absent_on_an_unprepared_node_changes_nothing(kernel: NicKernel) -> None:
    kernel.resize(PF, 2)
    assert take_back(kernel) == ([], [])
    assert len(kernel.settings[PF]) == 2


def test_absent_of_one_pf_alone(two: NicKernel) -> None:
    done, _reasons = take_back(two, ports=[port()])
    assert [each[:2] for each in done] == [(PF, "sriov_numvfs"), (KEPT, "options")]
    assert (len(two.settings[PF]), len(two.settings[OTHER])) == (0, 1)
    assert [each["netdev"] for each in json.loads(two.read(KEPT) or "")["options"]["ports"]] == ["enp6s0"]
    # named, they are removed with any creator
    assert take_back(two, ports=[{"pci": "07:00.0"}])[0] == [("0000:07:00.0", "sriov_numvfs", 3, 0)]
    take_back(two, ports=[{"pci": OTHER}])
    assert not two.exists("/etc/railyard")


def test_absent_without_persist_removes_only_live_settings(two: NicKernel) -> None:
    assert [each[0] for each in take_back(two, persist=False)[0]] == [PF, OTHER]
    assert two.exists(KEPT)


def test_absent_refuses_held_vfs_and_names_the_holder(two: NicKernel) -> None:
    held = {two.vf_addresses(PF)[0]: ["its netdev net1 is in network namespace pod1"]}
    for leave in (False, True):
        before = list(two.operations)
        it = subsystem(two, held, state="absent", persist=True, allow_recreate=leave)
        with pytest.raises(RailyardError, match="is held: its netdev net1 is in network namespace pod1") as caught:
            it.changes(it.observe())
        assert "drain the node" in str(caught.value) and two.operations == before and two.exists(KEPT)


def test_absent_killed_at_any_point_is_completed_by_the_next_run(two: NicKernel) -> None:
    two.tree.write("/run/railyard/sriov_drivers_autoprobe-%s" % OTHER, "1")
    two.tree.write("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % OTHER, "0")
    killed = 0
    for place in range(99):
        two.operations.clear()
        two.kill_at = place
        try:
            take_back(two)
            break
        except Killed:
            killed += 1
        two.kill_at = None
        take_back(two)
        assert [len(two.settings[each]) for each in (PF, OTHER)] == [0, 0]
        assert not two.exists("/etc/railyard") and not two.exists("/usr/local/lib/railyard")
        assert two.read("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % OTHER) == "1"
        run(two, ports=[port(), {"netdev": "enp6s0", "count": 1}], persist=True)
        two.tree.write("/run/railyard/sriov_drivers_autoprobe-%s" % OTHER, "1")
        two.tree.write("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % OTHER, "0")
    assert killed > 6


def test_absent_after_a_run_interrupted_before_persistence(kernel: NicKernel) -> None:
    """The mark of autoprobe shows it: the VFs have no driver, and nothing is kept for boot yet."""
    for place in range(99):
        kernel.operations.clear()
        kernel.kill_at = 4
        with pytest.raises(Killed):
            run(kernel, ports=[port()], persist=True)
        assert len(kernel.settings[PF]) == 2 and not kernel.exists(KEPT)
        kernel.kill_at = len(kernel.operations) + place
        with contextlib.suppress(Killed):
            take_back(kernel)
        finished, kernel.kill_at = place > 3, None
        left = [each[1] for each in take_back(kernel)[0]]
        ways = [["sriov_numvfs", "sriov_drivers_autoprobe"], ["left by a run that was cut off"]]
        assert left in [ways[0], ways[0][1:], ways[1], []]
        assert kernel.settings[PF] == [] and kernel.read("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % PF) == "1"
        assert not kernel.listdir("/run/railyard")
        if finished:
            break
    assert left == []


def test_changes_name_their_port_and_a_leftover_is_marked(kernel: NicKernel) -> None:
    rows, _state = run(kernel, ports=[port()], autoprobe=True)
    assert {each.get("port") for each in rows if each["subject"] not in (PF, "enp5s0")} == {PF}
    assert all("kind" not in each for each in rows)
    mark = "/run/railyard/sriov_drivers_autoprobe-" + PF
    kernel.tree.write(mark, "1")
    (row,), _state = run(kernel, ports=[port()])
    assert (row["subject"], row["kind"], row["port"]) == (mark, STEP, PF)


@pytest.mark.parametrize("persist", [True, False])
def test_absent_keeps_vfs_of_others_after_an_interrupted_run(kernel: NicKernel, persist: bool) -> None:
    """The mark of autoprobe is there while a bound VF gets its driver again, too: that makes no VF ours."""
    kernel.resize(PF, 2)
    run(kernel, ports=[port(count=None, attributes=[{"index": 0, "vlan": 100}])], persist=persist, autoprobe=False)
    kernel.operations.clear()
    kernel.kill_at = 4  # unbound, set, marked, autoprobe on: next is the driver
    with pytest.raises(Killed):
        run(kernel, ports=[port(count=None, attributes=TWO[:1])], persist=False, autoprobe=False)
    kernel.kill_at = None
    autoprobe = "/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % PF
    assert kernel.read("/run/railyard/sriov_drivers_autoprobe-" + PF) == "0" and kernel.read(autoprobe) == "1"
    done, reasons = take_back(kernel)
    assert len(kernel.settings[PF]) == 2 and kernel.read(autoprobe) == "0" and done[0][1] == autoprobe[-23:]
    assert not kernel.exists("/run/railyard/sriov_drivers_autoprobe-" + PF) and not kernel.exists(KEPT)
    assert PF + ": the attributes of its VFs stay as set until the next boot" in reasons


def test_absent_keeps_the_management_path_until_the_boot(two: NicKernel) -> None:
    two.tree.write("/proc/net/route", DEFAULT_ROUTE % "enp6s0")
    reason = OTHER + ": its VFs stay until the next boot: enp6s0 carries the default route"
    it = subsystem(two, state="absent", persist=True, ports=[{"pci": OTHER}])
    with pytest.raises(RailyardError, match="is not touched: enp6s0 carries the default route"):
        it.changes(it.observe())
    done, reasons = take_back(two)
    assert [each[0] for each in done[:3]] == [PF, NOTED, KEPT] and reasons == [reason]
    assert (len(two.settings[OTHER]), two.exists("/etc/railyard")) == (1, False)
    # freed, and named: then nothing stays
    two.tree.write("/proc/net/route", DEFAULT_ROUTE % "eno1")
    done, reasons = take_back(two, ports=[{"pci": OTHER}])
    assert [each[0] for each in done] == [OTHER, NOTED] and reasons == []


def test_absent_keeps_a_pf_in_a_pod(two: NicKernel) -> None:
    os.unlink(two.tree.root / "sys/class/net/enp5s0")
    shutil.rmtree(two.place(PF) / "net/enp5s0")
    del two.links["enp5s0"]
    for ports in ([], [{"pci": PF}]):
        done, reasons = take_back(two, ports=ports)
        assert (PF, "sriov_numvfs") not in [each[:2] for each in done] and len(two.settings[PF]) == 2
        assert [each.partition(": its netdev")[0] for each in reasons] == [PF + ": its VFs stay until the next boot"]
    assert not two.exists(KEPT)


def test_absent_reports_changes_until_the_boot_and_present_clears_them(kernel: NicKernel) -> None:
    kernel.resize(PF, 2)
    attributes = [{"index": 0, "vlan": 100}]
    ports = [port(count=None, attributes=attributes), {"pci": kernel.nic(6, "enp6s0"), "count": 1}]
    run(kernel, ports=ports, persist=True, autoprobe=False)
    done, reasons = take_back(kernel)
    assert (PF, "sriov_numvfs") not in [each[:2] for each in done] and len(kernel.settings[PF]) == 2
    assert reasons == [
        PF + ": the attributes of its VFs stay as set until the next boot",
        PF + ": sriov_drivers_autoprobe stays 0 until the next boot",
        OTHER + ": sriov_drivers_autoprobe stays 0 until the next boot",
    ]
    done, _state = run(kernel, ports=ports, persist=True, autoprobe=False)
    assert done[-1]["subject"] == NOTED and not kernel.exists(NOTED)
    assert run(kernel, ports=ports, persist=True, autoprobe=False)[0] == []


def test_absent_reads_records_of_another_shape(two: NicKernel) -> None:
    ports = [{"pci": 5}, {"netdev": ["enp5s0"]}, {}, {"pci": OTHER, "count": 1}]
    two.write_file(KEPT, json.dumps({"module": "sriov_vfs", "options": {"ports": ports}}))
    done, reasons = take_back(two)
    assert [each[0] for each in done[:2]] == [OTHER, KEPT] and reasons == []


def test_absent_of_a_missing_card(two: NicKernel) -> None:
    two.resize(OTHER, 0)
    two.place(OTHER).unlink()
    os.unlink(two.tree.root / "sys/class/net/enp6s0")
    done, reasons = take_back(two)
    assert [each[0] for each in done[:2]] == [PF, KEPT] and reasons == []
    assert not two.exists("/etc/railyard")


@pytest.mark.parametrize(
    ("driver", "files", "is_refused"),
    [
        ("mlx5_core", ("bonding_slave/state",), True),
        # a bridge's port, another vendor, and a NIC in switchdev mode
        ("mlx5_core", (), False),
        ("igb", ("bonding_slave/state",), False),
        ("mlx5_core", ("bonding_slave/state", "phys_switch_id"), False),
    ],
)
def test_vfs_in_legacy_mode_on_a_member_of_a_roce_lag_are_refused(
    kernel: NicKernel, driver: str, files: tuple[str, ...], is_refused: bool
) -> None:
    pf = kernel.nic(9, "ens9", driver=driver)
    for file in files:
        kernel.tree.write("/sys/class/net/ens9/" + file, "active")
    (Path(kernel.path("/sys/class/net/ens9")) / "master").symlink_to("../bond0")
    wanted = {"pci": pf, "count": 2, "attributes": []}
    if not is_refused:
        assert run(kernel, ports=[wanted])[0]
        return
    assert refused(kernel, ports=[wanted]) == [
        "ports[0].count: 0000:09:00.0 (ens9) is a member of bond0, and VFs in legacy mode end RoCE LAG: the bond loses"
        " its RDMA device. Remedy: plan no VFs for members of a bond, take it out of the bond, or use switchdev mode."
    ]
    # none are planned
    assert run(kernel, ports=[dict(wanted, count=0)])[0] == []


# -- a part of a port's VFs


PART = {"count": 4, "range": "2-3"}
OURS = [dict(row, index=row["index"] + 2) for row in TWO]


@pytest.fixture
def shared(kernel: NicKernel) -> NicKernel:
    """A PF with four VFs of another program. One VF has no driver, as for a virtual machine."""
    kernel.resize(PF, 4)
    kernel.release("0000:05:10.0")
    kernel.operations.clear()
    return kernel


def test_vfs_outside_of_the_range_are_not_touched(shared: NicKernel) -> None:
    others = [dict(row) for row in shared.settings[PF][:2]]
    done, _state = run(shared, ports=[port(attributes=OURS, **PART)])
    assert {each["subject"] for each in done} == {PF + " vf 2", PF + " vf 3"}
    assert [dict(row) for row in shared.settings[PF][:2]] == others
    assert [row["mac"] for row in shared.settings[PF][2:]] == MACS
    assert shared.link_name("/sys/bus/pci/devices/%s/virtfn0/driver" % PF) is None
    assert run(shared, ports=[port(attributes=OURS, **PART)])[0] == []


def test_all_vfs_are_created_where_there_are_none(kernel: NicKernel) -> None:
    run(kernel, ports=[port(attributes=OURS, **PART)])
    assert len(kernel.settings[PF]) == 4 and [row["mac"] for row in kernel.settings[PF][2:]] == MACS
    assert not {row["mac"] for row in kernel.settings[PF][:2]} & set(MACS)


def test_another_number_of_vfs_would_remove_those_of_others(shared: NicKernel) -> None:
    (text,) = refused(shared, ports=[port(attributes=OURS, count=7, range="2-3")])
    assert "also those outside of the range 2-3, which have another owner" in text and "allow_recreate" in text


@pytest.mark.parametrize(
    "given, text",
    [
        ({"range": "3-2"}, "'3-2' is not a range of VFs"),
        ({"range": "2-4"}, "VF 4 does not exist: count is 4"),
        ({"range": "3"}, "VF 2 is outside of the range 3"),
    ],
)
def test_a_wrong_range_is_refused(kernel: NicKernel, given: dict[str, t.Any], text: str) -> None:
    assert text in " ".join(refused(kernel, ports=[port(4, OURS, **given)]))


def test_absent_keeps_the_vfs_of_a_shared_port(shared: NicKernel) -> None:
    run(shared, ports=[port(attributes=OURS, **PART)], persist=True)
    done, reasons = take_back(shared)
    assert (KEPT, "options") in [each[:2] for each in done] and "sriov_numvfs" not in [each[1] for each in done]
    assert len(shared.settings[PF]) == 4 and not shared.exists(KEPT)
    assert reasons == [PF + ": the attributes of its VFs stay as set until the next boot"]
