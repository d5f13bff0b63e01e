# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Control how many requests are sent concurrently: more are sent only if that increases the throughput.

A server with a webhook that handles one request at a time does not answer more requests if more are sent at once, but
each one later. So the throughput of each number of requests is measured. The smallest number is used whose throughput
the next larger one does not clearly exceed.
"""

from __future__ import annotations

# Concurrent requests at the start.
_START = 2
# Minimum number of answers in a measurement.
_COUNTED = 4
# Factor by which the next larger number must increase the throughput.
_GAIN = 1.15
# Measurements until the next larger number is tried again; doubled by each failed try.
_HOLD, _HOLD_MOST = 3, 48


class Pace:
    """``limit`` is the number of concurrent requests that are allowed now, at most ``most``.

    It reads no clock and starts nothing: the sender calls :meth:`done` for each answer.
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
        """The current maximum number of requests at the same time."""
        return self._levels[self._at]

    def done(self, now: float) -> None:
        """Record an answer at the time ``now``, in seconds."""
        if self._left_over:
            # the request was sent under another limit
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
            # a larger number is not faster, so a smaller one may be as fast
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
