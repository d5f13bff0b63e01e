# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Convert the plan document to rows: of ports, slots, Kubernetes objects and leaf ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    bond_of,
    cables,
    functions,
    leaf_of,
    link_layer_of,
    planes_of,
    qos_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    network_of,
)

Document = t.Mapping[str, t.Any]

_NODE = ("index", "unit", "place", "site", "rack", "profile", "attachment", "rdma_mode")
_RANGE = ("subnet", "first", "last", "gateway", "subnet6", "first6", "last6", "gateway6", "ranges", "ranges6")
_NAMES = ("resource", "network", "pool", "policy", "interface")
PORTS = (
    *("node", *_NODE),
    *("rail", "number", "plane", "netdev", "pci", "match", "rdma", "rdma_type", "gpus", "mtu"),
    *("address", "gateway", "address6", "gateway6", "table", "rule_priority", "routes", "vfs", "vlan"),
    *("pods_first", "pods_last", "pods_subnet", "pods_first6", "pods_last6", "pods_subnet6"),
    *(*_NAMES, "leaf", "leaf_port", "pods_ranges", "pods_ranges6"),
    *("bond", "vlan_id", "functions", "nic", "planes"),
)
OBJECTS = (
    *("kind", "name", "namespace", "rail", "attachment", "nodes", "node", "profile", "resource", "interface", "mtu"),
    *_RANGE,
)
LEAVES = (
    *("leaf", "unit", "rail", "leaf_port", "node", "rack", "vlan", "prefix", "gateway", "prefix6", "gateway6"),
    *("mtu", "qos_class", "aggregate", "aggregate6"),
    *("plane", "bond", "function"),
)
# Columns of files that only fabrics with bonds or VLANs, or with several NICs per rail or planes per NIC, have.
OPTIONAL = frozenset(("plane", "bond", "vlan_id", "functions", "function", "nic", "planes"))
SLOTS = ("node", "rail", "slot", "device", "resource", "address", "address6", "mac", "vf")
# Kinds of objects, ordered by dependency.
KINDS = ("policy", "resource", "pool", "network")


class Leaf(t.NamedTuple):
    """A leaf and the rows of its ports (columns: ``LEAVES``); with an empty ``name``, a rail whose leaves have no
    names."""

    name: str
    unit: str
    rail: str
    aggregate: str
    aggregate6: str
    rows: list[tuple[t.Any, ...]]


def _section(port: Document, key: str) -> Document:
    """Return a mapping of the port; empty if it is null or absent."""
    return port.get(key) or {}


def vlans(port: Document) -> list[int]:
    """Return the VLANs of a port and of its VFs; empty if its frames are untagged."""
    tags = {vf.get("vlan") for vf in _section(port, "vfs").get("attributes") or ()}
    tags.add(_section(port, "lower").get("vlan"))
    return sorted(vlan for vlan in tags if vlan)


def bond(port: Document) -> str | None:
    """Return name and mode of a port's bond; None without one."""
    found = bond_of(port)
    return "%s %s" % (found["name"], found["mode"]) if found else None


def function(values: Document) -> str | None:
    """Return the PCI address of a function below a bond or VLAN, else its netdev, else its other identity."""
    return values.get("pci") or values.get("netdev") or match(values)


def has_functions(port: Document) -> bool:
    """Return whether the functions below a port are named besides it: for a bond, a VLAN or planes."""
    return bool(port.get("lower")) or functions(port)[0] is not port


def used(columns: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]]) -> tuple[list[str], list[list[t.Any]]]:
    """Return columns and rows without optional columns that are empty."""
    found = list(rows)
    kept = [at for at, name in enumerate(columns) if name not in OPTIONAL or any(row[at] is not None for row in found)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in found]


def match(port: Document) -> str | None:
    """Return how the port is identified if neither its PCI address nor its netdev is planned; None otherwise."""
    keys = _section(port, "match")
    return " ".join("%s %s" % (key, value) for key, value in keys.items() if value is not None) or None


def ports(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield a row for each rail port, in the order of the plan; the columns are ``PORTS``."""
    fabric = document["fabric"]
    for node in document["nodes"]:
        for port in node["ports"]:
            own = dict(node, attachment=attachment_of(node, port))
            place = (node["name"], *(own.get(key) for key in _NODE))
            rdma, pods, names, leaf = (_section(port, key) for key in ("rdma", "pods", "names", "leaf"))
            # without addresses, the routing table stays empty
            routed = port.get("address") or port.get("address6") or pods
            yield (
                *place,
                *(port.get(key) for key in ("rail", "number", "plane", "netdev", "pci")),
                match(port),
                rdma.get("name"),
                rdma.get("type"),
                port.get("gpus"),
                *(port.get(key) for key in ("mtu", "address", "gateway", "address6", "gateway6")),
                *(port.get(key) if routed else None for key in ("table", "rule_priority")),
                " ".join(_route(route) for route in port.get("routes") or ()),
                _section(port, "vfs").get("count"),
                vlans(port),
                *(pods.get(key) for key in ("first", "last", "subnet", "first6", "last6", "subnet6")),
                *(_with_prefix(names, fabric).get(key) for key in _NAMES),
                leaf.get("name"),
                leaf.get("port"),
                pods.get("ranges"),
                pods.get("ranges6"),
                bond(port),
                _section(port, "lower").get("vlan"),
                [function(each) for each in functions(port)] if has_functions(port) else None,
                port.get("nic"),
                _section(port, "planes").get("count"),
            )


def _route(route: Document) -> str:
    text = str(route.get("to"))
    if route.get("via"):
        text += " via %s" % route["via"]
    return text + (" table %s" % route["table"] if route.get("table") else "")


def slots(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield a row for each slot of the nodes' agents, in the order of the plan; the columns are ``SLOTS``."""
    for node in document["nodes"]:
        agent = _section(node, "agent")
        for rail in agent.get("rails") or ():
            for slot in rail["slots"]:
                device = "%s-%d" % (slot["resource"], slot["number"])
                resource = "%s/%s" % (agent["resource_prefix"], slot["resource"])
                rest = (slot[key] for key in ("address", "address6", "mac", "vf"))
                yield (node["name"], rail["rail"], slot["number"], device, resource, *rest)


def objects(document: Document) -> list[tuple[t.Any, ...]]:
    """Return a row for each Kubernetes object, sorted by kind, rail and name; the columns are ``OBJECTS``.

    ``nodes`` is the number of nodes that an object serves; ``node`` and ``profile`` are set if it is only one.
    """
    found: dict[tuple[str, str], dict[str, t.Any]] = {}
    fabric = document["fabric"]
    for node in document["nodes"]:
        slots = {rail["rail"]: rail["slots"] for rail in _section(node, "agent").get("rails") or ()}
        for port in node["ports"]:
            names = _with_prefix(_section(port, "names"), fabric)
            for kind in KINDS:
                if kind == "resource" and port["rail"] in slots:
                    _resources(found, slots[port["rail"]], names, node, port, fabric)
                elif names.get(kind):
                    if kind == "pool" and not port.get("pods"):
                        continue  # the pool has a name, but no addresses
                    row = found.get((kind, names[kind]))
                    if row is None:
                        row = found[kind, names[kind]] = _object(kind, names, node, port, len(found))
                        row["namespace"] = fabric.get("namespace") if kind == "network" else None
                    _add_node(row, node, port)
    order = {kind: at for at, kind in enumerate(KINDS)}
    rows = sorted(found.items(), key=lambda item: (order[item[0][0]], item[1]["number"], item[1]["at"]))
    return [tuple(row.get(column) for column in OBJECTS) for _key, row in rows]


def _resources(
    found: dict[tuple[str, str], dict[str, t.Any]],
    slots: t.Iterable[Document],
    names: Document,
    node: Document,
    port: Document,
    fabric: Document,
) -> None:
    """Add the resources of a port's slots to ``found``. The resource of all rails has no rail."""
    for resource in dict.fromkeys(slot["resource"] for slot in slots):
        own_names = _with_prefix(dict(names, resource=resource), fabric)
        key = ("resource", own_names["resource"])
        row = found.get(key)
        if row is None:
            row = found[key] = _object("resource", own_names, node, port, len(found))
            if resource != port["rail"]:
                row.update(rail=None, number=0)
        elif row["rail"] is None and port["rail"] != _first_rail(node, resource):
            continue  # the node is already counted
        _add_node(row, node, port)


def _first_rail(node: Document, resource: str) -> str:
    """Return the first rail of a node with slots of a resource."""
    rails = node["agent"]["rails"]
    return next(rail["rail"] for rail in rails if any(slot["resource"] == resource for slot in rail["slots"]))


def _with_prefix(names: Document, fabric: Document) -> Document:
    """Return the names with the prefix added to the resource, as pods request it."""
    prefixed = fabric.get("resource_prefix") and names.get("resource") and "/" not in names["resource"]
    return dict(names, resource="%s/%s" % (fabric["resource_prefix"], names["resource"])) if prefixed else names


def _object(kind: str, names: Document, node: Document, port: Document, at: int) -> dict[str, t.Any]:
    """Return a new row of an object. ``at``: its position in the order of the plan."""
    row = {"kind": kind, "name": names[kind], "rail": port["rail"], "number": port["number"], "at": at, "nodes": 0}
    row.update(node=node["name"], profile=node.get("profile"), attachment=attachment_of(node, port))
    if kind in ("policy", "network"):
        row.update(resource=names.get("resource"), mtu=port.get("mtu"))
    if kind == "network":
        row["interface"] = names.get("interface")
    if kind == "pool":
        pods = _section(port, "pods")
        row.update((key, pods.get(key)) for key in _RANGE)
    return row


def _add_node(row: dict[str, t.Any], node: Document, port: Document) -> None:
    """Add a node to a row: count it, and clear columns whose values differ between nodes."""
    row["nodes"] += 1
    for key, value in (
        ("node", node["name"]),
        ("profile", node.get("profile")),
        ("attachment", attachment_of(node, port)),
    ):
        if row[key] != value:
            row[key] = None


def prefix(port: Document, rail: Document, six: str = "") -> str | None:
    """Return the network between a port and its leaf: that of the port, else of its pods, else of the rail; None
    without any."""
    known = network_of(port.get("address" + six) or "")
    if known:
        return str(known)
    return _section(port, "pods").get("subnet" + six) or rail.get("subnet" + six)


def leaves(document: Document) -> list[Leaf]:
    """Return each leaf with the rows of its ports, ordered by unit and rail; for a rail without leaves, the rail
    itself."""
    rails = {rail["name"]: rail for rail in document["rails"]}
    fabric = document["fabric"]
    found: dict[tuple[str, str, str], Leaf] = {}
    order: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for node in document["nodes"]:
        for port in node["ports"]:
            rail = rails.get(port["rail"]) or {}
            # Each function, or each plane of a NIC, has a cable of its own.
            for below in cables(port):
                leaf = leaf_of(port, below)
                key = (leaf.get("name") or "", node.get("unit") or "", port["rail"])
                if key not in found:
                    aggregates = (leaf.get("aggregate") or "", leaf.get("aggregate6") or "")
                    found[key] = Leaf(*key, *aggregates, [])
                    order[key] = (node.get("unit_number") or 0, port["number"], len(order))
                row = _leaf_row(node, port, rail, leaf, fabric)
                plane = below["plane"] if below is not port and planes_of(port) else None
                named = function(below) if has_functions(port) else _rdma_port(port, below)
                found[key].rows.append((*row, plane, bond(port), named))
    return [found[key] for key in sorted(found, key=lambda key: order[key])]


def _rdma_port(port: Document, plane: Document) -> str | None:
    """Return the port of the RDMA device that carries a plane, such as ``roce_gpu01:3``; None without one."""
    return "%s:%d" % (port["rdma"]["name"], plane["rdma_port"]) if plane.get("rdma_port") else None


def _leaf_row(node: Document, port: Document, rail: Document, leaf: Document, fabric: Document) -> tuple[t.Any, ...]:
    """Return the row of a leaf port; the columns are ``LEAVES`` without those of the function."""
    untagged = None if link_layer_of(fabric, port) == INFINIBAND else "untagged"
    return (
        leaf.get("name"),
        node.get("unit"),
        port["rail"],
        leaf.get("port"),
        node["name"],
        node.get("rack"),
        vlans(port) or untagged,
        prefix(port, rail),
        _gateway(port, rail, leaf, ""),
        prefix(port, rail, "6"),
        _gateway(port, rail, leaf, "6"),
        port.get("mtu"),
        qos_class(qos_of(fabric, port)),
        leaf.get("aggregate"),
        leaf.get("aggregate6"),
    )


def _gateway(port: Document, rail: Document, leaf: Document, six: str) -> str | None:
    """Return the leaf's address on this port, without a prefix length; None without one."""
    gateway = leaf.get("address" + six) or port.get("gateway" + six) or _section(port, "pods").get("gateway" + six)
    return str(gateway).partition("/")[0] if gateway else None


def qos_class(qos: Document | None) -> str:
    """Return the marking of RoCE packets as one searchable word, such as ``roce-p3-dscp26``; empty without QoS."""
    if not qos or qos.get("priority") is None:
        return ""
    text = "roce-p%s" % qos["priority"]
    return text + ("-dscp%s" % qos["dscp"] if qos.get("trust", "dscp") == "dscp" and "dscp" in qos else "")
