# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cni_networks
short_description: The planned CNI networks of a node
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the C(networks) option of M(railyard.fabric.cni_networks) for a node of a fabric with the provider C(cni).
  - Names, addresses and tables are those of the plan.
positional: fabric
options:
  _input:
    description: The plan of the node, C(railyard_node).
    type: dict
    required: true
  fabric:
    description: The plan of the fabric, C(railyard_fabric).
    type: dict
    required: true
  options:
    description:
      - C(kubernetes_options), of which C(cni_version) and C(device_plugins) are used.
    type: dict
"""

EXAMPLES = r"""
- name: Write the node's CNI networks
  railyard.fabric.cni_networks:
    networks: "{{ railyard_node | railyard.fabric.cni_networks(railyard_fabric, options=kubernetes_options) }}"
"""

RETURN = r"""
_value:
  description: A CNI configuration for each rail, in rail order.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni


def cni_networks(
    node: t.Mapping[str, t.Any], fabric: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any] | None = None
) -> list[dict[str, t.Any]]:
    try:
        return plain_cni.of_node(fabric, node, options)
    except RailyardError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError("railyard.fabric.cni_networks: this is not the plan of a node: %r" % error) from error


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"cni_networks": cni_networks}
