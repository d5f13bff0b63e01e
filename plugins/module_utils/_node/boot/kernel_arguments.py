# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel arguments of the running kernel (live), and of the boot loader (next boot)."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot import boot_loader
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot

COMMAND_LINE = "/proc/cmdline"
ARGUMENT = re.compile(r"[^\s\"'`$\\]+\Z")
# Arguments that may occur several times with different values.
SEVERAL = frozenset(
    ("console", "earlycon", "earlyprintk", "hugepages", "hugepagesz", "initcall_blacklist", "module_blacklist", "pci")
)
PASSTHROUGH = "passthrough"

SPEC: dict[str, t.Any] = {
    "arguments": {"type": "list", "elements": "str", "default": []},
    "iommu": {"type": "str", "choices": ["leave", "passthrough"], "default": "leave"},
    "allow_change": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class KernelArguments(Subsystem):
    """The kernel arguments of a node. The options are those of module kernel_arguments.

    :param machine: the hardware name of uname(2), for tests. Default: this machine's.
    """

    def __init__(self, options: t.Mapping[str, t.Any], system: System, machine: str = "") -> None:
        super().__init__()
        self._system = system
        self._allowed = bool(options.get("allow_change"))
        self._errors: list[RailyardError] = []
        self._until_boot = UntilBoot(system, "kernel_arguments")
        self._absent = options.get("state") == "absent"
        if self._absent:
            options = {}
        self._desired = [self._checked(number, str(word)) for number, word in enumerate(options.get("arguments") or [])]
        if options.get("iommu") == PASSTHROUGH:
            self._desired += self._passthrough(machine or os.uname().machine)
        self._desired = list(dict.fromkeys(self._desired))

    def _checked(self, number: int, word: str) -> str:
        if not ARGUMENT.match(word):
            text = "%r is not one kernel argument" % word
            remedy = "write each argument as a separate item, without quotes and white space"
            self._errors.append(RailyardError(text, "arguments[%d]" % number, remedy))
        return word

    def _passthrough(self, machine: str) -> list[str]:
        """Return the arguments of IOMMU passthrough for the machine's architecture."""
        if machine in ("aarch64", "arm64"):
            return ["iommu.passthrough=1"]
        intel = "GenuineIntel" in (self._system.read("/proc/cpuinfo") or "")
        # AMD's IOMMU is on by default, and does not have an argument for it
        return ["intel_iommu=on", "iommu=pt"] if intel else ["iommu=pt"]

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(self) -> State:
        raise_all(self._errors)
        live = boot_loader.words((self._system.read(COMMAND_LINE) or "").partition(" -- ")[0])
        loader = boot_loader.find_loader(self._system)
        next_boot = loader.next_boot() if loader else None
        return {
            "arguments": live if next_boot is None else next_boot,
            "live": live,
            "next_boot": next_boot,
            "own": loader.own() if loader else [],
            "loader": loader.name if loader else None,
            "missing_live": [word for word in self._desired if word not in live],
            "missing_next_boot": [word for word in self._desired if word not in (next_boot or [])] if loader else None,
            "iommu": self._iommu(),
        }

    def _iommu(self) -> dict[str, t.Any]:
        """Return the number of IOMMU groups, and of groups whose DMA is translated."""
        groups = self._system.listdir("/sys/kernel/iommu_groups")
        kinds = [self._system.read("/sys/kernel/iommu_groups/%s/type" % group) or "" for group in groups]
        return {"groups": len(groups), "translated": len([kind for kind in kinds if kind.startswith("DMA")])}

    # -- comparing ----------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        changes = self._loader_changes(state)
        if self._absent:
            live = [word for word in state["own"] if word in state["live"]]
            return self._until_boot.around(changes, [Staying("kernel-argument", (word,)) for word in live])
        # without consent, this run does not set arguments, so earlier reports stay
        return changes + (self._until_boot.keep([]) if self._allowed else [])

    def _loader_changes(self, state: State) -> list[Change]:
        self.warnings = []
        loader = boot_loader.find_loader(self._system)
        if loader is None:
            if not state["missing_live"]:
                return []
            error = boot_loader.unknown_loader_error(self._system)
            if self._allowed:
                raise error
            self.warnings.append(
                "Kernel arguments that are not in force: %s. %s" % (" ".join(state["missing_live"]), error)
            )
            return []
        conflicts = self._conflicts(state, loader)
        changes = [] if conflicts else loader.changes(self._desired, state["next_boot"])
        if self._allowed:
            raise_all(conflicts)
            return changes
        self.warnings += [str(error) for error in conflicts]
        if changes:
            reasons = ["it does not have %s" % word for word in state["missing_next_boot"]]
            reasons += ["it still has %s" % word for word in state["own"] if word not in self._desired]
            self.warnings.append(
                "The boot loader (%s) is not as planned: %s. Remedy: set pci_boot_loader_allowed to true"
                " (option allow_change of the module), and reboot."
                % (loader.name, ", ".join(reasons) or "kernels installed later would not have all arguments")
            )
        return []

    def _conflicts(self, state: State, loader: boot_loader.Loader) -> list[RailyardError]:
        """Return an error per desired argument that another program set to a different value.

        Both values cannot stay: which of them the kernel uses depends on the argument.
        """
        errors: list[RailyardError] = []
        for word in self._desired:
            key, equals, _value = word.partition("=")
            if not equals or key in SEVERAL:
                continue
            for observed in state["next_boot"]:
                if observed.partition("=")[0] == key and observed != word and observed not in state["own"]:
                    text = "the kernel of the next boot gets %s, and %s is desired" % (observed, word)
                    errors.append(Refused(text, loader.place, "remove %s there, or add it to arguments" % observed))
        return errors

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        after_reboot = [word for word in self._desired if word in (state["next_boot"] or []) or pending]
        reasons = [
            "the kernel argument %s is not in force and will be after a reboot" % word
            for word in state["missing_live"]
            if word in after_reboot
        ]
        return self._until_boot.outcome(reasons)


LAYER = Layer(SPEC, KernelArguments)
