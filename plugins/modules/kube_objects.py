#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_objects.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_objects
short_description: The Kubernetes objects of a fabric file on a cluster
version_added: 0.2.0
description:
  - Plans a fabric file as the inventory plugin P(railyard.fabric.rails#inventory) does, labels the plan's nodes and
    brings its objects to a cluster by server-side apply under the field manager C(railyard), or takes them away.
  - What is on the server is read with one list a kind and compared with the plan, field by field and owner by owner.
    Only objects that differ are sent. A run that finds nothing to do sends no write.
  - A field that was edited since it was applied is corrected, with a warning that names the manager. A field
    that another manager applies, or that was never ours, is a conflict, and an error, unless O(force) takes it over.
  - A field that the server does not know is an error, also on releases before 1.25, where objects of a new shape are
    tried as a dry run first.
  - An object that another manager created with the planned values is adopted, with a warning. It keeps the annotation
    C(railyard.fabric/adopted), and O(state=absent) takes our labels off it and leaves it on the cluster.
  - What people start by hand (the test pods of the component C(workload)) is neither applied nor pruned.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
attributes:
  check_mode:
    description:
      - The objects that differ are sent to the server as a dry run, so that what it refuses is known beforehand.
    support: full
  diff_mode:
    description: Shows the fields that differ, and whole objects where they come or go, 256 of these at the most.
    support: full
options:
  state:
    description:
      - With V(present), the cluster holds the plan's objects.
      - With V(absent), all that carries the fabric's labels goes, the last applied first. A kind is gone before the
        next one goes, so that its controller still has what it needs to let go. What hangs is an error that names the
        finalizer.
    type: str
    choices: [present, absent]
    default: present
  consent:
    description:
      - The fabric's name, as consent to O(state=absent), with which pods lose their rails. Check mode takes none.
    type: str
  prune:
    description: Delete objects that carry the fabric's labels and are not, or no longer, in the plan.
    type: bool
    default: true
  force:
    description: Take over fields that other managers own.
    type: bool
    default: false
  replace:
    description:
      - Consent to delete planned objects and create them again, where the server takes no update of them. Such as a
        pool that gets another subnet, and a pool that left the plan and still has the addresses of a planned one.
      - Without it these objects are listed with the reasons, and nothing is written. An object of which pods use
        addresses is never deleted for that; the error names the pods.
    type: bool
    default: false
  timeout:
    description:
      - With O(state=absent), the seconds for which each kind may take to go. With O(replace), the seconds until what is
        deleted is gone and can be created again.
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

- name: Take them away
  railyard.fabric.kube_objects:
    file: inventories/prod/fabric.yml
    state: absent
    consent: ai-10-1-16
"""

RETURN = r"""
changes:
  description:
    - What was (or would be) changed, a field each. An object that comes, goes, is replaced, adopted or released is one
      change of the attribute V(object).
  returned: always
  type: list
  elements: dict
  sample: [{subject: SpiderIPPool ai-gpu01, attribute: spec.gateway, before: 172.16.11.253, after: 172.16.11.254}]
counts:
  description:
    - How many objects were created, adopted, changed, replaced, removed and released, and how many nodes got labels or
      lost them.
  returned: always
  type: dict
  sample: {created: 0, adopted: 0, changed: 1, replaced: 0, removed: 0, released: 0, labelled: 0, unlabelled: 0}
requests:
  description: How many requests were sent, by verb of HTTP.
  returned: always
  type: dict
  sample: {GET: 29, PATCH: 1}
summary:
  description: One line on what was done; empty on failure.
  returned: always
  type: str
  sample: "fabric ai: 43 objects; 1 changed"
errors:
  description: What was refused, each with place, message and remedy.
  returned: failure
  type: list
  elements: dict
"""
