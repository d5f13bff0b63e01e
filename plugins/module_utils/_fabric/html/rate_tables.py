# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth and latency of rails: their distribution, outliers, and both as tables."""

from __future__ import annotations

import statistics
import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import Child, h, more, rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import Document
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import Measure
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

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


# Outliers that are listed at once, and in total.
_LISTED, _MAX_LISTED = 4, 200
# Maximum number of failed transfers that are named one by one.
_FAILED_NAMED = 4


def rates(measures: t.Sequence[Measure], plan: Document) -> list[Child]:
    """Return the section of bandwidth and latency."""
    rails = [rail["name"] for rail in plan["rails"]]
    latency = LATENCY if any(each.latency_us is not None for each in measures) else ROUND_TRIP
    outliers, tables = [], []
    slow: list[Often] = []
    for quantity in (BANDWIDTH, latency):
        found = spreads(measures, rails, quantity)
        if not found:
            continue
        outliers += [(quantity, each, point) for each in found for point in each.outliers]
        slow += often(found)
        tables.append(_table(found, quantity, plan))
    note = "Outliers are worse than the median by more than %d robust standard deviations and %d %%."
    return [
        h("p", _transfers_text(measures)),
        *tables,
        h("p", note % (DEVIATIONS, PART * 100), class_="soft small") if tables else None,
        *_outliers(outliers, slow),
    ]


def _transfers_text(measures: t.Sequence[Measure]) -> str:
    """Return the number of transfers and the failed ones, as text; many failed transfers are counted per rail."""
    failed = [each for each in measures if not each.ok]
    transfers = "%s between pairs of nodes" % count(len(measures), "transfer")
    if not failed:
        return transfers + "."
    named = ["%s from %s to %s" % (each.rail, each.source, each.target) for each in failed]
    if len(failed) > _FAILED_NAMED:
        rails = [each.rail for each in failed]
        named = ["%s %d times" % (rail, rails.count(rail)) for rail in sorted(set(rails))]
    return "{}. {:,} failed, and {} in none of the figures: {}.".format(
        transfers, len(failed), "are" if len(failed) > 1 else "is", ", ".join(named)
    )


def _outliers(found: t.Sequence[tuple[Quantity, Spread, Point]], slow: t.Sequence[Often]) -> list[Child]:
    if not found:
        return [h("p", "No transfer is an outlier.")]
    lines = []
    for quantity, each, point in sorted(found, key=lambda item: (-item[2].worse, item[1].rail, item[2].source)):
        side = "below" if quantity.more else "above"
        deviation = "%d %% %s the median of %s" % (round(point.worse * 100), side, short(each.median))
        pair = "%s to %s" % (point.source, point.target)
        lines.append((pair, each.label, "%s %s" % (short(point.value), quantity.unit), deviation))
    head = ("from and to", "rail", "value", "deviation")
    nodes = list(
        dict.fromkeys("%s on %s (%d of its %d transfers)" % (each.node, each.label, *each[2:]) for each in slow)
    )[:_LISTED]
    omitted = len(lines) - _MAX_LISTED
    return [
        h("h3", "%s" % count(len(lines), "outlier")),
        h("p", "Most often: %s." % ", ".join(nodes)) if nodes else None,
        rows(head, lines[:_LISTED], "The worst first", brief=True),
        more(
            count(len(lines[_LISTED:_MAX_LISTED]), "more outlier"),
            rows(head, lines[_LISTED:_MAX_LISTED], "Further outliers", brief=True),
        )
        if len(lines) > _LISTED
        else None,
        h("p", "And {:,} more.".format(omitted)) if omitted > 0 else None,
    ]


def _table(found: t.Sequence[Spread], quantity: Quantity, plan: Document) -> xml.Element:
    head = (
        "rail",
        "transfers",
        "median",
        "low",
        "quarter",
        "three quarters",
        "high",
        "of the planned speed",
        "outliers",
    )
    speeds = _speeds(plan) if quantity is BANDWIDTH else {}
    lines = []
    for each in found:
        speed = speeds.get(each.rail)
        part = "%.0f %% of %s" % (each.median / speed * 100, short(speed)) if speed else ""
        numbers = [short(value) for value in (each.median, each.low, each.quarter, each.three_quarters, each.high)]
        outliers = str(len(each.outliers)) if each.outliers else ""
        lines.append((each.label, "{:,}".format(len(each.points)), *numbers, part, outliers))
    return rows(head, lines, "%s, %s" % (quantity.title, quantity.unit), brief=True)


def _speeds(plan: Document) -> dict[str, float]:
    """Return rail -> lowest speed in Gb/s that the plan expects of its ports."""
    found: dict[str, float] = {}
    for node in plan["nodes"]:
        for port in node["ports"]:
            speed = (port.get("expect") or {}).get("speed")
            if isinstance(speed, (int, float)) and speed > 0:
                found[port["rail"]] = min(found.get(port["rail"], float(speed)), float(speed))
    return found
