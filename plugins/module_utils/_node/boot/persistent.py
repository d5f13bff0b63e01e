# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What subsystems have in common whose options are kept for boot, and can be taken back."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_state import BootState


class Kept(Subsystem):
    """A subsystem with a file of options for boot (``rank`` and ``module`` name it).

    :param absent: whether it is to be taken back.
    :param persist: whether what is kept for boot is touched at all.
    """

    at_boot = True

    def __init__(self, system: System, rank: int, module: str, absent: bool, persist: bool) -> None:
        super().__init__()
        self._system = system
        self._rank = rank
        self._module = module
        self._absent = absent
        self._persist = persist
        #: what stays live until the next boot, as the last look at the changes found it
        self._staying: list[Staying] = []

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        return {"reboot_required": bool(self._staying), "reboot_reasons": [each.text for each in self._staying]}

    def _boot(self) -> BootState:
        # not needed at boot, where a module is packed without it
        from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_state import BootState

        return BootState(self._system, self._rank, self._module)

    def _refuse_ports(self, options: t.Mapping[str, t.Any]) -> None:
        """For a module that keeps what it sets as one whole, and takes it back as one."""
        if self._absent and options.get("ports"):
            message = "%s takes back all that it keeps, and not that of some ports" % self._module
            raise RailyardError(message, "ports", "leave ports out, or give those that stay, with state: present")

    def _all_taken_back(self, staying: t.Sequence[Staying]) -> list[Change]:
        """Remove all persistent options. ``staying``: what they set and what stays until the next boot."""
        boot = self._boot()
        self._staying = boot.staying(staying if self._persist else [])
        return boot.changes(None, staying=self._staying) if self._persist else []
