#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_status.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_status
short_description: Show the state of all nodes on one screen
version_added: 0.2.0
description:
  - Shows how many nodes answer, how many ports are up, held slots, versions of the rail agent, cordons, and the last
    verdict of C(verify.yml) with its age. Then lists what is not normal, grouped by rails and nodes.
  - Reads the variable C(railyard_status_node) of each node, the result of M(railyard.fabric.rail_info) with the parts
    C(nics), C(rdma), C(agent) and C(health). C(playbooks/status.yml) registers it.
  - If the plan has the health service, gives one result of the whole fabric from its states, without a probe.
  - Runs on the control node only. Writes C(status.json) to O(report_dir), and changes nothing else.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Shows the same, and does not write C(status.json).
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
options:
  report_dir:
    description: The directory on the control node with C(verify.json). C(status.json) is written to it.
    type: path
    default: reports
  cluster:
    description: Whether to ask the Kubernetes cluster for cordoned nodes.
    type: bool
    default: false
  kubeconfig:
    description: The kubeconfig of the cluster.
    type: path
  context:
    description: The kubeconfig's context.
    type: str
  connections:
    description: The maximum number of requests to the cluster at the same time.
    type: int
    default: 8
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Read ports and agent
  railyard.fabric.rail_info:
    subset: [nics, rdma, agent, health]
  register: railyard_status_node

- name: Show the status
  railyard.fabric.fabric_status:
  run_once: true
"""

RETURN = r"""
summary:
  description: The sum, as one sentence.
  returned: success
  type: str
  sample: >-
    32 nodes: 31 answer, hgx-5 does not; 248 of 256 ports up; 120 of 512 slots held; agents: 0.2.0 on 31 nodes; last
    verify 2 h ago: 256 of 256 ports proven
counts:
  description: The numbers of the sum.
  returned: success
  type: dict
  sample: {nodes: 32, nodes_read: 31, ports: 256, ports_up: 248, slots: 512, slots_held: 120}
health:
  description:
    - The result of the health service for the whole fabric. It is V(fail) if a rail fails; otherwise V(unknown) if the
      state of a rail is unknown, absent or stale, or its node does not answer.
  returned: if a node has the health service, or the plan has it
  type: str
  sample: pass
differences:
  description: A line for each thing that is not normal, with its rails and nodes.
  returned: success
  type: list
  elements: str
  sample: ['gpu03 on hgx-7: no carrier']
lines:
  description: The lines that were shown.
  returned: success
  type: list
  elements: str
file:
  description: The path of C(status.json).
  returned: if it was written
  type: str
  sample: reports/status.json
"""
