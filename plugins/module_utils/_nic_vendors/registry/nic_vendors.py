# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vendor of a NIC, by the vendor ID and the driver of its PCI function. A vendor's code is imported when its NIC is
found.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import NicVendor, Node

_NEUTRAL = NicVendor()


def _nvidia() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.nic import NVIDIA

    return NVIDIA


def _broadcom() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.broadcom.nic import BROADCOM

    return BROADCOM


def _amd() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.amd.nic import AMD

    return AMD


def _intel() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.intel.nic import INTEL

    return INTEL


def _gaudi() -> NicVendor:
    from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.intel.nic import GAUDI

    return GAUDI


# PCI vendor ID -> the vendor.
VENDORS: dict[str, t.Callable[[], NicVendor]] = {
    "15b3": _nvidia,
    "14e4": _broadcom,
    "1dd8": _amd,
    "8086": _intel,
    "1da3": _gaudi,
}


def of_function(node: Node, pci: str | None) -> NicVendor:
    """Return the vendor of a PCI function; the neutral one for other vendors, for other drivers of a vendor, such as
    igb, and without a function.
    """
    text = node.read("/sys/bus/pci/devices/%s/vendor" % pci) if pci else None
    found = of_vendor((text or "").replace("0x", "", 1))
    known = not found.drivers or node.link_name("/sys/bus/pci/devices/%s/driver" % pci) in found.drivers
    return found if known else _NEUTRAL


def of_vendor(pci_vendor: str) -> NicVendor:
    """Return the vendor with a PCI vendor ID, such as ``15b3``; for others the neutral one."""
    found = VENDORS.get(pci_vendor)
    return found() if found else _NEUTRAL


def every() -> list[NicVendor]:
    """Return all vendors with a folder."""
    return [vendor() for vendor in VENDORS.values()]
