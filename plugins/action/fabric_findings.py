# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import finding_report, preset_tables
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# A worker uses a processor for 0.06 s to 0.08 s per node (docs/benchmarks.md), and waits for the node for the rest of a
# module execution. If that takes 2 s, this many workers keep a processor busy.
PER_PROCESSOR = 32
# Values of show_presets other than names: all presets, or none.
_ALL, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "fabric.schema.json")


class ActionModule(ControllerAction):
    """Lints fabric files; documented in ``plugins/modules/fabric_findings.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "files": {"type": "list", "elements": "path", "default": []},
        "report_dir": {"type": "path"},
        "strict": {"type": "bool", "default": False},
        "schema_file": {"type": "path"},
        "show_presets": {"type": "str"},
    }

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        self._forks = int((task_vars or {})["ansible_forks"])
        return super().run(tmp, task_vars)

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        shown = options["show_presets"]
        if shown and shown.lower() not in _NO:
            return {"changed": False, "presets": preset_tables.text("" if shown.lower() in _ALL else shown)}
        outcomes = [(path, lint(_fabric_files.read(path))) for path in _fabric_files.named(options["files"])]
        checked = [(path, outcome.findings) for path, outcome in outcomes]
        nodes = max([len(outcome.plan.nodes) for _path, outcome in outcomes if outcome.plan], default=0)
        processors = len(os.sched_getaffinity(0))
        written = []
        if options["report_dir"]:
            report = finding_report.files(checked, VERSION, options["strict"])
            written = _fabric_files.write(options["report_dir"], report, check)
        if options["schema_file"]:
            directory, name = os.path.split(os.path.abspath(options["schema_file"]))
            schema = _fabric_files.read(_SCHEMA, "install the collection with its documentation")
            written += _fabric_files.write(directory, {name: schema}, check, "schema_file", "schema")
        numbers = finding_report.counts(checked)
        return {
            "changed": any(file["changed"] for file in written),
            "findings": finding_report.as_data(checked)["files"],
            "counts": numbers,
            "worst": finding_report.worst(checked),
            "passed": not numbers["error"] and not (options["strict"] and numbers["warning"]),
            "table": finding_report.as_table(checked, _output.width()),
            "summary": finding_report.summary(checked),
            "forks": recommended_forks(nodes, processors),
            "forks_advice": forks_advice(self._forks, nodes, processors),
            "files": written,
        }


def recommended_forks(nodes: int, processors: int) -> int:
    """Return the recommended forks for a number of nodes, and of processors of the control node."""
    return max(1, min(nodes, PER_PROCESSOR * processors))


def forks_advice(forks: int, nodes: int, processors: int) -> str:
    """Return a message if forks are fewer than recommended; else an empty text."""
    most = recommended_forks(nodes, processors)
    if forks >= most:
        return ""
    return (
        "Ansible works on %d nodes at a time (forks). Recommended for %d nodes and %d processor%s: %d.\nRemedy: %s."
        % (
            forks,
            nodes,
            processors,
            "" if processors == 1 else "s",
            most,
            "set forks = %d in the section [defaults] of ansible.cfg, or add -f %d" % (most, most),
        )
    )
