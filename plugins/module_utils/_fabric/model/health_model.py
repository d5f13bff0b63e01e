# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section ``health`` of the fabric file: the health service of the nodes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

# Outputs to Kubernetes, each of which is off unless the file sets it.
KUBERNETES_FLAGS = ("condition", "taints", "device_taints", "cordon")
# Seconds between observations, and seconds without a finding before it ends.
INTERVAL, QUIET = 5, 30
# The rate of the probes of a rail, in bits per second.
PROBE_RATE = 10000
METRICS_PORT = 9466


@dataclass
class HealthSettings:
    """The section. ``thresholds``: name of a threshold -> its value; None: it is not judged. ``metrics``: a key of
    ``METRICS_HOSTS``. ``probe_rate``: bits per second; None: no probes. ``kubernetes``: the keys of
    :data:`KUBERNETES_FLAGS` that are set; None without the section. ``path``: of the section in the file.
    """

    enabled: bool = True
    interval: int = INTERVAL
    quiet: int = QUIET
    thresholds: dict[str, int | None] = field(default_factory=dict)
    metrics: str = "loopback"
    metrics_port: int = METRICS_PORT
    probe_rate: int | None = None
    kubernetes: dict[str, bool] | None = None
    kubeconfig: str | None = None
    path: tuple[t.Any, ...] = ("health",)

    def output(self, flag: str) -> bool:
        """Return whether an output of :data:`KUBERNETES_FLAGS` is on."""
        return bool(self.kubernetes and self.kubernetes.get(flag))
