# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about Pensando NICs with the drivers ionic and ionic_rdma: Pollara 400. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    NicFamily,
    QosDefaults,
    layers,
    read_only,
    unknown,
)

IONIC = NicFamily(
    name="ionic",
    title="AMD Pensando (Pollara 400)",
    pci_vendor="1dd8",
    drivers=("ionic",),
    rdma_name="ionic_N",
    tool="nicctl",
    # Operators choose other marks too: OCI's script marks RoCE with DSCP 10 on priority 0.
    qos_defaults=QosDefaults(
        3, 24, 6, 46, "AMD Pensando Pollara benchmarking guide UG1813, as quoted by public set-up notes (2026-11-29)"
    ),
    # collector.cc of rccl-tests, with its spelling: the firmware names them
    error_counters=("retry_excd", "outof_buf", "outouf_seq", "pkt_seq_err", "rdma_ack_timeout"),
    # the same table
    counters={
        "rx_vport_rdma_unicast_bytes": "rx_rdma_ucast_bytes",
        "tx_vport_rdma_unicast_bytes": "tx_rdma_ucast_bytes",
        "rx_vport_rdma_unicast_packets": "rx_rdma_ucast_pkts",
        "np_cnp_sent": "tx_rdma_cnp_pkts",
        "np_ecn_marked_roce_packets": "rx_rdma_ecn_pkts",
        "rp_cnp_handled": "rx_rdma_cnp_pkts",
        "out_of_sequence": "resp_rx_outouf_seq",
        "packet_seq_err": "req_rx_pkt_seq_err",
    },
    layers=layers(
        driver=read_only("name and version of ionic; AMD's packages are not installed"),
        firmware=read_only("version by ethtool; firmware and profiles are set with nicctl"),
        qos=unknown("the kernel's driver has no DCB; nicctl update qos sets it"),
        ecn=unknown("the kernel's driver has no files for it; nicctl update dcqcn sets it"),
        counters=read_only("hw_counters, and frames_rx_pripause of ethtool"),
    ),
    sources=(
        "Linux, drivers/infiniband/hw/ionic and drivers/net/ethernet/pensando/ionic (2026-11-29)",
        "ROCm/rccl-tests, collector.cc: names of counters of ionic and bnxt_re (2026-11-29)",
    ),
)
