# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a rail stays cordoned after it has recovered: each new failure doubles the time, so that a link that fails
again and again does not get new pods in between.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import FAIL, PASS

# Kept over a restart of the service. It ends with the boot, as the clock does.
FILE = "/run/railyard/health/holds.json"
# What the service may have written for Kubernetes, so that it is removed after the option, the service or a boot has
# ended; see node_reports.
REPORTED = "/var/lib/railyard/health/reported.json"
# Seconds after the first recovery, the maximum, and seconds without a failure after which the next one is the first.
FIRST, MAXIMUM, FORGOTTEN = 30.0, 3600.0, 7200.0


class Hold(t.NamedTuple):
    """``failures``: how often the rail has failed. ``until``: seconds of the monotonic clock, if it does not fail."""

    rail: str
    failures: int
    failing: bool
    until: float = 0.0

    def active(self, now: float) -> bool:
        return self.failing or now < self.until


def holds(system: System) -> RecordFile[Hold]:
    """Return the holds by rail. Raises :class:`.RailyardError` if the file is damaged."""
    return RecordFile(
        system,
        FILE,
        "holds",
        lambda row: Hold(**row),
        lambda hold: dict(hold._asdict()),
        lambda hold: hold.rail,
        ("the repeated failures of rails are unknown", "remove the file, and restart railyard-health"),
    )


def follow(hold: Hold | None, rail: str, state: str, now: float) -> Hold | None:
    """Return the hold after an observation; None if the rail has not failed for a long time.

    An unknown state is neither a failure nor a recovery.

    :param state: of the rail. :param now: seconds of the monotonic clock.
    """
    if state == FAIL and (hold is None or not hold.failing):
        return Hold(rail, hold.failures + 1 if hold else 1, True)
    if hold and state == PASS and hold.failing:
        # 2.0 ** 1024 is too large for a number
        return Hold(rail, hold.failures, False, now + min(FIRST * 2.0 ** min(hold.failures - 1, 32), MAXIMUM))
    if hold and not hold.failing and now >= hold.until + FORGOTTEN:
        return None
    return hold
