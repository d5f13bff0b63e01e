# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further rounds of tests after failures that have no single cause yet.

Each end of such a test gets partners that work: one on its own leaf and others on other leaves, unless earlier tests
clear it. If the ends have different leaves, other nodes of these leaves test the path between them. A pair that was
tested is not tested again. After a slow transfer, the ends keep their direction: the client sends to other nodes, and
the server receives from others, also from those that were tested in the other direction. The number of tests grows with
the number of failures, and not with the number of nodes.
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
    suspects: dict[frozenset[str], list[Result]] = {}
    for result in find(results, leaves).unexplained:
        suspects.setdefault(frozenset(result.ends), []).append(result)
    if not suspects:
        return []
    partners = _Partners(results, leaves)
    for failed in list(suspects.values())[:PAIRS]:
        for result in failed:
            partners.narrow(result, _PATH << batch)
    return _in_rounds(partners.chosen)


class _End(t.NamedTuple):
    """The port of a failed test.

    :param sends: True: test only what it sends. False: test only what it receives. None: test any direction.
    """

    node: str
    rail: str
    sends: bool | None


class _Partners:
    """The nodes that work on each rail, and the pairs that are chosen."""

    def __init__(self, results: t.Sequence[Result], leaves: t.Mapping[Place, Leaves]) -> None:
        self._leaves = leaves
        # rail, client and server
        self._tested = {(result.rail, *result.ends) for result in results}
        self._counts: dict[_End, collections.Counter[bool]] = {}
        for result in results:
            for place, node in enumerate(result.ends):
                for sends in (None, place == 0):
                    end = _End(node, result.rail, sends)
                    self._counts.setdefault(end, collections.Counter())[result.bad] += 1
        # rail -> leaves -> nodes, in the order of the results
        self._good: dict[str, dict[Leaves, dict[str, None]]] = {}
        for result in results:
            for node in result.ends:
                if not self._counts[_End(node, result.rail, None)][True]:
                    of_rail = self._good.setdefault(result.rail, {})
                    of_rail.setdefault(self._of(node, result.rail), {})[node] = None
        self._busy: dict[str, int] = {}
        self._narrowed: set[t.Any] = set()
        # server and client -> rails
        self.chosen: dict[tuple[str, str], list[str]] = {}

    def _of(self, node: str, rail: str) -> Leaves:
        return self._leaves.get((node, rail), ())

    def narrow(self, failed: Result, paths: int) -> None:
        """Choose the tests of both ends of a failed test, and of the path between them."""
        rail = failed.rail
        good = self._good.get(rail, {})
        own = [self._of(node, rail) for node in failed.ends]
        for place, (node, leaves) in enumerate(zip(failed.ends, own)):
            end = _End(node, rail, place == 0 if failed.slow else None)
            if end in self._narrowed:
                continue
            self._narrowed.add(end)
            if self._cleared(end):
                continue
            others = [list(nodes) for each, nodes in good.items() if each not in own]
            chosen = self._choose(end, others, _OTHER)
            self._choose(end, [list(good.get(leaves, ()))], _SAME + _OTHER - chosen)
        path = tuple(own if failed.slow else sorted(own))
        if own[0] != own[1] and all(own) and (rail, path) not in self._narrowed:
            self._narrowed.add((rail, path))
            self._choose_path(failed, path, paths)

    def _cleared(self, end: _End) -> bool:
        """Return whether a port works with so many partners that it is not the cause."""
        counts = self._counts[end]
        return counts[False] >= _CLEARED * counts[True]

    def _choose(self, end: _End, groups: t.Sequence[t.Sequence[str]], count: int) -> int:
        """Choose partners of a port, from different groups if possible. Return their number."""
        ranked: list[tuple[int, int, str]] = []
        for group in groups:
            free = sorted((self._busy.get(each, 0), each) for each in group if self._is_new(end, each))
            ranked += [(place, *each) for place, each in enumerate(free[:count])]
        for _place, _busy, each in sorted(ranked)[:count]:
            self._add(end, each)
        return min(count, len(ranked))

    def _choose_path(self, failed: Result, ends: t.Sequence[Leaves], count: int) -> None:
        """Choose pairs between the working nodes of two leaves, each node once if possible.

        :param ends: the leaves of the two ends; after a slow transfer, those of the client and of the server.
        """
        one, other = (list(self._good.get(failed.rail, {}).get(leaves, ())) for leaves in ends)
        for shift in range(len(other)):
            for place, node in enumerate(one):
                end, partner = _End(node, failed.rail, failed.slow or None), other[(place + shift) % len(other)]
                if count and self._is_new(end, partner):
                    self._add(end, partner)
                    count -= 1
                elif not count:
                    return

    def _is_new(self, end: _End, partner: str) -> bool:
        sent, received = (end.rail, end.node, partner), (end.rail, partner, end.node)
        ways = [sent, received] if end.sends is None else [sent if end.sends else received]
        return end.node != partner and not self._tested.intersection(ways)

    def _add(self, end: _End, partner: str) -> None:
        ends = (end.node, partner)
        if end.sends or (end.sends is None and ends[::-1] in self.chosen):
            ends = ends[::-1]
        server, client = ends
        self._tested.add((end.rail, client, server))
        self.chosen.setdefault(ends, []).append(end.rail)
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
