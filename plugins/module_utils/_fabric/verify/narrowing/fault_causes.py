# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The causes of failed tests between pairs of nodes: ports, paths between two leaves, leaves, and whole rails.

A cause concerns the tests over it: those of a port, of the ports of two leaves or of a leaf, and all of a rail. Its
evidence is the logarithm of how much more likely their results are with the cause than without it, where a cause makes
its tests fail at the rate that they show. Each kind of cause has a price, so that one failed test names nothing, and a
leaf is named instead of all of its ports. A cause that some paths or packets have, such as one of several links between
two leaves, does not have to fail in each test.

A slow transfer shows one direction, so a port can be the cause only of the transfers that it sends or receives.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import Leaves

PORT, PATH, LEAF, RAIL = "port", "path", "leaf", "rail"
# Slow transfers of a port in one direction.
SENDS, RECEIVES = "sends", "receives"
PORTS = (SENDS, RECEIVES, PORT)
# Kind of a cause -> its price. Finer kinds come first.
_PRICES = {SENDS: 6.6, RECEIVES: 6.6, PORT: 6.5, PATH: 7.0, LEAF: 8.0, RAIL: 9.0}
# The rate of failed tests without a cause, and the highest rate with one.
_NOISE, _CERTAIN = 0.002, 0.98
# The least difference of evidence between a cause and another one that explains the same failed tests.
_MARGIN = 2.0
# The least number of failed ports of a leaf, of failed nodes of a path at each end, and of nodes of a rail.
_LEAF_PORTS, _PATH_NODES, _RAIL_NODES = 3, 2, 4
# The least part of failed tests of a port, leaf and rail.
_RATES = {SENDS: 0.5, RECEIVES: 0.5, PORT: 0.5, PATH: 0.0, LEAF: 0.15, RAIL: 0.5}

Place = t.Tuple[str, str]


class Result(t.NamedTuple):
    """The result of one test of a rail between two nodes.

    :param ends: the client and the server. :param bad: whether it failed, or was too slow.
    :param slow: whether the only problem is the speed from the client to the server.
    """

    rail: str
    ends: tuple[str, str]
    bad: bool
    slow: bool = False


class Cause(t.NamedTuple):
    """What explains failed tests of a rail.

    :param node: of a port, also of one direction of it.
    :param leaves: the leaves of a port or leaf; of a path, both ends, each as in :data:`Leaves`.
    :param bad, good: the failed and the successful tests over it.
    """

    kind: str
    rail: str
    node: str | None
    leaves: tuple[t.Any, ...]
    bad: tuple[Result, ...]
    good: tuple[Result, ...]

    def nodes(self) -> list[str]:
        """Return the nodes with failed tests at this cause, in order of the tests."""
        return list(dict.fromkeys(node for test in self.bad for node in test.ends))

    def partners(self) -> list[str]:
        """Return the nodes whose tests with the port of the cause failed."""
        return [node for node in self.nodes() if node != self.node]


class Found(t.NamedTuple):
    """``causes`` of failed tests, and the failed tests that are ``unexplained``."""

    causes: list[Cause]
    unexplained: list[Result]


class _Key(t.NamedTuple):
    """A possible cause: ``what`` is a node, a leaf, two leaves, or None."""

    kind: str
    what: t.Any


class _Sum(t.NamedTuple):
    """The tests over a possible cause, and its evidence."""

    evidence: float
    bad: list[Result]
    good: list[Result]


def find(tests: t.Iterable[Result], leaves: t.Mapping[Place, Leaves]) -> Found:
    """Return the causes of the failed tests, per rail.

    :param leaves: (node, rail) -> the leaves of the port. Without leaves, only ports and rails can be causes.
    """
    by_rail: dict[str, list[Result]] = {}
    for test in tests:
        by_rail.setdefault(test.rail, []).append(test)
    found = Found([], [])
    for own in by_rail.values():
        if any(test.bad for test in own):
            causes, unexplained = _Rail(own, leaves).find()
            found.causes.extend(causes)
            found.unexplained.extend(unexplained)
    return found


class _Rail:
    """The tests of one rail."""

    def __init__(self, tests: t.Sequence[Result], leaves: t.Mapping[Place, Leaves]) -> None:
        self._leaves = leaves
        self._name = tests[0].rail
        self._over: dict[_Key, list[Result]] = {}
        self._keys: dict[Result, list[_Key]] = {}
        self._succeeds = {node for test in tests if not test.bad for node in test.ends}
        self._bad = [test for test in tests if test.bad]
        suspects = {key for test in self._bad for key in self._keys_of(test)}
        for test in tests:
            for key in self._keys_of(test):
                if key in suspects:
                    self._over.setdefault(key, []).append(test)

    def _keys_of(self, test: Result) -> list[_Key]:
        if test not in self._keys:
            one, other = (self._leaves.get((node, self._name), ()) for node in test.ends)
            keys = [_Key(PORT, node) for node in test.ends]
            if test.slow or not test.bad:
                keys += [_Key(SENDS, test.ends[0]), _Key(RECEIVES, test.ends[1])]
            if one and other and one != other:
                keys.append(_Key(PATH, tuple(sorted((one, other)))))
            keys += [_Key(LEAF, leaf) for leaf in dict.fromkeys((*one, *other))]
            self._keys[test] = [*keys, _Key(RAIL, None)]
        return self._keys[test]

    def find(self) -> tuple[list[Cause], list[Result]]:
        left = dict.fromkeys(self._bad)
        causes: list[Cause] = []
        for key, own in self._cover(list(left), tuple(_PRICES)):
            if key.kind in PORTS and not self._is_named(key, own):
                continue
            causes.append(self._cause(key, own))
            for test in own.bad:
                left.pop(test, None)
        return causes, list(left)

    def _cover(self, bad: t.Sequence[Result], kinds: t.Sequence[str]) -> list[tuple[_Key, _Sum]]:
        """Return the causes of ``kinds`` that together explain failed tests, the one with the most evidence first.

        A cause is left out if finer ones explain its failed tests better.
        """
        left = dict.fromkeys(bad)
        chosen: list[tuple[_Key, _Sum]] = []
        refused: set[_Key] = set()
        while True:
            sums = self._sums(left, kinds, refused)
            if not sums:
                return chosen
            key = max(sums, key=lambda each: sums[each].evidence)
            own = sums[key]
            finer = kinds[: kinds.index(key.kind)]
            # without a successful test, finer causes have the same evidence at more prices
            if finer and own.good and sum(each.evidence for _key, each in self._cover(own.bad, finer)) >= own.evidence:
                refused.add(key)
                continue
            chosen.append((key, own))
            refused.add(key)
            for test in own.bad:
                left.pop(test)

    def _sums(
        self, left: t.Mapping[Result, None], kinds: t.Sequence[str], refused: t.Container[_Key]
    ) -> dict[_Key, _Sum]:
        """Return the possible causes of the failed tests that are left, which have evidence for them."""
        bad: dict[_Key, list[Result]] = {}
        for test in left:
            for key in self._keys_of(test):
                if key.kind in kinds and key not in refused:
                    bad.setdefault(key, []).append(test)
        sums = {}
        for key, failed in bad.items():
            if len(failed) > 1 and self._is_possible(key, failed):
                own = self._sum(key, failed)
                if own.evidence > 0 and len(failed) > _RATES[key.kind] * (len(failed) + len(own.good)):
                    sums[key] = own
        return sums

    def _sum(self, key: _Key, failed: list[Result]) -> _Sum:
        good = [test for test in self._over[key] if not test.bad]
        rate = min(_CERTAIN, len(failed) / (len(failed) + len(good)))
        evidence = len(failed) * math.log(rate / _NOISE) + len(good) * math.log((1 - rate) / (1 - _NOISE))
        return _Sum(evidence - _PRICES[key.kind], failed, good)

    def _is_possible(self, key: _Key, failed: t.Sequence[Result]) -> bool:
        """Return whether enough different ports have failed."""
        ends = [(node, self._leaves.get((node, self._name), ())) for test in failed for node in test.ends]
        if key.kind == LEAF:
            return len({node for node, leaves in ends if key.what in leaves}) >= _LEAF_PORTS
        if key.kind == PATH:
            return all(len({node for node, leaves in ends if leaves == end}) >= _PATH_NODES for end in key.what)
        if key.kind == RAIL:
            different = {leaves for _node, leaves in ends}
            return len({node for node, _leaves in ends}) >= _RAIL_NODES and (len(different) > 1 or different == {()})
        return True

    def _is_named(self, key: _Key, own: _Sum) -> bool:
        """Return whether only this port explains its failed tests: a partner works, and no path or leaf explains them.

        A leaf with no other test than those of the port does not count.
        """
        if not any(node in self._succeeds for test in own.bad for node in test.ends if node != key.what):
            return False
        shared = set.intersection(*(set(self._keys_of(test)) for test in own.bad)) - {key}
        return not any(
            other.kind in (PATH, LEAF)
            and len(self._over[other]) > len(self._over[key])
            and self._sum(other, own.bad).evidence > own.evidence - _MARGIN
            for other in shared
        )

    def _cause(self, key: _Key, own: _Sum) -> Cause:
        leaves: tuple[t.Any, ...] = key.what if key.kind == PATH else ()
        if key.kind in PORTS:
            leaves = self._leaves.get((key.what, self._name), ())
        elif key.kind == LEAF:
            # ports with several planes have several leaves, which the same tests used
            own_tests = self._over[key]
            leaves = tuple(
                other.what
                for other in self._keys_of(own.bad[0])
                if other.kind == LEAF and self._over[other] == own_tests
            )
        node = key.what if key.kind in PORTS else None
        return Cause(key.kind, self._name, node, leaves, tuple(own.bad), tuple(own.good))
