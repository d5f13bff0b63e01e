# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a module has taken back for boot and cannot undo live: told by each run until a boot has done it.

``/run/railyard/until_boot/MODULE`` holds the reasons as a JSON list of lines. ``/run`` is emptied by a boot, which is
just when they stop being true.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.node.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

DIRECTORY = "/run/railyard/until_boot"


class UntilBoot:
    """The reasons for a reboot of one module (``name``), which no other place tells any more."""

    def __init__(self, system: System, name: str) -> None:
        self._system = system
        self.file = "%s/%s" % (DIRECTORY, name)

    def read(self) -> list[str]:
        """The reasons kept, one line each; empty where there are none, or the file is not to be understood."""
        try:
            held = json.loads(self._system.read(self.file) or "[]")
        except ValueError:
            return []
        return [each for each in held if isinstance(each, str)] if isinstance(held, list) else []

    def keep(self, reasons: t.Sequence[str]) -> list[Change]:
        """What must be written to have these, and no others, told until the next boot; empty: to forget all.

        Put it before the change that takes away what the reasons are known from: then a run that is cut off in between
        loses none of them.
        """
        system = self._system
        wanted = list(reasons)
        held = self.read()
        if not wanted:
            if not system.exists(self.file):
                return []
            return [Change(self.file, "reboot_reasons", held, None, lambda: system.remove_file(self.file))]
        if held == wanted:
            return []
        text = json.dumps(wanted) + "\n"
        return [Change(self.file, "reboot_reasons", held or None, wanted, lambda: system.write_file(self.file, text))]
