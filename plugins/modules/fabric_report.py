#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_report.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_report
short_description: Write one page about the plan, the last verification, measurements, drift and earlier runs
version_added: 0.2.0
description:
  - Reads the documents in the directory of reports and writes C(report.html) to it, one file without scripts that does
    not load other files. Runs on the control node only and contacts no host.
  - The page has the matrix of rails and nodes, the next steps, layers, bandwidth and latency, failures, drift,
    findings, counters, earlier runs and the topology; see C(docs/report.md). A missing document does not have a
    section, and is reported as missing.
  - The same documents and version give the same bytes. All dates are from the documents.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Reads everything, does not write, and reports what would be written.
    support: full
  diff_mode:
    description: The page is rewritten as a whole.
    support: none
options:
  report_dir:
    description:
      - The directory on the control node with C(verify.json), C(drift.json), C(findings.json), C(plan.json) and
        C(history/), if they exist. C(report.html) is written to it. It is created if it does not exist.
    type: path
    default: reports
  file:
    description:
      - The fabric file, or a directory with a fabric file. A relative path is relative to the working directory.
      - If omitted, the fabric file among the sources of the inventory; without one, C(plan.json) and C(findings.json)
        of O(report_dir).
    type: path
  history:
    description: The maximum number of earlier runs of each kind that are read, the newest first.
    type: int
    default: 30
seealso:
  - module: railyard.fabric.fabric_plan
  - module: railyard.fabric.fabric_findings
"""

EXAMPLES = r"""
- name: Write the page
  railyard.fabric.fabric_report:
    report_dir: reports
    file: inventories/prod/fabric.yml
  register: report

- name: Show the next steps
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
  description: The state and the next steps, as a few lines for a terminal.
  returned: success
  type: str
  sample: |-
    fabric ai-10-1-16: 1 thing to fix
    1. ai-10-1-16-2 gpu03: mtu-mismatch (RV404) the MTU is not as planned. Remedy: set the MTU.
steps:
  description:
    - The next steps, in their order. Each has its C(origin) (V(lint), V(verify), V(drift)), C(code), C(name),
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
