# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Thresholds of counters of the health service: how much each may increase, with the source of the value."""

from __future__ import annotations

import typing as t

RDMA, NETDEV = "rdma", "netdev"
NVSENTINEL = "NVIDIA NVSentinel, nic-health-monitor.md (2026-11)"
# As SEQUENCE_ERRORS of the alerts (_fabric.kubernetes.objects.metric_objects).
RAILYARD = "Railyard, the value of its alerts"


class Threshold(t.NamedTuple):
    """How much a counter may increase.

    :param name: the key of ``health.thresholds`` in the fabric file.
    :param above: it may increase by this in ``seconds``. :param seconds: 1: a rate, which several observations in a row
        must show; otherwise the length of the window in which the increase is counted.
    :param code: of the finding. :param counters: its names, those of mlx5 and of the kernel first; the first that a
        device has is used. :param where: :data:`RDMA` or :data:`NETDEV`.
    :param quiet: seconds without an increase until the finding ends; None: that of the spec.
    :param source: of the value.
    """

    name: str
    above: float
    seconds: float
    code: str
    counters: tuple[str, ...]
    source: str
    where: str = RDMA
    quiet: float | None = None

    @property
    def unit(self) -> str:
        """Return the unit of ``above``."""
        return {1: "/s", 60: "/min", 3600: "/h"}.get(int(self.seconds), " in %g s" % self.seconds)


# Seconds in which increases of counters that must not increase are counted.
WINDOW = 600.0
# A link that goes down again within this time stays failed.
_FLAP_QUIET = 50.0
# Names of bnxt_re: Linux, drivers/infiniband/hw/bnxt_re/hw_counters.c. Names of ionic: collector.cc of
# ROCm/rccl-tests. Names of rxe: rxe_hw_counters.c. irdma has the counters of the InfiniBand specification only.
THRESHOLDS: dict[str, Threshold] = {
    row.name: row
    for row in (
        Threshold("carrier_changes", 2, WINDOW, "RV891", ("carrier_changes",), NVSENTINEL, NETDEV, _FLAP_QUIET),
        Threshold("link_downed", 0, WINDOW, "RV892", ("link_downed",), NVSENTINEL),
        Threshold(
            *("excessive_buffer_overrun_errors", 0, WINDOW, "RV892"), ("excessive_buffer_overrun_errors",), NVSENTINEL
        ),
        Threshold("local_link_integrity_errors", 0, WINDOW, "RV892", ("local_link_integrity_errors",), NVSENTINEL),
        Threshold("rnr_nak_retry_err", 0, WINDOW, "RV892", ("rnr_nak_retry_err",), NVSENTINEL),
        Threshold("symbol_error", 10, 1, "RV893", ("symbol_error",), NVSENTINEL),
        Threshold("symbol_error_fatal", 120, 3600, "RV892", ("symbol_error",), NVSENTINEL),
        Threshold("link_error_recovery", 5, 60, "RV893", ("link_error_recovery",), NVSENTINEL),
        Threshold("port_rcv_errors", 10, 1, "RV893", ("port_rcv_errors", "rx_roce_errors"), NVSENTINEL),
        Threshold(
            *("local_ack_timeout_err", 1, 1, "RV893"),
            ("local_ack_timeout_err", "to_retransmits", "tx_rdma_ack_timeout"),
            NVSENTINEL,
        ),
        Threshold("port_xmit_discards", 100, 1, "RV893", ("port_xmit_discards", "tx_roce_discards"), NVSENTINEL),
        Threshold("roce_slow_restart", 10, 1, "RV893", ("roce_slow_restart",), NVSENTINEL),
        Threshold(
            *("packet_seq_err", 10, 1, "RV893"),
            ("packet_seq_err", "seq_err_naks_rcvd", "req_rx_pkt_seq_err", "rcvd_seq_err"),
            RAILYARD,
        ),
        Threshold(
            *("out_of_sequence", 10, 1, "RV893"),
            ("out_of_sequence", "oos_drop_count", "res_oos_drop_count", "resp_rx_outouf_seq", "out_of_seq_request"),
            RAILYARD,
        ),
        Threshold(*("rx_crc_errors", 10, 1, "RV893"), ("rx_crc_errors",), NVSENTINEL + ", as port_rcv_errors", NETDEV),
    )
}
