# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Runs that change persistent state exclude each other: a module, the boot, or a device's return; and whatever
else on a node must not be done twice at the same time.

It is a lock of the kernel's (flock(2)) on a file that names its holder. Who dies in the midst holds up no one; where
no one is at work there is no file, so that a run which has nothing to change writes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FILE = "/run/railyard/turn"
# VFs of eight cards come in a minute or two; the unit that waits for this is ended by systemd after 600 seconds.
SECONDS = 300.0
_LOOK = 0.2


class Busy(RailyardError):
    """Another one is at work, and does not come to an end."""


@contextlib.contextmanager
def turn(system: System, who: str, seconds: float, file: str = FILE) -> t.Iterator[None]:
    """Wait for the lock and hold it.

    :param who: what others are reported the holder. :param seconds: how long to wait.
    :param file: another one for another kind of work.
    :raises Busy: where that is not enough. :raises RailyardError: where the file cannot be made.
    """
    seconds = max(seconds, 0)
    end = time.monotonic() + seconds
    descriptor = _locked(system, file)
    while descriptor is None:
        _again(system, end, seconds, file)
        descriptor = _locked(system, file)
    try:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.pwrite(descriptor, ("%s (pid %d), since %s" % (who, os.getpid(), since)).encode(), 0)
        yield
    finally:
        # a program that waits sees that the file that it has locked is gone, and makes another
        with contextlib.suppress(RailyardError):
            system.remove_file(file)
        # not by closing it alone: a child that the kernel holds up has it too
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def wait(system: System, seconds: float) -> None:
    """Wait until the lock is free: state observed during a run is neither the old nor the new one.

    :raises Busy: where ``seconds`` are not enough.
    """
    end = time.monotonic() + seconds
    while _held(system):
        _again(system, end, seconds, FILE)


def _again(system: System, end: float, seconds: float, file: str) -> None:
    if time.monotonic() < end:
        time.sleep(_LOOK)
        return
    holder = system.read(file) or "another run"
    raise Busy(
        "%s is at work on this node, and has not come to an end within %.0f s" % (holder, seconds),
        file,
        "wait for it and run the task again, or end that process if it hangs",
    )


def _locked(system: System, file: str) -> int | None:
    """The file's descriptor, with the lock; None where another one has it."""
    path = system.path(file)
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RailyardError("cannot be made: %s" % error.strerror, file, "run the task with become") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _held(system: System) -> bool:
    try:
        descriptor = os.open(system.path(FILE), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # there is none; or it cannot be read, which a change will say
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
