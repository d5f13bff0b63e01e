# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a part of the health service beside the observation of rails is: probes, metrics, reports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import Fact
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import HealthState, Row


class HealthPart:
    """One part. All methods are called by the thread of the service, and must not wait for the network.

    They may raise :class:`.RailyardError`, which is a problem of the service until the next call succeeds.
    """

    # place of its problems
    name = "part"

    def __init__(self, system: System) -> None:
        self._system = system

    def follow(self, spec: HealthSpec) -> None:
        """Follow a spec, at the start and after each change of its file."""

    def facts(self, now: float) -> t.Mapping[str, t.Sequence[Fact]]:
        """Return rail -> differences. ``now``: seconds of the clock of the service (CLOCK_BOOTTIME)."""
        return {}

    def rows(self) -> t.Mapping[str, Row]:
        """Return rail -> its ``probe`` in the state."""
        return {}

    def publish(self, state: HealthState) -> None:
        """Use a new state, after it was written."""

    def close(self) -> None:
        """End, with the service."""
