# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""All families of NICs, by the value of ``nic`` in profiles. Pure data."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.amd.family import IONIC
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.broadcom.family import BNXT_RE
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.intel.family import HABANALABS, IRDMA
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.family import MLX5
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    NicFamily,
    QosDefaults,
)

FAMILIES: dict[str, NicFamily] = {family.name: family for family in (MLX5, BNXT_RE, IONIC, IRDMA, HABANALABS)}


def family_of(vendor: str, driver: str | None) -> str | None:
    """Return the name of the family of a PCI function with this vendor ID and driver; None if it is unknown."""
    for family in FAMILIES.values():
        if family.pci_vendor == vendor and (not family.drivers or driver in family.drivers):
            return family.name
    return None


def qos_defaults(nic: str | None) -> QosDefaults | None:
    """Return the QoS that the vendor of a family sets or recommends; None: unknown, also without a family."""
    family = FAMILIES.get(nic or "")
    return family.qos_defaults if family else None


def keeps_names(nic: str | None) -> bool:
    """Return whether the RDMA devices of a family keep the names of their driver; False: unknown, or no family."""
    family = FAMILIES.get(nic or "")
    return family is not None and family.keeps_names
