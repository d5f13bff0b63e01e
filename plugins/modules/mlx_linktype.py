#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mlx_linktype
short_description: Set link type, SR-IOV and other firmware parameters of NVIDIA NICs
version_added: 0.1.0
description:
  - Sets firmware parameters of NVIDIA (Mellanox) NICs through C(mstconfig) of mstflint, or C(mlxconfig) of NVIDIA MFT.
  - A card has a default, a current and a next-boot value of each parameter. The module compares with the next-boot
    value and sets the parameters that differ, all of a card in one call. RV(reboot_required) reports values that are
    staged but not in force.
  - Functions that differ only in the last digit of their PCI address are one card with one set of parameters, so a
    value for one port applies to the others too.
  - A card that carries the connection or the default route is never changed or reset.
  - The firmware itself keeps the values; nothing is written on the node.
author:
  - Railyard contributors (@railyard)
requirements:
  - mstflint, or NVIDIA MFT
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description:
      - The rail ports, each with the parameters of its card. Omitted parameters are not changed.
      - With O(state=gathered) it may be omitted to read all NVIDIA NICs; a card that does not answer is a warning.
    type: list
    elements: dict
    suboptions:
      pci:
        description: PCI address of a PF of the card, with domain.
        type: str
        required: true
      link_type:
        description:
          - Link type of every port of the card, V(eth) or V(ib).
          - A card that is not VPI does not have this parameter; then only its fixed type is accepted.
        type: str
        choices: [eth, ib]
      link_types:
        description:
          - Link types of single ports, by the port's number on the card from 1, each V(eth) or V(ib).
          - Overrides O(ports[].link_type).
        type: dict
      sriov_en:
        description: Whether the firmware offers SR-IOV (C(SRIOV_EN)).
        type: bool
      num_of_vfs:
        description: Maximum number of VFs of each port (C(NUM_OF_VFS)). VFs are not created.
        type: int
      parameters:
        description:
          - Any other parameters by the tool's own names. An element of an array is C(NAME[3]), several are
            C(NAME[0..7]), and C(NAME_P*) is the parameter of each port of the card.
          - Values are compared by number if they have one, so V(1), V(true), and V(ENABLED(1\)) are one value.
          - These have aliases. V(relaxed_ordering) (true or false) is C(PCI_WR_ORDERING); V(ats) (true or
            false) is C(ATS_ENABLED); V(max_acc_out_read) is C(MAX_ACC_OUT_READ); V(advanced_pci_settings) (true or
            false) is C(ADVANCED_PCI_SETTINGS); V(roce_cc_priorities), a list of priorities, is C(ROCE_CC_PRIO_MASK_P*);
            V(cnp_dscp) is C(CNP_DSCP_P*); V(cnp_priority) is C(CNP_802P_PRIO_P*).
          - A card shows C(MAX_ACC_OUT_READ) only while C(ADVANCED_PCI_SETTINGS) is in force. If both are given, the
            first is staged by the run after the reboot that brings the second into force, as RV(reboot_reasons)
            reports.
        type: dict
      version:
        description:
          - The desired version of the firmware, such as V(22.43.2566). It is compared and reported, never installed.
        type: str
        version_added: 0.2.0
  tool:
    description: V(auto) for the installed one, V(mstconfig), V(mlxconfig), or the path of a program.
    type: str
    default: auto
  reset:
    description:
      - With V(allowed), a card whose values are not in force is reset at once (C(mstfwreset) or C(mlxfwreset), level
        3). All of the card's ports go down and return without addresses.
      - A card with VFs is never reset; remove them first.
      - A BlueField is never reset, which would restart its Arm cores and may change its mode; its values take
        effect after a reboot.
      - Values that a reset did not bring into force need a reboot.
    type: str
    choices: [never, allowed]
    default: never
  never_reset:
    description:
      - PCI addresses, with domain, of functions whose cards are never reset, such as ports for storage. Their values
        take effect after a reboot.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  timeout:
    description: Seconds that a card may take to return after a reset.
    type: float
    default: 120.0
  state:
    description: V(present) sets the values, V(gathered) only reads.
    type: str
    choices: [present, gathered]
    default: present
seealso:
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Set Ethernet and 16 VFs on two cards
  railyard.fabric.mlx_linktype:
    ports:
      - {pci: '0000:0b:00.0', link_type: eth, sriov_en: true, num_of_vfs: 16}
      - {pci: '0000:0c:00.0', link_type: eth, sriov_en: true, num_of_vfs: 16}
  register: firmware

- name: Set one port to each type, and reset the card
  railyard.fabric.mlx_linktype:
    ports:
      - pci: '0000:0b:00.0'
        link_types: {1: ib, 2: eth}
        parameters:
          PCI_WR_ORDERING: force_relax
    reset: allowed

- name: Set parameters for RoCE with GPUs, and compare the firmware version
  railyard.fabric.mlx_linktype:
    ports:
      - pci: '0000:0b:00.0'
        version: 22.43.2566
        parameters:
          relaxed_ordering: true
          ats: false
          advanced_pci_settings: true
          max_acc_out_read: 128
          roce_cc_priorities: [3]
          cnp_dscp: 48
          NUM_PF_MSIX: 63

- name: Read the firmware parameters of all NVIDIA NICs
  railyard.fabric.mlx_linktype:
    state: gathered
"""

RETURN = r"""
changes:
  description: What was set, or would be in check mode. C(before) is the next boot's value until now.
  returned: always
  type: list
  elements: dict
  sample: [{subject: '0000:0b:00.0', attribute: LINK_TYPE_P1, before: IB(1), after: ETH(2)}]
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    ports:
      description: The next boot's values in the shape of O(ports); null if the parameter was not read or is absent.
      type: list
      elements: dict
      sample:
        - pci: '0000:0b:00.0'
          link_type: eth
          link_types: {'1': eth}
          sriov_en: true
          num_of_vfs: 16
          parameters: {}
    cards:
      description:
        - The cards by PCI address, with C(device_type), C(name), C(description), C(functions), and C(parameters) by
          name.
        - C(version) and C(psid) are those of the running firmware, as the driver reports them, or null.
        - C(mode) is V(nic) or V(dpu) of a BlueField, if the tool reports it, else null.
        - Each parameter has C(default), C(current), C(next) and C(read_only). If the tool or the card does not report
          the current value, it is what the kernel shows of the card, or null.
      type: dict
      sample:
        '0000:0b:00.0':
          device_type: ConnectX6
          name: MCX653105A-HDA_Ax
          description: ConnectX-6 VPI adapter card
          functions: ['0000:0b:00.0']
          version: 20.43.2566
          psid: MT_0000000223
          mode: null
          parameters:
            LINK_TYPE_P1: {default: IB(1), current: IB(1), next: ETH(2), read_only: false}
reboot_required:
  description: Whether a desired value is not in force yet.
  returned: success
  type: bool
reboot_reasons:
  description: The values that are not in force yet, one line per value.
  returned: success
  type: list
  elements: str
  sample: ['0000:0b:00.0: LINK_TYPE_P1 is IB(1) now, ETH(2) at the next boot']
firmware_differs:
  description: The cards whose firmware is not the desired version, each with C(card), C(wanted) and C(version).
  returned: success
  type: list
  elements: dict
  sample: [{card: '0000:0b:00.0', wanted: 22.43.2566, version: 22.31.1014}]
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
