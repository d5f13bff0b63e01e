# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the results per node and the time per task, for `benchmarks/replay.py`."""

from __future__ import annotations

DOCUMENTATION = r"""
name: replayed
type: aggregate
short_description: Count results per task
description:
  - Writes to the file that RAILYARD_REPLAYED names a JSON list with C(task), C(action), C(results), C(seconds),
    C(processor), C(main) and C(grown) of each task. Seconds last to the start of the next task. Processor seconds are
    those of Ansible and its workers, C(main) those without the workers. C(grown) is by how many MB the main process has
    grown.
"""

import json
import os
import time
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase

_USED = ("seconds", "processor", "main", "grown")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "replayed"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self.tasks: list[dict[str, t.Any]] = []

    def _begin(self, name: str, action: str) -> None:
        used = os.times()
        self.tasks.append({"task": name, "action": action, "results": 0})
        self.tasks[-1].update(seconds=time.monotonic(), processor=sum(used[:4]), main=sum(used[:2]))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.tasks[-1].update(grown=pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        self._begin("start", "start")

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self._begin(task.get_name(), task.action)

    def _count(self, result: t.Any, ignore_errors: bool = False) -> None:
        self.tasks[-1]["results"] += 1

    v2_runner_on_ok = v2_runner_on_skipped = v2_runner_on_failed = v2_runner_on_unreachable = _count

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._begin("end", "end")
        for one, other in zip(self.tasks, self.tasks[1:]):
            one.update({key: round(other[key] - one[key], 2) for key in _USED})
        Path(os.environ["RAILYARD_REPLAYED"]).write_text(json.dumps(self.tasks[:-1]))
