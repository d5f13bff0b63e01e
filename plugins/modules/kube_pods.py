#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# The documentation of an action plugin, plugins/action/kube_pods.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_pods
short_description: Read the pods of the test workload, and why a pod does not run
version_added: 0.2.0
description:
  - Reads the pods of the fabric's test workload from the API server, with the networks that Multus reports for each.
    For a pod that does not run, it returns the reason in the pod's status or its newest warning.
  - Users start the workload (C(kubectl apply -k DIR/workload)). If it does not exist, RV(there) is false, which is not
    an error.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.kube
  - railyard.fabric.controller.fabric_file
  - railyard.fabric.kube.plan
  - railyard.fabric.kube.reads
seealso:
  - module: railyard.fabric.rail_pods
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Read where test pods run
  railyard.fabric.kube_pods:
    file: inventories/prod/fabric.yml
  register: workload
"""

RETURN = r"""
there:
  description: Whether the workload is in the cluster.
  returned: success
  type: bool
nodes:
  description: The nodes on which it starts a pod.
  returned: success
  type: list
  elements: str
remedy:
  description: The command that starts the workload, if it does not exist.
  returned: success
  type: str
running:
  description: The uids of the running pods by node, for M(railyard.fabric.rail_pods).
  returned: success
  type: dict
  sample: {ai-1: [0f7c1d6a-3c55-4a8c-9d2e-5b1f0a7e6c3d]}
settings:
  description:
    - The settings of NCCL and UCX in the pods of each DaemonSet, with its C(nodes). C(nccl) are in C(/etc/nccl.conf),
      C(ucx) in the environment.
  returned: success
  type: list
  elements: dict
  sample: [{nodes: [ai-1], nccl: {NCCL_IB_ROCE_VERSION_NUM: "2"}, ucx: {}}]
pods:
  description: The pods of the workload.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The pod's name.
      returned: always
      type: str
      sample: ai-rails-7xk2p
    namespace:
      description: Its namespace.
      returned: always
      type: str
      sample: default
    uid:
      description: Its uid, by which M(railyard.fabric.rail_pods) finds it on its node.
      returned: always
      type: str
    node:
      description: Its node; null if it is not scheduled yet.
      returned: always
      type: str
    wanted:
      description: The node that the pod was created for.
      returned: always
      type: str
    phase:
      description: The phase in the pod's status.
      returned: always
      type: str
      sample: Running
    running:
      description: Whether it and all of its containers run.
      returned: always
      type: bool
    leaving:
      description: Whether it is being deleted.
      returned: always
      type: bool
    why:
      description: Why it does not run; empty if it runs.
      returned: always
      type: str
      sample: "Unschedulable: 0/2 nodes are available: 2 Insufficient spidernet.io/gpu03_macvlan"
    networks:
      description: The networks that Multus reports as attached, with C(interface) and C(network).
      returned: always
      type: list
      elements: dict
      sample: [{interface: net1, network: kube-system/gpu01-macvlan}]
"""
