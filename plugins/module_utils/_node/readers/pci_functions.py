# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""PCI functions as sysfs shows them: identity, place in the tree, card, and how near two of them are.

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
# The host's side of a VF or SF in switchdev mode, by phys_port_name.
REPRESENTOR = re.compile(r"([cp]\d+)?pf\d+[vs]f\d+\Z")
NVIDIA_NETWORKING = "15b3"
# Nearest first, in the words of 'nvidia-smi topo'.
PROXIMITIES = ("PIX", "PXB", "PHB", "NODE", "SYS")
# Display and 3D controllers, and processing accelerators, of those who make GPUs for computing.
GPU_CLASSES = ("0300", "0302", "0380", "1200")
GPU_VENDORS = {"10de": "nvidia", "1002": "amd", "1da3": "habana", "8086": "intel"}
# GT/s of one lane -> generation
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def attribute(pci: str, name: str) -> str:
    """The path of a function's sysfs attribute."""
    return "%s/%s/%s" % (DEVICES, pci, name)


def hexadecimal(system: System, pci: str, name: str) -> str | None:
    """An identity (``vendor``, ``device``, ``class``) as sysfs has it, without ``0x``."""
    text = system.read(attribute(pci, name))
    return text[2:] if text and text.startswith("0x") else text


def number(system: System, pci: str, name: str) -> int | None:
    return system.read_int(attribute(pci, name))


def numa_node(system: System, pci: str) -> int | None:
    """The NUMA node; None if the firmware reports none to the kernel (sysfs then has -1)."""
    node = number(system, pci, "numa_node")
    return None if node is None or node < 0 else node


def physical_function(system: System, pci: str) -> str | None:
    """A VF's PF; None for another function."""
    return system.link_name(attribute(pci, "physfn"))


def virtual_functions(system: System, pci: str) -> list[str]:
    """A PF's VFs, in the order of their index."""
    links = [name for name in system.listdir("%s/%s" % (DEVICES, pci)) if name.startswith("virtfn")]
    found = [system.link_name(attribute(pci, name)) for name in sorted(links, key=lambda name: int(name[6:]))]
    return [vf for vf in found if vf]


def is_network(system: System, pci: str) -> bool:
    """Whether the function is a network or InfiniBand controller."""
    return (hexadecimal(system, pci, "class") or "").startswith("%02x" % NETWORK_CLASS)


def is_infiniband(system: System, pci: str | None) -> bool:
    """Whether the function's port is InfiniBand's now, also where its netdev is not here to be asked."""
    return (hexadecimal(system, pci, "class") or "").startswith("0207") if pci else False


def network_functions(system: System, vendor: str | None = None) -> list[str]:
    """The network PFs of the node, in the order of their addresses."""
    found = [each for each in system.listdir(DEVICES) if is_network(system, each)]
    found = [each for each in found if vendor is None or hexadecimal(system, each, "vendor") == vendor]
    return [each for each in found if not physical_function(system, each)]


def gpu_functions(system: System) -> list[str]:
    """The GPUs in the order of their PCI addresses, which is their drivers' order."""
    found = []
    for function in system.listdir(DEVICES):
        kind = (hexadecimal(system, function, "class") or "")[:4]
        maker = GPU_VENDORS.get(hexadecimal(system, function, "vendor") or "")
        # Intel's of class 0300 are the processors' own display controllers
        if kind not in GPU_CLASSES or not maker or (kind == "0300" and maker == "intel"):
            continue
        if not physical_function(system, function):
            found.append(function)
    return found


def slot_functions(system: System, pci: str) -> list[str]:
    """The network PFs that are one device with this one: they differ in the last digit alone."""
    slot = pci.rpartition(".")[0] + "."
    return [
        each
        for each in system.listdir(DEVICES)
        if each.startswith(slot) and is_network(system, each) and not physical_function(system, each)
    ]


def rdma_devices(system: System, pci: str) -> list[str]:
    """The RDMA devices that the function's driver made."""
    return system.listdir("%s/%s/infiniband" % (DEVICES, pci))


def of_rdma_device(system: System, name: str) -> str | None:
    """The PCI function whose own RDMA device this is; None for others, such as that of a sub-function."""
    function = system.link_name("/sys/class/infiniband/%s/device" % name) or ""
    return function if is_pci_address(function) else None


def netdevs(system: System, pci: str) -> list[str]:
    """The function's own netdevs in this network namespace: no representors of its VFs, no IPoIB children."""
    names = system.listdir(attribute(pci, "net"))
    for entry in system.listdir("%s/%s" % (DEVICES, pci)) if not names else []:
        if entry.startswith("virtio"):
            names += system.listdir("%s/%s/%s/net" % (DEVICES, pci, entry))
    return [name for name in names if not _is_derived(system, "/sys/class/net/" + name)]


def _is_derived(system: System, netdev: str) -> bool:
    label = system.read(netdev + "/phys_port_name") or ""
    return bool(REPRESENTOR.match(label) or system.read(netdev + "/parent"))


def card_functions(system: System, pci: str) -> list[str]:
    """The network PFs of the whole card.

    A card may sit in two slots (Socket Direct): its functions then have one system image GUID in common.
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
    """The way from the root complex to the function: ``["pci0000:00", "0000:00:01.0", ..., pci]``."""
    parts = system.real_path("%s/%s" % (DEVICES, pci)).split("/")
    return [part for part in parts if part.startswith("pci") or is_pci_address(part)]


def proximity(one: t.Sequence[str], other: t.Sequence[str], one_node: int | None, other_node: int | None) -> str:
    """How near two functions are, from their :func:`path` and NUMA nodes, in the words of ``nvidia-smi topo``.

    ``PIX`` at most one bridge each below what they share (one PCIe switch), ``PXB`` more bridges, ``PHB`` only the
    host bridge shared, ``NODE`` different host bridges of one NUMA node, ``SYS`` different NUMA nodes.
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
    """The chassis' slots: PCI address without the function's digit -> label, as the firmware and the case name it."""
    found: dict[str, str] = {}
    for label in system.listdir(SLOTS):
        address = system.read("%s/%s/address" % (SLOTS, label))
        if address:
            found.setdefault(address, label)
    return found


def slot(way: t.Sequence[str], labels: t.Mapping[str, str]) -> str | None:
    """The slot that a function is in, from its :func:`path` and the :func:`slots`; None where it is in none.

    The slot of a card with a switch of its own is that of the switch.
    """
    for part in reversed(way):
        label = labels.get(part.rpartition(".")[0])
        if label is not None:
            return label
    return None


def link(system: System, pci: str) -> dict[str, t.Any]:
    """The PCIe link, now and at most: speed in GT/s, width in lanes; None where the function has no link of its own."""
    return {
        "speed": _speed(system.read(attribute(pci, "current_link_speed"))),
        "max_speed": _speed(system.read(attribute(pci, "max_link_speed"))),
        "width": _width(number(system, pci, "current_link_width")),
        "max_width": _width(number(system, pci, "max_link_width")),
    }


def generation(speed: float | None) -> int | None:
    """The generation of PCI Express that has this speed in GT/s; None where none has."""
    return None if speed is None else GENERATIONS.get(speed)


def _speed(text: str | None) -> float | None:
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None  # "Unknown" where the slot is empty or virtual


def _width(width: int | None) -> int | None:
    return None if width in (None, 0, 255) else width


def full_address(text: str) -> str:
    """A PCI address as sysfs spells it: in lower case, with the domain that ``lspci`` leaves out."""
    text = text.lower()
    return text if text.count(":") == 2 else "0000:" + text


def is_pci_address(text: str) -> bool:
    """Whether the text is a full PCI address, ``0000:0b:00.0``."""
    return ADDRESS.match(text) is not None
