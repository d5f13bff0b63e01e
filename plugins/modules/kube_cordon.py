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
  - Adds the label C(health.railyard.fabric/bad-rails) with the rails' names to a node with a bad rail, and cordons it.
    Running pods stay.
  - Removes the label when all rails of the node are good again, and uncordons it if this module had cordoned it. Nodes
    that another user has cordoned stay cordoned.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description: Requests are sent to the server as a dry run, and nothing is written.
    support: full
  diff_mode:
    description: Shows labels and cordons before and after.
    support: full
options:
  nodes:
    description:
      - The names of nodes, each with the list of its bad rails, empty for a node without bad rails. Nodes that are not
        listed, or are not in the cluster, are not changed.
    type: dict
    required: true
  unschedulable:
    description:
      - Whether a node with a bad rail is cordoned. With V(false), it is only labelled.
      - Use V(false) with the rail agent, which keeps new pods off single rails (M(railyard.fabric.rail_cordon)).
    type: bool
    default: true
seealso:
  - module: railyard.fabric.rail_cordon
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Keep new pods off a node with a bad rail
  railyard.fabric.kube_cordon:
    nodes: {ai-1: [gpu02], ai-2: []}
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: success
  type: list
  elements: dict
  sample: [{subject: Node ai-1, attribute: spec.unschedulable, before: false, after: true}]
"""
