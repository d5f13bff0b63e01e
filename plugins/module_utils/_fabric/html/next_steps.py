# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps to fix a fabric: similar failures are one step, and a step that may fix later ones comes first."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, label
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    Failure,
    LintFinding,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import cables, leaf_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES

Document = t.Mapping[str, t.Any]

_LIMIT = " --limit "
# Layers whose failures may be caused by a cable or its remote end.
_CABLES = ("link", "cabling", "reach", "rdma")


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


class _Leaves:
    """Cabling of the plan. ``names``: (node, rail) -> leaf. ``ends``: (node, rail) -> leaf and leaf port as text.
    ``ports``: leaf -> number of rail ports connected to it.
    """

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
                    ends = [leaf_of(port, each) for each in cables(port)]
                    self.ends[place] = " and ".join(
                        "leaf %s" % end["name"] + (" port %s" % end["port"] if end.get("port") else "") for end in ends
                    )


def steps(plan: Document, findings: t.Sequence[LintFinding], verdicts: t.Sequence[Verdict]) -> list[Step]:
    """Return all steps in their order: errors of the fabric file, then each verdict's failures by layer."""
    found = [_of_finding(each) for each in findings if each.severity == ERROR]
    known: set[tuple[str, ...]] = set()
    leaves = _Leaves(plan)
    for verdict in verdicts:
        found += _of_verdict(verdict, known, leaves)
        # a failure that a later verdict repeats is not a new step
        known.update(_identity(failure) for failure in verdict.failures)
    return found


def _identity(failure: Failure) -> tuple[str, ...]:
    return failure.node, failure.rail, failure.what


def _of_finding(finding: LintFinding) -> Step:
    place = "%s:%s" % (finding.file, finding.line) if finding.line else finding.file
    title = "%s: %s" % (finding.place, finding.message) if finding.place else finding.message
    return Step("lint", finding.code, title, (), (), (), (), finding.remedy, [(place, "")], "", (), name=finding.name)


def _of_verdict(verdict: Verdict, known: t.AbstractSet[tuple[str, ...]], leaves: _Leaves) -> list[Step]:
    rank = {layer.name: at for at, layer in enumerate(verdict.layers)}
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
