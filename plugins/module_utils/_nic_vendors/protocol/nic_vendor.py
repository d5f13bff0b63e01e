# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between NICs of different vendors, as one class whose methods a vendor overrides.

Names, addresses, RDMA devices, PFC and VFs through the kernel's own interfaces are the same for all vendors.
``_nic_vendors`` has a folder for each vendor. A vendor imports only ``_common`` and this package, so that all other
packages can use it.
"""

from __future__ import annotations

import re
import typing as t

Row = t.Dict[str, t.Any]


class Result(t.Protocol):
    """The result of a command: exit status, standard output and standard error."""

    @property
    def rc(self) -> int: ...
    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


class Node(t.Protocol):
    """The methods of ``_node.core.system.System`` that vendors use."""

    def exists(self, path: str) -> bool: ...
    def link_name(self, path: str) -> str | None: ...
    def read(self, path: str) -> str | None: ...
    def read_int(self, path: str) -> int | None: ...
    def which(self, program: str) -> str | None: ...
    def run(self, argv: t.Sequence[str], timeout: float = ...) -> Result: ...


class Setting(t.NamedTuple):
    """One setting of a driver: its name for users, its file, and its observed or desired value."""

    name: str
    path: str
    value: int


class CongestionControl:
    """The congestion control (ECN) of one port."""

    def observe(self) -> Row:
        """Return the state in the form of the option ``ecn``, and ``interface``. None: it cannot be read."""
        raise NotImplementedError

    def settings(self, ecn: t.Mapping[str, t.Any]) -> list[Setting]:
        """Return the desired settings for the option ``ecn``, in the order in which they are set."""
        raise NotImplementedError

    def warning(self, ecn: t.Mapping[str, t.Any]) -> str | None:
        """Return what the user must check by other means; None if nothing."""
        return None


class VfFiles:
    """Attributes of VFs in files that the vendor's driver adds to a PF. ``pf``: the directory of the PF in sysfs."""

    def exist(self, node: Node, pf: str) -> bool:
        """Return whether the VFs of the PF have such files, also before the VFs are created."""
        return False

    def attributes(self, node: Node, pf: str, index: int, link_layer: str, known: bool) -> Row:
        """Return attributes of a VF. With ``known``, only those that are used instead of netlink's."""
        return {}

    def setting(
        self, node: Node, pf: str, index: int, link_layer: str, values: t.Mapping[str, t.Any]
    ) -> tuple[str, str, str] | None:
        """Return attribute, file and text that set one of ``values``; None if netlink sets them."""
        return None


class NicVendor:
    """The NICs of one vendor. This class itself is for NICs of vendors without a folder in ``_nic_vendors``."""

    #: drivers of the PCI functions to which the class applies; empty: all functions with the PCI vendor ID
    drivers: tuple[str, ...] = ()
    #: kernel module of the RDMA device, for remedies
    rdma_module = ""
    #: remedies if a PF has no SR-IOV, and if it allows fewer VFs
    enable_sriov = "enable SR-IOV in the BIOS and in the NIC's firmware, then reboot; or name a NIC that has SR-IOV"
    raise_vf_limit = "raise the firmware's limit with the vendor's tool"
    #: whether the driver makes one RDMA device for a bond of functions, and only while they have no VFs in legacy mode
    has_roce_lag = False
    #: what is missing for congestion control, and the remedy
    no_congestion_control = (
        "ECN (the interface of this driver is unknown)",
        "set qos.ecn to null, and set ECN with the vendor's tool",
    )
    #: the remedy if the driver has no DCB, for PFC, ETS and the trust
    no_dcb = "use a NIC and a driver that support it, or leave the port out"
    #: DMA functions, which a NIC has beside its network functions: PCI device -> description. They need their ACS.
    acs_devices: t.Mapping[str, str] = {}
    #: PCI devices of NICs that can balance over several planes in hardware
    plane_devices: t.AbstractSet[str] = frozenset()
    #: names of statistics of PFC frames: the groups are the direction, ``rx`` or ``tx``, and the priority
    pfc_frames: re.Pattern[str] | None = None
    vf_files = VfFiles()

    def congestion_control(self, node: Node, netdev: str, pci: str) -> CongestionControl | None:
        """Return the congestion control of a port; None if its driver has no interface for it."""
        return None

    def trust_files(self, netdev: str) -> tuple[str, str] | None:
        """Return the files of the trust and of its DSCP table, for drivers that do not use the kernel's DCB tables."""
        return None

    def traffic_class(self, node: Node, device: str, port: int) -> Setting | None:
        """Return the observed traffic class of all packets of an RDMA device's port; None if its driver has none."""
        return None

    def statistic(self, name: str) -> tuple[str, str | None] | None:
        """Return name and priority (None: all) of a statistic of ``ethtool -S`` about RDMA or flow control; None for
        other statistics.
        """
        match = self.pfc_frames and self.pfc_frames.fullmatch(name)
        return ("%s_pause" % match[1], match[2]) if match else None
