# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about ConnectX and BlueField. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    RECORDING,
    NicFamily,
    QosDefaults,
    layers,
    managed,
    read_only,
)

MLX5 = NicFamily(
    name="mlx5",
    title="NVIDIA ConnectX and BlueField",
    pci_vendor="15b3",
    drivers=(),
    rdma_name="mlx5_N",
    # ConnectX-8 as one device with twelve ports, of which four carry data (scitix/sichek, pull request 98)
    rdma_ports=12,
    tool="mlxconfig",
    qos_defaults=QosDefaults(
        3, 26, 6, 48, "NVIDIA Network Operator 26.10, NIC Configuration Operator, roceOptimized (2026-11-22)"
    ),
    layers=layers(
        driver=managed("MLNX_OFED and DOCA-OFED, or the kernel's mlx5_core", RECORDING),
        firmware=managed("mlxconfig, mstconfig and mlxfwreset", RECORDING),
        sriov=managed("the kernel's interfaces, and files of mlx5 for VFs of InfiniBand"),
        qos=managed("DCB netlink, and trust files of older drivers", RECORDING),
        ecn=managed("files ecn of NVIDIA's driver, or cc_params of the kernel's in debugfs"),
        traffic_class=managed("tc/PORT/traffic_class of NVIDIA's driver", RECORDING),
        counters=read_only("hw_counters, and rx_prioN_pause of ethtool"),
    ),
    sources=(
        "Linux, drivers/infiniband/hw/mlx5 and drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c (2026-11-28)",
        "NVIDIA/doroce-linux and Mellanox/nic-configuration-operator (2026-11-28)",
    ),
)
