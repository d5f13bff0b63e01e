#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ib_ports
short_description: Configure IPoIB mode and partitions of InfiniBand rail ports
version_added: 0.2.0
description:
  - Sets the mode of IPoIB, and creates a child interface for each partition of a port, live and at boot.
  - Child interfaces that an earlier run created and that are not desired now are removed. Those of other programs
    stay.
  - Reports whether a subnet manager serves the port, whether it serves VFs, and whether the port is a member of the
    partitions.
  - An interface that carries the connection or the default route is refused.
  - M(railyard.fabric.rail_ports) sets the MTU afterwards; connected mode allows up to 65520.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description:
      - The InfiniBand rail ports. Required with O(state=present).
      - With O(state=gathered), all IPoIB ports if not given.
    type: list
    elements: dict
    suboptions:
      pci:
        description: PCI address of the port, such as V(0000:0b:00.0). This or O(ports[].netdev) is required.
        type: str
      netdev:
        description: Name of the IPoIB interface.
        type: str
      mode:
        description:
          - V(datagram) or V(connected). Not changed if not given.
          - The accelerated IPoIB of ConnectX-4 and later supports only datagram mode.
        type: str
        choices: [datagram, connected]
      pkeys:
        description:
          - Partition keys, such as V(0x8001). Each gets a child interface, C(NETDEV.8001).
          - The bit of full membership (C(0x8000)) is always set.
        type: list
        elements: str
        default: []
  subnet_manager:
    description:
      - V(reported) warns if a port has no subnet manager, is not a member of one of its partitions, or has VFs that are
        not served. V(required) makes this an error. V(ignored) does not check.
    type: str
    choices: [reported, required, ignored]
    default: reported
  persist:
    description: Whether the configuration is persistent. With V(false), earlier persistent options are not changed.
    type: bool
    default: true
  state:
    description:
      - V(present) configures O(ports).
      - V(absent) removes the child interfaces that the module has created, and all persistent options. O(ports) must
        not be given. The mode stays until the next boot, because its former value is unknown. Child interfaces of a
        port that a pod has, or that carry the connection or the default route, stay until then too.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Requires root. If C(sminfo) of infiniband-diags is installed, the subnet manager is queried; else the kernel's data
    about it is used.
seealso:
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rail_ports
"""

EXAMPLES = r"""
- name: Set datagram mode and a partition, and require a subnet manager
  railyard.fabric.ib_ports:
    ports:
      - {pci: '0000:18:00.0', netdev: ibs1, mode: datagram, pkeys: ['0x8001']}
      - {pci: '0000:40:00.0', netdev: ibs2, mode: datagram, pkeys: ['0x8001']}
    subnet_manager: required

- name: Revert the configuration
  railyard.fabric.ib_ports:
    state: absent

- name: Read all IPoIB ports
  railyard.fabric.ib_ports:
    state: gathered
  register: infiniband
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: ibs1, attribute: mode, before: connected, after: datagram}
    - {subject: ibs1.8001, attribute: pkey, before: null, after: '0x8001'}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    ports:
      description:
        - For each port C(pci), C(netdev), C(mode), C(mtu), the C(pkeys) of its C(children), and the C(known_pkeys) that
          the subnet manager has assigned to it.
        - C(subnet_manager) has the port's C(state), C(physical_state), C(rate), C(lid) and C(sm_lid), whether the
          manager is C(reachable), and its C(guid), C(priority) and C(role) if it was queried. C(virtualization) is
          whether VFs are served, null without VFs.
      type: list
      elements: dict
      sample:
        - pci: '0000:18:00.0'
          netdev: ibs1
          mode: datagram
          mtu: 4092
          pkeys: ['0x8001']
          children: [ibs1.8001]
          known_pkeys: ['0x8001', '0xffff']
          subnet_manager:
            {state: ACTIVE, physical_state: LinkUp, rate: 400 Gb/sec (4X NDR), lid: 12, sm_lid: 1, reachable: true,
             guid: '0x2c90200259201', priority: 14, role: SMINFO_MASTER, virtualization: true}
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
  sample: ["IPoIB mode of ibs1, ibs2 stays as set until the next boot"]
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program


def main() -> None:
    layer = boot_program.layer("ib_ports")
    module = AnsibleModule(layer.spec, required_if=layer.required_if, supports_check_mode=True)
    module_runner.run(module, layer.build)


if __name__ == "__main__":
    main()
