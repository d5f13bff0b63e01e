# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's containerd, and whether it supports CDI files, which the agent requires."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

OLDEST = (1, 7)
CDI_DIRS = ("/var/run/cdi", "/run/cdi")
CONFIG = "/etc/containerd/config.toml"
# Files that the configuration may import.
IMPORTS = "/etc/containerd/conf.d"
# The containerd of K3s and RKE2: program and configuration file.
RANCHER = (
    ("/var/lib/rancher/k3s/data/current/bin/containerd", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"),
    ("/var/lib/rancher/rke2/bin/containerd", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"),
)
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)")
_ENABLED = re.compile(r"^\s*enable_cdi\s*=\s*(true|false)\s*$", re.MULTILINE)
_DIRS = re.compile(r"^\s*cdi_spec_dirs\s*=\s*\[(.*?)\]", re.MULTILINE | re.DOTALL)
Runtime = t.Dict[str, t.Any]


def observe(system: System) -> Runtime | None:
    """Return ``program``, ``version``, ``config`` (file), ``cdi`` (whether it is on), ``cdi_dirs`` and ``restart`` of
    containerd.

    None without containerd. ``cdi`` is None if the configuration cannot be read or the version is not supported.
    ``restart``: whether the configuration was changed after the running daemon read it.
    """
    program, config = next(((each, file) for each, file in RANCHER if system.exists(each)), (None, CONFIG))
    program = program or system.which("containerd")
    if not program:
        return None
    version = _VERSION.search(system.run([program, "--version"]).out)
    row: Runtime = {
        "program": program,
        "version": ".".join(version.groups()) if version else None,
        "config": config,
        "cdi": None,
        "cdi_dirs": [],
        "restart": False,
    }
    release = _release(row)
    if release is None or release < OLDEST:
        return row
    # the dump has the defaults and the values of the file, if there is a file
    options = ["--config", config] if system.exists(config) else []
    dump = system.run([program, *options, "config", "dump"])
    if dump.rc == 0:
        enabled, dirs = _ENABLED.search(dump.out), _DIRS.search(dump.out)
        row["cdi"] = enabled.group(1) == "true" if enabled else release >= (2, 0)
        row["cdi_dirs"] = re.findall(r"[\"']([^\"']+)[\"']", dirs.group(1)) if dirs else list(CDI_DIRS)
        row["restart"] = _changed_after_start(system, program, config)
    return row


def _changed_after_start(system: System, program: str, config: str) -> bool:
    """Return whether a configuration file is newer than the running daemon, as the dump is made from the file."""
    files = [config, *("%s/%s" % (IMPORTS, name) for name in system.listdir(IMPORTS))]
    changed = max(system.modified(file) for file in files) / 1e9
    started = [_start(system, pid) for pid in system.listdir("/proc") if pid.isdigit() and _runs(system, pid, program)]
    # a second, because the kernel counts the start in hundredths
    return any(start is not None and changed > start + 1 for start in started)


def _runs(system: System, pid: str, program: str) -> bool:
    # an upgrade removes the file of the running program
    executable = (system.link_target("/proc/%s/exe" % pid) or "").replace(" (deleted)", "")
    return executable == system.real_path(program)


def _start(system: System, pid: str) -> float | None:
    """Return when a process started, in seconds since 1970; None if it has ended. Source: proc(5)."""
    status, uptime = system.read("/proc/%s/stat" % pid), system.read("/proc/uptime")
    if not status or not uptime:
        return None
    ticks = int(status.rpartition(")")[2].split()[19])
    return time.time() - float(uptime.split()[0]) + ticks / os.sysconf("SC_CLK_TCK")


def check(runtime: Runtime | None) -> None:
    """Raise :class:`Unsupported` if containers on this node cannot get devices of CDI files."""
    remedy = None
    if runtime is None:
        message, place = "containerd is not installed", "containerd"
        remedy = (
            "install containerd %d.%d or later, or set agent_runtime_check to false (option runtime_check of the"
            " module) for another runtime with CDI" % OLDEST
        )
        raise Unsupported(message, place, remedy)
    place = str(runtime["program"])
    release = _release(runtime)
    if release is None:
        raise Unsupported("does not report its version", place, "run '%s --version'" % place)
    if release < OLDEST:
        message = "containerd %s does not support CDI" % runtime["version"]
        raise Unsupported(message, place, "install containerd %d.%d or later" % OLDEST)
    if runtime["cdi"] is None:
        message = "containerd's configuration cannot be read"
        raise Unsupported(message, str(runtime["config"]), "run '%s config dump'" % place)
    section = "io.containerd.cri.v1.runtime" if release >= (2, 0) else "io.containerd.grpc.v1.cri"
    remedy = "under [plugins.'%s'] set enable_cdi = true and cdi_spec_dirs = ['/etc/cdi', '%s'], and restart containerd"
    remedy = remedy % (section, CDI_DIRS[0])
    if not runtime["cdi"]:
        raise Unsupported("CDI is off in containerd %s" % runtime["version"], str(runtime["config"]), remedy)
    if not set(CDI_DIRS) & set(runtime["cdi_dirs"]):
        message = "containerd reads CDI files from %s, not from %s" % (", ".join(runtime["cdi_dirs"]), CDI_DIRS[0])
        raise Unsupported(message, str(runtime["config"]), remedy)
    if runtime["restart"] and release < (2, 0):
        # in later versions CDI is on without the option
        message = (
            "was changed after containerd %s started, and CDI may be off in the running daemon" % runtime["version"]
        )
        raise Unsupported(message, str(runtime["config"]), "restart containerd; pods keep running")


def _release(runtime: Runtime) -> tuple[int, int] | None:
    parts = (runtime["version"] or "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) == 3 else None
