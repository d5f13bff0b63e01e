# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limit of locked memory of container runtimes: RDMA locks the buffers that it registers.

A container inherits the limit of its runtime. systemd's default is 8 MiB or less. A drop-in sets the limit of a
service at its start. /proc shows the limit of a running service, and prlimit(2) changes it without a restart.
"""

from __future__ import annotations

import re
import resource
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

SERVICES = (
    "containerd",
    "crio",
    "docker",
    "kubelet",
    "k3s",
    "k3s-agent",
    "rke2-server",
    "rke2-agent",
)
DROP_IN = "/etc/systemd/system/%s.service.d/90-railyard-memlock.conf"
SUFFIX = ".service.d"
TEXT = """\
# Written by railyard.fabric.rail_limits: containers that do RDMA lock what they register.
[Service]
LimitMEMLOCK=infinity
"""
SHOWN = ("LoadState", "MainPID", "LimitMEMLOCK", "DropInPaths", "NeedDaemonReload")
LINE = re.compile(r"^Max locked memory\s+(\S+)\s+(\S+)", re.MULTILINE)
INFINITY = ("infinity", str(2**64 - 1))
UNLIMITED = "unlimited"
Row = t.Dict[str, t.Any]


def raise_limit(pid: int, limit: int = resource.RLIM_INFINITY) -> None:
    """Set the limit in bytes of a process and of processes that it starts later; by default none. Raises OSError."""
    resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (limit, limit))


class Memlock:
    """The limits of services that this node has.

    :param give: replaces :func:`raise_limit` in tests.
    """

    def __init__(self, system: System, services: t.Sequence[str], give: t.Callable[[int], None] = raise_limit) -> None:
        self._system = system
        self._names = list(services)
        self._give = give
        #: process -> its start time when its limit was read, because another process may get its number
        self._started: dict[int, str | None] = {}

    def know(self, services: t.Iterable[str]) -> None:
        """Include these services."""
        self._names += [each for each in services if each not in self._names]

    def observe(self) -> list[Row]:
        """Return per service: ``service``, ``pid`` (None: not running), ``configured`` (limit at the next start),
        ``live`` (limit now), ``drop_in`` (whether systemd has read Railyard's drop-in), ``reload`` (whether systemd
        must reload its files).
        """
        if not self._names or not self._system.exists("/run/systemd/system"):
            return []
        argv = ["systemctl", "show", "--property=Id,%s" % ",".join(SHOWN)]
        output = self._system.check(
            argv + ["%s.service" % name for name in self._names], "see that systemd answers", timeout=60
        )
        rows = []
        for block in output.strip().split("\n\n"):
            values = dict(line.partition("=")[::2] for line in block.splitlines())
            if values.get("LoadState") != "loaded":
                continue
            name = values["Id"].rpartition(".")[0]
            pid = int(values.get("MainPID") or 0) or None
            configured = values.get("LimitMEMLOCK", "")
            rows.append(
                {
                    "service": name,
                    "pid": pid,
                    "configured": UNLIMITED if configured in INFINITY else configured,
                    "live": self._live(pid),
                    "drop_in": DROP_IN % name in values.get("DropInPaths", "").split(),
                    "reload": values.get("NeedDaemonReload") == "yes",
                }
            )
        return sorted(rows, key=lambda row: self._names.index(row["service"]))

    def _live(self, pid: int | None) -> str | None:
        """Return ``unlimited``, or the smaller of the soft and the hard limit in bytes; None if unknown."""
        if not pid:
            return None
        self._started[pid] = network_namespaces.started(self._system, pid)
        found = LINE.search(self._system.read("/proc/%d/limits" % pid) or "")
        if not found:
            return None
        numbers = [int(each) for each in found.groups() if each != UNLIMITED]
        return str(min(numbers)) if numbers else UNLIMITED

    def kept(self) -> list[str]:
        """Return all services that have Railyard's drop-in."""
        directory, _slash, name = DROP_IN.partition("/%s.service.d/")
        names = [each[: -len(SUFFIX)] for each in self._system.listdir(directory) if each.endswith(SUFFIX)]
        return [each for each in names if self._system.exists("%s/%s%s/%s" % (directory, each, SUFFIX, name))]

    def taken_back(self, rows: t.Sequence[Row]) -> list[Change]:
        """Return the changes that remove Railyard's drop-ins; the limits apply at the next start of a service."""
        kept = self.kept()
        paths = [DROP_IN % each for each in kept]
        changes = [
            Change(path, "LimitMEMLOCK", UNLIMITED, None, partial(self._system.forget_file, path)) for path in paths
        ]
        # a run was interrupted before it reloaded systemd
        outdated = any(row["drop_in"] and row["service"] not in kept for row in rows)
        if (kept or outdated) and self._system.exists("/run/systemd/system"):
            changes.append(Change("systemd", "units", "older", "reloaded", self._reload))
        return changes

    def changes(self, rows: t.Sequence[Row]) -> list[Change]:
        system = self._system
        changes = []
        reload_ = False
        for row in rows:
            path = DROP_IN % row["service"]
            drop_in_text = system.read_file(path)
            # the service may get the limit from another program's file
            if row["configured"] != UNLIMITED and drop_in_text == TEXT and not row["reload"]:
                text = "gets LimitMEMLOCK=%s all the same: another drop-in sets it later" % row["configured"]
                raise RailyardError(text, row["service"], "see 'systemctl cat %s'" % row["service"])
            if row["configured"] != UNLIMITED and drop_in_text != TEXT:
                write = partial(system.write_file, path, TEXT)
                changes.append(Change(path, "LimitMEMLOCK", row["configured"], UNLIMITED, write))
            reload_ = reload_ or row["configured"] != UNLIMITED
        if reload_:
            changes.append(Change("systemd", "units", "older", "reloaded", self._reload))
        for row in rows:
            if row["pid"] and row["live"] not in (None, UNLIMITED):
                changes.append(self._live_change(row))
        return changes

    def _reload(self) -> None:
        self._system.check(["systemctl", "daemon-reload"], "see the units that it names", timeout=120)

    def _live_change(self, row: Row) -> Change:
        subject = "%s (pid %d)" % (row["service"], row["pid"])

        def act() -> None:
            if network_namespaces.started(self._system, row["pid"]) != self._started[row["pid"]]:
                raise RailyardError("has ended since it was read", subject, "run again")
            try:
                self._give(row["pid"])
            except OSError as error:
                raise RailyardError(
                    "its limit of locked memory cannot be raised: %s" % error.strerror,
                    subject,
                    "restart %s when it may be: its drop-in is written" % row["service"],
                ) from None

        return Change(subject, "Max locked memory", row["live"], UNLIMITED, act)
