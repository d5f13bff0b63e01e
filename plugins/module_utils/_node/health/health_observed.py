# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observed state of a rail."""

from __future__ import annotations

import typing as t


class Netdev(t.NamedTuple):
    """An interface. ``ifindex`` differs after the driver was loaded again. ``speed``: Gb/s; None if it is unknown.
    ``link``, ``aggregator``, ``partner``: of a member of a bond: the bond's view of its link, its LACP aggregator, and
    the MAC address of its LACP partner.
    """

    name: str
    ifindex: int
    up: bool
    carrier: bool
    mtu: int
    kind: str | None = None
    master: int | None = None
    speed: float | None = None
    counters: t.Mapping[str, int] = {}
    link: str | None = None
    aggregator: int | None = None
    partner: str | None = None


class Bond(t.NamedTuple):
    """A bond. ``netdev``: None if the node does not have it. ``partner``: of the active LACP aggregator."""

    netdev: Netdev
    mode: str | None
    aggregator: int | None
    partner: str | None


class RdmaPort(t.NamedTuple):
    """A port of an RDMA device. ``state``: such as ``ACTIVE``. ``rate``: Gb/s."""

    state: str
    physical: str
    rate: float | None = None
    counters: t.Mapping[str, int] = {}


class RdmaDevice(t.NamedTuple):
    """An RDMA device. ``identity`` differs after the driver was loaded again. ``pci``: its function; None for soft
    devices. ``netdevs``: of its ports. ``gids``: the addresses that have GIDs of RoCE v2; None: not read.
    """

    name: str
    identity: int
    pci: str | None
    ports: t.Mapping[int, RdmaPort]
    netdevs: frozenset[str] = frozenset()
    gids: frozenset[str] | None = None


class Neighbour(t.NamedTuple):
    """An LLDP neighbour."""

    chassis: str
    port: str
    port_description: str | None
    system: str | None

    def __str__(self) -> str:
        return "%s %s" % (self.system or self.chassis, self.port)


class Observed(t.NamedTuple):
    """A rail as observed.

    :param exists: whether the node has the planned PCI function; True if the plan names none.
    :param interface: the interface of the rail; None without one.
    :param other_name: the interface of the function, if it has another name than planned.
    :param functions, planes: the interfaces of the planned functions and planes, in the order of the plan.
    :param vlan: the ID of a VLAN, and ``parent`` the index below it; None for other interfaces.
    :param bond: the bond below or of the rail. :param rdma: None if the node does not have the planned device.
    :param other_rdma: the RDMA device of the function, if it has another name than planned.
    :param addresses: those of the interface.
    :param neighbours: netdev -> LLDP neighbours; without netdevs of which none is known.
    """

    exists: bool = True
    interface: Netdev | None = None
    other_name: str | None = None
    functions: tuple[Netdev | None, ...] = ()
    planes: tuple[Netdev | None, ...] = ()
    vlan: int | None = None
    parent: int | None = None
    parent_netdev: Netdev | None = None
    bond: Bond | None = None
    rdma: RdmaDevice | None = None
    other_rdma: str | None = None
    addresses: frozenset[str] = frozenset()
    neighbours: t.Mapping[str, tuple[Neighbour, ...]] = {}

    @property
    def netdevs(self) -> dict[str, Netdev]:
        """The interfaces of cables: name -> interface."""
        found = [each for each in (*self.functions, *self.planes) if each]
        return {each.name: each for each in found or ([self.interface] if self.interface else [])}


class Unread(t.NamedTuple):
    """Why a rail could not be observed, with what a user can do. ``held``: a pod may hold it, as planned."""

    reason: str
    remedy: str
    held: bool = False
