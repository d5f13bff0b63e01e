# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rdma mode as it would be without us: our files go, and what others or the kernel say counts again.

The live mode is switched before the files go, and images are built after: what is left of a run that was cut off is
known by the files, by the mark of the images, or by the note of the mode that stays until the next boot.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, NotTaken
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import (
    FILE,
    PARAMETER,
    UNFINISHED,
    Connect,
    RdmaMode,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import modprobe
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.initramfs import KNOWN


class RdmaModeBack(RdmaMode):
    """Takes back what :class:`.RdmaMode` has set. ``switch`` as there."""

    def __init__(self, system: System, switch: str, connect: Connect = rdma_netlink.connect) -> None:
        super().__init__(system, None, True, switch, connect)
        self._live = ""

    def changes(self, state: State) -> list[Change]:
        del self.warnings[:]
        system = self._system
        files = self._ours()
        unfinished = system.exists(UNFINISHED)
        noted = bool(self._until_boot.read())
        # without state of an earlier run, another program set the live mode
        self._mode = self._next_boot(files)[0] if files or unfinished or noted else None
        self._live = state["live"] or ""
        switched: list[Change] = []
        if self._mode and self._live:
            switched = self._live_changes(state)
        stays = bool(self._mode and self._live and self._live != self._mode)
        # a switch that is made now reports its own result, see _set
        note = [] if switched else self._until_boot.keep([self._reason()] if stays else [])
        built = self._initramfs.stale((), rewritten=True) if files or unfinished else []
        self._warn_of_unknown()
        changes = note + switched
        if built and not unfinished:
            images = [image for _release, image in built]
            changes.append(Change(UNFINISHED, "images", None, images, lambda: system.write_file(UNFINISHED, "")))
        changes += [self._removal(path) for path in files]
        changes += [self._initramfs.rebuild(*each) for each in built]
        if built or unfinished:
            changes.append(self._finished())
        if system.exists(KNOWN):
            changes.append(Change(KNOWN, PARAMETER.module, "as known", None, lambda: system.forget_file(KNOWN)))
        return changes

    def _ours(self) -> list[str]:
        """Our files, those before that hide a vendor's file of their name by a copy without the mode."""
        system = self._system
        if not system.exists(FILE):
            return []
        found = []
        hidden = {}
        for directory in modprobe.DIRECTORIES[:0:-1]:
            hidden.update({name: "%s/%s" % (directory, name) for name in system.listdir(directory)})
        for name in system.listdir(modprobe.ETC):
            text = (system.read_file(hidden[name]) or "") if name in hidden else ""
            path = "%s/%s" % (modprobe.ETC, name)
            if PARAMETER.settings(path, text) and system.read_file(path) == PARAMETER.removed(text):
                found.append(path)
        return [*found, FILE]

    def _removal(self, path: str) -> Change:
        held = self._settings_text(path, self._system.read_file(path))
        attribute = PARAMETER.name if path == FILE else "hides %s" % os.path.basename(path)
        return Change(path, attribute, held, None, lambda: self._system.remove_file(path))

    def _reason(self) -> Staying:
        return Staying("rdma-mode", (self._live, str(self._mode)))

    def _set(self) -> None:
        try:
            super()._set()
        except NotTaken:
            self._note([self._reason()])
            raise
        self._note([])

    def _note(self, reasons: t.Sequence[Staying]) -> None:
        for change in self._until_boot.keep(reasons):
            change.act()
