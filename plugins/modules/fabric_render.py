#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_render.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_render
short_description: The Kubernetes objects of a fabric file as files for Argo CD, Flux or a reviewer
version_added: 0.2.0
description:
  - Plans a fabric file as the inventory plugin P(railyard.fabric.rails#inventory) does, and writes the objects that its
    provider needs, a folder a component, each with its C(kustomization.yaml), beside the values of the charts. Runs on
    the control node alone and contacts neither a host nor a cluster.
  - With C(provider=none) there are no objects. It then writes settings of NCCL, and Slurm's C(gres.conf) and
    C(topology.conf).
  - A file with errors fails the task, with all of them in its message.
  - The same fabric file gives the same bytes. A file that the plan no longer has is removed where this module wrote it;
    files of others in the same directory are left alone, and one that is in the place of ours is an error.
    C(.railyard-files) is the list of ours.
  - What the files hold is described in C(docs/kubernetes-objects.md).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.fabric_file
attributes:
  check_mode:
    description: Writes and removes nothing, and reports what would be written and removed.
    support: full
  diff_mode:
    description: Files are written again as a whole; RV(written) and RV(removed) name them.
    support: none
options:
  render_dir:
    description: The directory on the control node. It is made where it is missing.
    type: path
    required: true
  kubernetes:
    description:
      - What a fabric file does not say, such as namespaces of operators, images and their registry; see
        C(docs/kubernetes-objects.md).
    type: dict
    default: {}
  nodes:
    description: Write under C(nodes/NODE) what Ansible lays on each node too, to be looked at.
    type: bool
    default: false
seealso:
  - module: railyard.fabric.fabric_plan
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Render for the repository that Argo CD reads
  railyard.fabric.fabric_render:
    file: inventories/prod/fabric.yml
    render_dir: ../gitops/clusters/prod/rails
    kubernetes:
      registry: registry.example.org/mirror
      rdma_hca_max: 64
"""

RETURN = r"""
written:
  description: The files that were new or differed, relative to O(render_dir).
  returned: success
  type: list
  elements: str
  sample: [spiderpool/spiderippool-gpu01.yaml]
removed:
  description: The files of an earlier run that the plan no longer has.
  returned: success
  type: list
  elements: str
  sample: []
summary:
  description: One line on what was done.
  returned: success
  type: str
  sample: "gitops/rails: 34 files, 1 written, 0 removed"
"""
