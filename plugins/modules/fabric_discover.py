#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_discover.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_discover
short_description: A fabric file from nodes as they are
version_added: 0.2.0
description:
  - Takes what M(railyard.fabric.rail_info) returned of many nodes, and writes the fabric file that plans what is there.
    Runs on the control node alone and contacts no host.
  - Nodes that have the same are one profile. Rails are proposed from the GPUs that NICs are nearest to; names, routing
    tables, networks, slots and LLDP must agree, or there is a finding.
  - Addresses that ports have become subnets, ranges and node indexes with which the plan gives exactly these.
  - In the file a comment C(CHECK) marks what was concluded, and C(DECIDE) what nodes do not say. The findings' codes
    are in C(docs/discover.md).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Writes nothing, and says whether it would.
    support: full
  diff_mode:
    description: Shows the fabric file as it is and as it becomes.
    support: full
options:
  nodes:
    description:
      - The name of each node with what M(railyard.fabric.rail_info) returned of it. A node that could not be asked has
        an empty mapping, and a finding says so.
    type: dict
    required: true
  addresses:
    description: The name of each node with the address at which Ansible reaches it, where that is not its name.
    type: dict
    default: {}
  dest:
    description: The fabric file to write. Without it nothing is written, and RV(text) has it.
    type: path
  force:
    description: Whether O(dest) is overwritten where it is there and has other content.
    type: bool
    default: false
  name:
    description: The fabric's name. Without it, C(discovered). MAC addresses and GUIDs of VFs follow from it.
    type: str
  attachment:
    description: How pods get onto the rails. Without it, it is concluded from VFs, link layer and addresses.
    type: str
    choices: [macvlan, ipvlan, sriov, ib-sriov, ipoib, host-device]
  provider:
    description: Who serves the attachments. Without it, the first that serves attachment and address mode.
    type: str
    choices: [spiderpool, network-operator, cni]
  profile:
    description: The name of the profile that most nodes have. Others get a number at its end.
    type: str
    default: server
  rail_name:
    description:
      - A template of the rails' names, such as V(gpu{n:02}). Without it, the names that RDMA devices and netdevs have
        (C(mlx5_gpu01), C(rail01)), else V(gpu{n:02}), and V(rail{n:02}) for nodes without GPUs.
    type: str
  mtu:
    description: What the switches of the rails carry, in bytes. Without it, what most ports have.
    type: int
  pods:
    description: The addresses of each rail's subnet that are for pods, such as V(.1-.200). Without it, what is left.
    type: str
  pods6:
    description: Likewise for IPv6, such as V(::1:0-::1:fff).
    type: str
  gateway:
    description: The address of each rail's gateway, such as V(.254), where no route of the nodes says it.
    type: str
  gateway6:
    description: Likewise for IPv6.
    type: str
  lldp:
    description:
      - What ports hear, by node and netdev, each a mapping with C(chassis) and C(port). With it, rails and leaves are
        compared.
    type: dict
    default: {}
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.fabric_findings
  - module: railyard.fabric.fabric_import
"""

EXAMPLES = r"""
- name: Ask the nodes
  hosts: all
  become: true
  gather_facts: false
  tasks:
    - name: See what is there
      railyard.fabric.rail_info:
      register: seen

    - name: Make a fabric file of it
      railyard.fabric.fabric_discover:
        nodes: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'seen'))) }}"
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
  description: Where it was written.
  returned: when O(dest) is given
  type: str
findings:
  description: What was concluded, what nodes do not say, and what does not agree.
  returned: success
  type: list
  elements: dict
  sample:
    - code: DS302
      severity: error
      place: rails.gpu03
      nodes: [ai-07]
      message: has 172.16.13.209, and the plan gives 172.16.13.207
      remedy: correct the node's index or address; hosts.yml gives it the plan's
counts:
  description: How many findings there are of each severity.
  returned: success
  type: dict
  sample: {error: 0, warning: 3}
table:
  description: The findings as a table, at most 120 characters wide.
  returned: success
  type: str
lint:
  description: What lint says of the fabric file, a line each.
  returned: success
  type: list
  elements: str
summary:
  description: What was seen and what it gave, as one line.
  returned: success
  type: str
  sample: "16 nodes give 8 rails; to decide: 0, to check: 3"
"""
