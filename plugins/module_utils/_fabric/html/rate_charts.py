# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Bandwidth and latency of rails, in the last run and in earlier runs, as charts and tables."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import html_charts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_charts import short
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
    spreads,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import Document, took
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import DRIFT, Measure
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import (
    Place,
    Run,
    between,
    comparable,
    when,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of

# Outliers that are listed at once, and in total.
_LISTED, _MAX_LISTED = 4, 200
# Maximum number of ports, and of failed transfers, listed in one sentence.
_PORTS = 12
_FEW = 4
# Number of runs that are shown at once.
_NEWEST = 4


def rates(measures: t.Sequence[Measure], plan: Document, draw: bool) -> list[Child]:
    """Return the section of bandwidth and latency.

    :param draw: whether to draw charts.
    """
    rails = [rail["name"] for rail in plan["rails"]]
    latency = LATENCY if any(each.latency_us is not None for each in measures) else ROUND_TRIP
    figures, outliers, tables = [], [], []
    slow: list[Often] = []
    points_drawn = False
    for quantity in (BANDWIDTH, latency):
        found = spreads(measures, rails, quantity)
        if not found:
            continue
        if draw:
            points_drawn = points_drawn or html_charts.dotted(found)
            picture = html_charts.spread_chart(found, quantity, "chart-" + quantity.key)
            figures.append(h("figure", h("figcaption", "%s, %s" % (quantity.title, quantity.unit)), picture))
        outliers += [(quantity, each, point) for each in found for point in each.outliers]
        slow += often(found)
        tables.append(_table(found, quantity, plan))
    note = "The box holds the middle half of a rail's transfers, its thick line is the median. "
    if points_drawn:
        note = "Each dot is a transfer between two nodes; the box holds the middle half, its thick line is the median. "
    note += "Diamonds are outliers: worse than the median by more than %d robust standard deviations and %d %%."
    return [
        h("p", _transfers_text(measures)),
        h("div", *figures, class_="charts") if figures else None,
        h("p", note % (DEVIATIONS, PART * 100), class_="soft small") if figures else None,
        *_outliers(outliers, slow),
        # without charts, the tables are shown at once
        more("The figures as tables", *tables, opened=not figures),
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


def history(runs: t.Sequence[Run], plan: Document, draw: bool) -> list[Child]:
    """Return the section of earlier runs.

    :param runs: the oldest first.
    """
    measured = [each for each in runs if each.kind != DRIFT and (each.median or each.of_rail)]
    rails = [rail["name"] for rail in plan["rails"] if any(rail["name"] in each.median for each in measured)]
    parts: list[Child] = []
    checking = [each for each in runs if each.checked]
    comparable_runs = [each for each in checking if comparable(each, checking[-1])]
    if len(comparable_runs) > 1:
        new, fixed = between(comparable_runs[-2], comparable_runs[-1])
        if new or fixed:
            text = "Since the run before, of %s: " % when(comparable_runs[-2].began)
            parts.append(
                h("p", text, "; ".join(filter(None, [_ports("newly failed", new), _ports("fixed", fixed)])), ".")
            )
        else:
            parts.append(
                h(
                    "p",
                    "Since the run before, of %s, no port newly failed and none was fixed."
                    % when(comparable_runs[-2].began),
                )
            )
    if draw and len(measured) > 1 and rails:
        room = html_charts.trend_room(measured)
        figures = [
            h(
                "figure",
                h("figcaption", rail, ": ", _trend(rail, measured)),
                html_charts.trend_chart(rail, measured, room, "trend-%d" % at),
            )
            for at, rail in enumerate(rails, 1)
        ]
        parts.append(h("h3", "Each rail from run to run, Gb/s"))
        parts.append(h("div", *figures, class_="trends"))
        legend = (
            "The line is the median of a rail's transfers, the dashes are its slowest, which may be outside the frame. "
        )
        legend += "A cross is a run in which ports of the rail failed."
        parts.append(h("p", legend, class_="soft small"))
    parts += _runs(runs)
    if len(measured) > 1 and rails:
        lines = [
            [when(each.began), *(short(each.median[rail]) if rail in each.median else "" for rail in rails)]
            for each in reversed(measured)
        ]
        parts.append(
            more(
                "Medians as a table",
                rows(("run", *rails), lines, "Median Gb/s of each rail, the newest run first", brief=True),
                opened=not draw,
            )
        )
    return parts


def _trend(rail: str, runs: t.Sequence[Run]) -> str:
    values = [each.median[rail] for each in runs if rail in each.median]
    failed = sum(bool(each.of_rail.get(rail)) for each in runs)
    text = "%s now" % short(values[-1])
    if len(values) > 1 and values[-2]:
        change = (values[-1] / values[-2] - 1) * 100
        text += ", %+.1f %%" % change if abs(change) >= 0.05 else ", as before"
    return text + ("; failed in %d of %s" % (failed, count(len(runs), "run")) if failed else "")


def _ports(title: str, places: t.Sequence[Place]) -> str:
    if not places:
        return ""
    return "%s: %s" % (title, first_of([" ".join(place) for place in places], _PORTS))


def _runs(runs: t.Sequence[Run]) -> list[Child]:
    lines: list[t.Sequence[Child]] = []
    for each in reversed(runs):
        result_text, kind = ("ok", "ok") if each.ok else ("failed", "failed")
        ports = "{:,} of {:,}".format(len(each.failed), len(each.checked)) if each.checked else ""
        result = h("span", result_text, class_="word %s" % kind)
        failures = "{:,}".format(each.failures) if each.failures else ""
        lines.append((when(each.began), each.kind, result, failures, ports, took(each.seconds), each.plan[:12]))
    head = ("began", "what", "result", "failures", "ports failed", "took", "plan")
    older = lines[_NEWEST:]
    return [
        rows(head, lines[:_NEWEST], "Runs, the newest first", brief=True),
        more(count(len(older), "more run"), rows(head, older, "Older runs", brief=True)) if older else None,
    ]
