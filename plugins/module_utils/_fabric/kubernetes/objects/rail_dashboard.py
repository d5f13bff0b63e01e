# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Grafana dashboard of a fabric with the rail agent: planned rails that are up, failures, and traffic over time."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import OF_FUNCTION, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import link_layer_of

Panel = t.Dict[str, t.Any]
# Grafana divides the width of a dashboard into 24 columns.
WIDTH, HEIGHT, COLUMNS = 8, 8, 24
NUMBER_HEIGHT = 4
# Version of Grafana's dashboard schema, which later releases support.
SCHEMA = 36
SOURCE = {"type": "prometheus", "uid": "${source}"}
# Numbers at the top: title, expression of a number that is 0 without trouble. ``%(f)s``: the labels that select fabric
# and node; ``%(nodes)d``: the number of planned nodes.
_NUMBERS = (
    ("Nodes that do not answer", '%(nodes)d - (count(railyard_agent_info{fabric="%(fabric)s"}) or vector(0))'),
    (
        "Failed attaches in the last hour",
        "sum(increase(railyard_agent_attach_failures_total{%(f)s}[1h])) or vector(0)",
    ),
    ("Addresses that other hosts have", "sum(railyard_agent_address_conflicts{%(f)s}) or vector(0)"),
)
# Panels of values that only some plans have: attachments with an RDMA device per pod, rails on Ethernet, and the health
# service.
_OF_PODS, _OF_ETHERNET, _OF_HEALTH = "pods", "ethernet", "health"

# Panels over time: title, Grafana's name of the unit, expression, legend, which plans have the values (empty: all).
_PANELS = (
    (
        "Rails that are down",
        "none",
        "sum(1 - railyard_agent_rail_healthy{%(f)s}) by (node, rail) > 0",
        "{{node}} {{rail}}",
        "",
    ),
    (
        "Rails and planes that fail (2) or are unknown (1)",
        "none",
        "max(railyard_health_rail_state{%(f)s}) by (node, rail, plane) > 0",
        "{{node}} {{rail}} {{plane}}",
        _OF_HEALTH,
    ),
    (
        "Findings of the health service",
        "none",
        "sum(railyard_health_rail_finding{%(f)s}) by (code, name)",
        "{{code}} {{name}}",
        _OF_HEALTH,
    ),
    (
        "Round trips of probes, 99th percentile",
        "s",
        "max(railyard_health_probe_tail_seconds{%(f)s}) by (node, rail)",
        "{{node}} {{rail}}",
        _OF_HEALTH,
    ),
    (
        "Slots held by pods",
        "percentunit",
        "sum(railyard_agent_devices_held{%(f)s}) by (node, resource)"
        " / sum(railyard_agent_devices{%(f)s}) by (node, resource)",
        "{{node}} {{resource}}",
        "",
    ),
    (
        "Failed attaches",
        "none",
        "sum(increase(railyard_agent_attach_failures_total{%(f)s}[$__rate_interval])) by (node, reason)",
        "{{node}} {{reason}}",
        "",
    ),
    (
        "RDMA received by rail",
        "Bps",
        'sum(rate(rdma_rx_vport_rdma_unicast_bytes_total{is_root="true",%(f)s}[$__rate_interval])) by (node, rail)',
        "{{node}} {{rail}}",
        "",
    ),
    (
        "RDMA sent by rail",
        "Bps",
        'sum(rate(rdma_tx_vport_rdma_unicast_bytes_total{is_root="true",%(f)s}[$__rate_interval])) by (node, rail)',
        "{{node}} {{rail}}",
        "",
    ),
    (
        "RDMA received by pod",
        "Bps",
        'sum(rate(rdma_rx_vport_rdma_unicast_bytes_total{is_root="false",%(f)s}[$__rate_interval]))'
        " by (pod_namespace, pod_name)",
        "{{pod_namespace}}/{{pod_name}}",
        _OF_PODS,
    ),
    (
        "Pause frames",
        "pps",
        "sum(rate(rdma_rx_pause_total{%(f)s}[$__rate_interval]) + rate(rdma_tx_pause_total{%(f)s}[$__rate_interval]))"
        " by (node, rail)",
        "{{node}} {{rail}}",
        _OF_ETHERNET,
    ),
    (
        "Congestion notifications sent",
        "pps",
        "sum(rate(rdma_np_cnp_sent_total{%(f)s}[$__rate_interval])) by (node, rail)",
        "{{node}} {{rail}}",
        _OF_ETHERNET,
    ),
    (
        "Packets out of sequence",
        "pps",
        "sum(rate(rdma_out_of_sequence_total{%(f)s}[$__rate_interval])) by (node, rail)",
        "{{node}} {{rail}}",
        "",
    ),
    (
        "Traffic of pods, received, without RDMA",
        "Bps",
        "sum(rate(railyard_pod_network_receive_bytes_total{%(f)s}[$__rate_interval])) by (namespace, pod)",
        "{{namespace}}/{{pod}}",
        "",
    ),
    (
        "Time of an attach",
        "s",
        "sum(rate(railyard_agent_attach_seconds_total{%(f)s}[$__rate_interval])) by (node)"
        " / sum(rate(railyard_agent_attaches_total{%(f)s}[$__rate_interval])) by (node)",
        "{{node}}",
        "",
    ),
)


def dashboard(view: View) -> dict[str, t.Any]:
    """Return the dashboard of a fabric. Its variables are the data source and the nodes.

    The first row is numbers: the rails that are up of those planned, and what is 0 without trouble.
    """
    fabric = view.name
    labels = 'fabric="%s",node=~"$node"' % fabric
    values = {"f": labels, "fabric": fabric, "nodes": len(view.nodes)}
    panels = [_rails_up(view)]
    panels += [_number(at, title, text % values) for at, (title, text) in enumerate(_NUMBERS)]
    found = {_OF_PODS for network in view.networks if network.attachment in OF_FUNCTION}
    found |= {_OF_ETHERNET for rail in view.rails.values() if link_layer_of(view.fabric, rail) == ETHERNET}
    found |= {_OF_HEALTH} if view.fabric.get("health") else set()
    shown = [row for row in _PANELS if not row[-1] or row[-1] in found]
    panels += [_series(at, *row[:-1], labels) for at, row in enumerate(shown)]
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
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }


def _rails_up(view: View) -> Panel:
    """Return the panel ``256 of 256 rails up``, which is green only if all planned rails of all nodes are up.

    The plan has the total, because an agent that does not answer has no metrics. PromQL puts a number into a text only
    as a label, so the panel shows the name of a series whose label is the sum.
    """
    planned = sum(len(node["agent"]["rails"]) for node in view.nodes)
    up = '(sum(railyard_agent_rail_healthy{fabric="%s"}) or vector(0))' % view.name
    ratio = 'count_values("up", %s) * on () group_left () (%s / %d)' % (up, up, max(planned, 1))
    steps: list[dict[str, t.Any]] = [{"color": "red", "value": None}, {"color": "green", "value": 1}]
    return _stat("", 0, COLUMNS // 2, ratio, steps, "{{up}} of %d rails up" % planned, "name")


def _number(place: int, title: str, expression: str) -> Panel:
    wide = COLUMNS // 2 // len(_NUMBERS)
    # increase() extrapolates, so a number of events can be a fraction
    steps: list[dict[str, t.Any]] = [{"color": "green", "value": None}, {"color": "red", "value": 0.5}]
    return _stat(title, COLUMNS // 2 + place * wide, wide, expression, steps, title, "value")


def _stat(
    title: str,
    left: int,
    wide: int,
    expression: str,
    steps: list[dict[str, t.Any]],
    legend: str,
    text: str,
) -> Panel:
    """Return a panel with one text on the colour of its value.

    :param steps: colours, each from a value on.
    :param text: what is shown: ``name`` of the series, or ``value``.
    """
    target = {"refId": "A", "datasource": SOURCE, "expr": expression, "legendFormat": legend}
    return {
        "type": "stat",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": left, "y": 0, "w": wide, "h": NUMBER_HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": "none", "decimals": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "colorMode": "background",
            "graphMode": "none",
            "textMode": text,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
        "targets": [{**target, "instant": True, "range": False}],
    }


def _series(number: int, title: str, unit: str, expression: str, legend: str, labels: str) -> Panel:
    place = number * WIDTH
    return {
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {
            "x": place % COLUMNS,
            "y": NUMBER_HEIGHT + place // COLUMNS * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": expression % {"f": labels}, "legendFormat": legend}],
    }
