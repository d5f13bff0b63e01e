# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about the Ethernet 800 series with the drivers ice and irdma, and about the NICs of Gaudi. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    COUNTERS,
    DRIVER,
    ECN,
    FIRMWARE,
    MANAGED,
    QOS,
    RDMA,
    READ_ONLY,
    SIMULATED,
    SRIOV,
    TRAFFIC_CLASS,
    UNKNOWN,
    UNTESTED,
    NicFamily,
    Support,
)

IRDMA = NicFamily(
    name="irdma",
    title="Intel Ethernet 800 series (E810)",
    pci_vendor="8086",
    drivers=("ice",),
    rdma_name="irdmaN",
    rdma_ports=1,
    tool="nvmupdate64e",
    tool_sets=False,
    has_dcb=True,
    has_dmabuf=True,
    qos_defaults=None,
    error_counters=(),
    layers={
        DRIVER: Support(READ_ONLY, SIMULATED, "name and version of ice; Intel's packages are not installed"),
        FIRMWARE: Support(READ_ONLY, SIMULATED, "version by ethtool; nvmupdate64e writes images"),
        SRIOV: Support(MANAGED, SIMULATED, "the kernel's interfaces"),
        RDMA: Support(MANAGED, SIMULATED, "RDMA netlink"),
        QOS: Support(MANAGED, SIMULATED, "DCB netlink, while the LLDP agent of the firmware is off"),
        ECN: Support(UNKNOWN, UNTESTED, "the kernel's irdma has no interface for it"),
        TRAFFIC_CLASS: Support(UNKNOWN, UNTESTED, "no file of the driver; applications set it (NCCL_IB_TC)"),
        COUNTERS: Support(READ_ONLY, SIMULATED, "hw_counters, and rx_priority_N_xoff.nic of ethtool"),
    },
    sources=(
        "Linux, drivers/infiniband/hw/irdma/verbs.c and drivers/net/ethernet/intel/ice/ice_ethtool.c (2026-11-29)",
    ),
)
HABANALABS = NicFamily(
    name="habanalabs",
    title="Intel Gaudi (integrated NICs)",
    pci_vendor="1da3",
    drivers=("habanalabs",),
    rdma_name="hbl_N",
    # Gaudi 3: 21 scale-up and 3 scale-out ports
    rdma_ports=24,
    tool="hl-smi",
    tool_sets=False,
    has_dcb=False,
    has_dmabuf=None,
    qos_defaults=None,
    error_counters=(),
    layers={
        DRIVER: Support(READ_ONLY, UNTESTED, "name of habanalabs; Intel's packages are not installed"),
        FIRMWARE: Support(UNKNOWN, UNTESTED, "hl-smi --fw-versions shows it"),
        SRIOV: Support(UNKNOWN, UNTESTED, "no source"),
        RDMA: Support(READ_ONLY, UNTESTED, "a device of many ports: libraries look for the name hbl_N, so keep it"),
        QOS: Support(UNKNOWN, UNTESTED, "no source"),
        ECN: Support(UNKNOWN, UNTESTED, "no source"),
        TRAFFIC_CLASS: Support(UNKNOWN, UNTESTED, "no source"),
        COUNTERS: Support(READ_ONLY, UNTESTED, "counters that the kernel has for all RDMA devices"),
    },
    sources=(
        "docs.habana.ai, Intel Gaudi Network Configuration (2026-11-29)",
        "habanalabs driver, hbl_ib: ib_register_device with the name hbl_N (2026-11-29)",
    ),
)
