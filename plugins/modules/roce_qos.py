#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Configure QoS of RoCE on rail ports
version_added: 0.2.0
description:
  - Sets trust, DSCP to priority, PFC, ETS, receive buffers, ECN and CNPs, global pause, the traffic class of RDMA
    devices and the connection manager's defaults, on all ports in one call.
  - O(qos) is refused as a whole if its values contradict each other, or if a port does not support it.
  - Data Center Bridging is read and set over netlink, by the messages of C(dcb); neither C(dcb) nor C(mlnx_qos) is
    needed.
  - VFs do not have Data Center Bridging. The traffic class and the connection manager's defaults of VFs are set if
    their RDMA devices are in this network namespace.
  - Other programs that configure Data Center Bridging on the node are reported, and refused by default.
  - The netdev that carries the connection or the default route is refused.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  qos:
    description:
      - The QoS of every port that has none of its own, in the shape of the plan's C(railyard_fabric.qos). Omitted
        values are not changed.
      - Lists have eight values, by priority, traffic class or buffer.
      - Required with O(state=present).
    type: dict
    suboptions: &qos
      profile:
        description:
          - The transport profile of the plan, which O(qos.pfc) must agree with. V(roce-lossy) and V(multipath) do not
            have PFC.
        type: str
        choices: [roce-lossless, roce-lossy, multipath]
      priority:
        description: RoCE's priority, which the other values are compared with.
        type: int
      dscp:
        description: RoCE's DSCP, which the other values are compared with.
        type: int
      trust:
        description: What the NIC classifies packets by, the DSCP or the priority in the VLAN tag.
        type: str
        choices: [dscp, pcp]
      pfc:
        description: Whether each priority is paused (1) or dropped (0).
        type: list
        elements: int
      dscp2prio:
        description:
          - Pairs of a DSCP and its priority. Other DSCPs are not changed, but with V(pcp) in O(qos.trust) all pairs are
            removed.
        type: list
        elements: list
        default: []
      tclass:
        description: The traffic class of all packets of the RDMA devices, if the driver supports it.
        type: int
      rdma_cm_tos:
        description: The type of service of connections of the RDMA connection manager.
        type: int
      roce_mode:
        description: The RoCE version of such connections, in the kernel's spelling.
        type: str
        choices: [RoCE v2, IB/RoCE v1]
        default: RoCE v2
      ecn:
        description:
          - Congestion control of the NIC.
          - The kernel's own mlx5 driver only has the marks of CNPs; a warning reports that the priorities cannot be
            read.
        type: dict
        suboptions:
          enable:
            description: Whether ECN is enabled for the priorities.
            type: bool
            default: true
          np:
            description: The priorities whose marked packets the NIC answers with CNPs.
            type: list
            elements: int
            default: []
          rp:
            description: The priorities that the NIC slows down.
            type: list
            elements: int
            default: []
          cnp_dscp:
            description: The DSCP of CNPs.
            type: int
            default: 48
          cnp_priority:
            description: The priority of CNPs.
            type: int
            default: 6
      ets:
        description: How priorities share the bandwidth.
        type: dict
        suboptions:
          prio_tc:
            description: The traffic class of each priority.
            type: list
            elements: int
            required: true
          tc_bw:
            description: Percent of each traffic class, of the bandwidth that strict classes leave.
            type: list
            elements: int
            required: true
          tc_tsa:
            description: V(ets) or V(strict) for each traffic class.
            type: list
            elements: str
            required: true
      buffers:
        description: The receive buffers.
        type: dict
        suboptions:
          prio_buffer:
            description: The buffer of each priority.
            type: list
            elements: int
          buffer_size:
            description: Bytes of each buffer. The NIC rounds down to cells of at most 256 bytes.
            type: list
            elements: int
          cable_len:
            description: Meters of cable to the switch. This is the delay of PFC, which mlx5 interprets as meters.
            type: int
      global_pause:
        description: Whether 802.3x pauses all priorities at once.
        type: bool
      nccl:
        description: Environment variables that the plan derives; not used by this module.
        type: dict
  ports:
    description:
      - All rail ports of the node.
      - With O(state=gathered) and no ports, all Ethernet PFs with a netdev are read.
      - With O(persist=true) only the ports of the latest call are persistent.
    type: list
    elements: dict
    default: []
    suboptions:
      netdev:
        description: The port's netdev. Give it, or O(ports[].pci), or both.
        type: str
      pci:
        description: The port's PCI address, in full (V(0000:0b:00.0)).
        type: str
      range:
        description:
          - The VFs whose RDMA devices are marked, such as V(5-9), if others of this port have another owner.
          - If omitted, all VFs are.
        type: str
      qos:
        description: The QoS of this port, in place of O(qos) as a whole.
        type: dict
        suboptions: *qos
  dcbx:
    description:
      - V(host) disables the negotiation of the NIC's firmware with the switch, which may undo what is set.
      - With V(any), a port whose firmware negotiates is refused.
    type: str
    choices: [host, any]
    default: host
  others:
    description:
      - What to do if another program configures Data Center Bridging (lldpad, a profile of NetworkManager, the NIC
        Configuration Operator).
    type: str
    choices: [refuse, warn]
    default: refuse
  vfs:
    description: Whether the RDMA devices of the ports' VFs are marked too.
    type: bool
    default: true
  persist:
    description:
      - Whether the settings are persistent. They are written to C(/etc/railyard/boot.d/40-roce_qos.json) and applied by
        C(railyard-boot.service), and again by C(railyard-again@40-roce_qos.service) when a port's netdev or RDMA device
        returns.
    type: bool
    default: true
  state:
    description:
      - V(present) sets up O(ports).
      - V(absent) removes the persistent settings. O(ports) and O(qos) are not allowed with it. The settings of the
        ports stay until the next boot, because their former values are unknown.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rdma_link
notes:
  - Requires root.
  - On mlx5, a change of PFC takes the link down for a moment.
  - VFs that are created later get their marks at the next run.
"""

EXAMPLES = r"""
- name: Set the QoS of the plan
  railyard.fabric.roce_qos:
    ports:
      - {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      - {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
    qos: "{{ railyard_fabric.qos }}"

- name: Use another QoS on a port to storage
  railyard.fabric.roce_qos:
    ports:
      - {netdev: enp11s0f0np0}
      - netdev: stor1
        qos: {priority: 3, dscp: 26, trust: dscp, dscp2prio: [[26, 3], [48, 6]], pfc: [0, 0, 0, 0, 0, 0, 0, 0]}
    qos: "{{ railyard_fabric.qos }}"

- name: Set only PFC and trust
  railyard.fabric.roce_qos:
    ports:
      - {netdev: enp11s0f0np0}
    qos:
      priority: 3
      dscp: 26
      trust: dscp
      dscp2prio: [[26, 3], [48, 6]]
      pfc: [0, 0, 0, 1, 0, 0, 0, 0]
      global_pause: false

- name: Remove the persistent settings
  railyard.fabric.roce_qos:
    state: absent

- name: Read the QoS of all ports
  railyard.fabric.roce_qos:
    state: gathered
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: enp11s0f0np0, attribute: trust, before: pcp, after: dscp}
    - {subject: mlx5_gpu01, attribute: traffic_class, before: 0, after: 106}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    ports:
      description:
        - The ports. C(qos) has the values in the shape of O(qos), null if the driver does not report them; C(dscp2prio)
          has all entries, and C(ecn) has the C(interface) by which it was read.
        - C(dcbx) is V(host), V(firmware) or null.
      type: list
      elements: dict
      returned: always
      sample:
        - netdev: enp11s0f0np0
          pci: "0000:0b:00.0"
          driver: mlx5_core
          dcbx: host
          qos: {trust: dscp, dscp2prio: [[26, 3], [48, 6]], pfc: [0, 0, 0, 1, 0, 0, 0, 0], global_pause: false}
          rdma:
            - {device: mlx5_gpu01, port: 1, pci: "0000:0b:00.0", tclass: 106, rdma_cm_tos: 106, roce_mode: RoCE v2}
    others:
      description: Other programs that configure Data Center Bridging on the node, and how to stop them.
      type: list
      elements: dict
      returned: always
      sample: []
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
  sample: ["QoS of enp11s0f0np0, enp12s0f0np0 stays as set until the next boot"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program


def main() -> None:
    layer = boot_program.layer("roce_qos")
    module = AnsibleModule(layer.spec, required_if=layer.required_if, supports_check_mode=True)
    module_runner.run(module, layer.build)


if __name__ == "__main__":
    main()
