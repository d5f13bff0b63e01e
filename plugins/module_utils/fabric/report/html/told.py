# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the documents say, as lists and tables: steps, layers, failures, drift, findings, counters."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.findings import SEVERITIES
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.html.documents import (
    Counter,
    Failure,
    Layer,
    Said,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.html.first import Step
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.html.history import Run, clean_since
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.html.markup import (
    Child,
    code,
    h,
    more,
    rows,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.text import count

# Rows of a table at the most; what is left out is counted, and is in the document itself.
MOST = 300
# Failures of a table that is shown without being asked for; steps that are shown at once; places or values of a step.
_OPEN = 20
_STEPS = 8
_PLACES = 12
_VALUES = 3
# Names of a step on demand, and characters of a command that is shown at once.
_NAMES = 2000
_LONG = 400
_COUNTERS = 100


def steps(found: t.Sequence[Step]) -> list[xml.Element]:
    items = [_step(each, "step-%d" % number) for number, each in enumerate(found, 1)]
    shown = h("ol", *items[:_STEPS], class_="steps")
    if len(found) <= _STEPS:
        return [shown]
    rest = h("ol", *items[_STEPS:], class_="steps", style="counter-reset: step %d" % _STEPS)
    return [shown, more("%s more" % count(len(found) - _STEPS, "step"), rest)]


def _step(step: Step, name: str) -> xml.Element:
    facts: list[tuple[str, Child]] = [
        ("where", _places(step.places)),
        ("together", step.shared),
        ("what", _few(step.what)),
        ("expected", _few(step.expected)),
        ("found", _few(step.found)),
        ("likeliest cause", _few(step.causes)),
        ("remedy", step.remedy),
        ("run", [_command(play) for play in step.plays]),
    ]
    said = [part for name, value in facts if value for part in (h("dt", name), h("dd", value))]
    title = "%s %s" % (step.code, step.title) if step.code else step.title
    head = h("h3", title, " ", h("span", "(%s)" % step.origin, class_="soft small"))
    return h("li", head, h("dl", *said, class_="facts"), id=name)


def _command(play: str) -> xml.Element:
    """One line to copy; of many nodes on demand."""
    said = "ansible-playbook -i INVENTORY %s" % play
    if len(said) <= _LONG:
        return h("div", code(said))
    return more("%s with all of their names" % said.partition(" --limit")[0], code(said))


def _places(places: t.Sequence[tuple[str, str]]) -> list[Child]:
    """A rail's nodes together where several have it, else node and rail of each."""
    rails = {rail for _node, rail in places}
    if len(places) == 1:
        return [" ".join(filter(None, places[0])) or "the cluster"]
    if not any(node for node, _rail in places):
        # of rails as a whole, whoever has them
        named = [rail for _node, rail in places]
        summary = count(len(places), "rail")
    elif len(rails) == 1:
        rail = rails.pop()
        named = [node or "the cluster" for node, _rail in places]
        summary = "%s%s" % (rail + " of " if rail else "", count(len(places), "node"))
    else:
        named = [" ".join(filter(None, place)) or "the cluster" for place in places]
        summary = "%s of %s" % (count(len(places), "port"), count(len({node for node, _rail in places}), "node"))
    said = "%s: %s" % (summary, ", ".join(named[:_PLACES]))
    if len(named) <= _PLACES:
        return [said]
    rest = ", and {:,} more".format(len(named) - _NAMES) if len(named) > _NAMES else ""
    return [said, ", ...", more("all of them", h("p", ", ".join(named[:_NAMES]), rest))]


def _few(texts: t.Sequence[str]) -> str:
    said = "; ".join(texts[:_VALUES])
    return said if len(texts) <= _VALUES else "%s; and %d more" % (said, len(texts) - _VALUES)


def layers(found: t.Sequence[Layer]) -> xml.Element:
    lines = []
    for each in found:
        word, kind = ("ok", "ok") if each.checked and not each.failed else ("not checked", "open")
        if each.failed:
            word, kind = "failed", "failed"
        lines.append(
            (
                each.title,
                h("span", word, class_="word %s" % kind),
                "{:,}".format(each.checked),
                "{:,}".format(each.failed) if each.failed else "",
                "{:,}".format(each.not_checked) if each.not_checked else "",
                each.why_not,
            )
        )
    head = ("layer", "result", "checked", "failed", "not checked", "why not")
    return rows(head, lines, "On the way down: what fails in a layer is not asked again in those below it.", brief=True)


def failures(found: t.Sequence[Failure], kind: str, caption: str) -> list[Child]:
    """A row a failure; many are shown on demand, for the steps tell of them."""
    head = ("where", "code", "what", "expected", "found", "likeliest cause", "remedy", "mended by")
    lines: list[t.Sequence[Child]] = []
    for each in found[:MOST]:
        where = " ".join(filter(None, (each.node, each.rail))) or "the cluster"
        if each.peer:
            where += " to %s" % each.peer
        mends: Child = code(each.mends) if each.mends else ""
        lines.append((where, each.code, each.what, each.expected, each.found, each.cause, each.remedy, mends))
    parts: list[Child] = [rows(head, lines, caption), _left(len(found), "%s.json" % kind)]
    return parts if len(lines) <= _OPEN else [more(caption, *parts)]


def _left(number: int, file: str) -> xml.Element | None:
    if number <= MOST:
        return None
    return h("p", "And {:,} more: see ".format(number - MOST), code(file), ".")


def drifted(drift: Verdict, runs: t.Sequence[Run], rails: t.Sequence[str]) -> xml.Element | None:
    """When each node that drifted was last seen clean. ``runs``: those before; ``rails``: the plan's."""
    cluster = bool(drift.cluster.get("reachable"))
    numbers: dict[str, int] = {}
    for each in drift.failures:
        if each.node:
            numbers[each.node] = numbers.get(each.node, 0) + 1
    lines = []
    for node, number in list(numbers.items())[:MOST]:
        boot = drift.boots.get(node, "")
        lines.append((node, "{:,}".format(number), clean_since(runs, node, boot, rails, cluster), boot))
    if not lines:
        return None
    return rows(("node", "drifted", "since", "boot"), lines, "Nodes that drifted", brief=True)


def findings(said: t.Sequence[Said]) -> list[Child]:
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    found = sorted(said, key=lambda each: order[each.severity])
    lines: list[t.Sequence[Child]] = []
    for each in found[:MOST]:
        kind = {"error": "failed", "note": "open"}.get(each.severity, "")
        then = "It stands because: %s." % each.reason if each.reason else each.remedy
        place = "%s:%s" % (each.file, each.line) if each.line else each.file
        word = h("span", each.severity, class_="word %s" % kind)
        lines.append((each.code, word, place, each.place, each.message, then))
    head = ("code", "severity", "line", "place", "what is wrong", "remedy")
    return [rows(head, lines, "What lint says of the fabric file"), _left(len(found), "findings.json")]


def counters(found: t.Sequence[Counter]) -> list[Child]:
    """Those that grew while the rails were proven, the most first."""
    grown = sorted(
        (each for each in found if each.grown > 0), key=lambda each: (-each.grown, each.node, each.rail, each.name)
    )
    still = "%s of %s grew while the rails were tried." % ("{:,}".format(len(grown)), count(len(found), "counter"))
    if not grown:
        return [h("p", "None of %s grew while the rails were tried." % count(len(found), "counter"))]
    numbers = [(each.before or 0, each.after or 0, each.grown) for each in grown]
    lines = [
        ("%s %s" % (each.node, each.rail), each.name, *("{:,}".format(number) for number in three))
        for each, three in zip(grown, numbers)
    ]
    head = ("port", "counter", "before", "after", "grown by")
    table = rows(head, lines[:_COUNTERS], "Counters that grew", brief=True)
    rest = lines[_COUNTERS:MOST]
    return [
        h("p", still),
        table,
        more("%s more" % count(len(rest), "counter"), rows(head, rest, "Further counters", brief=True))
        if rest
        else None,
        _left(len(lines), "verify.json"),
    ]
