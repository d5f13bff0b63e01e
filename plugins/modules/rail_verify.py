#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/rail_verify.py, which runs rail_info, rail_host, rail_pods and
# rail_probe.

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_verify
short_description: Read nodes for a verdict, and let them probe each other
version_added: 0.2.0
description:
  - Runs M(railyard.fabric.rail_info), M(railyard.fabric.rail_host), M(railyard.fabric.rail_pods) and
    M(railyard.fabric.rail_probe) on a node as the parts of C(playbooks/verify.yml) and C(playbooks/drift.yml) need
    them, with one result per part.
  - The states of nodes are kept in files on the control node, in Ansible's temporary directory, until
    M(railyard.fabric.fabric_verify) reads them by the name of the run. Results of this action have only the values that
    later tasks need.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  part:
    description:
      - V(begin) chooses what this run compares, as the variables of the role C(verify) request it. It contacts no node.
        Register its result as C(__verify_run), from which all other parts take it.
      - V(read) reads the state of the node and its test pods, and what the modules would change.
      - V(choose) chooses the pairs of nodes and of test pods, from the read nodes of O(nodes). With the variable
        C(verify_part=judge), these are the nodes that other runs have left for pairs with nodes of other parts. It
        contacts no node.
      - V(start) starts the prober of the node with its turns. A node without a partner is skipped.
      - V(collect) waits until the prober has ended its turns, and takes its results. Run it when V(start) has ended on
        all nodes.
      - V(narrow) chooses further rounds for failed and slow pairs that have no single cause yet, from the results that
        V(collect) has taken. V(start) and V(collect) then run these rounds. There are at most two batches. It contacts
        no node.
      - V(end) ends the run on the control node, which fails if the verdict is not ok, and on the nodes that do not
        answer, which are unreachable. If a limit excludes the control node, nodes fail for their own failures. It
        contacts no node.
    type: str
    choices: [begin, read, choose, start, collect, narrow, end]
    required: true
  nodes:
    description: With O(part=choose), the names of the nodes, in the order of the play.
    type: list
    elements: str
    default: []
seealso:
  - module: railyard.fabric.fabric_verify
  - module: railyard.fabric.rail_probe
"""

EXAMPLES = r"""
- name: Choose what is compared
  railyard.fabric.rail_verify:
    part: begin
  register: __verify_run
  run_once: true

- name: Read the node, its pods, and what the modules would change
  railyard.fabric.rail_verify:
    part: read
"""

RETURN = r"""
run:
  description: The name of the run.
  returned: with O(part=begin)
  type: str
  sample: anna@bastion (48213)
began:
  description: When the run began, in seconds since 1970.
  returned: with O(part=begin)
  type: float
  sample: 1795514525.0
layers:
  description: The layers to compare; empty for all. RV(rails) are the rails.
  returned: with O(part=begin)
  type: list
  elements: str
  sample: []
rails:
  description: The rails to compare; empty for all.
  returned: with O(part=begin)
  type: list
  elements: str
  sample: []
thorough:
  description: Whether modules run in check mode, and counters and latencies are read.
  returned: with O(part=begin)
  type: bool
cluster:
  description: Whether the cluster is compared, with its objects (RV(objects)) and test pods (RV(pods)).
  returned: with O(part=begin)
  type: bool
objects:
  description: Whether the objects of the cluster are compared.
  returned: with O(part=begin)
  type: bool
pods:
  description: Whether test pods are read and probed.
  returned: with O(part=begin)
  type: bool
judges:
  description: Whether the run gives the verdict on parts of other runs.
  returned: with O(part=begin)
  type: bool
modules:
  description: The changes that modules would make, of modules that would change something.
  returned: with O(part=read), if modules ran in check mode
  type: dict
  sample: {rail_ports: {changed: true, changes: []}}
nodes:
  description: The number of nodes that have a partner.
  returned: with O(part=choose) and O(part=narrow)
  type: int
  sample: 2
"""
