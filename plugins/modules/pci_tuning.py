#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pci_tuning
short_description: Open the way between rail ports and GPUs on the PCI bus, and set the read request size
version_added: 0.1.0
description:
  - Clears the bits of Access Control Services (ACS) that send what goes from a NIC to its GPU up to the root complex,
    on the bridges between the two and on no others.
  - Sets the rail ports' Maximum Read Request Size.
  - Compares the ports' PCI links with what both ends can do and with what the plan expects, and tells what differs.
    Links are never set.
  - Registers are found by their capabilities, and written in the kernel's C(config) files so that only the wanted bits
    change. No other tool is needed.
  - Nothing is cleared on a machine that needs its ACS bits, that is one with Grace or Vera processors, with a ConnectX
    that has a DMA Direct function, or that rdma-core's C(rdma_topo) knows; nor on a bridge above a function that VFIO
    hands on, or above the function that carries the connection or the default route.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  ports:
    description:
      - The rail ports, all of a node's in one call.
      - With O(state=gathered) and no ports, all network PFs are read, with the GPUs nearest to each.
      - With O(persist=true) what is kept for boot are the ports of the latest call and no others.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description: The port's PCI address, C(0000:0b:00.0). It counts before O(ports[].netdev).
        type: str
      netdev:
        description: The port's netdev. Give it, or O(ports[].pci), or both.
        type: str
      gpus:
        description: The numbers of the GPUs that the port serves.
        type: list
        elements: int
        default: []
      max_read_request:
        description: As O(max_read_request), for this port alone.
        type: int
        choices: [128, 256, 512, 1024, 2048, 4096]
      expect:
        description: What is compared and told, never set. Other keys than these are left unread.
        type: dict
        suboptions:
          pcie_gen:
            description: Generation of the PCI link.
            type: int
          pcie_lanes:
            description: Lanes of the PCI link.
            type: int
          gpu_distance:
            description: How far its GPUs may be at most, V(PIX), V(PXB), V(PHB), V(NODE) or V(SYS).
            type: str
          speed:
            description: Speed on the wire. Not a matter of this module.
            type: raw
          width:
            description: Lanes on the wire. Not a matter of this module.
            type: raw
  gpus:
    description:
      - The GPUs' PCI addresses by their numbers.
      - A GPU without one, or that is not listed, is found by its number in the order of the addresses of those that
        the node has, which is how their drivers count them.
    type: dict
    default: {}
  acs:
    description:
      - With V(disabled), SrcValid, ReqRedir, CmpltRedir, UpstreamFwd and EgressCtrl are cleared on the bridges between
        each port and its GPUs. TransBlk and DirectTrans are left.
      - With V(leave), nothing is done, and what an earlier run kept for boot is taken away; the bits come back when the
        kernel sets them at the next boot.
    type: str
    choices: [leave, disabled]
    default: leave
  max_read_request:
    description: Maximum Read Request Size of the ports, in bytes. Left alone if not given.
    type: int
    choices: [128, 256, 512, 1024, 2048, 4096]
  persist:
    description:
      - Whether the same is done at each boot, and when a port, one of its GPUs or a bridge between them comes back to
        the bus or gets its driver.
      - With V(false) what was kept for boot by an earlier run is left as it is.
    type: bool
    default: true
  state:
    description:
      - V(present) sets up O(ports).
      - V(absent) takes back what is kept for boot and for a device's return. It takes no O(ports). The registers stay
        as set until the next boot, since nobody knows what they were before.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Where the IOMMU translates, transfers between devices go through the root complex whatever ACS says. Set
    C(iommu=pt) with M(railyard.fabric.kernel_arguments).
  - A kernel that is locked down (Secure Boot) lets nobody write configuration space.
seealso:
  - module: railyard.fabric.kernel_arguments
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Open the way between two rail ports and their GPUs
  railyard.fabric.pci_tuning:
    ports:
      - {pci: "0000:0b:00.0", gpus: [0], expect: {pcie_gen: 5, pcie_lanes: 16, gpu_distance: PIX}}
      - {pci: "0000:49:00.0", gpus: [1], expect: {pcie_gen: 5, pcie_lanes: 16, gpu_distance: PIX}}
    gpus: {"0": "0000:18:00.0", "1": "0000:4a:00.0"}
    acs: disabled
    max_read_request: 4096

- name: Take it back
  railyard.fabric.pci_tuning:
    state: absent

- name: Read all network functions
  railyard.fabric.pci_tuning:
    state: gathered
  register: pci
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode, in order.
  returned: always
  type: list
  elements: dict
  contains:
    subject:
      description: The PCI address of a port or a bridge, or a file kept for boot.
      type: str
      sample: "0000:17:01.0"
    attribute:
      description: Which attribute of it, as C(lspci) spells it.
      type: str
      sample: ACSCtl
    before:
      description: Its value before; of C(ACSCtl) the bits that are set.
      type: raw
    after:
      description: Its value then.
      type: raw
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    acs:
      description: V(disabled) where no bridge between ports and GPUs is in the way, else null.
      type: str
    ports:
      description:
        - The ports. C(link) is the PCI link now, at most, and what the slot can do; null where the kernel cannot tell.
        - C(near) says how far each GPU is and which bridges are between.
        - C(iommu) is what the IOMMU does for the port, V(identity) or V(DMA) or V(DMA-FQ), null without one.
      type: list
      elements: dict
      sample:
        - pci: "0000:0b:00.0"
          netdev: enp11s0f0np0
          gpus: [0]
          max_read_request: 4096
          max_payload: 256
          link: {gen: 5, lanes: 16, max_gen: 5, max_lanes: 16, slot_gen: 5, slot_lanes: 16}
          near: [{gpu: 0, pci: "0000:18:00.0", distance: PIX, bridges: ["0000:0a:01.0", "0000:0a:00.0"]}]
          iommu: identity
    bridges:
      description: The bridges between ports and GPUs, with the ACS bits that are set, null where they have no ACS.
      type: list
      elements: dict
      sample:
        - {pci: "0000:0a:00.0", acs: [], acs_supported: [SrcValid, ReqRedir], ports: ["0000:0b:00.0"]}
    findings:
      description: What is not as expected; each is a warning too.
      type: list
      elements: dict
      sample:
        - {port: "0000:0b:00.0", attribute: pcie_lanes, expected: 16, found: 8}
    rdma_topo:
      description: Where rdma-core's C(rdma_topo) is, null where it is not there.
      type: str
reboot_required:
  description: Whether something that was taken back stays live until the next boot.
  returned: success
  type: bool
  sample: true
reboot_reasons:
  description: What stays live until the next boot; told by every run with O(state=absent) until then.
  returned: success
  type: list
  elements: str
  sample: ["MaxReadReq of 0000:0b:00.0, 0000:0c:00.0 stays as set until the next boot"]
errors:
  description: All that is wrong, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_config import SIZES

SIZE = {"type": "int", "choices": list(SIZES)}
EXPECT = {
    "pcie_gen": {"type": "int"},
    "pcie_lanes": {"type": "int"},
    "gpu_distance": {"type": "str"},
    "speed": {"type": "raw"},
    "width": {"type": "raw"},
}
PORTS = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "gpus": {"type": "list", "elements": "int", "default": []},
    "max_read_request": SIZE,
    "expect": {"type": "dict", "options": EXPECT},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORTS},
            "gpus": {"type": "dict", "default": {}},
            "acs": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
            "max_read_request": SIZE,
            "persist": {"type": "bool", "default": True},
            "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
        },
        supports_check_mode=True,
    )
    module_runner.run(module, boot_program.builder("pci_tuning"))


if __name__ == "__main__":
    main()
