# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The removal of the health service: what it reported to Kubernetes ends with it, and its own files are removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    cordon_file,
    fault_holds,
    health_metrics,
    health_spec,
    node_reports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service import installed_health

KEPT = Cordon("gpu01", "a new cable")


class Machine(System):
    """A node with systemd, on which the service runs until it is stopped."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), self._ran)
        self.calls: list[str] = []
        (root / "run/systemd/system").mkdir(parents=True)
        for path in (installed_health.UNIT, health_spec.FILE, health_metrics.TEXTFILE, fault_holds.FILE):
            self.write_file(path, "{}")
        cordon_file.cordons(self).put(KEPT)
        cordon_file.cordons(self).put(Cordon("gpu02", "RV402", node_reports.BY))

    def _ran(self, argv: object, _timeout: float) -> CommandResult:
        words = list(argv)  # type: ignore[call-overload]
        if words[1] != "show":
            self.calls.append(words[1])
        active = "inactive" if "stop" in self.calls else "active"
        return CommandResult(0, "ActiveState=%s\nMainPID=0\n" % active, "")

    def report(self, **written: object) -> None:
        record = node_reports.Reported("hgx-1", "/etc/none.conf")._replace(**written)  # type: ignore[arg-type]
        self.write_file(fault_holds.REPORTED, json.dumps(record._asdict()))

    def remove(self) -> list[str]:
        """Remove the service. Return the attributes of the changes in their order."""
        subsystem = installed_health.HealthService({"state": "absent"}, self)
        state = subsystem.observe()
        changes = subsystem.changes(state)
        converge(subsystem, state, changes, [])
        return [change.attribute for change in changes]


def test_cordons_and_files_of_the_service_end_with_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(cordon=True)
    # the running service would write them again
    assert machine.remove() == ["service", "reports", "unit", "units", "metrics", "holds", "spec"]
    assert cordon_file.cordons(machine).all() == {"gpu01": KEPT}
    assert not machine.exists(fault_holds.REPORTED) and not machine.exists("/run/railyard/health")
    assert machine.remove() == []


def test_an_api_server_that_cannot_be_asked_has_a_remedy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(taints=True)
    with pytest.raises(RailyardError) as caught:
        machine.remove()
    assert "there is no kubeconfig" in str(caught.value) and fault_holds.REPORTED in caught.value.remedy
    assert machine.calls == ["stop"] and machine.exists(installed_health.UNIT)
    # the other remedy
    machine.remove_file(fault_holds.REPORTED)
    assert "unit" in machine.remove()
