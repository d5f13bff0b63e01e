# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what a run changed, or predicted, as one JSON line a host and change in the file that RAILYARD_RECORD names.

Only a run that changes something is kept, and only the first: later runs of the scenario must not hide it. What two
modules both need (the boot program) is predicted by both and done by the first of them: it is one change.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: recorded_changes
type: aggregate
short_description: Keep the changes of every module
description:
  - Writes every host's changes to the file that the environment variable RAILYARD_RECORD names.
"""

import json
import os
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "recorded_changes"

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        name = os.environ.get("RAILYARD_RECORD")
        self.path = Path(name) if name else None
        self.lines: set[str] = set()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        data = getattr(result, "result", None) or result._result
        host = getattr(result, "host", None) or result._host
        for change in data.get("changes") or ():
            self.lines.add(json.dumps(dict(change, host=host.get_name()), sort_keys=True))

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        if self.path and self.lines and not self.path.exists():
            self.path.write_text("\n".join(sorted(self.lines)) + "\n")
