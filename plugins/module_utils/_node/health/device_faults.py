# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the health service found on rails and planes, for the taints of DRA devices that the rail agent publishes."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import PLANE_FAULT, RAIL_FAULT
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_check, health_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import FAIL, RailState

# Longest value of a taint.
VALUE_MAX = 63
# Key and value of a taint.
Fault = t.Tuple[str, str]


def look(system: System) -> dict[str, Fault]:
    """Return rail -> its taint: the codes of its findings, or the numbers of its planes that fail. Both have dots
    between them.

    Rails without a fault are omitted. Empty without the option ``device_taints``, and without a fresh state: a service
    that does not run is not a fault of the rails.
    """
    try:
        options = health_spec.read_spec(system).kubernetes if system.exists(health_spec.FILE) else None
        if not (options and options.device_taints):
            return {}
        state = health_check.read(system)
        # raises an error if the state is stale
        health_check.judge(state, time.time(), system.read(health_check.BOOT_ID) or "", (), health_check.MAX_AGE)
    except RailyardError:
        return {}
    return {rail.rail: fault for rail in state.rails for fault in [_fault(rail)] if fault}


def _fault(rail: RailState) -> Fault | None:
    if rail.state == FAIL:
        return RAIL_FAULT, joined(finding.code for finding in rail.findings)
    lost = [str(plane.plane) for plane in rail.planes if plane.state == FAIL]
    return (PLANE_FAULT, joined(lost)) if lost else None


def joined(values: t.Iterable[str]) -> str:
    """Return the value of a taint: different values with dots between them, shortened."""
    parts = {part for value in values for part in value.split(".") if part}
    return ".".join(sorted(parts))[:VALUE_MAX].rstrip(".")
