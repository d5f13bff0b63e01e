#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/fabric_render.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_render
short_description: Write the Kubernetes objects of a fabric file to files, for Argo CD, Flux or a review
version_added: 0.2.0
description:
  - Plans a fabric file as the inventory plugin P(railyard.fabric.rails#inventory) does, and writes the objects that its
    provider needs, a directory with a C(kustomization.yaml) per component, and the values of the charts. Runs on the
    control node only and contacts neither a host nor a cluster.
  - With C(provider=none) there are no objects. It then writes settings of NCCL, and Slurm's C(gres.conf) and
    C(topology.conf). With the health service, it also writes C(rail_check.sh), a prolog that keeps jobs off nodes whose
    rails do not pass. With C(nccl.version) in the fabric file, it also writes C(task_prolog.sh), which sets the
    environment of Slurm's tasks.
  - A file with errors fails the task, with all errors in its message.
  - The same fabric file gives the same bytes. Files that this module wrote and that the plan no longer has are removed.
    Files of other programs in the directory are not changed; if one has the name of a planned file, it is an error.
    C(.railyard-files) lists the files of this module.
  - The content of the files is described in C(docs/kubernetes-objects.md).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.controller
  - railyard.fabric.controller.fabric_file
attributes:
  check_mode:
    description: Does not write or remove files, and reports the files that would be written and removed.
    support: full
  diff_mode:
    description: Files are rewritten as a whole; RV(written) and RV(removed) name them.
    support: none
options:
  render_dir:
    description: The directory on the control node. It is created if it does not exist.
    type: path
    required: true
  kubernetes:
    description:
      - Settings that a fabric file does not have, such as namespaces of operators, images and their registry; see
        C(docs/kubernetes-objects.md).
    type: dict
    default: {}
  nodes:
    description: Whether to write the files that Ansible writes on each node too, under C(nodes/NODE), for a review.
    type: bool
    default: false
seealso:
  - module: railyard.fabric.fabric_plan
  - plugin: railyard.fabric.rails
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Write the objects to the repository that Argo CD reads
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
  description: The result as one line.
  returned: success
  type: str
  sample: "gitops/rails: 34 files, 1 written, 0 removed"
"""
