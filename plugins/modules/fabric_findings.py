#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_findings.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_findings
short_description: Check fabric files and report findings
version_added: 0.2.0
description:
  - Reads fabric files, checks and plans them as the inventory plugin P(railyard.fabric.rails#inventory) does, and
    reports all findings. Runs on the control node only and contacts no host.
  - A file with errors does not fail the task, so that later tasks can show RV(table) and use RV(findings).
    RV(passed) is true if the files are good.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Writes nothing, and reports what would be written.
    support: full
  diff_mode:
    description: Reports are replaced as a whole.
    support: none
options:
  files:
    description:
      - The fabric files, or directories with fabric files. Relative paths are relative to the working directory.
      - If omitted, the fabric files among the sources of the inventory.
    type: list
    elements: path
    default: []
  report_dir:
    description:
      - A directory on the control node for the reports C(findings.json), C(findings.sarif) (SARIF 2.1.0) and
        C(findings.junit.xml). It is created if it does not exist. If omitted, nothing is written.
    type: path
  strict:
    description: Whether warnings count as errors, in RV(passed) and in the JUnit report.
    type: bool
    default: false
  schema_file:
    description: A file on the control node to write the JSON Schema of fabric files to, for editors.
    type: path
  show_presets:
    description:
      - Return the presets of profiles in RV(presets), and check no file. V(true) lists all; a name returns
        the ports, GPUs and document of that preset.
    type: str
seealso:
  - module: railyard.fabric.fabric_plan
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Check a fabric file, and write reports for CI
  railyard.fabric.fabric_findings:
    files: [inventories/prod/fabric.yml]
    report_dir: reports
  register: checked

- name: Show the findings
  ansible.builtin.debug:
    msg: "{{ checked.table }}"

- name: Fail on errors
  ansible.builtin.assert:
    that: checked.passed
    fail_msg: "{{ checked.summary }}"
"""

RETURN = r"""
presets:
  description: The presets as text.
  returned: when O(show_presets) is set; the other values are then missing
  type: str
passed:
  description: Whether there are no errors, and with O(strict) no warnings.
  returned: success
  type: bool
worst:
  description: The worst severity, V(error), V(warning) or V(note); null without findings.
  returned: success
  type: str
counts:
  description: The number of findings of each severity.
  returned: success
  type: dict
  sample: {error: 1, warning: 0, note: 0}
summary:
  description: The counts as one line.
  returned: success
  type: str
  sample: "inventories/prod/fabric.yml: 1 error"
table:
  description: The findings as a table, at most 120 characters wide.
  returned: success
  type: str
forks:
  description:
    - The recommended number of nodes at a time, C(forks) of Ansible, for the number of nodes of the largest file and
      the processors of the control node.
  returned: success
  type: int
  sample: 64
forks_advice:
  description: The setting to change if C(forks) is less than recommended; else empty.
  returned: success
  type: str
findings:
  description: The files, each with its findings in the order of their places.
  returned: success
  type: list
  elements: dict
  sample:
    - file: inventories/prod/fabric.yml
      findings:
        - code: RY112
          name: wrong-type
          severity: error
          place: fabric.mtu
          line: 8
          column: 3
          message: jumbo is not a whole number
          remedy: write a whole number of bytes from 576 to 9978
files:
  description: The reports, each with its C(path), its C(size) in bytes, and whether it C(changed).
  returned: success
  type: list
  elements: dict
  sample: [{path: reports/findings.json, size: 512, changed: true}]
"""
