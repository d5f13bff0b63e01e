# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NICs of Broadcom: NetXtreme-E, with the drivers bnxt_en and bnxt_re."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.broadcom import congestion_control
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.broadcom.family import BNXT_RE
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import (
    CongestionControl,
    NicVendor,
    Node,
)


class Broadcom(NicVendor):
    drivers = BNXT_RE.drivers
    rdma_module = "bnxt_re"
    # bnxt_ethtool.c
    pfc_frames = re.compile(r"([rt]x)_pfc_ena_frames_pri([0-7])")
    enable_sriov = "enable SR-IOV in the NIC's firmware (niccli) and in the BIOS, then reboot"
    raise_vf_limit = "raise the firmware's limit (niccli)"
    no_congestion_control = (
        "ECN (no directory cc_config of bnxt_re in debugfs)",
        "use a kernel whose bnxt_re has it, or set qos.ecn to null and set ECN with bnxt_setupcc.sh",
    )

    def congestion_control(self, node: Node, netdev: str, pci: str) -> CongestionControl | None:
        return congestion_control.find(node, pci)


BROADCOM = Broadcom()
