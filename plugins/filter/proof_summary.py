# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: proof_summary
short_description: One verdict of all probes
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Puts the results of all nodes' M(railyard.fabric.rail_probe) together, by rail and node pair.
  - A pair without a result is red.
positional: pairs, results, plans
options:
  _input:
    description: The names of the rails, in their order.
    type: list
    elements: str
    required: true
  pairs:
    description: Every pair (server, client) that was to be probed.
    type: list
    elements: list
    required: true
  results:
    description: The name of each client, with the list of its results.
    type: dict
    required: true
  plans:
    description:
      - The name of each node, with its C(railyard_node). A pair is then not asked for rails that one of the two has no
        port on.
    type: dict
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Judge
  ansible.builtin.set_fact:
    verdict: "{{ railyard_fabric.rails | railyard.fabric.proof_summary(pairs, results) }}"
"""

RETURN = r"""
_value:
  description:
    - C(ok), C(rails), C(rails_proven), C(checks) (one entry a pair and rail), C(table) and C(failures) (text).
  type: dict
"""

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets


class FilterModule:
    """Railyard's filter of this name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"proof_summary": probe_targets.summary}
