# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs of AMD: their numbers, and whether amdkfd has registered with the peer memory interface of the RDMA core."""

from __future__ import annotations

import contextlib
import re

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

NODES = "/sys/class/kfd/kfd/topology/nodes"
# The place depends on the RDMA core. RCCL looks for the same files (src/transport/net_ib.cc).
PEER_FILES = (
    "/sys/kernel/mm/memory_peers/amdkfd/version",
    "/sys/kernel/memory_peers/amdkfd/version",
    "/sys/memory_peers/amdkfd/version",
)


def has_peer_memory(system: System) -> bool:
    """Return whether NICs can register memory of AMD's GPUs without DMA-BUF."""
    return any(system.exists(file) for file in PEER_FILES)


def numbers(system: System) -> dict[str, int]:
    """Return PCI address -> the number by which ROCm's libraries select a GPU; empty while amdkfd is not loaded.

    They count the nodes of amdkfd that have SIMDs; the others are processors. A partitioned GPU has several nodes, and
    gets the number of its first one. Source: the kernel's ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c``:
    ``location_id`` is bus, device and function, with the number of the partition in its highest or lowest bits.
    """
    found: dict[str, int] = {}
    count = 0
    for node in sorted(int(name) for name in system.listdir(NODES) if name.isdigit()):
        text = ""
        # amdkfd denies GPUs that the device cgroup excludes, also to root. ROCm does not count them.
        with contextlib.suppress(RailyardError):
            text = system.read("%s/%d/properties" % (NODES, node)) or ""
        values = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        if values.get("simd_count"):
            place = values.get("location_id", 0)
            address = (values.get("domain", 0), place >> 8 & 0xFF, place >> 3 & 31, place & 7)
            found.setdefault("%04x:%02x:%02x.%d" % address, count)
            count += 1
    return found
