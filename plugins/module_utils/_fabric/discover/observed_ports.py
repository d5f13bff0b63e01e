# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ports of a node with the facts that discovery compares."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Bond, Vlan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network

Row = t.Mapping[str, t.Any]


class PortAddress(t.NamedTuple):
    """An address of a port, and its network."""

    address: int
    net: Network


class Route(t.NamedTuple):
    """A route. ``to``: None for a default route. ``table``: None for the main table."""

    to: Network | None
    via: int | None
    table: int | None
    bits: int


@dataclass
class Nic:
    """One port of a node: a function, or a bond or VLAN over functions.

    :param key: identifies it among the ports of the node: ``pci``, with the netdev if the function has several ports.
    :param pci: the function, of a bond the first one.
    :param netdev: the interface.
    :param card: serial number or PCI device, which all functions of a card have in common.
    :param family: the name of the family of NICs, if the vendor has one.
    :param near: index of a GPU -> how near it is.
    :param speed: in Gb/s, of each function.
    :param mtu: in bytes.
    :param carries: why it must not be touched.
    :param soft: the type of its soft RDMA device.
    :param rdma_port: the number of its port of the RDMA device, if other ports of the node have that device too.
    :param vfs: the attributes of each VF.
    :param leased: family -> a temporary address.
    :param routes: the routes that were configured.
    :param routed: whether it has a default route in the main table, also one that was not configured.
    :param table, priority: of the routing table that rules select.
    :param only_netdev: whether only the netdev identifies it, because its function has several.
    :param bond: without the names of its members, in which nodes may differ; its primary is a PCI address.
    :param members: the functions of the bond.
    :param planes: the ports of the planes over which the NIC balances in hardware, in their order, without the members
        of a bond.
    :param device_planes: the number of planes over which the NIC balances in hardware; 1 without.
    :param product: the name of the card.
    :param parent: the netdev below the VLAN.
    :param further: whether it is a VLAN beside another port with the same functions.
    :param managed: whether Railyard has made its bond and VLAN.
    :param obstacle: why it cannot be a rail port as it is.
    """

    key: str
    pci: str
    netdev: str | None
    model: str
    layer: str
    card: str
    near: dict[int, str]
    family: str | None = None
    slot: str | None = None
    speed: int | None = None
    mtu: int | None = None
    carrier: bool | None = None
    carries: str | None = None
    rdma: str | None = None
    soft: str | None = None
    rdma_port: int | None = None
    vfs: list[Row] = field(default_factory=list)
    addresses: dict[int, PortAddress] = field(default_factory=dict)
    leased: dict[int, str] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)
    routed: bool = False
    table: int | None = None
    priority: int | None = None
    leaf: str | None = None
    pcie: tuple[int, int] | None = None
    only_netdev: bool = False
    bond: Bond | None = None
    members: tuple[Nic, ...] = ()
    planes: tuple[Nic, ...] = ()
    device_planes: int = 1
    product: str | None = None
    vlan: Vlan | None = None
    parent: str | None = None
    further: bool = False
    managed: bool = True
    obstacle: str | None = None

    @property
    def function_netdev(self) -> str | None:
        """The netdev of the function; None for a bond, which has several."""
        return None if self.bond else self.parent or self.netdev

    @property
    def hidden(self) -> bool:
        """Return whether the port is not visible: a pod or a virtual machine uses it, or its driver is missing."""
        return self.netdev is None and self.rdma is None

    @property
    def has_rdma(self) -> bool:
        """Return whether the port has a hardware RDMA device."""
        return self.rdma is not None and self.soft is None
