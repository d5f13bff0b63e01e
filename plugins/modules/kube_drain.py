#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_drain.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_drain
short_description: Drain a node before a reboot, and restore it afterwards
version_added: 0.2.0
description:
  - With O(state=drained), the node is cordoned, and its pods are evicted as their disruption budgets allow. An eviction
    that a budget refuses is tried again until O(timeout). Pods of DaemonSets and static pods stay.
  - The pods are read after the cordon, and again after the evictions, until no pod is left that must be evicted and the
    node is still cordoned. Pods that started meanwhile are evicted too, except those that a controller creates again
    and that tolerate the taint C(node.kubernetes.io/unschedulable). A node that others uncordon is cordoned again.
  - Pods that are evicted only with your consent (O(empty_dirs), O(unmanaged)) are an error, which names them, before
    a pod is evicted. Pods that do not end in time are an error. After an error, the node is uncordoned if this call
    cordoned it.
  - With O(state=restored), the node is uncordoned if the annotation C(reboot.railyard.fabric/cordoned) shows that this
    module cordoned it. A cordon of another user stays.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.kube
attributes:
  check_mode:
    description: Requests are sent to the server as a dry run, and nothing is written. RV(waits) has delayed evictions.
    support: full
  diff_mode:
    description: Shows the cordon and the pods before and after.
    support: full
options:
  node:
    description: The node's name, in the plan and in the cluster.
    type: str
    required: true
  state:
    description: V(drained) evicts the pods of the node, V(restored) makes it schedulable again.
    type: str
    choices: [drained, restored]
    default: drained
  empty_dirs:
    description: Whether pods with data in an emptyDir may be evicted, which deletes the data.
    type: bool
    default: false
  unmanaged:
    description: Whether pods without a controller, which are not created again, may be evicted.
    type: bool
    default: false
  grace:
    description: Seconds until a pod is killed. If omitted, the grace period of each pod.
    type: int
  timeout:
    description: Seconds in which all pods must have ended.
    type: int
    default: 600
  cordon:
    description:
      - RV(cordon) of an earlier call in this run. With O(state=drained), the node is drained again if it was uncordoned
        or a pod started since then; it is an error if another run has taken over the cordon. With O(state=restored),
        the cordon of another run stays.
      - If empty, the cordon of an earlier run is taken over or removed, because that run may have been interrupted.
    type: str
    default: ""
seealso:
  - module: railyard.fabric.kube_cordon
"""

EXAMPLES = r"""
- name: Drain a node
  railyard.fabric.kube_drain:
    node: ai-1
    kubeconfig: ~/.kube/prod
  register: drained

- name: Check that the node is still drained, directly before its reboot
  railyard.fabric.kube_drain:
    node: ai-1
    cordon: "{{ drained.cordon }}"
    kubeconfig: ~/.kube/prod

- name: Restore the node
  railyard.fabric.kube_drain:
    node: ai-1
    state: restored
    cordon: "{{ drained.cordon }}"
    kubeconfig: ~/.kube/prod
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: success
  type: list
  elements: dict
  sample:
    - {subject: Node ai-1, attribute: spec.unschedulable, before: false, after: true}
    - {subject: Pod default/web-6c9f, attribute: state, before: on ai-1, after: evicted}
cordon:
  description: The identifier of the cordon, for O(cordon) of later calls. Empty in check mode.
  returned: success
  type: str
  sample: 5d0c6f1b2a47
waits:
  description: In check mode, pods that cannot be evicted at once, each with the server's reason.
  returned: success
  type: list
  elements: dict
  sample: [{pod: default/db-0, why: Cannot evict pod as it would violate the pod's disruption budget}]
"""
