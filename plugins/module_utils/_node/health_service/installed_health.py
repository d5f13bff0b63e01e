# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module health_service: installs, configures, starts and removes the health service of a node.

The service is restarted only if it does not run the installed program and unit; its environment has a stamp of them.
It reads a changed spec again by itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program, root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    fault_holds,
    health_main,
    health_metrics,
    health_run,
    health_spec,
    health_state,
    node_reports,
)

PROGRAM = "/usr/local/lib/railyard/health.pyz"
COMMAND = "/usr/local/bin/railyard-health"
SERVICE = "railyard-health.service"
UNIT = "/etc/systemd/system/railyard-health.service"
UNIT_WANTED = "/etc/systemd/system/multi-user.target.wants/railyard-health.service"
# Environment variable with a hash of program and unit: a service with another value must be restarted.
STAMP = "RAILYARD_HEALTH_STAMP"
SYSTEMD = "/run/systemd/system"
SHOWN = "--property=ActiveState,MainPID,NeedDaemonReload"
# What ProtectHome= hides.
HIDDEN = ("/home/", "/root/", "/run/user/")
LOG = "run 'journalctl -u %s'" % SERVICE

COMMAND_TEXT = """\
#!/bin/sh
exec {python} -I {program} "$@"
"""
# The kernel shows LACP partners to programs with CAP_NET_ADMIN, and gives LLDP frames to those with CAP_NET_RAW.
UNIT_TEXT = """\
# Written by railyard.fabric. Compares the rails of this node with the plan.
[Unit]
Description=Railyard: the health service of this node
After=railyard-boot.service network.target
ConditionPathExists={spec}

[Service]
Type=notify
Environment={stamp_name}={stamp}
ExecStart={python} -I {program} run
ExecReload=/bin/kill -HUP $MAINPID
WatchdogSec=60
Restart=always
RestartSec=2
RuntimeDirectory=railyard/health
RuntimeDirectoryPreserve=yes
StateDirectory=railyard/health
# cordons of rails
ReadWritePaths=/etc/railyard
TasksMax=256
MemoryMax=256M
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW
DevicePolicy=closed
ProtectSystem=strict
ProtectHome=yes
ProtectClock=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
PrivateTmp=yes
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6 AF_PACKET
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0022

[Install]
WantedBy=multi-user.target
"""

SPEC: dict[str, t.Any] = {
    "spec": {"type": "dict"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class _File(t.NamedTuple):
    """A planned file. ``attribute``: of its change."""

    path: str
    attribute: str
    data: bytes
    mode: int


class HealthService(Subsystem):
    """The installed service. It has the options of module health_service."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options.get("state") == "absent"
        self._spec: dict[str, t.Any] = options.get("spec") or {}
        self._service: dict[str, str] = {}

    def observe(self) -> State:
        self._service = self._read_service()
        return {
            "spec": self._installed_spec(),
            "service": {
                "enabled": self._system.exists(UNIT_WANTED),
                "active": self._service.get("ActiveState") == "active",
            },
        }

    def _read_service(self) -> dict[str, str]:
        if not self._system.exists(SYSTEMD) or not self._system.exists(UNIT):
            return {}
        argv = ["systemctl", "show", SHOWN, SERVICE]
        properties = self._system.check(argv, "make sure that systemd answers", timeout=60)
        return dict(line.partition("=")[::2] for line in properties.splitlines())

    def _installed_spec(self) -> dict[str, t.Any] | None:
        try:
            spec = json.loads(self._system.read(health_spec.FILE) or "null")
        except (ValueError, RecursionError):
            return None
        return spec if isinstance(spec, dict) else None

    def _running_stamp(self) -> str | None:
        pid = self._service.get("MainPID", "0")
        environment = self._system.read_file("/proc/%s/environ" % pid) if pid != "0" else None
        return dict(entry.partition("=")[::2] for entry in (environment or "").split("\0")).get(STAMP)

    def changes(self, state: State) -> list[Change]:
        return self._removal(state) if self._absent else self._installation(state)

    # -- installation -------------------------------------------------------------------------------------------------

    def _installation(self, state: State) -> list[Change]:
        self._check()
        system = self._system
        files, stamp = self._files()
        changes = []
        for file in files:
            observed = system.read_bytes(file.path)
            if observed == file.data and system.mode(file.path) == file.mode:
                continue
            write = partial(system.write_file, file.path, file.data, file.mode)
            before = None if observed is None else "other"
            after = "as planned" if file.path == health_spec.FILE else "as packed"
            changes.append(Change(file.path, file.attribute, before, after, write))
        if not state["service"]["enabled"]:
            enable = partial(system.symlink, UNIT, UNIT_WANTED)
            changes.append(Change(UNIT_WANTED, "enabled", False, True, enable))
        if any(change.subject == UNIT for change in changes) or self._service.get("NeedDaemonReload") == "yes":
            changes.append(Change("systemd", "units", "older", "reloaded", self._reload, kind=STEP))
        active = state["service"]["active"]
        if not active:
            # not a step: a stopped service differs from the plan, even if all files are as planned
            before = self._service.get("ActiveState", "inactive")
            changes.append(Change(SERVICE, "service", before, "started", self._restart))
        elif self._running_stamp() != stamp:
            changes.append(Change(SERVICE, "service", "older", "started", self._restart, kind=STEP))
        return changes

    def _python(self) -> str:
        """Return the Python of the program: the interpreter that it was installed with, while it exists."""
        installed = re.search(r"^exec (/\S+) ", self._system.read_file(COMMAND) or "", re.MULTILINE)
        return packed_program.interpreter(self._system, installed.group(1) if installed else None, HIDDEN)

    def _files(self) -> tuple[list[_File], str]:
        """Return the planned files, in the order of writing, and the stamp of the service."""
        python = self._python()
        compiled = packed_program.is_running(self._system, python)
        entry = health_main.__name__[len(packed_program.PACKAGE) + 1 :]
        program = packed_program.pack(packed_program.imported(entry), entry, compiled)
        installed = self._system.read_bytes(PROGRAM)
        program = installed if installed is not None and packed_program.same(installed, program) else program
        text = json.dumps(self._spec, indent=2, sort_keys=True) + "\n"
        values = {"spec": health_spec.FILE, "stamp_name": STAMP, "python": python, "program": PROGRAM}
        unit = UNIT_TEXT.format(stamp="{stamp}", **values)
        stamp = hashlib.sha256(b"\0".join((program, unit.encode()))).hexdigest()[:16]
        files = [
            _File(PROGRAM, "program", program, 0o755),
            _File(COMMAND, "command", COMMAND_TEXT.format(**values).encode(), 0o755),
            _File(health_spec.FILE, "spec", text.encode(), 0o644),
            _File(UNIT, "unit", unit.format(stamp=stamp).encode(), 0o644),
        ]
        return files, stamp

    def _check(self) -> None:
        errors: list[RailyardError] = []
        try:
            health_spec.parse_spec(self._spec)
        except RailyardError as error:
            errors.append(RailyardError(error.message, "spec", "use the layer 'health' of railyard.fabric.rail_host"))
        if not self._system.exists(SYSTEMD):
            remedy = "use a node that runs systemd"
            message = "the health service is a systemd service, and systemd does not run"
            errors.append(Unsupported(message, SYSTEMD, remedy))
        for path in (PROGRAM, COMMAND):
            try:
                root_owned.check_place(self._system, path)
            except Refused as error:
                errors.append(error)
        try:
            self._python()
        except Refused as error:
            errors.append(error)
        raise_all(errors)

    # -- removal ------------------------------------------------------------------------------------------------------

    def _removal(self, state: State) -> list[Change]:
        system = self._system
        changes = []
        if self._service.get("ActiveState", "inactive") not in ("inactive", "failed"):
            changes.append(Change(SERVICE, "service", "started", "stopped", self._stop, kind=STEP))
        if system.exists(fault_holds.REPORTED):
            # after the stop, which sets the condition to Unknown
            changes.append(Change("Kubernetes", "reports", "there", None, self._withdraw))
        if state["service"]["enabled"]:
            remove = partial(system.remove_file, UNIT_WANTED)
            changes.append(Change(UNIT_WANTED, "enabled", True, False, remove))
        for path, attribute in (
            (UNIT, "unit"),
            (COMMAND, "command"),
            (PROGRAM, "program"),
            (health_run.LOCK, "lock"),
            (health_state.FILE, "state"),
            (health_metrics.TEXTFILE, "metrics"),
            (fault_holds.FILE, "holds"),
            (fault_holds.FILE + ".lock", "lock"),
            (health_spec.FILE, "spec"),
        ):
            if system.exists(path):
                changes.append(Change(path, attribute, "there", None, partial(system.forget_file, path)))
            if path == UNIT and system.exists(path) and system.exists(SYSTEMD):
                changes.append(Change("systemd", "units", "older", "reloaded", self._reload, kind=STEP))
        return changes

    def _withdraw(self) -> None:
        """Remove condition, taint and cordons of the service. Raises :class:`.RailyardError`."""
        try:
            node_reports.withdraw(self._system)
        except RailyardError as error:
            remedy = "%s; or remove %s, and leave the condition and the taint on the Node"
            raise RailyardError(error.message, error.place, remedy % (error.remedy, fault_holds.REPORTED)) from None

    def _reload(self) -> None:
        self._system.check(["systemctl", "daemon-reload"], "check the units that it names", timeout=120)

    def _restart(self) -> None:
        self._system.check(["systemctl", "restart", SERVICE], LOG, timeout=120)

    def _stop(self) -> None:
        self._system.check(["systemctl", "stop", SERVICE], LOG, timeout=120)


LAYER = Layer(SPEC, HealthService, [("state", "present", ["spec"])])
