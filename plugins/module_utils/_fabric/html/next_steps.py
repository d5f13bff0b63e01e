# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What to do first: like failures together, in the order in which fixing one may fix those after it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, label
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    Failure,
    LintFinding,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES

Document = t.Mapping[str, t.Any]

_LIMIT = " --limit "
# Layers whose failures can be a cable or what is at its other end.
_CABLES = ("link", "cabling", "reach", "rdma")


class Step(t.NamedTuple):
    """One thing to do. ``origin``: lint, verify or drift; ``what``: what is wrong, of each failure; ``places``:
    node and rail of each; ``shared``: what they have in common; ``plays``: playbooks with their limits; ``cells``:
    nodes and rails that fail for it; ``cables``: place -> leaf and leaf port at the other end of its cable, where the
    step is about cables and the plan knows it."""

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
        """A place in words, with the other end of its cable."""
        words = " ".join(filter(None, place)) or "the cluster"
        return "%s (%s)" % (words, self.cables[place]) if place in self.cables else words


class _Leaves:
    """Where the plan's cables lead. ``names``: node and rail -> leaf; ``ends``: -> leaf and leaf port in words;
    ``ports``: leaf -> how many ports it has."""

    def __init__(self, plan: Document) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.ends: dict[tuple[str, str], str] = {}
        self.ports: dict[str, int] = {}
        for node in plan["nodes"]:
            for port in node["ports"]:
                leaf = port.get("leaf") or {}
                if leaf.get("name"):
                    place = (node["name"], port["rail"])
                    self.names[place] = leaf["name"]
                    self.ports[leaf["name"]] = self.ports.get(leaf["name"], 0) + 1
                    self.ends[place] = "leaf %s" % leaf["name"] + (
                        " port %s" % leaf["port"] if leaf.get("port") else ""
                    )


def steps(plan: Document, findings: t.Sequence[LintFinding], verdicts: t.Sequence[Verdict]) -> list[Step]:
    """All steps, the first first: what is wrong with the plan, then each verdict's failures down its layers."""
    found = [_of_finding(each) for each in findings if each.severity == ERROR]
    known: set[tuple[str, ...]] = set()
    known_of = _Leaves(plan)
    for verdict in verdicts:
        found += _of_verdict(verdict, known, known_of)
        # a cause that a later verdict has too is one step
        known.update(_same(failure) for failure in verdict.failures)
    return found


def _same(failure: Failure) -> tuple[str, ...]:
    return failure.node, failure.rail, failure.what


def _of_finding(finding: LintFinding) -> Step:
    place = "%s:%s" % (finding.file, finding.line) if finding.line else finding.file
    title = "%s: %s" % (finding.place, finding.message) if finding.place else finding.message
    return Step("lint", finding.code, title, (), (), (), (), finding.remedy, [(place, "")], "", (), name=finding.name)


def _of_verdict(verdict: Verdict, known: t.AbstractSet[tuple[str, ...]], leaves: _Leaves) -> list[Step]:
    down = {layer.name: at for at, layer in enumerate(verdict.layers)}
    groups: dict[tuple[str, ...], list[Failure]] = {}
    for failure in verdict.failures:
        if _same(failure) not in known:
            key = (failure.layer, failure.code, failure.remedy, "" if failure.code in CODES else failure.what)
            groups.setdefault(key, []).append(failure)
    ordered = sorted(
        groups.values(),
        key=lambda members: (down.get(members[0].layer, len(down)), -len(members), members[0].code, members[0].what),
    )
    return [_step(verdict.kind, members, leaves) for members in ordered]


def _step(origin: str, members: t.Sequence[Failure], leaves: _Leaves) -> Step:
    first = members[0]
    places = list(dict.fromkeys(place for each in members for place in each.places))
    peers = [(each.peer, rail) for each in members for rail in (each.rails or (each.rail,)) if each.peer]
    whole = [(each.node, rail) for each in members for rail in each.rails]
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
        [*places, *whole, *peers],
        _cables(first.layer, places, leaves),
        CODES[first.code].name if first.code in CODES else "",
    )


def _cables(layer: str, places: t.Sequence[tuple[str, str]], leaves: _Leaves) -> dict[tuple[str, str], str]:
    """The other ends of the cables; where all are on one leaf, that is named once, for all places together."""
    if layer not in _CABLES or (len(places) > 1 and _shared(places, leaves).startswith("all behind leaf")):
        return {}
    return {place: leaves.ends[place] for place in places if place in leaves.ends}


def _distinct(texts: t.Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _shared(places: t.Sequence[tuple[str, str]], leaves: _Leaves) -> str:
    """What two or more places have in common: their leaf, their rail, their node."""
    if len(places) < 2:
        return ""
    behind = {leaves.names.get(place, "") for place in places}
    rails = {rail for _node, rail in places}
    nodes = {node for node, _rail in places}
    if len(behind) == 1 and "" not in behind:
        leaf = behind.pop()
        return "all behind leaf %s (%d of its %s)" % (leaf, len(places), count(leaves.ports[leaf], "port"))
    if len(nodes) == 1 and "" not in nodes:
        return "all on node %s" % nodes.pop()
    if len(rails) == 1 and "" not in rails:
        return "all on rail %s" % rails.pop()
    return ""


def joined(playbooks: t.Sequence[str]) -> list[str]:
    """Playbooks with their limits, each playbook once with all of its nodes; without a limit it covers all."""
    limits: dict[str, dict[str, None]] = {}
    for each in playbooks:
        play, limit, nodes = each.partition(_LIMIT)
        known = limits.setdefault(play, {})
        known.update(dict.fromkeys(nodes.split(",") if limit else [""]))
    return [play if "" in nodes else play + _LIMIT + ",".join(nodes) for play, nodes in limits.items()]


def anchors(found: t.Sequence[Step], origin: str) -> dict[tuple[str, str], str]:
    """Node and rail -> the id of the first step of this origin that is about it."""
    named: dict[tuple[str, str], str] = {}
    for number, step in enumerate(found, 1):
        for cell in step.cells if step.origin == origin else ():
            named.setdefault(cell, "step-%d" % number)
    return named
