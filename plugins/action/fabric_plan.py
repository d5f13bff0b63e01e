# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import lint
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report import diff, findings, guids, plan
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.topology import topology
from ansible_collections.railyard.fabric.plugins.plugin_utils import fabric_files, output
from ansible_collections.railyard.fabric.plugins.plugin_utils.door import Door

# Bytes of an earlier plan's file at the most: a plan of 8,192 nodes has a tenth of it.
_MAX_PLAN = 1 << 30


class ActionModule(Door):
    """Plans a fabric file; documented in ``plugins/modules/fabric_plan.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "file": {"type": "path"},
        "report_dir": {"type": "path"},
        "against": {"type": "path"},
        "fail_on": {"type": "list", "elements": "str", "choices": [*diff.KINDS, "any"], "default": []},
        "rows": {"type": "int", "default": 8},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        if options["fail_on"] and not options["against"]:
            said = "differences are to fail the run, and no earlier plan is named to differ from"
            raise RailyardError(said, "against", "name its plan.json, with -e plan_diff=OLD/plan.json")
        path = _one(fabric_files.named([options["file"]] if options["file"] else []))
        outcome = lint(fabric_files.read(path))
        if outcome.plan is None:
            said = "\n".join(finding.text(path) for finding in outcome.errors)
            output.show_error(said)
            return {"failed": True, "msg": said}
        document = outcome.plan.document()
        directory = fabric_files.shown_path(options["report_dir"]) if options["report_dir"] else ""
        result: dict[str, t.Any] = {
            "changed": False,
            "table": plan.as_table(document, options["rows"], directory),
            "leaf_table": plan.leaf_table(document, options["rows"], directory),
            "findings": findings.as_table([(path, outcome.findings)]),
            "counts": plan.counts(document),
            "diff_counts": None,
            "diff_table": None,
            "passed": True,
            "files": [],
        }
        files = {}
        if options["report_dir"]:
            files.update(plan.files(document))
            files["topology.svg"] = topology(document)
            files.update(guids.files(document))
        if options["against"]:
            files.update(self._compare(document, options, result))
        if options["report_dir"]:
            if not result["passed"]:
                _keep(options, files, result)
            result["files"] = fabric_files.write(options["report_dir"], files, check)
            result["changed"] = any(file["changed"] for file in result["files"])
        return result

    def _compare(
        self, document: dict[str, t.Any], options: t.Mapping[str, t.Any], result: dict[str, t.Any]
    ) -> dict[str, bytes]:
        against = fabric_files.shown_path(options["against"])
        old = diff.load(fabric_files.read(against, "name an earlier plan.json", _MAX_PLAN), against)
        # as it will be read back: what JSON makes of a value is no difference
        changes = diff.diff(old, json.loads(plan.as_json(document)))
        numbers = diff.counts(changes)
        unwanted = [kind for kind in diff.KINDS if numbers[kind] and {kind, "any"}.intersection(options["fail_on"])]
        result.update(
            diff_counts=numbers,
            diff_table=diff.as_table(changes, against),
            diff_summary=diff.summary(changes, against),
            passed=not unwanted,
        )
        if numbers[diff.RENUMBERED]:
            result["warnings"] = [diff.summary(changes, against)]
        return {"diff.json": diff.as_json(changes, against)}


def _keep(options: t.Mapping[str, t.Any], files: dict[str, bytes], result: dict[str, t.Any]) -> None:
    """Leave the earlier plan where an unwanted one would be written over it: the next run compares with it again."""
    held = os.path.realpath(options["against"])
    for name in [name for name in files if os.path.realpath(os.path.join(options["report_dir"], name)) == held]:
        del files[name]
        said = "%s is left as it was: what differs from it is not wanted, and the next run is to say so again"
        result.setdefault("warnings", []).append(said % fabric_files.shown_path(options["against"]))


def _one(paths: t.Sequence[str]) -> str:
    if len(paths) > 1:
        raise RailyardError(
            "there are %d fabric files: %s" % (len(paths), ", ".join(paths)),
            "inventory",
            "name one, with -e fabric_file=PATH",
        )
    return paths[0]
