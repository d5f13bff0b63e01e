# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Monitoring of the rails: scraping of Spiderpool's agent or the rail agent, alerts, and the rail agent's dashboard.

Spiderpool's agent and the rail agent export the RDMA counters under the same names. With other providers, node_exporter
(with ``--collector.ethtool`` and its InfiniBand collector) exports pause frames, discards and link changes of the
ports, and nothing exports the RDMA counters, so there are no alerts on these.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import agent_dashboard
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    Object,
    View,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of

API = "monitoring.coreos.com/v1"
SCRAPE_API = "monitoring.coreos.com/v1alpha1"
COMPONENT = "metrics"
# A rail lags behind if its traffic is below this fraction of the busiest rail of its node, and the busiest rail
# carries more than the floor.
ASYMMETRY = 0.5
FLOOR_BYTES = 1_000_000_000
# Pause frames per second; a healthy port does not send as many for minutes.
PAUSES = 1000
# CNPs per received RDMA packet; a higher ratio means persistent congestion.
CNP_RATIO = 0.01
SEQUENCE_ERRORS = 10


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield the objects of monitoring; none with ``metrics: false``."""
    if not options.metrics:
        return
    namespace = options.monitoring_namespace or options.operator(view.provider)
    labels = view.labels(COMPONENT)
    labels.update(options.monitoring_labels)
    name = "%s-rails" % view.name
    facts = facts_of(view.provider)
    if facts.slots:
        rules = _agent(view)
        if scrape := _scrape(view):
            yield made(SCRAPE_API, "ScrapeConfig", name, labels, scrape, namespace)
        if options.grafana_labels:
            board = made("v1", "ConfigMap", name + "-dashboard", view.labels(COMPONENT), None, namespace)
            board["metadata"]["labels"].update(options.grafana_labels)
            board["data"] = {name + ".json": json.dumps(agent_dashboard.dashboard(view.name), indent=1)}
            yield board
    elif facts.rdma_metrics:
        yield made(API, "ServiceMonitor", name, labels, _monitor(view, options), namespace)
        rules = _spiderpool(view)
    else:
        rules = _node_exporter(view)
    if rules:
        group = {"name": "railyard.%s.rails" % view.name, "interval": "30s", "rules": rules}
        yield made(API, "PrometheusRule", name, labels, {"groups": [group]}, namespace)


def _scrape(view: View) -> Object | None:
    """Return the scrape of each node's agent; None if the agents serve no metrics to other hosts."""
    served = next((node["agent"]["metrics"] for node in view.nodes), None)
    host, _colon, port = (served or "").rpartition(":")
    if host != "*":
        return None
    address = "__meta_kubernetes_node_address_InternalIP"
    label = re.sub("[^a-zA-Z0-9_]", "_", FABRIC)
    return {
        "kubernetesSDConfigs": [{"role": "Node"}],
        "scrapeInterval": "30s",
        # the agent's metrics have their own label "fabric"
        "honorLabels": True,
        "relabelings": [
            {"action": "Keep", "sourceLabels": ["__meta_kubernetes_node_label_" + label], "regex": view.name},
            {"sourceLabels": [address], "regex": "([^:]+)", "replacement": "$1:" + port, "targetLabel": "__address__"},
            {
                "sourceLabels": [address],
                "regex": "(.*:.*)",
                "replacement": "[$1]:" + port,
                "targetLabel": "__address__",
            },
            {"sourceLabels": ["__meta_kubernetes_node_name"], "targetLabel": "node"},
            {"replacement": view.name, "targetLabel": "fabric"},
            {"replacement": "railyard-agent", "targetLabel": "job"},
        ],
    }


def _monitor(view: View, options: Options) -> Object:
    return {
        "selector": {
            "matchLabels": {
                "app.kubernetes.io/name": "spiderpool",
                "app.kubernetes.io/component": "spiderpool-agent",
            }
        },
        "namespaceSelector": {"matchNames": [options.operator(view.provider)]},
        "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
    }


_WHAT_TO_DO = {
    "RailPauseStorm": (
        "A receiver cannot drain its buffers: look for a slow PCIe link, a stuck process, "
        "or a switch port without a PFC watchdog."
    ),
    "RailOutOfSequence": (
        "Packets are lost or reordered: compare PFC, ECN and DSCP of this port and of its switch port with the plan."
    ),
    "RailCongestion": (
        "The rail is congested towards this port: look for many senders to one receiver, "
        "and for a switch link that is down."
    ),
    "RailAsymmetry": (
        "Jobs use the rails unevenly, or this port is slow: prove the rail, and compare its link speed with the plan."
    ),
    "RailLinkFlap": "Reseat or replace the cable or transceiver of this port.",
    "RailAgentDown": "No new pod gets rails on this node. On the node: systemctl status railyard-agent.",
    "RailDown": "Pods that ask for this rail are not started on this node. On the node: railyard-agent status.",
    "RailResourceMissing": "The kubelet does not know the resource. On the node: journalctl -u railyard-agent.",
    "RailAttachFailures": "Pods do not start on this node. On the node: railyard-agent explain POD.",
}


def _alert(name: str, severity: str, wait: str, expression: str, summary: str) -> Object:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": _WHAT_TO_DO[name]},
    }


def _spiderpool(view: View) -> list[Object]:
    """Return alerts on counters of the rails' netdevs. All names end in _total: the agent exports everything as
    counters."""
    rails = _netdevs(view)
    if not rails:
        return []
    match = '{is_root="true",net_dev_name=~"%s"}' % "|".join(rails)
    flap = "changes(rdma_vport_speed_mbps_total%s[15m]) > 3" % match
    where = "{{ $labels.net_dev_name }} of {{ $labels.node_name }}"
    return [*_rdma(match), _alert("RailLinkFlap", "warning", "0m", flap, "The link of %s goes up and down" % where)]


def _agent(view: View) -> list[Object]:
    """Return alerts on the metrics of the rail agent: its rails and devices, and the counters of the rail ports."""
    fabric = '{fabric="%s"}' % view.name
    node, rail = "{{ $labels.node }}", "{{ $labels.rail }} of {{ $labels.node }}"
    cordoned = "railyard_agent_rail_cordoned%s == 1" % fabric
    down = "railyard_agent_rail_healthy%s == 0 unless on (node, rail) %s" % (fabric, cordoned)
    failures = "sum by (node, reason) (increase(railyard_agent_attach_failures_total%s[10m])) > 0" % fabric
    return [
        *_rdma('{is_root="true",fabric="%s"}' % view.name),
        _alert(
            "RailAgentDown",
            "critical",
            "5m",
            'up{job="railyard-agent",fabric="%s"} == 0' % view.name,
            "The rail agent of %s does not answer" % node,
        ),
        _alert("RailDown", "critical", "2m", down, "%s is down" % rail),
        _alert(
            "RailLinkFlap",
            "warning",
            "0m",
            "changes(railyard_agent_rail_healthy%s[15m]) > 3" % fabric,
            "The link of %s goes up and down" % rail,
        ),
        _alert(
            "RailResourceMissing",
            "warning",
            "5m",
            "railyard_agent_registered%s == 0" % fabric,
            "{{ $labels.resource }} is not registered on %s" % node,
        ),
        _alert(
            "RailAttachFailures",
            "warning",
            "0m",
            failures,
            "Attaches of pods failed on %s: {{ $labels.reason }}" % node,
        ),
    ]


def _rdma(match: str) -> list[Object]:
    """Return alerts on the RDMA counters of the rail ports, which ``match`` selects."""

    def rate(*metrics: str) -> str:
        each = ("sum by (node_name, net_dev_name) (rate(rdma_%s_total%s[5m]))" % (name, match) for name in metrics)
        return "(%s)" % " + ".join(each)

    carried = rate("rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes")
    busiest = "max by (node_name) (%s)" % carried
    less = "%s < on (node_name) group_left () (%s * %s)" % (carried, ASYMMETRY, busiest)
    busy = "(%s > %d)" % (busiest, FLOOR_BYTES)
    congestion = "%s / (%s > 0) > %s" % (rate("np_cnp_sent"), rate("rx_vport_rdma_unicast_packets"), CNP_RATIO)
    where = "{{ $labels.net_dev_name }} of {{ $labels.node_name }}"
    return [
        _alert(
            "RailPauseStorm",
            "critical",
            "5m",
            "%s > %d" % (rate("rx_pause", "tx_pause"), PAUSES),
            "Pause frames without end on %s" % where,
        ),
        _alert(
            "RailOutOfSequence",
            "warning",
            "10m",
            "%s > %d" % (rate("out_of_sequence", "packet_seq_err"), SEQUENCE_ERRORS),
            "Packets out of sequence on %s" % where,
        ),
        _alert("RailCongestion", "warning", "10m", congestion, "More than one CNP in a hundred packets on %s" % where),
        _alert(
            "RailAsymmetry",
            "warning",
            "15m",
            "(%s) and on (node_name) %s" % (less, busy),
            "%s carries less than half of its node's busiest rail" % where,
        ),
    ]


def _node_exporter(view: View) -> list[Object]:
    rails = _netdevs(view)
    if not rails:
        return []
    match = '{device=~"%s"}' % "|".join(rails)
    where = "{{ $labels.device }} of {{ $labels.instance }}"
    rules = []
    if view.fabric["link_layer"] == "ethernet":
        each = (
            "sum by (instance, device) (rate(node_ethtool_%s_prio%d_pause%s[5m]))" % (way, priority, match)
            for priority in _lossless(view)
            for way in ("received", "transmitted")
        )
        rules.append(
            _alert(
                "RailPauseStorm",
                "critical",
                "5m",
                "(%s) > %d" % (" + ".join(each), PAUSES),
                "Pause frames without end on %s" % where,
            )
        )
    rules.append(
        _alert(
            "RailLinkFlap",
            "warning",
            "0m",
            "increase(node_network_carrier_changes_total%s[15m]) > 3" % match,
            "The link of %s goes up and down" % where,
        )
    )
    return rules


def _lossless(view: View) -> list[int]:
    """Return the lossless priorities; 3, the default of vendors, if the plan has none."""
    qos = view.fabric["qos"]
    chosen = [priority for priority, on in enumerate(qos["pfc"]) if on] if qos else []
    return chosen or [3]


def _netdevs(view: View) -> list[str]:
    return [_literal(netdev) for netdev in sorted({each for network in view.networks for each in network.netdevs})]


def _literal(text: str) -> str:
    """Return a netdev's name as a regular expression in double quotes of PromQL."""
    return "".join(each if each.isalnum() or each in "_-" else "[%s]" % each for each in text)
