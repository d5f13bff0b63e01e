# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a module has taken back for boot and cannot undo live: told by each run until a boot has done it.

``/run/railyard/until_boot/MODULE`` holds it as a JSON list of texts: the reasons for a reboot as they are told, or what
the module makes such a reason of. ``/run`` is emptied by a boot, which is just when they stop being true.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.node.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

DIRECTORY = "/run/railyard/until_boot"


class UntilBoot:
    """What stays of one module (``name``), which no other place tells any more. ``what``: what its texts are."""

    def __init__(self, system: System, name: str, what: str = "reboot_reasons") -> None:
        self._system = system
        self._what = what
        self.file = "%s/%s" % (DIRECTORY, name)
        #: the reasons, as the last look at the changes found them
        self.staying: list[str] = []

    def read(self, more: t.Sequence[str] = ()) -> list[str]:
        """What is noted, none where that is not to be understood; and ``more``, where it is not noted yet."""
        try:
            noted = json.loads(self._system.read(self.file) or "[]")
        except ValueError:
            noted = []
        held = [each for each in noted if isinstance(each, str)] if isinstance(noted, list) else []
        return held + [each for each in more if each not in held]

    def keep(self, wanted: t.Sequence[str], before: t.Sequence[str] | None = None) -> list[Change]:
        """What must be written to have these, and no others, noted until the next boot; empty: to forget all.

        ``before``: what is noted by then; None: what is now.

        Put it before the change that takes away what they are known from: then a run that is cut off in between loses
        none of them.
        """
        return self._from(self.read() if before is None else before, wanted)

    def around(
        self, changes: t.Sequence[Change], more: t.Sequence[str] = (), ended: t.Container[str] = ()
    ) -> list[Change]:
        """The changes that take something back: what stays of it is noted first, what has ended is forgotten last.

        :param more: the reasons that these changes leave.
        :param ended: reasons that are none any more, whoever noted them.
        """
        held = self.read()
        known = self.read(more) if changes else held
        self.staying = [each for each in known if each not in ended]
        if not changes:
            return []
        last = self._from(known, self.staying) if self.staying != known else []
        return self._from(held, known) + list(changes) + last

    def outcome(self, more: t.Sequence[str] = ()) -> dict[str, t.Any]:
        """A module's results: ``more`` reasons, and what stays."""
        reasons = [*more, *self.staying]
        return {"reboot_required": bool(reasons), "reboot_reasons": reasons}

    def _from(self, before: t.Sequence[str], after: t.Sequence[str]) -> list[Change]:
        system = self._system
        held, wanted = list(before), list(after)
        if not wanted:
            # one that is not to be understood goes too
            if not held and not system.exists(self.file):
                return []
            return [Change(self.file, self._what, held, None, lambda: system.remove_file(self.file))]
        if held == wanted:
            return []
        text = json.dumps(wanted) + "\n"
        return [Change(self.file, self._what, held or None, wanted, lambda: system.write_file(self.file, text))]
