# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the callback from results: names, changes, failures."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.plugin_utils import _terminal


def changed(*changes: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"changed": bool(changes), "changes": list(changes)}


MTU = {"subject": "enp1s0", "attribute": "mtu", "before": 1500, "after": 4200}
TRUST = {"subject": "VF 0", "port": "enp1s0", "attribute": "trust", "before": None, "after": True}


def test_equal_changes_are_one_line() -> None:
    results = {"node-1": changed(MTU, TRUST), "node-2": changed(MTU), "node-3": changed()}
    assert _terminal.summary("rail_ports: Set", results, check=False, changes=True) == [
        "rail_ports: Set: 2 nodes changed, 1 as planned: node-[1-2]",
        "  enp1s0 mtu: 1500 -> 4200 on 2 nodes (node-[1-2])",
        "  enp1s0: VF 0 trust: none -> yes on 1 node (node-1)",
    ]


def test_check_mode_and_diff() -> None:
    assert _terminal.summary("qos", {"node-1": changed(MTU)}, check=True, changes=False) == [
        "qos: 1 node would change: node-1"
    ]


def test_changes_of_the_control_node() -> None:
    assert _terminal.summary("Plan", {"localhost": {"changed": True}}, check=False, changes=True) == ["Plan: changed"]


def test_many_changes_end_in_a_number() -> None:
    result = changed(*({**MTU, "after": 4000 + number} for number in range(20)))
    lines = _terminal.change_lines({"node-1": result})
    assert lines[0] == "enp1s0 mtu: 1500 -> 4000" and len(lines) == 17
    assert lines[-1] == "and 4 more changes, which -v shows"


def test_tasks_that_read_print_nothing() -> None:
    assert _terminal.summary("verify: Read the node", {"node-1": {"changed": False}}, False, True) == []


def test_layers_of_one_execution() -> None:
    result = {"changed": True, "modules": {"sriov": changed(), "qos": changed(MTU)}}
    assert list(_terminal.layers_of("Prepare the node", result)) == ["sriov", "qos"]
    assert _terminal.layers_of("Ping", {"ping": "pong"}) == {"Ping": {"ping": "pong"}}


@pytest.mark.parametrize(
    "result, text",
    [
        ({"msg": "a is wrong. Remedy: fix a"}, "a is wrong. Remedy: fix a"),
        ({"msg": "non-zero return code", "stderr": "no such file"}, "non-zero return code\nno such file"),
        ({"results": [{"failed": True, "msg": "one"}, {"msg": "a"}, {"failed": True, "msg": "b"}]}, "one\nb"),
        ({}, "The task failed without a message. Remedy: run it again with -vvv."),
    ],
)  # fmt: skip
def test_failures(result: dict[str, t.Any], text: str) -> None:
    assert _terminal.failure_text(result) == text


@pytest.mark.parametrize("seconds, text", [(0.4, ""), (1, "1 s"), (119.9, "119 s"), (200, "3 min 20 s")])
def test_durations(seconds: float, text: str) -> None:
    assert _terminal.duration(seconds) == text
