# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY91x: the health service of the nodes."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DRA, Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import kubelet_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants

# Findings end after the quiet time. With fewer observations in it, one that was missed ends a finding.
_OBSERVATIONS = 2
_AGENT = "fabric: {name: ai, attachment: macvlan, provider: agent, mtu: 4200, slots: {all_rails: 1%s}}\n"
_ALONE = (
    "fabric: {name: ai, attachment: host, provider: none, mtu: 4200}\n"
    "rails: {gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}, gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253}}\n"
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.health and fabric.health.enabled:
        _quiet(fabric, report)
        _port(fabric, report)
        _kubernetes(fabric, report)
        _agent(fabric, variants, report)


QUIET = rule(
    "RY911 health-quiet-short: Quiet time with less than two observations",
    "health: {interval: 20, quiet: 30}\n",
    "health: {interval: 10, quiet: 30}\n",
    WARNING,
)


def _quiet(fabric: Fabric, report: Report) -> None:
    health = fabric.health
    if health and health.quiet < _OBSERVATIONS * health.interval:
        message = "a finding ends after %d s, in which the rails are observed once" % health.quiet
        remedy = "set interval to %d or less" % (health.quiet // _OBSERVATIONS)
        report.add(QUIET, (*health.path, "quiet"), message, remedy)


PORT = rule(
    "RY912 health-port-used: Metrics of the health service and of the agent at one port",
    _AGENT % "" + "health: {metrics_port: 9465}\n",
    _AGENT % "" + "health: {metrics_port: 9466}\n",
)


def _port(fabric: Fabric, report: Report) -> None:
    health = fabric.health
    served = health and "off" not in (health.metrics, fabric.agent.metrics)
    if health and served and facts_of(fabric.provider).slots and health.metrics_port == fabric.agent.metrics_port:
        message = "the rail agent serves its metrics at port %d" % health.metrics_port
        report.add(PORT, (*health.path, "metrics_port"), message, "set another port, such as metrics_port: 9466")


KUBERNETES = rule(
    "RY913 health-without-kubernetes: Health reported to Kubernetes without Kubernetes",
    _ALONE + "health: {kubernetes: {condition: true}}\n",
    _ALONE + "health: {enabled: true}\n",
)


def _kubernetes(fabric: Fabric, report: Report) -> None:
    health = fabric.health
    if health and any((health.kubernetes or {}).values()) and not facts_of(fabric.provider).kubernetes:
        message = "the provider is %s, which has no cluster" % fabric.provider
        report.add(KUBERNETES, (*health.path, "kubernetes"), message, "remove kubernetes, or choose another provider")


AGENT = rule(
    "RY914 health-without-agent: Output of the health service that needs the rail agent",
    _AGENT % "" + "health: {kubernetes: {device_taints: true}}\n",
    _AGENT % ", kubelet_plugin: dra" + "health: {kubernetes: {device_taints: true}}\n",
    why="Only the agent has devices that can be cordoned, and only its DRA driver has devices with taints.",
)


def _agent(fabric: Fabric, variants: Variants, report: Report) -> None:
    health = fabric.health
    facts = facts_of(fabric.provider)
    if not health or not facts.kubernetes:
        return
    path = (*health.path, "kubernetes")
    if health.output("cordon") and not facts.slots:
        message = "the provider is %s, and the agent cordons rails" % fabric.provider
        report.add(AGENT, (*path, "cordon"), message, "remove cordon, or use the provider agent")
    if health.output("device_taints"):
        dra = facts.slots and any(kubelet_plugin(variant) == DRA for variant in variants)
        if not dra:
            message = "no node has the kubelet plugin %s of the agent" % DRA
            report.add(AGENT, (*path, "device_taints"), message, "remove device_taints, or set kubelet_plugin: dra")
