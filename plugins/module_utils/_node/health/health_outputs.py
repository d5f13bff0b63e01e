# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the health service gives to other programs beside its state file: metrics, and reports to Kubernetes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import log
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_metrics
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.fault_holds import REPORTED
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_parts import HealthPart
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import FILE, HealthSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import HealthState
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.metrics_server import MetricsServer

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.health.node_reports import NodeReports


class Metrics(HealthPart):
    """The metrics: over HTTP at the address of the spec, or else in a file for node_exporter."""

    name = "metrics"

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._address: str | None = None
        self._server: MetricsServer | None = None
        self._state: HealthState | None = None

    def follow(self, spec: HealthSpec) -> None:
        self._address = spec.metrics
        if self._address:
            self._system.remove_file(health_metrics.TEXTFILE)

    def publish(self, state: HealthState) -> None:
        self._state = state
        if self._address != (self._server and self._server.address):
            self.close()
            # tried again with each state
            self._server = MetricsServer(self._address, self._text, FILE) if self._address else None
        if self._server is None:
            self._system.write_file(health_metrics.TEXTFILE, self._text(), 0o644)

    def _text(self) -> str:
        return health_metrics.text(self._state.as_dict()) if self._state else ""

    def close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None


class Reports(HealthPart):
    """The reports to Kubernetes, while an option needs them, or something must be removed."""

    name = "kubernetes"

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._spec: HealthSpec | None = None
        self._reports: NodeReports | None = None

    def follow(self, spec: HealthSpec) -> None:
        self._spec = spec
        if self._reports is None and (spec.kubernetes or self._system.exists(REPORTED)):
            # its client of the API server needs 7 MB of memory
            from ansible_collections.railyard.fabric.plugins.module_utils._node.health.node_reports import NodeReports

            self._reports = NodeReports(self._system, log)

    def publish(self, state: HealthState) -> None:
        if self._reports and self._spec:
            self._reports.update(self._spec, state)
            if self._reports.error:
                raise self._reports.error

    def close(self) -> None:
        if self._reports:
            self._reports.close()
