# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of the node that end a wait of the agent: changes of links, of RDMA devices, and of files in directories.

Sources: rtnetlink(7), group RTMGRP_LINK; inotify(7); netlink(7), NETLINK_KOBJECT_UEVENT, which reports RDMA devices on
all kernels (RDMA_NL_GROUP_NOTIFY of RDMA netlink: from Linux 6.12 on, and only after ib_core is loaded).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading
import time
import typing as t

RTMGRP_LINK = 1
# The kernel's own events of devices; group 2 has those that udev sends again. Python has no constant for the family.
NETLINK_KOBJECT_UEVENT, UEVENT_KERNEL = 15, 1
# Of infiniband and infiniband_verbs. Most events of devices are of other subsystems.
RDMA_SUBSYSTEM = b"SUBSYSTEM=infiniband"
# IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF and IN_ONLYDIR
DIRECTORY_CHANGES = 0x80 | 0x100 | 0x200 | 0x400 | 0x01000000
# Seconds between two reports, so that frequent changes do not keep the agent busy.
PAUSE = 1.0
_READ_MAX = 1 << 16
# Most reads of a source between two reports. A netlink socket has room for fewer messages.
_READS_MAX = 1000


class NodeEvents:
    """Reports changes from a separate thread, until the process ends.

    Without netlink or inotify, changes are not reported, and the agent's periodic check finds them.

    :param changed: called after a change of links or RDMA devices, or of a name in one of the directories.
    """

    def __init__(self, changed: t.Callable[[], None]) -> None:
        self._changed = changed
        self._fds: list[int] = []
        self._uevents = self._follow(NETLINK_KOBJECT_UEVENT, UEVENT_KERNEL)
        self._follow(socket.NETLINK_ROUTE, RTMGRP_LINK)
        self._libc = ctypes.CDLL(None)
        self._inotify = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._inotify >= 0:
            self._fds.append(self._inotify)
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def watch(self, directory: str) -> bool:
        """Follow a directory; repeated calls are harmless. Return False if it cannot be followed or does not exist."""
        added = self._libc.inotify_add_watch(self._inotify, os.fsencode(directory), DIRECTORY_CHANGES)
        return bool(added >= 0)

    def _follow(self, family: int, groups: int) -> int:
        """Follow groups of a netlink family. Return the file descriptor; -1 if the kernel does not have them."""
        with contextlib.suppress(OSError):
            kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            sock = socket.socket(socket.AF_NETLINK, kind, family)
            sock.bind((0, groups))
            self._fds.append(sock.detach())
            return self._fds[-1]
        return -1

    def _run(self) -> None:
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        while self._fds:
            changed = [self._read(fd) for fd, _event in poll.poll()]
            if any(changed):
                self._changed()
                time.sleep(PAUSE)

    def _read(self, fd: int) -> bool:
        """Read all events of a source, so that many of them are one report. Return whether one is to be reported."""
        changed = False
        for _read in range(_READS_MAX):
            try:
                event = os.read(fd, _READ_MAX)
            except BlockingIOError:
                break
            except OSError:
                changed = True  # an overrun (ENOBUFS) also means that something changed
            else:
                changed = changed or fd != self._uevents or RDMA_SUBSYSTEM in event
        return changed
