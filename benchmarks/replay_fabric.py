# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric of the replayed nodes, and their results that can be derived from its plan."""

from __future__ import annotations

import sys
import typing as t

from benchmarks.figures import ROOT

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import host_layers
from tests.browser.samples import UNIT, servers
from tests.unit.fabric.verify_nodes import World

Row = t.Dict[str, t.Any]
_FABRIC = """\
plugin: railyard.fabric.rails
fabric:
  name: ai-east
  attachment: sriov
  provider: spiderpool
  mtu: 4200
  max_nodes: %d
  pods_per_node: 8
  vfs: {count: 8, trust: true, spoofchk: false, link_state: auto}
addresses: {mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 14, node_prefix: 27, gateway: first}
qos: {dscp: 26}
units:
  su[1:%d]: {nodes: 32, leaf: "su{u}-r{n:02}", leaf_port: "swp{i}"}
rails: {count: 8, name: "gpu{n:02}", mtu: 4200}
profiles:
  hgx-h100:
    speed: 400
    pcie_gen: 5
    pcie_lanes: 16
    gpus: 8
    gpu_distance: PIX
    ports:
%s
nodes:
%s
"""
# The TCP port of a prober.
_PORT = 40100


def fabric(nodes: int) -> str:
    """Return a fabric file of servers with eight rails, in units of 32."""
    units = -(-nodes // UNIT)
    return _FABRIC % (units * UNIT, units, *servers(nodes, "172.20"))


def plan(text: str) -> Plan:
    outcome = lint(text.encode())
    if outcome.plan is None:
        sys.exit("\n".join(finding.text() for finding in outcome.errors))
    return outcome.plan


def planned_results(world: World, name: str) -> dict[str, Row]:
    """Return name of the recording -> result of a module on a node that is as planned."""
    node = world.plans[name]
    rows = layer_modules.layer_modules(node, world.fabric, {}, LAYERS)
    result: Row = {"modules": {}, "needs": {}, "system": {"boot_id": world.infos[name]["system"]["boot_id"]}}
    for row in rows:
        part = {"changed": False, "changes": [], "diff": {"before": "", "after": ""}, "gathered": row["options"]}
        result["modules"][row["module"]] = dict(part, reboot_required=False, reboot_reasons=[])
    outside = {"connection": "eno1", "default_route": ["eno1"], "netdevs": {"eno1": "carries this connection"}}
    tools = {"pyroute2": "0.7.2", "perftest": "6.06"}
    info = dict(
        world.infos[name], tools=tools, management_path={**outside, "functions": {}, "addresses": ["192.0.2.1"]}
    )
    return {
        "rail_host": host_layers._combined(result),
        "rail_info": dict(info, changed=False),
        "rail_pods": {**world.insides[name], "cordons": {}, "changed": False},
        "rail_probe.start": {"port": _PORT, "changed": False},
        "rail_probe.collect": {
            **{"results": world.probes[name], "refused": "", "others": [], "changed": False},
            **{"pod_results": world.pod_probes[name], "pod_refused": ""},
        },
    }
