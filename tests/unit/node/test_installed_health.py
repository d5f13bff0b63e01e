# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health service as a service of a node: files, restarts and refusals, in a tree of the test's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_spec, health_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service.installed_health import (
    SERVICE,
    HealthService,
)
from tests.unit.node.service_machine import ServiceMachine

SPEC = {"format": 1, "fabric": "ai", "node": "ai-1", "rails": [{"rail": "gpu01", "netdev": "eth1"}]}
FILES = [
    SERVICE.command,
    SERVICE.program,
    SERVICE.unit,
    SERVICE.unit_wanted,
    health_spec.FILE,
]


@pytest.fixture
def machine(tmp_path: Path) -> ServiceMachine:
    return ServiceMachine(tmp_path, HealthService, SPEC)


def test_the_service_is_installed_once_and_removed(machine: ServiceMachine) -> None:
    machine.apply()
    assert machine.calls == ["daemon-reload", "restart"] and machine.files() == sorted(FILES)
    assert [machine.mode(each) for each in (SERVICE.program, health_spec.FILE)] == [0o755, 0o644]
    assert machine.service().observe() == {"spec": SPEC, "service": {"enabled": True, "active": True}}
    machine.write_file(health_state.FILE, "{}")
    machine.apply(state="absent", spec=None)
    assert machine.calls == ["stop", "daemon-reload"] and machine.files() == []


def test_a_changed_spec_restarts_nothing(machine: ServiceMachine) -> None:
    machine.apply()
    (change,) = machine.apply(spec=dict(SPEC, interval=10))
    assert (change.subject, machine.calls) == (health_spec.FILE, [])


def test_another_program_or_unit_restarts_the_service_and_a_stopped_one_is_started(machine: ServiceMachine) -> None:
    machine.apply()
    machine.write_file(SERVICE.program, b"older", 0o755)
    assert [each.subject for each in machine.apply()] == [SERVICE.program]
    machine.write_file("/proc/4711/environ", SERVICE.stamp + "=0")
    assert [each.subject for each in machine.apply()] == [SERVICE.name]
    machine.active = False
    (change,) = machine.apply()
    assert (change.before, change.after, change.kind) == ("inactive", "started", "setting")


def test_a_damaged_spec_is_replaced_and_a_wrong_one_refused(machine: ServiceMachine) -> None:
    machine.write_file(health_spec.FILE, "[" * 100000)
    assert machine.service().observe()["spec"] is None
    machine.apply()
    before = machine.files()
    with pytest.raises(RailyardError, match="neither netdev") as error:
        machine.apply(spec=dict(SPEC, rails=[{"rail": "gpu01"}]))
    assert error.value.place == "spec" and machine.files() == before
    os.rmdir(machine.path("/run/systemd/system"))
    with pytest.raises(RailyardError, match="systemd does not run"):
        machine.apply()


def test_a_user_cannot_replace_the_program(machine: ServiceMachine) -> None:
    directory = machine.path(os.path.dirname(SERVICE.program))
    os.makedirs(directory)
    os.chmod(directory, 0o777)
    with pytest.raises(RailyardError, match="a user could replace it"):
        machine.apply()


def test_the_unit_runs_what_was_installed(machine: ServiceMachine) -> None:
    machine.apply()
    unit = machine.read_file(SERVICE.unit) or ""
    assert "ExecStart=" in unit and SERVICE.program + " run" in unit and "{" not in unit
    assert json.loads(machine.read_file(health_spec.FILE) or "") == SPEC
