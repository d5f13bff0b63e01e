#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_limits
short_description: Set locked memory, hugepages and neighbour tables, and keep other programs off the rail ports
version_added: 0.2.0
description:
  - Sets how much memory containers may lock, hugepages, and the sizes of the neighbour tables, live and persistently.
  - Keeps NetworkManager and cloud-init off the rail ports.
  - Reports, and does not change, a reverse path filter that is strict in effect, a clock that is not synchronized,
    and the processors' governors.
  - No service is restarted. The memlock limit of a running container runtime is raised in its process. Containers that
    start afterwards get the new limit; running containers keep theirs.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  ports:
    description: All rail ports of the node.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description: The port's PCI address, such as V(0000:0b:00.0). It takes precedence over O(ports[].netdev).
        type: str
      netdev:
        description: The port's netdev, or the name that it gets. This or O(ports[].pci) is required.
        type: str
  memlock:
    description: Whether the services in O(services) may lock unlimited memory.
    type: str
    choices: [leave, unlimited]
    default: leave
  services:
    description:
      - Container runtimes and the services that start them. Services that the node does not have are skipped.
      - If not given, containerd, crio, docker, kubelet, k3s, k3s-agent, rke2-server and rke2-agent.
    type: list
    elements: str
  hugepages:
    description:
      - The number of hugepages of each size. Not changed if not given; an empty list removes the persistent setting of
        an earlier run.
      - It is an error if less than a sixteenth of the node's memory, or less than 512 MiB, would remain.
      - If memory is too fragmented for all pages, the available ones stay, and RV(reboot_required) is true.
      - kubelet reports them to the cluster after its next start.
    type: list
    elements: dict
    suboptions:
      size_kb:
        description: Their size in kB, such as V(2048) or V(1048576).
        type: int
        required: true
      count:
        description: Number of pages.
        type: int
        required: true
  neighbours:
    description:
      - Sizes of the neighbour tables of IPv4 and IPv6, as in C(net.ipv4.neigh.default). Larger live values
        are not reduced.
    type: dict
    suboptions:
      gc_thresh1:
        description: Up to this number of entries, none is collected.
        type: int
      gc_thresh2:
        description: Above this number, entries are collected after five seconds.
        type: int
      gc_thresh3:
        description: The maximal number of entries.
        type: int
  network_manager:
    description: Whether NetworkManager, if installed, must not manage the rail ports.
    type: str
    choices: [leave, unmanaged]
    default: leave
  cloud_init:
    description:
      - Whether cloud-init, if installed, must not change the network configuration on disk. This includes the
        management network; the files that cloud-init wrote for it stay.
    type: str
    choices: [leave, disabled]
    default: leave
  state:
    description:
      - V(present) sets the given options.
      - V(absent) removes the files of all earlier runs, and needs no other option. What they set in the running kernel
        and in running services stays until the next boot, or until the service is restarted, because the former values
        are unknown; RV(reboot_reasons) lists it.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rail_ports
  - module: railyard.fabric.kernel_arguments
"""

EXAMPLES = r"""
- name: Set locked memory and hugepages, and the neighbour tables for large flat rails
  railyard.fabric.rail_limits:
    ports:
      - {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      - {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
    memlock: unlimited
    hugepages: [{size_kb: 2048, count: 1024}]
    neighbours: {gc_thresh1: 4096, gc_thresh2: 8192, gc_thresh3: 16384}

- name: Remove the settings of earlier runs
  railyard.fabric.rail_limits:
    state: absent

- name: Read the settings
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
        - The services that the node has. C(configured) is the limit at the next start, C(live) the current limit,
          C(pid) is null if the service does not run. C(drop_in) is whether systemd has read a drop-in of this module,
          C(reload) whether files of the service have changed since systemd read them.
      type: list
      elements: dict
      sample:
        - {service: containerd, pid: 812, configured: unlimited, live: unlimited, drop_in: true, reload: false}
    hugepages:
      description: The sizes that the kernel supports, each with the number of pages and of free pages.
      type: list
      elements: dict
      sample:
        - {size_kb: 2048, count: 1024, free: 1024}
    neighbours:
      description: The smaller value of IPv4 and IPv6.
      type: dict
      sample: {gc_thresh1: 4096, gc_thresh2: 8192, gc_thresh3: 16384}
    network_manager:
      description: V(unmanaged) if an earlier run configured NetworkManager not to manage the ports, else null.
      type: str
    cloud_init:
      description: Whether cloud-init configures the network, V(disabled) or V(enabled); null without cloud-init.
      type: str
    rp_filter:
      description: The effective value of each port, which is the larger of the port's and that of C(all).
      type: dict
      sample: {enp11s0f0np0: 2}
    clock_synchronized:
      description: Whether the kernel's clock is synchronized; null without C(timedatectl).
      type: bool
    governors:
      description: The number of processors by frequency governor.
      type: dict
      sample: {performance: 128}
reboot_required:
  description: Whether a reboot is needed for all hugepages, or to end settings that O(state=absent) reverted.
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is needed.
  returned: success
  type: list
  elements: str
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
