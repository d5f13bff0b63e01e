# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about the Ethernet 800 series with the drivers ice and irdma, and about the NICs of Gaudi. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    UNTESTED,
    NicFamily,
    layers,
    managed,
    read_only,
    unknown,
)

IRDMA = NicFamily(
    name="irdma",
    title="Intel Ethernet 800 series (E810)",
    pci_vendor="8086",
    drivers=("ice",),
    rdma_name="irdmaN",
    tool="nvmupdate64e",
    tool_sets=False,
    # irdma_hw_stat_names in verbs.c; counts UDP packets of RoCE v2
    counters={
        "rx_vport_rdma_unicast_packets": "RxUDP",
        "np_cnp_sent": "cnpSent",
        "np_ecn_marked_roce_packets": "RxECNMrkd",
        "rp_cnp_handled": "cnpHandled",
    },
    layers=layers(
        driver=read_only("name and version of ice; Intel's packages are not installed"),
        firmware=read_only("version by ethtool; nvmupdate64e writes images"),
        qos=managed("DCB netlink, while the LLDP agent of the firmware is off"),
        ecn=unknown("the kernel's irdma has no interface for it"),
        counters=read_only("hw_counters, and rx_priority_N_xoff.nic of ethtool"),
    ),
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
    has_dmabuf=None,
    layers=layers(
        driver=read_only("name of habanalabs; Intel's packages are not installed", UNTESTED),
        firmware=unknown("hl-smi --fw-versions shows it"),
        sriov=unknown(),
        rdma=read_only("a device of many ports: libraries look for the name hbl_N, so keep it", UNTESTED),
        qos=unknown(),
        ecn=unknown(),
        traffic_class=unknown(),
        counters=read_only("counters that the kernel has for all RDMA devices", UNTESTED),
    ),
    sources=(
        "docs.habana.ai, Intel Gaudi Network Configuration (2026-11-29)",
        "habanalabs driver, hbl_ib: ib_register_device with the name hbl_N (2026-11-29)",
    ),
)
