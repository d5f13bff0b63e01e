# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the result that the task gives, after ``seconds``: a module's result without a module."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        time.sleep(float(self._task.args.get("seconds") or 0))
        return {**super().run(tmp, task_vars), **self._task.args["result"]}
