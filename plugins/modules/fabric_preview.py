#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_preview.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_preview
short_description: Show what a run would change on all nodes
version_added: 0.2.0
description:
  - Shows what M(railyard.fabric.rail_host) predicted with O(railyard.fabric.rail_host#module:preview) in check mode, on
    at most 40 lines for any number of nodes. The sum is first, then refusals, reboots, and the changes, grouped by
    ranges of rails and nodes. The next command is last.
  - Writes each change of each node to C(preview.txt) in O(report_dir), and the differences of files with C(--diff).
  - Does not fail if nodes refuse changes. RV(refused) has these nodes.
  - Runs on the control node and contacts no host.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Shows and writes the same with and without check mode.
    support: full
  diff_mode:
    description: The file has the differences of files. They are also shown if they fit the 40 lines.
    support: full
options:
  nodes:
    description: The nodes of the run, also those that do not answer.
    type: list
    elements: str
    required: true
  report_dir:
    description: The directory for C(preview.txt).
    type: path
    default: reports
seealso:
  - module: railyard.fabric.rail_host
"""

EXAMPLES = r"""
- name: Predict the changes
  railyard.fabric.rail_host:
    preview: true
  check_mode: true

- name: Show the changes
  railyard.fabric.fabric_preview:
    nodes: "{{ ansible_play_hosts_all }}"
  run_once: true
"""

RETURN = r"""
lines:
  description: The lines that are shown.
  returned: success
  type: list
  elements: str
  sample: ["32 nodes: 256 ports new, 0 reboots, 3 refusals"]
counts:
  description: The numbers of the sum.
  returned: success
  type: dict
  sample:
    nodes: 32
    ports_new: 256
    ports_changed: 0
    ports_removed: 0
    ports_not_judged: 0
    changes: 3680
    reboots: 0
    refusals: 3
    as_planned: 0
    not_answering: 0
refused:
  description: The nodes that refuse changes.
  returned: success
  type: list
  elements: str
  sample: [hgx-3]
file:
  description: The file with all changes. Empty if it could not be written.
  returned: success
  type: str
  sample: reports/preview.txt
"""
