# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: proof_rounds
short_description: The rounds in which nodes probe each other
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Pairs nodes so that in each round every node is in at most one pair.
  - All pairs of n nodes need n - 1 rounds, and n rounds if n is odd. If that is more than O(max_rounds), O(max_rounds)
    rounds are selected. Two of them are enough to connect every node with every other through a chain of pairs.
positional: max_rounds
options:
  _input:
    description: The names of the nodes.
    type: list
    elements: str
    required: true
  max_rounds:
    description: The maximum number of rounds.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Pair the nodes
  ansible.builtin.set_fact:
    rounds: "{{ groups.railyard_nodes | railyard.fabric.proof_rounds(8) }}"
"""

RETURN = r"""
_value:
  description: The rounds. A round is a list of pairs, and a pair the names of the serving and of the probing node.
  type: list
  elements: list
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs


def proof_rounds(nodes: t.Sequence[str], max_rounds: t.Any) -> list[list[list[str]]]:
    try:
        return probe_pairs.rounds(nodes, int(max_rounds))  # an extra variable of the command line is text
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError("railyard.fabric.proof_rounds: %s" % error) from error


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"proof_rounds": proof_rounds}
