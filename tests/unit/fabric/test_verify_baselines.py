# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Baselines: the first run writes them, later runs compare, and nothing bad becomes one."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.site_baselines import (
    RENEW,
    USE,
    Baseline,
    Place,
    parse,
    text,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.baseline_comparison import (
    Site,
    baselines,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import document
from tests.unit.fabric.verify_nodes import ABOUT, Row, World, plan

NODE, RAIL = "ai-2", "gpu03"
# Codes that this file causes.
BASELINE_CODES = {"RV841", "RV842", "RV843"}
FIRST, LATER = "2026-11-01T08:00:00Z", "2026-11-22T08:00:00Z"


@pytest.fixture
def world() -> World:
    return World(plan())


def judged(
    world: World, content: bytes | None = None, mode: str = USE, began: str = LATER, error: str = "", **asked: t.Any
) -> tuple[Row, dict[Place, Baseline] | None]:
    """Return the verdict, and the baselines to write."""
    verdict = world.verdict(VERIFY, **asked)
    new = baselines(verdict.run, verdict.pairs, Site(mode, content, error, (*world.plans, "ai-50"), began))
    return document(verdict, ABOUT), new


def first(world: World) -> bytes:
    new = judged(world, began=FIRST)[1]
    assert new is not None
    return text(new, "ai")


def warned(verdict: Row) -> list[tuple[str, str | None, str | None]]:
    return [(each["code"], each["node"], each["rail"]) for each in verdict["warnings"]]


def measure(world: World, node: str, rail: str, **values: float) -> None:
    for transfer in world.transfers(node, rail):
        transfer.update(values)


def test_the_first_run_has_a_row_for_each_port_and_the_second_changes_nothing(world: World) -> None:
    verdict, new = judged(world, began=FIRST)
    assert new is not None and set(new) == {(node, "gpu0%d" % n) for node in world.plans for n in range(1, 5)}
    transfer = world.transfers(NODE, RAIL)[0]
    own = new[NODE, RAIL]
    assert (own.gbits, own.latency_us, own.since) == (transfer["gbits"], transfer["latency_us"], FIRST)
    assert own.pairs == len(world.transfers(NODE, RAIL)) and own.kind.speed == 400 and own.kind.mtu == 4200
    assert verdict["warnings"] == []
    content = text(new, "ai")
    assert parse(content, "ai") == new and len(content.splitlines()) == len(new) + 2
    again, unchanged = judged(world, content)
    assert unchanged is None and again["warnings"] == []
    row = next(row for row in again["baselines"] if (row["node"], row["rail"]) == (NODE, RAIL))
    assert (row["baseline_gbits"], row["baseline_us"], row["since"]) == (own.gbits, own.latency_us, FIRST)


def test_a_slow_port_is_a_warning_with_the_date_and_keeps_its_baseline(world: World) -> None:
    content = first(world)
    base = parse(content, "ai")[NODE, RAIL].gbits
    for transfers in (world.transfers(node, "gpu01") for node in world.plans):
        for transfer in transfers:
            transfer["gbits"] = base * 0.86
    measure(world, NODE, RAIL, gbits=base * 0.84)
    verdict, new = judged(world, content, share=0.5)
    assert verdict["ok"] and new is None
    of_node = [each for each in verdict["warnings"] if (each["code"], each["node"]) == ("RV841", NODE)]
    assert [each["rail"] for each in of_node] == [RAIL]
    assert FIRST[:10] in of_node[0]["expected"] and "verify_baselines=renew" in of_node[0]["remedy"]
    # partners are slow with this node only
    assert {each["node"] for each in verdict["warnings"] if each["code"] == "RV841"} == {NODE}


def test_a_late_port_is_a_warning_above_twice_and_two_microseconds(world: World) -> None:
    content = first(world)
    base = parse(content, "ai")[NODE, RAIL].latency_us
    limit = max(base * 2, base + 2)
    for late, expected in ((limit - 0.1, []), (limit + 0.1, [("RV842", NODE, RAIL)])):
        measure(world, NODE, RAIL, latency_us=late)
        found = [each for each in warned(judged(world, content)[0]) if each[0] == "RV842"]
        assert found == expected


def test_a_failure_explains_a_slow_port_and_no_baseline_is_written_for_it(world: World) -> None:
    content = first(world)
    measure(world, NODE, RAIL, gbits=200.0)
    verdict, new = judged(world, content)
    assert {each["code"] for each in verdict["failures"]} == {"RV853"} and new is None
    assert warned(verdict) == []
    fresh = judged(world)[1]
    assert fresh is not None and (NODE, RAIL) not in fresh and (NODE, "gpu01") in fresh and ("ai-1", RAIL) in fresh


def test_renew_replaces_what_the_run_proves(world: World) -> None:
    content = first(world)
    base = parse(content, "ai")[NODE, RAIL].gbits
    for node in world.plans:
        measure(world, node, RAIL, gbits=base * 0.8)
    measure(world, NODE, "gpu01", gbits=100.0)
    verdict, new = judged(world, content, RENEW, share=0.5)
    assert warned(verdict) == [] and new is not None
    assert (new[NODE, RAIL].gbits, new[NODE, RAIL].since) == (round(base * 0.8, 2), LATER)
    assert new[NODE, "gpu01"] == parse(content, "ai")[NODE, "gpu01"]
    assert judged(world, text(new, "ai"), share=0.5)[1] is None


def test_a_changed_plan_starts_a_new_baseline_and_drops_what_left_it(world: World) -> None:
    content = first(world)
    for node in world.plans:
        world.port(node, RAIL)["expect"]["speed"] = 200
        world.nic(node, RAIL)["speed"] = 200000
        world.device(node, RAIL)["rate"] = 200.0
        measure(world, node, RAIL, gbits=196.0)
    stored = parse(content, "ai")
    # outside the inventory, outside the run, and rails that left the plan
    for place in (("ai-99", RAIL), ("ai-50", RAIL), ("ai-50", "gpu09"), (NODE, "gpu09")):
        stored[place] = stored[NODE, RAIL]
    verdict, new = judged(world, text(stored, "ai"))
    assert (verdict["failures"], verdict["warnings"]) == ([], []) and new is not None
    assert (new[NODE, RAIL].gbits, new[NODE, RAIL].kind.speed, new[NODE, RAIL].since) == (196.0, 200, LATER)
    assert new[NODE, "gpu01"].since == FIRST
    assert set(new) - set(parse(content, "ai")) == {("ai-50", RAIL)}


def test_a_run_of_some_rails_keeps_the_rows_of_others(world: World) -> None:
    new = judged(world, began=FIRST, rails=[RAIL])[1]
    assert new is not None and {rail for _node, rail in new} == {RAIL}
    more = judged(world, text(new, "ai"))[1]
    assert more is not None and (more[NODE, RAIL].since, more[NODE, "gpu01"].since) == (FIRST, LATER)
    assert judged(world, text(more, "ai"), rails=[RAIL])[1] is None


def damaged(change: t.Callable[[Row], t.Any]) -> t.Callable[[bytes], bytes]:
    def act(content: bytes) -> bytes:
        read = json.loads(content)
        change(read)
        return json.dumps(read).encode()

    return act


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda content: content[:200], "not valid JSON"),
        (lambda _content: b"\xff\xfe", "not valid JSON"),
        (lambda _content: b"[" * 100_000, "not valid JSON"),
        (lambda _content: b"[]", "no rows of format 1"),
        (damaged(lambda read: read.update(format=2)), "no rows of format 1"),
        (damaged(lambda read: read.update(fabric="other")), "its fabric is other"),
        (damaged(lambda read: read["rows"].insert(0, "x")), "row 1 is not a mapping"),
        (damaged(lambda read: read["rows"][1].pop("mtu")), "row 2 has no valid mtu"),
        (damaged(lambda read: read["rows"][1].update(gbits="fast")), "row 2 has no valid gbits"),
        (damaged(lambda read: read["rows"][1].update(gbits=float("nan"))), "row 2 has a measurement"),
        (damaged(lambda read: read["rows"][0].update(latency_us=0)), "row 1 has a measurement"),
    ],
)
def test_a_damaged_file_is_a_warning_and_only_renew_overwrites_it(
    world: World, damage: t.Callable[[bytes], bytes], found: str
) -> None:
    content = damage(first(world))
    verdict, new = judged(world, content)
    (warning,) = verdict["warnings"]
    assert (warning["code"], warning["node"]) == ("RV843", None) and found in warning["found"]
    assert new is None and verdict["ok"] and "verify_baselines=renew" in warning["remedy"]
    renewed, new = judged(world, content, RENEW)
    assert renewed["warnings"] == [] and new is not None and len(new) == 16


def test_an_unreadable_file_is_a_warning(world: World) -> None:
    verdict, new = judged(world, error="it cannot be read: Permission denied")
    assert warned(verdict) == [("RV843", None, None)] and new is None


def test_soft_rdma_has_no_baselines(world: World) -> None:
    world.use_soft_rdma()
    verdict = world.verdict(VERIFY)
    assert not baselines(verdict.run, verdict.pairs, Site(USE, None, "", (), LATER))
    assert "baselines" not in verdict.run.shown


def test_beside_another_run_nothing_is_compared_or_written(world: World) -> None:
    content = first(world)
    measure(world, NODE, RAIL, latency_us=90.0)
    world.others = {"ai-4": [{"run": "anna@bastion (48213)", "since": LATER}]}
    verdict, new = judged(world, content)
    assert {each["code"] for each in verdict["warnings"]} <= {"RV856", "RV854"} and new is None
    assert judged(world)[1] is None and "baselines" not in verdict


def test_the_short_verify_of_site_yml_compares_bandwidth_and_writes_nothing(world: World) -> None:
    content = first(world)
    base = parse(content, "ai")[NODE, RAIL].gbits
    for node in world.plans:
        for transfer in world.transfers(node, RAIL):
            transfer.update(gbits=base * 0.8, latency_us=None)
    verdict, new = judged(world, content, thorough=False, share=0.5)
    assert new is None and {each["code"] for each in verdict["warnings"]} == {"RV841"}
    fresh, none = judged(world, thorough=False, share=0.5)
    assert none is None and fresh["warnings"] == []


def test_other_layers_and_drift_leave_the_file_alone(world: World) -> None:
    verdict, new = judged(world, b"damaged", layers=["link"])
    assert new is None and verdict["warnings"] == []
