# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The locks of a node: :data:`FILE`, which lets only one run at a time change the node (a module, the boot program, or
the handler of a device that returns), and :data:`DEVICES`, which keeps pods from getting devices while a run changes
devices. Other work that must not run twice at the same time uses another file.

A lock is an flock(2) on a file that names its holder. The kernel releases it when the holder ends. The file exists only
while the lock is held, so a run that has nothing to change writes nothing. Only root can open it, because a user who
can open a file can lock it.
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
# Seconds between two attempts.
_LOOK = 0.05


class Busy(RailyardError):
    """Another process holds the lock and does not release it in time."""


class Lock:
    """The lock of a file.

    :param who: the holder's name, reported to other processes. Without it, the file stays empty and needs no space.
    :param shared: other processes may hold the lock too if they share it. The last one removes the file.
    """

    def __init__(self, system: System, who: str, file: str = FILE, shared: bool = False) -> None:
        self._system = system
        self._who = who
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._descriptor: int | None = None
        self.file = file

    @property
    def held(self) -> bool:
        """Whether this process has the lock, and its file is still the one that other processes lock."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._system.path(self.file)))
        except OSError:
            return False

    @property
    def holder(self) -> str:
        """The holder's name, process ID and start of the lock."""
        return self._system.read(self.file) or ("an attach of a pod" if self.file == DEVICES else "another run")

    def take(self) -> bool:
        """Try once to lock the file, and return whether this process has the lock.

        :raises RailyardError: if the file cannot be created.
        """
        descriptor = self._locked()
        if descriptor is None:
            return False
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = "%s (pid %d), since %s" % (self._who, os.getpid(), since) if self._who else ""
        # on a full filesystem, the lock is held without a name
        with contextlib.suppress(OSError):
            # a holder that was killed has left its name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        self.release()
        self._descriptor = descriptor
        return True

    def _locked(self) -> int | None:
        """Return the descriptor of the locked file; None if another process holds the lock."""
        path = self._system.path(self.file)
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            remedy = "make its directory writable for root, and run the task with become"
            raise RailyardError("cannot be made: %s" % error.strerror, self.file, remedy) from None
        try:
            fcntl.flock(descriptor, self._kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        return None

    @property
    def free(self) -> bool:
        """Whether no process holds the lock exclusively."""
        try:
            descriptor = os.open(self._system.path(self.file), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True  # the file does not exist; if it is not readable, the change reports it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait_for(self, ready: t.Callable[[], bool], seconds: float) -> None:
        """Wait until ``ready`` returns True. Raises :class:`Busy` if it does not within ``seconds``."""
        seconds = max(seconds, 0)
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() >= deadline:
                raise Busy(
                    "%s holds the lock of this node, and did not release it within %.0f s" % (self.holder, seconds),
                    self.file,
                    "wait for it and run the task again, or end that process if it hangs",
                )
            time.sleep(_LOOK)

    def release(self) -> None:
        """Remove the file, and end the lock."""
        if self._descriptor is None:
            return
        # a waiting process notices that the file it locked was removed, and creates a new one
        if self.held:
            with contextlib.suppress(BlockingIOError, RailyardError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._system.remove_file(self.file)
        # closing is not enough: a child process that hangs in the kernel still has the descriptor
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
        self._descriptor = None


@contextlib.contextmanager
def turn(system: System, who: str, seconds: float, file: str = FILE, shared: bool = False) -> t.Iterator[None]:
    """Wait for the lock and hold it.

    :param who: the holder's name, reported to processes that wait. :param shared: see :class:`Lock`.
    :param seconds: how long to wait. :param file: the lock file; another kind of work uses another file.
    :raises Busy: if the lock is not free in time. :raises RailyardError: if the file cannot be created.
    """
    lock = Lock(system, who, file, shared)
    lock.wait_for(lock.take, seconds)
    try:
        yield
    finally:
        lock.release()


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


def attaching(system: System, seconds: float) -> t.ContextManager[None]:
    """Hold :data:`DEVICES` shared with other attaches of pods.

    :param seconds: how long to wait for a run that changes devices. :raises Busy: if it does not end in time.
    """
    return turn(system, "", seconds, DEVICES, shared=True)


def wait(system: System, seconds: float, file: str = FILE) -> None:
    """Wait until the lock is free, because state observed during another run is incomplete.

    :raises Busy: if the lock is not free after ``seconds``.
    """
    lock = Lock(system, "", file)
    lock.wait_for(lambda: lock.free, seconds)
