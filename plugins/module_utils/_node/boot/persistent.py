# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base class of subsystems whose options are persistent and can be reverted."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_state import BootState


class PersistentSubsystem(Subsystem):
    """A subsystem with a file of options for boot, which ``rank`` and ``module`` name.

    :param absent: revert the settings.
    :param persist: write or remove the file. If not, it is not changed.
    """

    def __init__(self, system: System, rank: int, module: str, absent: bool, persist: bool) -> None:
        super().__init__()
        self._system = system
        self._rank = rank
        self._module = module
        self._absent = absent
        self._persist = persist
        #: reverted settings that stay live until the next boot, from the last call of changes()
        self._staying: list[Staying] = []

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        return {"reboot_required": bool(self._staying), "reboot_reasons": [setting.text for setting in self._staying]}

    def _boot(self) -> BootState:
        # imported here because the boot program does not contain it
        from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_state import BootState

        return BootState(self._system, self._rank, self._module)

    def _refuse_ports(self, options: t.Mapping[str, t.Any]) -> None:
        """Refuse option ``ports`` with ``state: absent``, for a module that reverts all its settings."""
        if self._absent and options.get("ports"):
            message = "%s reverts the settings of all ports, not of some" % self._module
            raise RailyardError(message, "ports", "omit ports, or list the ports that stay with state: present")

    def _revert_all(self, staying: t.Sequence[Staying]) -> list[Change]:
        """Return the changes that remove the persistent options. ``staying``: settings that stay until a reboot."""
        boot = self._boot()
        self._staying = boot.staying(staying if self._persist else [])
        return boot.changes(None, staying=self._staying) if self._persist else []
