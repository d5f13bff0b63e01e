# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further rounds of tests after failures that have no single cause yet.

Each end of such a test gets partners that work: one on its own leaf and others on other leaves, unless earlier tests
clear it. If the ends have different leaves, other nodes of these leaves test the path between them. A pair that was
tested is not tested again. The number of tests grows with the number of failures, and not with the number of nodes.
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing.fault_causes import (
    Place,
    Result,
    find,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import Leaves

# How often further rounds can follow.
BATCHES = 2
# The number of rounds of a batch, and of pairs of nodes whose failures it narrows.
ROUNDS, PAIRS = 8, 64
# Partners of a suspect port on its own leaf and on other leaves; tests of a path per batch.
_SAME, _OTHER, _PATH = 1, 2, 4
# How many times as many successful tests as failed ones clear a port.
_CLEARED = 3

# Server, client, and the rails to test.
Pair = t.Tuple[str, str, t.List[str]]


def rounds(results: t.Sequence[Result], leaves: t.Mapping[Place, Leaves], batch: int = 0) -> list[list[Pair]]:
    """Return further rounds; empty if all failed tests have causes, or no untested pair can show one.

    :param results: of all earlier rounds. Their nodes are the partners.
    :param batch: the number of the batch, from 0. Later ones test paths more often.
    """
    suspects: dict[frozenset[str], list[str]] = {}
    for result in find(results, leaves).unexplained:
        suspects.setdefault(frozenset(result.ends), []).append(result.rail)
    if not suspects:
        return []
    partners = _Partners(results, leaves)
    for ends, rails in list(suspects.items())[:PAIRS]:
        for rail in rails:
            partners.narrow(rail, sorted(ends), _PATH << batch)
    return _in_rounds(partners.chosen)


class _Partners:
    """The nodes that work on each rail, and the pairs that are chosen."""

    def __init__(self, results: t.Sequence[Result], leaves: t.Mapping[Place, Leaves]) -> None:
        self._leaves = leaves
        self._tested = {(result.rail, frozenset(result.ends)) for result in results}
        self._counts: dict[Place, collections.Counter[bool]] = {}
        for result in results:
            for node in result.ends:
                self._counts.setdefault((node, result.rail), collections.Counter())[result.bad] += 1
        # rail -> leaves -> nodes, in the order of the results
        self._good: dict[str, dict[Leaves, dict[str, None]]] = {}
        for result in results:
            for node in result.ends:
                if not self._counts[node, result.rail][True]:
                    of_rail = self._good.setdefault(result.rail, {})
                    of_rail.setdefault(self._of(node, result.rail), {})[node] = None
        self._busy: dict[str, int] = {}
        self._narrowed: set[t.Any] = set()
        self.chosen: dict[tuple[str, str], list[str]] = {}

    def _of(self, node: str, rail: str) -> Leaves:
        return self._leaves.get((node, rail), ())

    def narrow(self, rail: str, ends: t.Sequence[str], paths: int) -> None:
        """Choose the tests of both ends of a failed test, and of the path between them."""
        good = self._good.get(rail, {})
        own = [self._of(node, rail) for node in ends]
        for node, leaves in zip(ends, own):
            if (node, rail) in self._narrowed:
                continue
            self._narrowed.add((node, rail))
            if self._cleared(node, rail):
                continue
            others = [list(nodes) for each, nodes in good.items() if each not in own]
            chosen = self._choose(rail, node, others, _OTHER)
            self._choose(rail, node, [list(good.get(leaves, ()))], _SAME + _OTHER - chosen)
        if own[0] != own[1] and all(own) and (rail, *own) not in self._narrowed:
            self._narrowed.add((rail, *own))
            self._choose_path(rail, own, paths)

    def _cleared(self, node: str, rail: str) -> bool:
        """Return whether a port works with so many partners that it is not the cause."""
        counts = self._counts[node, rail]
        return counts[False] >= _CLEARED * counts[True]

    def _choose(self, rail: str, node: str, groups: t.Sequence[t.Sequence[str]], count: int) -> int:
        """Choose partners of a node, from different groups if possible. Return their number."""
        ranked: list[tuple[int, int, str]] = []
        for group in groups:
            free = sorted((self._busy.get(each, 0), each) for each in group if self._is_new(rail, node, each))
            ranked += [(place, *each) for place, each in enumerate(free[:count])]
        for _place, _busy, each in sorted(ranked)[:count]:
            self._add(rail, node, each)
        return min(count, len(ranked))

    def _choose_path(self, rail: str, ends: t.Sequence[Leaves], count: int) -> None:
        """Choose pairs between the working nodes of two leaves, each node once if possible."""
        one, other = (list(self._good.get(rail, {}).get(leaves, ())) for leaves in ends)
        for shift in range(len(other)):
            for place, node in enumerate(one):
                partner = other[(place + shift) % len(other)]
                if count and self._is_new(rail, node, partner):
                    self._add(rail, node, partner)
                    count -= 1
                elif not count:
                    return

    def _is_new(self, rail: str, node: str, partner: str) -> bool:
        return node != partner and (rail, frozenset((node, partner))) not in self._tested

    def _add(self, rail: str, node: str, partner: str) -> None:
        self._tested.add((rail, frozenset((node, partner))))
        ends = (node, partner) if (partner, node) not in self.chosen else (partner, node)
        self.chosen.setdefault(ends, []).append(rail)
        for each in ends:
            self._busy[each] = self._busy.get(each, 0) + 1


def _in_rounds(chosen: t.Mapping[tuple[str, str], list[str]]) -> list[list[Pair]]:
    """Return the pairs in rounds in which a node has one partner. Pairs that do not fit are left out."""
    found: list[list[Pair]] = []
    busy: list[set[str]] = []
    for (server, client), rails in chosen.items():
        place = next((number for number, nodes in enumerate(busy) if not nodes & {server, client}), len(found))
        if place == ROUNDS:
            continue
        if place == len(found):
            found.append([])
            busy.append(set())
        busy[place] |= {server, client}
        found[place].append((server, client, sorted(rails)))
    return found
