# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The choice of the path from memory of AMD's GPUs to the NIC: DMA-BUF, peer memory or none. Pure functions.

amdgpu exports DMA-BUF. Where the RDMA core has a peer memory interface, amdkfd registers with it by itself. So no path
needs a module. Sources: perftest's ``src/rocm_memory.c`` and RCCL's ``src/transport/net_ib.cc``, which look for
:data:`OPTIONS` in the configuration of the kernel, and for the files of peer memory (2026-11-29).
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.gpudirect_paths import (
    DMABUF,
    NONE,
    PEERMEM,
    Choice,
    Inputs,
    Obstacle,
    core,
    kernel_obstacles,
    missing_core,
)

OPTIONS = ("CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA")


def choose(inputs: Inputs, missing_options: t.Sequence[str], peer_memory: bool) -> Choice:
    """Return DMA-BUF if possible, else peer memory if possible, else none.

    :param inputs: ``driver`` is the version of amdgpu. Values of NVIDIA's driver and GPUs are not used.
    :param missing_options: options of the kernel's configuration that are off.
    :param peer_memory: whether amdkfd has registered with the peer memory interface.
    """
    needed = [] if inputs.driver else [_driver(inputs)]
    needed += missing_core(inputs)
    dmabuf, peer = list(needed), list(needed)
    if not needed:
        for option in missing_options:
            message = "the kernel %s is built without %s" % (inputs.kernel, option)
            dmabuf.append(Obstacle(message, "boot a kernel that has it, such as the distribution's own"))
        dmabuf += kernel_obstacles(inputs)
    if not needed and not peer_memory:
        message = "amdkfd has not registered with a peer memory interface of %s" % core(inputs)
        peer.append(Obstacle(message, "use DMA-BUF, or install DOCA-OFED and then AMD's package amdgpu-dkms"))
    obstacles = {DMABUF: dmabuf, PEERMEM: peer}
    if not dmabuf:
        reason = "amdgpu %s exports DMA-BUF, and %s imports it" % (inputs.driver, core(inputs))
        return Choice(DMABUF, reason, "", obstacles)
    messages = "; ".join(each.message for each in dmabuf)
    if not peer:
        reason = "amdkfd has registered with the peer memory interface; DMA-BUF is not possible: %s" % messages
        return Choice(PEERMEM, reason, "", obstacles)
    found = dmabuf if needed else [*dmabuf, *peer]
    reason = "; ".join(each.message for each in found)
    return Choice(NONE, reason, "; ".join(each.remedy for each in dmabuf), obstacles)


def _driver(inputs: Inputs) -> Obstacle:
    return Obstacle("amdgpu is missing for the kernel %s" % inputs.kernel, "install it (amdgpu-dkms)")
