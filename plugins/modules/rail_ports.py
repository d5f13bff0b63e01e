#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_ports
short_description: Give a node's rail ports their names, MTU, addresses, routes, rules and sysctls
version_added: 0.1.0
description:
  - Sets all that IP needs on a node's rail ports in one call, live, and in the files that the distribution reads at
    boot.
  - A rail port may have a routing table of its own, with the route of its subnet and, where there is a gateway, a
    default route. One rule leads what comes from its address there, another what is bound to its interface; for IPv6
    there are two more, and the route of link-local addresses. Further routes may stand in that table or in the main
    one. The main table gets nothing else but the route that comes with each address, and never a default route.
  - A rail port that has a PCI address keeps its netdev name over reboots by a systemd C(.link) file. Where the name
    differs now, the interface is renamed if it can go down for a moment without harm, else at the next boot.
  - It also keeps router advertisements on a rail from giving the main table a default route, and the port addresses
    that are not planned (C(accept_ra) and C(autoconf) are 0).
  - An IPv6 address is waited for until the kernel has found out that no other host on the rail has it; one that
    another host has is an error, and is tried again by the next run.
  - The interface, and the PCI function, that carry the connection or the default route are refused, as is a rail's
    subnet or a route that would lead the connection astray. Nothing is changed then.
  - Addresses, rules and routes that an earlier run set and the new plan does not have are taken away; what others set
    is left as it is, but for rules with a planned priority and routes in a rail's table to a planned destination. A
    route of another interface in the main table to a planned destination is an error.
options:
  ports:
    description:
      - The rail ports of the node, all of them. What an earlier run set up for a rail that is not listed is taken away.
      - Needed with O(state=present).
      - With O(state=absent) and O(state=gathered) an empty list stands for all that the module has set up.
    type: list
    elements: dict
    default: []
    suboptions:
      rail:
        description: The rail's name. It becomes part of the names of files.
        type: str
        required: true
      pci:
        description:
          - PCI address of the port, such as V(0000:0b:00.0). It wins over the name.
          - At least one of this and O(ports[].netdev) is needed.
        type: str
      netdev:
        description: Name of the interface; with O(ports[].pci) the name that it shall have.
        type: str
      mtu:
        description: MTU in bytes. Left as it is where it is not given.
        type: int
      address:
        description:
          - The port's IPv4 address with its prefix length. Without it the port gets none.
          - Of a link with two addresses (V(/31)), either may be the port's.
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
        description: Routes beside those that come with address and gateway. The port needs an address of their family.
        type: list
        elements: dict
        default: []
        suboptions:
          to:
            description: The destination with its prefix length. In the main table never V(0.0.0.0/0) or V(::/0).
            type: str
            required: true
          via:
            description: Next hop in the port's subnet, or an IPv6 link-local one. Without it all of it is on link.
            type: str
          table:
            description: The table, which is O(ports[].table) or, where it is not given, the main one.
            type: int
      sysctl:
        description:
          - Settings of the interface under C(net.ipv4.conf), such as C(arp_ignore), with whole numbers as values.
          - Of C(arp_announce), C(arp_ignore) and C(rp_filter) the kernel takes the larger of the interface's value
            and that of C(all). An C(rp_filter) of 0 that this would turn into strict filtering is refused.
        type: dict
        default: {}
  backend:
    description:
      - What keeps addresses, routes and rules for the next boot.
      - V(auto) is V(netplan) where it is installed and has files (V(networkmanager) where those are for it), else
        V(networkmanager) where it runs, else V(networkd) where it runs; it is an error where none of them does.
      - With V(none) only names, MTU by PCI address, and sysctls are kept.
    type: str
    choices: [auto, networkd, netplan, networkmanager, none]
    default: auto
  persist:
    description:
      - Whether to keep everything for the next boot.
      - With V(false) only the live state is set; files of earlier runs are left as they are.
      - With O(state=absent) it does not count. Files go with what they would bring back.
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
      - V(present) sets up O(ports).
      - V(absent) takes away the addresses, rules, routes and files of O(ports). Name, MTU and sysctls stay as they are
        until the next boot.
      - With V(absent), while another port that stays has no interface here and no netdev name in the plan, no file is
        changed; a later run does it. Without a readable record of what is set up, giving O(ports) is refused where
        there are files of the module, since those of all ports would go.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
extends_documentation_fragment:
  - railyard.fabric.node
notes:
  - Needs root. Nothing but Python's standard library is needed on the node.
  - What the module has set is kept in C(/var/lib/railyard/rail_ports.json), so that a later run can take away just
    that.
  - systemd-networkd is asked to reload its files, which touches only the links whose files changed; C(netplan apply) is
    never run.
  - NetworkManager takes IPv6 off a port for a moment where the port's IPv6 plan changed, and its IPv6 addresses with
    it. Drain the node before.
seealso:
  - module: railyard.fabric.rail_info
  - module: railyard.fabric.sriov_vfs
  - module: railyard.fabric.rdma_link
author:
  - Railyard contributors (@railyard)
"""

EXAMPLES = r"""
- name: Set up two rail ports, now and for the next boot
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

- name: A link to the leaf in both families, with the way to the other racks in the main table
  railyard.fabric.rail_ports:
    ports:
      - rail: gpu01
        netdev: enp11s0f0np0
        address: 10.0.11.0/31
        address6: fd00:11::/127
        routes:
          - {to: 10.0.0.0/16, via: 10.0.11.1}
          - {to: "fd00::/32", via: "fe80::1"}

- name: Set up all ports of the plan with systemd-networkd
  railyard.fabric.rail_ports:
    ports: "{{ railyard_node.ports | railyard.fabric.port_options('rail_ports') }}"
    backend: networkd

- name: Read how the ports that were set up are now
  railyard.fabric.rail_ports:
    state: gathered
  register: now

- name: Take everything away again
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
      description: What of it.
      type: str
      returned: always
      sample: mtu
    before:
      description: Its value before; null where there was none.
      type: raw
      returned: always
      sample: 1500
    after:
      description: Its value after; null where it is taken away.
      type: raw
      returned: always
      sample: 4200
    kind:
      description: What the change is about, if not a setting - V(file), V(route), V(rule), or V(step) of another.
      type: str
      returned: when it is not a setting
    port:
      description: The netdev, PCI address or RDMA device of the port, if the subject is something else.
      type: str
      returned: when the subject is not the port
gathered:
  description: The state after, or in check mode the state now, in the shape of the options.
  returned: success
  type: dict
  contains:
    ports:
      description:
        - The ports asked for, or those that the module has set up where none were.
        - What a port lacks is null. C(netdev) is the name that the interface has now.
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
    - For each netdev, the settings that the kernel acts by. C(arp_announce), C(arp_ignore) and C(rp_filter) are the
      larger of the interface's value and that of C(all).
  returned: success
  type: dict
  sample:
    enp11s0f0np0: {arp_announce: 2, arp_ignore: 1, rp_filter: 2}
backend:
  description: What keeps the ports for the next boot, as chosen or found.
  returned: O(state) is not V(gathered)
  type: str
  sample: networkd
reboot_required:
  description:
    - Whether an interface gets its name only at the next boot, or what O(state=absent) leaves goes with it.
  returned: O(state) is not V(gathered)
  type: bool
  sample: false
held:
  description:
    - Ports whose interface is in another network namespace, as a whole device is while a pod has it. They are left
      alone, with what is kept for them. A port without O(ports[].pci) is not recognized.
  returned: O(state) is not V(gathered)
  type: list
  elements: dict
  sample:
    - rail: gpu01
      pci: "0000:0b:00.0"
      by: its netdev net1 is in network namespace cni-4f2a (pause pid 4711)
reboot_reasons:
  description: One line an interface that waits for the next boot, and one of those that were taken back.
  returned: O(state) is not V(gathered)
  type: list
  elements: str
  sample: ["gpu01: eth4 becomes enp11s0f0np0 at the next boot, not now: it has VFs"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts

ROUTE = {
    "to": {"type": "str", "required": True},
    "via": {"type": "str"},
    "table": {"type": "int"},
}
PORT = {
    "rail": {"type": "str", "required": True},
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "mtu": {"type": "int"},
    "address": {"type": "str"},
    "gateway": {"type": "str"},
    "address6": {"type": "str"},
    "gateway6": {"type": "str"},
    "table": {"type": "int"},
    "rule_priority": {"type": "int"},
    "routes": {"type": "list", "elements": "dict", "options": ROUTE, "default": []},
    "sysctl": {"type": "dict", "default": {}},
}


def main() -> None:
    spec = {
        "ports": {"type": "list", "elements": "dict", "options": PORT, "default": []},
        "backend": {
            "type": "str",
            "choices": ["auto", "networkd", "netplan", "networkmanager", "none"],
            "default": "auto",
        },
        "persist": {"type": "bool", "default": True},
        "timeout": {"type": "int", "default": 30},
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
    }
    module_runner.run(AnsibleModule(argument_spec=spec, supports_check_mode=True), RailPorts.from_options)


if __name__ == "__main__":
    main()
