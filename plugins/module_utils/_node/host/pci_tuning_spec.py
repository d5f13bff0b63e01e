# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec of PCI settings of rail ports: read from a module's options, and resolved on the node."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import dma_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions as pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_config import SIZES
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference

LEAVE, DISABLED = "leave", "disabled"

SIZE_SPEC = {"type": "int", "choices": list(SIZES)}
EXPECT_SPEC = {
    "pcie_gen": {"type": "int"},
    "pcie_lanes": {"type": "int"},
    "gpu_distance": {"type": "str"},
    "speed": {"type": "raw"},
    "width": {"type": "raw"},
}
PORT_SPEC = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "gpus": {"type": "list", "elements": "int", "default": []},
    "max_read_request": SIZE_SPEC,
    "expect": {"type": "dict", "options": EXPECT_SPEC},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
    "gpus": {"type": "dict", "default": {}},
    "acs": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
    "max_read_request": SIZE_SPEC,
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Port(t.NamedTuple):
    """One rail port. ``place``: the place of its options. ``gpus``: (number, PCI address) of its GPUs."""

    place: str
    pci: str
    netdev: str | None
    gpus: list[tuple[str, str]]
    max_read_request: int | None
    expect: dict[str, t.Any]


class PciSpec:
    """The options, resolved to PCI addresses. Raises all errors together.

    ``missing``: a text for each GPU of the plan that is not on the bus. The settings of other GPUs are applied all the
    same.
    """

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        self._system = system
        self.acs = options.get("acs") or LEAVE
        self.missing: list[str] = []
        self._known = {str(number): address for number, address in (options.get("gpus") or {}).items()}
        self._size = options.get("max_read_request")
        self._found = pci.gpu_functions(system)
        self._nics = dma_functions.DmaFunctions(system)
        errors: list[RailyardError] = []
        self._check_size(self._size, "max_read_request", errors)
        self.ports: list[Port] = []
        given = options.get("ports") or []
        if not given and options.get("state") == "gathered":
            self.ports = [self._nearest(function) for function in pci.network_functions(system)]
        for number, each in enumerate(given):
            port = self._port("ports[%d]" % number, each, errors)
            twice = [other for other in self.ports if port and other.pci == port.pci]
            if twice and port:
                message = "%s is given already in %s" % (port.pci, twice[0].place)
                errors.append(RailyardError(message, port.place, "give each port once"))
            elif port:
                self.ports.append(port)
        raise_all(errors)

    def _port(self, place: str, options: t.Mapping[str, t.Any], errors: list[RailyardError]) -> Port | None:
        before = len(errors)
        size = options.get("max_read_request")
        self._check_size(size, place + ".max_read_request", errors)
        function = self._function(place, options, errors)
        gpus = [self._gpu(str(number), place + ".gpus", errors) for number in options.get("gpus") or []]
        expect = {key: value for key, value in (options.get("expect") or {}).items() if value is not None}
        if expect.get("gpu_distance", pci.PROXIMITIES[0]) not in pci.PROXIMITIES:
            text = "%r is not a distance" % expect["gpu_distance"]
            errors.append(RailyardError(text, place + ".expect", "give one of " + ", ".join(pci.PROXIMITIES)))
        if len(errors) > before or function is None:
            return None
        known = [gpu for gpu in gpus if gpu]
        return Port(place, function, options.get("netdev"), known, size or self._size, expect)

    def _function(self, place: str, options: t.Mapping[str, t.Any], errors: list[RailyardError]) -> str | None:
        before = len(errors)
        reference = port_reference.read(options, place, errors)
        if len(errors) > before:
            return None
        try:
            return port_reference.physical_function_of(self._system, reference)
        except RailyardError as error:
            errors.append(error)
            return None

    def _gpu(self, number: str, place: str, errors: list[RailyardError]) -> tuple[str, str] | None:
        address = self._known.get(number)
        if address:
            address = pci.full_address(str(address))
            if self._system.exists("%s/%s" % (pci.DEVICES, address)):
                return number, address
            self.missing.append("GPU %s, %s, is not on the PCI bus" % (number, address))
            return None
        if not number.isdigit():
            errors.append(RailyardError("%r is not a GPU number" % number, place, "give numbers, from 0"))
        elif int(number) < len(self._found):
            # without an address in the plan, GPUs are numbered by PCI address, as by their drivers
            return number, self._found[int(number)]
        else:
            self.missing.append("GPU %s is not on the PCI bus, which has %d GPUs" % (number, len(self._found)))
        return None

    def _nearest(self, function: str) -> Port:
        distances = {gpu: self.distance(function, gpu) for gpu in self._found}
        best = min(distances.values(), key=pci.PROXIMITIES.index) if distances else None
        near = [(str(number), gpu) for number, gpu in enumerate(self._found) if distances[gpu] == best]
        netdevs = self._system.listdir(pci.attribute(function, "net"))
        return Port(function, function, netdevs[0] if netdevs else None, near, None, {})

    def distance(self, nic: str, gpu: str) -> str:
        """Return the distance from a GPU to a NIC or its DMA function, in the terms of ``nvidia-smi topo``."""
        return dma_functions.proximity(self._nics.places(nic), dma_functions.place(self._system, gpu))

    def bridges(self, nic: str, gpu: str) -> list[str]:
        """Return the bridges on the way from a GPU to a NIC and to its DMA functions, see :func:`between`."""
        gpu_path = pci.path(self._system, gpu)
        return [bridge for path, _numa_node in self._nics.places(nic) for bridge in between(path, gpu_path)]

    @staticmethod
    def _check_size(size: int | None, place: str, errors: list[RailyardError]) -> None:
        if size is not None and size not in SIZES:
            known = ", ".join(str(each) for each in SIZES)
            errors.append(RailyardError("%d is not a size of a read request" % size, place, "give one of " + known))


def between(one: t.Sequence[str], other: t.Sequence[str]) -> list[str]:
    """Return the bridges on the way between two functions whose ACS matters, from their :func:`.pci.path`.

    These are the bridges below the shared part of the paths, on both sides. Empty if they share no host bridge, because
    such transfers pass the processors with any ACS setting.
    """
    shared = 0
    for left, right in zip(one, other):
        if left != right:
            break
        shared += 1
    if not shared:
        return []
    return list(one[shared:-1]) + list(other[shared:-1])
