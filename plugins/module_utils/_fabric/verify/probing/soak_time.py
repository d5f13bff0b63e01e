# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of a soak, as ``verify_soak`` has it."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

_TIME = re.compile(r"\s*(\d{1,6})\s*([smhd]?)\s*\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Seconds of a week.
SECONDS_MAX = 604800


def seconds(value: t.Any) -> int:
    """Return the seconds of a number, or of a text such as ``90``, ``30m``, ``8h`` or ``1d``; 0: no soak.

    :raises RailyardError: for other texts, and for more than a week.
    """
    found = _TIME.match(str(value if value is not None else 0))
    number = int(found.group(1)) * _SECONDS[found.group(2)] if found else -1
    if not 0 <= number <= SECONDS_MAX:
        remedy = "write seconds, or a number with s, m, h or d, such as 30m or 8h; a week is the maximum"
        raise RailyardError("%s is not a time" % (value or "an empty text"), "verify_soak", remedy)
    return number
