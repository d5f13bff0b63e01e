# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's network namespaces other than the initial one, with the processes and mounts that keep them alive.

A namespace exists while a thread is in it, or a file descriptor or a mount refers to it (namespaces(7)). Source:
``/proc/PID/ns/net``, ``/proc/PID/fd`` and the nsfs entries of ``/proc/PID/mountinfo``.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

NAMED = ("/run/netns/", "/var/run/netns/")
SHOWN_MAX = 3
# How often the list of processes is read again for those that were started meanwhile. Two or three times are usual.
_SCANS = 20
_DELETED = " (deleted)"
# The directories of device files, and the beginning of the names of others.
_DEVICES = ("/infiniband/", "/vfio/devices/", "/vfio/", "/nvidia-caps-imex-channels/", "/uio")


class Namespace:
    """One network namespace. ``identity``: the kernel's ``net:[4026532281]``.

    ``mounts``: its mount points. ``processes``: pid -> command of processes with a thread in it. ``openers``: the same
    of processes that only have a file descriptor of it.
    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.mounts: list[str] = []
        self.processes: dict[int, str] = {}
        self.openers: dict[int, str] = {}

    @property
    def name(self) -> str:
        """The name in ``ip netns``; else the mount point; else the identity."""
        for mount in self.mounts:
            for place in NAMED:
                if mount.startswith(place):
                    return mount[len(place) :]
        return self.mounts[0] if self.mounts else self.identity

    def __str__(self) -> str:
        holders = [_processes_text(self.processes, ""), _processes_text(self.openers, "open in ")]
        holders_text = "; ".join(each for each in holders if each)
        return "%s (%s)" % (self.name, holders_text) if holders_text else "%s (no process)" % self.name


def _processes_text(processes: t.Mapping[int, str], prefix: str) -> str:
    parts = ["%s%s pid %d" % (prefix, command, pid) for pid, command in sorted(processes.items())[:SHOWN_MAX]]
    if len(processes) > SHOWN_MAX:
        parts.append("%d more" % (len(processes) - SHOWN_MAX))
    return ", ".join(parts)


def processes(system: System, complete: bool = False) -> t.Iterator[str]:
    """Yield the ID of each process, also of those that are started meanwhile.

    :param complete: whether a process that may be missing is an error.
    :raises RailyardError: if they start faster than they are read, or if processes of others are hidden.
    """
    seen: set[str] = set()
    for _scan in range(_SCANS):
        new = [entry for entry in system.listdir("/proc") if entry.isdigit() and entry not in seen]
        if not new:
            return
        if complete and not seen and "1" not in new:
            message = "process 1 is hidden, so other processes that use devices may be hidden too"
            raise RailyardError(message, "/proc", "run the task with become, outside any container")
        seen.update(new)
        yield from new
    if complete:
        message = "processes start faster than they can be read, so users of devices are unknown"
        raise RailyardError(message, "/proc", "find what starts them, and run again")


def sees_all() -> bool:
    """Return whether a process that cannot be read is an error. Others than root only read, and see less."""
    return os.geteuid() == 0


def users_of_files(system: System, wanted: t.Callable[[str], bool], complete: bool) -> dict[str, list[int]]:
    """Return the processes that have device files open: path -> process IDs in ascending order.

    Names are compared, because stat() of a process's file may hang on an unreachable file server.

    :param wanted: whether a path names one of the files.
    :param complete, raises: as for :func:`others`.
    """
    found: dict[str, list[int]] = {}
    for entry in processes(system, complete):
        place = "/proc/%s/fd" % entry
        names = [system.link_target("%s/%s" % (place, each), complete) for each in system.listdir(place, complete)]
        for path in {_device_file(name) for name in names if name}:
            if wanted(path):
                found.setdefault(path, []).append(int(entry))
    return {path: sorted(pids) for path, pids in found.items()}


def _device_file(name: str) -> str:
    """Return the device file of an open file. Its path in another mount namespace may begin elsewhere, and a file that
    was removed is marked.
    """
    path = name[: -len(_DELETED)] if name.endswith(_DELETED) else name
    for directory in _DEVICES:
        start = path.rfind(directory)
        if start >= 0:
            return "/dev" + path[start:]
    return path


def others(system: System, complete: bool = False) -> list[Namespace]:
    """Return all network namespaces except that of process 1, sorted by name. Only root sees all processes.

    :param complete: whether a process that may not be read is an error. :raises RailyardError: for such an error.
    """
    first = system.link_name("/proc/1/ns/net", complete)
    found: dict[str, Namespace] = {}

    def of(identity: str | None) -> Namespace | None:
        if not identity or not identity.startswith("net:[") or identity == first:
            return None
        return found.setdefault(identity, Namespace(identity))

    mount_namespaces: set[str] = set()
    for entry in processes(system, complete):
        pid, place = int(entry), "/proc/" + entry
        for thread in system.listdir(place + "/task", complete) or [entry]:
            namespace = of(system.link_name("%s/task/%s/ns/net" % (place, thread), complete))
            if namespace:
                namespace.processes[pid] = command(system, pid)
        for descriptor in system.listdir(place + "/fd", complete):
            namespace = of(system.link_name("%s/fd/%s" % (place, descriptor), complete))
            if namespace and pid not in namespace.processes:
                namespace.openers[pid] = command(system, pid)
        mount_namespace = system.link_name(place + "/ns/mnt", complete)
        if mount_namespace and mount_namespace not in mount_namespaces:
            mount_namespaces.add(mount_namespace)
            for identity, mount_point in nsfs_mounts(system.read(place + "/mountinfo") or ""):
                namespace = of(identity)
                if namespace and mount_point not in namespace.mounts:
                    namespace.mounts.append(mount_point)
    return sorted(found.values(), key=lambda each: each.name)


def nsfs_mounts(mountinfo: str) -> list[tuple[str, str]]:
    """Return (identity, mount point) of mounted namespaces. See proc_pid_mountinfo(5)."""
    found = []
    for line in mountinfo.splitlines():
        head, _dash, tail = line.partition(" - ")
        field = head.split(" ")
        if tail.startswith("nsfs ") and len(field) > 4:
            found.append((field[3], field[4].replace("\\040", " ")))
    return found


def command(system: System, pid: int) -> str:
    """Return a process's command name, as ``ps -o comm`` shows it; ``?`` if it has ended."""
    return system.read("/proc/%d/comm" % pid) or "?"


def started(system: System, pid: int) -> str | None:
    """Return a process's start time in clock ticks after boot (proc(5), field 22), which identifies it with its pid."""
    stat = system.read("/proc/%d/stat" % pid)
    return stat.rpartition(")")[2].split()[19] if stat else None
