# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of nodes on several leaves, and the purposes of their pairs."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import (
    CROSS_LEAF,
    CROSS_UNIT,
    SAME_LEAF,
    leaves_of,
    purpose,
)
from tests.unit.fabric.verify_nodes import SERVERS, World, plan


def connected(nodes: t.Iterable[str], pairs: t.Iterable[t.Sequence[str]]) -> bool:
    group = {name: {name} for name in nodes}
    for one, other in pairs:
        joined = group[one] | group[other]
        group.update(dict.fromkeys(joined, joined))
    return len({id(each) for each in group.values()}) <= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_rounds_connect_all_nodes_and_repeat_no_pair(sizes: list[int], most: int, random: t.Any) -> None:
    leaves = {"n%d-%d" % (leaf, place): leaf for leaf, size in enumerate(sizes) for place in range(size)}
    nodes = list(leaves)
    random.shuffle(nodes)
    rounds = probe_pairs.rounds(nodes, most, leaves)
    count = len(nodes)
    assert len(rounds) == min(most, 0 if count < 2 else count - 1 + count % 2)
    pairs = [frozenset(pair) for each in rounds for pair in each]
    assert len(pairs) == len(set(pairs)) and all(rounds)
    for each in rounds:
        busy = [name for pair in each for name in pair]
        assert len(busy) == len(set(busy)) and set(busy) <= set(nodes)
    assert most < 2 or connected(nodes, [pair for each in rounds for pair in each])


@pytest.mark.parametrize(("units", "size"), [(2, 16), (3, 11), (4, 32), (16, 32), (128, 32)])
def test_every_node_has_partners_on_its_leaf_and_on_others(units: int, size: int) -> None:
    leaves = {"n%04d" % number: number // size for number in range(units * size)}
    rounds = probe_pairs.rounds(list(leaves), 8, leaves)
    partners: dict[str, list[int]] = {name: [] for name in leaves}
    servers = dict.fromkeys(leaves, 0)
    for server, client in (pair for each in rounds for pair in each):
        partners[server].append(leaves[client])
        partners[client].append(leaves[server])
        servers[server] += 1
    for name, found in partners.items():
        assert leaves[name] in found and set(found) != {leaves[name]}
    assert sum(0 < count < 8 for count in servers.values()) > 0.9 * len(servers)


def test_eight_rounds_test_most_paths_between_the_leaves_of_a_large_fabric() -> None:
    leaves = {"n%04d" % number: number // 32 for number in range(4096)}
    rounds = probe_pairs.rounds(list(leaves), 8, leaves)
    paths = {frozenset((leaves[one], leaves[other])) for each in rounds for one, other in each}
    # all paths are 128 * 127 / 2; without dealing, rounds of halves test 384 of them
    assert len([path for path in paths if len(path) == 2]) > 0.6 * 128 * 127 / 2


def test_nodes_of_one_leaf_that_alternate_in_the_inventory_are_neighbours() -> None:
    leaves = {"n%02d" % number: number % 4 for number in range(64)}
    rounds = probe_pairs.rounds(list(leaves), 8, leaves)
    same = [sum(leaves[one] == leaves[other] for one, other in each) for each in rounds]
    assert same == [0, 0, 32, 32, 0, 0, 32, 32]


def test_the_purpose_of_a_pair_is_in_the_measures() -> None:
    assert {row["purpose"] for row in World(plan(4)).document()["measures"]} == {SAME_LEAF}
    text = SERVERS.partition("units:")[0] + 'units:\n  su[1:2]: {nodes: 4, leaf: "leaf-{u}-{n}"}\n'
    text += "nodes:\n  ai-[1:2]: {profile: server, unit: su1}\n  ai-[3:4]: {profile: server, unit: su2}\n"
    outcome = lint(text.encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    rows = World(outcome.plan).document()["measures"]
    same = [{"ai-1", "ai-2"}, {"ai-3", "ai-4"}]
    assert {row["purpose"] for row in rows if {row["from"], row["to"]} in same} == {SAME_LEAF}
    assert {row["purpose"] for row in rows if {row["from"], row["to"]} not in same} == {CROSS_UNIT}
    text = SERVERS.partition("units:")[0] + "nodes:\n  ai-[1:2]: {profile: server}\n"
    without = lint(text.encode()).plan
    assert without and {row["purpose"] for row in World(without).document()["measures"]} == {None}


def test_purposes_are_those_of_leaves_and_units() -> None:
    assert purpose([("a",), ("a",)], ["su1", "su1"]) == SAME_LEAF
    assert purpose([("a", "b"), ("c", "b")], ["su1", "su2"]) == SAME_LEAF
    assert purpose([("a",), ("b",)], ["su1", "su1"]) == CROSS_LEAF
    assert purpose([("a",), ("b",)], ["su1", "su2"]) == CROSS_UNIT
    assert purpose([("a",), ()], ["su1", "su2"]) is None and purpose([(), ()], [None, None]) is None


def test_the_leaves_of_a_port_are_those_of_its_cables() -> None:
    port = {"leaf": {"name": "l1", "port": "swp1"}, "pci": None, "netdev": "ens1"}
    assert leaves_of(port) == ("l1",)
    functions = [{"pci": None, "netdev": name, "leaf": {"name": leaf}} for name, leaf in (("a", "l1"), ("b", "l2"))]
    assert leaves_of(dict(port, lower={"functions": functions})) == ("l1", "l2")
    assert leaves_of({"netdev": "ens1"}) == ()
