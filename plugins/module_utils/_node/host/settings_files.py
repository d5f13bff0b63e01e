# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Blocks of settings in files that other programs and users also edit, such as those of NCCL and UCX."""

from __future__ import annotations

import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Without "=": releases of NCCL that do not support comments would parse a line with it as a setting.
BEGIN, END = "# BEGIN railyard.fabric\n", "# END railyard.fabric\n"
_BLOCK = re.compile("^# BEGIN railyard[.]fabric$\n(.*?)^# END railyard[.]fabric$\n?", re.MULTILINE | re.DOTALL)
_MODE = 0o644

FILE_SPEC: dict[str, t.Any] = {"path": {"type": "path", "required": True}, "settings": {"type": "dict"}}

SPEC: dict[str, t.Any] = {
    "files": {"type": "list", "elements": "dict", "required": True, "options": FILE_SPEC},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class SettingsFiles(Subsystem):
    """See the documentation of the module ``nccl_files`` for the options."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options["state"] == "absent"
        self._files: dict[str, dict[str, str]] = {
            each["path"]: {str(key): str(value) for key, value in (each["settings"] or {}).items()}
            for each in options["files"]
        }

    def observe(self) -> State:
        return {"files": [{"path": path, "settings": _settings(self._text(path))} for path in self._files]}

    def _text(self, path: str) -> str:
        return self._system.read_exact(path) or ""

    def changes(self, state: State) -> list[Change]:
        changes = []
        for row in state["files"]:
            path, before = row["path"], row["settings"]
            text, after = self._text(path), self._files[path]
            rest = _BLOCK.sub("", text, count=1)
            if self._absent:
                if before is not None:
                    act = partial(self._system.edit_file, path, rest)
                    if not rest.strip() and self._system.link_target(path) is None:
                        act = partial(self._system.remove_file, path)
                    changes.append(Change(path, "settings", before, None, act))
                continue
            block = BEGIN + "".join("%s=%s\n" % pair for pair in sorted(after.items())) + END
            # at the beginning, because NCCL uses the first of two values
            at = _BLOCK.search(text)
            wanted = block + text if at is None else text[: at.start()] + block + text[at.end() :]
            mode = self._system.mode(path)
            write = partial(self._system.edit_file, path, wanted, _MODE)
            if wanted != text:
                changes.append(Change(path, "settings", before, after, write))
            elif mode != _MODE:
                changes.append(Change(path, "mode", "%04o" % (mode or 0), "%04o" % _MODE, write))
        return changes


def _settings(text: str) -> dict[str, str] | None:
    """Return the settings in the block of a file; None if the file has no block."""
    found = _BLOCK.search(text)
    return None if found is None else dict(line.split("=", 1) for line in found.group(1).splitlines() if "=" in line)


LAYER = Layer(SPEC, SettingsFiles)
