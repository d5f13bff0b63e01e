# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about NetXtreme-E with the drivers bnxt_en and bnxt_re: Thor (BCM575xx) and Thor 2 (BCM576xx). Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    NicFamily,
    QosDefaults,
    layers,
    managed,
    read_only,
)

BNXT_RE = NicFamily(
    name="bnxt_re",
    title="Broadcom NetXtreme-E (Thor, Thor 2)",
    pci_vendor="14e4",
    drivers=("bnxt_en",),
    rdma_name="bnxt_reN",
    tool="niccli",
    qos_defaults=QosDefaults(
        3, 26, 7, 48, "Juniper JVD AI data center with AMD, DCQCN configuration for RDMA traffic on NICs (2026-11-28)"
    ),
    # hw_counters.c: retransmissions after a timeout, refused sequences, packets out of sequence that were dropped, and
    # packets that the NIC dropped
    error_counters=("to_retransmits", "seq_err_naks", "oos_drop", "roce_discards"),
    # hw_counters.c; Broadcom's own driver uses some names of mlx5
    counters={
        "rx_vport_rdma_unicast_bytes": "rx_bytes",
        "tx_vport_rdma_unicast_bytes": "tx_bytes",
        "rx_vport_rdma_unicast_packets": "rx_pkts",
        "np_cnp_sent": "tx_cnp_pkts",
        "np_ecn_marked_roce_packets": "rx_ecn_marked_pkts",
        "rp_cnp_handled": "rx_cnp_pkts",
        "out_of_sequence": "oos_drop_count",
        "packet_seq_err": "seq_err_naks_rcvd",
    },
    layers=layers(
        driver=read_only("name and version of bnxt_en; Broadcom's packages are not installed"),
        firmware=read_only("version by ethtool; parameters are set with niccli"),
        qos=managed("DCB netlink; a DSCP entry of the application table sets the priority"),
        ecn=managed("files cc_config of bnxt_re in debugfs"),
        counters=read_only("hw_counters, and rx_pfc_ena_frames_priN of ethtool"),
    ),
    sources=(
        "Linux, drivers/infiniband/hw/bnxt_re/{debugfs,hw_counters,ib_verbs}.c (2026-11-29)",
        "Linux, drivers/net/ethernet/broadcom/bnxt/{bnxt_dcb,bnxt_ethtool}.c (2026-11-29)",
        "bnxt_setupcc.sh 233.2.82.0, which comes with Broadcom's driver (2026-11-29)",
    ),
)
