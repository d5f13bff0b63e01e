#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_preflight.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_preflight
short_description: Check whether a cluster can take the Kubernetes objects of a fabric
version_added: 0.2.0
description:
  - Checks that the cluster can be reached, that it is Kubernetes 1.20 or later, that it has the kinds of all objects of
    the plan (which operators define) and their namespaces, that the user has the required permissions, and that the
    secrets that objects read exist with the required keys.
  - All problems are one error, with a line and a remedy per problem. Nothing is changed; permissions are checked by
    C(SelfSubjectAccessReview), which is not stored.
  - Warns of each NetworkAttachmentDefinition that was created by hand under the name of a planned SpiderMultusConfig,
    because Spiderpool's controller overwrites it.
  - Warns if pods get their rails by Multus and the ConfigMap C(cilium-config) has C(cni-exclusive), with which Cilium
    renames the CNI configuration of Multus. If the user may not read ConfigMaps, this is not checked.
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
      - The remedy for a missing CustomResourceDefinition. If empty, the operator that defines it is named. Set it for a
        cluster without operators, such as the lab's.
    type: str
    default: ""
  prune:
    description:
      - Whether objects that are not planned any more are deleted, as with
        O(railyard.fabric.kube_objects#module:prune). The permission to delete is then checked for the kinds of these
        objects.
    type: bool
    default: true
  wait:
    description:
      - Whether M(railyard.fabric.kube_ready) will wait for the objects. The permissions that it needs are then checked
        too, such as to list nodes and the objects in which an operator reports their state.
    type: bool
    default: true
seealso:
  - module: railyard.fabric.kube_objects
  - module: railyard.fabric.kube_ready
"""

EXAMPLES = r"""
- name: Check that the cluster can take the objects
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
  description: The result as one line.
  returned: success
  type: str
"""
