# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a soak."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import soak_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import soak_time
from tests.unit.fabric.verify_nodes import Row, World, plan

NODE, RAIL = "ai-2", "gpu03"
# Codes that this file causes.
SOAK_CODES = {"RV825", "RV826", "RV827", "RV828"}


class Soaked(World):
    """A fabric whose rounds were repeated 40 times without an event."""

    def __init__(self) -> None:
        super().__init__(plan(4))
        self.soaks: dict[str, Row] = {
            name: {"seconds": 1800.2, "repetitions": 40, "pairs": [], "increases": [], "events": []}
            for name in self.plans
        }
        for server, client in self.pairs:
            for port in self.plans[client]["ports"]:
                row = {"rail": port["rail"], "peer": server, "transfers": 40, "failed": 0, "error": ""}
                row.update(least_gbits=381.0, greatest_p99_us=2.4)
                self.soaks[client]["pairs"].append(row)

    def reports(self) -> list[NodeReport]:
        return [each._replace(soak=self.soaks.get(each.name)) for each in super().reports()]

    def of(self, node: str, rail: str = RAIL, *words: t.Any, **like: t.Any) -> list[Row]:
        """The rows of a node as client or server on a rail."""
        return [
            row
            for client, soak in self.soaks.items()
            for row in soak["pairs"]
            if row["rail"] == rail and node in (client, row["peer"])
        ]

    def soaked(self, **asked: t.Any) -> Row:
        return self.document(soak=1800, **asked)


def found(verdict: Row) -> list[tuple[t.Any, ...]]:
    rows = verdict["failures"] + verdict["warnings"]
    return [(row["code"], row["node"], row["rail"], row["found"]) for row in rows]


def test_a_soak_without_an_event_is_counted() -> None:
    world = Soaked()
    verdict = world.soaked()
    assert verdict["ok"] and found(verdict) == []
    shown = dict(verdict["soak"])
    assert (shown.pop("increases"), shown.pop("events")) == ([], [])
    assert shown == {
        "seconds": 1800,
        "nodes": 4,
        "repetitions": {"least": 40, "greatest": 40},
        "transfers": 6 * 4 * 40,
        "failed": 0,
    }
    (line,) = soak_layer.lines(verdict["soak"])
    assert line == "soak of 1,800 s: 40 to 40 repetitions on 4 nodes; 960 transfers, 0 failed"
    assert "soak" not in World(plan(4)).document()


def test_a_port_whose_transfers_fail_once_is_named_with_the_time() -> None:
    world = Soaked()
    for row in world.of(NODE):
        row.update(failed=1, error="a broken device")
    for soak in world.soaks.values():
        soak["events"] = [
            {"time": 1795514525, "rail": RAIL, "peer": row["peer"], "text": "a broken device"}
            for row in soak["pairs"]
            if row["failed"]
        ]
    verdict = world.soaked()
    failures = [row for row in verdict["failures"] if row["code"] == "RV825"]
    assert failures and {(row["node"], row["rail"], row["peer"]) for row in failures} == {(NODE, RAIL, None)}
    assert {row["found"] for row in failures} == {
        "1 of 40 failed, first at 2026-11-24T10:02:05Z: a broken device"
    } and not verdict["ok"]
    assert len(verdict["soak"]["events"]) == 3 and verdict["soak"]["failed"] == 3
    assert verdict["matrix"][NODE][RAIL] == "failed" and verdict["matrix"]["ai-1"][RAIL] == "ok"


def test_a_pair_that_fails_in_the_first_pass_too_is_reported_once() -> None:
    world = Soaked()
    world.lose(NODE, RAIL)
    for row in world.of(NODE):
        row.update(failed=40, error="lost")
    assert {row[0] for row in found(world.soaked())} == {"RV801"}


def test_a_link_that_was_lost_fails_its_port_and_nothing_else() -> None:
    world = Soaked()
    world.soaks[NODE]["increases"] = [
        {"rail": RAIL, "name": "carrier_changes", "increase": 2, "times": 1},
        {"rail": RAIL, "name": "link_downed", "increase": 1, "times": 1},
        {"rail": "gpu01", "name": "np_cnp_sent", "increase": 90, "times": 4},
    ]
    world.soaks[NODE]["events"] = [{"time": 1795514525, "rail": RAIL, "peer": None, "text": "carrier_changes +2"}]
    verdict = world.soaked()
    expected = "carrier_changes +2, link_downed +1, first at 2026-11-24T10:02:05Z"
    assert found(verdict) == [("RV826", NODE, RAIL, expected)]
    assert len(verdict["soak"]["increases"]) == 3


def test_a_slow_repetition_is_a_warning_of_the_slow_port() -> None:
    world = Soaked()
    for row in world.of(NODE):
        row["least_gbits"] = 120.0
    assert found(world.soaked()) == [("RV827", NODE, RAIL, "120.0 Gb/s in the slowest of 40 transfers")]
    # beside another run, speed is not judged
    world.others[NODE] = [{"run": "another", "since": "2026-11-22T10:02:05Z"}]
    assert {row[0] for row in found(world.soaked())} == {"RV856"}


def test_a_node_without_a_repetition_is_unknown() -> None:
    world = Soaked()
    del world.soaks["ai-1"]
    world.soaks["ai-4"].update(repetitions=0, seconds=2400.0, pairs=[])
    assert found(world.soaked()) == [
        ("RV828", "ai-1", None, "its prober returned no repetitions"),
        ("RV828", "ai-4", None, "the first pass took 2400 s"),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), (90, 90), ("90s", 90), ("30m", 1800), (" 8h ", 28800), ("7d", 604800), ("0", 0)]
)
def test_times_are_read(text: t.Any, seconds: int) -> None:
    assert soak_time.seconds(text) == seconds


@pytest.mark.parametrize("text", ["8 hours", "-1", "1.5h", "8d", "", "h", "9999999", None, True])
def test_other_times_are_refused(text: t.Any) -> None:
    if text is None:
        assert soak_time.seconds(text) == 0
        return
    with pytest.raises(RailyardError, match="verify_soak: .* is not a time. Remedy: write seconds"):
        soak_time.seconds(text)
