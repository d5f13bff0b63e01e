# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report: one self-contained HTML file without scripts and external resources.

The same documents give the same bytes; all dates are from the documents.
"""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import rate_tables, report_sections
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.html_markup import (
    Child,
    code,
    document,
    h,
    region,
    rows,
    style,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.matrix_table import (
    Grid,
    grid,
    matrix,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.page_style import SHEET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.rate_tables import BANDWIDTH, short, spreads
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import Material, took
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    DRIFT,
    FAILED,
    PLAYS,
    VERIFY,
    LintFinding,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import when
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.plan_tables import head
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.next_steps import (
    Judged,
    Step,
    anchors,
    lines,
    steps,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.port_counts import counts, word

# Minimum width in pixels at which the texts of the topology picture are legible.
_LEGIBLE_WIDTH = 900
# The most tiles in a row.
_TILES = 4


class Section(t.NamedTuple):
    """A section of the page. ``name``: its id. A section without parts is omitted."""

    name: str
    title: str
    parts: t.Sequence[Child]


class Report:
    """The page and its summary."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.grid = grid(material.plan, material.judged)
        verdicts = [
            Judged(each.kind, [layer.name for layer in each.layers], each.failures)
            for each in material.verdicts.values()
        ]
        errors = [_of_finding(each) for each in material.findings or () if each.severity == ERROR]
        self.steps = errors + steps(material.plan["nodes"], verdicts)

    @property
    def state(self) -> str:
        """Return ``ok``, ``failed``, or ``open`` if nothing was verified."""
        verdicts = self.material.verdicts.values()
        if any(not each.ok for each in verdicts) or self.steps or self.grid.number(FAILED):
            return "failed"
        return "ok" if self.material.judged else "open"

    def summary(self) -> list[str]:
        """Return a few lines for a terminal."""
        state = "fabric %s: %s" % (self.material.plan["fabric"]["name"], _state_text(self, self.state))
        return [state, *lines(self.steps)]

    def html(self) -> bytes:
        """Return the page as UTF-8."""
        fabric = self.material.plan["fabric"]["name"]
        sections = [each for each in self._sections() if each.parts]
        links = [h("li", h("a", each.title, href="#" + each.name)) for each in sections]
        body = h(
            "body",
            h("a", "Skip to the report", class_="skip", href="#main"),
            h("header", *_header(self)),
            h("nav", h("ul", *links), aria_label="Sections"),
            h("main", *(_section(each) for each in sections), id="main", tabindex="-1"),
            h("footer", *_footer(self.material)),
        )
        return document("Rails of %s: %s" % (fabric, _state_text(self, self.state)), [style(SHEET)], body)

    def _sections(self) -> t.Iterator[Section]:
        material = self.material
        judged = material.judged
        kind = judged.kind if judged else VERIFY
        yield Section("first", "What to do first", _first(self))
        links = anchors(self.steps, kind)
        yield Section(
            "matrix", "Rails and nodes", [*_run_limits(material), *matrix(self.grid, links), *_not_in_plan(self.grid)]
        )
        yield Section("layers", "Layers", [report_sections.layers(judged.layers)] if judged and judged.layers else [])
        source, measures = material.measured
        yield Section("rates", "Bandwidth and latency", _rates(material, source, measures))
        if judged and (judged.failures or judged.warnings):
            parts: list[Child] = []
            if judged.failures:
                parts += report_sections.failures(judged.failures, kind, count(len(judged.failures), "failure"))
            if judged.warnings:
                parts += [
                    h("h3", "Warnings"),
                    *report_sections.failures(
                        judged.warnings, kind + "-warning", count(len(judged.warnings), "warning")
                    ),
                ]
            yield Section("failures", "Failures", parts)
        if judged and judged.unknown:
            yield Section("unknown", "Unknown", report_sections.unknown(judged.unknown, kind))
        yield Section("drift", "Drift", _drift(material))
        yield Section("findings", "Findings", _findings(material))
        yield Section(
            "counters", "Counters", report_sections.counters(judged.counters) if judged and judged.counters else []
        )
        yield Section("history", "Earlier runs", report_sections.history(material.runs) if material.runs else [])
        health = material.judged.matrix if material.judged else {}
        picture = _bare(xml.fromstring(topology(material.plan, "picture-of-rails", health).decode("utf-8")))
        # as wide as the screen, but at least legible: on a narrower screen, it scrolls
        picture.set("style", "min-width: %dpx" % min(float(picture.get("width", _LEGIBLE_WIDTH)), _LEGIBLE_WIDTH))
        yield Section(
            "topology",
            "Topology",
            [region("Picture of units, leaves, rails, nodes and GPUs", picture, class_="scroll picture")],
        )


def _of_finding(finding: LintFinding) -> Step:
    """Return the step of an error of the fabric file."""
    place = "%s:%s" % (finding.file, finding.line) if finding.line else finding.file
    title = "%s: %s" % (finding.place, finding.message) if finding.place else finding.message
    return Step("lint", finding.code, title, (), (), (), (), finding.remedy, [(place, "")], "", (), name=finding.name)


def _bare(root: xml.Element) -> xml.Element:
    """Remove namespaces, which HTML does not use."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _section(section: Section) -> xml.Element:
    title = h("h2", section.title, id=section.name + "-title")
    return h("section", title, *section.parts, id=section.name, aria_labelledby=section.name + "-title")


def _state_text(report: Report, state: str) -> str:
    if state == "open":
        return "not verified"
    if state == "ok":
        return "everything that was checked is as planned"
    return count(len(report.steps), "thing") + " to fix" if report.steps else "failed"


def _header(report: Report) -> list[Child]:
    material = report.material
    tiles = list(_tiles(report))
    # rows of equal length, so that no tile is alone in the last one
    lines = -(-len(tiles) // _TILES) or 1
    columns = -(-len(tiles) // lines) or 1
    state = report.state
    signs = {"ok": "✓ ", "failed": "✕ ", "open": "– "}
    plan_lines = head(material.plan)
    judged = material.judged
    checked = "Not verified yet: run %s." % PLAYS[VERIFY]
    if judged:
        lasted = took(judged.seconds)
        checked = "%s %s%s" % (judged.kind, when(judged.began), ", took %s" % lasted if lasted else "")
    return [
        h("h1", "Rails of fabric %s" % material.plan["fabric"]["name"]),
        h("p", h("span", signs[state] + _state_text(report, state), class_="badge %s" % state)),
        h("p", checked, h("br"), plan_lines[0].partition(": ")[2], "; ", plan_lines[1], class_="soft"),
        h("ul", *(h("li", note) for note in material.notes), class_="notes", aria_label="Notes")
        if material.notes
        else None,
        h("ul", *tiles, class_="tiles", style="--columns: %d" % columns, aria_label="In numbers"),
    ]


def _tiles(report: Report) -> t.Iterator[xml.Element]:
    material = report.material
    ports = report.grid
    judged, drift = material.judged, material.verdicts.get(DRIFT)
    if judged:
        found = counts(judged.matrix)
        kind = "failed" if found.failed else "ok" if found.good else ""
        good = word([layer.name for layer in judged.layers])
        yield _tile("ports %s" % good, "{:,} of {:,}".format(found.good, found.ports), kind)
        yield _tile("ports failed", "{:,}".format(found.failed), kind)
        yield _tile("ports unknown", "{:,}".format(found.unknown), "")
        yield _tile("nodes with failures", "{:,}".format(sum(row.failed for row in ports.rows)), kind)
    _source, measures = material.measured
    medians = [each.median for each in spreads(measures, (), BANDWIDTH)]
    if medians:
        yield _tile("slowest rail's median", "%s Gb/s" % short(min(medians)), "")
    if drift:
        yield _tile("drifted", "{:,}".format(len(drift.failures)), "failed" if drift.failures else "ok")
    if material.findings is not None:
        errors = sum(each.severity == ERROR for each in material.findings)
        yield _tile("findings", "{:,}".format(len(material.findings)), "failed" if errors else "")


def _tile(title: str, value: str, kind: str) -> xml.Element:
    return h("li", h("strong", value), title, class_=("tile %s" % kind).strip())


def _first(report: Report) -> list[Child]:
    if report.steps:
        text = "In this order: an earlier step may be the cause of a later one."
        return [h("p", text, class_="soft"), *report_sections.steps(report.steps, report.material.inventory)]
    if report.state == "ok":
        return [h("p", "Nothing to do: everything that was checked is as planned.")]
    if not report.material.judged:
        return [h("p", "Verify the rails: ", code(command(PLAYS[VERIFY], report.material.inventory)))]
    return [h("p", "The verdict is not ok, and names no failure: run it again.")]


def _run_limits(material: Material) -> list[Child]:
    """Return a text that names the run of the matrix and its limits."""
    judged = material.judged
    if not judged:
        return [h("p", "Nothing was verified yet.", class_="soft")]
    text = "From %s, %s." % (judged.kind, when(judged.began))
    limits = []
    for key, every in (("limit", material.plan["nodes"]), ("layers", LAYERS), ("rails", material.plan["rails"])):
        names = judged.asked.get(key)
        if isinstance(names, list) and names and len(names) < len(every):
            limits.append("%s %s" % ("nodes" if key == "limit" else key, _list(names)))
    if isinstance(judged.asked.get("budget_s"), (int, float)):
        limits.append("a budget of %s" % took(judged.asked["budget_s"]))
    for key, phrase in (("tags", "what has the tags %s"), ("skip_tags", "what has none of the tags %s")):
        if isinstance(judged.asked.get(key), list) and judged.asked[key]:
            limits.append(phrase % _list(judged.asked[key]))
    if limits:
        text += " It was limited to %s." % "; ".join(limits)
    # most rails have the same reason
    reasons: dict[str, list[str]] = {}
    for rail, why in (judged.unproven or {}).items():
        reasons.setdefault(why, []).append(rail)
    for why, rails in reasons.items():
        text += " Not proven by traffic: %s (%s)." % (_list(rails), why)
    return [h("p", text, class_="soft")]


def _list(value: t.Any) -> str:
    return first_of([str(each) for each in value], 12) if isinstance(value, list) else str(value)


def _not_in_plan(ports: Grid) -> list[Child]:
    if not ports.beyond:
        return []
    return [h("p", "In the verdict and not in the plan: %s." % _list(list(ports.beyond)))]


def _rates(material: Material, source: str, measures: t.Any) -> list[Child]:
    if not measures:
        return []
    return [h("p", "From %s." % source, class_="soft"), *rate_tables.rates(measures, material.plan)]


def _drift(material: Material) -> list[Child]:
    drift = material.verdicts.get(DRIFT)
    if not drift:
        return [h("p", "Drift was not checked: run %s." % PLAYS[DRIFT], class_="soft")]
    parts: list[Child] = [h("p", "From drift, %s." % when(drift.began), class_="soft")]
    if not drift.failures:
        word = "No drift" if drift.ok else "The verdict is not ok, and names no drift"
        parts.append(h("p", "%s: %s, %s." % (word, count(len(drift.nodes), "node"), count(len(drift.rails), "rail"))))
    else:
        before = [each for each in material.runs if each.kind == DRIFT and each.began < drift.began]
        parts.append(report_sections.drifted(drift, before, [rail["name"] for rail in material.plan["rails"]]))
        parts += report_sections.failures(
            drift.failures, DRIFT, "%s from the plan" % count(len(drift.failures), "difference")
        )
    if drift.layers:
        parts.append(report_sections.layers(drift.layers))
    if drift.warnings:
        parts += report_sections.failures(drift.warnings, "drift-warning", count(len(drift.warnings), "warning"))
    return parts


def _findings(material: Material) -> list[Child]:
    if material.findings is None:
        return [h("p", "The fabric file was not checked: run %s." % playbook("validate"), class_="soft")]
    if not material.findings:
        return [h("p", "None: the fabric file is clean.")]
    return report_sections.findings(material.findings)


def _footer(material: Material) -> list[Child]:
    lines: list[t.Sequence[Child]] = [("plan", "", "", material.digest[:12])]
    for kind, verdict in material.verdicts.items():
        lines.append((kind, when(verdict.began), verdict.railyard, verdict.plan[:12]))
    return [
        rows(("document", "began", "written by version", "plan"), lines, "What this report is made of", brief=True),
        h(
            "p",
            "Railyard %s. Plans are named by the first digits of the SHA-256 of plan.json." % material.version,
            class_="soft small",
        ),
    ]
