#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_cordon
short_description: Keep new pods off single rails of a node
version_added: 0.2.0
description:
  - Cordons rails of a node that has the rail agent. The agent reports slots of a cordoned rail, and slots on all rails
    of the node, as unhealthy, or with DRA gives them the taint C(rail-cordoned). Pods on other rails are still
    scheduled on the node. Running pods keep their rails.
  - Uncordons the rails that this module has cordoned and that are not in O(rails). Rails that an administrator has
    cordoned with C(railyard-agent cordon) stay cordoned.
  - Cordons stay across reboots and upgrades of the agent.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  rails:
    description: The names of the rails to cordon, each with the reason. With V({}), no rail is cordoned.
    type: dict
    required: true
seealso:
  - module: railyard.fabric.rail_agent
  - module: railyard.fabric.kube_cordon
"""

EXAMPLES = r"""
- name: Keep new pods off a rail
  railyard.fabric.rail_cordon:
    rails: {gpu02: the cable is being replaced}

- name: Let pods use all rails again
  railyard.fabric.rail_cordon:
    rails: {}
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: rail gpu02, attribute: cordon, before: null, after: the cable is being replaced}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    rails:
      description: The cordoned rails. C(by) is V(rail_cordon), or empty for a cordon of an administrator.
      type: dict
      sample: {gpu02: {reason: the cable is being replaced, by: rail_cordon}}
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.rail_cordons import RailCordons
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner


def main() -> None:
    module = AnsibleModule({"rails": {"type": "dict", "required": True}}, supports_check_mode=True)
    module_runner.run(module, RailCordons)


if __name__ == "__main__":
    main()
