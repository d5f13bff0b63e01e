#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpudirect
short_description: Configure the path from GPU memory to the NIC (GPUDirect RDMA)
version_added: 0.2.0
description:
  - Chooses between DMA-BUF, C(nvidia-peermem) and none, with the reasons and remedies of each, from the GPUs, the GPU
    driver and its flavour, the RDMA core, the kernel and its lockdown.
  - Loads C(nvidia-peermem) and C(gdrdrv) if they are needed, now and at boot. At boot C(nvidia-peermem) is loaded after
    the RDMA core and the GPU driver, and again after C(openibd), which unloads it.
  - Reports why a module does not load, such as a build against another RDMA core or without one, or Secure Boot.
  - Warns of problems at the next boot or load, such as modules that DKMS has not built for an installed kernel, and of
    a driver on disk that differs from the running one.
  - Unloads a module only with O(unload=true), and only if it is not in use.
  - Does not install or build anything.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.node
options:
  path:
    description:
      - The path from GPU memory to the NIC.
      - V(auto) chooses DMA-BUF if possible, else C(nvidia-peermem), else none, with a warning on a node with GPUs.
      - V(dmabuf) and V(peermem) fail with all reasons if they are not possible.
      - V(dmabuf) does not need a module.
      - With V(none), C(nvidia-peermem) is not loaded at the next boot.
    type: str
    choices: [auto, dmabuf, peermem, none]
    default: auto
  gdrcopy:
    description: Whether C(gdrdrv), the module of gdrcopy, is loaded, now and at boot. Not changed if omitted.
    type: bool
  cuda_dmabuf:
    description:
      - The value of CUDA's attribute C(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), if it is known.
      - If omitted, the driver's release and flavour decide.
    type: bool
  flavour:
    description:
      - The expected kernel modules of the GPU driver. Others cause a warning; none are installed.
      - Not compared if omitted.
    type: str
    choices: [open, proprietary]
  unload:
    description: Whether a module that is not needed is unloaded now. It is an error if it is in use.
    type: bool
    default: false
  persist:
    description:
      - Whether modules are also loaded at boot. With V(false) the files of an earlier run are not changed.
      - Ignored with O(state=absent), which removes these files.
    type: bool
    default: true
  state:
    description:
      - V(present) loads the modules, now and at boot.
      - V(absent) removes the files with which earlier runs load modules, and needs no other option. The loaded modules
        stay until the next boot, or are unloaded with O(unload=true), also in a later run, if they are not in use.
      - V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
notes:
  - Requires root, and the tools of the package kmod.
  - If the GPU driver comes from a container, the GPU Operator loads its modules (C(driver.rdma.enabled),
    C(gdrcopy.enabled)). The module then reports that and does not load any.
seealso:
  - module: railyard.fabric.rail_info
"""

EXAMPLES = r"""
- name: Configure the best possible path, with gdrcopy
  railyard.fabric.gpudirect:
    gdrcopy: true

- name: Fail if DMA-BUF is not possible
  railyard.fabric.gpudirect:
    path: dmabuf

- name: Use nvidia-peermem, for GPUs before Turing
  railyard.fabric.gpudirect:
    path: peermem

- name: Remove the files of earlier runs
  railyard.fabric.gpudirect:
    state: absent

- name: Read the path and its reason
  railyard.fabric.gpudirect:
    state: gathered
  register: gpudirect
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {subject: nvidia_peermem, attribute: loaded, before: false, after: true}
    - {subject: /etc/modules-load.d/railyard-gpudirect.conf, attribute: modules, before: null, after: nvidia-peermem}
gathered:
  description: The state after, or now in check mode.
  returned: success
  type: dict
  contains:
    path:
      description: The path of GPU memory that is in use, V(dmabuf), V(peermem) or V(none).
      type: str
      sample: dmabuf
    gdrcopy:
      description: Whether C(gdrdrv) is loaded.
      type: bool
    choice:
      description: The best possible path, the reason, and a remedy if no path is possible.
      type: dict
      sample:
        path: dmabuf
        reason: >-
          the open kernel modules of the GPU driver 570.86.15 export DMA-BUF, and the inbox RDMA core of the kernel
          6.8.0-90-generic imports it
        remedy: ""
    obstacles:
      description: The obstacles of V(dmabuf) and of V(peermem), each with C(message) and C(remedy).
      type: dict
      sample:
        dmabuf: []
        peermem:
          - message: the inbox RDMA core of the kernel 6.8.0-90-generic does not export ib_register_peer_memory_client
            remedy: >-
              install DOCA-OFED for the kernel 6.8.0-90-generic, then the GPU driver again: nvidia-peermem is built
              against it
    gpus:
      description:
        - The NVIDIA GPUs, with their generation by PCI device number.
        - On a node without them, the GPUs of AMD; C(generation) is then null.
      type: list
      elements: dict
      sample:
        - {pci: "0000:1b:00.0", device: "2330", generation: hopper}
    driver:
      description:
        - The GPU driver; null without one.
        - C(version) is the version of the running driver, C(on_disk) the version that the next load uses.
        - C(from) is V(host) or V(container).
      type: dict
      sample: {version: 570.86.15, flavour: open, loaded: true, on_disk: 570.86.15, from: host}
    rdma:
      description:
        - The RDMA core; null without one.
        - C(imports_dmabuf) and C(peer_memory) are null if unknown.
      type: dict
      sample:
        stack: inbox
        version: null
        loaded: true
        from: host
        on_disk: inbox
        imports_dmabuf: true
        peer_memory: false
    peermem:
      description:
        - The module C(nvidia-peermem). C(module) is V(absent), V(stub) (built without a peer memory interface),
          V(stale) (built against another RDMA core), V(built), V(loaded), or V(contained) (not loaded, and the GPU
          driver comes from a container).
        - C(symbol_versions) of a stale module are the version that it was built against, and the installed version.
        - C(at_boot) is the file that loads it at boot, C(barred) the line that prevents this.
      type: dict
      sample:
        module: stub
        loaded: false
        name: nvidia_peermem
        file: /lib/modules/6.8.0-90-generic/updates/dkms/nvidia-peermem.ko
        signed: true
        symbol_versions: []
        registered: []
        at_boot: null
        barred: null
    gdrdrv:
      description: The module of gdrcopy. C(device) is whether C(/dev/gdrdrv) exists.
      type: dict
      sample:
        installed: true
        loaded: true
        version: "2.5"
        flavour: open
        device: true
        at_boot: /usr/lib/modules-load.d/gdrdrv.conf
        barred: null
    kernel:
      description: The running kernel. C(lockdown) is null if it does not support it.
      type: dict
      sample:
        release: 6.8.0-90-generic
        architecture: x86_64
        dma_shared_buffer: true
        lockdown: none
        signatures_enforced: false
    notices:
      description: Problems at the next load or boot, as in the warnings.
      type: list
      elements: str
      sample: []
reboot_required:
  description:
    - Whether C(nvidia_peermem) is loaded and O(path=none), or a reverted module is loaded. A reboot removes it.
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
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpudirect_modules import LAYER


def main() -> None:
    module = AnsibleModule(LAYER.spec, required_if=LAYER.required_if, supports_check_mode=True)
    module_runner.run(module, LAYER.build)


if __name__ == "__main__":
    main()
