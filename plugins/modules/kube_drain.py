#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_drain.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_drain
short_description: Free a node of pods while it reboots, and give it back
version_added: 0.2.0
description:
  - With O(state=drained) the node is cordoned, and its pods are evicted as their disruption budgets allow, those that
    may not go yet again and again until O(timeout). Pods of DaemonSets and static pods stay.
  - Pods that go with your consent alone (O(empty_dirs), O(unmanaged)) are named before anything is done. Pods that have
    not ended in time are an error, and the node then takes pods again.
  - With O(state=restored) the node takes pods again where the annotation C(reboot.railyard.fabric/cordoned) shows that
    this module cordoned it. A cordon of another user stays.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.kube
attributes:
  check_mode:
    description: The server tries what would be sent (a dry run), and nothing is written. RV(waits) has what would wait.
    support: full
  diff_mode:
    description: Shows the cordon and the pods before and after.
    support: full
options:
  node:
    description: The node's name in the cluster, which is the plan's.
    type: str
    required: true
  state:
    description: Whether the node is freed of pods, or given back.
    type: str
    choices: [drained, restored]
    default: drained
  empty_dirs:
    description: Whether pods with data in an emptyDir may be evicted, which deletes the data.
    type: bool
    default: false
  unmanaged:
    description: Whether pods that no controller recreates may be evicted.
    type: bool
    default: false
  grace:
    description: Seconds until a pod is ended by force; each pod's own where it is not given.
    type: int
  timeout:
    description: Seconds within which all of them must have ended.
    type: int
    default: 600
seealso:
  - module: railyard.fabric.kube_cordon
"""

EXAMPLES = r"""
- name: Free a node of pods
  railyard.fabric.kube_drain:
    node: ai-1
    kubeconfig: ~/.kube/prod

- name: Give it back
  railyard.fabric.kube_drain:
    node: ai-1
    state: restored
    kubeconfig: ~/.kube/prod
"""

RETURN = r"""
changes:
  description: What was changed, or with check mode would be.
  returned: success
  type: list
  elements: dict
  sample:
    - {subject: Node ai-1, attribute: spec.unschedulable, before: false, after: true}
    - {subject: Pod default/web-6c9f, attribute: state, before: on ai-1, after: evicted}
waits:
  description: In check mode, pods that could not go at once, each with the server's reason.
  returned: success
  type: list
  elements: dict
  sample: [{pod: default/db-0, why: Cannot evict pod as it would violate the pod's disruption budget}]
"""
