# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names by rail: what no template can count is named for each rail, and a rail without a name is a finding."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import read
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import parse

FILE = """
plugin: railyard.fabric.rails
fabric: {name: b, attachment: macvlan, provider: spiderpool, mtu: 4200}
names:
  resource: {gpu01: shared_a, gpu02: "shared_{fabric}"}
  pool: {gpu01: east, gpu02: "west-{n:02}"}
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, subnet6: "fd00:1::/64", pods6: "::100-::1ff", hosts6: "::1-::9"}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, subnet6: "fd00:2::/64", pods6: "::100-::1ff", hosts6: "::1-::9"}
profiles: {s: {ports: {gpu01: {netdev: e1}, gpu02: {netdev: e2}}}}
nodes: {ai-1: {profile: s, address: 10.1.1.1}}
"""  # noqa: E501


def test_each_rail_has_its_own_name() -> None:
    outcome = lint(FILE.encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    ports = outcome.plan.document()["nodes"][0]["ports"]
    # IPv6 pools follow from the names of the IPv4 ones
    keys = ("resource", "pool", "pool6")
    assert [tuple(port["names"][key] for key in keys) for port in ports] == [
        ("shared_a", "east", "v6-east"),
        ("shared_b", "west-02", "v6-west-02"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ('gpu02: "shared_{fabric}"', 'gpu03: "shared_b"', "RY110", "names.resource.gpu03"),
        (', gpu02: "shared_{fabric}"', "", "RY111", "names.resource.gpu02"),
        ('"shared_{fabric}"', "shared-b", "RY803", "names.resource"),
        ('"west-{n:02}"', '"west-{node}"', "RY814", "names.pool"),
        ('"west-{n:02}"', '"west-{nodes}"', None, "names.pool.gpu02"),
        ('"west-{n:02}"', "east", "RY807", "names.pool"),
    ],
)
def test_every_error_is_reported_at_its_place(old: str, new: str, code: str | None, place: str) -> None:
    assert old in FILE
    findings = lint(FILE.replace(old, new).encode()).findings
    assert place in [finding.place for finding in findings if code in (None, finding.code)]


def test_a_file_that_is_written_has_them_again() -> None:
    report = Report()
    document = parse(FILE.encode(), report)
    assert document is not None
    text = write(read(document, report))
    again = parse(text.encode(), report)
    assert again is not None and not report.failed
    assert write(read(again, report)) == text and 'gpu02: "shared_{fabric}"' in text
