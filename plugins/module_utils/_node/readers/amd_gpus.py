# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs of AMD: whether amdkfd has registered with the peer memory interface of the RDMA core."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The place depends on the RDMA core. RCCL looks for the same files (src/transport/net_ib.cc).
PEER_FILES = (
    "/sys/kernel/mm/memory_peers/amdkfd/version",
    "/sys/kernel/memory_peers/amdkfd/version",
    "/sys/memory_peers/amdkfd/version",
)


def has_peer_memory(system: System) -> bool:
    """Return whether NICs can register memory of AMD's GPUs without DMA-BUF."""
    return any(system.exists(file) for file in PEER_FILES)
