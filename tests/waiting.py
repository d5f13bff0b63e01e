# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How tests wait: until something is so, for minutes if the machine is busy. What never comes fails the test."""

from __future__ import annotations

import time
import typing as t

T = t.TypeVar("T")
SECONDS = 120.0


def wait_for(ask: t.Callable[[], T], problem: str | t.Callable[[], t.Any] = "it never is so", pause: float = 0.05) -> T:
    """Ask until the answer is true, and return it. AssertionError with the ``problem`` if it stays false."""
    deadline = time.monotonic() + SECONDS
    while True:
        late = time.monotonic() >= deadline
        found = ask()
        if found:
            return found
        assert not late, problem() if callable(problem) else problem
        time.sleep(pause)


def retried(do: t.Callable[[], T], *errors: type[BaseException]) -> T:
    """Call until no such error is raised, and return what is returned. The last error if it does not end."""
    deadline = time.monotonic() + SECONDS
    while True:
        late = time.monotonic() >= deadline
        try:
            return do()
        except errors:
            if late:
                raise
        time.sleep(0.2)
