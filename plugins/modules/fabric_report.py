#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_report.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_report
short_description: One page of the plan, what was verified and measured, what drifted, and earlier runs
version_added: 0.2.0
description:
  - Reads what is in the directory of reports and writes C(report.html) beside it, one file that needs nothing else,
    loads nothing and runs nothing. Runs on the control node alone and contacts no host.
  - The matrix of rails and nodes, what to do first, layers, bandwidth and latency, failures, drift, findings, counters,
    earlier runs and the topology; see C(docs/report.md). A missing document has no section, and is reported as
    missing.
  - The same documents, version and matplotlib give the same bytes. All dates are the documents' own.
  - Charts need Python's C(matplotlib) on the control node. Without it there is a warning, and the figures are tables.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Reads everything, writes nothing, and reports what would be written.
    support: full
  diff_mode:
    description: The page is written again as a whole.
    support: none
options:
  report_dir:
    description:
      - The directory on the control node with C(verify.json), C(drift.json), C(findings.json),
        C(plan.json) and C(history/), as far as they are there; C(report.html) is written to it. It is made where it is
        missing.
    type: path
    default: reports
  file:
    description:
      - The fabric file, or a directory that holds one. A relative path begins at the working directory.
      - Without it, the fabric file among the inventory's own sources; without that, C(plan.json) and C(findings.json)
        of O(report_dir).
    type: path
  history:
    description: How many earlier runs of each kind are read at the most, the newest.
    type: int
    default: 30
  charts:
    description: Whether charts are drawn.
    type: bool
    default: true
seealso:
  - module: railyard.fabric.fabric_plan
  - module: railyard.fabric.fabric_findings
"""

EXAMPLES = r"""
- name: Make the page
  railyard.fabric.fabric_report:
    report_dir: reports
    file: inventories/prod/fabric.yml
  register: report

- name: Show what to do first
  ansible.builtin.debug:
    msg: "{{ report.summary }}"
"""

RETURN = r"""
state:
  description: V(ok), V(failed), or V(not verified) without a verdict of verify.
  returned: success
  type: str
  sample: failed
summary:
  description: A few lines for a terminal; the state and what to do first.
  returned: success
  type: str
  sample: |-
    fabric ai-10-1-16: 1 thing to fix
    1. ai-10-1-16-2 gpu03: mtu-mismatch (RV404) the MTU is not as planned. Remedy: set the MTU.
steps:
  description:
    - What to do, the first first. Each with its C(origin) (V(lint), V(verify), V(drift)), C(code), C(name),
      C(what), C(places), C(cause), C(remedy), and the C(playbooks) that fix it.
  returned: success
  type: list
  elements: dict
files:
  description: The file, with its C(path), its C(size) in bytes, and whether it C(changed).
  returned: success
  type: list
  elements: dict
  sample: [{path: reports/report.html, size: 211042, changed: true}]
"""
