# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write every module execution with its seconds to the file that RAILYARD_TIMELINE names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: timeline
type: aggregate
short_description: Write every module execution with its seconds
description:
  - Writes a JSON list of C(host), C(action), C(seconds) and C(changed) to the file that RAILYARD_TIMELINE names.
  - Seconds are the controller's, from the start of the task on the host to its result.
"""

import json
import os
import time
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase

# These run only on the control node.
LOCAL = {
    "add_host",
    "assert",
    "debug",
    "fail",
    "group_by",
    "include_role",
    "include_tasks",
    "meta",
    "set_fact",
    "set_stats",
    "show",
    "validate_argument_spec",
}


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "timeline"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self.started: dict[tuple[str, str], float] = {}
        self.records: list[dict[str, t.Any]] = []

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        self.started[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        task = getattr(result, "task", None) or result._task
        host = (getattr(result, "host", None) or result._host).get_name()
        data = getattr(result, "result", None) or result._result
        action = task.action.rpartition(".")[2]
        if action in LOCAL or host == "localhost":
            return
        # each item of a loop is a separate execution
        executions = len(data["results"]) if task.loop and "results" in data else 1
        self.records.append(
            {
                "host": host,
                "action": action,
                "executions": executions,
                "seconds": time.monotonic() - self.started[host, task._uuid],
                "changed": bool(data.get("changed")),
            }
        )

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        Path(os.environ["RAILYARD_TIMELINE"]).write_text(json.dumps(self.records))
