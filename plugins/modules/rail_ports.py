#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_ports
short_description: Configure names, MTU, addresses, routes, rules and sysctls of a node's rail ports
version_added: 0.1.0
description:
  - Configures IP on all rail ports of a node in one call, live, and in the files that the distribution reads at boot.
  - A rail port can have its own routing table, with the route of its subnet and, if it has a gateway, a default route.
    One rule sends packets from the port's address to that table, another packets of sockets that are bound to its
    interface. IPv6 needs two more rules and the route of link-local addresses. More routes can be added to that table
    or to the main table. The main table otherwise gets only the subnet route of each address, never a default route.
  - A rail port with a PCI address keeps its netdev name over reboots by a systemd C(.link) file. If the name differs
    now, the interface is renamed at once if it can go down for a moment without harm, else at the next boot. It cannot
    if it has VFs, an interface or tunnel on it, RDMA connections, or settings that neither the plan nor an earlier run
    set.
  - Router advertisements on a rail cannot add a default route to the main table, or addresses that are not planned to
    the port (C(accept_ra) and C(autoconf) are 0).
  - The module waits until the kernel has checked that no other host on the rail has an IPv6 address. A duplicate is an
    error, and the next run tries again.
  - The interfaces and PCI functions that carry the connection or the default route are refused, as is a subnet or
    route of a rail that would cut off the connection. Nothing is changed then. The module finds these interfaces by
    the kernel's routes, rules and tunnels.
  - If another program's file for systemd-networkd or udev configures a port, the file of this module is used instead
    of it, and repeats its settings. Settings that a rail port never has, such as a default gateway in the main table,
    are refused, as are profiles of NetworkManager with addresses or routes.
  - A port can be a bond, or a VLAN on a bond or a function. The module makes, changes and removes these interfaces. A
    port that is a member of a bond, bridge or other interface gets no address, and is refused.
  - Addresses, rules and routes that an earlier run set and that are not planned now are removed. Settings of other
    programs are named in a warning and not changed, except rules with a planned priority and routes in a rail's table
    to a planned destination. A route of another interface in the main table to a planned destination is an error.
options:
  ports:
    description:
      - All rail ports of the node. What an earlier run configured for a rail that is not listed is removed.
      - Required with O(state=present).
      - With O(state=absent) and O(state=gathered), an empty list means all ports that the module has configured.
    type: list
    elements: dict
    default: []
    suboptions:
      rail:
        description: The rail's name. It is part of file names.
        type: str
        required: true
      pci:
        description:
          - PCI address of the port, such as V(0000:0b:00.0). It takes precedence over the name.
          - This or O(ports[].netdev) is required.
        type: str
      netdev:
        description: Name of the interface; with O(ports[].pci), the name that it gets.
        type: str
      mtu:
        description: MTU in bytes. Not changed if not given.
        type: int
      address:
        description:
          - The port's IPv4 address with its prefix length. Without it the port gets none.
          - In a subnet of two addresses (V(/31)), both can be used.
          - It may be an IPv6 address where O(ports[].address6) is not given.
        type: str
      gateway:
        description: Next hop of the default route in O(ports[].table). Without it the table gets none.
        type: str
      address6:
        version_added: 0.2.0
        description: The port's IPv6 address with its prefix length. Without it the port gets none.
        type: str
      gateway6:
        version_added: 0.2.0
        description: As O(ports[].gateway), for IPv6. It may be a link-local address.
        type: str
      table:
        description: Number of the rail's own routing table. Not V(0), V(253), V(254) or V(255).
        type: int
      rule_priority:
        description: Priority of the rules that lead to O(ports[].table), from 1 to 32765.
        type: int
      routes:
        version_added: 0.2.0
        description: Routes in addition to those of address and gateway. The port needs an address of their family.
        type: list
        elements: dict
        default: []
        suboptions:
          to:
            description: The destination with its prefix length. In the main table never V(0.0.0.0/0) or V(::/0).
            type: str
            required: true
          via:
            description: Next hop in the port's subnet, or an IPv6 link-local one. Without it, on link.
            type: str
          table:
            description: The table, O(ports[].table) or, if not given, the main one.
            type: int
      sysctl:
        description:
          - Settings of the interface under C(net.ipv4.conf), such as C(arp_ignore), with whole numbers as values.
          - For C(arp_announce), C(arp_filter), C(arp_ignore) and C(rp_filter) the kernel uses the larger of the
            interface's value and that of C(all). An C(rp_filter) of 0 that this would turn into strict filtering is
            refused.
        type: dict
        default: {}
      lower:
        version_added: 0.2.0
        description:
          - The functions below the interface, if it is a bond or a VLAN. O(ports[].netdev) is then the name of that
            interface, and O(ports[].pci) is not given. Only the interface gets addresses, rules and sysctls.
          - A bond or VLAN of that name that the module did not make is used if it matches these options, and refused
            otherwise.
        type: dict
        suboptions:
          functions:
            description: The members of the bond, or the parent of the VLAN.
            type: list
            elements: dict
            required: true
            suboptions:
              pci:
                description: PCI address. This or O(ports[].lower.functions[].netdev) is required.
                type: str
              netdev:
                description: Name of its interface; with a PCI address, the name that it gets.
                type: str
          bond:
            description:
              - The bond. Its hardware address is the permanent one of the first function. The carrier of its members is
                checked every 100 ms.
              - Ports with VLANs on one bond describe it the same.
            type: dict
            suboptions:
              name:
                description: Name of the bond.
                type: str
                required: true
              mode:
                description:
                  - The mode. The module changes it by setting the bond down, and refuses that while pods or other
                    programs use the bond.
                type: str
                choices: [802.3ad, active-backup, balance-xor]
                default: 802.3ad
              hash_policy:
                description:
                  - What selects the member for a packet, V(layer2), V(layer2+3), V(layer3+4), V(encap2+3), V(encap3+4)
                    or V(vlan+srcmac). Not changed if not given.
                  - Only with V(802.3ad) and V(balance-xor).
                type: str
              lacp_rate:
                description: How often the partner is asked to send LACPDUs, V(slow) or V(fast). Only with V(802.3ad).
                type: str
              primary:
                description: Netdev or PCI address of the member that is used if it has a carrier. Only with
                  V(active-backup).
                type: str
              min_links:
                description: Members with a carrier that the bond needs for a carrier of its own.
                type: int
          vlan:
            description: The VLAN id, if the interface is a VLAN, from 1 to 4094.
            type: int
          parent:
            description: Name of the interface below the VLAN, the bond or the interface of the only function.
            type: str
  backend:
    description:
      - What makes addresses, routes and rules persistent.
      - V(auto) is V(netplan) if it is installed and has files (V(networkmanager) if those select it), else
        V(networkmanager) if it runs, else V(networkd) if it runs. If none of them runs, it is an error.
      - With V(none), only names, MTU by PCI address, and sysctls are persistent.
    type: str
    choices: [auto, networkd, netplan, networkmanager, none]
    default: auto
  persist:
    description:
      - Whether the configuration is persistent.
      - With V(false) only the live state is set; files of earlier runs are not changed.
      - Ignored with O(state=absent), which always removes the files.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait for the carrier of links that some drivers restart for a new MTU, and for the back-end to load
        its files.
    type: int
    default: 30
  state:
    description:
      - V(present) configures O(ports).
      - V(absent) removes the addresses, rules, routes and files of O(ports), and bonds and VLANs that the module made,
        unless pods or other programs use them. Name, MTU and sysctls stay until the next boot.
      - With V(absent), no file is changed while another port that stays has no interface and no planned netdev name; a
        later run changes them. If the module has files but no readable record of earlier runs, O(ports) is refused,
        because the files of all ports would be removed.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
notes:
  - Requires root. The node needs only Python's standard library.
  - The module records what it has set in C(/var/lib/railyard/rail_ports.json), so that a later run removes exactly
    that.
  - systemd-networkd reloads its files, which affects only links whose files changed. C(netplan apply) is never run.
  - NetworkManager removes IPv6 and its addresses from a port for a moment if the port's IPv6 configuration changed.
    Drain the node before.
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rdma_link
author:
  - Railyard contributors (@railyard)
"""

EXAMPLES = r"""
- name: Configure two rail ports, live and persistently
  railyard.fabric.rail_ports:
    ports:
      - rail: gpu01
        pci: "0000:0b:00.0"
        netdev: enp11s0f0np0
        mtu: 4200
        address: 172.16.11.201/24
        gateway: 172.16.11.254
        table: 101
        rule_priority: 10001
        sysctl: {arp_ignore: 1, arp_announce: 2, rp_filter: 2}
      - rail: gpu02
        pci: "0000:0c:00.0"
        netdev: enp12s0f0np0
        mtu: 4200
        address: 172.16.12.201/24
        gateway: 172.16.12.254
        table: 102
        rule_priority: 10002
        sysctl: {arp_ignore: 1, arp_announce: 2, rp_filter: 2}

- name: Configure a dual-stack link to the leaf, with routes to the other racks in the main table
  railyard.fabric.rail_ports:
    ports:
      - rail: gpu01
        netdev: enp11s0f0np0
        address: 10.0.11.0/31
        address6: fd00:11::/127
        routes:
          - {to: 10.0.0.0/16, via: 10.0.11.1}
          - {to: "fd00::/32", via: "fe80::1"}

- name: Configure a VLAN on a bond of the two ports of a card
  railyard.fabric.rail_ports:
    ports:
      - rail: stor1
        netdev: bond0.100
        mtu: 9000
        address: 10.241.0.1/16
        table: 109
        rule_priority: 10009
        lower:
          bond: {name: bond0, mode: 802.3ad, hash_policy: layer3+4, lacp_rate: fast}
          vlan: 100
          functions:
            - {pci: "0000:29:00.0", netdev: ens2f0np0}
            - {pci: "0000:29:00.1", netdev: ens2f1np1}

- name: Configure all ports of the plan with systemd-networkd
  railyard.fabric.rail_host:
    layers: [rail_ports]
  vars:
    rail_ports_backend: networkd

- name: Read the state of the configured ports
  railyard.fabric.rail_ports:
    state: gathered
  register: ports

- name: Remove the configuration of all ports
  railyard.fabric.rail_ports:
    state: absent
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode, in this order.
  returned: O(state) is not V(gathered)
  type: list
  elements: dict
  contains:
    subject:
      description: The netdev, the rule, the file or the back-end that is changed.
      type: str
      returned: always
      sample: enp11s0f0np0
    attribute:
      description: The changed attribute.
      type: str
      returned: always
      sample: mtu
    before:
      description: The value before the change; null if it did not exist.
      type: raw
      returned: always
      sample: 1500
    after:
      description: The value after the change; null if it is removed.
      type: raw
      returned: always
      sample: 4200
    kind:
      description: The kind of change, V(file), V(route), V(rule), or V(step) (required by another change).
      type: str
      returned: when it is not a setting
    port:
      description: The netdev, PCI address or RDMA device of the port, if the subject is not the port.
      type: str
      returned: when the subject is not the port
gathered:
  description: The state after, or in check mode the state now, in the shape of the options.
  returned: success
  type: dict
  contains:
    ports:
      description:
        - The ports in O(ports), or if it is empty, all ports that the module has configured.
        - A missing value is null. C(netdev) is the name that the interface has now, and C(lower) the interfaces below
          it, for ports with O(ports[].lower).
      type: list
      elements: dict
      returned: always
      sample:
        - rail: gpu01
          pci: "0000:0b:00.0"
          netdev: enp11s0f0np0
          mtu: 4200
          address: 172.16.11.201/24
          gateway: 172.16.11.254
          address6: null
          gateway6: null
          table: 101
          rule_priority: 10001
          routes: []
          sysctl: {arp_ignore: 1, arp_announce: 2, rp_filter: 2}
effective_sysctl:
  description:
    - The effective settings of each netdev. C(arp_announce), C(arp_filter), C(arp_ignore) and C(rp_filter) are the
      larger of the interface's value and that of C(all).
  returned: success
  type: dict
  sample:
    enp11s0f0np0: {arp_announce: 2, arp_ignore: 1, rp_filter: 2}
backend:
  description: The back-end that makes the configuration persistent.
  returned: O(state) is not V(gathered)
  type: str
  sample: networkd
reboot_required:
  description:
    - Whether an interface gets its name only at the next boot, or settings that O(state=absent) reverted end only then.
  returned: O(state) is not V(gathered)
  type: bool
  sample: false
held:
  description:
    - Ports whose interface is in another network namespace, such as a whole device that a pod has. The ports and their
      files are not changed. A port without O(ports[].pci) is not recognized.
  returned: O(state) is not V(gathered)
  type: list
  elements: dict
  sample:
    - rail: gpu01
      pci: "0000:0b:00.0"
      by: its netdev net1 is in network namespace cni-4f2a (pause pid 4711)
reboot_reasons:
  description: One line per interface that is renamed at the next boot, and one line about reverted settings.
  returned: O(state) is not V(gathered)
  type: list
  elements: str
  sample: ["gpu01: eth4 becomes enp11s0f0np0 at the next boot, not now: it has VFs"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
