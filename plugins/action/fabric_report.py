# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import report_documents, run_history
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_context import Material
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import LintFinding, Verdict
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_page import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Maximum bytes of a document, ten times that of the verdict of 8,192 nodes.
_MOST = 1 << 30
_KINDS = (report_documents.VERIFY, report_documents.DRIFT)
_EARLIER = re.compile(r"(verify|drift)-\d{8}T\d{6}Z\.json\Z")


class ActionModule(ControllerAction):
    """Writes the report page; documented in ``plugins/modules/fabric_report.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "report_dir": {"type": "path", "default": "reports"},
        "file": {"type": "path"},
        "history": {"type": "int", "default": 30},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        directory = options["report_dir"]
        document, findings, loaded = _plan(options["file"], directory)
        verdicts = _verdicts(directory)
        runs, warnings = _history(directory, options["history"], verdicts)
        digest = plan_tables.digest(document)
        notes = [*_stale(document["fabric"]["name"], digest, verdicts), *warnings]
        material = Material(
            *(document, digest, findings, verdicts, runs, VERSION, notes),
            _fabric_files.inventory(options["file"] or ""),
        )
        report, html = _made(material, loaded)
        files = _fabric_files.write(directory, {"report.html": html}, check)
        result = {
            "changed": any(file["changed"] for file in files),
            "files": files,
            "state": {"open": "not verified"}.get(report.state, report.state),
            "summary": "\n".join(report.summary()),
            "steps": [
                {
                    "origin": step.origin,
                    "code": step.code,
                    "name": step.name,
                    "what": step.title,
                    "places": [" ".join(filter(None, place)) for place in step.places],
                    "cause": "; ".join(step.causes),
                    "remedy": step.remedy,
                    "playbooks": list(step.plays),
                }
                for step in report.steps
            ],
        }
        return dict(result, warnings=warnings) if warnings else result


def _made(material: Material, loaded: str) -> tuple[Report, bytes]:
    """Return the report and its page. ``loaded``: the file from which the plan was read, if any."""
    try:
        report = Report(material)
        return report, report.html()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if not loaded:
            raise
        # A required part of the plan is missing. The verdicts have been checked.
        message = "the plan is incomplete (%s: %s)" % (type(error).__name__, error)
        raise RailyardError(message, loaded, "run %s again, with -e report_dir=DIR" % playbook("plan")) from error


def _plan(file: str | None, directory: str) -> tuple[dict[str, t.Any], list[LintFinding] | None, str]:
    """Return the plan, the findings of lint, and the file of the plan, if it was read from one.

    The plan is that of ``file``, else of the inventory, else of ``plan.json``."""
    named = os.path.join(directory, "plan.json")
    try:
        paths = _fabric_files.named([file] if file else [])
    except RailyardError:
        if file or not os.path.exists(named):
            raise
        shown = _fabric_files.shown_path(named)
        known = os.path.join(directory, "findings.json")
        findings = (
            report_documents.findings(_read(known), _fabric_files.shown_path(known)) if os.path.exists(known) else None
        )
        return report_documents.plan(_read(named), shown), findings, shown
    if len(paths) > 1:
        _planned.document(None)  # its error lists them
    outcome = lint(_fabric_files.read(paths[0]))
    if outcome.plan is None:
        raise _planned.Wrong("\n".join(finding.text(paths[0]) for finding in outcome.errors), paths[0])
    findings = [
        LintFinding(
            paths[0], each.code, each.severity, each.place, each.line, each.message, each.remedy, each.reason, each.name
        )
        for each in outcome.findings
    ]
    made: dict[str, t.Any] = outcome.plan.document()
    return made, findings, ""


def _read(path: str) -> bytes:
    return _fabric_files.read(path, "name a file that you may read", _MOST)


def _verdicts(directory: str) -> dict[str, Verdict]:
    """Return the newest verdicts. All invalid ones are reported at once."""
    found: dict[str, Verdict] = {}
    errors = []
    for kind in _KINDS:
        path = os.path.join(directory, kind + ".json")
        if os.path.exists(path):
            try:
                found[kind] = report_documents.verdict(_read(path), _fabric_files.shown_path(path), kind)
            except RailyardError as error:
                errors.append(error)
    raise_all(errors)
    return found


def _history(directory: str, most: int, verdicts: t.Mapping[str, Verdict]) -> tuple[list[run_history.Run], list[str]]:
    """Return the newest ``most`` runs of each kind, including the last ones. Unreadable files are warnings."""
    folder = os.path.join(directory, "history")
    names = [name for name in sorted(os.listdir(folder)) if _EARLIER.match(name)] if os.path.isdir(folder) else []
    runs, warnings = [], []
    for kind in _KINDS:
        of_kind = [name for name in names if name.startswith(kind + "-")]
        for name in of_kind[max(len(of_kind) - most, 0) :]:
            path = os.path.join(folder, name)
            try:
                # Only the part that the history shows is kept, because documents of large fabrics are large.
                runs.append(
                    run_history.run(report_documents.verdict(_read(path), _fabric_files.shown_path(path), kind))
                )
            except RailyardError as error:
                warnings.append("An earlier run is left out: %s" % error)
    return run_history.ordered([*runs, *map(run_history.run, verdicts.values())]), warnings


def _stale(fabric: str, digest: str, verdicts: t.Mapping[str, Verdict]) -> list[str]:
    """Return a warning for each verdict of another fabric or plan."""
    notes = []
    for kind, verdict in verdicts.items():
        if verdict.fabric and verdict.fabric != fabric:
            notes.append("%s.json is of fabric %s, and the plan of %s." % (kind, verdict.fabric, fabric))
        elif verdict.plan and verdict.plan != digest:
            notes.append(
                "The plan has changed since %s.json was written: run %s again." % (kind, report_documents.PLAYS[kind])
            )
    return notes
