# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail x node matrix: the state of every port of the plan, from a verdict, and as HTML.

The table has one row per node, or one row per group followed by the nodes with failures.
"""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import h, more, region
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    FAILED,
    NOT_CHECKED,
    OK,
    UNKNOWN,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

Document = t.Mapping[str, t.Any]

NO_PORT = "no port"
# Up to this number, each node has a row. Above it, each group has a row, and so has each node with failures.
ROWS = 128
# Nodes per group if the plan has neither units nor racks.
_CHUNK = 64


class Row(t.NamedTuple):
    """A node and the state of its port on each rail, in the order of :attr:`Grid.rails`."""

    node: str
    states: t.Sequence[str]

    @property
    def failed(self) -> bool:
        return FAILED in self.states

    @property
    def unknown(self) -> bool:
        return NOT_CHECKED in self.states or UNKNOWN in self.states


class Group(t.NamedTuple):
    """The nodes of a unit, or of a rack if the plan has no units."""

    title: str
    rows: t.Sequence[Row]

    def number(self, rail: int, state: str) -> int:
        """Return the number of ports on a rail that have this state."""
        return sum(row.states[rail] == state for row in self.rows)


class Grid(t.NamedTuple):
    """The matrix. ``beyond``: nodes and rails of the verdict that are not in the plan."""

    rails: t.Sequence[str]
    groups: t.Sequence[Group]
    beyond: t.Sequence[str]

    @property
    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group.rows]

    @property
    def large(self) -> bool:
        """Return whether rows are groups and not nodes."""
        return sum(len(group.rows) for group in self.groups) > ROWS

    def number(self, state: str) -> int:
        """Return the number of ports that have this state."""
        return sum(row.states.count(state) for group in self.groups for row in group.rows)


def grid(plan: Document, verdict: Verdict | None) -> Grid:
    """Return the matrix. Without a verdict, all ports are :data:`NOT_CHECKED`."""
    rails = [rail["name"] for rail in plan["rails"]]
    matrix = verdict.matrix if verdict else {}
    groups: dict[str, list[Row]] = {}
    titles = _titles(plan["nodes"])
    for node, title in zip(plan["nodes"], titles):
        ports = {port["rail"] for port in node["ports"]}
        known = matrix.get(node["name"]) or {}
        states = [known.get(rail, NOT_CHECKED) if rail in ports else NO_PORT for rail in rails]
        groups.setdefault(title, []).append(Row(node["name"], states))
    names = {node["name"] for node in plan["nodes"]}
    beyond = [name for name in matrix if name not in names]
    beyond += sorted({rail for known in matrix.values() for rail in known} - set(rails))
    return Grid(rails, [Group(title, rows) for title, rows in groups.items()], beyond)


def _titles(nodes: t.Sequence[Document]) -> list[str]:
    for key in ("unit", "rack"):
        if any(node.get(key) for node in nodes):
            return ["%s %s" % (key, node[key]) if node.get(key) else "nodes of no %s" % key for node in nodes]
    if len(nodes) <= ROWS:
        return ["all"] * len(nodes)
    titles = []
    for at in range(0, len(nodes), _CHUNK):
        chunk = nodes[at : at + _CHUNK]
        titles += ["%s to %s" % (chunk[0]["name"], chunk[-1]["name"])] * len(chunk)
    return titles


# State -> sign and CSS class: colour is never the only distinction.
_SIGNS = {
    OK: ("✓", "ok"),
    FAILED: ("✕", "failed"),
    UNKNOWN: ("?", "open"),
    NOT_CHECKED: ("–", "open"),
    NO_PORT: ("", "none"),
}
# Maximum number of nodes with failures shown as rows for a large fabric.
_MAX_FAILED = 256
# Maximum number of rows of one table.
_TABLE_ROWS = 32
# Up to this number, nodes are shown in the plan's order, and good nodes are shown without a click next to failed nodes.
_FEW = 8
# Maximum number of good nodes shown without a click if no node failed.
_OPEN = 32

Anchors = t.Mapping[t.Tuple[str, str], str]


def matrix(grid: Grid, anchors: Anchors) -> list[xml.Element]:
    """Return the legend and the tables.

    :param anchors: (node, rail) -> id of the element that explains the failure; the rail is empty for whole nodes.
    """
    if not grid.large:
        first, rest = _urgent_first(grid)
        parts = [_legend(grid)]
        if first:
            tables = _tables(grid.rails, first, anchors)
            parts.append(region("Matrix of nodes and rails", *tables, class_="scroll matrices"))
        if rest:
            tables = _tables(grid.rails, rest, anchors)
            good = region("Matrix of nodes whose ports are all ok", *tables, class_="scroll matrices")
            number = sum(len(group.rows) for group in rest)
            parts.append(more("%s with all ports ok" % count(number, "node"), good))
        return parts
    failing = [row for row in grid.rows if row.failed]
    text = (
        "A row is a group with its number of nodes: ✓ all of its ports are ok, ✕ so many failed, ? a check of so many "
    )
    text += "could not run, – so many were not checked."
    parts = [_legend(grid), h("p", text, class_="soft small"), region("Matrix of groups and rails", _group_table(grid))]
    if failing:
        hidden = failing[_MAX_FAILED:]
        parts.append(h("h3", "Nodes with failures (%s)" % "{:,}".format(len(failing))))
        tables = _tables(grid.rails, [Group("with failures", failing[:_MAX_FAILED])], anchors)
        parts.append(region("Matrix of nodes with failures", *tables, class_="scroll matrices"))
        if hidden:
            parts.append(h("p", "And %s more: " % count(len(hidden), "node"), ", ".join(row.node for row in hidden)))
    unknown = [row for row in grid.rows if row.unknown and not row.failed]
    if unknown and len(unknown) < len(grid.rows):
        names = ", ".join(row.node for row in unknown)
        title = "%s not checked on every rail" % count(len(unknown), "node")
        parts.append(more(title, h("p", names, class_="small")))
    return parts


def _legend(grid: Grid) -> xml.Element:
    items = []
    for state, (sign, kind) in _SIGNS.items():
        number = grid.number(state)
        if number:
            items.append(
                h("li", h("span", sign or " ", class_="key %s" % kind), "%s (%s)" % (state, "{:,}".format(number)))
            )
    return h("ul", *items, class_="legend", aria_label="Signs, and how many ports have each")


def _urgent_first(grid: Grid) -> tuple[list[Group], list[Group]]:
    """Return the groups that are shown at once (failed nodes, then nodes not checked on every rail) and the groups that
    are shown on demand (the other nodes, if there are many).
    """
    if len(grid.rows) <= _FEW:
        return list(grid.groups), []
    failing = [row for row in grid.rows if row.failed]
    unknown = [row for row in grid.rows if row.unknown and not row.failed]
    first = [Group(title, rows) for title, rows in (("with failures", failing), ("not checked", unknown)) if rows]
    rest = [
        group._replace(rows=[row for row in group.rows if not row.failed and not row.unknown]) for group in grid.groups
    ]
    rest = [group for group in rest if group.rows]
    max_shown = _FEW if first else _OPEN
    return (first, rest) if sum(len(group.rows) for group in rest) > max_shown else ([*first, *rest], [])


def _head(first: str, rails: t.Sequence[str]) -> xml.Element:
    return h("thead", h("tr", h("th", first, scope="col"), *(h("th", rail, scope="col") for rail in rails)))


def _tables(rails: t.Sequence[str], groups: t.Sequence[Group], anchors: Anchors) -> list[xml.Element]:
    """Return tables that are short enough to be shown side by side on one screen."""
    tables = []
    for group in groups:
        number = max(1, -(-len(group.rows) // _TABLE_ROWS))
        size = -(-len(group.rows) // number)
        for index in range(number):
            chunk = group.rows[index * size : (index + 1) * size]
            title = "%s (%s)" % (group.title, count(len(group.rows), "node"))
            if number > 1:
                title = "%s, %d of %d" % (title, index + 1, number)
            body = h("tbody", *(_row(rails, row, anchors) for row in chunk))
            tables.append(h("table", h("caption", title), _head("node", rails), body, class_="matrix"))
    return tables


def _row(rails: t.Sequence[str], row: Row, anchors: Anchors) -> xml.Element:
    cells = h("tr", h("th", row.node, scope="row", title=row.node if len(row.node) > 16 else None))
    for rail, state in zip(rails, row.states):
        sign, kind = _SIGNS[state]
        anchor = anchors.get((row.node, rail)) or anchors.get((row.node, "")) if state == FAILED else None
        inner: t.Any = sign
        if anchor:
            inner = h("a", sign, href="#" + anchor, aria_label="%s %s failed: why" % (row.node, rail))
        cells.append(h("td", inner, class_=kind if kind != "none" else None))
    return cells


def _group_table(grid: Grid) -> xml.Element:
    """Return a table with one row per group, those with most failed nodes first: per rail, the number of failed ports,
    else the number of unchecked ports, else that all are ok.
    """
    groups = sorted(grid.groups, key=lambda group: -sum(row.failed for row in group.rows))
    body = h("tbody")
    for group in groups:
        row = h("tr", h("th", "%s (%d)" % (group.title, len(group.rows)), scope="row", title=group.title))
        for rail in range(len(grid.rails)):
            row.append(_group_cell(group, rail))
        body.append(row)
    return h("table", h("caption", "All groups"), _head("group", grid.rails), body, class_="matrix sums")


def _group_cell(group: Group, rail: int) -> xml.Element:
    for state in (FAILED, UNKNOWN, NOT_CHECKED, OK):
        number = group.number(rail, state)
        if number:
            sign, kind = _SIGNS[state]
            return h("td", sign if state == OK else "%s %d" % (sign, number), class_=kind)
    return h("td")
