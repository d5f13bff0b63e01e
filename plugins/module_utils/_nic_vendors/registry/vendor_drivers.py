# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NIC drivers that vendors publish as packages, by kind. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.driver import OFED
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import (
    CONTAINER,
    INBOX,
    VendorDriver,
)

DRIVERS: tuple[VendorDriver, ...] = (OFED,)
# Kinds that are installed on the node, and all kinds of the fabric file and of the module nic_driver.
INSTALLED = tuple(kind.name for driver in DRIVERS for kind in driver.kinds)
KINDS = (INBOX, *INSTALLED, CONTAINER)
# File name ending of a source -> the kinds with such files. A source with another ending is a repository or directory.
ENDINGS = {
    ending: tuple(kind.name for driver in DRIVERS for kind in driver.kinds if ending in kind.endings)
    for driver in DRIVERS
    for kind in driver.kinds
    for ending in kind.endings
}


def of_kind(kind: str) -> VendorDriver | None:
    """Return the driver with packages of this kind; None for the kernel's and a container's."""
    return next((driver for driver in DRIVERS if driver.kind(kind)), None)
