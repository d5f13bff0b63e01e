# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Blocks of settings in files that other programs and users also edit, such as those of NCCL and UCX."""

from __future__ import annotations

import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids

# Without "=": releases of NCCL that do not support comments would parse a line with it as a setting.
BEGIN, END = "# BEGIN railyard.fabric\n", "# END railyard.fabric\n"
_BLOCK = re.compile("^# BEGIN railyard[.]fabric$\n(.*?)^# END railyard[.]fabric$\n?", re.MULTILINE | re.DOTALL)
_MODE = 0o644

_ROCE = "RoCE v2"
# The option that older versions of NCCL need: a setting with the index of the GIDs of these addresses.
GID_INDEX_SPEC: dict[str, t.Any] = {
    "setting": {"type": "str", "required": True},
    "addresses": {"type": "list", "elements": "str", "required": True},
}
FILE_SPEC: dict[str, t.Any] = {
    "path": {"type": "path", "required": True},
    "settings": {"type": "dict"},
    "gid_index": {"type": "dict", "options": GID_INDEX_SPEC},
}

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
        self._indexes: dict[str, t.Mapping[str, t.Any]] = {
            each["path"]: each["gid_index"] for each in options["files"] if each.get("gid_index")
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
            if path in self._indexes:
                after = dict(after, **self._index(path, self._indexes[path]))
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

    def _index(self, path: str, option: t.Mapping[str, t.Any]) -> dict[str, str]:
        """Return the setting with the index of the addresses' GIDs; empty if no address has one yet.

        :raises RailyardError: if GIDs have different indexes: one setting applies to all devices.
        """
        name, missing = option["setting"], dict.fromkeys(option["addresses"])
        indexes: dict[int, str] = {}
        for device in self._system.listdir("/sys/class/infiniband"):
            for row in gids.from_sysfs(self._system, device) if missing else ():
                if row["type"] == _ROCE and row["address"] in missing:
                    indexes.setdefault(row["index"], row["address"])
                    del missing[row["address"]]
        if len(indexes) > 1:
            found = ", ".join("%s at %d" % (address, index) for index, address in sorted(indexes.items()))
            remedy = "use NCCL 2.21 or later, which finds the GIDs itself, and set nccl.version in the fabric file"
            message = "%s has one value, but GIDs of RoCE v2 have different indexes: %s" % (name, found)
            raise RailyardError(message, path, remedy)
        if missing:
            message = "no RDMA device has a GID of RoCE v2 for %s, which %s needs"
            remedy = "Remedy: run the playbook again after the ports have their addresses"
            self.warnings.append("%s. %s" % (message % (", ".join(missing), name), remedy))
        return {name: "%d" % next(iter(indexes))} if indexes else {}


def _settings(text: str) -> dict[str, str] | None:
    """Return the settings in the block of a file; None if the file has no block."""
    found = _BLOCK.search(text)
    return None if found is None else dict(line.split("=", 1) for line in found.group(1).splitlines() if "=" in line)


LAYER = Layer(SPEC, SettingsFiles)
