# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The locks of a node: :data:`FILE`, which lets only one run at a time change the node (a module, the boot program, or
the handler of a device that returns), and :data:`DEVICES`, which keeps pods from getting devices while a run changes
devices. Other work that must not run twice at the same time uses another file.

A lock is an flock(2) on a file that names its holder. The kernel releases it when the holder ends. The file exists only
while the lock is held, so a run that has nothing to change writes nothing.
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
# Attaches of pods hold it shared. A run that may take a device from a pod holds it exclusively, from before it looks
# for holders until its last change.
DEVICES = "/run/railyard/devices"
# Creating the VFs of eight cards takes one to two minutes; systemd stops the waiting unit after 600 seconds.
SECONDS = 300.0
_LOOK = 0.2


class Busy(RailyardError):
    """Another process holds the lock and does not release it in time."""


@contextlib.contextmanager
def turn(system: System, who: str, seconds: float, file: str = FILE) -> t.Iterator[None]:
    """Wait for the lock and hold it.

    :param who: the holder's name, reported to processes that wait. :param seconds: how long to wait.
    :param file: the lock file; another kind of work uses another file.
    :raises Busy: if the lock is not free in time. :raises RailyardError: if the file cannot be created.
    """
    seconds = max(seconds, 0)
    deadline = time.monotonic() + seconds
    descriptor = _try_lock(system, file)
    while descriptor is None:
        _sleep_or_fail(system, deadline, seconds, file)
        descriptor = _try_lock(system, file)
    try:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        # a holder that was killed has left its name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, ("%s (pid %d), since %s" % (who, os.getpid(), since)).encode(), 0)
        yield
    finally:
        # a waiting process notices that the file it locked was removed, and creates a new one
        with contextlib.suppress(RailyardError):
            system.remove_file(file)
        # closing is not enough: a child process that hangs in the kernel still has the descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextlib.contextmanager
def changing(system: System, locks: t.Sequence[str], who: str, seconds: float) -> t.Iterator[None]:
    """Hold the locks that changes need. State must be observed under them.

    :param locks: the files, in the order of :attr:`.Subsystem.locks`.
    :param seconds: how long to wait for each lock.
    :raises Busy: if one is not free in time.
    """
    with contextlib.ExitStack() as stack:
        for file in locks:
            stack.enter_context(turn(system, who, seconds, file))
        yield


@contextlib.contextmanager
def attaching(system: System, seconds: float) -> t.Iterator[None]:
    """Hold :data:`DEVICES` shared with other attaches of pods.

    :param seconds: how long to wait for a run that changes devices. :raises Busy: if it does not end in time.
    """
    deadline = time.monotonic() + seconds
    descriptor = _try_lock(system, DEVICES, fcntl.LOCK_SH)
    while descriptor is None:
        _sleep_or_fail(system, deadline, seconds, DEVICES)
        descriptor = _try_lock(system, DEVICES, fcntl.LOCK_SH)
    try:
        # a run that was killed has left its name
        os.ftruncate(descriptor, 0)
        yield
    finally:
        # other attaches may hold it, and the last one removes it
        with contextlib.suppress(BlockingIOError, RailyardError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            system.remove_file(DEVICES)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def wait(system: System, seconds: float, file: str = FILE) -> None:
    """Wait until the lock is free, because state observed during another run is incomplete.

    :raises Busy: if the lock is not free after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while _is_held(system, file):
        _sleep_or_fail(system, deadline, seconds, file)


def _sleep_or_fail(system: System, deadline: float, seconds: float, file: str) -> None:
    if time.monotonic() < deadline:
        time.sleep(_LOOK)
        return
    holder = system.read(file) or ("an attach of a pod" if file == DEVICES else "another run")
    raise Busy(
        "%s is at work on this node, and has not come to an end within %.0f s" % (holder, seconds),
        file,
        "wait for it and run the task again, or end that process if it hangs",
    )


def _try_lock(system: System, file: str, kind: int = fcntl.LOCK_EX) -> int | None:
    """Return the descriptor of the locked file; None if another process holds the lock."""
    path = system.path(file)
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RailyardError("cannot be made: %s" % error.strerror, file, "run the task with become") from None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _is_held(system: System, file: str) -> bool:
    try:
        descriptor = os.open(system.path(file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # the file does not exist; if it is not readable, the change reports it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
