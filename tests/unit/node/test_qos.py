# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE's quality of service on a node whose NICs keep it as mlx5's do, and can refuse it."""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_model as fabric_qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import dcb_managers, qos_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import roce_qos as qos
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import RoceQos
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.qos_kernel import QosKernel
from tests.unit.node.stored_notes import stored

PORTS = [{"netdev": "rail1", "pci": None}, {"netdev": None, "pci": "0000:02:00.0"}]
ETS = fabric_qos.Ets((0, 0, 0, 3, 0, 0, 6, 0), {0: 50, 3: 50}, (6,), ("qos", "ets"))
BUFFERS = fabric_qos.Buffers((0, 0, 0, 1, 0, 0, 0, 0), {0: 100000, 1: 150000}, 100, ("qos", "buffers"))
PLAIN = fabric_qos.host_variable(fabric_qos.Qos())
FULL = fabric_qos.host_variable(fabric_qos.Qos(ets=ETS, buffers=BUFFERS))


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)


@pytest.fixture
def kernel(tmp_path: Path) -> QosKernel:
    return QosKernel(tmp_path)


def subsystem(kernel: QosKernel, wanted: t.Mapping[str, t.Any] | None = None, **options: t.Any) -> RoceQos:
    qos_option = dict(FULL if wanted is None else wanted)
    qos_option.setdefault("roce_mode", "RoCE v2")
    return RoceQos(dict({"ports": PORTS, "qos": qos_option}, **options), kernel, kernel.tools())


def plan(one: RoceQos) -> tuple[State, list[Change]]:
    state = one.observe()
    return state, one.changes(state)


def run(one: RoceQos) -> list[Change]:
    done: list[Change] = []
    state, changes = plan(one)
    converge(one, state, changes, done)
    return done


def message(one: RoceQos) -> str:
    with pytest.raises(RailyardError) as caught:
        plan(one)
    return str(caught.value)


def test_all_settings_are_applied_once(kernel: QosKernel) -> None:
    one = subsystem(kernel)
    state, changes = plan(one)
    predicted = [change.as_dict() for change in changes]
    assert not kernel.writes and not kernel.dcb.requests  # only predicted so far
    after = converge(one, state, changes, [])
    assert [(each["subject"], each["attribute"]) for each in predicted if each["subject"] == "rail1"] == [
        ("rail1", "global_pause"),
        ("rail1", "buffers"),
        ("rail1", "ets"),
        ("rail1", "cable_len"),
        ("rail1", "pfc"),
        ("rail1", "trust"),
        ("rail1", "dscp2prio"),
        ("rail1", "ecn/roce_np/cnp_dscp"),
        ("rail1", "ecn/roce_np/cnp_802p_prio"),
        ("rail1", "ecn/roce_np/enable/3"),
        ("rail1", "ecn/roce_rp/enable/3"),
    ]
    for nic in kernel.nics():
        assert (nic.pfc, nic.delay, nic.flaps) == (0b1000, 100, 1)
        assert (nic.prio_tc, nic.tsa) == (FULL["ets"]["prio_tc"], [2, 0, 0, 2, 0, 0, 0, 0])
        assert nic.prio_buffer == FULL["buffers"]["prio_buffer"]
        assert sorted(nic.apps) == [(5, 3, 26), (5, 6, 48)]
        assert nic.trust == "dscp"
    assert not kernel.pause["rail1"].rx and not kernel.pause["rail1"].tx
    for device in ("mlx5_gpu01", "mlx5_gpu02"):
        assert kernel.read("/sys/class/infiniband/%s/tc/1/traffic_class" % device) == "Global tclass=106"
        assert kernel.defaults[device] == {"default_roce_tos": "106", "default_roce_mode": "RoCE v2"}
        assert not kernel.exists("/sys/kernel/config/rdma_cm/" + device)
    live = after["ports"][0]["qos"]
    for key in ("trust", "pfc", "dscp2prio", "global_pause"):
        assert live[key] == FULL[key]
    # mgmt0 carries the default route
    nic = kernel.dcb.netdevs["mgmt0"]
    assert nic is not None and (nic.pfc, nic.apps) == (0, [])


def test_a_second_run_changes_nothing(kernel: QosKernel) -> None:
    run(subsystem(kernel))
    writes, requests = len(kernel.writes), len(kernel.dcb.requests)
    assert run(subsystem(kernel)) == []
    assert (len(kernel.writes), len(kernel.dcb.requests)) == (writes, requests)


def test_the_run_after_an_interrupted_one_converges(tmp_path: Path) -> None:
    whole = QosKernel(tmp_path / "whole")
    run(subsystem(whole))
    for step in range(len(whole.writes)):
        kernel = QosKernel(tmp_path / ("write%d" % step))
        kernel.kill_at = step
        with pytest.raises(Killed):
            run(subsystem(kernel))
        kernel.kill_at = -1
        assert run(subsystem(kernel))
        assert [vars(nic) for nic in kernel.nics()] == [vars(nic) for nic in whole.nics()]
    for step in range(len(whole.dcb.requests)):
        kernel = QosKernel(tmp_path / ("dcb%d" % step))
        kernel.dcb.cut_after = step
        with pytest.raises(KeyboardInterrupt):
            run(subsystem(kernel))
        kernel.dcb.cut_after = -1
        assert run(subsystem(kernel))
        assert kernel.defaults == whole.defaults
        assert [sorted(nic.apps) for nic in kernel.nics()] == [sorted(nic.apps) for nic in whole.nics()]


def test_a_port_has_its_own_qos_in_place_of_that_of_all_ports(kernel: QosKernel) -> None:
    own = dict(FULL, pfc=[0] * 8, roce_mode="RoCE v2")
    ports = [PORTS[0], dict(PORTS[1], qos=own)]
    assert run(subsystem(kernel, persist=True, ports=ports))
    state = subsystem(kernel, ports=ports).observe()
    assert [port["qos"]["pfc"] for port in state["ports"]] == [FULL["pfc"], own["pfc"]]
    assert run(subsystem(kernel, persist=True, ports=ports)) == []
    held = json.loads(kernel.read("/etc/railyard/boot.d/40-roce_qos.json") or "")
    assert held["options"]["ports"] == ports
    # without its own, the port gets the QoS of all ports again
    assert {change.attribute for change in run(subsystem(kernel))} == {"pfc"}


def test_contradictions_of_a_ports_own_qos_name_the_port(kernel: QosKernel) -> None:
    ports = [PORTS[0], dict(PORTS[1], qos=dict(FULL, tclass=0, rdma_cm_tos=0))]
    with pytest.raises(RailyardError) as caught:
        subsystem(kernel, ports=ports)
    assert "ports[1].qos.tclass" in str(caught.value)


def test_unset_options_keep_the_current_values(kernel: QosKernel) -> None:
    nic = kernel.nics()[0]
    before = copy.deepcopy(vars(nic))
    run(subsystem(kernel, {"pfc": [0, 0, 0, 0, 0, 0, 0, 0], "roce_mode": None}))
    assert vars(nic) == before
    assert kernel.writes == []
    run(subsystem(kernel, PLAIN))
    assert (nic.prio_buffer, nic.tsa, nic.delay) == (before["prio_buffer"], before["tsa"], 7)


def test_one_dscp_is_mapped_to_another_priority(kernel: QosKernel) -> None:
    for replaces in (True, False):
        for nic in kernel.nics():
            nic.replaces, nic.apps = replaces, [(5, 5, 26), (5, 1, 8), (1, 4, 35093), (5, 6, 48)]
        done = run(subsystem(kernel, PLAIN))
        assert [(c.before, c.after) for c in done if c.attribute == "dscp2prio"] == [([[26, 5]], [[26, 3]])] * 2
        # entries of others stay
        assert all(sorted(nic.apps) == [(1, 4, 35093), (5, 1, 8), (5, 3, 26), (5, 6, 48)] for nic in kernel.nics())


def test_trust_pcp_removes_the_dscp_entries(kernel: QosKernel) -> None:
    wanted = fabric_qos.host_variable(fabric_qos.Qos(trust="pcp"))
    for nic in kernel.nics():
        nic.apps = [(5, dscp >> 3, dscp) for dscp in range(64)] + [(1, 4, 35093)]
    run(subsystem(kernel, wanted))
    assert [(nic.trust, nic.apps) for nic in kernel.nics()] == [("pcp", [(1, 4, 35093)])] * 2
    assert run(subsystem(kernel, wanted)) == []


def test_a_driver_with_a_table_of_trust(kernel: QosKernel) -> None:
    for nic in kernel.nics():
        nic.apptrust = [24]
    run(subsystem(kernel, PLAIN))
    assert [nic.apptrust for nic in kernel.nics()] == [[5], [5]]
    assert run(subsystem(kernel, PLAIN)) == []


def test_a_driver_without_dcb_trust(kernel: QosKernel) -> None:
    for netdev in ("rail1", "rail2"):
        kernel.tree.write("/sys/class/net/%s/qos/trust" % netdev, "pcp")
        rows = ["dscp\tprio"] + ["%d %d" % (dscp, 0) for dscp in range(64)]
        kernel.tree.write("/sys/class/net/%s/qos/dscp2prio" % netdev, "\n".join(rows))
    run(subsystem(kernel, PLAIN))
    assert kernel.read("/sys/class/net/rail1/qos/trust") == "dscp"
    table = (kernel.read("/sys/class/net/rail1/qos/dscp2prio") or "").splitlines()
    assert [row for row in table[1:] if not row.endswith(" 0")] == ["26 3", "48 6"]
    assert all(nic.apps == [] for nic in kernel.nics())
    assert run(subsystem(kernel, PLAIN)) == []


def test_dcbx_of_the_firmware_is_given_to_the_host(kernel: QosKernel) -> None:
    for nic in kernel.nics():
        nic.dcbx = 0x0C
    assert "rail1: the NIC's firmware negotiates" in message(subsystem(kernel, dcbx="any"))
    assert not kernel.dcb.requests
    done = run(subsystem(kernel))
    assert (done[0].attribute, done[0].before, done[0].after) == ("dcbx", "firmware", "host")
    assert [nic.dcbx for nic in kernel.nics()] == [0x0D, 0x0D]


def test_firmware_that_keeps_dcbx_is_an_error_with_a_remedy(kernel: QosKernel) -> None:
    for nic in kernel.nics():
        nic.dcbx, nic.keeps_dcbx = 0x0A, True
    one = subsystem(kernel, PLAIN)
    state, changes = plan(one)
    with pytest.raises(RailyardError, match="keeps its DCBX mode.*fw-lldp-agent off"):
        converge(one, state, changes, [])


def test_vfs_are_marked_and_have_no_dcb(kernel: QosKernel) -> None:
    kernel.with_vf()
    run(subsystem(kernel))
    assert kernel.read("/sys/class/infiniband/mlx5_vf0/tc/1/traffic_class") == "Global tclass=106"
    assert kernel.defaults["mlx5_vf0"]["default_roce_tos"] == "106"
    assert "vf0 is a VF, which does not have DCB. Remedy: name its PF, 0000:01:00.0" in message(
        subsystem(kernel, ports=[{"netdev": "vf0"}])
    )


def test_vfs_can_be_left(kernel: QosKernel) -> None:
    kernel.with_vf()
    run(subsystem(kernel, vfs=False))
    assert kernel.defaults["mlx5_vf0"]["default_roce_tos"] == "0"


def test_vfs_of_another_owner_are_not_marked(kernel: QosKernel) -> None:
    kernel.with_vf()
    port = {"pci": "0000:01:00.0"}
    run(subsystem(kernel, ports=[dict(port, range="1-3")]))
    assert kernel.defaults["mlx5_vf0"]["default_roce_tos"] == "0"
    run(subsystem(kernel, ports=[dict(port, range="0-3")]))
    assert kernel.defaults["mlx5_vf0"]["default_roce_tos"] == "106"


def test_the_kernels_own_driver(tmp_path: Path) -> None:
    kernel = QosKernel(tmp_path, vendor=False)
    one = subsystem(kernel)
    run(one)
    place = "/sys/kernel/debug/mlx5/0000:01:00.0/cc_params/"
    assert (kernel.read(place + "np_cnp_dscp"), kernel.read(place + "np_cnp_prio")) == ("48", "6")
    assert [line for line in one.warnings if "ROCE_CC_PRIO_MASK" in line and "priority 3" in line]
    assert [line for line in one.warnings if "NCCL_IB_TC=106" in line]
    assert run(subsystem(kernel)) == []


def test_a_device_without_ecn_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = QosKernel(tmp_path, vendor=False)
    read_bytes = kernel.read_bytes

    def locked(path: str) -> bytes | None:
        if path.startswith("/sys/kernel/debug"):
            raise RailyardError("cannot be read: Operation not permitted", path, "run the task with become")
        return read_bytes(path)

    monkeypatch.setattr(kernel, "read_bytes", locked)
    assert "rail1 (driver mlx5_core) does not support ECN" in message(subsystem(kernel))
    run(subsystem(kernel, dict(FULL, ecn=None)))
    assert kernel.nics()[0].pfc == 0b1000


def test_the_connection_manager_is_loaded(kernel: QosKernel) -> None:
    place = Path(kernel.path("/sys/kernel/config/rdma_cm"))
    place.rmdir()
    done = run(subsystem(kernel))
    assert kernel.loaded == ["rdma_cm"]
    assert kernel.defaults["mlx5_gpu01"]["default_roce_tos"] == "106"
    assert ("rdma_cm", "module") in [(change.subject, change.attribute) for change in done]
    place.rmdir()
    kernel.modules.clear()
    assert "does not have the module rdma_cm" in message(subsystem(kernel))


def test_buffers_that_read_back_in_cells(kernel: QosKernel) -> None:
    run(subsystem(kernel))
    have = kernel.nics()[0].sizes
    assert have[:2] != [100000, 150000] and all(0 <= w - h < 256 for w, h in zip([100000, 150000], have))
    wanted = copy.deepcopy(FULL)
    wanted["buffers"]["buffer_size"][1] = 152000
    done = run(subsystem(kernel, wanted))
    assert [change.attribute for change in done] == ["buffers", "buffers"]


def of_profile(name: str, **keys: t.Any) -> dict[str, t.Any]:
    """The plan's values of a transport profile."""
    text = yaml.safe_dump({"qos": {"profile": name, **keys}})
    report = Report()
    document = yaml_source.parse(text.encode(), report)
    assert document is not None
    section = Section(document.root, (), report).section("qos")
    assert section is not None
    return fabric_qos.host_variable(fabric_qos.read(section, report))


@pytest.mark.parametrize("lossy", ["roce-lossy", "multipath"])
def test_pfc_is_switched_off_and_on_again(kernel: QosKernel, lossy: str) -> None:
    """From a lossless port whose buffer 0 has no headroom: the driver refuses a paused priority in it."""
    sizes = {0: 60000, 1: 150000}
    lossless = of_profile("roce-lossless", buffers={"cable_len": 100, "buffer_size": sizes})
    without = of_profile(lossy, buffers={})
    run(subsystem(kernel, lossless))
    assert [(nic.pfc, nic.prio_buffer[3], nic.flaps) for nic in kernel.nics()] == [(0b1000, 1, 1)] * 2
    done = run(subsystem(kernel, without))
    assert [change.attribute for change in done if change.subject == "rail1"] == ["pfc", "buffers"]
    assert [(nic.pfc, nic.prio_buffer, nic.flaps) for nic in kernel.nics()] == [(0, [0] * 8, 2)] * 2
    assert [nic.trust for nic in kernel.nics()] == ["dscp"] * 2, "RoCE keeps its class"
    assert run(subsystem(kernel, without)) == []
    done = run(subsystem(kernel, lossless))
    assert [change.attribute for change in done if change.subject == "rail1"] == ["buffers", "pfc"]
    assert [(nic.pfc, nic.prio_buffer[3]) for nic in kernel.nics()] == [(0b1000, 1)] * 2


def test_leftover_pfc_is_drift_of_a_lossy_profile(kernel: QosKernel) -> None:
    lossy = of_profile("roce-lossy")
    run(subsystem(kernel, lossy))
    kernel.nics()[1].pfc = 0b1000
    _state, changes = plan(subsystem(kernel, lossy))
    assert [(change.subject, change.attribute, change.before, change.after) for change in changes] == [
        ("rail2", "pfc", [0, 0, 0, 1, 0, 0, 0, 0], [0] * 8)
    ]


def test_a_change_of_the_lossless_priority_keeps_its_order(kernel: QosKernel) -> None:
    """Between two lossless priorities, the buffer of the new one comes first."""
    sizes = {0: 100000, 1: 150000}
    run(subsystem(kernel, of_profile("roce-lossless", buffers={"buffer_size": sizes})))
    done = run(subsystem(kernel, of_profile("roce-lossless", dscp=40, buffers={"buffer_size": sizes})))
    assert [change.attribute for change in done if change.subject == "rail1"][:2] == ["buffers", "pfc"]


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_every_refusal_is_reported_before_any_change(kernel: QosKernel) -> None:
    first, second = kernel.nics()
    first.has.clear()
    second.classes, second.total, second.pfc_classes = 4, 1000, 1
    kernel.dcb.netdevs["plain0"] = None
    kernel.tree.netdev(kernel.tree.function("pci0000:00/0000:09:00.0"), "plain0")
    ports = PORTS + [{"netdev": "plain0"}, {"netdev": "mgmt0"}]
    wanted = dict(FULL, pfc=[0, 0, 0, 1, 1, 0, 0, 0])
    wanted["buffers"] = dict(FULL["buffers"], prio_buffer=[0, 0, 0, 1, 1, 0, 0, 0])
    with pytest.raises(Errors) as caught:
        plan(subsystem(kernel, wanted, ports=ports))
    text = str(caught.value)
    for part in (
        "ports[0]: rail1 (driver mlx5_core) does not support PFC",
        "ports[0]: rail1 (driver mlx5_core) does not support ETS",
        "ports[0]: rail1 (driver mlx5_core) does not support receive buffers",
        "ports[1]: rail2 has 4 traffic classes, but ets uses class 6",
        "ports[1]: rail2 can pause 1 priorities, but pfc has 2",
        "ports[1]: rail2 has 1000 bytes of buffers, but buffer_size adds up to 250000",
        "ports[2]: plain0 does not support DCB",
        "ports[3]: mgmt0 carries the default route",
    ):
        assert part in text
    assert not kernel.writes and not kernel.dcb.requests


@pytest.mark.parametrize(
    ("ports", "part"),
    [
        ([{"netdev": "none0"}], "there is no netdev none0"),
        ([{"pci": "0000:77:00.0"}], "there is no PCI function 0000:77:00.0"),
        ([{"pci": "0000:77"}], "is not a PCI address"),
        ([{"netdev": "rail1", "range": "3-2"}], "ports[0].range: '3-2' is not a range of VFs"),
        ([{}], "names neither pci nor netdev"),
        ([{"netdev": "rail1", "pci": "0000:02:00.0"}], "netdev rail1 is 0000:01:00.0, not 0000:02:00.0"),
        ([{"netdev": "rail1"}, {"pci": "0000:01:00.0"}], "0000:01:00.0 is the netdev rail1, as is ports[0]"),
    ],
)
def test_invalid_ports_are_refused(kernel: QosKernel, ports: list[dict[str, str]], part: str) -> None:
    with pytest.raises(RailyardError) as caught:
        plan(subsystem(kernel, ports=ports))
    assert part in str(caught.value)
    assert "Remedy: " in str(caught.value)


def test_a_port_that_gets_its_name_later_is_known_by_its_address(kernel: QosKernel) -> None:
    one = subsystem(kernel, ports=[{"netdev": "gpu01", "pci": "0000:01:00.0"}])
    assert {change.subject for change in plan(one)[1]} == {"rail1", "mlx5_gpu01"}


def test_an_infiniband_port_is_refused(kernel: QosKernel) -> None:
    kernel.tree.write("/sys/class/net/rail1/type", "32")
    assert "rail1 is an InfiniBand port" in message(subsystem(kernel))


def test_a_port_without_rdma_device_is_waited_for(kernel: QosKernel) -> None:
    Path(kernel.path("/sys/bus/pci/devices/0000:01:00.0/infiniband/mlx5_gpu01")).rename(kernel.path("/tmp_device"))
    assert "(driver mlx5_core) does not have an RDMA device in this network namespace" in message(subsystem(kernel))


def test_representors_are_not_the_port(kernel: QosKernel) -> None:
    kernel.tree.netdev("0000:02:00.0", "eth9", phys_port_name="pf0vf3")
    run(subsystem(kernel))
    assert kernel.nics()[1].pfc == 0b1000


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"tclass": 104}, "104 disables ECN, but ecn.enable is true"),
        ({"tclass": 98, "rdma_cm_tos": 98}, "98 marks packets with DSCP 24, not 26"),
        ({"rdma_cm_tos": 107}, "107 differs from the tclass, 106"),
        ({"pfc": [0, 0, 0, 0, 0, 1, 0, 0]}, "priority 3 of RoCE is not paused"),
        ({"pfc": [0, 0, 0, 1, 0, 0, 1, 0]}, "CNPs are on priority 6, which is paused"),
        ({"pfc": [0, 0, 0, 1]}, "has 4 values"),
        ({"profile": "roce-lossy"}, "the profile roce-lossy has no PFC, but pfc selects 3"),
        ({"profile": "multipath"}, "the profile multipath has no PFC, but pfc selects 3"),
        (
            {"profile": "roce-lossless", "pfc": [0] * 8},
            "the profile roce-lossless has PFC, but pfc selects no priority",
        ),
        ({"pfc": [0, 0, 0, 2, 0, 0, 0, 0]}, "2 is out of range"),
        ({"trust": "pcp"}, "DSCP entries do not go with trust pcp"),
        ({"dscp2prio": [[26, 4], [48, 6]]}, "DSCP 26 of RoCE is mapped to priority 4, not 3"),
        ({"dscp2prio": [[48, 6]]}, "has no entry for DSCP 26 of RoCE"),
        ({"dscp2prio": [[26, 3]]}, "has no entry for DSCP 48 of CNPs"),
        ({"dscp2prio": [[26, 3], [26, 4], [48, 6]]}, "DSCP 26 is given twice"),
        ({"dscp2prio": [[26]]}, "is not a pair"),
        ({"dscp2prio": []}, "is empty, but trust is dscp"),
        ({"global_pause": True}, "global pause stops all priorities"),
        ({"ecn": dict(PLAIN["ecn"], rp=[4])}, "priority 3 of RoCE is missing"),
        ({"ets": dict(FULL["ets"], tc_bw=[50, 0, 0, 40, 0, 0, 0, 0])}, "the shares add up to 90 percent"),
        ({"ets": dict(FULL["ets"], tc_bw=[100, 0, 0, 0, 0, 0, 0, 0])}, "a class of type ets has a share of 0"),
        ({"ets": dict(FULL["ets"], tc_tsa=["ets"])}, "must be eight values, each ets or strict"),
        ({"buffers": dict(FULL["buffers"], prio_buffer=[1] * 8)}, "buffer 1 has both paused priorities and others"),
        (
            {"buffers": dict(FULL["buffers"], buffer_size=[9, 0, 0, 0, 0, 0, 0, 0])},
            "buffer 1 is in use, but its size is 0",
        ),
        ({"buffers": dict(FULL["buffers"], cable_len=1000)}, "1000 is out of range"),
    ],
)
def test_contradictory_options_are_refused(kernel: QosKernel, changes: dict[str, t.Any], part: str) -> None:
    with pytest.raises(RailyardError) as caught:
        subsystem(kernel, dict(FULL, **changes))
    assert part in str(caught.value)
    assert str(caught.value).startswith("qos.")


def test_the_planners_own_values_never_disagree(kernel: QosKernel) -> None:
    for dscp in range(64):
        for trust in fabric_qos.TRUSTS:
            for ecn in (True, False):
                one = fabric_qos.Qos(priority=dscp >> 3, dscp=dscp, pfc=(dscp >> 3,), trust=trust, ecn=ecn)
                if one.priority != one.cnp_priority:
                    subsystem(kernel, fabric_qos.host_variable(one))


# -- failures while it is done -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "number", "part"),
    [
        ((20, 10), errno.EINVAL, "ports[0] (rail1): buffers: Invalid argument"),
        ((20, 2), errno.EINVAL, "ports[0] (rail1): cable_len: Invalid argument"),
        ((20, 1), errno.EPERM, "ports[0] (rail1): ets: Operation not permitted"),
        ((20, 3), errno.EOPNOTSUPP, "ports[0] (rail1): trust: Operation not supported"),
    ],
)
def test_a_refusal_of_the_driver_is_an_error_and_the_next_run_converges(
    kernel: QosKernel, what: tuple[int, int], number: int, part: str
) -> None:
    kernel.dcb.fail.append((what, number))
    one = subsystem(kernel)
    state, changes = plan(one)
    done: list[Change] = []
    with pytest.raises(RailyardError) as caught:
        converge(one, state, changes, done)
    assert part in str(caught.value) and "Remedy: " in str(caught.value)
    assert done
    assert run(subsystem(kernel))  # and the next run repairs it


def test_a_buffer_below_its_headroom_is_refused_by_the_driver(kernel: QosKernel) -> None:
    wanted = copy.deepcopy(FULL)
    wanted["buffers"]["buffer_size"] = [100000, 20000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(RailyardError, match="docs/qos.md"):
        run(subsystem(kernel, wanted))


# -- who else ----------------------------------------------------------------------------------------------------------


def test_lldpad_is_refused_or_warned_of(kernel: QosKernel) -> None:
    kernel.tree.write("/proc/812/comm", "lldpad")
    assert "node: lldpad sets PFC, ETS" in message(subsystem(kernel))
    one = subsystem(kernel, others="warn")
    run(one)
    assert [line for line in one.warnings if line.startswith("lldpad sets PFC")]


def test_an_enabled_lldpad_is_reported_before_the_next_boot(kernel: QosKernel) -> None:
    kernel.tree.link("/etc/systemd/system/sockets.target.wants/lldpad.socket", "/lib/systemd/system/lldpad.socket")
    (other,) = dcb_managers.others(kernel)
    assert "will start at the next boot" in other.message


def test_a_profile_of_networkmanager(kernel: QosKernel) -> None:
    place = "/etc/NetworkManager/system-connections/fcoe.nmconnection"
    text = "[connection]\nid=fcoe\ninterface-name=%s\n\n[dcb]\npriority-flow-control-flags=3"
    kernel.tree.write(place, text % "rail2")
    assert "rail2: NetworkManager's profile" in message(subsystem(kernel))
    kernel.tree.write(place, text % "storage0")
    run(subsystem(kernel))


# -- boot --------------------------------------------------------------------------------------------------------------


def test_settings_are_persistent_and_return_with_the_port(kernel: QosKernel) -> None:
    run(subsystem(kernel, persist=True))
    held = json.loads(kernel.read("/etc/railyard/boot.d/40-roce_qos.json") or "")
    assert held["module"] == qos.MODULE
    rules = kernel.read("/etc/udev/rules.d/90-railyard-roce_qos.rules") or ""
    for kind in ("net", "infiniband"):
        for function in ("0000:01:00.0", "0000:02:00.0"):
            assert 'ACTION=="add", SUBSYSTEM=="%s", KERNELS=="%s"' % (kind, function) in rules
    # what boot does with it, after all was lost
    for nic in kernel.nics():
        nic.__dict__.update(pfc=0, apps=[], delay=7)
    again = RoceQos(held["options"], kernel, kernel.tools())
    assert {change.attribute for change in run(again)} == {"cable_len", "pfc", "trust", "dscp2prio"}
    assert run(RoceQos(held["options"], kernel, kernel.tools())) == []
    assert run(subsystem(kernel, persist=True)) == []


def test_the_boot_program_applies_qos(kernel: QosKernel) -> None:
    one = boot_program.layer("roce_qos").build({"ports": PORTS, "qos": FULL}, kernel)
    assert isinstance(one, RoceQos)


def test_an_empty_list_of_ports_removes_persistent_settings(kernel: QosKernel) -> None:
    run(subsystem(kernel, persist=True))
    run(subsystem(kernel, persist=True, ports=[]))
    assert not kernel.exists("/etc/railyard/boot.d/40-roce_qos.json")
    assert not kernel.exists("/etc/udev/rules.d/90-railyard-roce_qos.rules")


# -- taken back --------------------------------------------------------------------------------------------------------

NOTED = "/run/railyard/until_boot/roce_qos"
STAYS = "QoS of rail1, 0000:02:00.0 stays as set until the next boot"


def take_back(kernel: QosKernel, **options: t.Any) -> tuple[list[str], list[str]]:
    """The planned changes, applied; the second run changes nothing and reports the same."""
    options = dict({"state": "absent", "persist": True, "ports": [], "qos": None}, **options)

    def one() -> RoceQos:
        return RoceQos(options, kernel, kernel.tools())

    foreseen, it = one(), one()
    expected = plan(foreseen)[1]
    done = run(it)
    assert [each.as_dict() for each in done] == [each.as_dict() for each in expected]
    outcome = it.outcome({}, [])
    assert foreseen.outcome({}, expected) == outcome
    again = one()
    assert run(again) == [] and again.outcome({}, []) == outcome and again.warnings == []
    assert outcome["reboot_required"] == bool(outcome["reboot_reasons"])
    return [each.subject for each in done], outcome["reboot_reasons"]


def test_absent_removes_persistent_settings_and_touches_no_port(kernel: QosKernel) -> None:
    run(subsystem(kernel, persist=True))
    before = [dict(nic.__dict__) for nic in kernel.nics()]
    # who else sets it, and a port that went away, do not matter any more
    kernel.tree.link("/etc/systemd/system/sockets.target.wants/lldpad.socket", "/lib/systemd/system/lldpad.socket")
    done, reasons = take_back(kernel)
    rules, kept = "/etc/udev/rules.d/90-railyard-roce_qos.rules", "/etc/railyard/boot.d/40-roce_qos.json"
    assert done[:3] == [NOTED, rules, kept] and reasons == [STAYS]
    assert not kernel.exists(rules) and not kernel.exists("/etc/railyard")
    assert [dict(nic.__dict__) for nic in kernel.nics()] == before


def test_present_clears_until_boot_records(kernel: QosKernel) -> None:
    run(subsystem(kernel, persist=True))
    take_back(kernel)
    # an empty list of ports does not remove what is persistent
    assert run(subsystem(kernel, persist=True, ports=[])) == [] and kernel.exists(NOTED)
    it = subsystem(kernel, persist=True)
    assert run(it)[-1].subject == NOTED and it.outcome({}, []) == {"reboot_required": False, "reboot_reasons": []}
    assert not kernel.exists(NOTED) and run(subsystem(kernel, persist=True)) == []


def test_present_of_some_ports_keeps_records_of_the_others(kernel: QosKernel) -> None:
    run(subsystem(kernel, persist=True))
    take_back(kernel)
    run(subsystem(kernel, persist=True, ports=PORTS[:1]))
    left = "QoS of 0000:02:00.0 stays as set until the next boot"
    assert stored(kernel.read(NOTED)) == [left]
    assert run(subsystem(kernel, persist=True, ports=PORTS[:1])) == []
    # by its netdev, it is the same port
    run(subsystem(kernel, persist=True, ports=[*PORTS[:1], {"netdev": "rail2"}]))
    assert not kernel.exists(NOTED)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (["a", "3"], r"qos.dscp2prio\[0\]: 'a' is not a number"),
        ([26, None], r"qos.dscp2prio\[0\]: is not a pair"),
        ([26, [3]], r"qos.dscp2prio\[0\]: \[3\] is not a number"),
    ],
)
def test_invalid_entries_are_refused(kernel: QosKernel, pair: list[t.Any], words: str) -> None:
    with pytest.raises(RailyardError, match=words):
        subsystem(kernel, qos=dict(FULL, dscp2prio=[pair]))


def test_absent_killed_at_any_point_is_completed_by_the_next_run(tmp_path: Path) -> None:
    for number in range(99):
        root = tmp_path / str(number)
        root.mkdir()
        kernel = QosKernel(root)
        run(subsystem(kernel, persist=True))
        wanted = plan(RoceQos({"state": "absent", "persist": True}, kernel, kernel.tools()))[1]
        for change in wanted[:number]:
            change.act()
        assert take_back(kernel)[1] == [STAYS]
        assert not kernel.exists("/etc/railyard") and not kernel.exists("/etc/udev/rules.d/90-railyard-roce_qos.rules")
        if number > len(wanted):
            break
    assert number > 9


def test_absent_without_settings_changes_nothing(kernel: QosKernel) -> None:
    assert take_back(kernel) == ([], [])
    run(subsystem(kernel, persist=True))
    assert take_back(kernel, persist=False) == ([], []), "nothing but what is kept could go"
    with pytest.raises(RailyardError, match="roce_qos reverts the settings of all ports") as caught:
        take_back(kernel, ports=PORTS)
    assert caught.value.place == "ports" and "omit ports" in caught.value.remedy


# -- reading alone -----------------------------------------------------------------------------------------------------


def test_gathered_reads_every_ethernet_pf(kernel: QosKernel) -> None:
    kernel.with_vf()
    one = RoceQos({"state": "gathered"}, kernel, kernel.tools())
    state = one.observe()
    assert [row["netdev"] for row in state["ports"]] == ["rail1", "rail2", "mgmt0"]
    row = state["ports"][0]
    assert (row["driver"], row["dcbx"], row["qos"]["trust"]) == ("mlx5_core", "host", "pcp")
    assert row["qos"]["ecn"]["cnp_dscp"] == 46
    assert [(each["device"], each["tclass"], each["roce_mode"]) for each in row["rdma"]] == [
        ("mlx5_gpu01", 0, "IB/RoCE v1"),
        ("mlx5_vf0", 0, "IB/RoCE v1"),
    ]
    assert state["others"] == [] and not kernel.writes


def test_the_module_accepts_the_options_of_the_plan() -> None:
    def known(value: t.Mapping[str, t.Any], spec: t.Mapping[str, t.Any]) -> None:
        assert set(value) <= set(spec)
        for key, each in value.items():
            if isinstance(each, dict) and "options" in spec[key]:
                known(each, spec[key]["options"])

    for value in (FULL, *(of_profile(name) for name in qos_spec.PROFILES)):
        known(value, qos_spec.QOS_SPEC)


def test_a_port_that_a_pod_has_is_not_changed_and_stays_persistent(kernel: QosKernel) -> None:
    function = "0000:02:00.0"
    shutil.rmtree(kernel.tree.root / ("sys/bus/pci/devices/%s/net/rail2" % function))
    os.unlink(kernel.tree.root / "sys/class/net/rail2")
    one = subsystem(kernel, persist=True)
    changed = [change.subject for change in run(one)]
    assert "rail1" in changed and "rail2" not in changed
    assert ["is not changed: its netdev is in another network namespace" in each for each in one.warnings] == [True]
    kept = json.loads(kernel.read_file("/etc/railyard/boot.d/40-roce_qos.json") or "")["options"]["ports"]
    assert [each["pci"] for each in kept] == [None, function]
    assert run(subsystem(kernel, persist=True)) == []
