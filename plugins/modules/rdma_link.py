#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_link
short_description: Configure the RDMA links of a node's rail ports
version_added: 0.1.0
description:
  - Creates and removes soft RDMA links, gives hardware RDMA devices stable names, and waits until they are ACTIVE. It
    handles all ports in one call, over NETLINK_RDMA.
  - A port is identified by its netdev or its PCI function, not by the current name of its RDMA device. A soft link of
    the desired type with another name is renamed. Devices can exchange their names.
  - Devices that O(ports) does not list are not changed, except a soft link whose name another soft link must get.
  - A device in use is neither removed nor renamed, unless O(force=true); the error names the users. For a renaming,
    users are processes with queue pairs or connection ids. For a removal, they are also processes that only have the
    device open, and connections of the kernel itself.
  - The module never changes the RDMA device of an interface that carries the connection or the default route.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description:
      - The ports, in any order.
      - Required with O(state=present).
      - With O(state=absent) and no ports, all persistent ports are removed.
    type: list
    elements: dict
    suboptions:
      name:
        description: The RDMA device's name, of at most 63 letters, digits and C(_-.:).
        type: str
        required: true
      type:
        description: V(rxe) and V(siw) are soft links on O(ports[].netdev); V(hardware) is the NIC's own device.
        type: str
        choices: [hardware, rxe, siw]
        default: hardware
      netdev:
        description:
          - The port's netdev.
          - For a bond, V(hardware) is the device of its functions, whichever of them has it (RoCE LAG).
          - A VLAN has no RDMA device of its own. Give the interface below it, whose device has the VLAN's GIDs too.
          - Required for a soft link that must be present. With O(ports[].state=absent) a link on another netdev is not
            removed.
        type: str
      pci:
        description:
          - The port's PCI address, in full (V(0000:0b:00.0)).
          - It identifies a hardware device; without it, the function of O(ports[].netdev) does. If both are given, they
            must belong together.
        type: str
      state:
        description:
          - Whether the link must exist. Only a soft link can be V(absent).
          - Ignored with O(state=absent).
        type: str
        choices: [present, absent]
        default: present
  wait_active:
    description: Seconds to wait until all present links are ACTIVE; V(0) does not wait.
    type: float
    default: 0
  force:
    description:
      - Whether to remove or rename a device in use too.
      - The kernel may delay the removal until the last process has closed the device.
    type: bool
    default: false
  persist:
    description:
      - Whether the links and names are persistent. They are stored in C(/etc/railyard/boot.d/20-rdma_link.json) and
        applied at boot by C(railyard-boot.service).
      - Persistent ports that O(ports) does not list stay, unless O(complete=true).
    type: bool
    default: true
  complete:
    description:
      - Whether O(ports) lists all ports of the node. Other ports are then no longer persistent, and their soft links
        are removed, as with O(state=absent). Hardware devices keep their names until the next boot.
      - Used with O(state=present) and O(persist=true).
    type: bool
    default: false
    version_added: 0.2.0
  state:
    description:
      - V(present) configures O(ports).
      - V(absent) removes the soft links of O(ports) and their persistent options. For a persistent port,
        O(ports[].name) is enough. Hardware devices keep their names until the next boot.
      - With V(absent), links in use are refused too. If no ports are given, links of the interface that carries the
        connection or the default route stay until the next boot.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rdma_netns_mode
  - module: railyard.fabric.rail_probe
notes:
  - Requires root, and C(modprobe) to create the first soft link.
  - In rdma mode exclusive, a device in another network namespace is not visible, and configuring it is an error.
"""

EXAMPLES = r"""
- name: Give the rails' RDMA devices stable names
  railyard.fabric.rdma_link:
    ports:
      - {name: mlx5_gpu01, pci: "0000:0b:00.0"}
      - {name: mlx5_gpu02, pci: "0000:0c:00.0"}
    wait_active: 60

- name: Create soft links on NICs without RDMA
  railyard.fabric.rdma_link:
    ports:
      - {name: rxe_gpu01, type: rxe, netdev: enp1s0}
      - {name: rxe_gpu02, type: rxe, netdev: enp2s0}

- name: Remove a soft link
  railyard.fabric.rdma_link:
    ports:
      - {name: rxe_gpu02, type: rxe, state: absent}

- name: Remove all persistent links
  railyard.fabric.rdma_link:
    state: absent

- name: Read all RDMA devices
  railyard.fabric.rdma_link:
    state: gathered
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: rxe_gpu01, attribute: link, before: null, after: rxe on enp1s0}
    - {subject: "0000:0b:00.0", attribute: name, before: mlx5_0, after: mlx5_gpu01}
gathered:
  description: The state after, of all RDMA devices that are visible.
  returned: success
  type: dict
  contains:
    ports:
      description: Each device, in the shape of O(ports).
      type: list
      elements: dict
      returned: always
      sample: [{name: mlx5_gpu01, type: hardware, netdev: enp11s0f0np0, pci: "0000:0b:00.0", state: present}]
    links:
      description: State of each port of each device, in the terms of C(rdma link).
      type: list
      elements: dict
      returned: always
      sample: [{device: mlx5_gpu01, port: 1, state: ACTIVE, physical_state: LINK_UP, netdev: enp11s0f0np0}]
reboot_required:
  description: Whether a reverted setting stays live until the next boot.
  returned: success
  type: bool
  sample: true
reboot_reasons:
  description: The settings that stay live until the next boot. Every run with O(state=absent) reports them until then.
  returned: success
  type: list
  elements: str
  sample: ["the RDMA devices mlx5_gpu01, mlx5_gpu02 keep their names until the next boot"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program


def main() -> None:
    layer = boot_program.layer("rdma_link")
    module = AnsibleModule(layer.spec, required_if=layer.required_if, supports_check_mode=True)
    module_runner.run(module, layer.build)


if __name__ == "__main__":
    main()
