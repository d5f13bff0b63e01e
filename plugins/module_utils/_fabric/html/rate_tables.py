# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Bandwidth and latency of rails as tables, and outliers."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import Child, h, more, rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.rate_spread import (
    BANDWIDTH,
    DEVIATIONS,
    LATENCY,
    PART,
    ROUND_TRIP,
    Often,
    Point,
    Quantity,
    Spread,
    often,
    short,
    spreads,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import Document
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import Measure
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

# Outliers that are listed at once, and in total.
_LISTED, _MAX_LISTED = 4, 200
# Maximum number of failed transfers that are named one by one.
_FEW = 4


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
    if len(failed) > _FEW:
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
