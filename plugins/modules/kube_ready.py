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
  - Waits until every node of the plan is a Ready node of the cluster with the planned number of every rail's resource,
    and the status of every pool, network and policy shows that its controller accepted it.
  - Progress is shown during the wait. After the timeout, the task fails and reports what each node, rail or object is
    missing, with the likeliest reason. Subjects with the same problem are one line.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description: Checks once, without waiting or failing, because objects that were not applied cannot become ready.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
options:
  timeout:
    description: The maximum number of seconds to wait. V(0) checks once.
    type: int
    default: 600
  interval:
    description:
      - Seconds between two checks. Each reads all nodes of the cluster and the kinds of the plan's objects, one list
        per kind. If a check takes longer than a sixth of the interval, the interval grows with it.
    type: int
    default: 10
  required:
    description: Whether it is an error if something is still missing at the timeout. Otherwise it is only reported.
    type: bool
    default: true
seealso:
  - module: railyard.fabric.kube_objects
"""

EXAMPLES = r"""
- name: Wait until every node offers every rail
  railyard.fabric.kube_ready:
    file: inventories/prod/fabric.yml
    timeout: 1800
"""

RETURN = r"""
summary:
  description: The result in one line.
  returned: always
  type: str
  sample: "fabric ai: 16 of 16 resources of 2 nodes at the planned number; all objects are accepted"
missing:
  description:
    - What is missing, with the subjects and the likeliest reason. Subjects with the same problem and reason are
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
      description: What is missing.
      returned: always
      type: str
    reason:
      description: The likeliest reason.
      returned: always
      type: str
    field:
      description: The field that a user set so that it is missing. Empty for other reasons.
      returned: always
      type: str
    command:
      description: A command that shows more when it is followed by the name of a subject. May be empty.
      returned: always
      type: str
    rail:
      description: The rail, if a resource of a rail is missing.
      returned: always
      type: str
    playbook:
      description: The playbook that fixes it, if it is known.
      returned: always
      type: str
withheld:
  description:
    - Pools that are as planned and give fewer addresses, because a user disabled them (which RV(missing) has too) or
      excluded addresses (a warning), in the form of RV(missing).
  returned: always
  type: list
  elements: dict
lines:
  description: RV(missing) as text, a line per item.
  returned: always
  type: list
  elements: str
"""
