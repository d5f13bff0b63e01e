# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health service as a service of a node: files, restarts and refusals, in a tree of the test's own."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_spec, health_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service import installed_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service.installed_health import (
    HealthService,
)

SPEC = {"format": 1, "fabric": "ai", "node": "ai-1", "rails": [{"rail": "gpu01", "netdev": "eth1"}]}
FILES = [
    installed_health.COMMAND,
    installed_health.PROGRAM,
    installed_health.UNIT,
    installed_health.UNIT_WANTED,
    health_spec.FILE,
]


class Machine(System):
    """A node in a directory, with a systemd that starts the unit as it is written."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), self.answer)
        self.active, self.loaded = False, ""
        self.calls: list[str] = []
        os.makedirs(self.path("/run/systemd/system"))

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        assert argv[0] == "systemctl"
        text = self.read_file(installed_health.UNIT) or ""
        if argv[1] == "show":
            state = ("active", "4711") if self.active else ("inactive", "0")
            loaded = "yes" if self.loaded != text else "no"
            return CommandResult(0, "ActiveState=%s\nMainPID=%s\nNeedDaemonReload=%s\n" % (*state, loaded), "")
        self.calls.append(argv[1])
        if argv[1] == "daemon-reload":
            self.loaded = text
        elif argv[1] == "restart":
            self.active = True
            stamp = next(line for line in self.loaded.splitlines() if installed_health.STAMP in line)
            self.write_file("/proc/4711/environ", "A=b\0%s\0" % stamp.partition("=")[2])
        elif argv[1] == "stop":
            self.active = False
        return CommandResult(0, "", "")

    def service(self, **options: t.Any) -> HealthService:
        return HealthService(dict({"spec": SPEC}, **options), self)

    def apply(self, **options: t.Any) -> list[Change]:
        """What was done. Check mode predicts it, and a second run has nothing to do."""
        service = self.service(**options)
        state = service.observe()
        foreseen = service.changes(state)
        self.calls = []
        done: list[Change] = []
        converge(service, state, foreseen, done)
        assert [each.as_dict() for each in done] == [each.as_dict() for each in foreseen]
        again = self.service(**options)
        assert again.changes(again.observe()) == []
        return done

    def files(self) -> list[str]:
        found = [path for path in Path(self.root).rglob("*") if path.is_symlink() or path.is_file()]
        names = ["/" + str(path.relative_to(self.root)) for path in found]
        return sorted(name for name in names if name.startswith(("/etc", "/usr", "/run/railyard")))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_service_is_installed_once_and_removed(machine: Machine) -> None:
    machine.apply()
    assert machine.calls == ["daemon-reload", "restart"] and machine.files() == sorted(FILES)
    assert [machine.mode(each) for each in (installed_health.PROGRAM, health_spec.FILE)] == [0o755, 0o644]
    assert machine.service().observe() == {"spec": SPEC, "service": {"enabled": True, "active": True}}
    machine.write_file(health_state.FILE, "{}")
    machine.apply(state="absent", spec=None)
    assert machine.calls == ["stop", "daemon-reload"] and machine.files() == []


def test_a_changed_spec_restarts_nothing(machine: Machine) -> None:
    machine.apply()
    (change,) = machine.apply(spec=dict(SPEC, interval=10))
    assert (change.subject, machine.calls) == (health_spec.FILE, [])


def test_another_program_or_unit_restarts_the_service_and_a_stopped_one_is_started(machine: Machine) -> None:
    machine.apply()
    machine.write_file(installed_health.PROGRAM, b"older", 0o755)
    assert [each.subject for each in machine.apply()] == [installed_health.PROGRAM]
    machine.write_file("/proc/4711/environ", installed_health.STAMP + "=0")
    assert [each.subject for each in machine.apply()] == [installed_health.SERVICE]
    machine.active = False
    (change,) = machine.apply()
    assert (change.before, change.after, change.kind) == ("inactive", "started", "setting")


def test_a_damaged_spec_is_replaced_and_a_wrong_one_refused(machine: Machine) -> None:
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


def test_a_user_cannot_replace_the_program(machine: Machine) -> None:
    directory = machine.path(os.path.dirname(installed_health.PROGRAM))
    os.makedirs(directory)
    os.chmod(directory, 0o777)
    with pytest.raises(RailyardError, match="a user could replace it"):
        machine.apply()


def test_the_unit_runs_what_was_installed(machine: Machine) -> None:
    machine.apply()
    unit = machine.read_file(installed_health.UNIT) or ""
    assert "ExecStart=" in unit and installed_health.PROGRAM + " run" in unit and "{" not in unit
    assert json.loads(machine.read_file(health_spec.FILE) or "") == SPEC
