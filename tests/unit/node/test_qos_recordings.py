# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE's quality of service on ports as ``mlnx_qos`` printed them on real servers."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_model as fabric_qos
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import dcb_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import RoceQos
from tests.unit.node.dcb_kernel import Nic
from tests.unit.node.qos_kernel import QosKernel

RECORDINGS = Path(__file__).parents[2] / "recordings" / "qos"
DSCP = {dscp: dscp >> 3 for dscp in range(64)}
PLAIN = fabric_qos.Qos()


def recording(name: str) -> str:
    return (RECORDINGS / (name + ".txt")).read_text()


def nic_of(text: str) -> Nic:
    """The NIC of the recording. What the recording does not have (classes without a priority) comes from the fake."""
    nic = Nic()
    if "DCBX mode: Firmware controlled" in text:
        nic.dcbx = 0x0C  # mlx5: CEE and IEEE without DCB_CAP_DCBX_HOST
    for found in re.finditer(r"prio:(\d) dscp:([\d,]+)", text):
        nic.apps += [
            (dcb_netlink.SELECTOR_DSCP, int(found.group(1)), int(each)) for each in found.group(2)[:-1].split(",")
        ]
    sizes = re.search(r"Receive buffer size \(bytes\): ((?:\d+,){8})(?:max_buffer_size=(\d+))?", text)
    if sizes:
        nic.sizes = [int(each) for each in sizes.group(1)[:-1].split(",")]
        nic.total = int(sizes.group(2) or nic.total)
        nic.prio_buffer = _row("buffer", text)
    else:
        nic.has.discard("buffer")
    nic.delay = int(_found(r"Cable len: (\d+)", text))
    nic.pfc = sum(bit << priority for priority, bit in enumerate(_row("enabled", text)))
    for part in text.split("\ntc: ")[1:]:
        number, kind = int(part.split()[0]), _found(r"tsa: (\w+)", part)
        nic.tsa[number] = dcb_netlink.TSA_NUMBERS[kind]
        nic.bw[number] = int(_found(r"bw: (\d+)", part)) if kind == "ets" else 100
        for priority in re.findall(r"priority:\s+(\d)", part):
            nic.prio_tc[int(priority)] = number
    return nic


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, pattern
    return found.group(1)


def _row(name: str, text: str) -> list[int]:
    return [int(each) for each in _found(r"\n\s+%s((?:\s+\d){8})" % name, text).split()]


class Server:
    """A server whose first port is the recorded one."""

    def __init__(self, root: Path, name: str) -> None:
        self.kernel = QosKernel(root)
        self.nic = self.kernel.dcb.netdevs["rail1"] = nic_of(recording(name))

    def plan(self, wanted: fabric_qos.Qos, **options: t.Any) -> tuple[State, list[Change]]:
        qos = dict(fabric_qos.host_variable(wanted), roce_mode="RoCE v2")
        ports = [{"netdev": "rail1", "pci": None}]
        one = RoceQos(dict({"ports": ports, "qos": qos}, **options), self.kernel, self.kernel.tools())
        state = one.observe()
        return state, one.changes(state)

    def dcb_changes(self, wanted: fabric_qos.Qos, **options: t.Any) -> dict[str, tuple[t.Any, t.Any]]:
        """What is to be set by DCB, and not in the driver's files beside it."""
        attributes = ("dcbx", "buffers", "ets", "cable_len", "pfc", "trust", "dscp2prio")
        found = [each for each in self.plan(wanted, **options)[1] if each.attribute in attributes]
        return {each.attribute: (each.before, each.after) for each in found}

    def live(self) -> dict[str, t.Any]:
        held: dict[str, t.Any] = self.plan(PLAIN)[0]["ports"][0]
        return held


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)


@pytest.mark.parametrize(
    ("name", "dcbx", "trust", "entries"),
    [
        ("connectx7-dscp", "host", "dscp", DSCP),
        ("every-buffer", "host", "dscp", {**DSCP, 30: 6}),
        ("firmware-dcbx", "firmware", "dscp", DSCP),
        ("fresh-dscp", "host", "dscp", DSCP),
        ("fresh-pcp", "host", "pcp", {}),
        ("without-buffers", "host", "dscp", DSCP),
    ],
)
def test_a_port_reads_back_with_the_set_values(
    tmp_path: Path, name: str, dcbx: str, trust: str, entries: dict[int, int]
) -> None:
    live = Server(tmp_path, name).live()
    assert (live["dcbx"], live["qos"]["trust"]) == (dcbx, trust)
    assert live["qos"]["dscp2prio"] == [[dscp, entries[dscp]] for dscp in sorted(entries)]


def site(first: int = 19872, second: int = 220896) -> fabric_qos.Qos:
    """What the ConnectX-7's owners want of it, by their script beside the recording."""
    ets = fabric_qos.Ets(tuple(range(8)), {0: 9, 1: 1, 2: 80, 3: 10}, (4, 5, 6, 7), ("qos", "ets"))
    buffers = fabric_qos.Buffers((0, 0, 0, 0, 0, 1, 0, 0), {0: first, 1: second}, 30, ("qos", "buffers"))
    return fabric_qos.Qos(priority=5, dscp=40, pfc=(5,), ets=ets, buffers=buffers)


def test_a_server_set_up_with_the_vendors_tool_is_unchanged(tmp_path: Path) -> None:
    server = Server(tmp_path, "connectx7-dscp")
    assert server.dcb_changes(site()) == {}
    # sizes that are not multiples of a cell, which has 96 bytes there: the NIC rounds them
    assert server.dcb_changes(site(19872 + 95, 220896 + 95)) == {}
    assert list(server.dcb_changes(site(second=230000))) == ["buffers"]
    assert fabric_qos.host_variable(site())["tclass"] == 162  # the mark that their script writes


def test_a_port_without_settings_gets_all_settings(tmp_path: Path) -> None:
    on, off = [0, 0, 0, 1, 0, 0, 0, 0], [0] * 8
    changes = Server(tmp_path / "pcp", "fresh-pcp").dcb_changes(PLAIN)
    assert changes == {"pfc": (off, on), "trust": ("pcp", "dscp"), "dscp2prio": ([], [[26, 3], [48, 6]])}
    # with the trust on DSCPs, the table that comes with it is the wanted one
    assert Server(tmp_path / "dscp", "fresh-dscp").dcb_changes(PLAIN) == {"pfc": (off, on)}


def test_a_port_that_the_switch_has_set(tmp_path: Path) -> None:
    server = Server(tmp_path, "firmware-dcbx")
    live = server.live()
    assert live["qos"]["ets"]["prio_tc"] == [0, 0, 0, 3, 0, 0, 6, 0]
    assert live["qos"]["buffers"]["buffer_size"] == [130944, 130944, 0, 0, 0, 0, 0, 0]
    assert server.dcb_changes(PLAIN) == {"dcbx": ("firmware", "host")}
    with pytest.raises(RailyardError, match="negotiates DCB with the switch"):
        server.plan(PLAIN, dcbx="any")
    ets = fabric_qos.Ets((0, 0, 0, 3, 0, 0, 6, 0), {0: 50, 3: 50}, (6,), ("qos", "ets"))
    changes = server.dcb_changes(fabric_qos.Qos(ets=ets))
    assert changes["ets"][0]["tc_tsa"][6] == "vendor" and changes["ets"][1]["tc_tsa"][6] == "strict"
    buffers = fabric_qos.Buffers((0, 0, 0, 1, 0, 0, 0, 0), {0: 130944, 1: 140000}, 7, ("qos", "buffers"))
    with pytest.raises(RailyardError, match="has 262016 bytes of buffers, but buffer_size adds up to 270944"):
        server.plan(fabric_qos.Qos(buffers=buffers))


def test_a_port_with_manual_changes(tmp_path: Path) -> None:
    server = Server(tmp_path, "every-buffer")
    assert server.live()["qos"]["buffers"]["prio_buffer"] == [0, 2, 5, 7, 1, 2, 3, 6]
    assert server.dcb_changes(PLAIN) == {}
    assert server.dcb_changes(fabric_qos.Qos(dscp=30)) == {"dscp2prio": ([[30, 6]], [[30, 3]])}
    buffers = fabric_qos.Buffers((0, 0, 0, 1, 0, 0, 0, 0), {0: 80000, 1: 80000}, 7, ("qos", "buffers"))
    ((before, after),) = server.dcb_changes(fabric_qos.Qos(buffers=buffers)).values()
    assert before["buffer_size"] == [80256, 80256, 896, 80256, 896, 896, 896, 896]
    assert after["buffer_size"] == [80000, 80000, 0, 0, 0, 0, 0, 0]


def test_a_driver_that_reports_no_buffers(tmp_path: Path) -> None:
    server = Server(tmp_path, "without-buffers")
    assert server.live()["qos"]["buffers"] == {"prio_buffer": None, "buffer_size": None, "cable_len": 7}
    assert server.dcb_changes(PLAIN) == {}
    with pytest.raises(RailyardError, match="does not support receive buffers"):
        server.plan(site())


def test_the_marks_of_an_rdma_device(tmp_path: Path) -> None:
    server = Server(tmp_path, "fresh-dscp")
    device = "mlx5_gpu01"
    assert server.live()["rdma"][0]["tclass"] == 0  # the file is empty before it is written to
    server.kernel.tree.write("/sys/class/infiniband/%s/tc/1/traffic_class" % device, recording("traffic_class").strip())
    server.kernel.defaults[device]["default_roce_tos"] = recording("cma_roce_tos").strip()
    (row,) = server.live()["rdma"]
    assert (row["device"], row["tclass"], row["rdma_cm_tos"]) == (device, 106, 106)
    # the marks that the project comes with are those that every user sets
    attributes = {each.attribute for each in server.plan(PLAIN)[1] if each.subject == device}
    assert attributes == {"default_roce_mode"}
