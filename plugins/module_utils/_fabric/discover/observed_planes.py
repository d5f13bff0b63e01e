# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the NICs that balance over planes in hardware, and replace the netdevs of their planes by one port.

Such a NIC has one RDMA device for all of its planes. The device has a port for each plane, or belongs to a bond of the
functions in the NIC (``mlx5_bond_0``), and then only the first function has it. With software balancing, each plane has
its own RDMA device or port, network and address. Sources: ``tests/recordings/planes/README.md``.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_interfaces import nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors

# Numbers of planes of one NIC.
PLANES = (2, 4, 8)
# Cards whose ports belong to different rails: k8s-launch-kit, pull request 99 (2026-06-24).
_DUAL_PORT = re.compile(r"\b(2|dual)[- ]port\b", re.IGNORECASE)
# The name that mlx5_ib gives to the device of several functions.
_OF_SEVERAL = re.compile(r"mlx5_bond_[0-9]+\Z")


def may_have_planes(nic: Nic) -> bool:
    """Return whether NICs of this model can balance over planes in hardware."""
    vendor, _colon, device = nic.model.partition(":")
    return device in nic_vendors.of_vendor(vendor).plane_devices


def is_dual_port(nic: Nic) -> bool:
    """Return whether the card has two ports for different rails according to its name."""
    return bool(_DUAL_PORT.search(nic.product or ""))


def combined(nics: t.Mapping[str, Nic]) -> dict[str, Nic]:
    """Return the ports of a node by their keys, with one port for all planes of a NIC that balances in hardware.

    :param nics: the ports with their addresses and with the numbers of the ports of shared RDMA devices.
    """
    ports = dict(nics)
    for planes in (*_of_devices(nics.values()), *_of_functions(nics.values())):
        addressed = [nic for nic in planes if nic.addresses or nic.leased]
        beside = {tuple(sorted(nic.near.items())) for nic in planes}
        if len(planes) not in PLANES or len(addressed) > 1 or len(beside) > 1 or any(map(is_dual_port, planes)):
            continue
        port = _port(planes, (addressed or planes)[0])
        for nic in planes:
            del ports[nic.key]
        ports[port.key] = port
    for nic in ports.values():
        if is_bond_of_planes(nic) and len(nic.members) > 2:
            nic.device_planes = len(nic.members)
    return dict(sorted(ports.items()))


def is_bond_of_planes(nic: Nic) -> bool:
    """Return whether the members of a bond may be the planes of a NIC.

    A bond of two can also have the two ports of a card as members.
    """
    return len(nic.members) in PLANES and all(may_have_planes(each) and not is_dual_port(each) for each in nic.members)


def _usable(nic: Nic) -> bool:
    """Return whether a port can be a plane: it is neither a bond nor a VLAN, nor below another interface."""
    return nic.layer == "ethernet" and not (nic.bond or nic.vlan or nic.further or nic.soft or nic.obstacle)


def _of_devices(nics: t.Iterable[Nic]) -> list[list[Nic]]:
    """Return the ports that share an RDMA device, in the order of its ports.

    An older card with two ports has a device with two ports too.
    """
    sharing: dict[str, list[Nic]] = {}
    for nic in nics:
        if nic.rdma and nic.rdma_port and _usable(nic):
            sharing.setdefault(nic.rdma, []).append(nic)
    groups = [sorted(group, key=lambda nic: nic.rdma_port or 0) for group in sharing.values()]
    return [group for group in groups if len(group) > 2 or all(map(may_have_planes, group))]


def _of_functions(nics: t.Iterable[Nic]) -> list[list[Nic]]:
    """Return the functions of cards of which only the first has an RDMA device, in their order."""
    cards: dict[str, list[Nic]] = {}
    for nic in nics:
        if _usable(nic) and not nic.only_netdev:
            cards.setdefault(nic.pci.rpartition(".")[0], []).append(nic)
    groups = [sorted(group, key=lambda nic: nic.pci) for group in cards.values()]
    return [
        group
        for group in groups
        if group[0].rdma
        and (_OF_SEVERAL.match(group[0].rdma) or may_have_planes(group[0]))
        and not any(nic.rdma for nic in group[1:])
    ]


def _port(planes: t.Sequence[Nic], interface: Nic) -> Nic:
    """Return the port of a NIC. ``interface``: the plane whose netdev has the address."""
    leaves = sorted({nic.leaf for nic in planes if nic.leaf})
    carriers = [nic.carrier for nic in planes if nic.carrier is not None]
    return replace(
        interface,
        key=planes[0].key if len({nic.pci for nic in planes}) > 1 else planes[0].pci,
        near=nearest(planes),
        carrier=any(carriers) if carriers else None,
        carries=next((nic.carries for nic in planes if nic.carries), None),
        rdma=planes[0].rdma,
        rdma_port=None,
        leaf=" and ".join(leaves) or None,
        only_netdev=False,
        planes=tuple(planes),
        device_planes=len(planes),
    )
