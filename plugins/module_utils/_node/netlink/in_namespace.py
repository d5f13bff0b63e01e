# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a function in another network namespace, in a thread that enters the namespace. The process does not change.

A socket belongs to the namespace in which it was opened, and ``/proc/sys/net`` shows the reader's namespace. ``/sys``
shows the namespace in which it was mounted, so it still shows the process's namespace.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import typing as t

CLONE_NEWNET = 0x40000000
SO_NETNS_COOKIE = 71
Found = t.TypeVar("Found")


def enter(fd: int) -> None:
    """Move the calling thread to the network namespace of a file descriptor. Raises OSError."""
    if hasattr(os, "setns"):
        os.setns(fd, CLONE_NEWNET)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def cookie() -> int | None:
    """Return the number of the calling thread's network namespace, which no other one has until the next boot.

    None before Linux 5.14.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
        except OSError:
            return None


def in_namespace(fd: int, work: t.Callable[[], Found]) -> Found:
    """Run ``work`` in the namespace of a file descriptor. Return its result, or raise its exception."""
    results: list[Found] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            enter(fd)
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
