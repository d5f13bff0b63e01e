# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an LLDP neighbour is a planned leaf, and its port the planned one."""

from __future__ import annotations


def same(spec: str, *names: str | None) -> bool:
    """Return whether one of the names is the planned one. A switch may add its domain, and a port name a blank."""
    plain = spec.lower().replace(" ", "")
    forms = [(each or "").lower().replace(" ", "") for each in names]
    return any(each and plain in (each, each.partition(".")[0]) for each in forms)
