# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How bandwidth and latency spread over a rail's transfers, and which of them are outliers."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import Measure

# With fewer transfers a rail is compared with all rails: two or three do not show what is usual.
_FEW = 5
# An outlier is worse than the median by more than both: so many robust standard deviations (1.4826 times the median
# absolute deviation, which is the standard deviation where values are normal), and such a part of the median.
DEVIATIONS = 4.0
_NORMAL = 1.4826
PART = 0.1


class Quantity(t.NamedTuple):
    """What of a transfer is looked at; ``more``: more of it is better."""

    key: str
    title: str
    unit: str
    more: bool


BANDWIDTH = Quantity("gbits", "Bandwidth", "Gb/s", True)
LATENCY = Quantity("latency_us", "Latency", "µs", False)
ROUND_TRIP = Quantity("rtt_ms", "Round trip", "ms", False)


class Point(t.NamedTuple):
    """A transfer's value; ``worse``: by which part of the median it is worse, 0 for no outlier."""

    source: str
    target: str
    value: float
    worse: float


class Spread(t.NamedTuple):
    """The values of a rail (and of one kind of memory): ``low`` to ``high`` with quartiles; points, the worst first."""

    label: str
    rail: str
    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float
    points: t.Sequence[Point]

    @property
    def outliers(self) -> list[Point]:
        return [point for point in self.points if point.worse]

    @property
    def usual(self) -> list[float]:
        """The values of the others, sorted."""
        return sorted(point.value for point in self.points if not point.worse)


def spreads(measures: t.Sequence[Measure], rails: t.Sequence[str], quantity: Quantity) -> list[Spread]:
    """A spread a rail that has values, in the order of ``rails``; transfers from GPU memory apart from others."""
    groups: dict[tuple[str, bool], list[Measure]] = {}
    for measure in measures:
        if getattr(measure, quantity.key) is not None and measure.ok:
            groups.setdefault((measure.rail, measure.gpu), []).append(measure)
    mixed = len({gpu for _rail, gpu in groups}) > 1
    usual = {
        gpu: _usual([each for key in groups if key[1] is gpu for each in groups[key]], quantity)
        for gpu in (False, True)
    }
    order = {rail: at for at, rail in enumerate(rails)}
    found = []
    for (rail, gpu), members in sorted(groups.items(), key=lambda each: (order.get(each[0][0], len(order)), each[0])):
        label = rail + (" GPU" if gpu else " host") if mixed else rail
        found.append(_spread(label, rail, members, quantity, usual[gpu]))
    return found


def _usual(measures: t.Sequence[Measure], quantity: Quantity) -> tuple[float, float]:
    """The median, and how far from it a value may be before it is an outlier."""
    values = [float(getattr(each, quantity.key)) for each in measures]
    if not values:
        return 0.0, 0.0
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return middle, max(DEVIATIONS * _NORMAL * deviation, PART * middle)


def _spread(
    label: str, rail: str, measures: t.Sequence[Measure], quantity: Quantity, all_rails: tuple[float, float]
) -> Spread:
    middle, room = _usual(measures, quantity) if len(measures) >= _FEW else all_rails
    points = []
    for each in measures:
        value = float(getattr(each, quantity.key))
        off = middle - value if quantity.more else value - middle
        worse = off / middle if middle and off > room else 0.0
        points.append(Point(each.source, each.target, value, worse))
    points.sort(key=lambda point: (-point.worse, point.source, point.target, point.value))
    values = sorted(point.value for point in points)
    one, two, three = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Spread(label, rail, values[0], one, two, three, values[-1], points)


class Often(t.NamedTuple):
    """A node with outliers on a rail: ``outliers`` of its ``transfers``."""

    node: str
    label: str
    outliers: int
    transfers: int


def often(found: t.Sequence[Spread]) -> list[Often]:
    """Nodes that are in two or more outliers of a rail and in half of their own transfers on it, the worst first."""
    named = []
    for spread in found:
        outliers: dict[str, int] = {}
        transfers: dict[str, int] = {}
        for point in spread.points:
            for node in sorted({point.source, point.target}):
                transfers[node] = transfers.get(node, 0) + 1
                if point.worse:
                    outliers[node] = outliers.get(node, 0) + 1
        named += [Often(node, spread.label, number, transfers[node]) for node, number in outliers.items()]
    named = [each for each in named if each.outliers > 1 and each.outliers * 2 >= each.transfers]
    return sorted(named, key=lambda each: (-each.outliers / each.transfers, -each.outliers, each.node, each.label))
