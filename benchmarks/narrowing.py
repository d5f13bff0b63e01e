# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many tests find faults of a fabric, and what they name: ``python -m benchmarks narrowing``.

It runs the rounds, the further rounds and the judgement of verify. Only the results of tests are simulated, from
faults that a seed chooses. `docs/benchmarks.md` has the figures.
"""

from __future__ import annotations

import argparse
import random
import sys
import typing as t

from benchmarks.figures import ROOT

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing import further_rounds
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing.fault_causes import (
    LEAF,
    PATH,
    PORT,
    PORTS,
    RAIL,
    RECEIVES,
    SENDS,
    Cause,
    Result,
    find,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs

RAILS = ("gpu01p1", "gpu01p2")
UNIT, ROUNDS = 32, 8


class Fault(t.NamedTuple):
    """A fault on ``rails``.

    :param what: a node, a leaf or two leaves. :param rate: the share of its tests with a bad result.
    :param slow: whether a bad result means too slow, and not failed.
    """

    name: str
    kind: str
    rails: tuple[str, ...]
    what: t.Any
    rate: float
    slow: bool = False


class Figures(t.NamedTuple):
    """What a run needed and named.

    :param tests, further: tests of a pair on a rail in the first and in the further rounds; ``rounds``: all.
    :param found, hidden, missed: faults that were named; that no failed test shows, or only tests of another fault too;
        and others.
    :param wrong, alarms: causes that are not the fault whose tests failed, and causes without a fault.
    """

    tests: int
    further: int
    rounds: int
    found: int
    hidden: int
    missed: int
    wrong: int
    alarms: int


class Fabric:
    """Nodes in units of 32, with a leaf per unit and rail. Each rail is a plane."""

    def __init__(self, nodes: int) -> None:
        self.nodes = ["n%04d" % number for number in range(nodes)]
        self.units = {name: number // UNIT for number, name in enumerate(self.nodes)}
        self.leaves = {(name, rail): (self.leaf(unit, rail),) for name, unit in self.units.items() for rail in RAILS}

    @staticmethod
    def leaf(unit: int, rail: str) -> str:
        return "su%d-%s" % (unit + 1, rail)

    def fault(self, name: str, random_: random.Random) -> Fault:
        """Return a fault of a kind at a random place."""
        node, rail = random_.choice(self.nodes), random_.choice(RAILS)
        units = sorted(set(self.units.values()))
        leaf = self.leaf(random_.choice(units), rail)
        if name == "misrouted link of two leaves":
            pair = random_.sample(units, 2) if len(units) > 1 else [0, 0]
            return Fault(name, PATH, (rail,), tuple(sorted((self.leaf(each, rail),) for each in pair)), 0.25)
        return {
            "bad cable": Fault(name, PORT, (rail,), node, 1.0),
            "cable that loses 3 of 4 tests": Fault(name, PORT, (rail,), node, 0.75),
            "slow node": Fault(name, PORT, RAILS, node, 1.0, True),
            "port that sends slowly": Fault(name, SENDS, (rail,), node, 1.0, True),
            "port that receives slowly": Fault(name, RECEIVES, (rail,), node, 1.0, True),
            "dead leaf": Fault(name, LEAF, (rail,), leaf, 1.0),
            "lossy leaf, 3 of 10 tests": Fault(name, LEAF, (rail,), leaf, 0.3),
            # of one leaf, where it is the whole plane
            "plane at half speed": Fault(name, RAIL, (rail,), None, 1.0, True)
            if len(units) > 1
            else Fault(name, LEAF, (rail,), leaf, 1.0, True),
        }[name]


# HARD: faults that make each of their tests fail.
HARD = (
    "bad cable",
    "slow node",
    "port that sends slowly",
    "port that receives slowly",
    "dead leaf",
    "plane at half speed",
)
SOFT = ("cable that loses 3 of 4 tests", "lossy leaf, 3 of 10 tests", "misrouted link of two leaves")


def _is_over(fabric: Fabric, fault: Fault, rail: str, ends: tuple[str, str]) -> bool:
    """Return whether a test uses what has the fault."""
    if rail not in fault.rails:
        return False
    leaves = [fabric.leaves[node, rail] for node in ends]
    if fault.kind == PATH:
        return leaves[0] != leaves[1] and tuple(sorted(leaves)) == fault.what
    if fault.kind in (SENDS, RECEIVES):
        return bool(fault.what == ends[fault.kind == RECEIVES])
    return fault.kind == RAIL or fault.what in (*ends, *leaves[0], *leaves[1])


class Tester:
    """Gives the result of each test. A pair has the same result each time, as a flow has one path."""

    def __init__(self, fabric: Fabric, faults: t.Sequence[Fault], seed: int, noise: float) -> None:
        self._fabric, self._faults, self._seed, self._noise = fabric, faults, seed, noise

    def result(self, rail: str, ends: tuple[str, str]) -> Result:
        own = [fault for fault in self._faults if _is_over(self._fabric, fault, rail, ends)]
        rates = [*(fault.rate for fault in own), *([self._noise] if self._noise else [])]
        slow = bool(own) and all(fault.slow for fault in own)
        random_ = random.Random("%d %s %s" % (self._seed, rail, sorted(ends)))
        bad = any(rate == 1 or random_.random() < rate for rate in rates)
        return Result(rail, ends, bad, bad and slow)


def run(nodes: int, names: t.Sequence[str], seed: int, noise: float = 0.0, rounds: int = ROUNDS) -> Figures:
    """Simulate a run of verify on a fabric with one fault of each name.

    :param noise: the part of tests that fail without a fault.
    :param rounds: the first rounds (``verify_max_rounds``).
    """
    fabric, random_ = Fabric(nodes), random.Random(seed)
    faults = [fabric.fault(name, random_) for name in names]
    tester = Tester(fabric, faults, seed, noise)
    first = probe_pairs.rounds(fabric.nodes, rounds, fabric.units)
    results = [tester.result(rail, (client, server)) for each in first for server, client in each for rail in RAILS]
    tests, turns = len(results), len(first)
    for batch in range(further_rounds.BATCHES):
        further = further_rounds.rounds(results, fabric.leaves, batch)
        turns += len(further)
        results += [
            tester.result(rail, (client, server))
            for each in further
            for server, client, rails in each
            for rail in rails
        ]
    return _figures(fabric, faults, results, tests, turns)


def all_pairs(nodes: int, names: t.Sequence[str], seed: int) -> Figures:
    """Simulate tests of all pairs, with the same faults as :func:`run`."""
    fabric, random_ = Fabric(nodes), random.Random(seed)
    faults = [fabric.fault(name, random_) for name in names]
    tester = Tester(fabric, faults, seed, 0.0)
    rounds = probe_pairs.rounds(fabric.nodes, nodes)
    results = [tester.result(rail, (client, server)) for each in rounds for server, client in each for rail in RAILS]
    return _figures(fabric, faults, results, len(results), len(rounds))


def _figures(
    fabric: Fabric, faults: t.Sequence[Fault], results: t.Sequence[Result], tests: int, rounds: int
) -> Figures:
    causes = find(results, fabric.leaves).causes
    named = {(cause.kind, cause.rail, _what(cause)) for cause in causes}
    places = [(fault, rail) for fault in faults for rail in fault.rails]
    right = {(fault.kind, rail, fault.what) for fault, rail in places}
    over = [
        [each for each in places if each[1] == result.rail and _is_over(fabric, each[0], result.rail, result.ends)]
        for result in results
        if result.bad
    ]
    alone = {each[0] for each in over if len(each) == 1}
    seen = [place in alone for place in places]
    found = [(fault.kind, rail, fault.what) in named for fault, rail in places]
    others = [cause for cause in causes if (cause.kind, cause.rail, _what(cause)) not in right]
    wrong = [
        cause
        for cause in others
        if any(_is_over(fabric, fault, cause.rail, result.ends) for fault in faults for result in cause.bad)
    ]
    return Figures(
        tests,
        len(results) - tests,
        rounds,
        sum(found),
        seen.count(False),
        sum(visible and not known for visible, known in zip(seen, found)),
        len(wrong),
        len(others) - len(wrong),
    )


def _what(cause: Cause) -> t.Any:
    if cause.kind == PATH:
        return tuple(sorted(cause.leaves))
    return cause.node if cause.kind in PORTS else cause.leaves[0] if cause.kind == LEAF else None


def _row(nodes: int, name: str, runs: t.Sequence[Figures]) -> None:
    def total(key: str) -> int:
        return sum(getattr(each, key) for each in runs)

    most = max(each.further for each in runs)
    cells = ["%d" % nodes, name, "%d + %d" % (runs[0].tests, most), "%d" % max(each.rounds for each in runs)]
    cells += ["%d" % total(key) for key in ("found", "hidden", "missed", "wrong", "alarms")]
    print("| %s |" % " | ".join(cells), flush=True)


def main(arguments: t.Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks narrowing", description=__doc__)
    parser.add_argument("--nodes", default="32,128,512,4096", help="numbers of nodes")
    parser.add_argument("--seeds", type=int, default=20, help="fabrics per row")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the first rounds (verify_max_rounds)")
    parser.add_argument("--noise", type=float, default=0.0, help="the part of tests that fail without a fault")
    options = parser.parse_args(arguments)
    print("| nodes | fault | tests | rounds | named | without a failed test | missed | wrong | false alarms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for nodes in map(int, options.nodes.split(",")):
        cases: dict[str, tuple[str, ...]] = {
            name: (name,) for name in (*HARD, *SOFT) if nodes > UNIT or name != SOFT[-1]
        }
        cases.update({"none": (), "four hard faults": ("bad cable",) * 2 + ("slow node", "dead leaf")})
        for name, names in cases.items():
            _row(nodes, name, [run(nodes, names, seed, options.noise, options.rounds) for seed in range(options.seeds)])
        whole = nodes * (nodes - 1) // 2 * len(RAILS)
        print("| %d | all pairs, for comparison | %d | %d | | | | | |" % (nodes, whole, nodes - 1))
    return 0
