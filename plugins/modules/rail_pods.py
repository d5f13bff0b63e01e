#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_pods
short_description: Read the rail interfaces of pods on a node
version_added: 0.2.0
description:
  - Finds the network namespaces of pods by the cgroups of their processes, and reads interfaces, addresses, policy
    rules, routing tables, RDMA devices and GIDs of all pods in one call.
  - Does not run programs in containers, so images do not need tools. Changes nothing.
  - Of a container's environment and files, only settings of NCCL and UCX are returned.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  pods:
    description: The uids of the pods, from C(metadata.uid).
    type: list
    elements: str
    default: []
  files:
    description: Configuration files of the node, such as V(/etc/nccl.conf), to read too.
    type: list
    elements: path
    default: []
seealso:
  - module: railyard.fabric.kube_pods
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Read the rail interfaces of a pod
  railyard.fabric.rail_pods:
    pods: [0f7c1d6a-3c55-4a8c-9d2e-5b1f0a7e6c3d]
  register: inside
"""

RETURN = r"""
rdma_mode:
  description: V(shared) or V(exclusive), the mode of the RDMA subsystem; null if it is not loaded.
  returned: success
  type: str
  sample: shared
pods:
  description: One entry per pod, in the order of O(pods).
  returned: success
  type: list
  elements: dict
  contains:
    uid:
      description: The pod's uid.
      returned: always
      type: str
    processes:
      description: The number of its processes on this node.
      returned: always
      type: int
    namespace:
      description: The kernel's name of its network namespace; null if it does not have one on this node.
      returned: always
      type: str
      sample: net:[4026532281]
    why:
      description: Why the network namespace could not be read; empty if it was.
      returned: always
      type: str
    links:
      description: Its interfaces except loopback, with C(netdev), C(kind), C(up), C(mtu) in bytes and C(pci).
      returned: always
      type: list
      elements: dict
      sample: [{netdev: net1, kind: macvlan, up: true, mtu: 4200, pci: null}]
    addresses:
      description: Its addresses except link-local ones, as in M(railyard.fabric.rail_info).
      returned: always
      type: list
      elements: dict
      sample: [{netdev: net1, address: 172.16.11.7/24, secondary: false, dynamic: false}]
    routes:
      description: Its routes except those that the kernel made; C(table) is null for the main table.
      returned: always
      type: list
      elements: dict
      sample: [{netdev: net1, to: 0.0.0.0/0, via: 172.16.11.254, table: 101, dynamic: false}]
    rules:
      description: Policy rules that select only by one of its addresses or interfaces.
      returned: always
      type: list
      elements: dict
      sample: [{from: 172.16.11.7/32, oif: null, table: 101, priority: 10001}]
    rdma:
      description: Its RDMA devices, one row per port, with C(device), C(port), C(link_layer), C(state), C(netdev) and
        C(pci). In the mode V(shared), in which all pods see all devices, those that the rail agent has recorded for it.
      returned: always
      type: list
      elements: dict
      sample: [{device: mlx5_5, port: 1, link_layer: ethernet, state: ACTIVE, netdev: net1, pci: "0000:0b:00.2"}]
    gids:
      description: GIDs of its devices; in the mode V(shared), GIDs of the node's devices for its addresses.
      returned: always
      type: list
      elements: dict
      sample:
        - {device: mlx5_5, port: 1, index: 3, gid: "0000:0000:0000:0000:0000:ffff:ac10:0b07", type: RoCE v2,
           netdev: net1, address: 172.16.11.7}
    slots:
      description: The slots that the rail agent has recorded for it, a row per rail, with C(rail), C(slot),
        C(interface), C(address), C(address6), C(mac), C(rdma) and C(host). Empty without the agent.
      returned: always
      type: list
      elements: dict
      sample: [{rail: gpu01, slot: 0, interface: net1, address: 172.16.11.1/24, rdma: mlx5_gpu01}]
    settings:
      description:
        - C(environment), the variables of NCCL and UCX in the environment of each container's first process, and
          C(file), the settings in its C(/etc/nccl.conf); null without the file.
      returned: always
      type: dict
      sample: {environment: {UCX_NET_DEVICES: "mlx5_0:1"}, file: {NCCL_IB_ROCE_VERSION_NUM: "2"}}
held:
  description:
    - The devices of the rail agent that pods hold, with the pods. For a prepared claim that no container has attached,
      also the claim.
  returned: success
  type: dict
  sample: {rails-0: default/worker}
cordons:
  description: The cordoned rails. C(by) is V(rail_cordon), or empty for a cordon of an administrator.
  returned: success
  type: dict
  sample: {gpu02: {reason: the cable is being replaced, by: ""}}
files:
  description: Each of O(files) with its settings of NCCL and UCX; null if the file does not exist.
  returned: success
  type: dict
  sample: {/etc/nccl.conf: {NCCL_IB_HCA: "=mlx5_gpu01:1"}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import node_pods


def main() -> None:
    spec = {
        "pods": {"type": "list", "elements": "str", "default": []},
        "files": {"type": "list", "elements": "path", "default": []},
    }
    module_runner.read(AnsibleModule(argument_spec=spec, supports_check_mode=True), node_pods.look)


if __name__ == "__main__":
    main()
