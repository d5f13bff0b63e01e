# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module health_service: installs, configures, starts and removes the health service of a node.

The service reads a changed spec again by itself.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.installed_service import (
    OPTIONS,
    REQUIRED_IF,
    InstalledService,
    PackedService,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    fault_holds,
    health_main,
    health_metrics,
    health_run,
    health_spec,
    health_state,
    node_reports,
)

# The kernel shows LACP partners to programs with CAP_NET_ADMIN, and gives LLDP frames to those with CAP_NET_RAW.
SERVICE = PackedService(
    "health",
    health_main.__name__,
    health_spec.FILE,
    description="the health service",
    purpose="Compares the rails of this node with the plan.",
    order="",
    settings="""\
ExecReload=/bin/kill -HUP $MAINPID
WatchdogSec=60
Restart=always
RestartSec=2
RuntimeDirectory=railyard/health
RuntimeDirectoryPreserve=yes
StateDirectory=railyard/health
# cordons of rails
ReadWritePaths=/etc/railyard
TasksMax=256
MemoryMax=256M
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW
DevicePolicy=closed
""",
    tunables="ProtectKernelTunables=yes\n",
    namespaces="yes",
    umask="0022",
)


class HealthService(InstalledService):
    """The installed service. It has the options of module health_service."""

    service = SERVICE
    title = "the health service"
    spec_remedy = "use the layer 'health' of railyard.fabric.rail_host"
    own_files = (
        (health_run.LOCK, "lock"),
        (health_state.FILE, "state"),
        (health_metrics.TEXTFILE, "metrics"),
        (fault_holds.FILE, "holds"),
        (fault_holds.FILE + ".lock", "lock"),
    )

    def _spec_errors(self) -> list[RailyardError]:
        health_spec.parse_spec(self._spec)
        return []

    def _withdrawal(self) -> list[Change]:
        if not self._system.exists(fault_holds.REPORTED):
            return []
        # after the stop, which sets the condition to Unknown
        return [Change("Kubernetes", "reports", "there", None, self._withdraw)]

    def _withdraw(self) -> None:
        """Remove condition, taint and cordons of the service. Raises :class:`.RailyardError`."""
        try:
            node_reports.withdraw(self._system)
        except RailyardError as error:
            remedy = "%s; or remove %s, and leave the condition and the taint on the Node"
            raise RailyardError(error.message, error.place, remedy % (error.remedy, fault_holds.REPORTED)) from None


LAYER = Layer(OPTIONS, HealthService, REQUIRED_IF)
