# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vendor of a NIC, by the vendor ID of its PCI function. A vendor's code is imported when its NIC is found."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import NicVendor, Node

_NEUTRAL = NicVendor()


def _nvidia() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.nic import NVIDIA

    return NVIDIA


# PCI vendor ID -> the vendor.
VENDORS: dict[str, t.Callable[[], NicVendor]] = {"15b3": _nvidia}


def of_function(node: Node, pci: str | None) -> NicVendor:
    """Return the vendor of a PCI function; for other vendors, and without a function, the neutral one."""
    text = node.read("/sys/bus/pci/devices/%s/vendor" % pci) if pci else None
    return of_vendor((text or "").replace("0x", "", 1))


def of_vendor(pci_vendor: str) -> NicVendor:
    """Return the vendor with a PCI vendor ID, such as ``15b3``; for others the neutral one."""
    found = VENDORS.get(pci_vendor)
    return found() if found else _NEUTRAL


def every() -> list[NicVendor]:
    """Return all vendors with a folder."""
    return [vendor() for vendor in VENDORS.values()]
