# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""DMA functions of NICs: PCI functions that only access memory, such as the Data Direct function of a ConnectX-8.

They have no network and no RDMA device. The RDMA driver of the NIC is bound to them, and matches them with the NIC by a
UUID: ``mlx5_data_direct_pci_table`` of the kernel's ``drivers/infiniband/hw/mlx5/data_direct.c``. ``rdma_topo`` of
rdma-core (commit 691953d8d) compares the field ``V3`` of the Vital Product Data of both.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions, vpd

DATA_DIRECT = "data-direct"
Row = t.Dict[str, t.Any]


def is_one(system: System, pci: str) -> bool:
    """Return whether a PCI function is the DMA function of a NIC."""
    kinds = nic_vendors.of_function(system, pci).acs_devices
    return bool(kinds) and pci_functions.hexadecimal(system, pci, "device") in kinds


def look(system: System, nics: t.Sequence[Row], uuids: t.Mapping[str, str | None], gpus: t.Sequence[Row]) -> list[Row]:
    """Return a row per DMA function that the driver of a NIC is bound to, in the order of their PCI addresses.

    :param nics: rows of ``nics``.
    :param uuids: PCI function of a NIC -> the UUID in its Vital Product Data.
    :param gpus: rows with ``index``, ``pci`` and ``numa_node``.
    """
    vendors = [vendor for vendor in nic_vendors.every() if vendor.acs_devices and vendor.rdma_module]
    if not nics:
        return []
    bound = {
        each for vendor in vendors for each in system.listdir("/sys/bus/pci/drivers/%s" % vendor.rdma_module)
    }  # fmt: skip
    found = []
    for pci in sorted(each for each in bound if pci_functions.is_pci_address(each) and is_one(system, each)):
        path, numa_node = pci_functions.path(system, pci), pci_functions.numa_node(system, pci)
        card = vpd.read(system, pci_functions.attribute(pci, "vpd"))
        near = {
            row["index"]: pci_functions.proximity(
                path, pci_functions.path(system, row["pci"]), numa_node, row["numa_node"]
            )
            for row in gpus
        }
        best = min(near.values(), key=pci_functions.PROXIMITIES.index) if near else None
        uuid = card.uuid if card else None
        found.append(
            {
                "pci": pci,
                "kind": DATA_DIRECT,
                "pci_path": path,
                "numa_node": numa_node,
                "nics": sorted({row["pci"] for row in nics if uuid and uuids.get(row["pci"]) == uuid}),
                "gpus": [index for index, proximity in near.items() if proximity == best],
                "gpu_proximity": best,
            }
        )
    return found
