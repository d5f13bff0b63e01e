# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cni_networks
short_description: A node's CNI networks, as the plan has them
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Gives the C(networks) option of M(railyard.fabric.cni_networks) for a node of a fabric whose provider is C(cni).
  - It decides nothing; names, addresses and tables are the plan's.
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
      - What the fabric file does not say, C(kubernetes_options); here C(cni_version) and C(device_plugins) count.
    type: dict
"""

EXAMPLES = r"""
- name: Lay the node's CNI networks
  railyard.fabric.cni_networks:
    networks: "{{ railyard_node | railyard.fabric.cni_networks(railyard_fabric, options=kubernetes_options) }}"
"""

RETURN = r"""
_value:
  description: A CNI configuration a rail, in rail order.
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
    """Railyard's filter of this name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"cni_networks": cni_networks}
