#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: imex_daemon
short_description: Configure NVIDIA's IMEX daemon on the nodes of an NVLink domain
version_added: 0.2.0
description:
  - IMEX shares GPU memory between the nodes of an NVLink domain, such as the compute trays of a GB200 NVL72.
  - Writes C(/etc/nvidia-imex/nodes_config.cfg), and enables and starts the service C(nvidia-imex). The daemon reads the
    file only at its start, so a change of the file restarts it, also a change that others made while it ran.
  - With O(daemon=compute-domain), the DRA driver of NVIDIA runs the daemons. Then the service of the host is stopped,
    disabled and masked.
  - A daemon is not stopped while a program holds an IMEX channel open.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  daemon:
    description:
      - Where the daemon runs. V(host) uses the service of the host, V(compute-domain) uses pods of the DRA driver.
    type: str
    choices: [host, compute-domain]
    default: host
  nodes:
    description:
      - The IP address of each node of the domain, in the same order on all nodes. Required with O(daemon=host).
    type: list
    elements: str
    default: []
  state:
    description:
      - V(present) sets the service and its file.
      - V(absent) restores the file and the state of the service from before the first change.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rail_host
  - name: IMEX guide
    description: NVIDIA's guide of the service.
    link: https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/
"""

EXAMPLES = r"""
- name: Configure IMEX as planned
  railyard.fabric.rail_host:
    layers: [imex]

- name: Configure IMEX for two nodes
  railyard.fabric.imex_daemon:
    nodes: [10.9.0.1, 10.9.0.2]
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: /etc/nvidia-imex/nodes_config.cfg, attribute: nodes, before: [], after: [10.9.0.1, 10.9.0.2]}
    - {subject: nvidia-imex.service, attribute: enabled, before: disabled, after: enabled}
    - {subject: nvidia-imex.service, attribute: active, before: false, after: true}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    nodes:
      description: The addresses in the nodes file; null without the file.
      type: list
      elements: str
      sample: [10.9.0.1, 10.9.0.2]
    installed:
      description: Whether the node has the service.
      type: bool
      sample: true
    enabled:
      description: The state of the unit file, such as V(enabled) or V(masked); null if it does not exist.
      type: str
      sample: enabled
    active:
      description: Whether the daemon runs.
      type: bool
      sample: true
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.imex_daemon import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
