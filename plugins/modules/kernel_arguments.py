#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_arguments
short_description: Set kernel arguments for the next boot
version_added: 0.2.0
description:
  - Reports the running kernel's arguments and those of the next boot separately, and configures the boot loader to give
    the desired arguments to all kernels.
  - The boot loader is not changed without O(allow_change=true); a warning then lists the missing arguments.
  - Supports GRUB of Debian and Ubuntu (a file in C(/etc/default/grub.d), and C(update-grub)), GRUB of RHEL and its
    derivatives (C(grubby)), and systemd-boot (entries of the Boot Loader Specification). Kernels that are installed
    later get their arguments from C(/etc/kernel/cmdline), if it exists.
  - Arguments that an earlier run set and that are not desired now are removed; those of other programs are not.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  arguments:
    description:
      - The desired arguments, one per item, such as V(pci=realloc).
      - If another program set an argument of the same name to another value, it is an error, except for arguments that
        can be given several times (C(pci), C(console), C(hugepages) and the like).
    type: list
    elements: str
    default: []
  iommu:
    description:
      - With V(passthrough), the arguments with which devices access memory and each other without translation are
        added. They are C(intel_iommu=on iommu=pt) on Intel, C(iommu=pt) on AMD, and C(iommu.passthrough=1) on Arm.
    type: str
    choices: [leave, passthrough]
    default: leave
  allow_change:
    description: Whether the boot loader's configuration may be changed.
    type: bool
    default: false
  state:
    description:
      - V(present) configures the boot loader with the desired arguments.
      - V(absent) removes all arguments that earlier runs gave to the boot loader, and needs only O(allow_change).
        Arguments of the running kernel stay until the next boot.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Unified kernel images contain their arguments. These are reported and not changed.
seealso:
  - module: railyard.fabric.pci_tuning
"""

EXAMPLES = r"""
- name: Set the arguments of IOMMU passthrough
  railyard.fabric.kernel_arguments:
    iommu: passthrough
    allow_change: true

- name: Remove the arguments of earlier runs
  railyard.fabric.kernel_arguments:
    allow_change: true
    state: absent

- name: Read the arguments of the next boot
  railyard.fabric.kernel_arguments:
    state: gathered
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: /etc/default/grub.d/zz-railyard.cfg, attribute: arguments, before: [], after: [iommu=pt]}
gathered:
  description: The state after.
  returned: success
  type: dict
  contains:
    arguments:
      description: As RV(gathered.next_boot), or RV(gathered.live) if the boot loader is not supported.
      type: list
      elements: str
    live:
      description: The running kernel's arguments.
      type: list
      elements: str
    next_boot:
      description: The arguments that all kernels get at the next boot; null if the boot loader is not supported.
      type: list
      elements: str
    own:
      description: The arguments that this module added to the boot loader.
      type: list
      elements: str
    loader:
      description: The boot loader; null if it is not supported.
      type: str
      sample: grub
    missing_live:
      description: Desired arguments that the running kernel does not have.
      type: list
      elements: str
    missing_next_boot:
      description: Desired arguments that the next boot does not have; null if the boot loader is not supported.
      type: list
      elements: str
    iommu:
      description: The number of IOMMU groups, and of groups whose DMA is translated.
      type: dict
      sample: {groups: 64, translated: 0}
reboot_required:
  description:
    - Whether a reboot brings desired arguments into force, or ends reverted arguments.
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is needed.
  returned: success
  type: list
  elements: str
  sample: [the kernel argument iommu=pt is not in force and will be after a reboot]
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.kernel_arguments import LAYER
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
