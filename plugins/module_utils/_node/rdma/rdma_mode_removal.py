# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Removal of the RDMA mode: Railyard's files are removed, and other files or the kernel's default take effect.

The live mode is switched before the files are removed, and images are rebuilt after. An interrupted run is detected
by the files, by the mark of the images, or by the record of the mode that stays until the next boot.
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
    """Removes the settings of :class:`.RdmaMode`. ``switch``: as there."""

    def __init__(self, system: System, switch: str, connect: Connect = rdma_netlink.connect) -> None:
        super().__init__(system, None, True, switch, connect)
        self._live = ""

    def changes(self, state: State) -> list[Change]:
        del self.warnings[:]
        system = self._system
        files = self._our_files()
        unfinished = system.exists(UNFINISHED)
        recorded = bool(self._until_boot.read())
        # without settings of an earlier run, the live mode was set by another program
        self._mode = self._next_boot(files)[0] if files or unfinished or recorded else None
        self._live = state["live"] or ""
        switched: list[Change] = []
        if self._mode and self._live:
            switched = self._live_changes(state)
        stays = bool(self._mode and self._live and self._live != self._mode)
        # _switch_mode records its result
        record = [] if switched else self._until_boot.keep([self._reason()] if stays else [])
        rebuilt = self._initramfs.stale((), rewritten=True) if files or unfinished else []
        self._warn_of_unknown()
        changes = record + switched
        if rebuilt and not unfinished:
            images = [image for _release, image in rebuilt]
            changes.append(Change(UNFINISHED, "images", None, images, lambda: system.write_file(UNFINISHED, "")))
        changes += [self._removal(path) for path in files]
        changes += [self._initramfs.rebuild(*each) for each in rebuilt]
        if rebuilt or unfinished:
            changes.append(self._finished())
        if system.exists(KNOWN):
            changes.append(Change(KNOWN, PARAMETER.module, "as known", None, lambda: system.forget_file(KNOWN)))
        return changes

    def _our_files(self) -> list[str]:
        """Return Railyard's files: first those that hide a packaged file by a copy without the mode."""
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

    def _switch_mode(self) -> None:
        try:
            super()._switch_mode()
        except NotTaken:
            self._record([self._reason()])
            raise
        self._record([])

    def _record(self, reasons: t.Sequence[Staying]) -> None:
        for change in self._until_boot.keep(reasons):
            change.act()
