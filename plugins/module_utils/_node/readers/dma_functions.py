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

import functools
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


def place(system: System, pci: str) -> Place:
    """Return the path of a function from the root complex, and its NUMA node."""
    return pci_functions.path(system, pci), pci_functions.numa_node(system, pci)


class DmaFunctions:
    """The DMA functions of the NICs of a node. Each Vital Product Data is read once, because that is slow.

    :param read_uuid: PCI function -> the UUID in its Vital Product Data; None if it has none.
    """

    def __init__(self, system: System, read_uuid: t.Callable[[str], str | None] | None = None) -> None:
        self._system = system
        self._read_uuid = read_uuid or functools.partial(uuid_of, system)
        self._uuids = {pci: self._read_uuid(pci) for pci in bound(system)}
        self._places: dict[str, list[Place]] = {}

    def of(self, nic: str) -> list[str]:
        """Return the DMA functions of a NIC."""
        uuid = self._read_uuid(nic) if self._uuids else None
        return [pci for pci, each in self._uuids.items() if uuid and each == uuid]

    def places(self, nic: str) -> list[Place]:
        """Return the place of a NIC, then the places of its DMA functions."""
        if nic not in self._places:
            self._places[nic] = [place(self._system, each) for each in (nic, *self.of(nic))]
        return self._places[nic]

    def rows(self, nics: t.Iterable[str], gpus: t.Sequence[Row]) -> list[Row]:
        """Return a row per DMA function that the driver of a NIC is bound to, in the order of their PCI addresses.

        :param nics: PCI functions of NICs.
        :param gpus: rows with ``index`` and ``pci``.
        """
        owners = {nic: self.of(nic) for nic in sorted(set(nics))}
        places = {row["index"]: place(self._system, row["pci"]) for row in gpus}
        found = []
        for pci in self._uuids:
            own = place(self._system, pci)
            near = {index: proximity([own], each) for index, each in places.items()}
            best = min(near.values(), key=pci_functions.PROXIMITIES.index) if near else None
            found.append(
                {
                    "pci": pci,
                    "kind": DATA_DIRECT,
                    "pci_path": own[0],
                    "numa_node": own[1],
                    "nics": [nic for nic, functions in owners.items() if pci in functions],
                    "gpus": [index for index, each in near.items() if each == best],
                    "gpu_proximity": best,
                }
            )
        return found


def proximity(places: t.Iterable[Place], gpu: Place) -> str:
    """Return the proximity of a GPU and the nearest of the places of a NIC."""
    found = [pci_functions.proximity(path, gpu[0], node, gpu[1]) for path, node in places]
    return min(found, key=pci_functions.PROXIMITIES.index)
