#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_driver
short_description: Install the driver of NVIDIA NICs (inbox, DOCA-OFED or MLNX_OFED)
version_added: 0.2.0
description:
  - Installs DOCA-OFED or MLNX_OFED in one pinned version, upgrades it, or restores the distribution's own driver.
  - Before anything is installed, distribution, kernel and architecture are compared with the vendor's list and with the
    name of the source.
  - An installation does not load, unload or restart anything. The running driver changes at the reboot, or with
    O(restart=allowed); RV(reboot_required) reports a difference. While packages are installed, C(openibd.service) is
    masked, so that scripts of packages do not restart the driver stack.
  - Builds the driver's modules for every installed kernel (DKMS), and rebuilds the initial RAM filesystems that contain
    the driver.
  - The next run repairs the state of an interrupted one. It removes mounts and unpacked files, and finishes
    installations.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
  - railyard.fabric.node.management
options:
  kind:
    description:
      - V(inbox) is the distribution's own driver. The vendor's packages are removed, and those that the
        distribution has too (C(rdma-core)) are restored to its version.
      - V(doca) is DOCA-OFED, V(mlnx) is MLNX_OFED.
      - V(container) is the driver of a container. The node keeps the inbox driver, as the container needs it, and a
        warning names modules that would keep the container from replacing the driver stack.
      - Required with O(state=present).
    type: str
    choices: [inbox, doca, mlnx, container]
  version:
    description:
      - The release, such as V(2.9.3) of DOCA or V(24.10-1.1.4.0) of MLNX_OFED. No version is chosen by default.
      - Required with O(kind=doca) and O(kind=mlnx).
    type: str
  source:
    description:
      - The source of the packages. Required with O(kind=doca) and O(kind=mlnx).
      - A URL is a repository, C(https:), C(http:) or C(file:), flat for apt. Its address is written to the
        package manager's configuration and stays.
      - A user and a password in it (C(https://USER:PASSWORD@HOST/PATH), percent-encoded) are written to a file that
        only root can read, and are never printed.
      - A path on the node is an ISO or a C(.tgz) of MLNX_OFED, a C(.deb) or C(.rpm) of DOCA that contains its
        repository, or a directory with such a repository. An ISO is mounted and an archive unpacked only while it is
        needed.
    type: str
  key:
    description:
      - The public key that the repository is signed with, as armored text, or as the path of its file on the node.
      - Required for a repository, unless O(unsigned=true).
    type: str
  unsigned:
    description: Whether a repository is used without a key.
    type: bool
    default: false
  packages:
    description:
      - The metapackages of the driver to install.
      - If omitted, C(doca-ofed) with O(kind=doca), C(mlnx-ofed-all) with O(kind=mlnx).
    type: list
    elements: str
    default: []
  allow_unlisted:
    description: Whether to install a release that the vendor does not list for this distribution and kernel.
    type: bool
    default: false
  restart:
    description:
      - V(allowed) restarts the driver stack (C(openibd)) if the running driver differs from the one on disk.
      - It is not restarted while a NIC of this driver carries the connection or the default route, while other modules
        use the stack, or while a NIC has VFs; the driver then takes effect after a reboot.
      - The rail ports lose their addresses by a restart; M(railyard.fabric.rail_ports) restores them.
    type: str
    choices: [never, allowed]
    default: never
  state:
    description: V(gathered) only reads.
    type: str
    choices: [present, gathered]
    default: present
notes:
  - Requires root, and apt or dnf.
  - The packages' dependencies come from the distribution's own repositories.
  - With Secure Boot, modules that are built on the node require a signing key for DKMS; the module refuses without it.
seealso:
  - module: railyard.fabric.gpudirect
  - module: railyard.fabric.mlx_linktype
"""

EXAMPLES = r"""
- name: Install DOCA-OFED from a mirror
  railyard.fabric.nic_driver:
    kind: doca
    version: 2.9.3
    source: https://mirror.example.com/doca/2.9.3/ubuntu22.04/x86_64
    key: /etc/pki/mirror.asc

- name: Install MLNX_OFED from an ISO on the node
  railyard.fabric.nic_driver:
    kind: mlnx
    version: 24.10-1.1.4.0
    source: /srv/MLNX_OFED_LINUX-24.10-1.1.4.0-ubuntu22.04-x86_64.iso

- name: Restore the distribution's driver
  railyard.fabric.nic_driver:
    kind: inbox

- name: Read the installed and the running driver
  railyard.fabric.nic_driver:
    state: gathered
  register: driver
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: doca-ofed, attribute: version, before: null, after: 2.9.3}
    - {subject: 5.15.0-25-generic, attribute: mlx5_core, before: inbox, after: doca 2.9.3}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    kind:
      description: The installed driver, V(inbox), V(doca) or V(mlnx).
      type: str
      sample: doca
    version:
      description: The installed driver's version, as the package has it; null for the inbox driver.
      type: str
      sample: 2.9.3-0.2.2
    source:
      description: The configured repository, without user and password; null without one.
      type: str
    packages:
      description: The installed metapackages of a driver.
      type: list
      elements: str
      sample: [doca-ofed]
    installed:
      description: All of the vendor's packages, with their versions.
      type: dict
    kernels:
      description:
        - The driver that each bootable kernel would load, V(inbox) or V(ofed); null if it does not have one.
      type: dict
      sample: {5.15.0-25-generic: ofed}
    running:
      description:
        - C(kernel), the C(stack) that is loaded (V(inbox), V(ofed), null for none) and its C(version), and the loaded
          modules that differ from those on disk (C(differing)).
      type: dict
    blocking:
      description: Modules of other packages that use the stack, each with the modules that it uses.
      type: dict
      sample: {rdma_rxe: [ib_core, ib_uverbs]}
    node:
      description: C(distribution) in the vendor's spelling, C(kernel) and C(architecture).
      type: dict
      sample: {distribution: ubuntu22.04, kernel: 5.15.0-25-generic, architecture: x86_64}
reboot_required:
  description: Whether the running driver differs from the driver that the next boot loads.
  returned: success
  type: bool
reboot_reasons:
  description: One line with the running driver and the driver that the next boot loads.
  returned: success
  type: list
  elements: str
  sample: [the NIC driver that runs is inbox, and the next boot loads doca 2.9.3]
errors:
  description: The errors, each with C(place), C(message) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
