# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Waits for answers on many sockets."""

from __future__ import annotations

import select
import time
import typing as t

# Rounds in which late answers are read: a flood of packets must not keep a module running.
_LATE_ROUNDS = 4096


def ready(poller: select.poll, seconds: float, wanted: t.Callable[[], bool]) -> t.Iterator[int]:
    """Descriptors that have something to read, while answers are wanted and the time is not up.

    What came in time is read, also if a busy node let this process run too late.
    """
    deadline = time.monotonic() + seconds
    late = 0
    while wanted() and late < _LATE_ROUNDS:
        left = deadline - time.monotonic()
        events = poller.poll(max(0.0, left) * 1000)
        if left <= 0:
            if not events:
                return
            late += 1
        for descriptor, _event in events:
            yield descriptor
