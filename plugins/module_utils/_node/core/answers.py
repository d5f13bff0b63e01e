# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wait for answers on several sockets."""

from __future__ import annotations

import select
import time
import typing as t

# The most rounds in which late answers are read, so that a flood of packets cannot keep a module running.
_LATE_ROUNDS = 4096


def ready(poller: select.poll, seconds: float, wanted: t.Callable[[], bool]) -> t.Iterator[int]:
    """Yield file descriptors that are readable, until no more answers are wanted or ``seconds`` have passed.

    Answers that arrived in time are also read if a busy node scheduled this process too late.
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
