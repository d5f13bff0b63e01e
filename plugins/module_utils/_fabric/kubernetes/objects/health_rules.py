# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Alerts on the metrics of the health service, and the result of the whole fabric as a recorded series.

The metrics are the same with each provider, and with the textfile collector of node_exporter.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Object, View

# The recorded result of a fabric: 0 pass, 1 unknown, 2 fail, as the states of rails.
VERDICT, PASSED, FAILED = "railyard:fabric_health", "railyard:rails_pass", "railyard:rails_fail"
# Seconds after which a state is stale. It is longer than the interval of a scrape.
STALE = 90


def served_address(view: View) -> str | None:
    """Return where the services serve their metrics: HOST:PORT; None if they do not serve them."""
    return (view.fabric.get("health") or {}).get("metrics")


def rules(view: View) -> list[Object]:
    """Return the recorded series and the alerts; empty if the plan has no health service."""
    if not view.fabric.get("health"):
        return []
    nodes = view.nodes
    planned = sum(len(node["ports"]) for node in nodes)
    labels = '{fabric="%s",plane=""}' % view.name
    fabric = '{fabric="%s"}' % view.name
    age = "(time() - railyard_health_updated_timestamp_seconds%s)" % fabric
    # a state that is not updated any more, or of a node that Prometheus does not reach, does not count
    fresh = "(railyard_health_rail_state%s and on (node) (%s < %d))" % (labels, age, STALE)
    count = "(count(%s == %d) or vector(0))"
    passed, failed = count % (fresh, 0), count % (fresh, 2)
    verdict = "clamp_max(2 * (%s > bool 0) + (%s < bool %d), 2)" % (failed, passed, planned)
    recorded = [
        {"record": name, "expr": expression, "labels": {"fabric": view.name}}
        for name, expression in ((PASSED, passed), (FAILED, failed), (VERDICT, verdict))
    ]
    where = "{{ $labels.rail }} of {{ $labels.node }}"
    state = "railyard_health_rail_state" + labels
    on_node = "On the node: railyard-health status."
    missing = "count(railyard_health_info%s) or vector(0)" % fabric
    return [
        *recorded,
        _alert("RailFails", "critical", "1m", state + " == 2", "%s fails" % where, on_node),
        _alert(
            "RailDegraded",
            *("warning", "5m", "railyard_health_rail_degraded%s == 1" % fabric),
            *("%s carries less than planned" % where, on_node),
        ),
        _alert(
            "RailUnknown",
            *("warning", "5m", state + " == 1"),
            *("The state of %s is unknown" % where, on_node),
        ),
        _alert(
            "RailHealthStale",
            *("critical", "2m", "%s > %d" % (age, STALE)),
            "The health service of {{ $labels.node }} does not update its state",
            "On the node: systemctl status railyard-health.",
        ),
        _alert(
            "RailHealthMissing",
            *("critical", "5m", "(%s) < %d" % (missing, len(nodes))),
            "Not all of %d nodes have metrics of the health service" % len(nodes),
            "Compare the nodes of the metric railyard_health_info with those of the fabric file.",
        ),
    ]


def _alert(name: str, severity: str, wait: str, expression: str, summary: str, remedy: str) -> Object:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": remedy},
    }
