#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/rail_verify.py, which runs rail_info, rail_host and rail_probe.

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_verify
short_description: Read and probe a node for a verdict
version_added: 0.2.0
description:
  - Runs M(railyard.fabric.rail_info), M(railyard.fabric.rail_host), M(railyard.fabric.rail_pods) and
    M(railyard.fabric.rail_probe) on a node as the parts of C(playbooks/verify.yml) and C(playbooks/drift.yml) need
    them, with one result per part.
  - The states of nodes are kept in files on the control node, in Ansible's temporary directory, until
    M(railyard.fabric.fabric_verify) reads them by the name of the run, which is the fact C(__proof_run). Results of
    this action have only the values that later tasks need.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  part:
    description:
      - V(read) reads the state of the node, and what the modules would change, as the variables of the roles C(verify)
        and C(proof) request it.
      - V(choose) chooses the pairs of nodes and their steps, from the read nodes of O(nodes). It contacts no node.
      - V(step) probes the partner of a round, and then serves the partner of the next round, as the node has turns in
        O(step). After its last round, it ends servers that still wait, and reads counters again. A node without a turn
        is skipped. A node waits for nodes before it in O(nodes), so the strategy of the play must begin tasks in that
        order, as the strategy V(linear) does.
    type: str
    choices: [read, choose, step]
    required: true
  nodes:
    description: With O(part=choose), the names of the nodes, in the order of the play.
    type: list
    elements: str
    default: []
  max_rounds:
    description: With O(part=choose), the most rounds.
    type: int
    default: 8
  parts:
    description:
      - With O(part=choose), the directory in which other runs have left parts. The nodes are then those that the parts
        name for pairs with nodes of other parts. They are not read again.
    type: path
  step:
    description: With O(part=step), the number of the step, counted back from the last step, which is 0.
    type: int
    default: 0
seealso:
  - module: railyard.fabric.fabric_verify
  - module: railyard.fabric.rail_probe
"""

EXAMPLES = r"""
- name: Read the node, and what the modules would change
  railyard.fabric.rail_verify:
    part: read

- name: Choose the pairs of nodes
  railyard.fabric.rail_verify:
    part: choose
    nodes: "{{ ansible_play_hosts_all }}"
  register: chosen
  run_once: true
"""

RETURN = r"""
readable:
  description: Whether the state of the node could be read.
  returned: with O(part=read)
  type: bool
  sample: true
tools:
  description: The installed programs that modules need, each with its version.
  returned: with O(part=read), if the node could be read
  type: dict
  sample: {pyroute2: 0.7.2, perftest: '6.06'}
probe:
  description: The options of probes. Probes of the node's pods use them too.
  returned: with O(part=read), if the node could be read
  type: dict
  sample: {count: 3, size: 65536, iterations: 1000, lifetime: 120}
modules:
  description: The changes that modules would make, of modules that would change something.
  returned: with O(part=read), if modules ran in check mode
  type: dict
  sample: {rail_ports: {changed: true, changes: []}}
nodes:
  description: The nodes that probe each other.
  returned: with O(part=choose)
  type: list
  elements: str
  sample: [ai-1, ai-2]
rounds:
  description: The rounds of pairs, each pair with its server first.
  returned: with O(part=choose) and O(parts)
  type: list
  elements: list
  sample: [[[ai-1, ai-9]]]
steps:
  description: The number of steps.
  returned: with O(part=choose)
  type: int
  sample: 5
"""
