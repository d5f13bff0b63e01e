# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a module has taken back for boot and cannot undo live: each run reports it until a boot has done it.

``/run/railyard/until_boot/MODULE`` holds it as a JSON list of :class:`.Staying`; versions before 0.2 stored sentences.
``/run`` is emptied by a boot, which is just when they stop being true.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, from_dict, from_text
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DIRECTORY = "/run/railyard/until_boot"


class UntilBoot:
    """What stays of one module (``name``), which no other place holds any more."""

    def __init__(self, system: System, name: str) -> None:
        self._system = system
        self._name = name
        self.file = "%s/%s" % (DIRECTORY, name)
        #: what stays, as the last look at the changes found it
        self.staying: list[Staying] = []

    def read(self, more: t.Sequence[Staying] = ()) -> list[Staying]:
        """What is noted, none where that is not to be understood; and ``more``, where it is not noted yet."""
        try:
            noted = json.loads(self._system.read(self.file) or "[]")
        except ValueError:
            noted = []
        held = [self._entry(each) for each in noted] if isinstance(noted, list) else []
        known = [each for each in held if each is not None]
        return known + [each for each in more if each not in known]

    def _entry(self, value: t.Any) -> Staying | None:
        return from_text(self._name, value) if isinstance(value, str) else from_dict(value)

    def keep(self, wanted: t.Sequence[Staying], before: t.Sequence[Staying] | None = None) -> list[Change]:
        """What must be written to have these, and no others, noted until the next boot; empty: to forget all.

        ``before``: what is noted by then; None: what is now.

        Put it before the change that takes away what they are known from: then a run that is cut off in between loses
        none of them.
        """
        return self._from(self.read() if before is None else before, wanted)

    def around(
        self, changes: t.Sequence[Change], more: t.Sequence[Staying] = (), ended: t.Container[Staying] = ()
    ) -> list[Change]:
        """The changes that take something back: what stays of it is noted first, what has ended is forgotten last.

        :param more: the reasons that these changes leave.
        :param ended: reasons that no longer apply, noted by any module.
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
        reasons = [*more, *(each.text for each in self.staying)]
        return {"reboot_required": bool(reasons), "reboot_reasons": reasons}

    def _from(self, before: t.Sequence[Staying], after: t.Sequence[Staying]) -> list[Change]:
        system = self._system
        held, wanted = [each.text for each in before], [each.text for each in after]
        if not wanted:
            # one that is not to be understood goes too
            if not held and not system.exists(self.file):
                return []
            return [Change(self.file, "reboot_reasons", held, None, lambda: system.remove_file(self.file))]
        if list(before) == list(after):
            return []
        text = json.dumps([each.as_dict() for each in after]) + "\n"
        return [Change(self.file, "reboot_reasons", held or None, wanted, lambda: system.write_file(self.file, text))]
