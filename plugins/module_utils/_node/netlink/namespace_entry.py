# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Enter other network namespaces of the node, in this process or in a child process."""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REC, MS_PRIVATE = 0x1, 0x4000, 0x40000


def visit(
    system: System, namespaces: t.Sequence[Namespace], ask: t.Callable[[int], t.Any], sysfs: bool = False
) -> dict[str, t.Any]:
    """Return the result of ``ask`` in each namespace by its identity, without namespaces that cannot be entered.

    A child process enters the namespaces, so results must be serializable as JSON.

    :param ask: called in each namespace, with a file descriptor of the original namespace.
    :param sysfs: whether ``/sys`` must show the entered namespace instead of the original one.
    """
    if not namespaces:
        return {}
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(read_end)
            with os.fdopen(write_end, "w") as stream:
                json.dump(_visit_all(system, namespaces, ask, sysfs), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    try:
        found: dict[str, t.Any] = json.loads(text)
    except ValueError:
        return {}
    return found


def _visit_all(
    system: System, namespaces: t.Sequence[Namespace], ask: t.Callable[[int], t.Any], sysfs: bool
) -> dict[str, t.Any]:
    original = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    found = {}
    if sysfs:
        _own_mounts()
    for namespace in namespaces:
        fd = open_namespace(system, namespace)
        if fd is None:
            continue
        try:
            with contextlib.suppress(RailyardError, OSError):
                in_namespace.enter(fd)
                if sysfs:
                    _mount_sysfs()
                found[namespace.identity] = ask(original)
        finally:
            os.close(fd)
    return found


def move(system: System, namespace: Namespace) -> None:
    """Move this process to the namespace, with a ``/sys`` that shows it.

    :raises RailyardError: if it cannot be entered.
    """
    fd = open_namespace(system, namespace)
    if fd is None:
        raise RailyardError("has ended", namespace.identity, "run again")
    try:
        _own_mounts()
        in_namespace.enter(fd)
        _mount_sysfs()
    except OSError as error:
        raise RailyardError("cannot be entered: %s" % error, namespace.identity, "run the task with become") from None
    finally:
        os.close(fd)


def _own_mounts() -> None:
    """Make later mounts invisible to other processes."""
    _call("unshare", CLONE_NEWNS)
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def _mount_sysfs() -> None:
    # sysfs shows devices of the namespace in which it was mounted
    _call("mount", b"sysfs", b"/sys", b"sysfs", MS_RDONLY, None)


def _call(name: str, *arguments: t.Any) -> None:
    """Make a system call for which older releases of Python have no function. Raises OSError."""
    import ctypes

    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


def open_namespace(system: System, namespace: Namespace) -> int | None:
    """Return an open file descriptor of the namespace; None if it cannot be opened."""
    number = int(namespace.identity[len("net:[") : -1])
    for path in _paths(system, namespace):
        try:
            fd = os.open(system.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        # the pid or the mount point may belong to another namespace now
        if os.fstat(fd).st_ino == number:
            return fd
        os.close(fd)
    return None


def open_numbered(system: System, kernel: Rtnetlink, number: int, pid: int) -> int | None:
    """Return a file descriptor of the namespace with a number in that of ``kernel``; None if nothing shows it.

    A namespace that only a socket keeps alive is not shown. Places that are cheap to read are read first.

    :param pid: a process that may be in it, which is tried first.
    """
    seen: set[int] = set()

    def open_if(path: str) -> int | None:
        try:
            if os.stat(system.path(path)).st_ino in seen:
                return None
            fd = os.open(system.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        with contextlib.suppress(RailyardError):
            seen.add(os.fstat(fd).st_ino)
            if kernel.namespace_number(fd) == number:
                return fd
        os.close(fd)
        return None

    def paths() -> t.Iterator[str]:
        for process in [str(pid), *system.listdir("/proc")]:
            if process.isdigit():
                yield "/proc/%s/ns/net" % process
        for namespace in network_namespaces.others(system):
            yield from _paths(system, namespace)

    return next((fd for fd in map(open_if, paths()) if fd is not None), None)


def _paths(system: System, namespace: Namespace) -> t.Iterator[str]:
    yield from namespace.mounts
    for pid in namespace.processes:
        yield "/proc/%d/ns/net" % pid
        for thread in system.listdir("/proc/%d/task" % pid):
            yield "/proc/%d/task/%s/ns/net" % (pid, thread)
    for pid in namespace.openers:
        for descriptor in system.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, descriptor)
            if system.link_name(path) == namespace.identity:
                yield path
