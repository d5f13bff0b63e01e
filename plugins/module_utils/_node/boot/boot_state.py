# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Persistent state that no file of the distribution can describe: options that the module's code applies at boot.

``/etc/railyard/boot.d/NN-MODULE.json`` has the options of a module. ``railyard-boot.service`` runs ``boot.pyz``, which
is the collection's code for nodes, packed from its sources (entry point: :mod:`boot_program`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t
from functools import lru_cache, partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_paths, packed_program, root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import TEMPORARY, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot

BOOT_DIR = boot_paths.BOOT_DIR
PROGRAM = "/usr/local/lib/railyard/boot.pyz"
UNIT = "/etc/systemd/system/railyard-boot.service"
UNIT_WANTED = "/etc/systemd/system/multi-user.target.wants/railyard-boot.service"
# When a device returns, udev starts an instance of this unit, which applies the options of one module again.
AGAIN = "/etc/systemd/system/railyard-again@.service"
RULES = "/etc/udev/rules.d/90-railyard-%s.rules"
SYSTEMCTL = "/usr/bin/systemctl"
PACKAGE = packed_program.PACKAGE
UNIT_TEXT = """\
# Written by railyard.fabric. Applies settings that the kernel loses at a reboot: {0}
[Unit]
Description=Railyard: VFs, RDMA links and PCI settings of the rail ports, as planned
After=systemd-udev-trigger.service systemd-modules-load.service local-fs.target
Before=containerd.service crio.service docker.service kubelet.service
Before=k3s.service k3s-agent.service rke2-server.service rke2-agent.service
ConditionDirectoryNotEmpty={0}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={1} -I {2}
TimeoutStartSec=600

[Install]
WantedBy=multi-user.target
"""

# It runs after the boot's run if both are due. It waits until udev has settled, so that it runs once for all devices
# that returned together. The options that it applies do not cause events. If a driver causes one nevertheless, the
# start limit ends the loop.
AGAIN_TEXT = """\
# Written by railyard.fabric. Applies the settings of a device again after it disappeared and returned.
[Unit]
Description=Railyard: %i, as planned, after a device returned
After=railyard-boot.service
ConditionPathExists={0}/%i.json
StartLimitIntervalSec=300
StartLimitBurst=100

[Service]
Type=oneshot
ExecStartPre=-/usr/bin/udevadm settle --timeout=30
ExecStart={1} -I {2} --only %i
TimeoutStartSec=600
"""
RULES_HEAD = (
    "# Written by railyard.fabric. Apply the settings of these devices again after they disappeared and returned.\n"
)


class BootState:
    """The options that are applied at boot for one module.

    :param rank: number of two digits; modules are applied in the order of their ranks.
    :param name: the module.
    """

    def __init__(self, system: System, rank: int, name: str) -> None:
        self._system = system
        self._name = name
        self._part = "%02d-%s" % (rank, name)
        self.file = "%s/%s.json" % (BOOT_DIR, self._part)
        self.rules = RULES % name
        self._until_boot = UntilBoot(system, name)

    def read(self) -> dict[str, t.Any] | None:
        """Return the options for the next boot; None without the file, or if it is damaged."""
        try:
            options = json.loads(self._system.read(self.file) or "null")["options"]
        except (ValueError, KeyError, TypeError):
            return None
        return options if isinstance(options, dict) else None

    def ports(self) -> list[dict[str, t.Any]]:
        rows = (self.read() or {}).get("ports")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def staying(self, more: t.Sequence[Staying]) -> list[Staying]:
        """Return the reverted settings that stay live until the next boot: those of earlier runs, and ``more``."""
        if self._system.exists(self.file) and self.read() is None:
            more = [Staying("options", (self.file,)), *more]
        return self._until_boot.read(more)

    def changes(
        self,
        options: t.Mapping[str, t.Any] | None,
        again: t.Sequence[str] = (),
        staying: t.Sequence[Staying] | None = None,
        left: t.Sequence[Staying] = (),
        new: t.Sequence[Staying] = (),
    ) -> list[Change]:
        """Return the changes of files so that the next boot applies ``options``.

        Files that all modules share are removed with the options of the last module.

        :param options: None removes the module's options.
        :param again: udev(7) matches of devices at whose return the options are applied again, such as
            ``ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="0000:0b:00.0"``.
        :param staying: reverted settings to report until the next boot (:meth:`staying`). None: nothing is reverted,
            and of the settings that earlier runs reported, only ``left`` is reported from now on.
        :param new: the settings in ``left`` that no earlier run reported.
        """
        # stored first, because the options are removed later
        if staying is None:
            reported = self._until_boot.read(new)
            changes, last = self._until_boot.keep(reported) if new else [], self._until_boot.keep(left, reported)
        else:
            changes, last = self._until_boot.keep(staying), []
        if options is None:
            return changes + self._rules_changes(()) + self._removal()
        return changes + self._written(options, again) + last

    def _written(self, options: t.Mapping[str, t.Any], again: t.Sequence[str]) -> list[Change]:
        system = self._system
        before = self.read()
        changes = []
        packed = pack()
        root_owned.check_place(system, PROGRAM)
        if system.read_bytes(PROGRAM) != packed:
            changes.append(_file_change(system, PROGRAM, "program", packed, 0o755))
        unit = UNIT_TEXT.format(BOOT_DIR, _interpreter(system), PROGRAM)
        if system.read_file(UNIT) != unit:
            changes.append(_file_change(system, UNIT, "unit", unit, 0o644))
        if not system.exists(UNIT_WANTED):
            changes.append(Change(UNIT_WANTED, "enabled", False, True, lambda: system.symlink(UNIT, UNIT_WANTED)))
        document = json.dumps({"module": self._name, "options": options}, indent=2, sort_keys=True) + "\n"
        if system.read_file(self.file) != document:
            write = partial(system.write_file, self.file, document, 0o644)
            changes.append(Change(self.file, "options", before, dict(options), write))
        if again:
            text = AGAIN_TEXT.format(BOOT_DIR, _interpreter(system), PROGRAM)
            if system.read_file(AGAIN) != text:
                changes.append(_file_change(system, AGAIN, "unit", text, 0o644))
        return changes + self._rules_changes(again)

    def _removal(self) -> list[Change]:
        """Remove the module's options, and with the last module's all shared files.

        The order is safe to interrupt: remaining files do not run at boot, and the next run removes them.
        """
        system = self._system
        changes = []
        if system.exists(self.file):
            changes.append(Change(self.file, "options", self.read(), None, lambda: system.remove_file(self.file)))
        removed = {self.file, UNIT_WANTED, UNIT, AGAIN, PROGRAM}
        if any(name.endswith(".json") and path not in removed for name, path in _entries(system, BOOT_DIR)):
            return changes
        if system.exists(UNIT_WANTED):
            changes.append(Change(UNIT_WANTED, "enabled", True, False, lambda: system.remove_file(UNIT_WANTED)))
        for path, attribute in ((UNIT, "unit"), (AGAIN, "unit"), (PROGRAM, "program")):
            if system.exists(path):
                changes.append(Change(path, attribute, "there", None, partial(system.remove_file, path)))
        for directory in (BOOT_DIR, os.path.dirname(BOOT_DIR), os.path.dirname(PROGRAM)):
            # a directory with files of other programs stays; temporary files are of interrupted runs
            if system.exists(directory) and all(
                path in removed or name.startswith(TEMPORARY) for name, path in _entries(system, directory)
            ):
                removed.add(directory)
                changes.append(Change(directory, "directory", "there", None, partial(_clear, system, directory)))
        return changes

    def _rules_changes(self, again: t.Sequence[str]) -> list[Change]:
        """Return the change of the udev rules. udev reads changed rules at the next event, so it is not reloaded."""
        system = self._system
        if not again:
            if not system.exists(self.rules):
                return []
            return [Change(self.rules, "rules", "as kept", None, lambda: system.remove_file(self.rules))]
        start = ', RUN+="%s --no-block start railyard-again@%s.service"' % (SYSTEMCTL, self._part)
        text = RULES_HEAD + "".join(match + start + "\n" for match in again)
        if system.read_file(self.rules) == text:
            return []
        return [_file_change(system, self.rules, "rules", text, 0o644)]


def _entries(system: System, directory: str) -> list[tuple[str, str]]:
    return [(name, "%s/%s" % (directory, name)) for name in system.listdir(directory)]


def _clear(system: System, directory: str) -> None:
    system.remove_incomplete_files(directory)
    with contextlib.suppress(OSError):
        os.rmdir(system.path(directory))


def _interpreter(system: System) -> str:
    """Return the Python that runs the program at boot: the installed unit's interpreter, while it exists."""
    installed = re.search(r"^ExecStart=(/\S+) ", system.read_file(UNIT) or "", re.MULTILINE)
    return packed_program.interpreter(system, installed.group(1) if installed else None)


def _file_change(system: System, path: str, attribute: str, data: str | bytes, mode: int) -> Change:
    # without daemon-reload: systemd reads the unit at the next boot, when it is used
    before = "other" if system.exists(path) else None
    return Change(path, attribute, before, "as packed", lambda: system.write_file(path, data, mode))


@lru_cache(maxsize=None)
def pack() -> bytes:
    """Return the program that runs at boot. rail_host compares it once per module with options at boot."""
    entry = "_node.layers.boot_program"
    return packed_program.pack(packed_program.imported(entry, without=["_node.boot.boot_state"]), entry)
