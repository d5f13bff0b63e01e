#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_objects.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_objects
short_description: Apply or remove the Kubernetes objects of a fabric file
version_added: 0.2.0
description:
  - Plans a fabric file as the inventory plugin P(railyard.fabric.rails#inventory) does, labels the plan's nodes, and
    applies its objects by server-side apply with the field manager C(railyard), or removes them.
  - The objects on the server are read with one list per kind and compared with the plan, field by field and owner by
    owner. Only objects that differ are sent. A run without differences does not send a write.
  - A field that was edited since it was applied is corrected, with a warning that names the manager. A field
    that another manager owns is a conflict, which is an error, unless O(force) takes it over.
  - A field that the server does not know is an error, also on releases before 1.25, where objects of a new shape are
    tried as a dry run first.
  - An object that another manager created with the planned values is adopted, with a warning. It keeps the annotation
    C(railyard.fabric/adopted). O(state=absent) removes the labels of this module, and the object stays in the cluster.
  - The test pods of the component C(workload), which users start by hand, are neither applied nor pruned.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description:
      - The objects that differ are sent to the server as a dry run, so that its refusals are reported.
    support: full
  diff_mode:
    description: Shows the fields that differ, and whole objects that are created or deleted, at most 256.
    support: full
options:
  state:
    description:
      - With V(present), the cluster has the plan's objects.
      - With V(absent), all objects with the fabric's labels that the field manager C(railyard) applied are deleted, in
        the reverse order. All objects of a kind must be deleted before those of the next kind, so that controllers can
        remove their finalizers. An object that is not deleted in time is an error that names the finalizer.
    type: str
    choices: [present, absent]
    default: present
  consent:
    description:
      - The fabric's name, as consent to O(state=absent), with which pods lose their rails. Not required in check mode.
    type: str
  prune:
    description:
      - Delete objects that have the fabric's labels, were applied by the field manager C(railyard) and are not in the
        plan. Objects with these labels that another manager made are kept, with a warning.
    type: bool
    default: true
  force:
    description: Take over fields that other managers own.
    type: bool
    default: false
  replace:
    description:
      - Consent to delete planned objects and create them again, if the server does not accept an update. Examples are a
        pool whose subnet changes, and a pool that is not planned any more but has the addresses of a planned one.
      - Without it, these objects are listed with the reasons, and nothing is written. A pool whose addresses pods use
        is never replaced; the error names the pods.
    type: bool
    default: false
  timeout:
    description:
      - With O(state=absent), the seconds in which all objects of a kind must be deleted. With O(replace), the seconds
        in which a replaced object must be deleted before it is created again.
    type: int
    default: 120
seealso:
  - module: railyard.fabric.kube_preflight
  - module: railyard.fabric.kube_ready
  - module: railyard.fabric.fabric_render
"""

EXAMPLES = r"""
- name: Apply the fabric's objects
  railyard.fabric.kube_objects:
    file: inventories/prod/fabric.yml
    kubernetes:
      registry: registry.example.org/mirror

- name: Remove the fabric's objects
  railyard.fabric.kube_objects:
    file: inventories/prod/fabric.yml
    state: absent
    consent: ai-10-1-16
"""

RETURN = r"""
changes:
  description:
    - The fields that were changed, or in check mode would be. An object that is created, deleted, replaced, adopted or
      released is one change of the attribute V(object).
  returned: always
  type: list
  elements: dict
  sample: [{subject: SpiderIPPool ai-gpu01, attribute: spec.gateway, before: 172.16.11.253, after: 172.16.11.254}]
counts:
  description:
    - The number of objects that were created, adopted, changed, replaced, removed and released, and of nodes whose
      labels were added or removed.
  returned: always
  type: dict
  sample: {created: 0, adopted: 0, changed: 1, replaced: 0, removed: 0, released: 0, labelled: 0, unlabelled: 0}
requests:
  description: The number of requests by HTTP method.
  returned: always
  type: dict
  sample: {GET: 29, PATCH: 1}
summary:
  description: The result as one line; empty on failure.
  returned: always
  type: str
  sample: "fabric ai: 43 objects; 1 changed"
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""
