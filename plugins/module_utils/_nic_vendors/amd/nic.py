# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NICs of AMD: Pensando, with the drivers ionic and ionic_rdma."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.amd.family import IONIC
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import NicVendor

# ionic_stats.c: PFC frames of all priorities. frames_rx_pri_N counts all frames of a priority.
_PFC_FRAMES = {"frames_rx_pripause": "rx_pause", "frames_tx_pripause": "tx_pause"}


class Amd(NicVendor):
    drivers = IONIC.drivers
    rdma_module = "ionic_rdma"
    enable_sriov = "enable SR-IOV with nicctl and in the BIOS, then reboot"
    raise_vf_limit = "raise the limit with nicctl"
    no_congestion_control = (
        "ECN (the driver has no interface for it)",
        "set qos.ecn to null, and set ECN with nicctl update dcqcn",
    )
    no_dcb = "set PFC and priorities with nicctl update qos, and name the NIC in the profile (nic: ionic)"

    def statistic(self, name: str) -> tuple[str, str | None] | None:
        return (_PFC_FRAMES[name], None) if name in _PFC_FRAMES else None


AMD = Amd()
