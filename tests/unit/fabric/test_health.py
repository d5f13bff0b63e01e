# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section ``health`` of the fabric file, and the spec of the service that follows from the plan."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import THRESHOLDS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file import fabric_writer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import read
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import health_file, layer_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_rules, health_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = """
health:
  interval: 10
  thresholds: {symbol_error: 20, roce_slow_restart: null}
  probe: {}
  kubernetes: {condition: true, kubeconfig: /etc/railyard/kubeconfig}
"""


def plan_of(text: str) -> t.Any:
    outcome = lint(text.encode())
    assert outcome.plan, outcome.findings
    return outcome.plan


def spec_of(text: str) -> HealthSpec:
    """The spec of the first node, as the service reads it."""
    plan = plan_of(text)
    return health_spec.parse_spec(health_file.spec(plan.document()["nodes"][0], plan.fabric_vars()))


def test_without_the_section_nothing_changes() -> None:
    for text in (example_file.BASE, example_file.BASE + "health: {enabled: false}\n"):
        plan = plan_of(text)
        assert "health" not in plan.fabric_vars()
        options = layer_table.BY_MODULE["health_service"].options
        assert options(plan.document()["nodes"][0], plan.fabric_vars(), []) is None


def test_the_spec_has_the_planned_rails_and_settings() -> None:
    spec = spec_of(example_file.BASE + SETTINGS)
    assert (spec.node, spec.interval, spec.quiet, spec.metrics) == ("ai-1", 10, 30, "127.0.0.1:9466")
    assert spec.thresholds == {"symbol_error": 20, "roce_slow_restart": None}
    partners = {"gpu0%d" % rail: (health_spec.Partner("ai-2", "172.16.1%d.202" % rail),) for rail in (1, 2)}
    assert spec.probe == health_spec.Probe(10000, partners)
    assert spec.kubernetes == health_spec.Kubernetes("/etc/railyard/kubeconfig", True, False, False, False)
    rail = spec.rails[0]
    assert (rail.rail, rail.netdev, rail.pci, rail.mtu) == ("gpu01", "enp11s0f0np0", "0000:0b:00.0", 4200)
    assert (rail.addresses, rail.family, rail.movable) == (["172.16.11.201"], "mlx5", False)


def test_bonds_and_vlans_are_in_the_spec() -> None:
    ports = example_file.ports(
        "gpu01: {bond: {name: bond0, members: [%s, %s]}, vlan: 100}"
        % ('{netdev: ens2f0, pci: "0000:29:00.0"}', '{netdev: ens2f1, pci: "0000:29:00.1"}'),
        'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}',
    )
    first, second = spec_of(example_file.whole(ports + "health: {enabled: true}\n")).rails
    assert (first.bond, first.bond_mode, first.vlan, first.parent) == ("bond0", "802.3ad", 100, "bond0")
    assert [each.pci for each in first.functions] == ["0000:29:00.0", "0000:29:00.1"]
    assert (second.bond, second.functions) == (None, ())


def test_a_pod_may_hold_a_port_with_host_device() -> None:
    fabric = "fabric: {name: ai, attachment: host-device, provider: network-operator, mtu: 4200}\n"
    assert all(rail.movable for rail in spec_of(example_file.whole(fabric + "health: {enabled: true}\n")).rails)


def test_a_written_file_gives_the_same_section() -> None:
    def fabric_of(text: str) -> t.Any:
        report = Report()
        document = yaml_source.parse(text.encode(), report)
        return read(document, report)

    fabric = fabric_of(example_file.BASE + SETTINGS)
    again = fabric_of(fabric_writer.write(fabric))
    assert again.health == fabric.health and again.health is not None


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ("health: {thresholds: {symbol_errors: 3}}", "RY1"),
        ("health: {thresholds: {symbol_error: -1}}", "RY1"),
        ("health: {interval: 0}", "RY1"),
        ("health: {kubernetes: {taint: true}}", "RY1"),
    ],
)
def test_wrong_values_are_findings(section: str, code: str) -> None:
    (finding,) = lint((example_file.BASE + section + "\n").encode()).findings
    assert finding.code.startswith(code) and finding.remedy


def test_the_page_has_the_thresholds_and_codes() -> None:
    page = (ROOT / "docs" / "health.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (?:fails|is degraded) \| ([^|]+) \|", page, re.MULTILINE)
    assert rows == [
        (row.name, "%g%s" % (row.above, row.unit), ", ".join("`%s`" % name for name in row.counters))
        for row in THRESHOLDS.values()
    ]
    assert set(health_rules.RULES) - set(re.findall(r"RV\d+", page)) == set()
