# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts read from manifests and pages, before rails are derived from them, and facts that a user gives."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.node_selectors import ALL, Selector
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, Range


class Options(t.NamedTuple):
    """Facts that are not in manifests. ``nodes``: names or ranges, with their keys as in a fabric file.

    ``provider``: provider of the fabric file, if it differs from the provider of the manifests.
    """

    name: str | None = None
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None
    profile: str = "server"
    mtu: int | None = None
    provider: str | None = None


SPIDERPOOL, NETWORK_OPERATOR, CNI = "spiderpool", "network-operator", "cni"


class Claim(t.NamedTuple):
    """Addresses that an object can allocate or has allocated."""

    range: Range
    # kind and name of the object
    owner: str = ""
    # whether a pod, or a node for its pods, has them at this time
    allocated: bool = False


class PoolObject(t.NamedTuple):
    """The object that contains a pool. ``resource``: as kubectl names it. ``field``: dotted path of the exclusions, or
    of the JSON text that contains them. ``text``: that JSON text. ``excluded``: the exclusions, as they are written.
    """

    resource: str
    namespace: str
    name: str
    field: str
    text: str = ""
    excluded: tuple[t.Any, ...] = ()


@dataclass
class Pool:
    """Addresses for pods. ``ranges``: sorted and disjoint. ``nodes``: nodes that it is limited to, empty for all."""

    place: Place
    name: str
    net: Network | None
    kind: str = ""
    ranges: list[Range] = field(default_factory=list)
    # addresses of its network that it explicitly excludes
    excluded: list[Range] = field(default_factory=list)
    gateway: int | None = None
    nodes: list[str] = field(default_factory=list)
    # destinations of its routes, and their gateways in its network other than ``gateway``
    routes: list[str] = field(default_factory=list)
    routers: list[int] = field(default_factory=list)
    multus: list[str] = field(default_factory=list)
    # prefix length of each node's part, for a pool that is divided by node
    node_prefix: int | None = None
    # offsets in each node's part that pods do not get, as (first, last), from 0
    left_out: list[tuple[int, int]] = field(default_factory=list)
    # addresses per block, for a pool that is divided into blocks
    block: int | None = None
    # node -> network that the manifest assigns to it, as text
    static: dict[str, str] = field(default_factory=dict)
    selector: Selector = ALL
    # the object to change if its owner must not allocate some addresses
    object: PoolObject | None = None
    # whether the manifests contain the addresses that it has allocated; None: those of its address manager, or unknown
    live: bool | None = None
    manager: str = ""

    @property
    def inline(self) -> bool:
        """Return whether it is part of a network's configuration and not an object."""
        return "#" in self.name

    @property
    def label(self) -> str:
        """Return the name to show: its own name, or the name of the network that it is part of."""
        return self.name.partition("#")[0]


@dataclass
class PodNetwork:
    """One network of pods. ``vfs``: VF attributes, keyed as in the fabric file."""

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
    # VLAN of the interface above the port, which the master is, and its name if it is not PORT.VLAN
    vlan: int | None = None
    vlan_name: str | None = None
    vfs: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class Device:
    """A resource of a device plugin and its ports. ``shared``: pods share the port; otherwise, each pod gets a VF.

    ``vf_range``: the VFs that it selects, such as ``5-9``; None: all. ``driver``: the kind of driver of its VFs if pods
    get no netdev from it, such as ``vfio-pci``.
    """

    place: Place
    resource: str
    shared: bool
    netdevs: list[str] = field(default_factory=list)
    pci: list[str] = field(default_factory=list)
    vfs: int | None = None
    mtu: int | None = None
    link: str | None = None
    vf_range: str | None = None
    driver: str | None = None
    nodes: Selector = ALL
    # the ConfigMap that contains it, which a DaemonSet may use on some nodes only
    config_map: str | None = None
    # the name of its SriovNetworkNodePolicy
    policy: str = ""


@dataclass
class HostInterface:
    """A network interface of nodes, from a file or manifest that configures it or reports its state.

    ``nodes``: the nodes that have it; ``ALL`` if the source does not say. ``addresses``: (number, prefix length, bits).
    ``link``: ``eth`` or ``ib``. ``members``: of a bond, by netdev. ``bond``: keys of the fabric file's ``bond``.
    ``parent``, ``vlan``: of a VLAN.
    """

    place: Place
    name: str
    nodes: Selector = ALL
    addresses: list[tuple[int, int, int]] = field(default_factory=list)
    mtu: int | None = None
    link: str | None = None
    mac: str | None = None
    pci: str | None = None
    rdma: str | None = None
    members: list[str] = field(default_factory=list)
    bond: dict[str, t.Any] = field(default_factory=dict)
    parent: str | None = None
    vlan: int | None = None


@dataclass
class Ask:
    """The requests of a pod: networks as (namespace, name), and resources."""

    place: Place
    networks: list[tuple[str, str]] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


@dataclass
class Facts:
    pools: list[Pool] = field(default_factory=list)
    networks: list[PodNetwork] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    # interfaces of nodes
    interfaces: list[HostInterface] = field(default_factory=list)
    # the selector of each server model, if nodes have different ports
    models: list[Selector] = field(default_factory=lambda: [ALL])
    # whether there are Helm values of which the chart is unknown
    unknown_charts: bool = False
    # name of a ConfigMap -> the nodes of the DaemonSet that uses it
    config_nodes: dict[str, Selector] = field(default_factory=dict)
    # node -> index, of the nodes that the user names
    node_indexes: dict[str, int | None] = field(default_factory=dict)
    # prefix of the resources of SR-IOV policies, which do not contain it
    resource_prefix: str = ""
    # reserved addresses, by name
    taken: dict[str, list[Range]] = field(default_factory=dict)
    # networks that no rail may overlap
    reserved: dict[str, str] = field(default_factory=dict)
    # networks of the whole fabric
    supernets: list[Network] = field(default_factory=list)
    # nodes in manifests, and nodes that are only mentioned, such as in an affinity
    nodes: list[str] = field(default_factory=list)
    mentioned: list[str] = field(default_factory=list)
    providers: dict[str, int] = field(default_factory=dict)
    qos: dict[str, t.Any] = field(default_factory=dict)
    # settings of NIC firmware and PCI, link types (eth, ib), and kind of driver
    firmware: dict[str, t.Any] = field(default_factory=dict)
    pci: dict[str, t.Any] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    driver: str | None = None
    # IPAM plugins of networks
    managers: set[str] = field(default_factory=set)
    # address managers whose allocations are objects of the manifests
    live_managers: set[str] = field(default_factory=set)
    # addresses that objects can allocate or have allocated
    claims: list[Claim] = field(default_factory=list)
    manifests: int = 0
    # kinds of all objects
    kinds: set[str] = field(default_factory=set)

    def provider(self, name: str) -> None:
        """Count an indication of this provider."""
        self.providers[name] = self.providers.get(name, 0) + 1
