# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the health service reports: codes with cause and remedy, and thresholds of counters with their sources.

A code that verify has too has the same name and title there (``_fabric.verify.base``).
"""

from __future__ import annotations

import typing as t


class Rule(t.NamedTuple):
    """One kind of finding.

    :param code: permanent; its meaning never changes. :param name: unique, for people.
    :param cause: the likely cause. :param remedy: what a user can do.
    :param degraded: whether the rail still carries traffic, with less than planned. Otherwise it fails.
    :param confirm: observations in a row that must show the difference before it is a finding.
    """

    code: str
    name: str
    title: str
    cause: str
    remedy: str
    degraded: bool = False
    confirm: int = 1


_HAND = "it was changed by hand or by another network service"
_CABLE = "the cable is unplugged or broken, or the port of the leaf is down"
_HOSTS = "run hosts.yml --tags %s"

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule(
            *("RV201", "nic-missing", "the NIC was not found"),
            "the card is no longer on the PCI bus, is in another slot, or is broken",
            "run 'lspci -D' and 'dmesg' on the node",
        ),
        Rule(
            *("RV203", "netdev-missing", "the NIC has no network interface on the host"),
            "it was moved into another network namespace, or the driver created none",
            "delete the pod or network namespace that holds it, or run 'dmesg' on the node",
        ),
        Rule(
            *("RV401", "link-disabled", "the link is administratively down"),
            "it was set down by hand (ip link set ... down)",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV402", "rail-link-down", "the link has no carrier"),
            _CABLE,
            "check the cable, the transceivers and the port of the leaf",
        ),
        Rule(
            *("RV403", "link-speed-too-low", "the link is slower than planned"),
            "a transceiver or cable of another type, bad lanes, or a speed that is fixed at the leaf",
            "run 'ethtool' for the interface, and check the port of the leaf",
            confirm=2,
        ),
        Rule(*("RV404", "mtu-mismatch", "the MTU is not as planned"), _HAND, _HOSTS % "rail_ports", confirm=2),
        Rule(
            *("RV405", "rdma-device-missing", "the RDMA device was not found"),
            "the RDMA module of the driver is not loaded, or the soft RDMA link was deleted",
            _HOSTS % "rdma_links",
        ),
        Rule(
            *("RV406", "rdma-device-name-mismatch", "the RDMA device has another name than planned"),
            "udev or the kernel named it after the last boot or driver reload",
            _HOSTS % "rdma_links",
        ),
        Rule(
            *("RV407", "rdma-device-inactive", "the RDMA device is not ACTIVE"),
            "the link came up only recently, or no subnet manager has configured the port",
            "run 'rdma link' on the node; on InfiniBand check the subnet manager",
        ),
        Rule(
            *("RV411", "interface-missing", "the bond or VLAN of the port does not exist"),
            "it was removed by hand, or was not created at boot",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV413", "bond-member-missing", "a NIC is missing in the bond"),
            "it was removed from the bond by hand, or its card is missing",
            _HOSTS % "rail_ports",
            degraded=True,
        ),
        Rule(
            *("RV414", "bond-member-down", "a member of the bond carries no traffic"),
            "its cable is unplugged or broken, or the port of the leaf is down",
            "check the cable, the transceivers and the port of the leaf",
            degraded=True,
        ),
        Rule(
            *("RV417", "lacp-partner-missing", "no switch answers LACP on the members of the bond"),
            "no LACP group contains the leaf ports, or LACP is disabled there",
            "configure LACP for the leaf ports of the bond",
            confirm=2,
        ),
        Rule(
            *("RV419", "vlan-mismatch", "the VLAN ID or the parent of the interface is not as planned"),
            "it was created by hand or by another network service",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV422", "plane-lost", "a plane of the rail has no link"),
            "its cable is unplugged or broken, or the port of the leaf is down",
            "check the cable, the transceivers and the port of the leaf of this plane",
            degraded=True,
        ),
        Rule(
            *("RV423", "plane-missing", "the node does not have a planned plane"),
            "the firmware of the NIC has another number of planes or functions, or another program has the function",
            "compare 'planes' of the profile with the results 'nics' and 'rdma' of railyard.fabric.rail_info",
            degraded=True,
        ),
        Rule(
            *("RV424", "plane-slow", "a plane is slower than planned"),
            "a transceiver or cable of another type, bad lanes, or a speed that is fixed at the leaf",
            "run 'ethtool' for the netdev of the plane, and check the port of the leaf",
            degraded=True,
            confirm=2,
        ),
        Rule(
            *("RV427", "plane-on-other-leaf", "a plane is connected to another leaf"),
            "its cable is plugged into another leaf than planned",
            "plug it into the planned leaf, or correct the plan",
            degraded=True,
        ),
        Rule(
            *("RV501", "address-missing", "the address is missing"),
            "it was removed by hand or by another network service",
            _HOSTS % "rail_ports",
            confirm=2,
        ),
        Rule(
            *("RV511", "gid-missing", "the address has no GID"),
            "the RDMA device was created before the link came up, or its GID table is stale",
            "set the link down and up, or reload the driver",
            confirm=3,
        ),
        Rule(
            *("RV701", "wrong-leaf", "the port is connected to another leaf than planned"),
            "its cable is plugged into another leaf",
            "plug it into the planned leaf, or correct the plan",
        ),
        Rule(
            *("RV704", "wrong-leaf-port", "the port is connected to another port of its leaf than planned"),
            "its cable is plugged into the wrong port of the right leaf",
            "plug it as planned, or correct the plan",
        ),
        Rule(
            *("RV890", "rail-unread", "the state of the rail is unknown"),
            "a file of the driver or the kernel could not be read",
            "run 'journalctl -u railyard-health' and 'dmesg' on the node",
        ),
        Rule(
            *("RV891", "link-flapping", "the link goes down and up repeatedly"),
            "a bad cable or transceiver, or the port of the leaf",
            "clean or replace the cable and the transceivers, and check the log of the leaf",
        ),
        Rule(
            *("RV892", "error-counters-fatal", "a counter of fatal link errors increased"),
            "a bad cable or transceiver, or a link that was retrained",
            "check the counters of the port and of the leaf, and replace the cable",
        ),
        Rule(
            *("RV893", "error-rate-high", "error counters increase faster than their threshold"),
            "a bad cable or transceiver, or a queue that overflows",
            "check the counters of the port and of the leaf",
            degraded=True,
        ),
    )
}

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
        return {1: "/s", 60: "/min"}.get(int(self.seconds), " in %g s" % self.seconds)


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


def thresholds(others: t.Mapping[str, float | None]) -> list[Threshold]:
    """Return the thresholds that apply. ``others``: name -> another value, or None: it is not judged."""
    values = [(row, others.get(row.name, row.above)) for row in THRESHOLDS.values()]
    return [row._replace(above=value) for row, value in values if value is not None]
