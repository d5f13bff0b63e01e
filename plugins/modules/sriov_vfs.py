#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sriov_vfs
short_description: Configure SR-IOV virtual functions on rail ports
version_added: 0.1.0
description:
  - Sets how many VFs each PF has, and each VF's MAC or GUIDs, VLAN, trust, spoof check, link state and rates.
  - Existing VFs are removed only with O(allow_recreate=true), because the kernel changes their number only through
    zero, and never while one of them is in use. A VF is in use if its netdev or RDMA device is in another network
    namespace, if a process has its VFIO, UIO or verbs file open, if another interface or a soft RDMA link uses its
    netdev, or if its netdev has an address. The refusal names the holder.
  - New VFs get their drivers only after their attributes are set, so that they do not come up with a random MAC or in
    the wrong VLAN. C(sriov_drivers_autoprobe) is off during that time. The next run repairs the state of an interrupted
    run.
  - If the MAC or GUID of an existing VF changes, only that VF is unbound from its driver and bound again. Other
    attributes are set without that.
  - A PF with VFs is set up if its netdev is down.
  - On nodes with NetworkManager (C(/etc/NetworkManager) exists), udev rules in
    C(/etc/udev/rules.d/84-railyard-vfs.rules) set C(NM_UNMANAGED) for the VFs of these PFs before the VFs are created,
    so that NetworkManager does not set them up. With O(persist=false), the file is
    C(/run/udev/rules.d/84-railyard-vfs-live.rules), which a boot removes. The call that writes the rules also sets down
    VFs that are up and not in use. A PF gets no rule, and a warning, if one of its VFs has an address on the node or is
    part of another interface.
  - The PF that carries the connection or the default route, itself or by a VF, is never touched.
  - Ports that are already configured do not need a netlink library; changes need pyroute2 on the node.
author:
  - Railyard contributors (@railyard)
requirements:
  - pyroute2 >= 0.7.2 on the node, if attributes change
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description:
      - All PFs of the node.
      - With O(state=gathered) and no ports, all PFs of the node that have SR-IOV are read.
      - With O(state=absent) and no ports, all PFs that the module has configured are reverted. With ports, only
        O(ports[].pci) and O(ports[].netdev) are used.
      - With O(persist=true), only the ports of the latest call are persistent.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description:
          - The PF's PCI address, C(0000:0b:00.0).
          - It takes precedence over O(ports[].netdev). A netdev of that name on another PCI function is an error.
        type: str
      netdev:
        description: The PF's netdev. This or O(ports[].pci) is required.
        type: str
      count:
        description: Number of VFs of the PF. Not changed if omitted.
        type: int
      range:
        description:
          - The VFs to configure, such as V(5-9), if others of this port have another owner, such as a virtual machine.
            VFs are numbered from 0. If omitted, all VFs are configured.
          - VFs outside of the range are not configured, also not for NetworkManager. If the port has no VFs, all
            O(ports[].count) are created, and the kernel binds them. If it has another number, the module fails unless
            O(allow_recreate=true), because a new number removes all VFs.
          - With O(state=absent), the VFs of such a port stay until the next boot.
        type: str
      attributes:
        description: Attributes of each VF. VFs and attributes that are omitted are not changed.
        type: list
        elements: dict
        default: []
        suboptions:
          index:
            description: The VF's number, from 0.
            type: int
            required: true
          mac:
            description: Its MAC address, which the PF administers. Ethernet only.
            type: str
          vlan:
            description: The VLAN that the NIC tags its traffic with; V(0) for none. Ethernet only.
            type: int
          qos:
            description: The 802.1p priority in the tag of C(vlan), V(0) to V(7).
            type: int
          trust:
            description: Whether it may set promiscuous mode and its own MAC. Ethernet only.
            type: bool
          spoofchk:
            description: Whether the NIC drops its packets with another source MAC. Ethernet only.
            type: bool
          link_state:
            description: Whether its link follows the PF's (V(auto)), is always up (V(enable)) or down (V(disable)).
            type: str
            choices: [auto, enable, disable]
          min_tx_rate:
            description: Least transmit rate in Mb/s; V(0) for none. Ethernet only.
            type: int
          max_tx_rate:
            description: Greatest transmit rate in Mb/s; V(0) for none. Ethernet only.
            type: int
          node_guid:
            description: Its node GUID, eight bytes as V(00:11:22:33:44:55:66:77). InfiniBand only.
            type: str
          port_guid:
            description: Its port GUID. InfiniBand only.
            type: str
  allow_recreate:
    description:
      - Whether existing VFs may be removed to change their number.
      - VFs that are in use are never removed.
      - Not required for O(state=absent).
    type: bool
    default: false
  autoprobe:
    description:
      - Value of C(sriov_drivers_autoprobe) of these PFs, which is whether the kernel binds a driver to their VFs.
      - With V(false) VFs stay without a driver, as for virtual machines. Otherwise a VF without a driver is bound to
        one.
      - Not changed if omitted.
    type: bool
  timeout:
    description: Seconds to wait for each of VFs, their drivers, netdevs and RDMA devices, and for the PF's link to
      return.
    type: int
    default: 120
  persist:
    description:
      - Whether the options are applied at each boot too, before containers start, without O(allow_recreate).
      - With V(false), the persistent options of an earlier run are not changed.
    type: bool
    default: true
  state:
    description:
      - V(present) configures O(ports).
      - V(absent) removes the VFs of O(ports) and their persistent options. Without O(ports) these are the VFs that the
        module created; attributes of other VFs stay as set until the next boot.
      - With V(absent), VFs that are in use are refused too. The VFs of a PF that a pod has stay until the next boot.
        Without O(ports), so do the VFs of the PF that carries the connection or the default route. The number of VFs
        that the firmware allows is not changed.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - An attribute that the driver cannot set is an error, before anything is changed, unless the value is that of VFs
    without the attribute (V(auto), V(0), V(false)).
  - The switchdev mode of a NIC is not changed. Some drivers refuse VF attributes in it.
seealso:
  - module: railyard.fabric.mlx_linktype
  - module: railyard.fabric.rdma_link
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Create two VFs on each of two rail ports
  railyard.fabric.sriov_vfs:
    ports:
      - pci: "0000:0b:00.0"
        count: 2
        attributes:
          - {index: 0, mac: "02:52:00:0b:00:00", trust: true, spoofchk: false}
          - {index: 1, mac: "02:52:00:0b:00:01", trust: true, spoofchk: false}
      - netdev: enp12s0f0np0
        count: 2

- name: Create InfiniBand VFs with fixed GUIDs
  railyard.fabric.sriov_vfs:
    ports:
      - pci: "0000:18:00.0"
        count: 1
        attributes:
          - index: 0
            node_guid: "02:52:00:18:00:00:00:01"
            port_guid: "02:52:00:18:00:00:00:01"
            link_state: auto

- name: Change the number of VFs on a drained node
  railyard.fabric.sriov_vfs:
    ports:
      - {pci: "0000:0b:00.0", count: 4}
    allow_recreate: true

- name: Remove the VFs and their persistent options
  railyard.fabric.sriov_vfs:
    state: absent

- name: Read all PFs
  railyard.fabric.sriov_vfs:
    state: gathered
  register: sriov
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be, in order.
  returned: always
  type: list
  elements: dict
  contains:
    subject:
      description: The PF's PCI address, with C(vf N) for one of its VFs; a netdev; or a file.
      type: str
      sample: "0000:0b:00.0 vf 0"
    attribute:
      description: The changed attribute; C(bound) is whether a VF has a driver.
      type: str
      sample: mac
    before:
      description: The value before the change; null if it did not exist, such as of a new VF.
      type: raw
    after:
      description: The value after the change.
      type: raw
    kind:
      description: The kind of change, V(file), or V(step) (required by another change).
      type: str
      returned: when it is not a setting
    port:
      description: The netdev, PCI address or RDMA device of the port, if the subject is not the port.
      type: str
      returned: when the subject is not the port
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    ports:
      description: The PFs in the shape of O(ports). Attributes that the driver does not have are null.
      type: list
      elements: dict
      sample:
        - pci: "0000:0b:00.0"
          netdev: enp11s0f0np0
          count: 1
          attributes:
            - index: 0
              mac: "02:52:00:0b:00:00"
              node_guid: null
              port_guid: null
              vlan: 0
              qos: 0
              spoofchk: false
              trust: true
              link_state: auto
              min_tx_rate: 0
              max_tx_rate: 0
    pfs:
      description:
        - More facts about the same PFs, in the same order.
        - C(total) is the maximum number of VFs of the PF, null without SR-IOV.
        - C(netdev) and C(rdma_device) of a VF are null if they are missing, or in another network namespace.
      type: list
      elements: dict
      sample:
        - pci: "0000:0b:00.0"
          netdev: enp11s0f0np0
          driver: mlx5_core
          rdma_device: mlx5_0
          link_layer: ethernet
          total: 16
          autoprobe: true
          switchdev: false
          vfs:
            - index: 0
              pci: "0000:0b:00.1"
              driver: mlx5_core
              netdev: enp11s0f0v0
              netdev_address: "02:52:00:0b:00:00"
              rdma_device: mlx5_8
reboot_required:
  description: Whether a reverted setting stays live until the next boot.
  returned: success
  type: bool
  sample: false
reboot_reasons:
  description: The settings that stay live until the next boot. Every run with O(state=absent) reports them until then.
  returned: success
  type: list
  elements: str
  sample: ["0000:0b:00.0: its VFs stay until the next boot: enp11s0f0np0 carries this connection"]
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
    layer = boot_program.layer("sriov_vfs")
    module = AnsibleModule(layer.spec, required_if=layer.required_if, supports_check_mode=True)
    module_runner.run(module, layer.build)


if __name__ == "__main__":
    main()
