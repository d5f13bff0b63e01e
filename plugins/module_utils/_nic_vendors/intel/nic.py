# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NICs of Intel: the Ethernet 800 series with the drivers ice and irdma, and the NICs of Gaudi."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.intel.family import HABANALABS, IRDMA
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import NicVendor


class Intel(NicVendor):
    drivers = IRDMA.drivers
    rdma_module = "irdma"
    # ice_ethtool.c. An XON frame ends a pause.
    pfc_frames = re.compile(r"([rt]x)_priority_([0-7])_xoff\.nic")
    no_congestion_control = (
        "ECN (irdma has no interface for it)",
        "set qos.ecn to null",
    )


class Gaudi(NicVendor):
    drivers = HABANALABS.drivers
    rdma_module = "habanalabs_ib"
    no_congestion_control = (
        "ECN (Railyard knows no interface of habanalabs)",
        "set qos.ecn to null",
    )


INTEL = Intel()
GAUDI = Gaudi()
