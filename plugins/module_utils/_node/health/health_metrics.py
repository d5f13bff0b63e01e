# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the health service as metrics. Their names and values are an interface, and do not change.

The service serves them over HTTP. Without an address, it writes :data:`TEXTFILE` for the textfile collector of
node_exporter, whose samples have no label of the fabric or the node; so all samples have these labels themselves.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import FAIL, PASS, UNKNOWN
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition

TEXTFILE = "/run/railyard/health/railyard_health.prom"
# Value of a state. The highest value of several rails is the state of all of them.
VALUES = {PASS: 0, UNKNOWN: 1, FAIL: 2}
_STATE = "State of a rail, or of one of its planes. 0: pass, 1: unknown, 2: fail."
# Values of a rail's probes, with the divisor that gives the unit of the metric.
_PROBES = (
    ("sent", "sent_total", "counter", 1, "Probes that were sent."),
    ("received", "received_total", "counter", 1, "Probes that were answered."),
    ("loss", "loss_ratio", "gauge", 1, "Lost probes of those sent in the window of the service."),
    ("rtt_us", "rtt_seconds", "gauge", 1_000_000, "Median round-trip time of the probes in the window."),
    ("tail_us", "tail_seconds", "gauge", 1_000_000, "99th percentile of the round-trip time in the window."),
)
Row = t.Mapping[str, t.Any]


def text(document: Row) -> str:
    """Return the metrics of a state document in the Prometheus text format."""
    out = Exposition()
    node = {"fabric": str(document["fabric"]), "node": str(document["node"])}

    def add(metric: str, kind: str, help_text: str, value: float, **labels: t.Any) -> None:
        shown = {key: str(label) for key, label in labels.items() if label not in (None, "")}
        out.add("railyard_health_" + metric, kind, help_text, value, {**node, **shown})

    add("info", "gauge", "The health service of this node.", 1, version=document["version"])
    add("ready", "gauge", "Whether the service has read all rails.", int(document["ready"]))
    updated = "Time of the last observation, in seconds since 1970."
    add("updated_timestamp_seconds", "gauge", updated, float(document["updated"]))
    add("problems", "gauge", "Problems of the service itself.", len(document["problems"]))
    for row in document["rails"]:
        rail = row["rail"]
        for plane, state in [(None, row["state"]), *((each["plane"], each["state"]) for each in row["planes"])]:
            add("rail_state", "gauge", _STATE, VALUES[state], rail=rail, plane=plane)
        degraded = "Whether a rail carries less than planned."
        add("rail_degraded", "gauge", degraded, int(row["degraded"]), rail=rail)
        changed = "Time of the last change of the state, in seconds since 1970."
        add("rail_changed_timestamp_seconds", "gauge", changed, float(row["since"]), rail=rail)
        found = sorted({(str(each["code"]), str(each["name"]), each["plane"]) for each in row["findings"]}, key=repr)
        for code, name, plane in found:
            labels = {"rail": rail, "plane": plane, "code": code, "name": name}
            add("rail_finding", "gauge", "What the service found on a rail: docs/health.md has the codes.", 1, **labels)
        for key, name, kind, divisor, help_text in _PROBES:
            value = (row["probe"] or {}).get(key)
            if value is not None:
                add("probe_" + name, kind, help_text, value if divisor == 1 else value / divisor, rail=rail)
    return out.text()
