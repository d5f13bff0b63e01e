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
    "RY201 fabric-name: Invalid fabric name",
    "fabric: {name: AI_East, attachment: macvlan, provider: spiderpool, mtu: 4200}",
    _GOOD_FABRIC,
)

RAIL_NAME = rule(
    "RY202 rail-name: Invalid rail name",
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
    "RY203 rail-order: Rail names that do not sort in the order of the rails",
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
    "RY204 profile-name: Invalid profile name",
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
    "RY205 node-name: Node name that is not a host name, or is also the name of a group",
    """
nodes:
  AI_1: {profile: hgx}
""",
    _GOOD_NODES,
)

HOST_RANGE = rule(
    "RY206 invalid-host-range: Invalid host range",
    """
nodes:
  ai-[2:1]: {profile: hgx}
""",
    _GOOD_NODES,
)

RANGE_LENGTH = rule(
    "RY207 range-length-mismatch: Ranges of different lengths in one entry",
    """
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:4]"}
""",
    _GOOD_NODES,
)

NODE_TWICE = rule(
    "RY208 duplicate-node: Node in two entries",
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
    "RY209 netdev-name: Invalid netdev name",
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
    "RY210 rdma-device-name: Invalid RDMA device name",
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
    "RY211 kernel-rdma-device-name: RDMA device name that the kernel itself assigns",
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
    "RY212 group-name: Invalid group name",
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
    "RY213 variable-name: Invalid variable name",
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
    "RY214 unit-name: Invalid unit name",
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
    "RY215 kernel-netdev-name: Netdev name that the kernel itself assigns",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: eth0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    _GOOD_PORTS,
    WARNING,
    why="A port that is identified by its PCI address gets the name in netdev. The kernel assigns eth0 and ib0 in the"
    " order in which it finds the cards, so another card may have the name at boot. Then the rename fails.",
)
