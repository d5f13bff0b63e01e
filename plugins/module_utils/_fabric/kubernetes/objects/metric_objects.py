# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Monitoring of the rails: scraping of Spiderpool's agent or the rail agent, alerts, and the rail agent's dashboard.

Spiderpool's agent and the rail agent export the RDMA counters under the same names. With other providers, node_exporter
(with ``--collector.ethtool`` and its InfiniBand collector) exports pause frames, discards and link changes of the
ports, and nothing exports the RDMA counters, so there are no alerts on these.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import health_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.rail_dashboard import dashboard
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    Object,
    View,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import EIGHT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import without_pfc
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    compute_ports,
    link_layer_of,
    qos_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES

# The metric of a counter with the beginning of its labels.
_COUNTER = re.compile(r"\brdma_(\w+)_total{")

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
    if scrape := _scrape(view, health_rules.served_address(view), "railyard-health"):
        yield made(SCRAPE_API, "ScrapeConfig", name + "-health", labels, scrape, namespace)
    if facts.slots:
        rules = _agent(view)
        served = next((node["agent"]["metrics"] for node in view.nodes), None)
        if scrape := _scrape(view, served, "railyard-agent"):
            yield made(SCRAPE_API, "ScrapeConfig", name, labels, scrape, namespace)
        if options.grafana_labels:
            board = made("v1", "ConfigMap", name + "-dashboard", view.labels(COMPONENT), None, namespace)
            board["metadata"]["labels"].update(options.grafana_labels)
            document = dashboard(view)
            _add_names(view, [target for panel in document["panels"] for target in panel["targets"]])
            board["data"] = {name + ".json": json.dumps(document, indent=1)}
            yield board
    elif facts.rdma_metrics:
        yield made(API, "ServiceMonitor", name, labels, _monitor(view, options), namespace)
        rules = _spiderpool(view)
    else:
        rules = _node_exporter(view)
    _add_names(view, rules)
    rules += health_rules.rules(view)
    if rules:
        group = {"name": "railyard.%s.rails" % view.name, "interval": "30s", "rules": rules}
        yield made(API, "PrometheusRule", name, labels, {"groups": [group]}, namespace)


def _add_names(view: View, rows: t.Iterable[Object]) -> None:
    """Change the expressions of alerts and panels, so that they also count what the families of NICs that the profiles
    name count under other names than mlx5.
    """
    families = [FAMILIES[name] for name in sorted({node.get("nic_family", "") for node in view.nodes} - {""})]

    def names(match: re.Match[str]) -> str:
        others = [family.counters[match[1]] for family in families if match[1] in family.counters]
        return '{__name__=~"rdma_(%s)_total",' % "|".join([match[1], *others]) if others else match[0]

    for row in rows if families else ():
        row["expr"] = _COUNTER.sub(names, row["expr"])


def _scrape(view: View, served: str | None, job: str) -> Object | None:
    """Return the scrape of a program of each node; None if it serves no metrics to other hosts.

    :param served: ADDRESS:PORT of the program.
    """
    host, _colon, port = (served or "").rpartition(":")
    if host != "*":
        return None
    address = "__meta_kubernetes_node_address_InternalIP"
    label = re.sub("[^a-zA-Z0-9_]", "_", FABRIC)
    return {
        "kubernetesSDConfigs": [{"role": "Node"}],
        "scrapeInterval": "30s",
        # the metrics have their own label "fabric"
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
            {"replacement": job, "targetLabel": "job"},
        ],
    }


def _monitor(view: View, options: Options) -> Object:
    return {
        "selector": {
            "matchLabels": {"app.kubernetes.io/name": "spiderpool", "app.kubernetes.io/component": "spiderpool-agent"}
        },
        "namespaceSelector": {"matchNames": [options.operator(view.provider)]},
        "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
    }


class _Alert(t.NamedTuple):
    """``wait``: the time for which the expression must be true; ``remedy``: what to do."""

    severity: str
    wait: str
    remedy: str


_ALERTS = {
    "RailPauseStorm": _Alert(
        "critical",
        "5m",
        "A receiver cannot drain its buffers: look for a slow PCIe link, a stuck process, "
        "or a switch port without a PFC watchdog.",
    ),
    "RailPauseFrames": _Alert(
        "warning",
        "5m",
        "The profile of this rail has no PFC: look for PFC or global pause on this port and on its switch port.",
    ),
    "RailOutOfSequence": _Alert(
        "warning",
        "10m",
        "Packets are lost or reordered: compare PFC, ECN and DSCP of this port and of its switch port with the plan.",
    ),
    "RailCongestion": _Alert(
        "warning",
        "10m",
        "The rail is congested towards this port: look for many senders to one receiver, "
        "and for a switch link that is down.",
    ),
    "RailAsymmetry": _Alert(
        "warning",
        "15m",
        "Jobs use the rails unevenly, or this port is slow: prove the rail, and compare its link speed with the plan.",
    ),
    "RailLinkFlap": _Alert("warning", "0m", "Reseat or replace the cable or transceiver of this port."),
    "RailAgentDown": _Alert(
        "critical", "5m", "No new pod gets rails on this node. On the node: systemctl status railyard-agent."
    ),
    "RailDown": _Alert(
        "critical",
        "2m",
        "Pods that ask for this rail are not started on this node. On the node: railyard-agent status.",
    ),
    "RailResourceMissing": _Alert(
        "warning", "5m", "The kubelet does not know the resource. On the node: journalctl -u railyard-agent."
    ),
    "RailAttachFailures": _Alert(
        "warning", "0m", "Pods do not start on this node. On the node: railyard-agent explain POD."
    ),
}


def _alert(name: str, expression: str, summary: str) -> Object:
    alert = _ALERTS[name]
    return {
        "alert": name,
        "expr": expression,
        "for": alert.wait,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": summary, "description": alert.remedy},
    }


def _spiderpool(view: View) -> list[Object]:
    """Return alerts on counters of the rails' netdevs. All names end in _total: the agent exports everything as
    counters."""
    if not _netdevs(view, view.rails):
        return []

    def match(rails: t.Container[str]) -> str:
        return '{is_root="true",net_dev_name=~"%s"}' % "|".join(_netdevs(view, rails))

    flap = "changes(rdma_vport_speed_mbps_total%s[15m]) > 3" % match(view.rails)
    where = "{{ $labels.net_dev_name }} of {{ $labels.node_name }}"
    return [*_rdma(view, match), _alert("RailLinkFlap", flap, "The link of %s goes up and down" % where)]


def _agent(view: View) -> list[Object]:
    """Return alerts on the metrics of the rail agent: its rails and devices, and the counters of the rail ports."""
    fabric = '{fabric="%s"}' % view.name
    node, rail = "{{ $labels.node }}", "{{ $labels.rail }} of {{ $labels.node }}"
    cordoned = "railyard_agent_rail_cordoned%s == 1" % fabric
    down = "railyard_agent_rail_healthy%s == 0 unless on (node, rail) %s" % (fabric, cordoned)
    failures = "sum by (node, reason) (increase(railyard_agent_attach_failures_total%s[10m])) > 0" % fabric

    def match(rails: t.Collection[str]) -> str:
        labels = 'is_root="true",fabric="%s"' % view.name
        return "{%s%s}" % (labels, "" if len(rails) == len(view.rails) else ',rail=~"%s"' % "|".join(rails))

    return [
        *_rdma(view, match),
        _alert(
            "RailAgentDown",
            'up{job="railyard-agent",fabric="%s"} == 0' % view.name,
            "The rail agent of %s does not answer" % node,
        ),
        _alert("RailDown", down, "%s is down" % rail),
        _alert(
            "RailLinkFlap",
            "changes(railyard_agent_rail_healthy%s[15m]) > 3" % fabric,
            "The link of %s goes up and down" % rail,
        ),
        _alert(
            "RailResourceMissing",
            "railyard_agent_registered%s == 0" % fabric,
            "{{ $labels.resource }} is not registered on %s" % node,
        ),
        _alert("RailAttachFailures", failures, "Attaches of pods failed on %s: {{ $labels.reason }}" % node),
    ]


def _rdma(view: View, match: t.Callable[[t.Collection[str]], str]) -> list[Object]:
    """Return alerts on the RDMA counters of the rail ports.

    :param match: rails -> the labels that select their ports.
    """
    every, lossy = list(view.rails), _lossy(view)
    # jobs use the compute rails evenly
    alike = match(_compute_rails(view))

    def rate(*metrics: str, labels: str = match(every)) -> str:
        each = ("sum by (node_name, net_dev_name) (rate(rdma_%s_total%s[5m]))" % (name, labels) for name in metrics)
        return "(%s)" % " + ".join(each)

    carried = rate("rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes", labels=alike)
    busiest = "max by (node_name) (%s)" % carried
    less = "%s < on (node_name) group_left () (%s * %s)" % (carried, ASYMMETRY, busiest)
    busy = "(%s > %d)" % (busiest, FLOOR_BYTES)
    congestion = "%s / (%s > 0) > %s" % (rate("np_cnp_sent"), rate("rx_vport_rdma_unicast_packets"), CNP_RATIO)
    where = "{{ $labels.net_dev_name }} of {{ $labels.node_name }}"
    pauses = [
        _alert(name, "%s > %d" % (rate("rx_pause", "tx_pause", labels=match(rails)), least), text % where)
        for name, least, text, rails in _pauses(every, lossy)
    ]
    return [
        *pauses,
        _alert(
            "RailOutOfSequence",
            "%s > %d" % (rate("out_of_sequence", "packet_seq_err"), SEQUENCE_ERRORS),
            "Packets out of sequence on %s" % where,
        ),
        _alert("RailCongestion", congestion, "More than one CNP in a hundred packets on %s" % where),
        _alert(
            "RailAsymmetry",
            "(%s) and on (node_name) %s" % (less, busy),
            "%s carries less than half of its node's busiest rail" % where,
        ),
    ]


def _node_exporter(view: View) -> list[Object]:
    rails = _netdevs(view, view.rails)
    if not rails:
        return []
    match = '{device=~"%s"}' % "|".join(rails)
    where = "{{ $labels.device }} of {{ $labels.instance }}"
    rules = []
    ethernet = [rail for rail in view.rails if link_layer_of(view.fabric, view.rails[rail]) == ETHERNET]
    if ethernet:
        for name, least, text, of_rails in _pauses(ethernet, _lossy(view)):
            each = (
                'sum by (instance, device) (rate(node_ethtool_%s_prio%d_pause{device=~"%s"}[5m]))'
                % (way, priority, "|".join(_netdevs(view, of_rails)))
                for priority in (_lossless(view) if least else EIGHT)
                for way in ("received", "transmitted")
            )
            rules.append(_alert(name, "(%s) > %d" % (" + ".join(each), least), text % where))
    rules.append(
        _alert(
            "RailLinkFlap",
            "increase(node_network_carrier_changes_total%s[15m]) > 3" % match,
            "The link of %s goes up and down" % where,
        )
    )
    return rules


def _pauses(rails: t.Sequence[str], lossy: t.Container[str]) -> list[tuple[str, int, str, list[str]]]:
    """Return the alerts on pause frames: name, frames per second that are allowed, summary, and the rails."""
    kinds = (
        ("RailPauseStorm", PAUSES, "Pause frames without end on %s", [rail for rail in rails if rail not in lossy]),
        ("RailPauseFrames", 0, "Pause frames on %s, which has no PFC", [rail for rail in rails if rail in lossy]),
    )
    return [kind for kind in kinds if kind[-1]]


def _lossy(view: View) -> set[str]:
    """Return the rails whose transport profile has no PFC."""
    settings = ((network.rail, qos_of(view.fabric, network.sample)) for network in view.networks)
    return {rail for rail, qos in settings if without_pfc(qos)}


def _lossless(view: View) -> list[int]:
    """Return the lossless priorities; 3, the default of vendors, if the plan has none."""
    settings = [qos_of(view.fabric, network.sample) for network in view.networks]
    chosen = {priority for qos in settings if qos for priority, on in enumerate(qos["pfc"]) if on}
    return sorted(chosen) or [3]


def _compute_rails(view: View) -> list[str]:
    """Return the compute rails; all rails if none of them is a compute rail."""
    return [rail["name"] for rail in compute_ports(list(view.rails.values()))]


def _netdevs(view: View, rails: t.Container[str]) -> list[str]:
    """Return the netdevs that count the traffic of rails, as regular expressions."""
    names = {name for network in view.networks if network.rail in rails for name in network.counting_netdevs}
    return [_literal(netdev) for netdev in sorted(names)]


def _literal(text: str) -> str:
    """Return a netdev's name as a regular expression in double quotes of PromQL."""
    return "".join(each if each.isalnum() or each in "_-" else "[%s]" % each for each in text)
