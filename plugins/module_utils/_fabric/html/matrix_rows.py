# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail x node matrix: the state of every port of the plan, from a verdict."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    FAILED,
    NOT_CHECKED,
    OK,
    Verdict,
)

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
        return NOT_CHECKED in self.states


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


def rails_ok(matrix: Grid) -> int:
    """Return the number of rails with at least one checked port and without failures."""
    columns = list(zip(*(row.states for row in matrix.rows))) if matrix.rows else []
    return sum(FAILED not in column and OK in column for column in columns)
