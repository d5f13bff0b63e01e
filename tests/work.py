# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work something is: the same number on an idle and on a busy machine, which seconds are not."""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import typing as t


@contextlib.contextmanager
def at_most(calls: int) -> t.Iterator[None]:
    """Fail if the block calls functions more often: work that grows faster than the fabric does so by far."""
    with cProfile.Profile() as profile:
        yield
    done = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    assert done <= calls, "%d calls of functions, and at most %d are allowed" % (done, calls)
