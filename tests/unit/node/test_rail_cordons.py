# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rail_cordon beside an administrator's cordons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.rail_cordons import BY, RailCordons
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon
from tests.unit.node.agent_files import document, rail


@pytest.fixture
def system(tmp_path: Path) -> System:
    made = System(str(tmp_path))
    made.write_file(agent_spec.FILE, json.dumps(document(*(rail(number) for number in (1, 2, 3)))))
    return made


def apply(system: System, **rails: str) -> list[tuple[str, str | None]]:
    """Return the rails that were changed, each with the reason after."""
    subsystem = RailCordons({"rails": rails}, system)
    state = subsystem.observe()
    changes = subsystem.changes(state)
    converge(subsystem, state, changes, [])
    return [(change.subject, change.after) for change in changes]


def observed(system: System) -> set[Cordon]:
    return set(cordon_file.cordons(system).all().values())


def test_rails_are_cordoned_and_uncordoned(system: System) -> None:
    assert apply(system, gpu01="RV601", gpu02="RV603") == [("rail gpu01", "RV601"), ("rail gpu02", "RV603")]
    assert observed(system) == {Cordon("gpu01", "RV601", BY), Cordon("gpu02", "RV603", BY)}
    assert apply(system, gpu01="RV601", gpu02="RV603") == []
    assert apply(system, gpu02="RV604") == [("rail gpu02", "RV604"), ("rail gpu01", None)]
    assert apply(system) == [("rail gpu02", None)]
    assert observed(system) == set()


def test_an_administrators_cordon_stays(system: System) -> None:
    own = Cordon("gpu03", "a new cable")
    cordon_file.cordons(system).put(own)
    assert apply(system, gpu03="RV601", gpu01="RV601") == [("rail gpu01", "RV601")]
    assert apply(system) == [("rail gpu01", None)]
    assert observed(system) == {own}


def test_unknown_rails_are_refused_together(system: System) -> None:
    with pytest.raises(RailyardError) as caught:
        apply(system, gpu01="x", gpu08="x", gpu09="x")
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["rail gpu08", "rail gpu09"]
    assert observed(system) == set()


def test_a_node_without_the_agent_is_refused_unless_nothing_is_cordoned(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    assert apply(system) == []
    with pytest.raises(RailyardError, match="does not exist"):
        apply(system, gpu01="x")


def test_a_damaged_file_is_an_error_with_a_remedy(system: System) -> None:
    system.write_file(cordon_file.CORDONS, "{")
    with pytest.raises(RailyardError, match="is damaged .* Remedy: remove the file"):
        apply(system)
