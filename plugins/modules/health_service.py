#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: health_service
short_description: Install and run the health service of a node
version_added: 0.2.0
description:
  - Installs the health service, C(railyard-health.service). It compares the rails of the node with the plan every few
    seconds, and writes their state to C(/run/railyard/health/state.json). Its program is packed from the sources of
    this collection.
  - Starts the service, and restarts it only if its program or its unit has changed. It reads a changed spec by itself.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  spec:
    description:
      - The planned rails of the node and the settings of the service. It is written to C(/etc/railyard/health.json).
      - The layer C(health) of M(railyard.fabric.rail_host) derives it from the plan.
      - Required with O(state=present).
    type: dict
  state:
    description:
      - V(absent) stops the service and removes all its files.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Requires systemd.
seealso:
  - module: railyard.fabric.rail_agent
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Install and start the health service as planned
  railyard.fabric.rail_host:
    layers: [health]

- name: Read whether it runs
  railyard.fabric.health_service:
    state: gathered
  register: health

- name: Remove it
  railyard.fabric.health_service:
    state: absent
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: /usr/local/lib/railyard/health.pyz, attribute: program, before: null, after: as packed, kind: file}
    - {subject: railyard-health.service, attribute: service, before: inactive, after: started}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    spec:
      description: The spec on the node; null without one.
      type: dict
    service:
      description: Whether the service starts at boot, and whether it runs.
      type: dict
      sample: {enabled: true, active: true}
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service.installed_health import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
