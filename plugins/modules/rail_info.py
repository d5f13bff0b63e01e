#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_info
short_description: Read the NICs, interfaces, RDMA devices, GPUs, VFs and tools of a node
version_added: 0.1.0
description:
  - Reads the state of a node in one call. Changes nothing and loads no kernel module.
  - Sources are sysfs, rtnetlink, NETLINK_RDMA, ethtool's ioctl and, if installed, libibverbs. For V(nvlink), the module
    parses the output of C(nvidia-smi -q), and otherwise no output of programs.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node.reads
options:
  subset:
    description:
      - Which parts to read. V(all) is every part from V(system) to V(ip); the others are read only if they are named.
      - V(duplicates) sends ARP probes, which receivers do not cache, and takes a second. It and V(lldp) skip the
        management path.
    type: list
    elements: str
    choices:
      - all
      - system
      - nics
      - rdma
      - gids
      - gpus
      - vfs
      - ip
      - sysctls
      - counters
      - lldp
      - duplicates
      - nvlink
      - pci
      - kernel
      - limits
      - gpudirect
      - qos
      - driver
      - infiniband
      - agent
      - health
    default: [all]
  listen:
    description:
      - Seconds for which V(lldp) listens on ports whose neighbour neither lldpd nor systemd-networkd knows; less if all
        neighbours have sent LLDP. A switch sends LLDP every 30 seconds by default.
    type: float
    default: 0
    version_added: 0.2.0
  netdevs:
    description:
      - Only the ports of these netdevs, and of O(pci), with the interfaces above them. For an interface such as a bond,
        the ports below it. RV(system) and RV(gpus) are not filtered.
    type: list
    elements: str
  pci:
    description: Only the ports of these PCI functions, with domain, and of O(netdevs).
    type: list
    elements: str
notes:
  - Without root some values are missing, such as the holders of a VF.
seealso:
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rdma_link
"""

EXAMPLES = r"""
- name: Read everything about the node
  railyard.fabric.rail_info:
  register: node

- name: Read which tools are installed
  railyard.fabric.rail_info:
    subset: [system]
  register: node

- name: Read the GID table of one rail port
  railyard.fabric.rail_info:
    subset: [gids]
    netdevs: [enp11s0f0np0]
  register: node
"""

RETURN = r"""
system:
  description:
    - The node. C(rdma_mode) is V(shared), V(exclusive), or null while the RDMA subsystem is not loaded.
    - C(lockdown) is the kernel's lockdown mode (as with Secure Boot), or null.
    - C(boot_service) is systemd's state of C(railyard-boot.service), or null without persistent options.
    - C(product) is the product name in the DMI table, or null without one.
  returned: when O(subset) has V(system)
  type: dict
  sample:
    kernel: 6.1.0-44-amd64
    architecture: x86_64
    distribution: debian
    distribution_version: '12'
    python: 3.11.2
    boot_id: 0d3dd8dc-34c1-4d36-b5a5-4f1c3f3a8a5e
    rdma_mode: shared
    lockdown: null
    boot_service: active
    product: PowerEdge XE9680
management_path:
  description:
    - The management path. C(connection) is the netdev of this SSH session, or null.
    - C(netdevs) and C(functions) are those that must not be changed, each with the reason.
    - C(addresses) are the node's address of this SSH session, and those of the interfaces with the default route.
  returned: when O(subset) has V(system)
  type: dict
  sample:
    connection: eth0
    default_route: [eth0]
    netdevs: {eth0: carries this connection}
    functions: {'0000:00:02.0': eth0 carries this connection}
tools:
  description: The installed tools with their paths.
  returned: when O(subset) has V(system)
  type: dict
  sample: {perftest: /usr/bin/ib_write_bw, pyroute2: /usr/lib/python3/dist-packages/pyroute2}
nics:
  description:
    - The network PFs in the order of their PCI addresses, one row per netdev. A function without a netdev in this
      network namespace has one row with C(netdev) null.
    - Values that the kernel or the driver does not report are null. C(speed) is in Mb/s, C(mtu) in bytes.
    - C(pcie) has the link's C(speed) and C(max_speed) in GT/s, C(width) and C(max_width) in lanes.
    - C(gpus) are the nearest GPUs by their index in RV(gpus), C(gpu_proximity) is their proximity in the terms of
      C(nvidia-smi topo).
    - C(management_path) is the reason why the card must not be changed, or null.
    - C(slot) is the label of the chassis' slot. C(serial), C(part_number) and C(product_name) come from the card's
      Vital Product Data, which only root may read. They are null if the card does not have them, or does not answer in
      a second.
    - C(permanent_mac) is the hardware address from the port's manufacturer, C(mac) the current one.
    - C(holders) names the holders of a netdev in another network namespace, such as a pod that has the whole device.
      C(rdma_holders) names those of its RDMA device.
    - C(master) is the bond, bridge, team, VRF or Open vSwitch that the netdev is part of, or null.
  returned: when O(subset) has V(nics)
  type: list
  elements: dict
  sample:
    - netdev: enp11s0f0np0
      master: null
      pci: '0000:0b:00.0'
      pci_path: ['pci0000:00', '0000:00:01.1', '0000:0b:00.0']
      vendor: 15b3
      device: '1017'
      driver: mlx5_core
      slot: '4'
      serial: MT2321X01234
      part_number: MCX75310AAS-NEAT
      product_name: NVIDIA ConnectX-7 HHHL adapter Card
      firmware: 16.35.2000 (MT_0000000008)
      altnames: []
      mac: 0c:42:a1:00:00:01
      permanent_mac: 0c:42:a1:00:00:01
      link_layer: ethernet
      up: true
      operstate: up
      carrier: true
      mtu: 4200
      max_mtu: 9978
      speed: 100000
      numa_node: 0
      pcie: {speed: 8.0, max_speed: 8.0, width: 16, max_width: 16}
      rdma: [mlx5_gpu01]
      gpus: [0]
      gpu_proximity: PIX
      vfs: 0
      max_vfs: 16
      management_path: null
      holders: []
      rdma_holders: []
dma_functions:
  description:
    - PCI functions of NICs that only access memory (C(kind) V(data-direct), the Data Direct function of a ConnectX-8).
      RV(nics) does not contain them, because they have neither a netdev nor an RDMA device.
    - C(nics) are the PFs of the same NIC, which have the same UUID in their Vital Product Data. C(gpus) are the nearest
      GPUs by their index in RV(gpus).
  returned: when O(subset) has V(nics)
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - pci: '0009:03:00.0'
      kind: data-direct
      pci_path: ['pci0009:00', '0009:00:00.0', '0009:03:00.0']
      numa_node: 0
      nics: ['0000:03:00.0']
      gpus: [0]
      gpu_proximity: PIX
interfaces:
  description:
    - The bonds, VLANs, bridges, teams and VRFs above the network PFs, each after those below it. C(kind) is V(bond),
      V(vlan), V(bridge), V(team) or V(vrf).
    - C(lower) are the netdevs that it is directly built on, C(functions) the PCI functions of all ports below it.
    - C(rdma) are the RDMA devices of these functions, and soft RDMA devices of it and of the netdevs below it.
    - C(vlan) is the ID of a VLAN. C(bond) is null for other kinds.
    - C(managed) is true for a bond or VLAN that M(railyard.fabric.rail_ports) has made.
    - In C(bond), values that the mode does not use are null. The unit of C(miimon) is milliseconds. C(active) is the
      active member of the mode V(active-backup). C(aggregator) and C(partner_mac) belong to the active aggregator of
      V(802.3ad); C(partner_mac) is null if no partner answers.
    - C(state) of a member is V(active) or V(backup), C(link) is V(up), V(going down), V(down) or V(going back). Only
      root may read its C(partner_mac).
  returned: when O(subset) has V(nics)
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - netdev: bond0
      kind: bond
      lower: [ens2f0np0, ens2f1np1]
      functions: ['0000:29:00.0', '0000:29:00.1']
      master: null
      vlan: null
      mac: 0c:42:a1:00:00:02
      mtu: 9000
      up: true
      operstate: up
      carrier: true
      rdma: [mlx5_bond_0]
      management_path: null
      managed: false
      bond:
        mode: 802.3ad
        hash_policy: layer3+4
        lacp_rate: fast
        miimon: 100
        min_links: 0
        primary: null
        active: null
        aggregator: 1
        partner_mac: 44:38:39:ff:00:01
        members:
          - netdev: ens2f0np0
            state: active
            link: up
            aggregator: 1
            partner_mac: 44:38:39:ff:00:01
            permanent_mac: 0c:42:a1:00:00:02
          - netdev: ens2f1np1
            state: active
            link: up
            aggregator: 1
            partner_mac: 44:38:39:ff:00:01
            permanent_mac: 0c:42:a1:00:00:03
rdma:
  description:
    - One row per port of an RDMA device in this network namespace. C(type) is V(hardware), V(rxe) or V(siw).
    - C(rate) is in Gb/s, C(active_mtu) and C(max_mtu) in bytes, null without libibverbs.
    - C(pci) of a soft link is the PCI address of its netdev.
    - A device can have several ports, each with its own C(netdev) or without one. Ports that carry nothing are V(DOWN).
    - Only rows of sub-devices have C(parent). A sub-device of type SMI, as on InfiniBand with planes (XDR), has a
      port for each plane of its parent, and only management datagrams use it. C(rdma) of RV(nics) does not contain it.
  returned: when O(subset) has V(rdma)
  type: list
  elements: dict
  sample:
    - device: mlx5_gpu01
      port: 1
      type: hardware
      protocol: roce
      link_layer: ethernet
      state: ACTIVE
      physical_state: LINK_UP
      rate: 100.0
      active_mtu: 4096
      max_mtu: 4096
      netdev: enp11s0f0np0
      pci: '0000:0b:00.0'
      lid: null
      node_guid: 0c42:a103:0000:0001
      sys_image_guid: 0c42:a103:0000:0001
      firmware: 16.35.2000
gids:
  description:
    - The entries of the GID tables. C(type) is V(IB), V(RoCE v1) or V(RoCE v2); C(address) is the IP address of a
      RoCE GID.
  returned: when O(subset) has V(gids)
  type: list
  elements: dict
  sample:
    - device: mlx5_gpu01
      port: 1
      index: 3
      gid: 0000:0000:0000:0000:0000:ffff:ac10:0bc9
      type: RoCE v2
      netdev: enp11s0f0np0
      address: 172.16.11.201
gpus:
  description:
    - The GPUs in the order of their PCI addresses. C(nics) has the proximity of each NIC, by PCI address. It is V(PIX)
      (same PCIe switch), V(PXB) (several switches), V(PHB) (same host bridge), V(NODE) (same NUMA node) or V(SYS).
  returned: when O(subset) has V(gpus)
  type: list
  elements: dict
  sample:
    - index: 0
      pci: '0000:18:00.0'
      maker: nvidia
      device: '2330'
      driver: nvidia
      numa_node: 0
      pcie: {speed: 32.0, max_speed: 32.0, width: 16, max_width: 16}
      nics: {'0000:0b:00.0': PIX}
vfs:
  description:
    - The VFs in the order of PF and index. C(holders) lists the holders of each. C(netdev) is null if the VF does not
      have one in this network namespace. C(attributes) is null if the kernel does not report them.
  returned: when O(subset) has V(vfs)
  type: list
  elements: dict
  sample:
    - pf: '0000:0b:00.0'
      pf_netdev: enp11s0f0np0
      index: 0
      pci: '0000:0b:00.2'
      driver: mlx5_core
      netdev: enp11s0f0v0
      rdma: [mlx5_8]
      attributes:
        mac: 02:00:00:00:00:01
        vlan: 0
        qos: 0
        spoofchk: false
        trust: true
        link_state: auto
        min_tx_rate: 0
        max_tx_rate: 0
        node_guid: null
        port_guid: null
      holders: []
ip:
  description:
    - The IP configuration of the NICs' netdevs and of RV(interfaces). C(addresses) does not have link-local addresses.
    - C(routes) does not have routes that the kernel made; C(table) is null for the main table. C(rules) are the policy
      rules that select only by the port's address or netdev.
    - C(dynamic) is true for an address with a lifetime or from a router advertisement, and for a route from a router
      advertisement or DHCP.
  returned: when O(subset) has V(ip)
  type: dict
  version_added: 0.2.0
  sample:
    addresses: [{netdev: enp11s0f0np0, address: 172.16.11.201/24, secondary: false, dynamic: false}]
    routes: [{netdev: enp11s0f0np0, to: 0.0.0.0/0, via: 172.16.11.254, table: 101, dynamic: false}]
    rules: [{from: 172.16.11.201/32, oif: null, table: 101, priority: 10001}]
sysctls:
  description: The effective IPv4 settings of each netdev and of each of RV(interfaces), including those of C(all).
  returned: when O(subset) has V(sysctls)
  type: dict
  version_added: 0.2.0
  sample: {enp11s0f0np0: {arp_announce: 2, arp_filter: 0, arp_ignore: 1, rp_filter: 2}}
counters:
  description:
    - Counters of errors and congestion by netdev and by RDMA device, without counters of traffic.
    - Ports of a device with several ports have an entry each, as C(mlx5_0:3).
    - C(rx_pfc_pause) and C(tx_pfc_pause) are the pause frames of all priorities, if the driver has PFC.
  returned: when O(subset) has V(counters)
  type: dict
  version_added: 0.2.0
  sample:
    netdevs: {enp11s0f0np0: {rx_crc_errors: 0, rx_errors: 0}}
    devices: {mlx5_gpu01: {out_of_sequence: 0, np_cnp_sent: 12}}
lldp:
  description:
    - The LLDP neighbours of ports with a carrier, one row per neighbour. C(source) is V(lldpd), V(systemd-networkd) or
      V(heard) (a received frame).
  returned: when O(subset) has V(lldp)
  type: list
  elements: dict
  version_added: 0.2.0
  sample:
    - netdev: enp11s0f0np0
      chassis: 00:1b:54:c2:00:01
      system: su1-gpu01
      port: swp1
      port_description: ai-10-1-16-1
      source: lldpd
duplicates:
  description:
    - Addresses of this node for which another host answers on the same link, with the hosts' MAC addresses (C(macs)).
    - C(own) has the MAC addresses of other ports of this node that answer for the address (ARP flux), if there are any.
  returned: when O(subset) has V(duplicates)
  type: list
  elements: dict
  version_added: 0.2.0
  sample: [{netdev: enp11s0f0np0, address: 172.16.11.201, macs: ['02:00:00:00:00:07']}]
pci:
  description: The C(gathered) of M(railyard.fabric.pci_tuning) for the PFs.
  returned: when O(subset) has V(pci)
  type: dict
  version_added: 0.2.0
  sample:
    acs: null
    ports:
      - {pci: '0000:0b:00.0', gpus: [0], max_read_request: 4096, max_payload: 256, near: [], iommu: identity}
    bridges: []
    findings: []
    rdma_topo: null
kernel:
  description:
    - The C(gathered) of M(railyard.fabric.kernel_arguments), with arguments of the running kernel and of the next boot.
  returned: when O(subset) has V(kernel)
  type: dict
  version_added: 0.2.0
  sample: {loader: grub, live: [quiet, iommu=pt], next_boot: [quiet, iommu=pt], iommu: {groups: 64, translated: 0}}
limits:
  description: The C(gathered) of M(railyard.fabric.rail_limits) for the PFs' netdevs and RV(interfaces).
  returned: when O(subset) has V(limits)
  type: dict
  version_added: 0.2.0
  sample:
    memlock: [{service: containerd, pid: 812, configured: unlimited, live: unlimited, reload: false}]
    neighbours: {gc_thresh1: 128, gc_thresh2: 512, gc_thresh3: 1024}
    rp_filter: {enp11s0f0np0: 2}
driver:
  description: The C(gathered) of M(railyard.fabric.nic_driver), with the installed and the running NIC driver.
  returned: when O(subset) has V(driver)
  type: dict
  version_added: 0.2.0
  sample: {kind: doca, version: 2.9.3-0.2.2}
infiniband:
  description: The C(gathered) of M(railyard.fabric.ib_ports), with IPoIB mode, partitions and subnet manager by port.
  returned: when O(subset) has V(infiniband)
  type: dict
  version_added: 0.2.0
  sample: {ports: []}
nvlink:
  description:
    - The NVLink domain of each GPU. GPUs with the same C(cluster) and C(clique) can access the memory of one another.
    - C(state) describes the registration; C(status) is valid when it is V(Completed). C(nvidia-smi -q) prints the same
      values. A value is null if it prints C(N/A).
    - C(error) is the reason why they cannot be read, or null.
  returned: when O(subset) has V(nvlink)
  type: dict
  version_added: 0.2.0
  sample:
    error: null
    gpus:
      - pci: '0009:06:00.0'
        state: Completed
        status: Success
        clique: '4026'
        cluster: 9c6f5af3-53bf-49b5-a436-b66766c413c3
agent:
  description:
    - The state of the rail agent. Null if it is not installed.
    - C(error) is the reason why it does not answer, or null. An agent that answers gives the other values.
    - C(rails) has a row per rail, with its C(reason) if it is not C(healthy). C(degraded) is empty for a whole rail.
    - C(resources) has the number of C(devices) of each resource, and how many of them pods hold (C(held)).
  returned: when O(subset) has V(agent)
  type: dict
  version_added: 0.2.0
  sample:
    error: null
    version: 0.2.0
    rails: [{rail: gpu01, healthy: false, cordoned: true, reason: 'cordoned: new cable', degraded: ''}]
    resources: [{resource: railyard.io/rails, devices: 8, held: 3}]
    problems: []
health:
  description:
    - The state of the rails from the file of the health service. Null if it is not installed.
    - C(error) is the reason why the state cannot be used, such as its age, or null. The C(result) is then V(unknown).
    - C(age) is the age of the state in seconds, by the clock of the node.
    - C(rails) has a row per rail. C(state) is V(pass), V(fail) or V(unknown).
  returned: when O(subset) has V(health)
  type: dict
  version_added: 0.2.0
  sample:
    result: fail
    node: hgx-1
    fabric: ai
    age: 2.4
    rails:
      - rail: gpu01
        state: fail
        degraded: false
        since: 1795000000.0
        reason: 'RV402 rail1: expected carrier, found no carrier'
        remedy: look at the cable and at port Ethernet1 of leaf1
    problems: []
    error: null
gpudirect:
  description: The C(gathered) of M(railyard.fabric.gpudirect), with the path of GPU memory to the NIC and its reason.
  returned: when O(subset) has V(gpudirect)
  type: dict
  version_added: 0.2.0
  sample: {path: dmabuf, gdrcopy: true}
qos:
  description: The C(gathered) of M(railyard.fabric.roce_qos) for the Ethernet PFs.
  returned: when O(subset) has V(qos)
  type: dict
  version_added: 0.2.0
  sample: {ports: [], others: []}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import node_info


def look(options: t.Mapping[str, t.Any], system: System) -> dict[str, t.Any]:
    """Return the requested parts."""
    found = node_info.look(options, system)
    if "agent" in options["subset"]:
        from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import running_agent

        found["agent"] = running_agent.look(system)
    if "health" in options["subset"]:
        from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_check

        found["health"] = health_check.look(system)
    return found


def main() -> None:
    choices = ["all", "system", "nics", "rdma", "gids", "gpus", "vfs", "ip"]
    choices += ["sysctls", "counters", "lldp", "duplicates", "nvlink", "pci", "kernel", "limits", "gpudirect", "qos"]
    choices += ["driver", "infiniband", "agent", "health"]
    spec = {
        "subset": {"type": "list", "elements": "str", "choices": choices, "default": ["all"]},
        "listen": {"type": "float", "default": 0},
        "netdevs": {"type": "list", "elements": "str"},
        "pci": {"type": "list", "elements": "str"},
    }
    module_runner.read(AnsibleModule(argument_spec=spec, supports_check_mode=True), look)


if __name__ == "__main__":
    main()
