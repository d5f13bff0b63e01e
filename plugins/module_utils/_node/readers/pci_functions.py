# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI functions in sysfs: identity, path in the tree, card, and distance of two functions.

Source: the kernel's ``Documentation/ABI/testing/sysfs-bus-pci``.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DEVICES = "/sys/bus/pci/devices"
SLOTS = "/sys/bus/pci/slots"
NETWORK_CLASS = 0x02
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
# The phys_port_name of the representor of a VF or SF in switchdev mode.
REPRESENTOR = re.compile(r"([cp]\d+)?pf\d+[vs]f\d+\Z")
# Nearest first, in the terms of 'nvidia-smi topo'.
PROXIMITIES = ("PIX", "PXB", "PHB", "NODE", "SYS")
# Classes of display and 3D controllers and processing accelerators, and vendors of compute GPUs.
GPU_CLASSES = ("0300", "0302", "0380", "1200")
AMD = "1002"
GPU_VENDORS = {"10de": "nvidia", AMD: "amd", "1da3": "habana", "8086": "intel"}
# GT/s of one lane -> generation
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def attribute(pci: str, name: str) -> str:
    """Return the path of a function's sysfs attribute."""
    return "%s/%s/%s" % (DEVICES, pci, name)


def hexadecimal(system: System, pci: str, name: str) -> str | None:
    """Return an identity (``vendor``, ``device``, ``class``) without ``0x``; None if it does not exist."""
    text = system.read(attribute(pci, name))
    return text[2:] if text and text.startswith("0x") else text


def number(system: System, pci: str, name: str) -> int | None:
    return system.read_int(attribute(pci, name))


def numa_node(system: System, pci: str) -> int | None:
    """Return the NUMA node; None if the firmware reports none (-1 in sysfs)."""
    node = number(system, pci, "numa_node")
    return None if node is None or node < 0 else node


def physical_function(system: System, pci: str) -> str | None:
    """Return the PCI address of a VF's PF; None for other functions."""
    return system.link_name(attribute(pci, "physfn"))


def virtual_functions(system: System, pci: str) -> list[str]:
    """Return the PCI addresses of a PF's VFs, sorted by index."""
    links = [name for name in system.listdir("%s/%s" % (DEVICES, pci)) if name.startswith("virtfn")]
    found = [system.link_name(attribute(pci, name)) for name in sorted(links, key=lambda name: int(name[6:]))]
    return [vf for vf in found if vf]


def is_network(system: System, pci: str) -> bool:
    """Return whether the function is a network or InfiniBand controller."""
    return (hexadecimal(system, pci, "class") or "").startswith("%02x" % NETWORK_CLASS)


def is_infiniband(system: System, pci: str | None) -> bool:
    """Return whether the function's port is in InfiniBand mode, also if its netdev is in another network namespace."""
    return (hexadecimal(system, pci, "class") or "").startswith("0207") if pci else False


def network_functions(system: System, vendor: str | None = None) -> list[str]:
    """Return the PCI addresses of the node's network PFs, sorted."""
    found = [each for each in system.listdir(DEVICES) if is_network(system, each)]
    found = [each for each in found if vendor is None or hexadecimal(system, each, "vendor") == vendor]
    return [each for each in found if not physical_function(system, each)]


def gpu_functions(system: System) -> list[str]:
    """Return the PCI addresses of the GPUs in the order in which their drivers number them: sorted or, if AMD makes all
    of them, in the order of :func:`.amd_gpus.numbers`.
    """
    found, makers = [], set()
    for function in system.listdir(DEVICES):
        kind = (hexadecimal(system, function, "class") or "")[:4]
        maker = GPU_VENDORS.get(hexadecimal(system, function, "vendor") or "")
        # Intel's functions of class 0300 are display controllers of processors
        if kind not in GPU_CLASSES or not maker or (kind == "0300" and maker == "intel"):
            continue
        if not physical_function(system, function):
            found.append(function)
            makers.add(maker)
    if makers == {"amd"}:
        from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import amd_gpus

        order = amd_gpus.numbers(system)
        found.sort(key=lambda each: order.get(each, float("inf")))
    return found


def slot_functions(system: System, pci: str) -> list[str]:
    """Return the network PFs of the same device: their addresses differ only in the function number."""
    slot = pci.rpartition(".")[0] + "."
    return [
        each
        for each in system.listdir(DEVICES)
        if each.startswith(slot) and is_network(system, each) and not physical_function(system, each)
    ]


def rdma_devices(system: System, pci: str) -> list[str]:
    """Return the names of the function's RDMA devices.

    Sub-devices for management datagrams only (SMI, on InfiniBand with planes) are omitted: they have no verbs
    (``ib_uverbs_add_one()`` of the kernel's ``drivers/infiniband/core/uverbs_main.c``).
    """
    found = system.listdir("%s/%s/infiniband" % (DEVICES, pci))
    if len(found) < 2:
        return found
    place = attribute(pci, "infiniband_verbs")
    verbs = {system.read("%s/%s/ibdev" % (place, each)) for each in system.listdir(place)}
    return [name for name in found if name in verbs] or found


def of_rdma_device(system: System, name: str) -> str | None:
    """Return the PCI function of an RDMA device; None for others, such as that of a sub-function."""
    function = system.link_name("/sys/class/infiniband/%s/device" % name) or ""
    return function if is_pci_address(function) else None


def netdevs(system: System, pci: str) -> list[str]:
    """Return the function's netdevs in this network namespace, without representors of VFs and IPoIB children."""
    names = system.listdir(attribute(pci, "net"))
    for entry in system.listdir("%s/%s" % (DEVICES, pci)) if not names else []:
        if entry.startswith("virtio"):
            names += system.listdir("%s/%s/%s/net" % (DEVICES, pci, entry))
    return [name for name in names if not _is_derived(system, name)]


def is_representor(system: System, netdev: str) -> bool:
    """Return whether a netdev represents a VF or SF in switchdev mode."""
    return bool(REPRESENTOR.match(system.read("/sys/class/net/%s/phys_port_name" % netdev) or ""))


def _is_derived(system: System, netdev: str) -> bool:
    return is_representor(system, netdev) or bool(system.read("/sys/class/net/%s/parent" % netdev))


def card_functions(system: System, pci: str) -> list[str]:
    """Return the network PFs of the whole card.

    A card may be in two slots (Socket Direct): its functions then have the same system image GUID.
    """
    found = slot_functions(system, pci) or [pci]
    image = {guid for each in found for guid in _image_guids(system, each)}
    if image:
        for each in network_functions(system):
            if each not in found and image.intersection(_image_guids(system, each)):
                found.append(each)
    return sorted(found)


def _image_guids(system: System, pci: str) -> list[str]:
    guids = [system.read("/sys/class/infiniband/%s/sys_image_guid" % name) for name in rdma_devices(system, pci)]
    return [guid for guid in guids if guid and guid.strip("0:")]


def path(system: System, pci: str) -> list[str]:
    """Return the path from the root complex to the function: ``["pci0000:00", "0000:00:01.0", ..., pci]``."""
    parts = system.real_path("%s/%s" % (DEVICES, pci)).split("/")
    return [part for part in parts if part.startswith("pci") or is_pci_address(part)]


def proximity(one: t.Sequence[str], other: t.Sequence[str], one_node: int | None, other_node: int | None) -> str:
    """Return the distance of two functions in the terms of ``nvidia-smi topo``, from their :func:`path` and NUMA nodes.

    ``PIX``: at most one bridge each below the shared part (one PCIe switch). ``PXB``: more bridges. ``PHB``: only the
    host bridge is shared. ``NODE``: different host bridges of one NUMA node. ``SYS``: different NUMA nodes.
    """
    shared = 0
    for left, right in zip(one, other):
        if left != right:
            break
        shared += 1
    if shared > 1:
        between = max(len(one), len(other)) - shared - 1
        return "PIX" if between <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    return "NODE" if one_node == other_node else "SYS"


def slots(system: System) -> dict[str, str]:
    """Return the chassis' slots: PCI address without function number -> label of the firmware."""
    found: dict[str, str] = {}
    for label in system.listdir(SLOTS):
        address = system.read("%s/%s/address" % (SLOTS, label))
        if address:
            found.setdefault(address, label)
    return found


def slot(way: t.Sequence[str], labels: t.Mapping[str, str]) -> str | None:
    """Return the slot of a function, from its :func:`path` and the :func:`slots`; None if it is in none.

    The slot of a card with a PCIe switch is that of the switch.
    """
    for part in reversed(way):
        label = labels.get(part.rpartition(".")[0])
        if label is not None:
            return label
    return None


def link(system: System, pci: str) -> dict[str, t.Any]:
    """Return present and maximum ``speed`` in GT/s and ``width`` in lanes of the PCIe link; None without link."""
    return {
        "speed": _speed(system.read(attribute(pci, "current_link_speed"))),
        "max_speed": _speed(system.read(attribute(pci, "max_link_speed"))),
        "width": _width(number(system, pci, "current_link_width")),
        "max_width": _width(number(system, pci, "max_link_width")),
    }


def generation(speed: float | None) -> int | None:
    """Return the generation of PCI Express with this speed in GT/s; None if unknown."""
    return None if speed is None else GENERATIONS.get(speed)


def _speed(text: str | None) -> float | None:
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None  # "Unknown" if the slot is empty or virtual


def _width(width: int | None) -> int | None:
    return None if width in (None, 0, 255) else width


def full_address(text: str) -> str:
    """Return a PCI address in the form of sysfs: in lower case, with the domain that ``lspci`` leaves out."""
    text = text.lower()
    return text if text.count(":") == 2 else "0000:" + text


def is_pci_address(text: str) -> bool:
    """Return whether the text is a full PCI address, such as ``0000:0b:00.0``."""
    return ADDRESS.match(text) is not None
