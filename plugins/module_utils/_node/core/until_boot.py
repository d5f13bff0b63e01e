# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that a module no longer applies at boot but cannot undo live. Each run reports them until the next boot.

``/run/railyard/until_boot/MODULE`` holds a JSON list of :class:`.Staying`.
A boot empties ``/run`` and undoes these settings.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, from_dict
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DIRECTORY = "/run/railyard/until_boot"


class UntilBoot:
    """The recorded settings of the module ``name`` that stay until the next boot."""

    def __init__(self, system: System, name: str) -> None:
        self._system = system
        self._name = name
        self.file = "%s/%s" % (DIRECTORY, name)
        #: the settings that stay, set by :meth:`around`
        self.staying: list[Staying] = []

    def read(self, more: t.Sequence[Staying] = ()) -> list[Staying]:
        """Return the recorded entries, and those of ``more`` that are not recorded. An unreadable record is empty."""
        try:
            recorded = json.loads(self._system.read(self.file) or "[]")
        except ValueError:
            recorded = []
        held = [from_dict(each) for each in recorded] if isinstance(recorded, list) else []
        known = [each for each in held if each is not None]
        return known + [each for each in more if each not in known]

    def keep(self, wanted: t.Sequence[Staying], before: t.Sequence[Staying] | None = None) -> list[Change]:
        """Return the changes after which exactly the ``wanted`` entries are recorded; none wanted removes the record.

        Do them before the change that removes the source of the entries, so that an interrupted run loses none.

        :param before: the entries recorded by then; None for the present record.
        """
        return self._record_changes(self.read() if before is None else before, wanted)

    def around(
        self, changes: t.Sequence[Change], more: t.Sequence[Staying] = (), ended: t.Container[Staying] = ()
    ) -> list[Change]:
        """Return ``changes``, preceded by recording what stays after them and followed by removing ended entries.

        :param more: the settings that stay after these changes.
        :param ended: entries that no longer apply.
        """
        held = self.read()
        known = self.read(more) if changes else held
        self.staying = [each for each in known if each not in ended]
        if not changes:
            return []
        last = self._record_changes(known, self.staying) if self.staying != known else []
        return self._record_changes(held, known) + list(changes) + last

    def outcome(self, more: t.Sequence[str] = ()) -> dict[str, t.Any]:
        """Return ``reboot_required`` and ``reboot_reasons``: the reasons in ``more``, and the settings that stay."""
        reasons = [*more, *(each.text for each in self.staying)]
        return {"reboot_required": bool(reasons), "reboot_reasons": reasons}

    def _record_changes(self, before: t.Sequence[Staying], after: t.Sequence[Staying]) -> list[Change]:
        system = self._system
        held, wanted = [each.text for each in before], [each.text for each in after]
        if not wanted:
            # an unreadable record is removed too
            if not held and not system.exists(self.file):
                return []
            return [Change(self.file, "reboot_reasons", held, None, lambda: system.remove_file(self.file))]
        if list(before) == list(after):
            return []
        text = json.dumps([each.as_dict() for each in after]) + "\n"
        return [Change(self.file, "reboot_reasons", held or None, wanted, lambda: system.write_file(self.file, text))]
