#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_host
short_description: Run all layers of a node at once
version_added: 0.2.0
description:
  - Runs the modules of a node's layers in order in one process, which is one module execution. The result has a part
    per module, which is the module's result without C(gathered).
  - An action plugin on the control node derives the options of each module from the plan, C(railyard_node) and
    C(railyard_fabric), and from the variables of the layers' roles, such as C(sriov_allow_recreate).
    C(module_defaults) of these modules do not apply.
  - The roles of the layers run this module with O(layers). In playbooks, each layer has a tag of its role's name.
    C(--tags) and C(--skip-tags) choose layers, also within one task.
  - It stops at the first layer that fails, with the error of that layer. Check mode runs all layers, and fails with the
    errors of all of them. RV(not_judged) lists what a layer cannot predict before an earlier one has changed the node.
  - It does not run layers on the control node, or while packages are missing. RV(needs) names what other tasks must do.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  layers:
    description:
      - The layers to run, by the names of their roles, independently of tags. If not given, tags choose layers.
      - On the control node, the module fails, unless C(preflight_control_node_allowed) is true. Other RV(needs) are
        for the role.
      - V(preflight) checks for missing packages, and finds the ports that the plan identifies by slot, serial number,
        MAC address or RDMA device.
    type: list
    elements: str
  state:
    description:
      - V(present) brings the layers to the plan.
      - V(absent) reverts them, the last layer first.
    type: str
    choices: [present, absent]
    default: present
  keep_going:
    description:
      - Whether to run the layers after a failed layer too. A failure is then only in the part of its module.
    type: bool
    default: false
  preview:
    description:
      - Whether M(railyard.fabric.fabric_preview) shows the changes and errors of all nodes together, in check mode.
      - Errors of layers then do not fail the task. RV(changes), RV(modules) and C(diff) are kept in files for
        M(railyard.fabric.fabric_preview). Only with C(-v), the result has them too.
      - Has no effect without check mode.
    type: bool
    default: false
  states:
    description:
      - Whether RV(modules) has the state that each module read, C(gathered).
      - Ansible keeps registered results of all nodes in memory, and each of its workers is a copy of that process.
    type: bool
    default: false
  packages:
    description:
      - The tools that the layers need on the node, by their name in RV(railyard.fabric.rail_info#module:tools), each
        with its package.
      - If a tool is missing, layers are not run, and RV(needs) has C(packages). Check mode runs the layers anyway.
      - The default is the variable C(preflight_packages) of the role C(preflight).
    type: dict
  control_boot_id:
    description:
      - The boot ID of the control node, on which layers are not run. RV(needs) then has C(control_node).
      - The action plugin sets it, unless C(preflight_control_node_allowed) is true.
    type: str
  modules:
    description:
      - The modules in the order in which they run. The action plugin derives them from the plan if they are not given.
    type: list
    elements: dict
    suboptions:
      layer:
        description: The layer, which is the name of its role and tag.
        type: str
        required: true
      module:
        description: The module, without the name of the collection.
        type: str
        required: true
      options:
        description: The options of the module.
        type: dict
      skip_missing:
        description:
          - Whether to skip the module if a package that it needs is missing. RV(needs) then has the name of the layer.
        type: bool
        default: false
seealso:
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Configure all layers of the node
  railyard.fabric.rail_host:
  register: prepared

- name: Configure only VFs and RDMA links
  railyard.fabric.rail_host:
    layers: [sriov, rdma_links]

- name: Read the drift of all layers
  railyard.fabric.rail_host:
    keep_going: true
  check_mode: true
"""

RETURN = r"""
changes:
  description:
    - What was changed in all layers, or in check mode would be. C(rail) is the rail of a port of the plan.
  returned: always, except with O(preview)
  type: list
  elements: dict
  sample:
    - {subject: enp11s0f0np0, attribute: mtu, before: 1500, after: 4200, rail: gpu01}
errors:
  description: The errors. C(layer) is the layer that has the error.
  returned: failure, or with O(preview)
  type: list
  elements: dict
  sample:
    - {layer: agent, place: containerd, message: containerd is not installed, remedy: install containerd 1.7 or later}
not_judged:
  description: For each module that check mode could not predict, or not all of it, what it needs.
  returned: check mode, if there is such a module
  type: dict
  sample: {roce_qos: needs the MTU of rail_ports}
modules:
  description: The result of each module that was run, by its name.
  returned: success
  type: dict
  sample:
    rdma_netns_mode: {changed: false, changes: [], reboot_required: false}
layer:
  description: The first layer that failed.
  returned: failure
  type: str
  sample: sriov
needs:
  description:
    - What other tasks must do before the node is prepared. C(control_node) is true if the node is the machine on
      which Ansible runs. C(packages) lists missing packages. C(cni) is true if the role C(cni) must run, because it
      installs plugins first. C(node) is C(railyard_node) with the ports that the plan knows by slot, serial number,
      MAC address or RDMA device.
  returned: always
  type: dict
  sample: {packages: [perftest]}
system:
  description: The ID of the node's current boot.
  returned: always
  type: dict
  sample: {boot_id: 3c5f6f0e-7d7a-4c58-9f0c-5a3e0f1f6d11}
reboot_required:
  description: Whether a layer needs a reboot.
  returned: always
  type: bool
reboot_reasons:
  description: The reasons of all layers.
  returned: always
  type: list
  elements: str
  sample: ["RDMA mode: live shared, next boot exclusive"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import host_layers


def main() -> None:
    entry = {
        "layer": {"type": "str", "required": True},
        "module": {"type": "str", "required": True},
        "options": {"type": "dict"},
        "skip_missing": {"type": "bool", "default": False},
    }
    spec = {
        **MANAGEMENT,
        "layers": {"type": "list", "elements": "str"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "keep_going": {"type": "bool", "default": False},
        "preview": {"type": "bool", "default": False},
        "states": {"type": "bool", "default": False},
        "packages": {"type": "dict"},
        "control_boot_id": {"type": "str"},
        "modules": {"type": "list", "elements": "dict", "options": entry},
    }
    module = AnsibleModule(spec, supports_check_mode=True)
    warnings: list[str] = []
    result = host_layers.run(module.params, System(), module.check_mode, warnings)
    # the parts have what became of the options
    module_runner.end(module, result, {"state": module.params["state"]}, warnings)


if __name__ == "__main__":
    main()
