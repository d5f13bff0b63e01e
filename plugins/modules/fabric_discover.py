#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_discover.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_discover
short_description: Create a fabric file from running nodes
version_added: 0.2.0
description:
  - Reads the results of M(railyard.fabric.rail_info) on many nodes, and writes the fabric file that plans their
    present state. Runs on the control node only and contacts no host.
  - Nodes with the same hardware are one profile. Rails are proposed from the GPUs that NICs are nearest to. If names,
    routing tables, networks, slots or LLDP do not agree with them, it is a finding.
  - The interface of a rail can be a netdev, a bond or a VLAN. Bonds and VLANs that M(railyard.fabric.rail_ports) has
    not made are written with C(managed) false, so that they are compared and never changed.
  - The addresses of ports become subnets, ranges and node indexes that reproduce exactly these addresses. Ports of
    several rails can be in one network.
  - In the file, a comment C(CHECK) marks inferred values, and C(DECIDE) values that nodes do not show. The findings
    are described in C(docs/discover.md).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.new_fabric
options:
  nodes:
    description:
      - The name of each node with the result of M(railyard.fabric.rail_info). A node that could not be reached has an
        empty mapping, and is a finding.
    type: dict
    required: true
  addresses:
    description: The name of each node with the address at which Ansible reaches it, if that is not its name.
    type: dict
    default: {}
  name:
    description: The fabric's name. If omitted, C(discovered). MAC addresses and GUIDs of VFs are derived from it.
    type: str
  attachment:
    description: The attachment. If omitted, it is inferred from VFs, link layer and addresses.
    type: str
    choices: [macvlan, ipvlan, sriov, ib-sriov, ipoib, host-device]
  provider:
    description: The provider. If omitted, the first that supports attachment and address mode.
    type: str
    choices: [spiderpool, network-operator, cni, agent]
  profile:
    description: The name of the profile that most nodes have. Other profiles get this name with a number.
    type: str
    default: server
  rail_name:
    description:
      - A template of the rails' names, such as V(gpu{n:02}). If omitted, the names that RDMA devices and netdevs have
        (C(mlx5_gpu01), C(rail01)), else V(gpu{n:02}), and V(rail{n:02}) for nodes without GPUs.
    type: str
  mtu:
    description: The MTU that the switches of the rails support, in bytes. If omitted, the MTU of most ports.
    type: int
  supernet:
    description:
      - A network from which each rail without addresses gets its own, such as V(172.16.0.0/16). Nodes get the last
        addresses of a rail's network, pods the others. Nothing else may use the network.
    type: str
  pods:
    description:
      - The addresses of each rail's subnet that are for pods, such as V(.1-.200). If omitted, all other addresses.
    type: str
  pods6:
    description: As O(pods), for IPv6, such as V(::1:0-::1:fff).
    type: str
  gateway:
    description: The address of each rail's gateway, such as V(.254), if no route of the nodes shows it.
    type: str
  gateway6:
    description: As O(gateway), for IPv6.
    type: str
  lldp:
    description:
      - LLDP neighbours of ports, by node and netdev, each a mapping with C(chassis) and C(port). With it, rails and
        leaves are compared.
    type: dict
    default: {}
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.fabric_findings
  - module: railyard.fabric.fabric_import
"""

EXAMPLES = r"""
- name: Read the nodes
  hosts: all
  become: true
  gather_facts: false
  tasks:
    - name: Read NICs, addresses and settings
      railyard.fabric.rail_info:
      register: node

    - name: Create a fabric file
      railyard.fabric.fabric_discover:
        nodes: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'node'))) }}"
        dest: inventories/prod/fabric.yml
        name: prod
        lldp: {ai-1: {enp11s0f0np0: {chassis: leaf-1, port: swp1}}}
      run_once: true
"""

RETURN = r"""
text:
  description: The fabric file.
  returned: success
  type: str
dest:
  description: The path of the written file.
  returned: when O(dest) is given
  type: str
findings:
  description: The findings about inferred values, values that nodes do not show, and values that do not agree.
  returned: success
  type: list
  elements: dict
  sample:
    - code: DS302
      name: unexpected-address
      severity: error
      place: rails.gpu03
      nodes: [ai-07]
      message: the node has 172.16.13.209, but the plan has 172.16.13.207
      remedy: correct the node's index, or run hosts.yml, which sets the planned address
counts:
  description: The number of findings of each severity.
  returned: success
  type: dict
  sample: {error: 0, warning: 3}
table:
  description: The findings as a table, at most 120 characters wide.
  returned: success
  type: str
lint:
  description: Lint findings of the fabric file, one line for each rule and remedy.
  returned: success
  type: list
  elements: str
summary:
  description: The result as one line.
  returned: success
  type: str
  sample: "16 nodes give 8 rails; to decide: 0, to check: 3"
"""
