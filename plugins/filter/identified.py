# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: identified
short_description: A node's plan with the PCI addresses of ports that are identified by slot, serial, MAC or RDMA device
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Finds the PCI function of the live node for each port of the plan with C(match), and sets C(pci) and, if the plan
    has none, C(netdev). Other ports are not changed.
  - The function must match everything that the plan defines. The filter compares, in this order, the PCI address, the
    card's serial number, the card's slot, C(port) among the card's functions (from 1, in the order of their addresses),
    the permanent hardware address, and the RDMA device's name.
  - All mismatches are reported in one error, each on its own line with place and remedy. A mismatch is a port that no
    function or several functions match, identities that contradict each other, and a function that two ports match.
  - The values of the plan are kept in C(identified), so that ports can be identified again after cards were moved.
positional: nics
options:
  _input:
    description: The node's plan, C(railyard_node).
    type: dict
    required: true
  nics:
    description: NICs of the node as in RV(railyard.fabric.rail_info#module:nics).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Read the NICs of the node
  railyard.fabric.rail_info:
    subset: [nics]
  register: node

- name: Find the rail ports
  ansible.builtin.set_fact:
    railyard_node: "{{ railyard_node | railyard.fabric.identified(node.nics) }}"
"""

RETURN = r"""
_value:
  description: The plan of the node, with the identified ports.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_matching


def identified(node: t.Mapping[str, t.Any], nics: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    try:
        return port_matching.identify(node, nics)
    except RailyardError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError("railyard.fabric.identified: this is not the plan of a node: %s" % error) from error


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"identified": identified}
