# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run many requests concurrently, with a limit, and repeat requests whose object another client changed."""

from __future__ import annotations

import itertools
import threading
import time
import typing as t
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Exists, Refusal

T = t.TypeVar("T")
R = t.TypeVar("R")
Say = t.Callable[[str], None]
# Maximum number of errors in a report; seconds between two lines of progress.
SHOWN = 20
EVERY = 10.0
# Seconds before each retry of a request whose object another client changed, such as a kubelet that reports its status.
_PAUSES = (0.0, 0.1, 0.3, 1.0, 3.0)
# Concurrent requests at the start.
_START = 2
# Minimum number of answers in a measurement.
_COUNTED = 4
# Factor by which the next larger number must increase the throughput.
_GAIN = 1.15
# Measurements until the next larger number is tried again; doubled by each failed try.
_HOLD, _HOLD_MOST = 3, 48


class Pace:
    """Sends more requests concurrently only if that increases the throughput. ``limit``: how many are allowed now.

    A server with a webhook that handles one request at a time answers each one later if more are sent at once. So the
    throughput of each number of requests is measured. The smallest number is used whose throughput the next larger one
    does not clearly exceed. The sender calls :meth:`done` for each answer.

    :param most: the greatest limit.
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


def each(
    do: t.Callable[[T], None], items: t.Sequence[T], workers: int, say: Say, doing: str, pace: Pace | None = None
) -> None:
    """Call ``do`` with every item.

    :param say: called with a line such as "DOING: 1200 of 32768" every ten seconds.
    :param pace: limits the workers according to measurements; without it, all workers are used.
    :raises RailyardError: for all refusals. An error that affects every item stops the work at once.
    """
    stop = threading.Event()
    errors: list[tuple[int, RailyardError]] = []

    def one(item: T) -> None:
        if stop.is_set():
            return
        try:
            do(item)
        except RailyardError as error:
            if not isinstance(error, Refusal) or error.general:
                stop.set()
            raise

    workers = max(1, workers)
    last, count = time.monotonic(), 0
    left = iter(enumerate(items))
    running: dict[Future[None], int] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            while True:
                room = (pace.limit if pace else workers) - len(running)
                for number, item in itertools.islice(left, max(0, room)):
                    running[pool.submit(one, item)] = number
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, error = running.pop(future), future.exception()
                    count += 1
                    if pace:
                        pace.done(time.monotonic())
                    if isinstance(error, RailyardError):
                        errors.append((number, error))
                    elif error is not None:
                        raise error
                if time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    say("%s: %d of %d" % (doing, count, len(items)))
        finally:
            stop.set()
    raise_refused(errors)


def repeated(send: t.Callable[[], R]) -> R:
    """Return the result of ``send``, which is called again if its object was created or changed meanwhile.

    :raises Exists: if that happens during each try.
    """
    for pause in _PAUSES:
        try:
            return send()
        except Exists:
            time.sleep(pause)
    return send()


def raise_refused(errors: list[tuple[int, RailyardError]]) -> None:
    """Raise all refusals, ordered by the number of their items, or the one error that affects every item."""
    errors.sort(key=lambda item: item[0])
    general = [error for _number, error in errors if isinstance(error, Refusal) and error.general]
    if general:
        raise general[0]
    found = [error for _number, error in errors]
    left = len(found) - SHOWN
    if left > 0:
        found = [*found[:SHOWN], RailyardError("%d more are refused likewise" % left, remedy="fix those above first")]
    raise_all(found)
