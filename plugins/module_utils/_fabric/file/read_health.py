# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the section ``health``."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import THRESHOLDS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import METRICS_HOSTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.health_model import (
    KUBERNETES_FLAGS,
    PROBE_RATE,
    HealthSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section


def read_health(section: Section) -> HealthSettings:
    """Return the settings of the health service."""
    default = HealthSettings()
    enabled = section.flag("enabled")
    settings = HealthSettings(
        enabled=default.enabled if enabled is None else enabled,
        interval=section.number("interval", 1, 60, "seconds") or default.interval,
        quiet=section.number("quiet", 5, 600, "seconds") or default.quiet,
        metrics=section.choice("metrics", tuple(METRICS_HOSTS)) or default.metrics,
        metrics_port=section.number("metrics_port", 1024, 65535) or default.metrics_port,
        path=section.path,
    )
    thresholds = section.section("thresholds")
    if thresholds:
        for name in THRESHOLDS:
            value = thresholds.number(name, 0, 10**9)
            if value is not None or thresholds.written_null(name):
                settings.thresholds[name] = value
        thresholds.done()
    probe = section.section("probe")
    if probe:
        settings.probe_rate = probe.number("rate", 1000, 10**6, "bits per second") or PROBE_RATE
        probe.done()
    kubernetes = section.section("kubernetes")
    if kubernetes:
        given = {key: kubernetes.flag(key) for key in KUBERNETES_FLAGS}
        settings.kubernetes = {key: value for key, value in given.items() if value is not None}
        settings.kubeconfig = kubernetes.text("kubeconfig")
        kubernetes.done()
    section.done()
    return settings
