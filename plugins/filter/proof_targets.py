# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: proof_targets
short_description: The targets that a node probes on its partner
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the C(targets) of M(railyard.fabric.rail_probe) for a node and the partner that serves it.
positional: partner, servers, cross_rail, link_layer
options:
  _input:
    description: The plan of the probing node, C(railyard_node).
    type: dict
    required: true
  partner:
    description: The plan of the serving node.
    type: dict
    required: true
  servers:
    description: The C(results) of the partner's M(railyard.fabric.rail_probe) in mode V(serve).
    type: list
    elements: dict
    required: true
  cross_rail:
    description:
      - C(railyard_fabric.routing.cross_rail), whether leaves route between rails. Each target has the next rail of the
        partner, to check that it is reached, or that it is not.
    type: bool
    default: true
    version_added: 0.2.0
  link_layer:
    description:
      - C(railyard_fabric.link_layer). With V(infiniband), rails on which neither node has an address are probed too,
        because RDMA on InfiniBand needs none.
    type: str
    choices: [ethernet, infiniband]
    default: ethernet
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Probe the partner on every rail
  railyard.fabric.rail_probe:
    targets: "{{ railyard_node | railyard.fabric.proof_targets(hostvars['ai-1'].railyard_node, servers.results) }}"
"""

RETURN = r"""
_value:
  description: A target for each rail on which both nodes have an address or need none.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"proof_targets": probe_targets.targets}
