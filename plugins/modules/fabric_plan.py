#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_plan.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: Write the plan of a fabric file as tables, files and a picture, and compare it with an earlier plan
version_added: 0.2.0
description:
  - Reads a fabric file and plans it as the inventory plugin P(railyard.fabric.rails#inventory) does, then shows every
    rail port, every object in Kubernetes and every leaf port with its names and addresses. Runs on the control node
    only and contacts no host.
  - A file with errors fails the task, with all errors in its message.
  - The content of the files is described in C(docs/plan.md). The same fabric file gives the same bytes.
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
    description: Files are always rewritten as a whole. For differences in the plan, see O(against).
    support: none
options:
  report_dir:
    description:
      - A directory on the control node for C(plan.json), C(ports.csv), C(objects.csv), C(leaves.csv), C(leaves.md),
        C(topology.svg), for slots of an agent C(slots.csv), with O(against) C(diff.json), and for VFs with GUIDs
        C(guids.csv) and, with partitions, C(partitions.conf) and C(ufm-pkeys.json). It is created if it does not exist.
        If omitted, nothing is written.
    type: path
  against:
    description:
      - An earlier C(plan.json) to compare the plan with.
      - If it is the C(plan.json) of O(report_dir), it is replaced only if RV(passed) is true.
    type: path
  fail_on:
    description:
      - The kinds of differences from O(against) for which RV(passed) is false; V(any) means all of them.
      - Requires O(against).
    type: list
    elements: str
    choices: [renumbered, removed, renamed, changed, added, any]
    default: []
  rows:
    description:
      - The maximum number of ports, objects of each kind and leaf ports in RV(table) and RV(leaf_table).
      - The files in O(report_dir) have all rows.
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

- name: Fail if a node is renumbered
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
  description: The warnings and notes of lint, as a table. Errors fail the task.
  returned: success
  type: str
  sample: "inventories/prod/fabric.yml: no findings"
counts:
  description: The numbers of nodes, rails, ports and units.
  returned: success
  type: dict
  sample: {nodes: 64, rails: 8, ports: 512, units: 2}
outlook:
  description:
    - What a run would configure, which settings may need a reboot, what is left alone, the differences from
      O(against), and the next command.
  returned: success
  type: list
  elements: str
  sample: ["64 nodes: 512 ports to configure"]
passed:
  description: Whether the plan does not differ from O(against) in a way that O(fail_on) names.
  returned: success
  type: bool
diff_counts:
  description: The number of differences of each kind; null without O(against).
  returned: success
  type: dict
  sample: {renumbered: 0, removed: 0, renamed: 0, changed: 2, added: 4}
diff_table:
  description: The differences, grouped and counted, first those that renumber; null without O(against).
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
