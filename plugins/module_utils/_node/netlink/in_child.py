# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run calls that may block in the kernel forever, without reaction to signals, in a child process."""

from __future__ import annotations

import json
import os
import select
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError


def apart(act: t.Callable[[], None], seconds: float) -> bool:
    """Run ``act`` in a child process. Raises the :class:`NetlinkError` that ``act`` raised there.

    :return: whether it ended within ``seconds``; otherwise the child continues.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        _child(act, write_end)
    os.close(write_end)
    try:
        ready, _write, _except = select.select([read_end], [], [], seconds)
        if not ready:
            return False
        output = os.read(read_end, 65536)
    finally:
        os.close(read_end)
    os.waitpid(pid, 0)
    if not output:
        raise ChildProcessError("the child ended without a result")
    error = json.loads(output)
    if error:
        raise NetlinkError(error["errno"], error["reason"], error["place"])
    return True


def _child(act: t.Callable[[], None], write_end: int) -> t.NoReturn:
    try:
        # processes that wait for the end of these streams must not wait for the child
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.setsid()
        error = None
        try:
            act()
        except NetlinkError as raised:
            error = {"errno": raised.errno, "reason": raised.reason, "place": raised.place}
        os.write(write_end, json.dumps(error).encode())
    finally:
        os._exit(0)
