# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sections of the report as lists and tables: steps, layers, failures, drift, findings, counters, runs."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import Child, code, h, more, rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.rate_tables import short
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import took
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    Counter,
    Failure,
    Layer,
    LintFinding,
    UnknownCheck,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import (
    Run,
    between,
    clean_since,
    comparable,
    when,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.finding_report import SEVERITIES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import label
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.next_steps import Step

# Maximum number of rows of a table. The number of omitted rows is shown; the document contains them.
MOST = 300
# Maximum failures of a table that is shown at once; steps shown at once; places and values shown per step.
_OPEN = 2
_STEPS = 8
_PLACES = 12
_VALUES = 3
# Maximum number of names that a step shows on demand; characters of a command that is shown at once.
_NAMES = 2000
_MAX_COMMAND = 400
_COUNTERS = 50
# Number of runs that are shown at once.
_NEWEST = 4


def steps(found: t.Sequence[Step], inventory: str = "") -> list[xml.Element]:
    """Return the steps as lists; those after the first ones are shown on demand."""
    items = [_step(each, "step-%d" % number, inventory) for number, each in enumerate(found, 1)]
    shown = h("ol", *items[:_STEPS], class_="steps")
    if len(found) <= _STEPS:
        return [shown]
    rest = h("ol", *items[_STEPS:], class_="steps", style="counter-reset: step %d" % _STEPS)
    return [shown, more(count(len(found) - _STEPS, "more step"), rest)]


def _step(step: Step, name: str, inventory: str) -> xml.Element:
    """Return an item: what is wrong and where, what was found, what to do."""
    head = h("h3", step.heading, " ", h("span", "(%s)" % step.origin, class_="soft small"))
    comparison = [
        "%s %s" % (word, _joined_values(values))
        for word, values in (("expected", step.expected), ("found", step.found))
        if values
    ]
    single = len(step.places) == 1
    subject = step.place(step.places[0]) if single else step.shared[:1].upper() + step.shared[1:]
    observed = ": ".join(filter(None, [subject, _joined_values(step.what), ", ".join(comparison)]))
    fix: list[Child] = []
    if step.remedy:
        fix = [h("span", "Fix: ", class_="soft"), step.remedy[0].upper() + step.remedy[1:], "."]
    if step.causes:
        fix.append(h("span", " Likely cause: %s." % _joined_values(step.causes), class_="soft"))
    return h(
        "li",
        head,
        h("p", observed, ".") if observed else None,
        None if single else h("p", _places(step)),
        h("p", *fix) if fix else None,
        *(_command(play, inventory) for play in step.plays),
        id=name,
    )


def _command(play: str, inventory: str) -> xml.Element:
    """Return a command to copy; a long command is shown on demand."""
    line = command(play, inventory)
    if len(line) <= _MAX_COMMAND:
        return h("div", code(line))
    return more("%s with all of their names" % line.partition(" --limit")[0], code(line))


def _places(step: Step) -> list[Child]:
    """Return the places of a step: the nodes if all are on one rail, else node and rail of each."""
    places = step.places
    rails = {rail for _node, rail in places}
    if not any(node for node, _rail in places):
        # whole rails, independent of nodes
        names = [rail for _node, rail in places]
        summary = count(len(places), "rail")
    elif len(rails) == 1:
        rail = rails.pop()
        names = [
            step.place((node, rail)).replace(" %s (" % rail, " (", 1) if step.cables else node for node, _rail in places
        ]
        summary = "%s%s" % (rail + " of " if rail else "", count(len(places), "node"))
    else:
        names = [step.place(place) for place in places]
        summary = "%s of %s" % (count(len(places), "port"), count(len({node for node, _rail in places}), "node"))
    text = "%s: %s" % (summary, ", ".join(names[:_PLACES]))
    if len(names) <= _PLACES:
        return [text]
    rest = ", and {:,} more".format(len(names) - _NAMES) if len(names) > _NAMES else ""
    return [text, ", ...", more("all of them", h("p", ", ".join(names[:_NAMES]), rest))]


def _joined_values(texts: t.Sequence[str]) -> str:
    text = "; ".join(texts[:_VALUES])
    return text if len(texts) <= _VALUES else "%s; and %d more" % (text, len(texts) - _VALUES)


def layers(found: t.Sequence[Layer]) -> xml.Element:
    """Return a table with one row per failed layer, and one row for all other layers of equal result and reason."""
    groups: dict[tuple[t.Any, ...], list[Layer]] = {}
    for each in found:
        text, kind = ("ok", "ok") if each.checked and not each.failed else ("not checked", "open")
        if each.failed:
            text, kind = "failed", "failed"
        own_row = each.name if each.failed else ""
        groups.setdefault((text, kind, each.not_checked, each.why_not, own_row), []).append(each)
    lines = []
    for (text, kind, not_checked, why_not, _own_row), members in groups.items():
        checked = sorted({each.checked for each in members})
        lines.append(
            (
                ", ".join(each.title for each in members),
                h("span", text, class_="word %s" % kind),
                " to ".join("{:,}".format(number) for number in (checked[:1] + checked[1:][-1:])),
                "{:,}".format(members[0].failed) if members[0].failed else "",
                "{:,}".format(not_checked) if not_checked else "",
                why_not,
            )
        )
    head = ("layer", "result", "checked", "failed", "not checked", "why not")
    return rows(head, lines, "From the bottom up: where a layer fails, those above it are not checked.", brief=True)


def failures(found: t.Sequence[Failure], kind: str, caption: str) -> list[Child]:
    """Return a table with one row per failure. Many failures are shown on demand: the steps show them already."""
    head = ("where", "code", "what", "expected", "found", "likely cause", "fix", "fixed by")
    lines: list[t.Sequence[Child]] = []
    for each in found[:MOST]:
        place = " ".join(filter(None, (each.node, each.rail))) or "the cluster"
        if each.peer:
            place += " to %s" % each.peer
        playbook: Child = code(each.playbook) if each.playbook else ""
        details = (each.expected, each.found, each.cause, each.remedy)
        lines.append((place, label(each.code), each.what, *details, playbook))
    parts: list[Child] = [rows(head, lines, caption), _omitted(len(found), "%s.json" % kind)]
    return parts if len(lines) <= _OPEN else [more(caption, *parts)]


def unknown(found: t.Sequence[UnknownCheck], kind: str) -> list[Child]:
    """Return a table with one row per reason and node of checks that could not run."""
    head = ("where", "layer", "what", "why", "fix")
    lines = [
        (" ".join((each.node or "the cluster", *each.rails)), each.layer, each.what, each.why, each.remedy)
        for each in found[:MOST]
    ]
    caption = "A check that could not run is neither a pass nor a failure."
    return [rows(head, lines, caption), _omitted(len(found), "%s.json" % kind)]


def _omitted(number: int, file: str) -> xml.Element | None:
    if number <= MOST:
        return None
    return h("p", "And {:,} more: see ".format(number - MOST), code(file), ".")


def drifted(drift: Verdict, runs: t.Sequence[Run], rails: t.Sequence[str]) -> xml.Element | None:
    """Return a table that shows when each drifted node was last seen without drift.

    :param runs: earlier runs, the oldest first.
    :param rails: all rails of the plan.
    """
    cluster = bool(drift.cluster.get("reachable"))
    numbers: dict[str, int] = {}
    for each in drift.failures:
        if each.node:
            numbers[each.node] = numbers.get(each.node, 0) + 1
    lines = []
    for node, number in list(numbers.items())[:MOST]:
        boot = drift.boots.get(node, "")
        lines.append((node, "{:,}".format(number), clean_since(runs, node, boot, rails, cluster)))
    if not lines:
        return None
    return rows(("node", "drifted", "since"), lines, "Nodes that drifted", brief=True)


def findings(reported: t.Sequence[LintFinding]) -> list[Child]:
    """Return a table of findings of lint, ordered by severity."""
    rank = {severity: index for index, severity in enumerate(SEVERITIES)}
    found = sorted(reported, key=lambda each: rank[each.severity])
    lines: list[t.Sequence[Child]] = []
    for each in found[:MOST]:
        kind = {"error": "failed", "note": "open"}.get(each.severity, "")
        fix = "Suppressed: %s." % each.reason if each.reason else each.remedy
        place = "%s:%s" % (each.file, each.line) if each.line else each.file
        word = h("span", each.severity, class_="word %s" % kind)
        lines.append((each.label, word, place, each.place, each.message, fix))
    head = ("rule", "severity", "line", "place", "what is wrong", "remedy")
    return [rows(head, lines, "Findings in the fabric file"), _omitted(len(found), "findings.json")]


def counters(found: t.Sequence[Counter]) -> list[Child]:
    """Return the counters that grew while traffic ran, one row per node and counter, nodes with the greatest growth
    first.
    """
    groups: dict[tuple[str, str], list[Counter]] = {}
    greatest: dict[str, int] = {}
    for each in found:
        if each.grown > 0:
            groups.setdefault((each.node, each.name), []).append(each)
            greatest[each.node] = max(greatest.get(each.node, 0), each.grown)
    number = sum(map(len, groups.values()))
    if not number:
        return [h("p", "None of %s grew while traffic ran." % count(len(found), "counter"))]
    lines = []
    for (node, name), members in sorted(groups.items(), key=lambda item: (-greatest[item[0][0]], *item[0])):
        grown = sorted({each.grown for each in members})
        suffix = " on each rail" if len(members) > 1 else ""
        text = "{:,}".format(grown[0]) if len(grown) == 1 else "{:,} to {:,}".format(grown[0], grown[-1])
        lines.append((node, name, ", ".join(each.rail for each in members), text + suffix))
    head = ("node", "counter", "rails", "grown by")
    rest = lines[_COUNTERS:MOST]
    return [
        h("p", "%s of %s grew while traffic ran." % ("{:,}".format(number), count(len(found), "counter"))),
        rows(head, lines[:_COUNTERS], "Counters that grew", brief=True),
        more(count(len(rest), "more row"), rows(head, rest, "Further counters", brief=True)) if rest else None,
        _omitted(len(lines), "verify.json"),
    ]


def history(runs: t.Sequence[Run]) -> list[Child]:
    """Return a table of the runs, and the differences between the last two runs that can be compared.

    :param runs: the oldest first.
    """
    parts: list[Child] = []
    checking = [each for each in runs if each.checked]
    of_same_scope = [each for each in checking if comparable(each, checking[-1])]
    if len(of_same_scope) > 1:
        text = "Since the previous run of %s" % when(of_same_scope[-2].began)
        new, fixed = between(of_same_scope[-2], of_same_scope[-1])
        changes = "; ".join(
            "%s: %s" % (title, first_of([" ".join(place) for place in places], _PLACES))
            for title, places in (("newly failed", new), ("fixed", fixed))
            if places
        )
        text += ": %s." % changes if changes else ", no port newly failed and none was fixed."
        parts.append(h("p", text))
    lines: list[t.Sequence[Child]] = []
    for each in reversed(runs):
        word = "ok" if each.ok else "failed"
        lines.append(
            (
                when(each.began),
                each.kind,
                h("span", word, class_="word %s" % word),
                "{:,}".format(each.failures) if each.failures else "",
                "{:,} of {:,}".format(len(each.failed), len(each.checked)) if each.checked else "",
                "" if each.slowest is None else "%s Gb/s" % short(each.slowest),
                took(each.seconds),
                each.plan[:12],
            )
        )
    head = ("began", "what", "result", "failures", "ports failed", "slowest rail's median", "took", "plan")
    parts.append(rows(head, lines[:_NEWEST], "Runs, the newest first", brief=True))
    older = lines[_NEWEST:]
    if older:
        parts.append(more(count(len(older), "more run"), rows(head, older, "Older runs", brief=True)))
    return parts
