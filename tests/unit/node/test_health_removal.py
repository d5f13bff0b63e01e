# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The removal of the health service: what it reported to Kubernetes ends with it, and its own files are removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    cordon_file,
    fault_holds,
    health_metrics,
    health_spec,
    node_reports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service.installed_health import (
    SERVICE,
    HealthService,
)
from tests.unit.node.service_machine import ServiceMachine

KEPT = Cordon("gpu01", "a new cable")


class Machine(ServiceMachine):
    """A node with systemd, on which the service runs until it is stopped."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, HealthService, {})
        self.active = True
        for path in (SERVICE.unit, health_spec.FILE, health_metrics.TEXTFILE, fault_holds.FILE):
            self.write_file(path, "{}")
        cordon_file.cordons(self).put(KEPT)
        cordon_file.cordons(self).put(Cordon("gpu02", "RV402", node_reports.BY))

    def report(self, **written: object) -> None:
        record = node_reports.Reported("hgx-1", "/etc/none.conf")._replace(**written)  # type: ignore[arg-type]
        self.write_file(fault_holds.REPORTED, json.dumps(record._asdict()))

    def remove(self) -> list[str]:
        """Remove the service. Return the attributes of the changes in their order."""
        return [change.attribute for change in self.apply(state="absent")]


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
    assert machine.calls == ["stop"] and machine.exists(SERVICE.unit)
    # the other remedy
    machine.remove_file(fault_holds.REPORTED)
    assert "unit" in machine.remove()
