# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a family of NICs: all NICs whose RDMA devices have the same kernel module. Pure data.

The reader of the fabric file, lint, the plan and ``docs/hardware.md`` read it. None: no source confirms a value.
"""

from __future__ import annotations

import typing as t

# How far Railyard supports a layer of a family. UNKNOWN: Railyard knows no interface, so it neither reads nor sets the
# layer.
MANAGED, READ_ONLY, UNKNOWN = "managed", "read-only", "unknown"
LEVELS = (MANAGED, READ_ONLY, UNKNOWN)
# What the support of a layer was tested with. SIMULATED: a tree of files and a netlink kernel of the tests.
# RECORDING: outputs of a real machine. UNTESTED: nothing.
RECORDING, SIMULATED, UNTESTED = "recording", "simulated", "-"
# The layers in which families differ, in the order of the table in docs/hardware.md.
DRIVER, FIRMWARE, SRIOV, RDMA, QOS, ECN, TRAFFIC_CLASS, COUNTERS = (
    "driver",
    "firmware",
    "sriov",
    "rdma",
    "qos",
    "ecn",
    "traffic class",
    "counters",
)
LAYERS = (DRIVER, FIRMWARE, SRIOV, RDMA, QOS, ECN, TRAFFIC_CLASS, COUNTERS)


class QosDefaults(t.NamedTuple):
    """The priorities (0 to 7) and DSCPs (0 to 63) of RoCE and of CNPs that the vendor sets or recommends.

    ``source``: document, section and date.
    """

    priority: int
    dscp: int
    cnp_priority: int
    cnp_dscp: int
    source: str

    def mark(self, kind: str) -> tuple[int, int]:
        """Return DSCP and priority of RoCE or, with ``kind`` ``cnp_``, of CNPs."""
        return (self.cnp_dscp, self.cnp_priority) if kind else (self.dscp, self.priority)


class Support(t.NamedTuple):
    """How far a layer is supported. ``note``: the interface, or why no interface is used."""

    level: str
    tested: str
    note: str


def managed(note: str, tested: str = SIMULATED) -> Support:
    return Support(MANAGED, tested, note)


def read_only(note: str, tested: str = SIMULATED) -> Support:
    return Support(READ_ONLY, tested, note)


def unknown(note: str = "no source") -> Support:
    return Support(UNKNOWN, UNTESTED, note)


# The kernel has these interfaces for most drivers.
_SRIOV, _RDMA = managed("the kernel's interfaces"), managed("RDMA netlink")
_TRAFFIC_CLASS = unknown("no file of the driver; applications set it (NCCL_IB_TC)")


def layers(
    driver: Support,
    firmware: Support,
    qos: Support,
    ecn: Support,
    counters: Support,
    sriov: Support = _SRIOV,
    rdma: Support = _RDMA,
    traffic_class: Support = _TRAFFIC_CLASS,
) -> dict[str, Support]:
    """Return the support of each of :data:`LAYERS`."""
    return dict(zip(LAYERS, (driver, firmware, sriov, rdma, qos, ecn, traffic_class, counters)))


# Names of mlx5: packets that the notification point received with a mark, CNPs that it sent, and CNPs that the reaction
# point handled.
MARKED, CNPS_SENT, CNPS_HANDLED = "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"


class NicFamily(t.NamedTuple):
    """One family of NICs.

    ``name``: the kernel module of its RDMA devices, and the value of ``nic`` in profiles. ``drivers``: of its PCI
    functions; empty: all network functions of the PCI vendor. ``rdma_name``: the kernel's names of RDMA devices, with
    ``N`` for a number; udev may rename them. ``rdma_ports``: the largest number of ports of one RDMA device. ``tool``:
    the vendor's program. ``tool_sets``: whether it sets parameters of the firmware and QoS; others only write images or
    show the state. ``has_dmabuf``: whether the driver in the kernel registers DMA-BUF memory. ``qos_defaults``: None:
    unknown. ``error_counters``: words in the names of counters of errors that the names of mlx5 do not contain.
    ``counters``: name of a counter of mlx5 -> the name of the same counter. ``layers``: from :func:`layers`.
    ``sources``: of the facts, with their date.
    """

    name: str
    title: str
    pci_vendor: str
    drivers: tuple[str, ...]
    rdma_name: str
    tool: str
    layers: t.Mapping[str, Support]
    sources: tuple[str, ...]
    tool_sets: bool = True
    rdma_ports: int = 1
    has_dmabuf: bool | None = True
    qos_defaults: QosDefaults | None = None
    error_counters: tuple[str, ...] = ()
    counters: t.Mapping[str, str] = {}

    @property
    def has_firmware_parameters(self) -> bool:
        """Whether Railyard sets parameters of the firmware."""
        return self.layers[FIRMWARE].level == MANAGED

    @property
    def keeps_names(self) -> bool:
        """Whether RDMA devices keep the names of their driver, because libraries look for ``rdma_name``."""
        return self.layers[RDMA].level != MANAGED

    @property
    def has_driver_packages(self) -> bool:
        """Whether Railyard installs the vendor's driver from packages."""
        return self.layers[DRIVER].level == MANAGED
