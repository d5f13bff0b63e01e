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
  - The live mode is read and set over NETLINK_RDMA. The kernel switches only while no network namespace exists beside
    the first one; the module then names who holds the others, and a reboot is needed.
  - The mode of the next boot is laid down in C(/etc/modprobe.d/zz-railyard-rdma.conf), and only where neither another
    file nor the kernel command line gives that mode already. The file's name lets it count after other files. A file
    of a later name that says otherwise, and any file with a value that is no boolean, loses this one parameter; one
    below C(/usr/lib) or C(/run) is hidden by such a copy in C(/etc/modprobe.d) and not edited.
  - The initial RAM filesystem of each installed kernel is rebuilt only where C(ib_core) is in it and it is older than
    the files that set the mode.
  - C(ib_core) is never loaded for this.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  mode:
    description:
      - The rdma mode.
      - Required with O(state=present).
    type: str
    choices: [shared, exclusive]
  persist:
    description: Whether the next boot shall have the mode too.
    type: bool
    default: true
  switch:
    description:
      - Whether to switch the running kernel.
      - With V(try), what holds other network namespaces is told in a warning and RV(reboot_required) is true.
      - With V(require), it is an error, and nothing is changed.
      - With V(never), only the next boot is cared for.
    type: str
    choices: [try, require, never]
    default: try
  state:
    description:
      - V(present) sets O(mode).
      - V(absent) takes the module's own file away, builds the initial RAM filesystems that hold C(ib_core) anew, and
        switches the running kernel to what the next boot then has, which is V(shared) unless another file or the kernel
        command line says otherwise. O(switch) says what becomes of a mode that other network namespaces hold. O(mode)
        and O(persist) do not count. What was taken out of another's file in C(/etc/modprobe.d) is not put back.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
seealso:
  - module: railyard.fabric.rdma_link
notes:
  - Needs root.
  - In the kernel, and in C(modprobe.d), the parameter C(netns_mode) of C(ib_core) is 1 for shared and 0 for exclusive.
"""

EXAMPLES = r"""
- name: Give each network namespace RDMA devices of its own
  railyard.fabric.rdma_netns_mode:
    mode: exclusive

- name: The same, and fail where a reboot would be needed
  railyard.fabric.rdma_netns_mode:
    mode: exclusive
    switch: require

- name: Prepare the next boot alone
  railyard.fabric.rdma_netns_mode:
    mode: shared
    switch: never

- name: Take it back, and leave the mode to the kernel
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
      description: The live mode; that of the next boot where the RDMA subsystem is not loaded.
      type: str
      returned: always
      sample: exclusive
    live:
      description: The running kernel's mode; null where the RDMA subsystem is not loaded.
      type: str
      returned: always
      sample: exclusive
    next_boot:
      description: The mode that C(ib_core) is next loaded with; null where a wrong value will make its loading fail.
      type: str
      returned: always
      sample: exclusive
    next_boot_source:
      description: The file that decides RV(gathered.next_boot), C(/proc/cmdline), or C(the kernel's default).
      type: str
      returned: always
      sample: /etc/modprobe.d/zz-railyard-rdma.conf
    stale_initramfs:
      description: Images that hold C(ib_core) and are older than the files that set its mode.
      type: list
      elements: str
      returned: always
      sample: []
reboot_required:
  description: Whether the live mode is not the wanted one and a reboot will bring it.
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is needed.
  returned: success
  type: list
  elements: str
  sample: [the rdma mode is shared and will be exclusive after a reboot]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import RdmaMode
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode_removal import RdmaModeBack


def build(options: t.Mapping[str, t.Any], system: System) -> RdmaMode:
    return (
        RdmaModeBack(system, options["switch"])
        if options["state"] == "absent"
        else RdmaMode.from_options(options, system)
    )


def main() -> None:
    spec = {
        "mode": {"type": "str", "choices": ["shared", "exclusive"]},
        "persist": {"type": "bool", "default": True},
        "switch": {"type": "str", "choices": ["try", "require", "never"], "default": "try"},
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
    }
    required = [("state", "present", ["mode"])]
    module_runner.run(AnsibleModule(spec, required_if=required, supports_check_mode=True), build)


if __name__ == "__main__":
    main()
