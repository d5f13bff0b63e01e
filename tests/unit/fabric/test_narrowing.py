# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What explains failed probes: ports, leaves, paths between leaves and rails; and further rounds that show it."""

from __future__ import annotations

import itertools
import math
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing import (
    further_rounds,
    suspect_results,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing.fault_causes import (
    LEAF,
    PATH,
    PORT,
    RAIL,
    RECEIVES,
    SENDS,
    Place,
    Result,
    find,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine, verify_output
from benchmarks import narrowing
from tests.unit.fabric.verify_nodes import ABOUT, SERVERS, Row, World

GPU = "gpu01"


class Rounds:
    """Results of tests of one rail, from a function of the two nodes that returns whether they fail."""

    def __init__(self, units: int, size: int, fails: t.Callable[[str, str], bool], rounds: int = 8) -> None:
        self.nodes = ["n%d-%d" % (unit, place) for unit in range(units) for place in range(size)]
        self.fails = fails
        self.leaves: dict[Place, tuple[str, ...]] = {(name, GPU): (name.partition("-")[0],) for name in self.nodes}
        chosen = probe_pairs.rounds(self.nodes, rounds, {name: self.leaves[name, GPU] for name in self.nodes})
        self.results = [self.result(one, other) for each in chosen for one, other in each]

    def result(self, one: str, other: str) -> Result:
        return Result(GPU, (one, other), self.fails(one, other) or self.fails(other, one))

    def narrow(self) -> int:
        """Run further rounds, and return the number of their tests."""
        before = len(self.results)
        for batch in range(further_rounds.BATCHES):
            further = further_rounds.rounds(self.results, self.leaves, batch)
            for each in further:
                busy = [node for one, other, _rails in each for node in (one, other)]
                assert len(busy) == len(set(busy))
            self.results += [self.result(one, other) for each in further for one, other, _rails in each]
        pairs = [frozenset(result.ends) for result in self.results]
        assert len(pairs) == len(set(pairs)) or len(self.nodes) == 2
        return len(self.results) - before

    def causes(self) -> list[tuple[str, t.Any]]:
        named = find(self.results, self.leaves).causes
        return [(each.kind, each.node if each.kind == PORT else each.leaves) for each in named]


@pytest.mark.parametrize(
    ("fails", "causes"),
    [
        (lambda one, _other: one == "n1-3", [(PORT, "n1-3")]),
        (lambda one, _other: one in ("n1-3", "n3-0"), [(PORT, "n1-3"), (PORT, "n3-0")]),
        (lambda one, _other: one[:2] == "n2", [(LEAF, ("n2",))]),
        (lambda one, other: {one[:2], other[:2]} == {"n0", "n3"}, [(PATH, (("n0",), ("n3",)))]),
        (lambda _one, _other: True, [(RAIL, ())]),
        (lambda _one, _other: False, []),
    ],
    ids=["port", "two ports", "leaf", "path", "rail", "none"],
)
def test_one_cause_explains_all_failed_tests(fails: t.Any, causes: list[t.Any]) -> None:
    tests = Rounds(4, 8, fails)
    assert sorted(tests.causes()) == causes
    # so that no further tests are needed
    assert further_rounds.rounds(tests.results, tests.leaves) == []
    assert find(tests.results, tests.leaves).unexplained == []


def test_two_nodes_and_one_failed_test_name_nothing() -> None:
    tests = Rounds(1, 2, lambda _one, _other: True)
    assert tests.causes() == [] and tests.narrow() == 0


@pytest.mark.parametrize("size", [3, 4, 8])
def test_one_round_is_narrowed_to_the_port(size: int) -> None:
    tests = Rounds(2, size, lambda one, _other: one == "n1-1", rounds=1)
    assert tests.causes() == []
    assert 0 < tests.narrow() <= 10
    assert tests.causes() == [(PORT, "n1-1")]


def test_a_path_between_two_leaves_is_distinguished_from_the_ports_at_its_ends() -> None:
    """With one failed test, both ends and the path can be the cause."""
    tests = Rounds(8, 8, lambda one, other: (one[:2], other[:2]) == ("n0", "n5"), rounds=3)
    failed = sum(result.bad for result in tests.results)
    assert failed
    tests.narrow()
    assert tests.causes() == [(PATH, (("n0",), ("n5",)))]


def test_without_leaves_ports_and_rails_are_named() -> None:
    for fails, causes in (
        (lambda one, _other: one == "n0-3", [(PORT, "n0-3")]),
        (lambda _one, _other: True, [(RAIL, ())]),
    ):
        tests = Rounds(2, 8, fails)
        tests.leaves.clear()
        assert tests.causes() == causes


def test_planes_on_the_same_leaves_are_named_together() -> None:
    tests = Rounds(4, 8, lambda one, _other: one[:2] == "n2")
    tests.leaves = {place: (leaf + "p1", leaf + "p2") for place, (leaf,) in tests.leaves.items()}
    assert tests.causes() == [(LEAF, ("n2p1", "n2p2"))]
    # if the other plane is shared, its leaf succeeds for the nodes of other units
    tests.leaves = {place: (leaves[0], "shared") for place, leaves in tests.leaves.items()}
    assert tests.causes() == [(LEAF, ("n2p1",))]


@given(st.data())
def test_a_port_whose_partners_mostly_succeed_is_never_named(data: st.DataObject) -> None:
    tests = Rounds(3, 8, lambda _one, _other: False)
    bad = data.draw(st.sets(st.sampled_from(range(len(tests.results))), max_size=20))
    results = [each._replace(bad=number in bad) for number, each in enumerate(tests.results)]
    found = find(results, tests.leaves)
    for cause in found.causes:
        own = [each for each in results if cause.node in each.ends]
        if cause.kind == PORT:
            assert sum(each.bad for each in own) >= 2
            assert len(cause.bad) > sum(not each.bad for each in own)
    explained = [result for cause in found.causes for result in cause.bad]
    # each failed test has one cause, or none
    assert sorted([*explained, *found.unexplained]) == sorted(each for each in results if each.bad)


@pytest.mark.parametrize("nodes", [32, 128])
@pytest.mark.parametrize("name", narrowing.HARD)
def test_simulated_hard_faults_are_found_without_wrong_names(nodes: int, name: str) -> None:
    for seed in range(5):
        for rounds in (2, 3, 8):
            done = narrowing.run(nodes, (name,), seed, rounds=rounds)
            assert done.found and not (done.missed or done.wrong or done.alarms), (seed, rounds, done)
            assert done.further <= 10 * math.log2(nodes)


def test_simulated_faults_at_the_same_time_are_found() -> None:
    names = ("bad cable", "bad cable", "slow node", "dead leaf")
    for seed, nodes in itertools.product(range(5), (128, 256)):
        done = narrowing.run(nodes, names, seed)
        assert not (done.missed or done.wrong or done.alarms), (seed, nodes, done)
    assert narrowing.run(128, (), 1, noise=0.002).alarms == 0


def test_all_pairs_give_the_same_causes_with_many_more_tests() -> None:
    for name in narrowing.HARD:
        few, whole = (run(64, (name,), 3) for run in (narrowing.run, narrowing.all_pairs))
        assert (few.found, few.missed, few.wrong) == (whole.found, whole.missed, whole.wrong)
        assert few.tests + few.further < whole.tests / 6


@pytest.mark.parametrize(("kind", "node"), [(SENDS, "n2"), (RECEIVES, "n1")])
def test_further_rounds_find_the_direction_of_a_slow_port_of_three_nodes(kind: str, node: str) -> None:
    """One transfer per pair does not distinguish the two nodes of a slow pair."""

    def result(client: str, server: str) -> Result:
        slow = node == (client if kind == SENDS else server)
        return Result(GPU, (client, server), slow, slow)

    leaves: dict[Place, tuple[str, ...]] = {("n%d" % number, GPU): ("leaf-1",) for number in (1, 2, 3)}
    results = [result("n3", "n2"), result("n1", "n3"), result("n2", "n1")]
    assert find(results, leaves).causes == []
    further = further_rounds.rounds(results, leaves)
    assert sorted(pair for each in further for pair in each) == [("n1", "n3", [GPU]), ("n3", "n2", [GPU])]
    results += [result(client, server) for each in further for server, client, _rails in each]
    (cause,) = find(results, leaves).causes
    assert (cause.kind, cause.node) == (kind, node)


# -- the verdict -------------------------------------------------------------------------------------------------------


def world(units: int = 4, size: int = 8) -> World:
    text = SERVERS.partition("units:")[0].replace(".1-.200", ".1-.180").replace(".201-.253", ".181-.253")
    text += 'units:\n  su[1:%d]: {nodes: %d, leaf: "leaf-{u}-{n}", leaf_port: "swp{i}"}\nnodes:\n' % (units, size)
    for unit in range(units):
        text += "  ai-%d-[1:%d]: {profile: server, unit: su%d}\n" % (unit + 1, size, unit + 1)
    outcome = lint(text.encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return World(outcome.plan, rounds=8)


def fail(made: World, fails: t.Callable[[int, int], bool], rail: str = "gpu03", **how: t.Any) -> None:
    """Lose the packets, or change the transfers, between nodes of these units."""
    units = {name: node["unit_number"] for name, node in made.plans.items()}
    for client, rows in made.probes.items():
        for row in rows:
            ends = units[client], units[row["peer"]]
            if row["rail"] == rail and (fails(*ends) or fails(*ends[::-1])):
                if how:
                    row["transfer"] = dict(row["transfer"], **how)
                else:
                    row["reach"] = {"sent": 3, "received": 0, "rtt_ms": None, "error": ""}
                    row.update(ok=False, transfer=None, error="lost")


def summary(made: World) -> list[str]:
    verdict = made.verdict()
    return verify_output.lines(verdict, verify_engine.document(verdict, ABOUT), 400)


LEAF_2: t.Callable[[int, int], bool] = lambda one, _other: one == 2  # noqa: E731
PATH_1_3: t.Callable[[int, int], bool] = lambda one, other: (one, other) == (1, 3)  # noqa: E731
ALL: t.Callable[[int, int], bool] = lambda _one, _other: True  # noqa: E731
CASES = [
    (PATH_1_3, {}, "RV811", "between leaf-1-3 and leaf-3-3 fail"),
    (LEAF_2, {}, "RV812", "over leaf-2-3 fail"),
    (ALL, {}, "RV813", "over all of its leaves fail"),
    (PATH_1_3, {"gbits": 90.0}, "RV881", "between leaf-1-3 and leaf-3-3 are slow (median 90.0 Gb/s)"),
    (LEAF_2, {"gbits": 90.0}, "RV882", "over leaf-2-3 are slow (median 90.0 Gb/s)"),
    (ALL, {"gbits": 90.0}, "RV883", "over all of its leaves are slow (median 90.0 Gb/s)"),
]
# The codes that these tests show.
CODES = {case[2] for case in CASES}


@pytest.mark.parametrize(("fails", "how", "code", "found"), CASES, ids=[case[2] for case in CASES])
def test_a_cause_of_several_nodes_is_one_failure(fails: t.Any, how: Row, code: str, found: str) -> None:
    made = world()
    fail(made, fails, **how)
    document = made.document()
    (failure,) = document["failures"]
    assert (failure["code"], failure["node"], failure["rail"]) == (code, None, "gpu03")
    assert found in failure["found"] and failure["cause"] and failure["remedy"]
    bad = {name for name, row in document["matrix"].items() if row["gpu03"] == "failed"}
    units = {made.plans[name]["unit_number"] for name in bad}
    assert bad == set(failure.get("affected", ()))
    assert units == ({2} if fails is LEAF_2 else {1, 2, 3, 4} if fails is ALL else set())
    assert document["proof"]["gpu03"]["state"] == "failed" and document["proof"]["gpu01"]["state"] == "proven"
    assert not [each for each in document["warnings"] if each["rail"] == "gpu03"]
    assert ["gpu03" in line and found in line for line in summary(made) if code in line] == [True]


def test_a_port_is_named_with_the_partners_that_show_it() -> None:
    made = world()
    made.lose("ai-2-1", "gpu03")
    (failure,) = made.document()["failures"]
    assert (failure["code"], failure["node"], failure["peer"]) == ("RV801", "ai-2-1", None)
    assert "; the port fails with ai-" in failure["cause"]
    assert failure["cause"].endswith(", which succeed with other nodes")


def test_failure_of_a_port_contains_the_direction_of_slow_transfers() -> None:
    made = world()
    for row in made.probes["ai-2-1"]:
        if row["rail"] == "gpu03":
            row["transfer"] = dict(row["transfer"], gbits=90.0)
    document = made.document()
    assert {(row["code"], row["node"], row["peer"]) for row in document["failures"]} == {("RV853", "ai-2-1", None)}
    assert "the port sends slowly to ai-" in document["failures"][0]["cause"]


def test_a_pair_of_nodes_that_others_clear_names_neither() -> None:
    made = world(1, 8)
    row = next(row for row in made.probes["ai-1-1"] if row["rail"] == "gpu03")
    row.update(ok=False, transfer=None, error="lost")
    row["reach"] = {"sent": 3, "received": 0, "rtt_ms": None, "error": ""}
    (failure,) = made.document()["failures"]
    assert (failure["code"], {failure["node"], failure["peer"]}) == ("RV801", {"ai-1-1", row["peer"]})


def test_slow_soft_rdma_is_suspect_only_if_it_is_judged() -> None:
    nodes = {"n%d" % number: {"ports": [{"rail": "gpu01", "rdma": {"type": "rxe"}}]} for number in range(5)}
    briefs = {name: [["gpu01", "n0", False, 0.1 if name == "n4" else 0.3]] for name in nodes if name != "n0"}
    judged = suspect_results.results(briefs, nodes, None, soft=True)
    assert [each.ends for each in judged if each.bad] == [("n4", "n0")]
    assert not any(each.bad for each in suspect_results.results(briefs, nodes, None))


def test_narrowing_omits_unmeasured_transfers() -> None:
    rows = [
        {"rail": "gpu01", "peer": "n1", "transfer": {"gbits": None, "error": "", "unmeasured": "a busy node"}},
        {"rail": "gpu01", "peer": "n2", "transfer": {"gbits": 9.0, "error": "", "unmeasured": "no latency"}},
    ]
    assert suspect_results.brief(rows) == [["gpu01", "n2", False, 9.0]]
