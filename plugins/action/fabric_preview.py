# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.host_preview import (
    SCREEN,
    NodePreview,
    Preview,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output, _planned, _this_run
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import PREVIEW, of_check_mode

_FILE = "preview.txt"


class ActionModule(ControllerAction):
    """Shows what a run would change; documented in ``plugins/modules/fabric_preview.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "nodes": {"type": "list", "elements": "str", "required": True},
        "report_dir": {"type": "path", "default": "reports"},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        spool = of_check_mode()
        nodes = []
        for name in options["nodes"]:
            planned = self._vars["hostvars"].raw_get(name).get("railyard_node") or {}
            rails = [port["rail"] for port in planned.get("ports") or ()]
            nodes.append(NodePreview(name, rails, spool.noted(name, PREVIEW)))
        preview = Preview(nodes)
        result: dict[str, t.Any] = {"changed": False, "counts": preview.counts, "refused": preview.refused}
        shows_diff = bool(self._task.diff)
        path = ""
        try:
            # the only file that check mode writes, on the control node
            content = "".join(line + "\n" for line in preview.everything(shows_diff)).encode()
            path = _fabric_files.write(options["report_dir"], {_FILE: content}, False, "verify_report_dir")[0]["path"]
        except RailyardError as error:
            result["warnings"] = [str(error)]
        allowed = boolean(_planned.variable("reboot_allowed", self._vars, self._templar) or False)
        # the command is one line, so that it can be copied
        after = [_this_run.next_command(preview.counts, allowed)]
        lines = preview.lines(_output.width(), path, SCREEN - len(after), allowed)
        if shows_diff and not Display().verbosity:
            diffs = list(preview.file_diffs())
            lines += diffs if len(lines) + len(diffs) + len(after) <= SCREEN else []
        lines += after
        _output.show(lines)
        return dict(result, lines=lines, file=path)
