# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Many requests side by side, so many at a time and no more."""

from __future__ import annotations

import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor, as_completed

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils.kube.answers import Refusal

T = t.TypeVar("T")
Say = t.Callable[[str], None]
# Errors alike say no more than some of them; seconds between two lines of progress.
SHOWN = 20
EVERY = 10.0


def each(do: t.Callable[[T], None], items: t.Sequence[T], workers: int, say: Say, doing: str) -> None:
    """Call ``do`` with every item.

    :param say: gets a line like "DOING: 1200 of 32768" every ten seconds.
    :raises RailyardError: what was refused, all of it; an error that would meet every item ends the work at once.
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

    last = time.monotonic()
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        futures = {pool.submit(one, item): number for number, item in enumerate(items)}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                error = future.exception()
                if isinstance(error, RailyardError):
                    errors.append((futures[future], error))
                elif error is not None:
                    raise error
                if time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    say("%s: %d of %d" % (doing, count, len(items)))
        finally:
            stop.set()
    _raise(errors)


def _raise(errors: list[tuple[int, RailyardError]]) -> None:
    errors.sort(key=lambda item: item[0])
    general = [error for _number, error in errors if isinstance(error, Refusal) and error.general]
    if general:
        raise general[0]
    found = [error for _number, error in errors]
    left = len(found) - SHOWN
    if left > 0:
        found = [*found[:SHOWN], RailyardError("%d more are refused likewise" % left, remedy="mend those above first")]
    raise_all(found)
