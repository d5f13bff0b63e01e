# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan network by network, with labels and a constructor of objects: the base of all providers.

A network is what a pod requests by name: the attachment of one rail. All ports with the same planned network name are
one network. Values that differ between them (netdev, PCI address) are kept in the order of the plan.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
    HOST,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import COMPUTE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    each_netdev,
    role_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE

Document = t.Mapping[str, t.Any]
Object = t.Dict[str, t.Any]
Port = t.Mapping[str, t.Any]
Node = t.Mapping[str, t.Any]

MANAGER = "railyard"
# Prefix of label keys: the collection's name, which no other program uses.
LABEL = "railyard.fabric/"
FABRIC = LABEL + "fabric"
PROFILE = LABEL + "profile"
VARIANT = LABEL + "variant"
RAIL = LABEL + "rail"
UNIT = LABEL + "unit"
RACK = LABEL + "rack"
SITE = LABEL + "site"
NVLINK_DOMAIN = LABEL + "nvlink-domain"
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
# Maximum length of a label value.
LONGEST_LABEL = 63

# Attachments whose pods share the RDMA device of the rail port, and attachments with a PCI function per pod.
OF_NETDEV = tuple(name for name, each in ATTACHMENTS.items() if each.master)
OF_VF = tuple(name for name, each in ATTACHMENTS.items() if each.vfs)
OF_FUNCTION = (*OF_VF, "host-device")


def pod_vfs(port: Port) -> range:
    """Return the numbers of a port's VFs that pods get. Other VFs of the port have another owner."""
    vfs = port.get("vfs") or {}
    return vf_attributes.numbers(vfs.get("range"), vfs.get("count") or 0) or range(0)


@dataclass(frozen=True)
class Share:
    """The pod addresses of one family on one port, as text.

    ``ips``: ranges of ``subnet`` in ascending order; ``first`` and ``last``: the lowest and highest address.
    ``gateway``: the next hop of pods, or None. ``routes``: the networks that pods reach through it.
    """

    version: int
    subnet: str
    first: str
    last: str
    gateway: str | None
    routes: tuple[str, ...]
    ips: tuple[str, ...]

    @property
    def default(self) -> bool:
        """Whether the gateway is the next hop of a default route."""
        return ANYWHERE[self.version] in self.routes

    @property
    def networks(self) -> tuple[str, ...]:
        """The routes without the default route."""
        return tuple(to for to in self.routes if to != ANYWHERE[self.version])

    @property
    def prefix(self) -> int:
        """The prefix length of the subnet."""
        return int(self.subnet.partition("/")[2])


@dataclass
class Network:
    """One attachment of one rail. Lists are in the order of the plan and have no duplicates."""

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
    # (variant, node, port) of every port of the network.
    members: list[tuple[str, Node, Port]] = field(default_factory=list)

    @property
    def sample(self) -> Port:
        return self.members[0][2]

    @functools.cached_property
    def counting_netdevs(self) -> set[str]:
        """The netdevs that count the traffic of the ports, with the functions of bonds and VLANs."""
        found = {each["netdev"] for _variant, _node, port in self.members for each in each_netdev(port)}
        return found - {None}

    @property
    def key(self) -> tuple[int, str]:
        """The sort key: by rail, then by name."""
        return self.number, self.name

    @property
    def isolated(self) -> bool:
        """Whether a pod gets its own RDMA device."""
        return self.rdma_mode == EXCLUSIVE

    def master(self) -> str:
        """Return the one netdev that upstream's objects can name.

        :raises RailyardError: if ports of the network have no netdev, or different ones.
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
    """Nodes with the same networks, which are in rail order. ``nodes``: name -> variant.

    ``compute``: the networks of compute rails, which a job with all GPUs uses; all networks if no compute rail has one.
    ``storage``: the others.

    Nodes of a variant that miss ports are a separate set. It is a ``part`` of a set of the same variant if it has no
    other networks. ``name`` is that of the first variant, with a number if another set has it.
    """

    networks: tuple[str, ...]
    compute: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    variants: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    name: str = ""
    part: bool = False

    def shares(self, other: RailSet) -> bool:
        """Return whether both sets have nodes of one variant, so that labels do not distinguish them."""
        return other is not self and not set(self.variants).isdisjoint(other.variants)


class View:
    """The plan document as Kubernetes objects need it. It reads each port once, and stores no objects."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.fabric: t.Mapping[str, t.Any] = document["fabric"]
        self.name: str = self.fabric["name"]
        self.provider: str = self.fabric["provider"]
        self.rails: dict[str, t.Mapping[str, t.Any]] = {rail["name"]: rail for rail in document["rails"]}
        self.nodes: t.Sequence[Node] = document["nodes"]
        # The cluster has no objects for rails without pods.
        hidden = [name for name, rail in self.rails.items() if rail.get("attachment") == HOST]
        if hidden:
            for name in hidden:
                del self.rails[name]
            self.nodes = [
                dict(node, ports=[port for port in node["ports"] if port["rail"] in self.rails]) for node in self.nodes
            ]
        self.namespace: str = self.fabric["namespace"]
        self.prefix: str = self.fabric["resource_prefix"]
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
        """Return the networks with these attachments."""
        return [network for network in self.networks if network.attachment in attachments]

    def labels(self, component: str, rail: str | None = None, **more: str) -> dict[str, str]:
        """Return the labels that mark an object as part of this fabric, and by which it is pruned."""
        labels = dict(self._labels)
        labels[COMPONENT] = component
        if rail is not None:
            labels[RAIL] = rail
        labels.update(more)
        return labels

    def selector(self, variant: str | None = None) -> dict[str, str]:
        """Return the labels of the fabric's nodes, or of the nodes of one variant."""
        return {FABRIC: self.name} if variant is None else {FABRIC: self.name, VARIANT: variant}

    def qualified(self, resource: str) -> str:
        """Return the resource with its prefix, as pods request it."""
        return "%s/%s" % (self.prefix, resource)

    def rail_pool(self, rail: str, version: int) -> str:
        """Return the name of the object with the pod addresses of a whole rail."""
        planned = self.rails[rail]["pool" if version == 4 else "pool6"]
        return planned or ("" if version == 4 else "v6-") + "%s-%s" % (self.name, rail)

    def pool(self, port: Port, version: int) -> str:
        """Return the name of a port's pool of one IP version."""
        pool: str = port["names"]["pool" if version == 4 else "pool6"]
        return pool

    @property
    def whole_sets(self) -> list[RailSet]:
        """The sets that are not part of another, so that pods are offered the same despite a node without a port."""
        return [rails for rails in self.sets if not rails.part]

    def shares(self, port: Port) -> list[Share]:
        """Return the pod addresses on a port, IPv4 first; empty if pods get none."""
        pods = port.get("pods")
        if not pods:
            return []
        rail = self.fabric["subnets"][port["rail"]]
        found = []
        for version, six in ((4, ""), (6, "6")):
            first = pods.get("first" + six)
            if not first:
                continue
            subnet, last, gateway = pods["subnet" + six], pods["last" + six], pods.get("gateway" + six)
            routes = () if gateway is None else rail["routes" + six]
            ips = pods.get("ranges" + six) or [first if first == last else "%s-%s" % (first, last)]
            found.append(Share(version, subnet, first, last, gateway, tuple(routes), tuple(ips)))
        return found

    def variant(self, node: Node) -> str:
        """Return the name of the node's variant: one object can describe all nodes of a variant."""
        return self._variants[node["name"]]

    @property
    def variants(self) -> list[str]:
        """The names of all variants, in the order of the plan."""
        return list(dict.fromkeys(self._variants.values()))

    def _read(self) -> None:
        sets: dict[tuple[str, ...], RailSet] = {}
        for node in self.nodes:
            names, compute = [], []
            for port in node["ports"]:
                name = _network_name(node, port)
                if name is None:
                    continue  # a port of a rail without pods has no network
                self._add(name, node, port)
                names.append(name)
                if role_of(port) == COMPUTE:
                    compute.append(name)
            key = tuple(names)
            if key and key not in sets:
                chosen = tuple(compute) or key
                sets[key] = RailSet(key, chosen, tuple(name for name in names if name not in chosen))
            variant = self._variants[node["name"]]
            if not key:
                continue
            sets[key].nodes[node["name"]] = variant
            if variant not in sets[key].variants:
                sets[key].variants.append(variant)
        self.sets = list(sets.values())
        taken: set[str] = set()
        # the set with the most rails gets the name without a number
        for each in sorted(self.sets, key=lambda rails: -len(rails.networks)):
            each.name = _unused_name(each.variants[0], taken)
            each.part = any(each.shares(other) and set(each.networks) < set(other.networks) for other in self.sets)

    def _add(self, name: str, node: Node, port: Port) -> None:
        names, attachment = port["names"], attachment_of(node, port)
        network = self._networks.get(name)
        if network is None:
            network = self._networks[name] = Network(
                name,
                port["rail"],
                port["base"],
                port["number"],
                attachment,
                node["rdma_mode"],
                names["resource"],
                names["interface"],
                self.rails[port["rail"]]["mode"],
            )
        elif (network.rail, network.attachment) != (port["rail"], attachment):
            raise RailyardError(
                "network %s is %s of rail %s, and on node %s %s of rail %s"
                % (network.name, network.attachment, network.rail, node["name"], attachment, port["rail"]),
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
    """Return the name of a port's network; None for a rail without pods.

    Networks of the agent have no object. Their name consists of rail and attachment.
    """
    names = port["names"]
    slots = "%s-%s" % (names["resource"], attachment_of(node, port)) if names["resource"] else None
    return names["network"] or slots


@dataclass
class _Kind:
    """Nodes that one object can describe together. ``counts``: rail -> number of VFs."""

    name: str
    attachment: str
    rdma_mode: str
    # rail -> the number of VFs of its port, and the numbers of the VFs for pods
    counts: dict[str, tuple[int, range] | None]

    def takes(self, other: _Kind) -> bool:
        """Return whether the other's nodes are of this kind. Rails that only one of them has are ignored."""
        return (self.attachment, self.rdma_mode) == (other.attachment, other.rdma_mode) and all(
            self.counts.get(rail, count) == count for rail, count in other.counts.items()
        )


def _variants(nodes: t.Sequence[Node]) -> dict[str, str]:
    """Return node -> name of its variant: the name of its profile, unless groups make a difference in the cluster.

    Groups may give nodes of a profile another attachment or number of VFs, which one policy cannot describe.
    """
    kinds: dict[tuple[str, tuple[str, ...]], _Kind] = {}
    for node in nodes:
        profile, groups = node["profile"], tuple(node["groups"])
        kind = kinds.get((profile, groups))
        if kind is None:
            name = "-".join((profile, *groups)).replace("_", "-")
            kind = kinds[profile, groups] = _Kind(name, node["attachment"], node["rdma_mode"], {})
        kind.counts.update((port["rail"], _vf_numbers(port)) for port in node["ports"])
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    variants: dict[str, list[_Kind]] = {}
    taken = {profile for profile, _groups in kinds}
    # Nodes without groups come first, so that they get the profile's name whatever their order in the file.
    for (profile, groups), kind in sorted(kinds.items(), key=lambda item: bool(item[0][1])):
        of_profile = variants.setdefault(profile, [])
        same = next((each for each in of_profile if each.takes(kind)), None)
        if same is None:
            same = kind
            kind.name = _unused_name(kind.name, taken) if of_profile else profile
            of_profile.append(kind)
        same.counts.update(kind.counts)
        names[profile, groups] = same.name
    return {node["name"]: names[node["profile"], tuple(node["groups"])] for node in nodes}


def _vf_numbers(port: Port) -> tuple[int, range] | None:
    return (port["vfs"]["count"], pod_vfs(port)) if port["vfs"] else None


def _unused_name(name: str, taken: set[str]) -> str:
    """Return the name as a label value that is not in ``taken``, with a number if needed, and add it to ``taken``."""
    number, candidate = 1, label_value(name)
    while candidate in taken:
        number += 1
        candidate = label_value("%s-%d" % (name, number))
    taken.add(candidate)
    return candidate


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
    """Return an object. Keys are in the usual order."""
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
    """Return the text as a valid label value: invalid characters become hyphens, and a long text ends in its digest."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")
    if len(plain) <= LONGEST_LABEL:
        return plain
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
    return "%s-%s" % (plain[: LONGEST_LABEL - 9].rstrip("._-"), digest)


def compact(value: t.Any) -> str:
    """Return JSON in one line, for fields that contain JSON as text. The same value gives the same text."""
    return json.dumps(value, separators=(",", ":"))


def stated(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the values that are neither null nor empty."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value != {}}
