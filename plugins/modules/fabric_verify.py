#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/fabric_verify.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_verify
short_description: Compare the live state of nodes with the plan
version_added: 0.2.0
description:
  - Reads from the variables of each node what the tasks of the role C(verify), and roles in check mode, have
    registered, and compares it with the plan. It asks no node itself. C(playbooks/verify.yml) and
    C(playbooks/drift.yml) use it.
  - A layer that fails on a rail of a node makes those below it pointless there, and there alone. So one cause gives one
    failure, with its code, rail, node, what was expected, what is, the likeliest cause, the remedy, and the playbook
    that fixes it.
  - Writes the verdict as JSON and JUnit XML, and puts the one before aside under C(history).
  - A failure does not fail the task; it is returned in RV(ok) and RV(failures).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Judges, and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
options:
  kind:
    description: V(drift) skips what is not configuration of a node or the cluster, such as cables and traffic.
    type: str
    choices: [verify, drift]
    default: verify
  run:
    description: The name of the run whose results M(railyard.fabric.rail_verify) has kept in files.
    type: str
  nodes:
    description: The nodes that were asked.
    type: list
    elements: str
    required: true
  layers:
    description: The layers to judge; all where it is empty.
    type: list
    elements: str
    choices: [node, firmware, driver, mode, link, address, qos, cabling, reach, rdma, kubernetes, pods, nccl]
    default: []
  rails:
    description: The rails to judge; all where it is empty.
    type: list
    elements: str
    default: []
  rounds:
    description: The rounds of pairs that were to be probed, as the filter C(proof_rounds) gives them.
    type: list
    elements: list
    default: []
  pod_rounds:
    description: Likewise the rounds of pairs whose test pods were to probe each other.
    type: list
    elements: list
    default: []
  budget:
    description: Seconds that the rounds were given, for the verdict.
    type: float
  share:
    description: The part of what link and PCIe can do that a transfer must reach.
    type: float
    default: 0.8
  unproven_allowed:
    description:
      - Whether a rail over which no traffic went, though it was asked for, is a warning only. Without it, what could
        have been proven in this run and was not is a failure, and so is a run that has proven nothing.
    type: bool
    default: false
  states:
    description: Whether the modules' results are those of check mode, and so say what would change.
    type: bool
    default: true
  cluster:
    description:
      - What M(railyard.fabric.kube_ready) as C(ready) and M(railyard.fabric.kube_objects) as C(objects) returned in
        check mode, and M(railyard.fabric.kube_pods) as C(pods). Without it the cluster and pods are not judged.
    type: dict
  file:
    description:
      - The fabric file, from which the verdict names the plan that it belongs to. The default is the inventory's.
    type: path
  report_dir:
    description: Directory for C(verify.json), C(verify.junit.xml) or C(drift.json), C(drift.junit.xml).
    type: path
    required: true
  history:
    description: How many earlier verdicts are kept.
    type: int
    default: 30
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.rail_probe
"""

EXAMPLES = r"""
- name: Hold all of it against the plan
  railyard.fabric.fabric_verify:
    nodes: "{{ ansible_play_hosts_all }}"
    report_dir: reports
  run_once: true
  register: verdict
"""

RETURN = r"""
ok:
  description: Whether nothing failed.
  returned: success
  type: bool
lines:
  description: The verdict for a terminal; it fits a screen.
  returned: success
  type: list
  elements: str
failures:
  description: What is not as planned, as in the verdict's file.
  returned: success
  type: list
  elements: dict
  sample:
    - code: RV404
      name: mtu-mismatch
      layer: link
      node: ai-1
      rail: gpu02
      rails: [gpu02]
      peer: null
      what: mtu of enp12s0f0np0
      expected: '4200'
      found: '1500'
      cause: it was changed by hand or by another network service
      remedy: set the MTU
      playbook: playbooks/hosts.yml --limit ai-1
bad:
  description:
    - Of each node with a bad rail those that failed, and an empty list of each that is known to be well.
    - A node of which neither is known is not there, because it does not answer, because no traffic was sent over one of
      its rails, or because not all layers and rails were asked for.
  returned: success
  type: dict
  sample: {ai-1: [gpu02], ai-2: []}
counts:
  description: Numbers for what runs next.
  returned: success
  type: dict
  sample: {kind: verify, ok: false, failures: 1, warnings: 0, rails: 8, rails_proven: 7, rails_unproven: 0}
files:
  description: The files that were written, the verdict first.
  returned: success
  type: list
  elements: str
"""
