# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How many requests are sent at the same time: more of them only where that makes the whole faster.

A server with a webhook that handles one request after the other answers later, and not more often, when it has more
requests at once. So the throughput of each number of requests is measured, and the smallest number is used whose
throughput the next larger one does not clearly exceed.
"""

from __future__ import annotations

# Requests at the same time at the beginning.
_START = 2
# The least number of answers before a number of requests is judged.
_COUNTED = 4
# How many times as many answers the next larger number must give.
_GAIN = 1.15
# Measurements until the next larger number is tried again, doubled by each try that fails.
_HOLD, _HOLD_MOST = 3, 48


class Pace:
    """``limit`` is the number of requests that may be under way now; at most ``most``.

    It reads no clock and starts nothing: the sender calls :meth:`done` when an answer came.
    """

    def __init__(self, most: int) -> None:
        self._levels = [1]
        while self._levels[-1] < most:
            self._levels.append(min(most, 2 * self._levels[-1]))
        self._at = self._levels.index(_START) if _START in self._levels else 0
        self._rates: dict[int, float] = {}
        self._hold = 0
        self._next_hold = _HOLD
        self._left_over = self._count = 0
        self._since: float | None = None

    @property
    def limit(self) -> int:
        return self._levels[self._at]

    def done(self, now: float) -> None:
        """An answer came at this moment, in seconds."""
        if self._left_over:
            # it was sent while another number was in force
            self._left_over -= 1
            self._since = now
            return
        if self._since is None:
            self._since = now
            return
        self._count += 1
        if self._count >= max(_COUNTED, 2 * self.limit) and now > self._since:
            self._rates[self._at] = self._count / (now - self._since)
            self._judge()

    def _judge(self) -> None:
        rate, before = self._rates[self._at], self._rates.get(self._at - 1)
        above = self._rates.get(self._at + 1)
        if before is not None and rate < _GAIN * before:
            self._hold, self._next_hold = self._next_hold, min(_HOLD_MOST, 2 * self._next_hold)
            return self._move(-1)
        if self._at + 1 == len(self._levels):
            return self._move(0)
        if above is None or above >= _GAIN * rate:
            return self._move(1)
        if self._at and before is None:
            # more is not faster here, so less may be as fast
            return self._move(-1)
        self._hold -= 1
        if self._hold <= 0:
            del self._rates[self._at + 1]
            return self._move(1)
        return self._move(0)

    def _move(self, step: int) -> None:
        under_way = self.limit
        self._at += step
        self._begin(under_way if step else 0)

    def _begin(self, left_over: int = 0) -> None:
        self._left_over = left_over
        self._count = 0
        self._since = None
