# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a family of NICs: all NICs whose RDMA devices have the same kernel module. Pure data.

The reader of the fabric file, lint, the plan and ``docs/hardware.md`` read it. None: no source confirms a value.
"""

from __future__ import annotations

import typing as t

# How far Railyard supports a layer of a family. UNKNOWN: no interface is known that Railyard could use, so it neither
# reads nor sets the layer.
MANAGED, READ_ONLY, UNKNOWN = "managed", "read-only", "unknown"
LEVELS = (MANAGED, READ_ONLY, UNKNOWN)
# What the support of a layer was tested with. SIMULATED: a tree of files and a netlink kernel of the tests.
# RECORDING: outputs of a real machine. GUEST: the kernel's own driver in a guest of the lab. UNTESTED: nothing.
GUEST, RECORDING, SIMULATED, UNTESTED = "guest", "recording", "simulated", "-"
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

    ``source``: document, section and date. None: unknown.
    """

    priority: int | None
    dscp: int | None
    cnp_priority: int | None
    cnp_dscp: int | None
    source: str

    def mark(self, kind: str) -> tuple[int | None, int | None]:
        """Return DSCP and priority of RoCE or, with ``kind`` ``cnp_``, of CNPs."""
        return (self.cnp_dscp, self.cnp_priority) if kind else (self.dscp, self.priority)


class Support(t.NamedTuple):
    """How far a layer is supported. ``note``: the interface, or why no interface is used."""

    level: str
    tested: str
    note: str


class NicFamily(t.NamedTuple):
    """One family of NICs.

    ``name``: the kernel module of its RDMA devices, and the value of ``nic`` in profiles. ``drivers``: of its PCI
    functions; empty: all network functions of the PCI vendor. ``rdma_name``: the kernel's names of RDMA devices, with
    ``N`` for a number; udev may rename them. ``rdma_ports``: the largest number of ports of one RDMA device. ``tool``:
    the vendor's program. ``tool_sets``: whether it sets parameters of the firmware and QoS; others only write images or
    show the state. ``has_dcb``: whether the driver in the kernel has DCB, for PFC and ETS. ``has_dmabuf``: whether the
    driver in the kernel registers DMA-BUF memory. ``qos_defaults``: None: unknown. ``error_counters``: words in the
    names of counters of errors that the names of mlx5 do not contain. ``layers``: the support of each of
    :data:`LAYERS`. ``sources``: of the facts, with their date.
    """

    name: str
    title: str
    pci_vendor: str
    drivers: tuple[str, ...]
    rdma_name: str
    rdma_ports: int
    tool: str
    tool_sets: bool
    has_dcb: bool
    has_dmabuf: bool | None
    qos_defaults: QosDefaults | None
    error_counters: tuple[str, ...]
    layers: t.Mapping[str, Support]
    sources: tuple[str, ...]

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
