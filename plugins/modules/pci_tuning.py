#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pci_tuning
short_description: Disable ACS between rail ports and GPUs, and set the PCI read request size
version_added: 0.2.0
description:
  - Clears the bits of Access Control Services (ACS) that redirect transfers between a NIC and its GPU through the root
    complex, only on the bridges between the two.
  - Sets the rail ports' Maximum Read Request Size.
  - Compares the ports' PCI links with what both ends support and with O(ports[].expect), and reports differences. It
    never changes a link.
  - Registers are found by their capabilities and written through the kernel's C(config) files, so that only the desired
    bits change. No other tool is needed.
  - Nothing is cleared on a machine that needs its ACS bits, which is one with Grace or Vera processors, with a ConnectX
    that has a DMA Direct function, or that rdma-core's C(rdma_topo) knows. Bridges above a function that VFIO passes
    through, or above the function that carries the connection or the default route, are not changed either.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description:
      - All rail ports of the node.
      - With O(state=gathered) and no ports, all network PFs are read, with the GPUs nearest to each.
      - With O(persist=true), only the ports of the latest call are persistent.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description: The port's PCI address, such as V(0000:0b:00.0). It takes precedence over O(ports[].netdev).
        type: str
      netdev:
        description: The port's netdev. This or O(ports[].pci) is required.
        type: str
      gpus:
        description: The numbers of the GPUs that the port serves.
        type: list
        elements: int
        default: []
      max_read_request:
        description: As O(max_read_request), only for this port.
        type: int
        choices: [128, 256, 512, 1024, 2048, 4096]
      expect:
        description: Values that are compared and reported, never set. Other keys are ignored.
        type: dict
        suboptions:
          pcie_gen:
            description: Generation of the PCI link.
            type: int
          pcie_lanes:
            description: Lanes of the PCI link.
            type: int
          gpu_distance:
            description: The largest allowed distance of its GPUs, V(PIX), V(PXB), V(PHB), V(NODE) or V(SYS).
            type: str
          speed:
            description: Speed of the network link. Ignored by this module.
            type: raw
          width:
            description: Lanes of the network link. Ignored by this module.
            type: raw
  gpus:
    description:
      - The GPUs' PCI addresses by their numbers.
      - A GPU without an address is found by its number, in the order of the PCI addresses of the node's GPUs, as
        drivers count them.
    type: dict
    default: {}
  acs:
    description:
      - With V(disabled), SrcValid, ReqRedir, CmpltRedir, UpstreamFwd and EgressCtrl are cleared on the bridges between
        each port and its GPUs. TransBlk and DirectTrans are not changed.
      - With V(leave), no bit is changed, and the persistent options of earlier runs are removed; the kernel sets the
        bits again at the next boot.
    type: str
    choices: [leave, disabled]
    default: leave
  max_read_request:
    description: Maximum Read Request Size of the ports, in bytes. Not changed if not given.
    type: int
    choices: [128, 256, 512, 1024, 2048, 4096]
  persist:
    description:
      - Whether the settings are persistent. They are applied at each boot, and when a port, one of its GPUs or a bridge
        between them returns to the bus or gets its driver.
      - With V(false) persistent options of earlier runs are not changed.
    type: bool
    default: true
  state:
    description:
      - V(present) configures O(ports).
      - V(absent) removes all persistent options. O(ports) must not be given. The registers stay until the next boot,
        because their former values are unknown.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - If the IOMMU translates, transfers between devices go through the root complex independently of the ACS bits. Set
    C(iommu=pt) with M(railyard.fabric.kernel_arguments).
  - A kernel that is locked down (Secure Boot) does not allow writing configuration space.
seealso:
  - module: railyard.fabric.kernel_arguments
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Disable ACS between two rail ports and their GPUs
  railyard.fabric.pci_tuning:
    ports:
      - {pci: "0000:0b:00.0", gpus: [0], expect: {pcie_gen: 5, pcie_lanes: 16, gpu_distance: PIX}}
      - {pci: "0000:49:00.0", gpus: [1], expect: {pcie_gen: 5, pcie_lanes: 16, gpu_distance: PIX}}
    gpus: {"0": "0000:18:00.0", "1": "0000:4a:00.0"}
    acs: disabled
    max_read_request: 4096

- name: Remove the persistent options
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
      description: The PCI address of a port or a bridge, or a file.
      type: str
      sample: "0000:17:01.0"
    attribute:
      description: The changed attribute, in the spelling of C(lspci).
      type: str
      sample: ACSCtl
    before:
      description: The value before the change; of C(ACSCtl) the bits that are set.
      type: raw
    after:
      description: The value after the change.
      type: raw
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    acs:
      description: V(disabled) if no bridge between ports and GPUs redirects transfers, else null.
      type: str
    ports:
      description:
        - The ports. C(link) has the current and the maximum values of the PCI link, and those of the slot; null if the
          kernel does not report them.
        - C(near) has the distance of each GPU and the bridges in between.
        - C(iommu) is the type of the port's IOMMU group, V(identity), V(DMA) or V(DMA-FQ); null without one.
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
      description: The bridges between ports and GPUs, with the ACS bits that are set; null if they do not have ACS.
      type: list
      elements: dict
      sample:
        - {pci: "0000:0a:00.0", acs: [], acs_supported: [SrcValid, ReqRedir], ports: ["0000:0b:00.0"]}
    findings:
      description: Values that are not as expected; each is a warning too.
      type: list
      elements: dict
      sample:
        - {port: "0000:0b:00.0", attribute: pcie_lanes, expected: 16, found: 8}
    rdma_topo:
      description: The path of rdma-core's C(rdma_topo); null if it is not installed.
      type: str
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
  sample: ["MaxReadReq of 0000:0b:00.0, 0000:0c:00.0 stays as set until the next boot"]
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
    layer = boot_program.layer("pci_tuning")
    module = AnsibleModule(layer.spec, required_if=layer.required_if, supports_check_mode=True)
    module_runner.run(module, layer.build)


if __name__ == "__main__":
    main()
