# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of nodes on one screen, from what rail_info returns."""

from __future__ import annotations

import calendar
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.action.fabric_status import last_verdict
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import fabric_status
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.fabric_status import (
    FabricStatus,
    NodeStatus,
    node_status,
    port_state,
)

Row = t.Dict[str, t.Any]
RAILS = ["gpu%02d" % number for number in range(1, 9)]


def nic(number: int = 1, **other: t.Any) -> Row:
    row = {"pci": "0000:%02d:00.0" % number, "netdev": "rail%02d" % number, "up": True, "carrier": True}
    return {**row, "link_layer": "ethernet", "holders": [], "rdma_holders": [], **other}


def link(number: int = 1, **other: t.Any) -> Row:
    return {"pci": "0000:%02d:00.0" % number, "netdev": "rail%02d" % number, "state": "ACTIVE", **other}


def port(number: int = 1, **other: t.Any) -> Row:
    return {"rail": "gpu%02d" % number, "pci": "0000:%02d:00.0" % number, "netdev": "rail%02d" % number, **other}


@pytest.mark.parametrize(
    "nics, rdma, state",
    [
        ([nic()], [link()], ""),
        ([nic()], [], ""),
        ([nic(carrier=False)], [link(state="DOWN")], "no carrier"),
        ([nic(up=False, carrier=None)], [], "set down"),
        ([nic()], [link(state="DOWN")], "RDMA state DOWN"),
        ([nic()], [link(netdev="other", state="DOWN")], ""),
        ([nic()], [link(state="DOWN", parent="mlx5_0")], ""),
        ([nic(2)], [], "its NIC is missing"),
        ([nic(netdev=None)], [], "without a netdev"),
        ([nic(netdev=None, holders=["pod default/a"])], [], "in a pod"),
        ([nic(netdev="renamed")], [link(netdev="renamed")], ""),
        ([nic(link_layer="infiniband", netdev="ib0", up=False)], [link(netdev=None)], ""),
        ([nic(link_layer="infiniband")], [link(state="INIT")], "RDMA state INIT"),
        ([nic(link_layer="infiniband", netdev=None)], [], "without an RDMA device"),
        ([nic(link_layer="infiniband", netdev=None, rdma_holders=["pod default/a"])], [], "in a pod"),
    ],
)
def test_the_state_of_a_port(nics: list[Row], rdma: list[Row], state: str) -> None:
    assert port_state(port(), {"nics": nics, "rdma": rdma}) == state


def test_a_bond_with_a_member_that_is_down_is_named() -> None:
    members = [{"pci": "0000:0%d:00.0" % n, "netdev": "rail0%d" % n, "match": None} for n in (1, 2)]
    bond = port(netdev="bond0", lower={"functions": members})
    seen = {"nics": [nic(), nic(2, carrier=False)], "rdma": []}
    assert port_state(bond, seen) == "1 of 2 links: no carrier"
    assert port_state(bond, {"nics": [nic(), nic(2)], "rdma": [link(netdev="bond0", state="DOWN")]}) == (
        "1 of 2 links: RDMA state DOWN"
    )
    assert port_state(bond, {"nics": [nic(carrier=False), nic(2, carrier=False)], "rdma": []}) == "no carrier"


def test_the_agent_reports_what_the_link_does_not_show() -> None:
    rows = [
        {"rail": "gpu01", "healthy": False, "cordoned": False, "reason": "the MTU is 1500", "degraded": ""},
        {"rail": "gpu02", "healthy": False, "cordoned": True, "reason": "cordoned: new cable", "degraded": ""},
    ]
    agent = {"error": None, "version": "0.2.0", "rails": rows, "resources": [], "problems": []}
    agent["problems"] = ["slot-%d is held" % number for number in (1, 2)] + ["the kubelet is gone"]
    planned = {"name": "a", "ports": [port(match=None), port(2, match=None)], "agent": {"rails": []}}
    seen = {"nics": [nic(), nic(2)], "rdma": [], "agent": agent}
    node = node_status("a", planned, seen)
    assert node.ports == {"gpu01": "the MTU is 1500", "gpu02": ""}
    status = FabricStatus("east", [node], "0.2.0", ["a"], "no verdict")
    assert status.differences() == [
        "gpu01 on a: the MTU is 1500",
        "gpu02 on a: cordoned: new cable",
        "a: cordoned in the cluster",
        "a: slot-[1-2] is held",
        "a: the kubelet is gone",
    ]
    assert "cordoned: 1 rail, 1 node" in status.summary
    stopped = node_status("a", planned, {**seen, "agent": {"error": "the rail agent does not answer"}})
    assert "agents: none answers" in FabricStatus("east", [stopped], "0.2.0", None, "").summary
    missing = FabricStatus("east", [node_status("a", planned, {**seen, "agent": None})], "0.2.0", None, "")
    assert missing.differences() == ["a: no rail agent, which the plan has"]


def test_a_node_that_cannot_be_read_has_a_reason() -> None:
    dark = node_status("a", {"ports": [port()]}, {"unreachable": True, "msg": "Task failed: no route\n to a"})
    broken = node_status("b", {"ports": [port()]}, {"failed": True, "msg": "no Python"})
    status = FabricStatus("east", [dark, broken], "0.2.0", None, "no verdict")
    assert status.differences() == ["a: no answer: no route to a", "b: cannot be read: no Python"]
    assert status.summary == "2 nodes: 0 answer, a, b do not; 0 of 2 ports up; no verdict"


def test_lines_that_do_not_fit_are_counted() -> None:
    reasons = ["%d times %s" % (number, "a long reason " * 12) for number in range(31)]
    nodes = [NodeStatus("ai-%d" % number, RAILS[:1], {RAILS[0]: text}) for number, text in enumerate(reasons)]
    lines = FabricStatus("east", nodes, "0.2.0", None, "").lines(80)
    assert len(lines) <= 2 * fabric_status.MOST_LINES + 5
    assert sum(" on ai-" in line for line in lines) == 20 and lines[-1] == "  and 11 more lines in status.json"


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("state", ["healthy", "broken", "everything differs"])
def test_512_nodes_are_one_screen(state: str, width: int) -> None:
    nodes = []
    for number in range(512):
        ports = dict.fromkeys(RAILS, "")
        if state == "broken" and number % 16 == 3:
            ports.update(gpu03="no carrier", gpu04="no carrier")
        if state == "everything differs":
            ports = {rail: "reason %d of 4096" % (8 * number + at) for at, rail in enumerate(RAILS)}
        nodes.append(NodeStatus("hgx-%03d" % number, RAILS, ports))
    status = FabricStatus("east", nodes, "0.2.0", None, "last verify 2 h ago: 4,096 of 4,096 ports proven")
    lines = status.lines(width)
    assert len(lines) <= 2 * fabric_status.MOST_LINES + 10 and max(map(len, lines)) <= width
    if state == "healthy":
        assert " ".join(line.strip() for line in lines) == "fabric east: %s" % status.summary and len(lines) <= 3
        assert "512 nodes: all answer; 4,096 of 4,096 ports up; last verify 2 h ago" in status.summary
    if state == "broken":
        assert len(status.differences()) == 1 and "gpu0[3-4] on 32 nodes (hgx-[" in " ".join(lines)
    if state == "everything differs":
        assert "and 4,066 more lines in status.json" in lines[-1]
    assert len(status.document()["nodes"]) == 512


def test_the_same_error_of_many_nodes_is_one_line() -> None:
    """Errors of SSH have the address or the name of the node."""
    text = "Failed to connect to the host via ssh: connect to host %s port 22: Connection timed out"
    nodes = [
        node_status("ai-%d" % number, {"ports": [port()]}, {"unreachable": True, "msg": text % host})
        for number in range(1, 33)
        for host in ["10.1.16.%d" % number if number < 31 else "ai-%d" % number]
    ]
    assert FabricStatus("east", nodes, "0.2.0", None, "").differences() == [
        "30 nodes (ai-[1-30]): no answer: %s" % text % "10.1.16.[1-30]",
        "2 nodes (ai-[31-32]): no answer: %s" % text % "ai-[31-32]",
    ]


def test_the_same_reason_of_many_ports_is_one_line() -> None:
    """Reasons of the agent have the names and addresses of ports; other values stay apart."""
    ports = {
        number: {rail: "ens%d: the MTU is %d, for 172.16.%d.%d" % (at, 1500 if at < 8 else 9000, at, number)
                 for at, rail in enumerate(RAILS, 1)}
        for number in (1, 2)
    }  # fmt: skip
    nodes = [NodeStatus("ai-%d" % number, RAILS, states) for number, states in ports.items()]
    assert FabricStatus("east", nodes, "0.2.0", None, "").differences() == [
        "gpu0[1-7] on 2 nodes (ai-[1-2]): ens[1-7]: the MTU is 1500, for 172.16.[1-7].[1-2]",
        "gpu08 on 2 nodes (ai-[1-2]): ens8: the MTU is 9000, for 172.16.8.[1-2]",
    ]


VERDICT = {"format": 1, "kind": "verify", "fabric": "east", "began": "2026-11-29T07:00:00Z", "seconds": 60, "ok": True}
VERDICT.update(headline="2 of 2 ports proven", nodes=["a", "b"], rails=["gpu01"])


@pytest.mark.parametrize(
    "changed, line, is_ok",
    [
        ({}, "last verify 3 h ago: 2 of 2 ports proven", True),
        ({"ok": False, "fabric": "west"}, "last verify of fabric west 3 h ago: 2 of 2 ports proven", False),
        ({"seconds": "x"}, 'verify.json: seconds: "x" is not a number', False),
        ({"kind": "drift"}, 'verify.json: kind: it is "drift", and not verify', False),
        ({"began": ""}, "the last verdict of verify is unknown: ", False),
    ],
)
def test_the_last_verdict_is_one_line(changed: Row, line: str, is_ok: bool, tmp_path: Path) -> None:
    (tmp_path / "verify.json").write_text(json.dumps({**VERDICT, **changed}))
    now = calendar.timegm((2026, 11, 29, 10, 1, 0))
    found, ok = last_verdict(str(tmp_path), "east", now)
    assert line in found and ok is is_ok
    (tmp_path / "verify.json").unlink()
    assert last_verdict(str(tmp_path), "east", now) == ("no verdict of verify in %s" % tmp_path, False)


def health(*rails: Row, **changed: t.Any) -> Row:
    states = {row["state"] for row in rails}
    result = "fail" if "fail" in states else "pass" if states == {"pass"} else "unknown"
    row = {"result": result, "node": "", "fabric": "", "age": 2.6, "problems": [], "error": None}
    return dict(row, rails=list(rails), **changed)


def health_rail(number: int = 1, state: str = "pass", **other: t.Any) -> Row:
    row = {"rail": "gpu%02d" % number, "state": state, "degraded": False, "since": 1.0, "reason": "", "remedy": ""}
    return dict(row, **other)


PLANNED = {"name": "a", "ports": [port(match=None), port(2, match=None)]}
SEEN = {"nics": [nic(), nic(2, carrier=False)], "rdma": []}
DARK = {"unreachable": True, "msg": "no route"}
NO_FILE = {"place": "/run/railyard/health/state.json", "message": "is 95 s old", "remedy": "start it"}


@pytest.mark.parametrize(
    "seen, result, text, differences",
    [
        (
            dict(SEEN, health=health(health_rail(), health_rail(2, "fail", reason="RV402 rail02", remedy="reseat it"))),
            "fail",
            "health: fail, 1 of 2 rails pass, 1 fails, at most 3 s old",
            ["gpu02 on a: RV402 rail02. Remedy: reseat it"],
        ),
        (
            dict(SEEN, health=health(health_rail(), health_rail(2, degraded=True, reason="RV422 plane 2"))),
            "pass",
            "health: pass, 2 of 2 rails pass, at most 3 s old",
            ["gpu02 on a: no carrier", "gpu02 on a: degraded: RV422 plane 2"],
        ),
        (
            dict(SEEN, health=health(error=NO_FILE, age=None)),
            "unknown",
            "health: unknown, 0 of 2 rails pass, 2 unknown",
            [
                "gpu02 on a: no carrier",
                "gpu0[1-2] on a: /run/railyard/health/state.json: is 95 s old. Remedy: start it",
            ],
        ),
        (
            dict(SEEN, health=None),
            "unknown",
            "health: unknown, 0 of 2 rails pass, 2 unknown",
            [
                "gpu02 on a: no carrier",
                "gpu0[1-2] on a: the health service is not installed. Remedy: run hosts.yml --tags health",
            ],
        ),
        (
            dict(SEEN, health=health(health_rail())),
            "unknown",
            "health: unknown, 1 of 2 rails pass, 1 unknown, at most 3 s old",
            [
                "gpu02 on a: no carrier",
                "gpu02 on a: the state of the health service does not have this rail. "
                "Remedy: run hosts.yml --tags health",
            ],
        ),
        (
            dict(SEEN, health=health(health_rail(), health_rail(2), result="unknown", problems=["not all are read"])),
            "unknown",
            "health: unknown, 0 of 2 rails pass, 2 unknown, at most 3 s old",
            ["gpu02 on a: no carrier", "gpu0[1-2] on a: not all are read"],
        ),
        (DARK, "unknown", "health: unknown, 0 of 2 rails pass, 2 unknown", ["a: no answer: no route"]),
    ],
)
def test_the_health_of_the_fabric(seen: Row, result: str, text: str, differences: list[str]) -> None:
    status = FabricStatus("east", [node_status("a", PLANNED, seen, True)], "0.2.0", None, "no verdict")
    assert status.health == result and status.document()["health"] == result
    assert status.summary.endswith("; %s; no verdict" % text)
    assert status.differences() == differences


def test_one_rail_that_fails_is_more_than_nodes_that_are_unknown() -> None:
    bad = health(health_rail(1, "fail", reason="RV402"), health_rail(2))
    nodes = [node_status("a", PLANNED, DARK, True), node_status("b", PLANNED, dict(SEEN, health=bad), True)]
    status = FabricStatus("east", nodes, "0.2.0", None, "")
    assert status.health == "fail"
    assert status.document()["nodes"]["a"]["health"]["rails"]["gpu01"] == {"state": "unknown", "reason": ""}
    assert status.document()["nodes"]["b"]["health"]["age"] == 2.6


def test_without_the_health_service_nothing_changes() -> None:
    planned = {"name": "a", "ports": PLANNED["ports"]}
    status = FabricStatus("east", [node_status("a", planned, dict(SEEN, health=None))], "0.2.0", None, "no verdict")
    assert status.health == "" and "health" not in status.document()
    assert status.summary == "1 node: it answers; 1 of 2 ports up; no verdict"
