# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail x node matrix as HTML: a row a node, or a row a group with the nodes that need attention below it."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import h, more, region
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.matrix_rows import NO_PORT, Grid, Group, Row
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    FAILED,
    NOT_CHECKED,
    OK,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

# A sign, a class and a word for each state: colour is never the only mark.
_SIGNS = {OK: ("✓", "ok"), FAILED: ("✕", "failed"), NOT_CHECKED: ("–", "open"), NO_PORT: ("", "none")}
# Nodes with failures that a large fabric shows at the most, each in a row.
_MOST = 256
# Rows of one table.
_LONG = 32
# Up to so many nodes are in the plan's order, or shown at once beside those with failures; so many where none has any.
_FEW = 8
_OPEN = 32

Anchors = t.Mapping[t.Tuple[str, str], str]


def matrix(made: Grid, anchors: Anchors) -> list[xml.Element]:
    """The legend and the tables."""
    if not made.large:
        first, rest = _urgent_first(made)
        parts = [_legend(made)]
        if first:
            tables = _tables(made.rails, first, anchors)
            parts.append(region("Matrix of nodes and rails", *tables, class_="scroll matrices"))
        if rest:
            tables = _tables(made.rails, rest, anchors)
            good = region("Matrix of nodes whose ports are all ok", *tables, class_="scroll matrices")
            number = sum(len(group.rows) for group in rest)
            parts.append(more("%s with all ports ok" % count(number, "node"), good))
        return parts
    failing = [row for row in made.rows if row.failed]
    key = "A row is a group with its number of nodes: ✓ all of its ports are ok, ✕ so many failed, – so many were not "
    key += "checked and none failed."
    parts = [_legend(made), h("p", key, class_="soft small"), region("Matrix of groups and rails", _sums(made))]
    if failing:
        left = failing[_MOST:]
        parts.append(h("h3", "Nodes with failures (%s)" % "{:,}".format(len(failing))))
        tables = _tables(made.rails, [Group("with failures", failing[:_MOST])], anchors)
        parts.append(region("Matrix of nodes with failures", *tables, class_="scroll matrices"))
        if left:
            parts.append(h("p", "And %s more: " % count(len(left), "node"), ", ".join(row.node for row in left)))
    unknown = [row for row in made.rows if row.unknown and not row.failed]
    if unknown and len(unknown) < len(made.rows):
        names = ", ".join(row.node for row in unknown)
        title = "%s not checked on every rail" % count(len(unknown), "node")
        parts.append(more(title, h("p", names, class_="small")))
    return parts


def _legend(made: Grid) -> xml.Element:
    items = []
    for state, (sign, kind) in _SIGNS.items():
        number = made.number(state)
        if number:
            items.append(
                h("li", h("span", sign or " ", class_="key %s" % kind), "%s (%s)" % (state, "{:,}".format(number)))
            )
    return h("ul", *items, class_="legend", aria_label="Signs, and how many ports have each")


def _urgent_first(made: Grid) -> tuple[list[Group], list[Group]]:
    """What is shown at once: nodes with failures, then those that were not checked on every rail; and the others, which
    are shown on demand where they are many."""
    if len(made.rows) <= _FEW:
        return list(made.groups), []
    failing = [row for row in made.rows if row.failed]
    unknown = [row for row in made.rows if row.unknown and not row.failed]
    first = [Group(title, rows) for title, rows in (("with failures", failing), ("not checked", unknown)) if rows]
    rest = [
        group._replace(rows=[row for row in group.rows if not row.failed and not row.unknown]) for group in made.groups
    ]
    rest = [group for group in rest if group.rows]
    most = _FEW if first else _OPEN
    return (first, rest) if sum(len(group.rows) for group in rest) > most else ([*first, *rest], [])


def _head(first: str, rails: t.Sequence[str]) -> xml.Element:
    return h("thead", h("tr", h("th", first, scope="col"), *(h("th", rail, scope="col") for rail in rails)))


def _tables(rails: t.Sequence[str], groups: t.Sequence[Group], anchors: Anchors) -> list[xml.Element]:
    """Tables that fit on a screen, so that several fit side by side."""
    tables = []
    for group in groups:
        pieces = max(1, -(-len(group.rows) // _LONG))
        size = -(-len(group.rows) // pieces)
        for piece in range(pieces):
            part = group.rows[piece * size : (piece + 1) * size]
            title = "%s (%s)" % (group.title, count(len(group.rows), "node"))
            if pieces > 1:
                title = "%s, %d of %d" % (title, piece + 1, pieces)
            body = h("tbody", *(_row(rails, row, anchors) for row in part))
            tables.append(h("table", h("caption", title), _head("node", rails), body, class_="matrix"))
    return tables


def _row(rails: t.Sequence[str], row: Row, anchors: Anchors) -> xml.Element:
    made = h("tr", h("th", row.node, scope="row", title=row.node if len(row.node) > 16 else None))
    for rail, state in zip(rails, row.states):
        sign, kind = _SIGNS[state]
        anchor = anchors.get((row.node, rail)) or anchors.get((row.node, "")) if state == FAILED else None
        inner: t.Any = sign
        if anchor:
            inner = h("a", sign, href="#" + anchor, aria_label="%s %s failed: why" % (row.node, rail))
        made.append(h("td", inner, class_=kind if kind != "none" else None))
    return made


def _sums(made: Grid) -> xml.Element:
    """A row a group: how many ports failed, or were not checked, or that all are well; those with failures first."""
    groups = sorted(made.groups, key=lambda group: -sum(row.failed for row in group.rows))
    body = h("tbody")
    for group in groups:
        row = h("tr", h("th", "%s (%d)" % (group.title, len(group.rows)), scope="row", title=group.title))
        for rail in range(len(made.rails)):
            row.append(_sum(group, rail))
        body.append(row)
    return h("table", h("caption", "All groups"), _head("group", made.rails), body, class_="matrix sums")


def _sum(group: Group, rail: int) -> xml.Element:
    for state in (FAILED, NOT_CHECKED, OK):
        number = group.number(rail, state)
        if number:
            sign, kind = _SIGNS[state]
            return h("td", sign if state == OK else "%s %d" % (sign, number), class_=kind)
    return h("td")
