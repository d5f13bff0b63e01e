# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""DMA functions of NICs: PCI functions that only access memory, such as the Data Direct function of a ConnectX-8.

They have no network and no RDMA device. On a GB300, a NIC transfers GPU memory by its DMA function, which shares the
host bridge with the GPU, while the NIC uses another one: NVIDIA's "Grace Blackwell CX8 GPUDirect RDMA guide",
"Platform Software and Configuration". So the nearer of both gives the distance from a GPU to a NIC.

The RDMA driver of the NIC is bound to them, and matches them with the NIC by a UUID: ``mlx5_data_direct_pci_table`` of
the kernel's ``drivers/infiniband/hw/mlx5/data_direct.c``. ``rdma_topo`` of rdma-core (commit 691953d8d) compares the
field ``V3`` of the Vital Product Data of both.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions, vpd

DATA_DIRECT = "data-direct"
Row = t.Dict[str, t.Any]
Place = t.Tuple[t.List[str], t.Optional[int]]


def is_one(system: System, pci: str) -> bool:
    """Return whether a PCI function is the DMA function of a NIC."""
    kinds = nic_vendors.of_function(system, pci).acs_devices
    return bool(kinds) and pci_functions.hexadecimal(system, pci, "device") in kinds


def bound(system: System) -> list[str]:
    """Return the DMA functions that the driver of a NIC is bound to, in the order of their PCI addresses."""
    vendors = [vendor for vendor in nic_vendors.every() if vendor.acs_devices and vendor.rdma_module]
    found = {each for vendor in vendors for each in system.listdir("/sys/bus/pci/drivers/%s" % vendor.rdma_module)}
    return sorted(each for each in found if pci_functions.is_pci_address(each) and is_one(system, each))


def uuid_of(system: System, pci: str) -> str | None:
    """Return the UUID in the Vital Product Data of a NIC or DMA function; None if it has none."""
    card = vpd.read(system, pci_functions.attribute(pci, "vpd"))
    return card.uuid if card else None


def by_uuid(system: System) -> dict[str, list[str]]:
    """Return UUID of a NIC -> its DMA functions; empty on most nodes, at the cost of one directory."""
    found: dict[str, list[str]] = {}
    for pci in bound(system):
        uuid = uuid_of(system, pci)
        if uuid:
            found.setdefault(uuid, []).append(pci)
    return found


def place(system: System, pci: str) -> Place:
    """Return the path of a function from the root complex, and its NUMA node."""
    return pci_functions.path(system, pci), pci_functions.numa_node(system, pci)


class NicPlaces:
    """The places of NICs and of their DMA functions. Each Vital Product Data is read once, because that is slow."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._by_uuid = by_uuid(system)
        self._found: dict[str, list[Place]] = {}

    def of(self, nic: str) -> list[Place]:
        """Return the place of a NIC, and those of its DMA functions."""
        if nic not in self._found:
            more = self._by_uuid.get(uuid_of(self._system, nic) or "", []) if self._by_uuid else []
            self._found[nic] = [place(self._system, each) for each in (nic, *more)]
        return self._found[nic]


def proximity(places: t.Iterable[Place], gpu: Place) -> str:
    """Return the proximity of a GPU and the nearest of these places, those of a NIC and of its DMA functions."""
    found = [pci_functions.proximity(path, gpu[0], node, gpu[1]) for path, node in places]
    return min(found, key=pci_functions.PROXIMITIES.index)


def look(system: System, nics: t.Sequence[Row], uuids: t.Mapping[str, str | None], gpus: t.Sequence[Row]) -> list[Row]:
    """Return a row per DMA function that the driver of a NIC is bound to, in the order of their PCI addresses.

    :param nics: rows of ``nics``.
    :param uuids: PCI function of a NIC -> the UUID in its Vital Product Data.
    :param gpus: rows with ``index``, ``pci`` and ``numa_node``.
    """
    found = []
    for pci in bound(system) if nics else ():
        path, numa_node = place(system, pci)
        near = {
            row["index"]: pci_functions.proximity(
                path, pci_functions.path(system, row["pci"]), numa_node, row["numa_node"]
            )
            for row in gpus
        }
        best = min(near.values(), key=pci_functions.PROXIMITIES.index) if near else None
        uuid = uuid_of(system, pci)
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
