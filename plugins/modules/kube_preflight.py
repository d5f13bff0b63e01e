#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_preflight.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_preflight
short_description: Whether a cluster can take a fabric's Kubernetes objects
version_added: 0.2.0
description:
  - Asks a cluster, before anything is done to it, whether it can be reached, is Kubernetes 1.20 or later, has the
    kinds of all objects of the plan (which their operators bring) and their namespaces, lets the one who asks do
    what is needed, and holds the secrets that what is applied reads, with the keys that are read.
  - All that is missing is one error, a line each with its remedy. Changes nothing; permissions are asked for by
    C(SelfSubjectAccessReview), which leaves nothing behind.
  - Warns of each NetworkAttachmentDefinition that was created by hand under the name of a planned SpiderMultusConfig,
    because Spiderpool's controller writes over it.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
  - railyard.fabric.kube.reads
options:
  kinds_from:
    description:
      - Where the cluster's CustomResourceDefinitions come from, as the remedy of one that is missing. Empty for the
        operator that brings each, which a cluster without operators, such as the lab's, cannot follow.
    type: str
    default: ""
  prune:
    description:
      - Whether what left the plan is to go, as with O(railyard.fabric.kube_objects#module:prune). The right to delete
        is then asked for of each kind of which an earlier plan left objects.
    type: bool
    default: true
  wait:
    description:
      - Whether M(railyard.fabric.kube_ready) is to wait for the objects. The rights that it needs are then checked
        too, such as to list nodes and the objects in which an operator reports their state.
    type: bool
    default: true
seealso:
  - module: railyard.fabric.kube_objects
  - module: railyard.fabric.kube_ready
"""

EXAMPLES = r"""
- name: See that the cluster is ready for the objects
  railyard.fabric.kube_preflight:
    file: inventories/prod/fabric.yml
    context: prod
"""

RETURN = r"""
server:
  description: The API server.
  returned: success
  type: str
  sample: https://10.1.16.10:6443
version:
  description: The server's release of Kubernetes.
  returned: success
  type: str
  sample: "1.33"
summary:
  description: One line on what was found.
  returned: success
  type: str
"""
