# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node file of the rail agent of the plan for bonds, VLANs and shared RDMA devices, as the agent reads it."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import LowerSpec, RailSpec

FILE = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: agent, mtu: 4200, slots: {all_rails: 2, per_rail: 0}}
rails:
  gpu[1:2]: {subnet: "172.16.{n}.0/24", pods: .1-.200, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu1: %s
      gpu2: {pci: "0000:3a:00.0", netdev: ens3np0, rdma: mlx5_9}
nodes:
  node-1: {profile: hgx}
"""
MEMBERS = "members: [{pci: '0000:29:00.0', netdev: ens2f0np0}, {pci: '0000:29:00.1', netdev: ens2f1np1}]"
FUNCTIONS = ("0000:29:00.0", "0000:29:00.1")


def rails_of(port: str) -> tuple[RailSpec, ...]:
    outcome = lint((FILE % port).encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    (node,) = outcome.plan.document()["nodes"]
    return agent_spec.parse_spec(node["agent"]).rails


@pytest.mark.parametrize(
    ("port", "netdev", "lower"),
    [
        ("{bond: {name: bond0, %s}, rdma: mlx5_bond_0}", "bond0", LowerSpec(None, None, "bond0", FUNCTIONS)),
        (
            "{bond: {name: bond0, mode: active-backup, %s}, vlan: 100, rdma: mlx5_bond_0}",
            "bond0.100",
            LowerSpec(100, "bond0", "bond0", FUNCTIONS),
        ),
        (
            "{pci: '0000:29:00.0', netdev: ens2f0np0, vlan: {id: 7, name: storage0}, rdma: mlx5_4}",
            "storage0",
            LowerSpec(7, "ens2f0np0", None, FUNCTIONS[:1]),
        ),
    ],
)
def test_the_agent_reads_the_interface_and_what_is_below_it(port: str, netdev: str, lower: LowerSpec) -> None:
    stacked, plain = rails_of(port % MEMBERS if "%s" in port else port)
    assert (stacked.netdev, stacked.pci, stacked.lower) == (netdev, None, lower)
    assert stacked.functions == lower.functions
    assert (plain.lower, plain.functions, plain.rdma_port) == (None, ("0000:3a:00.0",), None)


@pytest.mark.parametrize(("rdma", "number"), [("mlx5_0", None), ("mlx5_0:1", 1), ("mlx5_0:3", 3)])
def test_the_agent_reads_the_port_of_the_rdma_device(rdma: str, number: int | None) -> None:
    first, _second = rails_of("{pci: '0000:29:00.0', netdev: ens2f0np0, rdma: '%s'}" % rdma)
    assert (first.rdma, first.rdma_port) == ("mlx5_0", number)
