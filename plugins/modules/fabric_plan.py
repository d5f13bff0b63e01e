#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_plan.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: The plan of a fabric file as tables, files and a picture; and what an earlier plan differs in
version_added: 0.2.0
description:
  - Reads a fabric file and plans it as the inventory plugin P(railyard.fabric.rails#inventory) does, then shows every
    rail port, every object in Kubernetes and every leaf port with its names and addresses. Runs on the control node
    alone and contacts no host.
  - A file with errors fails the task, with all of them in its message.
  - What the files hold is described in C(docs/plan.md). The same fabric file gives the same bytes.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.fabric_file
attributes:
  check_mode:
    description: Writes nothing, and reports what would be written.
    support: full
  diff_mode:
    description: Files are always rewritten as a whole. For what differs in the plan, see O(against).
    support: none
options:
  report_dir:
    description:
      - A directory on the control node for C(plan.json), C(ports.csv), C(objects.csv), C(leaves.csv), C(leaves.md),
        C(topology.svg), for slots of an agent C(slots.csv), with O(against) C(diff.json), and for VFs with GUIDs
        C(guids.csv) and, where there are partitions, C(partitions.conf) and C(ufm-pkeys.json). It is made where it is
        missing. Without it nothing is written.
    type: path
  against:
    description:
      - An earlier C(plan.json), against which the plan is compared.
      - Where it is the C(plan.json) of O(report_dir), it is replaced only where RV(passed) is true.
    type: path
  fail_on:
    description:
      - The kinds of differences from O(against) for which RV(passed) is false; V(any) means all of them.
      - Needs O(against).
    type: list
    elements: str
    choices: [renumbered, removed, renamed, changed, added, any]
    default: []
  rows:
    description:
      - How many ports, objects of each kind and leaf ports RV(table) and RV(leaf_table) show at the most.
      - The files in O(report_dir) have all of them.
    type: int
    default: 8
seealso:
  - module: railyard.fabric.fabric_findings
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Plan, write all files, and compare with an earlier plan
  railyard.fabric.fabric_plan:
    file: inventories/prod/fabric.yml
    report_dir: reports
    against: plans/2026-11-21/plan.json
    fail_on: [renumbered]
  register: plan

- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ plan.table }}"

- name: Fail where a node is renumbered
  ansible.builtin.assert:
    that: plan.passed
    fail_msg: "{{ plan.diff_summary }}"
"""

RETURN = r"""
table:
  description: Rails, ports and objects as tables, at most 112 characters wide.
  returned: success
  type: str
leaf_table:
  description: The ports of each leaf as tables.
  returned: success
  type: str
findings:
  description: What lint found, as a table; no errors, for these fail the task.
  returned: success
  type: str
  sample: "inventories/prod/fabric.yml: no findings"
counts:
  description: How many there are of each.
  returned: success
  type: dict
  sample: {nodes: 64, rails: 8, ports: 512, units: 2}
passed:
  description: Whether the plan differs from O(against) in nothing that O(fail_on) names.
  returned: success
  type: bool
diff_counts:
  description: How many differences there are of each kind; null without O(against).
  returned: success
  type: dict
  sample: {renumbered: 0, removed: 0, renamed: 0, changed: 2, added: 4}
diff_table:
  description: The differences, grouped and counted, those that renumber first; null without O(against).
  returned: success
  type: str
diff_summary:
  description: The counts as one line.
  returned: with O(against)
  type: str
  sample: "against plans/2026-11-21/plan.json: 2 changed, 4 added"
files:
  description: The files, each with its C(path), its C(size) in bytes, and whether it C(changed).
  returned: success
  type: list
  elements: dict
  sample: [{path: reports/plan.json, size: 35711, changed: true}]
"""
