#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_limits
short_description: Give the rails what the rest of a node would keep from them, and tell who interferes
version_added: 0.1.0
description:
  - Sets how much memory containers may lock, hugepages, and the sizes of the neighbour tables, live and for the next
    boot.
  - Keeps NetworkManager and cloud-init off the rail ports.
  - Tells, and does not change, a reverse path filter that is strict in effect, firewall rules that drop RoCE, a clock
    that is not synchronized, and the processors' governors.
  - No service is restarted. What a running container runtime may lock is raised in the running process, and containers
    that it starts from then on have it; those that run keep what they have.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  ports:
    description: The rail ports, all of a node's in one call.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description: The port's PCI address, in full (V(0000:0b:00.0)). It counts before O(ports[].netdev).
        type: str
      netdev:
        description: The port's netdev, or the name that it gets. Give it, or O(ports[].pci), or both.
        type: str
  memlock:
    description: Whether the services in O(services) may lock as much memory as they want.
    type: str
    choices: [leave, unlimited]
    default: leave
  services:
    description:
      - Container runtimes and what starts them. Those that the node does not have are passed over.
      - If not given, containerd, crio, docker, kubelet, k3s, k3s-agent, rke2-server and rke2-agent.
    type: list
    elements: str
  hugepages:
    description:
      - How many hugepages the node shall have of each size. Left alone if not given; an empty list ends what an earlier
        run kept for boot.
      - More than leave the node a sixteenth of its memory, and 512 MiB, are an error.
      - Where memory is too scattered for all, those that there are stay, and RV(reboot_required) is true.
      - kubelet tells the cluster of them when it is started next.
    type: list
    elements: dict
    suboptions:
      size_kb:
        description: Their size in kB, such as V(2048) or V(1048576).
        type: int
        required: true
      count:
        description: How many.
        type: int
        required: true
  neighbours:
    description:
      - Sizes of the neighbour tables of IPv4 and IPv6, as C(net.ipv4.neigh.default) has them. Larger ones are left
        live.
    type: dict
    suboptions:
      gc_thresh1:
        description: Up to so many entries, none is collected.
        type: int
      gc_thresh2:
        description: Beyond so many, entries are collected after five seconds.
        type: int
      gc_thresh3:
        description: No more than so many.
        type: int
  network_manager:
    description: Whether NetworkManager, where the node has it, shall leave the rail ports alone.
    type: str
    choices: [leave, unmanaged]
    default: leave
  cloud_init:
    description:
      - Whether cloud-init, where the node has it, shall leave the node's network as it is on disk. That is the
        management network too; the files that cloud-init wrote for it stay.
    type: str
    choices: [leave, disabled]
    default: leave
  state:
    description:
      - V(present) sets what is asked for.
      - V(absent) takes the files of all earlier runs away, and needs no other option. What they set in the running
        kernel and in running services stays until the next boot, or until the service is restarted, since nobody knows
        what was there before; RV(reboot_reasons) names it.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - The firewall is read with C(nft), which lists what C(iptables) wrote too, but for C(iptables-legacy). RoCE in a
    NIC's hardware passes the firewall by; rules matter to soft RDMA.
seealso:
  - module: railyard.fabric.rail_ports
  - module: railyard.fabric.kernel_arguments
"""

EXAMPLES = r"""
- name: Let containers lock memory, and make room for the neighbours of a large flat rail
  railyard.fabric.rail_limits:
    ports:
      - {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      - {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
    memlock: unlimited
    hugepages: [{size_kb: 2048, count: 1024}]
    neighbours: {gc_thresh1: 4096, gc_thresh2: 8192, gc_thresh3: 16384}

- name: Take back what earlier runs have set
  railyard.fabric.rail_limits:
    state: absent

- name: Read what there is
  railyard.fabric.rail_limits:
    ports:
      - netdev: enp11s0f0np0
    state: gathered
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: containerd (pid 812), attribute: Max locked memory, before: "8388608", after: unlimited}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    memlock:
      description:
        - The services that the node has. C(configured) is what each gets when it is started, C(live) what it has now,
          C(pid) null where it does not run. C(drop_in) says whether systemd has read a drop-in of this module,
          C(reload) whether files of the service have changed since systemd read them.
      type: list
      elements: dict
      sample:
        - {service: containerd, pid: 812, configured: unlimited, live: unlimited, drop_in: true, reload: false}
    hugepages:
      description: The sizes that the kernel has, how many pages there are and how many are free.
      type: list
      elements: dict
      sample:
        - {size_kb: 2048, count: 1024, free: 1024}
    neighbours:
      description: The smaller of IPv4's and IPv6's.
      type: dict
      sample: {gc_thresh1: 4096, gc_thresh2: 8192, gc_thresh3: 16384}
    network_manager:
      description: V(unmanaged) where an earlier run keeps NetworkManager off the ports, else null.
      type: str
    cloud_init:
      description: V(disabled) or V(enabled), as to the network; null where there is no cloud-init.
      type: str
    rp_filter:
      description: What is in effect on each port, the larger of its own and that of C(all).
      type: dict
      sample: {enp11s0f0np0: 2}
    firewall:
      description:
        - Rules that drop RoCE on a port, null where they cannot be read. C(handle) is null where it is the chain's
          policy. C(certain) is false where it depends on more than a rule says.
      type: list
      elements: dict
      sample:
        - {netdev: rail0, packet: ipv4, family: inet, table: filter, chain: input, handle: null, certain: true}
    clock_synchronized:
      description: Whether the kernel's clock is synchronized, null where C(timedatectl) is not there.
      type: bool
    governors:
      description: How many processors have which frequency governor.
      type: dict
      sample: {performance: 128}
reboot_required:
  description: Whether a reboot is needed for all hugepages, or to be rid of what stays live with O(state=absent).
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is needed.
  returned: success
  type: list
  elements: str
errors:
  description: All that is wrong, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import THRESHOLDS, RailLimits

PORT = {"pci": {"type": "str"}, "netdev": {"type": "str"}}
PAGES = {"size_kb": {"type": "int", "required": True}, "count": {"type": "int", "required": True}}


def main() -> None:
    spec = {
        "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
        "memlock": {"type": "str", "choices": ["leave", "unlimited"], "default": "leave"},
        "services": {"type": "list", "elements": "str"},
        "hugepages": {"type": "list", "elements": "dict", "options": PAGES},
        "neighbours": {"type": "dict", "options": {key: {"type": "int"} for key in THRESHOLDS}},
        "network_manager": {"type": "str", "choices": ["leave", "unmanaged"], "default": "leave"},
        "cloud_init": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
    }
    module_runner.run(AnsibleModule(spec, supports_check_mode=True), RailLimits.from_options)


if __name__ == "__main__":
    main()
