# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the first result of each kind of module execution to RAILYARD_RECORDINGS; see `benchmarks/recordings.py`."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recorder
type: aggregate
short_description: Write results of modules as recordings
description:
  - Writes the first successful result of each module of the nodes, without its options, to the directory that
    RAILYARD_RECORDINGS names.
"""

import json
import os
import sys
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.connection.replay import recording_name
from benchmarks.recordings import template

_MODULES = ("rail_host", "rail_info")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "recorder"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self.known: set[str] = set()
        self.variables: t.Any = None

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self.variables = play.get_variable_manager()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        action = result.task.action.rpartition(".")[2]
        data = {key: value for key, value in result.result.items() if not key.startswith("_ansible_")}
        options = data.pop("invocation", {}).get("module_args") or {}
        data.pop("ansible_facts", None)  # the interpreter
        name = recording_name(action, options)
        if action not in _MODULES or name in self.known:
            return
        self.known.add(name)
        node = self.variables.get_vars(host=result.host)["railyard_node"]
        # templates of Ansible as plain text
        text = template(json.loads(json.dumps(data)), json.loads(json.dumps(node)))
        Path(os.environ["RAILYARD_RECORDINGS"], name + ".json").write_text(text)
