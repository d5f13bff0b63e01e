#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_ready.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_ready
short_description: Wait until every node of a fabric offers every rail to pods
version_added: 0.2.0
description:
  - Waits until every node of the plan is a node of the cluster and Ready and reports every rail's resource at the
    planned number, and every pool, network and policy was taken up by its controller as far as its status says.
  - Progress is shown while it waits. When the time is up, the task fails and says which node, rail or object lacks
    what, with the likeliest reason; what lacks alike is one line.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description: Looks once, waits for nothing and does not fail, because what was not applied cannot come.
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
options:
  timeout:
    description: Seconds to wait at the most. V(0) looks once.
    type: int
    default: 600
  interval:
    description:
      - Seconds between two looks. Each reads all nodes of the cluster and the kinds of the plan's objects, a list a
        kind. Where a look takes longer than a sixth of that, the pause grows with it.
    type: int
    default: 10
  required:
    description: Whether what still lacks when the time is up is an error. Without that it is told, and no more.
    type: bool
    default: true
seealso:
  - module: railyard.fabric.kube_objects
"""

EXAMPLES = r"""
- name: Wait until every rail is there
  railyard.fabric.kube_ready:
    file: inventories/prod/fabric.yml
    timeout: 1800
"""

RETURN = r"""
summary:
  description: One line on what is there.
  returned: always
  type: str
  sample: "fabric ai: 16 of 16 resources of 2 nodes at the planned number; every object is taken up"
lacks:
  description:
    - What is not there, with its RV(lacks[].subjects), what they lack, and the likeliest reason; what lacks alike is
      one item.
  returned: always
  type: list
  elements: dict
  contains:
    subjects:
      description: Nodes, or objects with their kind.
      returned: always
      type: list
      elements: str
    what:
      description: What they lack.
      returned: always
      type: str
    reason:
      description: The likeliest reason, with what to look at.
      returned: always
      type: str
    reasons:
      description: The reason for each of the subjects.
      returned: always
      type: list
      elements: str
    rail:
      description: The rail, if a resource of a rail is missing.
      returned: always
      type: str
    playbook:
      description: The playbook that fixes it, if it is known.
      returned: always
      type: str
    id:
      description: V(pool-excludes) for a pool that excludes addresses; empty otherwise.
      returned: always
      type: str
withheld:
  description:
    - Pools that are as planned and give fewer addresses, because somebody disabled them (which RV(lacks) has too) or
      excluded addresses (a warning), in the form of RV(lacks).
  returned: always
  type: list
  elements: dict
lines:
  description: The same as RV(lacks) for people, a line each.
  returned: always
  type: list
  elements: str
"""
