# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A Grafana dashboard of the rail agent's metrics: rails, slots, pods and the RDMA counters of the ports."""

from __future__ import annotations

import typing as t

Panel = t.Dict[str, t.Any]
# Grafana divides the width of a dashboard into 24 columns.
WIDTH, HEIGHT, COLUMNS = 8, 8, 24
# Version of Grafana's dashboard schema, which later releases support.
SCHEMA = 36
SOURCE = {"type": "prometheus", "uid": "${source}"}

# Title, Grafana's name of the unit, expression, legend. ``%(f)s``: the labels that select fabric and node.
_PANELS = (
    (
        "Rails that are down",
        "none",
        "sum(1 - railyard_agent_rail_healthy{%(f)s}) by (node, rail) > 0",
        "{{node}} {{rail}}",
    ),
    (
        "Slots held by pods",
        "percentunit",
        "sum(railyard_agent_devices_held{%(f)s}) by (node, resource)"
        " / sum(railyard_agent_devices{%(f)s}) by (node, resource)",
        "{{node}} {{resource}}",
    ),
    (
        "Failed attaches",
        "none",
        "sum(increase(railyard_agent_attach_failures_total{%(f)s}[$__rate_interval])) by (node, reason)",
        "{{node}} {{reason}}",
    ),
    (
        "RDMA received by rail",
        "Bps",
        'sum(rate(rdma_rx_vport_rdma_unicast_bytes_total{is_root="true",%(f)s}[$__rate_interval])) by (node, rail)',
        "{{node}} {{rail}}",
    ),
    (
        "RDMA sent by rail",
        "Bps",
        'sum(rate(rdma_tx_vport_rdma_unicast_bytes_total{is_root="true",%(f)s}[$__rate_interval])) by (node, rail)',
        "{{node}} {{rail}}",
    ),
    (
        "RDMA received by pod",
        "Bps",
        'sum(rate(rdma_rx_vport_rdma_unicast_bytes_total{is_root="false",%(f)s}[$__rate_interval]))'
        " by (pod_namespace, pod_name)",
        "{{pod_namespace}}/{{pod_name}}",
    ),
    (
        "Pause frames",
        "pps",
        "sum(rate(rdma_rx_pause_total{%(f)s}[$__rate_interval]) + rate(rdma_tx_pause_total{%(f)s}[$__rate_interval]))"
        " by (node, rail)",
        "{{node}} {{rail}}",
    ),
    (
        "Congestion notifications sent",
        "pps",
        "sum(rate(rdma_np_cnp_sent_total{%(f)s}[$__rate_interval])) by (node, rail)",
        "{{node}} {{rail}}",
    ),
    (
        "Packets out of sequence",
        "pps",
        "sum(rate(rdma_out_of_sequence_total{%(f)s}[$__rate_interval])) by (node, rail)",
        "{{node}} {{rail}}",
    ),
    (
        "Traffic of pods, received, without RDMA",
        "Bps",
        "sum(rate(railyard_pod_network_receive_bytes_total{%(f)s}[$__rate_interval])) by (namespace, pod)",
        "{{namespace}}/{{pod}}",
    ),
    (
        "Time of an attach",
        "s",
        "sum(rate(railyard_agent_attach_seconds_total{%(f)s}[$__rate_interval])) by (node)"
        " / sum(rate(railyard_agent_attaches_total{%(f)s}[$__rate_interval])) by (node)",
        "{{node}}",
    ),
)


def dashboard(fabric: str) -> dict[str, t.Any]:
    """Return the dashboard of a fabric. Its variables are the data source and the nodes."""
    labels = 'fabric="%s",node=~"$node"' % fabric
    return {
        "uid": "railyard-%s" % fabric[:30],
        "title": "Rails of %s" % fabric,
        "tags": ["railyard"],
        "schemaVersion": SCHEMA,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "node",
                    "label": "Node",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": 'label_values(railyard_agent_info{fabric="%s"}, node)' % fabric,
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [_panel(number, *row, labels) for number, row in enumerate(_PANELS)],
    }


def _panel(number: int, title: str, unit: str, expression: str, legend: str, labels: str) -> Panel:
    place = number * WIDTH
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": place % COLUMNS, "y": place // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": expression % {"f": labels}, "legendFormat": legend}],
    }
