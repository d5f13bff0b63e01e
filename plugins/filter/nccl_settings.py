# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_settings
short_description: The planned settings of NCCL or UCX on a node
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the settings with which NCCL or UCX uses only the rails of a node, for programs that run on the node itself.
  - They contain no GID index, because the index of a GID differs between nodes and changes at run time.
positional: fabric, library
options:
  _input:
    description: The plan of the node, C(railyard_node).
    type: dict
    required: true
  fabric:
    description: The plan of the fabric, C(railyard_fabric).
    type: dict
    required: true
  library:
    description: The library.
    type: str
    choices: [nccl, ucx]
    default: nccl
"""

EXAMPLES = r"""
- name: Show a node's settings
  ansible.builtin.debug:
    msg: "{{ railyard_node | railyard.fabric.nccl_settings(railyard_fabric) }}"
"""

RETURN = r"""
_value:
  description: Name of a variable -> value.
  type: dict
  sample: {NCCL_IB_ADDR_FAMILY: AF_INET, NCCL_IB_HCA: "=mlx5_gpu01:1,mlx5_gpu02:1", NCCL_IB_ROCE_VERSION_NUM: "2"}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects

_LIBRARIES = {"nccl": nccl_objects.host_settings, "ucx": nccl_objects.host_ucx}


def nccl_settings(node: t.Mapping[str, t.Any], fabric: t.Mapping[str, t.Any], library: str = "nccl") -> dict[str, str]:
    if library not in _LIBRARIES:
        raise AnsibleFilterError("railyard.fabric.nccl_settings: %r is neither nccl nor ucx" % library)
    try:
        return _LIBRARIES[library](fabric, node)
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(
            "railyard.fabric.nccl_settings: these are not railyard_node and railyard_fabric: %s is missing" % error
        ) from error


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"nccl_settings": nccl_settings}
