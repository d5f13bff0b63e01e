#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_netns_mode
short_description: Set the network namespace mode of the RDMA subsystem
version_added: 0.1.0
description:
  - In mode V(shared) all network namespaces see all RDMA devices; in mode V(exclusive) each device is in one network
    namespace.
  - The live mode is read and set over NETLINK_RDMA. The kernel switches only while no other network namespace exists.
    Otherwise the module names the holders of the others, and a reboot is required.
  - The mode of the next boot is set in C(/etc/modprobe.d/zz-railyard-rdma.conf), unless another file or the kernel
    command line already sets it. modprobe reads that file after files with other names. From a file with a later name
    and another value, and from any file whose value is not a boolean, this parameter is removed. A file below
    C(/usr/lib) or C(/run) is not edited but overridden by such a copy in C(/etc/modprobe.d).
  - The initial RAM filesystem of an installed kernel is rebuilt only if it contains C(ib_core) and is older than the
    files that set the mode.
  - The module never loads C(ib_core).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  mode:
    description:
      - The RDMA mode.
      - Required with O(state=present).
    type: str
    choices: [shared, exclusive]
  persist:
    description: Whether the mode is persistent.
    type: bool
    default: true
  switch:
    description:
      - Whether to switch the running kernel.
      - With V(try), a warning names the holders of other network namespaces, and RV(reboot_required) is true.
      - With V(require), other network namespaces are an error, and nothing is changed.
      - With V(never), only the mode of the next boot is set.
    type: str
    choices: [try, require, never]
    default: try
  state:
    description:
      - V(present) sets O(mode).
      - V(absent) removes the module's own file, rebuilds the initial RAM filesystems that contain C(ib_core), and
        switches the running kernel to the mode of the next boot, which is V(shared) unless another file or the kernel
        command line sets it. O(switch) applies to this too. O(mode) and O(persist) are ignored. A parameter that was
        removed from another file in C(/etc/modprobe.d) is not restored.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rdma_link
notes:
  - Requires root.
  - In the kernel, and in C(modprobe.d), the parameter C(netns_mode) of C(ib_core) is 1 for shared and 0 for exclusive.
"""

EXAMPLES = r"""
- name: Set mode exclusive
  railyard.fabric.rdma_netns_mode:
    mode: exclusive

- name: Set mode exclusive, and fail if a reboot would be needed
  railyard.fabric.rdma_netns_mode:
    mode: exclusive
    switch: require

- name: Set only the mode of the next boot
  railyard.fabric.rdma_netns_mode:
    mode: shared
    switch: never

- name: Revert the mode to the kernel's default
  railyard.fabric.rdma_netns_mode:
    state: absent

- name: Read the mode
  railyard.fabric.rdma_netns_mode:
    state: gathered
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: rdma, attribute: netns, before: shared, after: exclusive}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    mode:
      description: The live mode, or the mode of the next boot if the RDMA subsystem is not loaded.
      type: str
      returned: always
      sample: exclusive
    live:
      description: The running kernel's mode; null if the RDMA subsystem is not loaded.
      type: str
      returned: always
      sample: exclusive
    next_boot:
      description: The mode with which C(ib_core) is loaded next; null if it cannot be loaded because of a wrong value.
      type: str
      returned: always
      sample: exclusive
    next_boot_source:
      description: The origin of RV(gathered.next_boot), a file, C(/proc/cmdline), or C(the kernel's default).
      type: str
      returned: always
      sample: /etc/modprobe.d/zz-railyard-rdma.conf
    stale_initramfs:
      description: Images that contain C(ib_core) and are older than the files that set its mode.
      type: list
      elements: str
      returned: always
      sample: []
reboot_required:
  description: Whether a reboot is needed for the desired mode.
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is needed.
  returned: success
  type: list
  elements: str
  sample: [the rdma mode is shared and will be exclusive after a reboot]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
