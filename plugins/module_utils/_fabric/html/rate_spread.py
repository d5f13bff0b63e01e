# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Distribution of bandwidth and latency of each rail's transfers, and outliers."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import Measure

# A rail with fewer transfers is compared with all rails.
_FEW = 5
# An outlier is worse than the median by more than DEVIATIONS robust standard deviations and more than PART of the
# median. The robust standard deviation is 1.4826 times the median absolute deviation: for normally distributed values,
# it equals the standard deviation.
DEVIATIONS = 4.0
_NORMAL = 1.4826
PART = 0.1


def short(value: float) -> str:
    """Format a number with three or four digits: ``0.118``, ``1.93``, ``187.2``, ``1204``."""
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return "%.*f" % (digits, value)


class Quantity(t.NamedTuple):
    """A measured quantity. ``key``: field of :class:`Measure`. ``more``: whether higher values are better."""

    key: str
    title: str
    unit: str
    more: bool


BANDWIDTH = Quantity("gbits", "Bandwidth", "Gb/s", True)
LATENCY = Quantity("latency_us", "Latency", "µs", False)
ROUND_TRIP = Quantity("rtt_ms", "Round trip", "ms", False)


class Point(t.NamedTuple):
    """The value of one transfer. ``worse``: fraction of the median by which it is worse; 0 if it is not an outlier."""

    source: str
    target: str
    value: float
    worse: float


class Spread(t.NamedTuple):
    """Distribution of the values of a rail, per kind of memory: minimum, quartiles, maximum, points (worst first)."""

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


def spreads(measures: t.Sequence[Measure], rails: t.Sequence[str], quantity: Quantity) -> list[Spread]:
    """Return one spread per rail with values, in the order of ``rails``. GPU and host memory are separate."""
    groups: dict[tuple[str, bool], list[Measure]] = {}
    for measure in measures:
        if getattr(measure, quantity.key) is not None and measure.ok:
            groups.setdefault((measure.rail, measure.gpu), []).append(measure)
    mixed = len({gpu for _rail, gpu in groups}) > 1
    usual = {
        gpu: _median_and_tolerance([each for key in groups if key[1] is gpu for each in groups[key]], quantity)
        for gpu in (False, True)
    }
    order = {rail: at for at, rail in enumerate(rails)}
    found = []
    for (rail, gpu), members in sorted(groups.items(), key=lambda each: (order.get(each[0][0], len(order)), each[0])):
        label = rail + (" GPU" if gpu else " host") if mixed else rail
        found.append(_spread(label, rail, members, quantity, usual[gpu]))
    return found


def _median_and_tolerance(measures: t.Sequence[Measure], quantity: Quantity) -> tuple[float, float]:
    """Return the median, and the distance from it above which a value is an outlier."""
    values = [float(getattr(each, quantity.key)) for each in measures]
    if not values:
        return 0.0, 0.0
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    return median, max(DEVIATIONS * _NORMAL * deviation, PART * median)


def _spread(
    label: str, rail: str, measures: t.Sequence[Measure], quantity: Quantity, all_rails: tuple[float, float]
) -> Spread:
    median, tolerance = _median_and_tolerance(measures, quantity) if len(measures) >= _FEW else all_rails
    points = []
    for each in measures:
        value = float(getattr(each, quantity.key))
        off = median - value if quantity.more else value - median
        worse = off / median if median and off > tolerance else 0.0
        points.append(Point(each.source, each.target, value, worse))
    points.sort(key=lambda point: (-point.worse, point.source, point.target, point.value))
    values = sorted(point.value for point in points)
    one, two, three = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Spread(label, rail, values[0], one, two, three, values[-1], points)


class Often(t.NamedTuple):
    """A node with outliers on a rail: number of its outliers and of all its transfers."""

    node: str
    label: str
    outliers: int
    transfers: int


def often(found: t.Sequence[Spread]) -> list[Often]:
    """Return nodes with at least two outliers on a rail that are at least half of their transfers, the worst first."""
    nodes = []
    for spread in found:
        outliers: dict[str, int] = {}
        transfers: dict[str, int] = {}
        for point in spread.points:
            for node in sorted({point.source, point.target}):
                transfers[node] = transfers.get(node, 0) + 1
                if point.worse:
                    outliers[node] = outliers.get(node, 0) + 1
        nodes += [Often(node, spread.label, number, transfers[node]) for node, number in outliers.items()]
    nodes = [each for each in nodes if each.outliers > 1 and each.outliers * 2 >= each.transfers]
    return sorted(nodes, key=lambda each: (-each.outliers / each.transfers, -each.outliers, each.node, each.label))
