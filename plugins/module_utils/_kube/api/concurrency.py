# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Run many requests concurrently, with a limit, and repeat one whose object others change."""

from __future__ import annotations

import itertools
import threading
import time
import typing as t
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Exists, Refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.pace import Pace

T = t.TypeVar("T")
R = t.TypeVar("R")
Say = t.Callable[[str], None]
# Maximum number of errors in a report; seconds between two lines of progress.
SHOWN = 20
EVERY = 10.0
# Seconds before each further try of a request whose object others change, such as by a report of a kubelet.
_PAUSES = (0.0, 0.1, 0.3, 1.0, 3.0)


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
