# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""State that only a program can lay down at boot: kept as options, applied by the same code that a module runs.

``/etc/railyard/boot.d/NN-MODULE.json`` holds a module's options; ``railyard-boot.service`` runs ``boot.pyz``, which is
this collection's node code packed from its own sources (:mod:`boot_program` is its entry).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_paths, packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import TEMPORARY, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot

BOOT_DIR = boot_paths.BOOT_DIR
PROGRAM = "/usr/local/lib/railyard/boot.pyz"
UNIT = "/etc/systemd/system/railyard-boot.service"
UNIT_WANTED = "/etc/systemd/system/multi-user.target.wants/railyard-boot.service"
# What a device lost by going away is laid down when it comes again: udev starts an instance for the module's file.
AGAIN = "/etc/systemd/system/railyard-again@.service"
RULES = "/etc/udev/rules.d/90-railyard-%s.rules"
SYSTEMCTL = "/usr/bin/systemctl"
PACKAGE = packed_program.PACKAGE
# What boot_program reaches by import; a unit test holds this list against the imports themselves.
PACKED = (
    "_common.changes",
    "_common.errors",
    "_common.urls",
    "_node.boot.persistent",
    "_node.boot_service.boot_program",
    "_node.core.boot_lock",
    "_node.core.boot_paths",
    "_node.core.staying",
    "_node.core.subsystem",
    "_node.core.system",
    "_node.host.pci_tuning",
    "_node.host.pci_tuning_spec",
    "_node.netlink.codec",
    "_node.netlink.dcb_netlink",
    "_node.netlink.ethtool",
    "_node.netlink.in_child",
    "_node.netlink.link_messages",
    "_node.netlink.rdma_netlink",
    "_node.netlink.rename_order",
    "_node.netlink.rtnetlink",
    "_node.netlink.vf_setter",
    "_node.qos.congestion_control",
    "_node.qos.dcb_managers",
    "_node.qos.port_qos",
    "_node.qos.qos_spec",
    "_node.qos.rdma_traffic_class",
    "_node.qos.roce_qos",
    "_node.rdma.infiniband_ports",
    "_node.rdma.rdma_link_changes",
    "_node.rdma.rdma_links",
    "_node.readers.network_namespaces",
    "_node.readers.pci_config",
    "_node.readers.pci_functions",
    "_node.safety.management_path",
    "_node.safety.namespace_holders",
    "_node.safety.port_reference",
    "_node.safety.vf_holders",
    "_node.sriov.pf_actions",
    "_node.sriov.pf_state",
    "_node.sriov.vf_changes",
    "_node.sriov.vf_spec",
    "_node.sriov.virtual_functions",
)

UNIT_TEXT = """\
# Written by railyard.fabric. Lays down what the kernel forgets at reboot: {0}
[Unit]
Description=Railyard: VFs, RDMA links and PCI settings of the rail ports, as planned
After=systemd-udev-trigger.service systemd-modules-load.service local-fs.target
Before=containerd.service crio.service docker.service kubelet.service
Before=k3s.service k3s-agent.service rke2-server.service rke2-agent.service
ConditionDirectoryNotEmpty={0}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={1} {2}
TimeoutStartSec=600

[Install]
WantedBy=multi-user.target
"""

# After the boot's own run where both are due. What comes in one go is waited for, so that it is done once, and no
# device comes unseen while it runs. It sets what makes no event; where a driver makes one of it, the limit ends the
# circle.
AGAIN_TEXT = """\
# Written by railyard.fabric. Lays down again what a device lost by going away and coming back.
[Unit]
Description=Railyard: %i, as planned, after a device came back
After=railyard-boot.service
ConditionPathExists={0}/%i.json
StartLimitIntervalSec=300
StartLimitBurst=100

[Service]
Type=oneshot
ExecStartPre=-/usr/bin/udevadm settle --timeout=30
ExecStart={1} {2} --only %i
TimeoutStartSec=600
"""
RULES_HEAD = "# Written by railyard.fabric: what these lose by going away is laid down again when they come back.\n"


class BootState:
    """The options that are applied at boot for one module (``name``), in the order of ``rank`` (two digits)."""

    def __init__(self, system: System, rank: int, name: str) -> None:
        self._system = system
        self._name = name
        self._part = "%02d-%s" % (rank, name)
        self.file = "%s/%s.json" % (BOOT_DIR, self._part)
        self.rules = RULES % name
        self._until_boot = UntilBoot(system, name)

    def read(self) -> dict[str, t.Any] | None:
        """The options in force at the next boot; None where there are none, or the file is not to be understood."""
        try:
            options = json.loads(self._system.read(self.file) or "null")["options"]
        except (ValueError, KeyError, TypeError):
            return None
        return options if isinstance(options, dict) else None

    def ports(self) -> list[dict[str, t.Any]]:
        """The ports among the options in force at the next boot."""
        held = (self.read() or {}).get("ports")
        return [each for each in held if isinstance(each, dict)] if isinstance(held, list) else []

    def staying(self, more: t.Sequence[Staying]) -> list[Staying]:
        """What stays live until the next boot though it is taken back: what earlier runs reported, and ``more``."""
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
        """What must be written so that the next boot gives ``options``; None takes this module's part away.

        What all modules share goes with the last one's part.

        :param again: udev(7) matches of the devices at whose coming the same is laid down once more, such as
            ``ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="0000:0b:00.0"``.
        :param staying: where something is taken back, what is reported until the boot (:meth:`staying`). None:
            the options are set up again, and of what earlier runs reported, only ``left`` waits for a boot.
        :param new: what no earlier run reported of ``left``.
        """
        # noted first, because the options are removed later
        if staying is None:
            noted = self._until_boot.read(new)
            changes, last = self._until_boot.keep(noted) if new else [], self._until_boot.keep(left, noted)
        else:
            changes, last = self._until_boot.keep(staying), []
        if options is None:
            return changes + self._rules_changes(()) + self._removal()
        return changes + self._written(options, again) + last

    def _written(self, options: t.Mapping[str, t.Any], again: t.Sequence[str]) -> list[Change]:
        system = self._system
        held = self.read()
        changes = []
        packed = pack()
        if system.read_bytes(PROGRAM) != packed:
            changes.append(_file_change(system, PROGRAM, "program", packed, 0o755))
        unit = UNIT_TEXT.format(BOOT_DIR, _interpreter(system), PROGRAM)
        if system.read_file(UNIT) != unit:
            changes.append(_file_change(system, UNIT, "unit", unit, 0o644))
        if not system.exists(UNIT_WANTED):
            changes.append(Change(UNIT_WANTED, "enabled", False, True, lambda: system.symlink(UNIT, UNIT_WANTED)))
        wanted = json.dumps({"module": self._name, "options": options}, indent=2, sort_keys=True) + "\n"
        if system.read_file(self.file) != wanted:
            changes.append(
                Change(self.file, "options", held, dict(options), lambda: system.write_file(self.file, wanted, 0o644))
            )
        if again:
            text = AGAIN_TEXT.format(BOOT_DIR, _interpreter(system), PROGRAM)
            if system.read_file(AGAIN) != text:
                changes.append(_file_change(system, AGAIN, "unit", text, 0o644))
        return changes + self._rules_changes(again)

    def _removal(self) -> list[Change]:
        """This module's options, and with the last one's all that modules share, in an order that can be cut off: what
        is left starts nothing at boot, and the next run takes it away.
        """
        system = self._system
        changes = []
        if system.exists(self.file):
            changes.append(Change(self.file, "options", self.read(), None, lambda: system.remove_file(self.file)))
        gone = {self.file, UNIT_WANTED, UNIT, AGAIN, PROGRAM}
        if any(name.endswith(".json") and path not in gone for name, path in _entries(system, BOOT_DIR)):
            return changes
        if system.exists(UNIT_WANTED):
            changes.append(Change(UNIT_WANTED, "enabled", True, False, lambda: system.remove_file(UNIT_WANTED)))
        for path, attribute in ((UNIT, "unit"), (AGAIN, "unit"), (PROGRAM, "program")):
            if system.exists(path):
                changes.append(_gone(path, attribute, lambda path=path: system.remove_file(path)))  # type: ignore[misc]
        for directory in (BOOT_DIR, os.path.dirname(BOOT_DIR), os.path.dirname(PROGRAM)):
            # a part of a file that a run was cut off in is ours; what else is there is another's, and stays
            if system.exists(directory) and all(
                path in gone or name.startswith(TEMPORARY) for name, path in _entries(system, directory)
            ):
                gone.add(directory)
                changes.append(_gone(directory, "directory", lambda path=directory: _clear(system, path)))  # type: ignore[misc]
        return changes

    def _rules_changes(self, again: t.Sequence[str]) -> list[Change]:
        """udev reads its rules again by itself, for the next event."""
        system = self._system
        if not again:
            if not system.exists(self.rules):
                return []
            return [Change(self.rules, "rules", "as kept", None, lambda: system.remove_file(self.rules))]
        start = ', RUN+="%s --no-block start railyard-again@%s.service"' % (SYSTEMCTL, self._part)
        text = RULES_HEAD + "".join(match + start + "\n" for match in again)
        held = system.read_file(self.rules)
        return [] if held == text else [_file_change(system, self.rules, "rules", text, 0o644)]


def _entries(system: System, directory: str) -> list[tuple[str, str]]:
    """What is in a directory: name and path."""
    return [(name, "%s/%s" % (directory, name)) for name in system.listdir(directory)]


def _gone(path: str, attribute: str, act: t.Callable[[], None]) -> Change:
    return Change(path, attribute, "there", None, act)


def _clear(system: System, directory: str) -> None:
    system.remove_incomplete_files(directory)
    with contextlib.suppress(OSError):
        os.rmdir(system.path(directory))


def _interpreter(system: System) -> str:
    """The Python that runs the program at boot."""
    kept = re.search(r"^ExecStart=(/\S+) ", system.read_file(UNIT) or "", re.MULTILINE)
    return packed_program.interpreter(system, kept.group(1) if kept else None)


def _file_change(system: System, path: str, attribute: str, data: str | bytes, mode: int) -> Change:
    # systemd reads its unit at the next boot, when it counts: no daemon-reload is needed, and none can be missed
    before = "other" if system.exists(path) else None
    return Change(path, attribute, before, "as packed", lambda: system.write_file(path, data, mode))


def pack() -> bytes:
    """The boot program; see :func:`.program.pack`."""
    return packed_program.pack(PACKED, "_node.boot_service.boot_program")
