# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What every provider's objects share: labels, one way to make an object, and the plan seen network by network.

A network is what a pod asks for by name: the attachment of one rail. All ports that the plan gives the same network
name are one
network; what differs between them (netdev, PCI address) is kept in the order of the plan.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
)

Document = t.Mapping[str, t.Any]
Object = t.Dict[str, t.Any]
Port = t.Mapping[str, t.Any]
Node = t.Mapping[str, t.Any]

MANAGER = "railyard"
# The collection's name is a valid prefix of label keys, and of no other program.
LABEL = "railyard.fabric/"
FABRIC = LABEL + "fabric"
PROFILE = LABEL + "profile"
VARIANT = LABEL + "variant"
RAIL = LABEL + "rail"
UNIT = LABEL + "unit"
RACK = LABEL + "rack"
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
# Characters that a label's value may have.
LONGEST_LABEL = 63

# Attachments whose pods share the rail port's own RDMA device, and those that take a PCI function of their own.
OF_NETDEV = tuple(name for name, each in ATTACHMENTS.items() if each.master)
OF_VF = tuple(name for name, each in ATTACHMENTS.items() if each.vfs)
OF_FUNCTION = (*OF_VF, "host-device")


@dataclass(frozen=True)
class Share:
    """The pods' addresses of one family on one port, of ``subnet``, as text: ``ips`` are their ranges in rising order,
    ``first`` the lowest address of them and ``last`` the highest.

    ``gateway`` is the next hop of the pods, or None. ``default``: whether it is the rail table's default route;
    otherwise ``routes``
    are what pods reach through it.
    """

    version: int
    subnet: str
    first: str
    last: str
    gateway: str | None
    default: bool
    routes: tuple[str, ...]
    ips: tuple[str, ...]

    @property
    def prefix(self) -> int:
        return int(self.subnet.partition("/")[2])


@dataclass
class Network:
    """One attachment of one rail. Lists keep the plan's order and hold each value once."""

    name: str
    rail: str
    base: str
    number: int
    attachment: str
    rdma_mode: str
    resource: str
    interface: str
    mode: str
    mtu: int | None = None
    netdevs: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    pools: dict[int, dict[str, str]] = field(default_factory=lambda: {4: {}, 6: {}})
    # Every port of the network with its node and that node's variant.
    members: list[tuple[str, Node, Port]] = field(default_factory=list)

    @property
    def sample(self) -> Port:
        return self.members[0][2]

    @property
    def key(self) -> tuple[int, str]:
        return self.number, self.name

    @property
    def isolated(self) -> bool:
        """A pod gets an RDMA device of its own."""
        return self.rdma_mode == EXCLUSIVE

    def master(self) -> str:
        """The one netdev that upstream's objects can name.

        :raises RailyardError: where the ports of the network have none, or several.
        """
        place = "rails.%s" % self.rail
        if self.nameless:
            raise RailyardError(
                "network %s needs the name of a netdev, and the port of node %s has none"
                % (self.name, self.nameless[0]),
                place,
                "give `netdev` beside the port's other identity in its profile: rail_ports gives the port that name",
            )
        if len(self.netdevs) != 1:
            raise RailyardError(
                "network %s can name one netdev, and its ports have %s" % (self.name, ", ".join(self.netdevs)),
                place,
                "give the rail's ports one `netdev` in all profiles, or write {profile} in `names.network`",
            )
        return self.netdevs[0]


@dataclass
class RailSet:
    """The networks of nodes that have the same ones, in rail order. ``nodes``: their names, each with its variant.

    Nodes without ports which others of their variant have are a set too: a ``part`` of the others' where they have no
    network besides. ``name`` is that of the first variant, with a number where that is another set's.
    """

    networks: tuple[str, ...]
    attachment: str
    variants: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    name: str = ""
    part: bool = False

    def shares(self, other: RailSet) -> bool:
        """Whether the two have nodes of one variant, so that labels do not distinguish them."""
        return other is not self and not set(self.variants).isdisjoint(other.variants)


class View:
    """The plan document as Kubernetes objects need it. Reads each port once; holds no object."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.fabric: t.Mapping[str, t.Any] = document["fabric"]
        self.name: str = self.fabric["name"]
        self.provider: str = self.fabric["provider"]
        self.nodes: t.Sequence[Node] = document["nodes"]
        self.rails: dict[str, t.Mapping[str, t.Any]] = {rail["name"]: rail for rail in document["rails"]}
        self.namespace: str = self.fabric["namespace"]
        self.prefix: str = self.fabric["resource_prefix"]
        routing = self.fabric["routing"]
        # Whether a pod's traffic leaves by its own rail's gateway wherever it goes.
        self.source_routing: bool = routing["mode"] == "source" and routing["cross_rail"]
        self._labels = {MANAGED_BY: MANAGER, PART_OF: MANAGER, FABRIC: self.name}
        self._variants = _variants(self.nodes)
        self._networks: dict[str, Network] = {}
        self.sets: list[RailSet] = []
        self._read()
        self.networks = sorted(self._networks.values(), key=lambda network: network.key)

    def network(self, name: str) -> Network:
        return self._networks[name]

    def network_of(self, node: Node, port: Port) -> Network:
        return self._networks[_network_name(node, port) or ""]

    def of(self, *attachments: str) -> list[Network]:
        return [network for network in self.networks if network.attachment in attachments]

    def labels(self, component: str, rail: str | None = None, **more: str) -> dict[str, str]:
        """The labels by which an object is known as this fabric's, and pruned once it left the plan."""
        labels = dict(self._labels)
        labels[COMPONENT] = component
        if rail is not None:
            labels[RAIL] = rail
        labels.update(more)
        return labels

    def selector(self, variant: str | None = None) -> dict[str, str]:
        """The labels of the fabric's nodes, or of those of one variant."""
        return {FABRIC: self.name} if variant is None else {FABRIC: self.name, VARIANT: variant}

    def qualified(self, resource: str) -> str:
        return "%s/%s" % (self.prefix, resource)

    def rail_pool(self, rail: str, version: int) -> str:
        """The name of the object that holds the pods' addresses of a whole rail."""
        planned = self.rails[rail]["pool" if version == 4 else "pool6"]
        return planned or ("" if version == 4 else "v6-") + "%s-%s" % (self.name, rail)

    def pool(self, port: Port, version: int) -> str:
        pool: str = port["names"]["pool" if version == 4 else "pool6"]
        return pool

    @property
    def whole_sets(self) -> list[RailSet]:
        """Those that are not part of another: what pods are offered does not change with a node without a port."""
        return [rails for rails in self.sets if not rails.part]

    def shares(self, port: Port) -> list[Share]:
        """The pods' addresses on a port, IPv4 first; nothing where pods get none."""
        pods = port.get("pods")
        if not pods:
            return []
        rail = self.rails[port["rail"]]
        found = []
        for version, six in ((4, ""), (6, "6")):
            first = pods.get("first" + six)
            if not first:
                continue
            subnet, gateway, whole = pods["subnet" + six], pods.get("gateway" + six), rail.get("subnet" + six)
            default = self.source_routing and gateway is not None
            routes = () if default or gateway is None or whole in (None, subnet) else (whole,)
            last = pods["last" + six]
            ips = pods.get("ranges" + six) or [first if first == last else "%s-%s" % (first, last)]
            found.append(Share(version, subnet, first, last, gateway, default, routes, tuple(ips)))
        return found

    def variant(self, node: Node) -> str:
        """Which of its profile's variants a node is: one object can describe all nodes of a variant."""
        return self._variants[node["name"]]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(self._variants.values()))

    def _read(self) -> None:
        sets: dict[tuple[str, ...], RailSet] = {}
        for node in self.nodes:
            names = []
            for port in node["ports"]:
                name = _network_name(node, port)
                if name is None:
                    continue  # a fabric without Kubernetes
                self._add(name, node, port)
                names.append(name)
            key = tuple(names)
            if key and key not in sets:
                sets[key] = RailSet(key, node["attachment"])
            variant = self._variants[node["name"]]
            if not key:
                continue
            sets[key].nodes[node["name"]] = variant
            if variant not in sets[key].variants:
                sets[key].variants.append(variant)
        self.sets = list(sets.values())
        taken: set[str] = set()
        # those with the most rails have the plain name
        for each in sorted(self.sets, key=lambda rails: -len(rails.networks)):
            each.name = _free(each.variants[0], taken)
            each.part = any(each.shares(other) and set(each.networks) < set(other.networks) for other in self.sets)

    def _add(self, name: str, node: Node, port: Port) -> None:
        names = port["names"]
        network = self._networks.get(name)
        if network is None:
            network = self._networks[name] = Network(
                name,
                port["rail"],
                port["base"],
                port["number"],
                node["attachment"],
                node["rdma_mode"],
                names["resource"],
                names["interface"],
                self.rails[port["rail"]]["mode"],
            )
        elif (network.rail, network.attachment) != (port["rail"], node["attachment"]):
            raise RailyardError(
                "network %s is %s of rail %s, and on node %s %s of rail %s"
                % (network.name, network.attachment, network.rail, node["name"], node["attachment"], port["rail"]),
                "names.network",
                "let the template distinguish them: {rail}-{attachment}",
            )
        variant = self._variants[node["name"]]
        network.members.append((variant, node, port))
        if port["netdev"] is None:
            network.nameless.append(node["name"])
        elif port["netdev"] not in network.netdevs:
            network.netdevs.append(port["netdev"])
        if variant not in network.variants:
            network.variants.append(variant)
        mtu = port.get("mtu")
        if mtu is not None:
            # A child interface may not be larger than its master, so the smallest port decides.
            network.mtu = mtu if network.mtu is None else min(network.mtu, mtu)
        pods = port.get("pods")
        if pods:
            for version, first in ((4, "first"), (6, "first6")):
                if pods.get(first) and names["network"]:
                    network.pools[version][self.pool(port, version)] = node["name"]


def _network_name(node: Node, port: Port) -> str | None:
    """The name of a port's network. The agent's have no object, so that their name is their rail's and attachment's."""
    names = port["names"]
    slots = "%s-%s" % (names["resource"], node["attachment"]) if names["resource"] else None
    return names["network"] or slots


@dataclass
class _Kind:
    """Nodes that one object can describe together: their attachment, and how many VFs their ports have by rail."""

    name: str
    attachment: str
    rdma_mode: str
    counts: dict[str, int | None]

    def takes(self, other: _Kind) -> bool:
        """Whether the other's nodes are of this kind; rails that only one of them has make no difference."""
        return (self.attachment, self.rdma_mode) == (other.attachment, other.rdma_mode) and all(
            self.counts.get(rail, count) == count for rail, count in other.counts.items()
        )


def _variants(nodes: t.Sequence[Node]) -> dict[str, str]:
    """Node -> the name of its variant, which is its profile's name where groups make no difference to the cluster.

    Groups may give nodes of a profile another attachment or another number of VFs, which one policy cannot say of both.
    """
    kinds: dict[tuple[str, tuple[str, ...]], _Kind] = {}
    for node in nodes:
        profile, groups = node["profile"], tuple(node["groups"])
        kind = kinds.get((profile, groups))
        if kind is None:
            name = "-".join((profile, *groups)).replace("_", "-")
            kind = kinds[profile, groups] = _Kind(name, node["attachment"], node["rdma_mode"], {})
        kind.counts.update((port["rail"], (port["vfs"] or {}).get("count")) for port in node["ports"])
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    variants: dict[str, list[_Kind]] = {}
    taken = {profile for profile, _groups in kinds}
    # Nodes without groups have the profile's name, in any order of the file.
    for (profile, groups), kind in sorted(kinds.items(), key=lambda item: bool(item[0][1])):
        known = variants.setdefault(profile, [])
        same = next((each for each in known if each.takes(kind)), None)
        if same is None:
            same = kind
            kind.name = _free(kind.name, taken) if known else profile
            known.append(kind)
        same.counts.update(kind.counts)
        found[profile, groups] = same.name
    return {node["name"]: found[node["profile"], tuple(node["groups"])] for node in nodes}


def _free(name: str, taken: set[str]) -> str:
    """The name as a label's value, with a number where a profile, or another profile with its groups, has it."""
    number, free = 1, label_value(name)
    while free in taken:
        number += 1
        free = label_value("%s-%d" % (name, number))
    taken.add(free)
    return free


def made(
    api: str,
    kind: str,
    name: str,
    labels: dict[str, str],
    spec: t.Any = None,
    namespace: str | None = None,
    annotations: dict[str, str] | None = None,
    **more: t.Any,
) -> Object:
    """An object, its keys in the order in which people read them."""
    metadata: dict[str, t.Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    made_object = {"apiVersion": api, "kind": kind, "metadata": metadata}
    if spec is not None:
        made_object["spec"] = spec
    made_object.update(more)
    return made_object


def label_value(text: str) -> str:
    """The text as a label's value: what none may hold becomes a hyphen, and one that is too long ends in its digest."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")
    if len(plain) <= LONGEST_LABEL:
        return plain
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
    return "%s-%s" % (plain[: LONGEST_LABEL - 9].rstrip("._-"), digest)


def compact(value: t.Any) -> str:
    """JSON in one line, for fields that hold JSON as text; the same value always gives the same text."""
    return json.dumps(value, separators=(",", ":"))


def stated(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The values that are set: neither null nor empty."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value != {}}
