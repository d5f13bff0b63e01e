#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_cordon.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_cordon
short_description: Keep new pods off nodes with a bad rail
version_added: 0.2.0
description:
  - A node with a bad rail gets the label C(health.railyard.fabric/bad-rails) with the rails' names, and is cordoned.
    Pods that run there stay.
  - A node that is well again loses the label, and is uncordoned if this task had cordoned it. What another user has
    cordoned stays so.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description: The server tries what would be sent (a dry run), and nothing is written.
    support: full
  diff_mode:
    description: Shows labels and cordons before and after.
    support: full
options:
  nodes:
    description:
      - The names of nodes, each with the list of its bad rails, empty for a node that is well. Nodes that are not
        named, or are not in the cluster, are left alone.
    type: dict
    required: true
seealso:
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Keep new pods off a node with a bad rail
  railyard.fabric.kube_cordon:
    nodes: {ai-1: [gpu02], ai-2: []}
"""

RETURN = r"""
changes:
  description: What was changed, or with check mode would be.
  returned: success
  type: list
  elements: dict
  sample: [{subject: Node ai-1, attribute: spec.unschedulable, before: false, after: true}]
"""
