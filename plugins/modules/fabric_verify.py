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
  - Reads the results of each node that M(railyard.fabric.rail_verify) has kept in files, and compares them with the
    plan. It does not contact nodes. C(playbooks/verify.yml) and C(playbooks/drift.yml) use it.
  - If a layer fails on a rail of a node, the layers that depend on it are not judged there. So one cause gives one
    failure, with code, rail, node, the expected and the observed value, the likeliest cause, the remedy, and the
    playbook that fixes it.
  - Writes the verdict as JSON and JUnit XML, and moves the previous one to C(history).
  - Prints RV(lines), in as many characters as the terminal has (the variable C(COLUMNS) overrides it), or in 120 if the
    output is not a terminal.
  - A failure does not fail the task; it is returned in RV(ok) and RV(failures).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Returns the verdict, and does not write it.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
options:
  kind:
    description: V(drift) judges only the configuration of nodes and the cluster, not cables and traffic.
    type: str
    choices: [verify, drift]
    default: verify
  run:
    description: The name of the run, from the part C(begin) of M(railyard.fabric.rail_verify).
    type: str
  nodes:
    description: The nodes to judge. If empty, those of O(run).
    type: list
    elements: str
    default: []
  layers:
    description: The layers to judge. If empty, all.
    type: list
    elements: str
    choices: [node, firmware, driver, mode, link, address, qos, cabling, reach, rdma, kubernetes, pods, nccl]
    default: []
  rails:
    description: The rails to judge. If empty, all.
    type: list
    elements: str
    default: []
  began:
    description: When the run began, in seconds since 1970. If omitted, now.
    type: float
  budget:
    description: The time limit of the rounds in seconds, for the verdict.
    type: float
  share:
    description:
      - The part of the bandwidth of link and PCIe that a transfer must reach. If omitted, the floor follows from the
        plan.
    type: float
  soak:
    description: The time of a soak in seconds; 0 without one.
    type: float
    default: 0
  soft_rdma:
    description: Whether bandwidth and latency tails of soft RDMA are judged too.
    type: bool
    default: false
  unproven_allowed:
    description:
      - Whether a rail that should have been tested with traffic but was not is only a warning. Otherwise it is a
        failure, and so is a run that did not test any rail.
    type: bool
    default: false
  thorough:
    description:
      - Whether modules ran in check mode, so that their results contain differences from the plan, and ports listened
        for neighbours. C(site.yml) does neither, and the verdict names the layers that it does not compare.
    type: bool
    default: true
  cluster:
    description:
      - The results of M(railyard.fabric.kube_ready) (C(ready)) and M(railyard.fabric.kube_objects) (C(objects)) in
        check mode, and of M(railyard.fabric.kube_pods) (C(pods)). If omitted, the cluster and pods are not judged.
    type: dict
  file:
    description:
      - The fabric file, from which the verdict takes the identity of the plan. If omitted, the inventory's.
    type: path
  report_dir:
    description: The directory for C(verify.json) and C(verify.junit.xml), or C(drift.json) and C(drift.junit.xml).
    type: path
    required: true
  history:
    description: The number of earlier verdicts to keep.
    type: int
    default: 30
  baselines:
    description:
      - V(use) compares the bandwidth and latency of each port with C(baselines.json) in O(report_dir), and adds ports
        that are proven for the first time. V(renew) replaces the baselines of the proven ports. V(off) does neither.
    type: str
    choices: [use, renew, 'off']
    default: use
    version_added: 0.2.0
  part:
    description:
      - V(K/N) if O(nodes) are the K-th of N parts. What they reported is then written to O(parts_dir), and not judged.
      - V(judge) judges all parts in O(parts_dir) with the results of this run, and removes them when the verdict is
        written. Parts of another plan, release or selection of layers and rails are an error.
    type: str
    default: ''
  parts_dir:
    description: Directory for the parts, C(KIND-K-of-N.jsonl).
    type: path
seealso:
  - module: railyard.fabric.rail_verify
"""

EXAMPLES = r"""
- name: Compare the results with the plan
  railyard.fabric.fabric_verify:
    nodes: "{{ ansible_play_hosts_all }}"
    report_dir: reports
  run_once: true
  register: verdict
"""

RETURN = r"""
ok:
  description: Whether there are no failures.
  returned: success
  type: bool
headline:
  description:
    - The verdict on one line. It counts ports, which are proven by traffic, failed, or unknown.
    - With O(kind=drift), it counts nodes.
  returned: success, unless O(part) names a part
  type: str
  sample: '243 of 256 ports proven; 5 failed on 4 nodes; 8 unknown: hgx-5 does not answer'
provider:
  description: The provider of the fabric.
  returned: success, unless O(part) names a part
  type: str
lines:
  description: The verdict for a terminal, short enough for one screen, and the next command.
  returned: success
  type: list
  elements: str
failures:
  description: The failures, as in the file of the verdict.
  returned: success, unless O(part) names a part
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
    - The bad rails of each node; empty if all its rails are good. Rails that an administrator has cordoned are omitted.
    - A node is missing if the state of its rails is not known, because it did not answer, because no traffic was sent
      over one of its rails, or because not all layers and rails were judged.
  returned: success, unless O(part) names a part
  type: dict
  sample: {ai-1: [gpu02], ai-2: []}
cordons:
  description:
    - The input of M(railyard.fabric.rail_cordon) for each node with the rail agent on which rails must be cordoned or
      uncordoned, the bad rails with their reasons.
  returned: success, unless O(part) names a part
  type: dict
  sample: {ai-1: {gpu02: failed verify (RV601)}}
counts:
  description: Numbers for later tasks.
  returned: success, unless O(part) names a part
  type: dict
  sample:
    kind: verify
    ok: false
    failures: 1
    warnings: 0
    rails: 8
    rails_proven: 7
    rails_unproven: 0
    ports: 64
    ports_good: 63
    ports_failed: 1
    ports_unknown: 0
    nodes: 8
    nodes_unread: 0
files:
  description: The written files, first the verdict.
  returned: success
  type: list
  elements: str
"""
