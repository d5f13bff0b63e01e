# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Events of the node that end a wait of the agent: changes of links, and of files in directories.

Sources: rtnetlink(7), group RTMGRP_LINK; inotify(7).
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

    :param changed: called after a change of links, or of a name in one of the directories.
    """

    def __init__(self, changed: t.Callable[[], None]) -> None:
        self._changed = changed
        self._fds: list[int] = []
        with contextlib.suppress(OSError):
            kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            sock = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
            sock.bind((0, RTMGRP_LINK))
            self._fds.append(sock.detach())
        self._libc = ctypes.CDLL(None)
        self._inotify = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._inotify >= 0:
            self._fds.append(self._inotify)
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def watch(self, directory: str) -> bool:
        """Follow a directory; repeated calls are harmless. Return False if it cannot be followed or does not exist."""
        added = self._libc.inotify_add_watch(self._inotify, os.fsencode(directory), DIRECTORY_CHANGES)
        return bool(added >= 0)

    def _run(self) -> None:
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        while self._fds:
            for fd, _event in poll.poll():
                _discard(fd)
            self._changed()
            time.sleep(PAUSE)


def _discard(fd: int) -> None:
    """Read all events of a source, so that many of them are one report."""
    for _read in range(_READS_MAX):
        try:
            os.read(fd, _READ_MAX)
        except BlockingIOError:
            return
        except OSError:
            pass  # an overrun (ENOBUFS) also means that something changed
