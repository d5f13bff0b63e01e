# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What manifests and pages say, kind by kind, before anything is made of it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Place

SPIDERPOOL, NETWORK_OPERATOR, CNI = "spiderpool", "network-operator", "cni"


@dataclass(frozen=True)
class Net:
    """An IP network; ``version`` is 4 or 6, ``first`` its address as a number."""

    version: int
    first: int
    prefix: int

    @property
    def bits(self) -> int:
        return 32 if self.version == 4 else 128

    @property
    def last(self) -> int:
        return self.first + (1 << self.bits - self.prefix) - 1

    @property
    def usable(self) -> tuple[int, int]:
        """The first and the last address that a port can have.

        Unless the network is a link, its first is its own, or means any of its routers (RFC 4291), and the last of
        IPv4 is the broadcast address.
        """
        if self.prefix >= self.bits - 1:
            return self.first, self.last
        return self.first + 1, self.last - (self.version == 4)

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last


class Claim(t.NamedTuple):
    """Addresses that an object can allocate or has allocated."""

    version: int
    first: int
    last: int
    # the object, as people know it
    owner: str = ""


@dataclass
class Pool:
    """Addresses for pods. ``runs``: its ranges, sorted and apart. ``nodes``: the only nodes that it is for."""

    place: Place
    name: str
    net: Net | None
    kind: str = ""
    runs: list[tuple[int, int]] = field(default_factory=list)
    # addresses of its network that it keeps from pods, by name
    excluded: list[tuple[int, int]] = field(default_factory=list)
    gateway: int | None = None
    nodes: list[str] = field(default_factory=list)
    # where its routes lead, and addresses of its network beside the gateway that they go over
    routes: list[str] = field(default_factory=list)
    routers: list[int] = field(default_factory=list)
    multus: list[str] = field(default_factory=list)
    # the prefix length of a pool that is divided by node
    node_prefix: int | None = None
    # of such a pool: the places in every node's network that pods do not get, first and last, from 0
    left_out: list[tuple[int, int]] = field(default_factory=list)
    # of a pool that is cut into blocks: a block's addresses
    block: int | None = None
    # nodes with a network of their own choice: its text
    static: dict[str, str] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether it is a part of a network's configuration, and no object of its own."""
        return "#" in self.name

    @property
    def label(self) -> str:
        """What people know it by: its own name, or that of the network that it is a part of."""
        return self.name.partition("#")[0]


@dataclass
class Network:
    """One attachment of pods. ``vfs``: attributes as the fabric file has them."""

    place: Place
    kind: str
    namespace: str
    name: str
    attachment: str
    masters: list[str] = field(default_factory=list)
    resource: str | None = None
    pools: list[str] = field(default_factory=list)
    mtu: int | None = None
    isolated: bool | None = None
    match_master: bool = False
    vfs: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class Device:
    """A resource and the ports behind it. ``shared``: many pods have one port; else each has a VF."""

    place: Place
    resource: str
    shared: bool
    netdevs: list[str] = field(default_factory=list)
    pci: list[str] = field(default_factory=list)
    vfs: int | None = None
    mtu: int | None = None
    link: str | None = None


@dataclass
class Ask:
    """What a pod asks for: networks as (namespace, name), and resources."""

    place: Place
    networks: list[tuple[str, str]] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


@dataclass
class HostPort:
    """What a shell line gives a port of a node."""

    place: Place
    netdev: str
    address: int | None = None
    prefix: int | None = None
    gateway: int | None = None
    mtu: int | None = None


@dataclass
class Facts:
    pools: list[Pool] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    host_ports: list[HostPort] = field(default_factory=list)
    # reserved addresses: name -> (IP version, first, last)
    taken: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    # networks that no rail may overlap
    reserved: dict[str, str] = field(default_factory=dict)
    # number of a pod's interface -> the network on it, as a page's route table shows
    routes: dict[int, Net] = field(default_factory=dict)
    # networks of the whole fabric, as shell lines and routes name them
    supernets: list[Net] = field(default_factory=list)
    # nodes that manifests name, and those that a page only mentions
    nodes: list[str] = field(default_factory=list)
    mentioned: list[str] = field(default_factory=list)
    providers: dict[str, int] = field(default_factory=dict)
    qos: dict[str, t.Any] = field(default_factory=dict)
    # settings of the NICs' firmware and of PCI, link types (eth, ib), and the kind of the driver
    firmware: dict[str, t.Any] = field(default_factory=dict)
    pci: dict[str, t.Any] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    driver: str | None = None
    # the address managers that networks name
    managers: set[str] = field(default_factory=set)
    # addresses that objects can give or have given
    claims: list[Claim] = field(default_factory=list)
    manifests: int = 0

    def provider(self, name: str) -> None:
        """One more sign of this provider."""
        self.providers[name] = self.providers.get(name, 0) + 1
