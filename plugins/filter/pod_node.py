# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: pod_node
short_description: A pod on the rails, in the form of its node's plan
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the interfaces, addresses and RDMA devices of a pod as the ports of a node, for
    P(railyard.fabric.proof_targets#filter) and P(railyard.fabric.port_options#filter). So pods are probed like nodes.
positional: fabric, inside
options:
  _input:
    description: The plan of the pod's node, C(railyard_node).
    type: dict
    required: true
  fabric:
    description: The plan of the fabric, C(railyard_fabric).
    type: dict
    required: true
  inside:
    description: The pod's row of M(railyard.fabric.rail_pods).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Set the rails of the first pod
  ansible.builtin.set_fact:
    pod: "{{ railyard_node | railyard.fabric.pod_node(railyard_fabric, inside.pods[0]) }}"
"""

RETURN = r"""
_value:
  description:
    - C(name), C(pod) with the uid, and C(ports) of the rails on which the pod has an interface that is up and a planned
      address.
  type: dict
"""

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import pod_targets


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pod_node": pod_targets.pod_node}
