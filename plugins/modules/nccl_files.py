#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_files
short_description: Write settings of NCCL and UCX into their files
version_added: 0.2.0
description:
  - Writes a block of settings into each file, for programs that run on the node without a pod. Other lines of a file
    stay.
  - A new block is at the beginning, because NCCL uses the first of two values.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The file, such as V(/etc/nccl.conf).
        type: path
        required: true
      settings:
        description: Names and values of the settings.
        type: dict
      gid_index:
        description:
          - A setting whose value is the index of a GID, for NCCL before 2.21, which does not select the GID itself.
          - The module reads the index on the node. It fails if GIDs of RoCE v2 have different indexes, and warns if an
            address has no GID.
        type: dict
        version_added: 0.2.0
        suboptions:
          setting:
            description: The name of the setting.
            type: str
            required: true
          addresses:
            description: The addresses of the ports, without prefix length.
            type: list
            elements: str
            required: true
  state:
    description:
      - V(present) writes the blocks.
      - V(absent) removes them, and a file that has no other content.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rail_host
"""

EXAMPLES = r"""
- name: Write the settings of the plan
  railyard.fabric.rail_host:
    layers: [nccl]

- name: Write settings of your own
  railyard.fabric.nccl_files:
    files:
      - path: /etc/nccl.conf
        settings: {NCCL_IB_HCA: "=mlx5_gpu01:1"}
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: /etc/nccl.conf, attribute: settings, before: null, after: {NCCL_IB_HCA: "=mlx5_gpu01:1"}, kind: file}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    files:
      description: Each file with the settings of its block; null if it has no block.
      type: list
      elements: dict
      sample: [{path: /etc/nccl.conf, settings: {NCCL_IB_HCA: "=mlx5_gpu01:1"}}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.settings_files import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
