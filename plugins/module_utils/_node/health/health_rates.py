# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Increases of counters over time, compared with thresholds: pure, except for the kept history.

The first value of a counter is its base: what it counted before is not judged. A counter that is smaller than before
was reset or has wrapped around, and a device with another identity was loaded again: both begin with a new base.
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import NETDEV, RDMA, Threshold
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import Fact

# Observations in a row with a higher rate than the threshold, for thresholds per second.
IN_A_ROW = 3
# (device, counter), and its identity with it
Key = t.Tuple[str, str]


class _Counter:
    """One counter. ``increases``: (time, increase), without those of zero."""

    def __init__(self, identity: int, value: int, now: float) -> None:
        self.identity = identity
        self.value = value
        self.at = now
        self.increases: collections.deque[tuple[float, int]] = collections.deque()
        self.rate = 0.0
        # observations in a row over the threshold, for each threshold
        self.over: dict[str, int] = {}


class CounterHistory:
    """The counters of one rail. ``thresholds``: of :func:`.health_rules.thresholds`."""

    def __init__(self, thresholds: t.Sequence[Threshold]) -> None:
        self._thresholds = thresholds
        self._window = max([row.seconds for row in thresholds] or [0])
        self._counters: dict[Key, _Counter] = {}

    def rebase(self) -> None:
        """Begin again, because counters were not observed for a while."""
        self._counters.clear()

    def facts(self, seen: Observed, now: float) -> list[Fact]:
        """Add an observation, and return the counters that increased more than their threshold in it.

        A fact of a window is returned only when its counter increases.
        """
        found = []
        sources = list(_sources(seen))
        for row in self._thresholds:
            for device, where, identity, values in sources:
                name = next((each for each in row.counters if each in values), None)
                if where == row.where and name:
                    counter = self._add((device, name), identity, values[name], now)
                    fact = self._compare(row, "%s of %s" % (name, device), counter, now)
                    found += [fact] if fact else []
        present = {(device, name) for device, _where, _identity, values in sources for name in values}
        self._counters = {key: value for key, value in self._counters.items() if key in present}
        return found

    def _add(self, key: Key, identity: int, value: int, now: float) -> _Counter:
        counter = self._counters.get(key)
        if counter is None or counter.identity != identity:
            self._counters[key] = counter = _Counter(identity, value, now)
        if counter.at < now:
            increase = max(0, value - counter.value)
            counter.rate = increase / (now - counter.at)
            counter.value, counter.at = value, now
            if increase:
                counter.increases.append((now, increase))
            while counter.increases and counter.increases[0][0] <= now - self._window:
                counter.increases.popleft()
        return counter

    def _compare(self, row: Threshold, what: str, counter: _Counter, now: float) -> Fact | None:
        if row.seconds == 1:
            over = counter.over[row.name] = counter.over.get(row.name, 0) + 1 if counter.rate > row.above else 0
            if over < IN_A_ROW:
                return None
            return Fact(row.code, what, "at most %g/s" % row.above, "%.3g/s" % counter.rate, quiet=row.quiet)
        increase = sum(each for at, each in counter.increases if at > now - row.seconds)
        if increase <= row.above or counter.increases[-1][0] < now:
            return None
        expected = "at most %g%s" % (row.above, row.unit) if row.above else "no increase"
        return Fact(row.code, what, expected, "%d%s" % (increase, row.unit), quiet=row.quiet)


def _sources(seen: Observed) -> t.Iterator[tuple[str, str, int, t.Mapping[str, int]]]:
    """Yield device, kind of device, identity and counters of each device with counters."""
    for netdev in seen.netdevs.values():
        yield netdev.name, NETDEV, netdev.ifindex, netdev.counters
    if seen.rdma:
        several = len(seen.rdma.ports) > 1
        for number, port in seen.rdma.ports.items():
            name = "%s:%d" % (seen.rdma.name, number) if several else seen.rdma.name
            yield name, RDMA, seen.rdma.identity, port.counters
