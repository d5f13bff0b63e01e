# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import (
    finding_report,
    guid_files,
    plan_diff,
    plan_outlook,
    plan_tables,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output, _this_run
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Maximum bytes of the file of an earlier plan, ten times that of a plan of 8,192 nodes.
_MAX_PLAN = 1 << 30


class ActionModule(ControllerAction):
    """Plans a fabric file; documented in ``plugins/modules/fabric_plan.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "file": {"type": "path"},
        "report_dir": {"type": "path"},
        "against": {"type": "path"},
        "fail_on": {"type": "list", "elements": "str", "choices": [*plan_diff.KINDS, "any"], "default": []},
        "rows": {"type": "int", "default": 8},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        if options["fail_on"] and not options["against"]:
            message = "differences must fail the run, but the earlier plan is not set"
            raise RailyardError(message, "against", "name its plan.json, with -e plan_diff=OLD/plan.json")
        path = _one(_fabric_files.named([options["file"]] if options["file"] else []))
        outcome = lint(_fabric_files.read(path))
        if outcome.plan is None:
            message = "\n".join(finding.text(path) for finding in outcome.errors)
            _output.show_error(message)
            return {"failed": True, "msg": message}
        document = outcome.plan.document()
        directory = _fabric_files.shown_path(options["report_dir"]) if options["report_dir"] else ""
        result: dict[str, t.Any] = {
            "changed": False,
            "table": plan_tables.as_table(document, options["rows"], directory, _output.width()),
            "leaf_table": plan_tables.leaf_table(document, options["rows"], directory, _output.width()),
            "findings": finding_report.as_table([(path, outcome.findings)], _output.width()),
            "counts": plan_tables.counts(document),
            "outlook": plan_outlook.lines(document),
            "diff_counts": None,
            "diff_table": None,
            "passed": True,
            "files": [],
        }
        files = {}
        if options["report_dir"]:
            files.update(plan_tables.files(document))
            files["topology.svg"] = topology(document)
            files.update(guid_files.files(document))
        if options["against"]:
            files.update(self._compare(document, options, result))
        if options["report_dir"]:
            if not result["passed"]:
                _keep(options, files, result)
            result["files"] = _fabric_files.write(options["report_dir"], files, check)
            result["changed"] = any(file["changed"] for file in result["files"])
        if options["against"]:
            result["outlook"].append(result["diff_summary"])
        if result["passed"] and not _this_run.in_awx():
            inventory = _fabric_files.inventory(path)
            result["outlook"].append("next: %s --check" % command(playbook("hosts"), inventory))
        return result

    def _compare(
        self, document: dict[str, t.Any], options: t.Mapping[str, t.Any], result: dict[str, t.Any]
    ) -> dict[str, bytes]:
        against = _fabric_files.shown_path(options["against"])
        old = plan_diff.load(_fabric_files.read(against, "name an earlier plan.json", _MAX_PLAN), against)
        # Converted to JSON and back, so that types which JSON does not have are not differences.
        changes = plan_diff.diff(old, json.loads(plan_tables.as_json(document)))
        numbers = plan_diff.counts(changes)
        unwanted = [
            kind for kind in plan_diff.KINDS if numbers[kind] and {kind, "any"}.intersection(options["fail_on"])
        ]
        result.update(
            diff_counts=numbers,
            diff_table=plan_diff.as_table(changes, against, _output.width()),
            diff_summary=plan_diff.summary(changes, against),
            passed=not unwanted,
        )
        if numbers[plan_diff.RENUMBERED]:
            result["warnings"] = [plan_diff.summary(changes, against)]
        return {"diff.json": plan_diff.as_json(changes, against)}


def _keep(options: t.Mapping[str, t.Any], files: dict[str, bytes], result: dict[str, t.Any]) -> None:
    """Keep the earlier plan if the differences fail the run, so that the next run compares with it again."""
    earlier = os.path.realpath(options["against"])
    for name in [name for name in files if os.path.realpath(os.path.join(options["report_dir"], name)) == earlier]:
        del files[name]
        message = "%s is not overwritten: the plan differs from it, which the next run reports again"
        result.setdefault("warnings", []).append(message % _fabric_files.shown_path(options["against"]))


def _one(paths: t.Sequence[str]) -> str:
    if len(paths) > 1:
        raise RailyardError(
            "there are %d fabric files: %s" % (len(paths), ", ".join(paths)),
            "inventory",
            "name one, with -e fabric_file=PATH",
        )
    return paths[0]
