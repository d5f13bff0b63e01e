# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY2xx: names of fabrics, rails, profiles, nodes, devices, groups and variables."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, rule

_GOOD_FABRIC = "fabric: {name: ai-east, attachment: macvlan, provider: spiderpool, mtu: 4200}"

_GOOD_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02}
"""

_GOOD_NODES = """
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]"}
"""

FABRIC_NAME = rule(
    "RY201",
    "The fabric's name is not usable everywhere",
    "fabric: {name: AI_East, attachment: macvlan, provider: spiderpool, mtu: 4200}",
    _GOOD_FABRIC,
)

RAIL_NAME = rule(
    "RY202",
    "A rail's name is not usable everywhere",
    """
rails:
  GPU_1: {subnet: 172.16.11.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      GPU_1: {netdev: enp11s0f0np0}
""",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
""",
)

RAIL_ORDER = rule(
    "RY203",
    "Rail names do not sort as they count",
    """
rails:
  gpu9: {subnet: 172.16.19.0/24, hosts: .201-.253}
  gpu10: {subnet: 172.16.20.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu9: {netdev: enp19s0f0np0}
      gpu10: {netdev: enp20s0f0np0}
""",
    """
rails:
  gpu09: {subnet: 172.16.19.0/24, hosts: .201-.253}
  gpu10: {subnet: 172.16.20.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu09: {netdev: enp19s0f0np0}
      gpu10: {netdev: enp20s0f0np0}
""",
)

PROFILE_NAME = rule(
    "RY204",
    "A profile's name is not usable everywhere",
    """
profiles:
  HGX CX-5:
    ports:
      gpu01: {netdev: enp11s0f0np0}
      gpu02: {netdev: enp12s0f0np0}
nodes:
  ai-1: {profile: HGX CX-5}
""",
    """
profiles:
  hgx-cx5:
    ports:
      gpu01: {netdev: enp11s0f0np0}
      gpu02: {netdev: enp12s0f0np0}
nodes:
  ai-1: {profile: hgx-cx5}
""",
)

NODE_NAME = rule(
    "RY205",
    "A node's name is no host name, or is a group's too",
    """
nodes:
  AI_1: {profile: hgx}
""",
    _GOOD_NODES,
)

HOST_RANGE = rule(
    "RY206",
    "A host range cannot be expanded",
    """
nodes:
  ai-[2:1]: {profile: hgx}
""",
    _GOOD_NODES,
)

RANGE_LENGTH = rule(
    "RY207",
    "Ranges that run along have different lengths",
    """
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:4]"}
""",
    _GOOD_NODES,
)

NODE_TWICE = rule(
    "RY208",
    "A node is described twice",
    """
nodes:
  ai-[1:2]: {profile: hgx}
  ai-2: {profile: hgx}
""",
    """
nodes:
  ai-[1:2]: {profile: hgx}
  ai-3: {profile: hgx}
""",
)

NETDEV_NAME = rule(
    "RY209",
    "A netdev's name is none that the kernel takes",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0-gpu01, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    _GOOD_PORTS,
)

RDMA_NAME = rule(
    "RY210",
    "An RDMA device's name is none that the kernel takes",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5/gpu01}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    _GOOD_PORTS,
)

RDMA_OF_THE_KERNEL = rule(
    "RY211",
    "An RDMA device's name is one that the kernel itself gives",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02}
""",
    _GOOD_PORTS,
    WARNING,
)

GROUP_NAME = rule(
    "RY212",
    "A group's name is not usable",
    """
nodes:
  ai-1: {profile: hgx, groups: [rack-7]}
""",
    """
nodes:
  ai-1: {profile: hgx, groups: [rack_7]}
""",
)

VARIABLE_NAME = rule(
    "RY213",
    "A variable's name is not usable",
    """
nodes:
  ai-1: {profile: hgx, vars: {railyard_node: mine}}
""",
    """
nodes:
  ai-1: {profile: hgx, vars: {bmc: 10.1.17.1}}
""",
)

UNIT_NAME = rule(
    "RY214",
    "A unit's name is not usable everywhere",
    """
units:
  SU_1: {nodes: 32}
nodes:
  ai-[1:2]: {profile: hgx, unit: SU_1}
""",
    """
units:
  su1: {nodes: 32}
nodes:
  ai-[1:2]: {profile: hgx, unit: su1}
""",
)

NETDEV_OF_THE_KERNEL = rule(
    "RY215",
    "Netdev name that the kernel itself assigns",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: eth0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    _GOOD_PORTS,
    WARNING,
    why="A port that is known by its PCI address gets the name netdev. The kernel assigns eth0 and ib0 in the order in"
    " which cards are found, so another card may have the name at boot, and the rename fails.",
)
