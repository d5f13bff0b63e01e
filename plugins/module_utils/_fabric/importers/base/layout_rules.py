# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules about the layouts of nodes: server models, addresses of ports and slots, bonds, VLANs, and VFs of other
owners."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.example_manifests import (
    BOTH,
    FOUR,
    GOOD_NETWORK,
    GOOD_POLICY,
    GOOD_POOL,
    GOOD_SRIOV,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_rules import CIDR_POOL, rule


def _interface(node: int, address: int, netdev: str = "enp11s0f0np0", third: int = 11) -> str:
    """Return the NodeNetworkConfigurationPolicy of a port of a node."""
    return """---
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: ai-%d-%s}
spec:
  nodeSelector: {kubernetes.io/hostname: ai-%d}
  desiredState:
    interfaces:
      - name: %s
        type: ethernet
        ipv4: {enabled: true, address: [{ip: 172.16.%d.%d, prefix-length: 24}]}
""" % (node, netdev, node, netdev, third, address)


def _of_model(model: str, netdev: str) -> str:
    """Return a policy for the nodes with a label."""
    text = GOOD_POLICY.replace("{kubernetes.io/os: linux}", "{node.model: %s}" % model)
    return text.replace("{name: gpu1,", "{name: gpu1-%s," % model).replace("enp11s0f0np0", netdev)


def _two_rails(first: int, second: int) -> str:
    """Return two rails with the addresses of two nodes: these are the addresses of the second node."""
    addresses = _interface(1, 201) + _interface(2, first)
    addresses += _interface(1, 201, "enp12s0f0np0", 12) + _interface(2, second, "enp12s0f0np0", 12)
    return FOUR + addresses


HOSTS_DIFFER = rule(
    "IM330 host-address-order: Addresses of ports that do not follow from the index of their nodes",
    _two_rails(209, 203),
    _two_rails(202, 202),
    ERROR,
)
HOST_UNKNOWN = rule(
    "IM331 unknown-host: Addresses of a node whose name is unknown",
    BOTH + _interface(1, 201).replace("nodeSelector: {kubernetes.io/hostname: ai-1}", "nodeSelector: {rack: a}"),
    BOTH + _interface(1, 201),
    ERROR,
)


MODELS = rule(
    "IM516 nodes-by-label: Ports that differ between nodes by label",
    _of_model("a", "enp11s0f0np0") + "---" + _of_model("b", "enp21s0f0np0") + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
    ERROR,
)
LABEL = rule(
    "IM517 one-node-label: Objects for the nodes with a label",
    _of_model("a", "enp11s0f0np0") + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
)
PART = rule(
    "IM518 vf-part: VFs of a port that have another owner",
    GOOD_POLICY.replace("[enp11s0f0np0]", '["enp11s0f0np0#2-7"]') + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
)
OWNER = rule(
    "IM519 vfs-of-others: VFs that pods would take from another owner",
    GOOD_POLICY.replace("isRdma: true", "deviceType: vfio-pci") + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
    ERROR,
)
STACKED = rule(
    "IM520 bond-or-vlan: Network on a bond or VLAN",
    GOOD_POOL + "---" + GOOD_NETWORK.replace("[enp11s0f0np0]", "[enp11s0f0np0.100]"),
    BOTH,
)
BOND = rule(
    "IM521 unknown-bond-members: Network on a bond whose members are unknown",
    GOOD_POOL + "---" + GOOD_NETWORK.replace("[enp11s0f0np0]", "[bond0]"),
    BOTH,
    ERROR,
)

_STATUS = "status: {totalIPCount: 200, allocatedIPCount: %d, allocatedIPs: '%s'}\n"
_FREE = GOOD_POOL + _STATUS % (1, '{"172.16.11.3": {"pod": "default/train-3"}}') + "---" + GOOD_NETWORK
_POD = """---
apiVersion: v1
kind: Pod
metadata: {name: train-1}
status: {podIP: 10.101.0.3}
"""
UNKNOWN = rule("IM332 unknown-allocations: Pool for slots whose allocations are unknown", BOTH, _FREE, ERROR)
FULL = rule(
    "IM333 no-addresses-for-slots: Pool without addresses for slots",
    _FREE.replace(".1-172.16.11.200", ".3-172.16.11.3"),
    _FREE,
    ERROR,
)
DRAIN = rule("IM334 pods-in-node-networks: Pods with addresses for slots of their node", CIDR_POOL + _POD, CIDR_POOL)
# The rules that apply to imports for the agent only.
OF_SLOTS = (UNKNOWN, FULL, DRAIN)
