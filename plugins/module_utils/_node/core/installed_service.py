# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services: packed programs that systemd runs. Their files and units, and the subsystem that installs and removes them.

A service is restarted only if it runs another program or unit than the installed: its environment has a stamp of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change, batch
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program, root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

SYSTEMD = "/run/systemd/system"
SHOWN = "--property=ActiveState,MainPID,NeedDaemonReload"
# What ProtectHome= hides.
HIDDEN = ("/home/", "/root/", "/run/user/")

# Options of the modules. Without a spec, a service cannot be present.
OPTIONS: dict[str, t.Any] = {
    "spec": {"type": "dict"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}
REQUIRED_IF = [("state", "present", ["spec"])]

COMMAND_TEXT = """\
#!/bin/sh
exec {python} -I {program} "$@"
"""
UNIT_TEXT = """\
# Written by railyard.fabric. {purpose}
[Unit]
Description=Railyard: {description} of this node
After=railyard-boot.service network.target
{order}ConditionPathExists={spec}

[Service]
Type=notify
Environment={stamp_name}={stamp}
ExecStart={python} -I {program} run
{settings}ProtectSystem=strict
ProtectHome=yes
ProtectClock=yes
ProtectKernelModules=yes
{tunables}ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
PrivateTmp=yes
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6 AF_PACKET
RestrictNamespaces={namespaces}
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask={umask}

[Install]
WantedBy=multi-user.target
"""


class PackedService:
    """Names and texts of a service. ``unit_text``: the unit, with ``{python}`` and ``{stamp}`` to be replaced.

    :param name: ``health`` for ``railyard-health.service``.
    :param entry: the full name of the module that has ``main``.
    :param spec: the file with its spec.
    :param unit: the other values of :data:`UNIT_TEXT`; ``order``, ``settings`` and ``tunables`` are whole lines.
    """

    def __init__(self, name: str, entry: str, spec: str, **unit: str) -> None:
        self.entry = entry[len(packed_program.PACKAGE) + 1 :]
        self.spec = spec
        self.program = "/usr/local/lib/railyard/%s.pyz" % name
        self.command = "/usr/local/bin/railyard-%s" % name
        self.name = "railyard-%s.service" % name
        self.unit = "/etc/systemd/system/" + self.name
        self.unit_wanted = "/etc/systemd/system/multi-user.target.wants/" + self.name
        # Environment variable with a hash of what needs a restart: program, unit and, with spec_restarts, the spec.
        self.stamp = "RAILYARD_%s_STAMP" % name.upper()
        names = {"spec": spec, "program": self.program, "stamp_name": self.stamp}
        self.unit_text = UNIT_TEXT.format(python="{python}", stamp="{stamp}", **names, **unit)


class InstalledService(Subsystem):
    """An installed service. Its options are :data:`OPTIONS`, and what a subclass adds."""

    service: PackedService
    #: its name in errors
    title: str
    #: the remedy of a wrong spec
    spec_remedy: str
    #: whether it must be restarted to use a changed spec
    spec_restarts = False
    #: seconds in which a restart ends
    restart_seconds = 120
    #: further files to remove with it, and the attributes of their changes
    own_files: t.Sequence[tuple[str, str]] = ()

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options.get("state") == "absent"
        self._spec: dict[str, t.Any] = options.get("spec") or {}
        # properties of the unit by their names
        self._shown: dict[str, str] = {}

    def observe(self) -> State:
        system, service = self._system, self.service
        self._shown = {}
        if system.exists(SYSTEMD) and system.exists(service.unit):
            argv = ["systemctl", "show", SHOWN, service.name]
            properties = system.check(argv, "make sure that systemd answers", timeout=60)
            self._shown = dict(line.partition("=")[::2] for line in properties.splitlines())
        try:
            spec = json.loads(system.read(service.spec) or "null")
        except (ValueError, RecursionError):
            spec = None
        active = self._shown.get("ActiveState") == "active"
        return {
            "spec": spec if isinstance(spec, dict) else None,
            "service": {"enabled": system.exists(service.unit_wanted), "active": active},
        }

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            return self._removal(state)
        raise_all(self._errors(state))
        return self._installation(state)

    # -- what differs between services --------------------------------------------------------------------------------

    def _spec_errors(self) -> list[RailyardError]:
        """Return the errors that a valid spec causes on this node. Raises :class:`.RailyardError` if it is wrong."""
        raise NotImplementedError

    def _python_errors(self, python: str) -> list[RailyardError]:
        """Return why the program cannot run with the interpreter of this path."""
        return []

    def _programs(self, python: str, compiled: bool) -> list[tuple[str, bytes]]:
        """Return path and content of each program, that of the service first; ``compiled`` as in ``pack``."""
        entry = self.service.entry
        return [(self.service.program, packed_program.pack(packed_program.imported(entry), entry, compiled))]

    def _spec_rows(self, observed: t.Any, before: str | None) -> list[tuple[str, str, t.Any, t.Any]]:
        """Return what the change of the spec shows, as :func:`.batch` gets it.

        :param observed: the spec on the node; None without a valid one.
        :param before: None if its file is absent.
        """
        return [(self.service.spec, "spec", before, "as planned")]

    def _withdrawal(self) -> list[Change]:
        """Return the changes that remove what the service wrote outside of its files. They follow its stop."""
        return []

    # -- installation -------------------------------------------------------------------------------------------------

    def _errors(self, state: State) -> list[RailyardError]:
        """Return why the service cannot be installed, or must not be: root executes its program."""
        errors: list[RailyardError] = []
        try:
            errors += self._spec_errors()
        except RailyardError as error:
            errors.append(RailyardError(error.message, "spec", self.spec_remedy))
        if not self._system.exists(SYSTEMD):
            message = "%s is a systemd service, and systemd does not run" % self.title
            errors.append(Unsupported(message, SYSTEMD, "use a node that runs systemd"))
        for path in (self.service.program, self.service.command):
            with collected(errors):
                root_owned.check_place(self._system, path)
        with collected(errors):
            errors += self._python_errors(self._python())
        return errors

    def _python(self) -> str:
        """Return the Python of the programs: the interpreter that they were installed with, while it exists."""
        installed = re.search(r"^exec (/\S+) ", self._system.read_file(self.service.command) or "", re.MULTILINE)
        return packed_program.interpreter(self._system, installed.group(1) if installed else None, HIDDEN)

    def _files(self) -> tuple[list[tuple[str, str, bytes, int]], str]:
        """Return path, attribute, content and mode of each file, in the order of writing, and the stamp."""
        system, service, python = self._system, self.service, self._python()
        files = []
        for path, program in self._programs(python, packed_program.is_running(system, python)):
            installed = system.read_bytes(path)
            same = installed is not None and packed_program.same(installed, program)
            files.append((path, "program", installed if installed is not None and same else program, 0o755))
        spec, unit = spec_text(self._spec).encode(), service.unit_text.format(python=python, stamp="{stamp}")
        stamped = [files[0][2], *[spec] * self.spec_restarts, unit.encode()]
        stamp = hashlib.sha256(b"\0".join(stamped)).hexdigest()[:16]
        command = COMMAND_TEXT.format(python=python, program=service.program)
        files += [
            (service.command, "command", command.encode(), 0o755),
            (service.spec, "spec", spec, 0o644),
            (service.unit, "unit", unit.format(stamp=stamp).encode(), 0o644),
        ]
        return files, stamp

    def _installation(self, state: State) -> list[Change]:
        system, service = self._system, self.service
        files, stamp = self._files()
        changes: list[Change] = []
        for path, attribute, data, mode in files:
            observed = system.read_bytes(path)
            if observed == data and system.mode(path) == mode:
                continue
            write = partial(system.write_file, path, data, mode)
            before = None if observed is None else "other"
            rows = [(path, attribute, before, "as packed")]
            changes += batch(self._spec_rows(state["spec"], before) if path == service.spec else rows, write)
        if not state["service"]["enabled"]:
            enable = partial(system.symlink, service.unit, service.unit_wanted)
            changes.append(Change(service.unit_wanted, "enabled", False, True, enable))
        if any(change.subject == service.unit for change in changes) or self._shown.get("NeedDaemonReload") == "yes":
            changes.append(self._reload())
        restart = partial(self._systemctl, "restart", self.restart_seconds)
        if not state["service"]["active"]:
            # not a step: a stopped service differs from the plan, even if all files are as planned
            before = self._shown.get("ActiveState", "inactive")
            changes.append(Change(service.name, "service", before, "started", restart))
        elif self._running_stamp() != stamp:
            changes.append(Change(service.name, "service", "older", "started", restart, kind=STEP))
        return changes

    def _running_stamp(self) -> str | None:
        pid = self._shown.get("MainPID", "0")
        environment = self._system.read_file("/proc/%s/environ" % pid) if pid != "0" else None
        return dict(entry.partition("=")[::2] for entry in (environment or "").split("\0")).get(self.service.stamp)

    # -- removal ------------------------------------------------------------------------------------------------------

    def _removal(self, state: State) -> list[Change]:
        system, service = self._system, self.service
        changes = []
        if self._shown.get("ActiveState", "inactive") not in ("inactive", "failed"):
            stop = partial(self._systemctl, "stop", 120)
            changes.append(Change(service.name, "service", "started", "stopped", stop, kind=STEP))
        changes += self._withdrawal()
        if state["service"]["enabled"]:
            remove = partial(system.remove_file, service.unit_wanted)
            changes.append(Change(service.unit_wanted, "enabled", True, False, remove))
        named = ((service.unit, "unit"), (service.command, "command"), (service.program, "program"))
        for path, attribute in (*named, *self.own_files, (service.spec, "spec")):
            if system.exists(path):
                changes.append(Change(path, attribute, "there", None, partial(system.forget_file, path)))
                if path == service.unit and system.exists(SYSTEMD):
                    changes.append(self._reload())
        return changes

    def _reload(self) -> Change:
        def reload() -> None:
            self._system.check(["systemctl", "daemon-reload"], "check the units that it names", timeout=120)

        return Change("systemd", "units", "older", "reloaded", reload, kind=STEP)

    def _systemctl(self, verb: str, seconds: int) -> None:
        name = self.service.name
        self._system.check(["systemctl", verb, name], "run 'journalctl -u %s'" % name, timeout=seconds)


def spec_text(spec: t.Mapping[str, t.Any]) -> str:
    """Return the content of the file of a spec."""
    return json.dumps(spec, indent=2, sort_keys=True) + "\n"
