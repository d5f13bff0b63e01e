# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: port_options
short_description: A node's planned ports as a module's ports option
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the option C(ports) of a module of this collection, from C(railyard_node.ports).
  - Ports that the module does not manage are omitted.
positional: module, node, link_layer
options:
  _input:
    description: The node's planned ports.
    type: list
    elements: dict
    required: true
  module:
    description: The name of the module, without that of the collection.
    type: str
    required: true
    choices: [ib_ports, mlx_linktype, pci_tuning, rail_limits, rail_ports, rail_probe, rdma_link, roce_qos, sriov_vfs]
  node:
    description:
      - C(railyard_node), from which M(railyard.fabric.rail_probe) gets the GPUs of the ports, if the plan has a
        GPUDirect path.
    type: dict
    version_added: 0.2.0
  link_layer:
    description:
      - C(railyard_fabric.link_layer). With V(infiniband), M(railyard.fabric.rail_probe) also gets ports without
        addresses, because RDMA on InfiniBand needs none.
    type: str
    choices: [ethernet, infiniband]
    default: ethernet
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Set the VFs as planned
  railyard.fabric.sriov_vfs:
    ports: "{{ railyard_node.ports | railyard.fabric.port_options('sriov_vfs') }}"
"""

RETURN = r"""
_value:
  description: The ports in the form of the module's option.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import module_options


def port_options(
    ports: t.Sequence[t.Mapping[str, t.Any]],
    module: str,
    node: t.Mapping[str, t.Any] | None = None,
    link_layer: str = "ethernet",
) -> list[dict[str, t.Any]]:
    try:
        return module_options.port_options(ports, module, node, link_layer)
    except (ValueError, KeyError, TypeError) as error:
        raise AnsibleFilterError("railyard.fabric.port_options: %s" % error) from error


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"port_options": port_options}
