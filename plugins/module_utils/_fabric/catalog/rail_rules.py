# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY4xx: rails, profiles, ports and nodes, and references between them."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_GOOD_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02, gpu: 1}
"""

_GOOD_NODES = """
nodes:
  ai-[1:2]: {profile: hgx}
"""


def _ports(first: str, second: str) -> str:
    return "profiles:\n  hgx:\n    ports:\n      %s\n      %s\n" % (first, second)


PROFILE_UNKNOWN = rule(
    "RY401 undefined-profile: Undefined profile",
    """
nodes:
  ai-[1:2]: {profile: hgx-h100}
""",
    _GOOD_NODES,
)

RAIL_UNKNOWN = rule(
    "RY402 undefined-rail: Port on an undefined rail",
    _ports("gpu01: {netdev: enp11s0f0np0}", "gpu2: {netdev: enp12s0f0np0}"),
    _GOOD_PORTS,
)

RAIL_UNSERVED = rule(
    "RY403 profile-misses-rail: Profile without a port on a rail",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: enp11s0f0np0}\n",
    _GOOD_PORTS,
    WARNING,
)

NETDEV_TWICE = rule(
    "RY404 duplicate-netdev: Two ports with the same netdev",
    _ports("gpu01: {netdev: enp11s0f0np0}", "gpu02: {netdev: enp11s0f0np0}"),
    _GOOD_PORTS,
)

PCI_TWICE = rule(
    "RY405 duplicate-pci-address: Two ports with the same PCI address",
    _ports('gpu01: {netdev: nic1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: nic2, pci: "0b:00.0"}'),
    _GOOD_PORTS,
)

RDMA_TWICE = rule(
    "RY406 duplicate-rdma-device: Two ports with the same RDMA device",
    _ports("gpu01: {netdev: nic1, rdma: mlx5_gpu01}", "gpu02: {netdev: nic2, rdma: mlx5_gpu01}"),
    _GOOD_PORTS,
)

GPU = rule(
    "RY408 invalid-gpu: Invalid or duplicate GPU number",
    _ports("gpu01: {netdev: nic1, gpu: [0, 0]}", "gpu02: {netdev: nic2, gpu: [1, 2]}"),
    _GOOD_PORTS,
)

PORT_UNFOUND = rule(
    "RY409 port-without-netdev: Added port without a netdev",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {gpu: 1}}}
""",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {netdev: enp12s0f0np0, gpu: 1}}}
""",
)

NO_INDEX = rule(
    "RY410 missing-index: Node without an index",
    """
nodes:
  jupiter: {profile: hgx}
""",
    """
nodes:
  jupiter: {profile: hgx, index: 1}
""",
)

INDEX = rule(
    "RY411 invalid-index: Invalid node index",
    """
nodes:
  ai-[0:1]: {profile: hgx}
""",
    """
nodes:
  ai-[0:1]: {profile: hgx, index: "[1:2]"}
""",
)

INDEX_TWICE = rule(
    "RY412 duplicate-index: Two nodes with the same index",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx}
""",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx, index: "[1:4]"}
""",
)

PROFILE_UNUSED = rule(
    "RY413 unused-profile: Profile without nodes",
    _GOOD_PORTS + "  spare:\n    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n",
    _GOOD_PORTS,
    WARNING,
)

OVERRIDE_IDLE = rule(
    "RY414 override-without-effect: Removal of a port that the profile does not have",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
  ai-2: {profile: hgx}
""",
    WARNING,
)

TOO_MANY_NODES = rule(
    "RY415 too-many-nodes: Too many nodes",
    """
nodes:
  ai-[1:70000]: {profile: hgx}
""",
    _GOOD_NODES,
)

PLANES = rule(
    "RY419 invalid-planes: Invalid number of planes",
    """
rails: {count: 2, name: "gpu{n:02}", planes: 3, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}
""",
    """
rails: {count: 1, name: "gpu{n:02}", planes: 2, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01p1: {netdev: nic1}, gpu01p2: {netdev: nic2}}}
""",
)

GROUP_UNUSED = rule(
    "RY433 unused-group: Group without nodes",
    "groups:\n  rack_a: {vars: {row: 1}}\n",
    "groups:\n  rack_a: {vars: {row: 1}}\nnodes:\n  ai-[1:2]: {profile: hgx, groups: [rack_a]}\n",
    WARNING,
)

RAIL_EMPTY = rule(
    "RY435 unused-rail: Rail without ports",
    """
nodes:
  ai-[1:2]: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx, ports: {gpu02: null}}
""",
    WARNING,
)

# The maximum number of nodes of a fabric.
MAX_NODES = 65536
