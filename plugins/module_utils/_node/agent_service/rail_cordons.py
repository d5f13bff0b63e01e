# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module rail_cordon: cordons and uncordons rails of a node. Cordons of administrators stay."""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, rail_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon

BY = "rail_cordon"
DEFAULT_REASON = "by rail_cordon"


class RailCordons(Subsystem):
    """The cordoned rails. ``options``: ``rails``, rail -> reason."""

    lock = ""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._desired = {str(rail): str(reason or DEFAULT_REASON) for rail, reason in options["rails"].items()}

    def observe(self) -> State:
        return {"rails": cordon_file.observed_cordons(self._system)}

    def changes(self, state: State) -> list[Change]:
        if self._desired:
            self._check()
        observed = state["rails"]
        cordons = cordon_file.cordons(self._system)
        changes = []
        for rail, reason in self._desired.items():
            before = observed.get(rail)
            if before is None or (before["by"] == BY and before["reason"] != reason):
                put = partial(cordon_file.put_own, cordons, Cordon(rail, reason, BY))
                changes.append(Change("rail " + rail, "cordon", before and before["reason"], reason, put))
        for rail, before in observed.items():
            if before["by"] == BY and rail not in self._desired:
                remove = partial(cordon_file.remove_own, cordons, rail, BY)
                changes.append(Change("rail " + rail, "cordon", before["reason"], None, remove))
        return changes

    def _check(self) -> None:
        spec = agent_spec.read_spec(self._system)
        errors: list[RailyardError] = []
        for rail in self._desired:
            try:
                rail_health.check_rail(spec, rail)
            except RailyardError as error:
                errors.append(error)
        raise_all(errors)
