# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps to fix a fabric: similar failures are one step, and a step that may fix later ones comes first.

The terminal and the report page show the same steps.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import label
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import cables, leaf_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES

Document = t.Mapping[str, t.Any]

# The numbers of steps, and of places and values of one step, in the summary for a terminal.
MOST = 5
_PLACES, _VALUES = 3, 2
# More nodes are not named in a command: a playbook without a limit changes only differences, too.
_LIMITED = 8
_LIMIT = " --limit "
# Layers whose failures may be caused by a cable or its remote end.
_CABLES = ("link", "cabling", "reach", "rdma")


class Failure(t.NamedTuple):
    """One failure. Missing texts are empty. ``playbook``: with its ``--limit``. ``rails``: all affected rails."""

    code: str
    layer: str
    node: str
    rail: str
    peer: str
    what: str
    expected: str
    found: str
    cause: str
    remedy: str
    playbook: str
    rails: t.Sequence[str] = ()

    @property
    def places(self) -> list[tuple[str, str]]:
        """Return the (node, rail) pairs that it concerns; the rail is empty for a whole node."""
        return [(self.node, rail) for rail in (self.rails or (self.rail,))] if self.rail else [(self.node, "")]


class Judged(t.NamedTuple):
    """The failures of one verdict. ``layers``: their names, from the bottom up."""

    kind: str
    layers: t.Sequence[str]
    failures: t.Sequence[Failure]


class Step(t.NamedTuple):
    """One thing to do.

    ``origin``: lint, verify or drift. ``what``: distinct problems. ``places``: (node, rail) of each failure.
    ``shared``: what the places have in common, as text. ``plays``: playbooks with ``--limit``. ``cells``: (node, rail)
    of all ports that the step concerns. ``cables``: place -> leaf and leaf port at the remote end of its cable, if the
    step may be about cables and the plan contains the leaf.
    """

    origin: str
    code: str
    title: str
    what: t.Sequence[str]
    expected: t.Sequence[str]
    found: t.Sequence[str]
    causes: t.Sequence[str]
    remedy: str
    places: t.Sequence[tuple[str, str]]
    shared: str
    plays: t.Sequence[str]
    cells: t.Sequence[tuple[str, str]] = ()
    cables: t.Mapping[tuple[str, str], str] = {}
    name: str = ""

    @property
    def heading(self) -> str:
        return " ".join(filter(None, (label(self.name, self.code), self.title)))

    def place(self, place: tuple[str, str]) -> str:
        """Return a place as text, with the remote end of its cable if known."""
        text = " ".join(filter(None, place)) or "the cluster"
        return "%s (%s)" % (text, self.cables[place]) if place in self.cables else text

    def line(self) -> str:
        """Return the step as one line: where, what, what to do."""
        where = self.place(self.places[0]) if len(self.places) == 1 else _where(self.places)
        if len(self.places) > 1 and self.shared:
            where += ", %s" % self.shared
        values = [
            "%s %s" % (verb, first_of(texts, _VALUES))
            for verb, texts in (
                ("expected", self.expected),
                ("found", [each for each in self.found if each != self.title]),
            )
            if texts
        ]
        code = " (%s)" % self.code if self.code else ""
        text = "%s: %s%s%s" % (where, self.title, code, ": " + ", ".join(values) if values else "")
        return "%s. Remedy: %s." % (text, self.remedy or "none known")


class _Leaves:
    """Cabling of the plan. ``names``: (node, rail) -> leaf. ``ends``: (node, rail) -> leaf and leaf port as text.
    ``ports``: leaf -> number of rail ports connected to it.
    """

    def __init__(self, nodes: t.Iterable[Document]) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.ends: dict[tuple[str, str], str] = {}
        self.ports: dict[str, int] = {}
        for node in nodes:
            for port in node["ports"]:
                leaf = port.get("leaf") or {}
                if leaf.get("name"):
                    place = (node["name"], port["rail"])
                    self.names[place] = leaf["name"]
                    self.ports[leaf["name"]] = self.ports.get(leaf["name"], 0) + 1
                    ends = [leaf_of(port, each) for each in cables(port)]
                    self.ends[place] = " and ".join(
                        "leaf %s" % end["name"] + (" port %s" % end["port"] if end.get("port") else "") for end in ends
                    )


def steps(nodes: t.Iterable[Document], verdicts: t.Sequence[Judged]) -> list[Step]:
    """Return the steps of verdicts in their order: each verdict's failures by layer.

    :param nodes: the planned nodes, with ``name`` and ``ports``.
    """
    found: list[Step] = []
    known: set[tuple[str, ...]] = set()
    leaves = _Leaves(nodes if any(each.failures for each in verdicts) else ())
    for verdict in verdicts:
        found += _of_verdict(verdict, known, leaves)
        # a failure that a later verdict repeats is not a new step
        known.update(_identity(failure) for failure in verdict.failures)
    return found


def lines(found: t.Sequence[Step]) -> list[str]:
    """Return the first steps as numbered lines, and how many more there are."""
    texts = ["%d. %s" % (number, step.line()) for number, step in enumerate(found[:MOST], 1)]
    return texts + (["   and %s" % count(len(found) - MOST, "more step")] if len(found) > MOST else [])


def next_play(found: t.Sequence[Step], nodes: t.Collection[str]) -> str:
    """Return the playbook that does the first step that a playbook can do, with its limit; else an empty text.

    :param nodes: all nodes of the run.
    """
    play = next((step.plays[0] for step in found if step.plays), "")
    name, _limit, limited = play.partition(_LIMIT)
    names = set(limited.split(","))
    return name if len(names) > _LIMITED or names >= set(nodes) else play


def _where(places: t.Sequence[tuple[str, str]]) -> str:
    """Return places as text: the rails of equal nodes and the nodes of equal rails together."""
    by_node: dict[str, list[str]] = {}
    for node, rail in places:
        by_node.setdefault(node, []).append(rail)
    groups: dict[tuple[str, ...], list[str]] = {}
    for node, rails in by_node.items():
        groups.setdefault(tuple(rails), []).append(node)
    texts = [
        " ".join(filter(None, (fold_names(filter(None, nodes)), fold_names(filter(None, rails)))))
        for rails, nodes in groups.items()
    ]
    return first_of([each or "the cluster" for each in texts], _PLACES)


def _identity(failure: Failure) -> tuple[str, ...]:
    return failure.node, failure.rail, failure.what


def _of_verdict(verdict: Judged, known: t.AbstractSet[tuple[str, ...]], leaves: _Leaves) -> list[Step]:
    rank = {name: at for at, name in enumerate(verdict.layers)}
    groups: dict[tuple[str, ...], list[Failure]] = {}
    for failure in verdict.failures:
        if _identity(failure) not in known:
            key = (failure.layer, failure.code, failure.remedy, "" if failure.code in CODES else failure.what)
            groups.setdefault(key, []).append(failure)
    ordered = sorted(
        groups.values(),
        key=lambda members: (rank.get(members[0].layer, len(rank)), -len(members), members[0].code, members[0].what),
    )
    return [_step(verdict.kind, members, leaves) for members in ordered]


def _step(origin: str, members: t.Sequence[Failure], leaves: _Leaves) -> Step:
    first = members[0]
    places = list(dict.fromkeys(place for each in members for place in each.places))
    peers = [(each.peer, rail) for each in members for rail in (each.rails or (each.rail,)) if each.peer]
    all_rails = [(each.node, rail) for each in members for rail in each.rails]
    title = CODES[first.code].title if first.code in CODES else first.what
    return Step(
        origin,
        first.code,
        title or first.layer or "failure",
        [text for text in _distinct(each.what for each in members) if text != title],
        _distinct(each.expected for each in members),
        _distinct(each.found for each in members),
        _distinct(each.cause for each in members),
        first.remedy,
        places,
        _shared(places, leaves),
        joined([each.playbook for each in members if each.playbook]),
        [*places, *all_rails, *peers],
        _cables(first.layer, places, leaves),
        CODES[first.code].name if first.code in CODES else "",
    )


def _cables(layer: str, places: t.Sequence[tuple[str, str]], leaves: _Leaves) -> dict[tuple[str, str], str]:
    """Return the remote ends of cables; none if all places share one leaf, which :func:`_shared` shows once for all."""
    if layer not in _CABLES or (len(places) > 1 and _shared(places, leaves).startswith("all behind leaf")):
        return {}
    return {place: leaves.ends[place] for place in places if place in leaves.ends}


def _distinct(texts: t.Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _shared(places: t.Sequence[tuple[str, str]], leaves: _Leaves) -> str:
    """Return what two or more places have in common, as text: leaf, node or rail; else an empty text."""
    if len(places) < 2:
        return ""
    leaf_names = {leaves.names.get(place, "") for place in places}
    rails = {rail for _node, rail in places}
    nodes = {node for node, _rail in places}
    if len(leaf_names) == 1 and "" not in leaf_names:
        leaf = leaf_names.pop()
        return "all behind leaf %s (%d of its %s)" % (leaf, len(places), count(leaves.ports[leaf], "port"))
    if len(nodes) == 1 and "" not in nodes:
        return "all on node %s" % nodes.pop()
    if len(rails) == 1 and "" not in rails:
        return "all on rail %s" % rails.pop()
    return ""


def joined(playbooks: t.Sequence[str]) -> list[str]:
    """Merge the limits of equal playbooks. A playbook without a limit applies to all nodes."""
    limits: dict[str, dict[str, None]] = {}
    for each in playbooks:
        play, limit, nodes = each.partition(_LIMIT)
        all_nodes = limits.setdefault(play, {})
        all_nodes.update(dict.fromkeys(nodes.split(",") if limit else [""]))
    return [play if "" in nodes else play + _LIMIT + ",".join(nodes) for play, nodes in limits.items()]


def anchors(ordered: t.Sequence[Step], origin: str) -> dict[tuple[str, str], str]:
    """Return (node, rail) -> id of the first step of this origin that concerns it."""
    ids: dict[tuple[str, str], str] = {}
    for number, step in enumerate(ordered, 1):
        for cell in step.cells if step.origin == origin else ():
            ids.setdefault(cell, "step-%d" % number)
    return ids
