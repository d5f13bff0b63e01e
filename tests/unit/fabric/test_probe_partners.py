# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which partners a node probes: properties for any fabric, and the cost of the largest."""

from __future__ import annotations

import collections

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.probe_partners import (
    MOST,
    Member,
    partners,
)


def _fabric(units: int, nodes: int, site: str | None = None) -> list[Member]:
    return [
        Member("%s-u%d-n%d" % (site, unit, place), site, "u%d" % unit, place)
        for unit in range(units)
        for place in range(nodes)
    ]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 10))
def test_every_node_has_partners_and_is_the_partner_of_few(sizes: list[int], most: int) -> None:
    members = [Member("u%d-n%d" % (u, n), None, "u%d" % u, n) for u, size in enumerate(sizes) for n in range(size)]
    found = partners(members, most)
    asked = collections.Counter(partner for row in found.values() for partner in row)
    for member in members:
        row = found[member.node]
        assert len(set(row)) == len(row) and member.node not in row
        # every rail with at least three nodes can compare two partners
        assert len(row) >= min(len(members) - 1, 2, most)
        assert len(row) <= most
        assert asked[member.node] <= 3 * most
    assert found == partners(members[::-1], most)


def test_half_of_the_partners_are_on_the_same_leaf() -> None:
    found = partners(_fabric(16, 32))
    asked = collections.Counter(partner for row in found.values() for partner in row)
    assert set(asked.values()) == {MOST}
    for node, row in found.items():
        unit = node.split("-")[1]
        assert [unit in partner.split("-") for partner in row] == [True, False] * (MOST // 2)


def test_nodes_of_other_sites_are_not_partners() -> None:
    found = partners([*_fabric(2, 4, "ams1"), *_fabric(1, 1, "fra1"), *_fabric(3, 3, "lon1")])
    assert found["fra1-u0-n0"] == []
    assert all(partner.split("-")[0] == node.split("-")[0] for node, row in found.items() for partner in row)


def test_4096_nodes() -> None:
    found = partners(_fabric(128, 32))
    assert {len(row) for row in found.values()} == {MOST}
    # two probes at a time reach every node from everywhere: the graph of partners is connected
    reached, edge = {"None-u0-n0"}, {"None-u0-n0"}
    while edge:
        edge = {partner for node in edge for partner in found[node]} - reached
        reached |= edge
    assert len(reached) == 4096
