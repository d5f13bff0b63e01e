# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The plan's document for people: tables for a terminal, and the files that a report is made of."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report import rows
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.text import as_csv, count, markdown, table

Document = t.Mapping[str, t.Any]

# Columns of a terminal's tables: those that 120 characters have room for. The CSV files have all.
_RAILS = ("rail", "mode", "subnet", "gateway", "pods", "mtu", "table", "networks")
_CAPACITY = ("rail", "addresses", "pods", "pods a node", "needed", "room for nodes", "addresses that pods cannot have")
_PORTS = ("rail", "netdev", "pci", "match", "rdma", "gpus", "address", "gateway", "mtu", "table")
_OBJECTS = ("name", "rail", "nodes", "node", "resource", "interface", "first", "last", "ranges")
_LEAVES = ("leaf_port", "node", "vlan", "prefix", "gateway", "mtu", "qos_class")
# Of these a terminal's table has both families in one column, IPv4 first.
_BOTH = ("subnet", "gateway", "pods", "address", "prefix", "first", "last", "ranges")
# Ranges of a pool that a terminal's table shows.
_RANGES = 4
_PAGE = ("leaf_port", "node", "rail", "vlan", "prefix", "gateway", "prefix6", "gateway6", "mtu", "qos_class")
# What the objects of a kind are called over their table.
_TITLES = {"policy": "POLICIES", "resource": "RESOURCES", "pool": "POOLS", "network": "NETWORKS"}


def as_json(document: Document) -> bytes:
    """The document as JSON, a rail, a unit and a node to a line: small, quick to write, and good to compare."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n  %s\n ]" % ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
        else:
            text = json.dumps(value, ensure_ascii=False)
        parts.append(" %s: %s" % (json.dumps(key), text))
    return ("{\n%s\n}\n" % ",\n".join(parts)).encode("utf-8")


def digest(document: Document) -> str:
    """SHA-256 of the bytes of ``plan.json``, by which results tell which plan they are of."""
    return hashlib.sha256(as_json(document)).hexdigest()


def counts(document: Document) -> dict[str, int]:
    """How many nodes, rails, ports and units there are."""
    return {
        "nodes": len(document["nodes"]),
        "rails": len(document["rails"]),
        "ports": sum(len(node["ports"]) for node in document["nodes"]),
        "units": len(document.get("units") or ()),
    }


def head(document: Document) -> list[str]:
    """What the fabric is, in a few lines."""
    fabric = document["fabric"]
    kinds = ", ".join(fabric.get("attachments") or [fabric.get("attachment") or ""])
    numbers = [count(number, what[:-1]) for what, number in counts(document).items() if number]
    modes = dict.fromkeys(str(node.get("rdma_mode") or fabric.get("rdma_mode")) for node in document["nodes"])
    words = [kinds, fabric.get("provider"), "rdma mode %s" % " and ".join(modes), fabric.get("link_layer")]
    return [
        "fabric %s: %s" % (fabric["name"], ", ".join(numbers)),
        "%s, MTU %s" % (", ".join(word for word in words if word), fabric.get("mtu")),
    ]


def _rail_rows(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    for rail in document["rails"]:
        networks = [network.get("network") for network in rail.get("networks") or ()]
        both = [_both(rail.get(key), rail.get(key + "6")) for key in ("subnet", "gateway", "pods")]
        yield (rail["name"], rail.get("mode"), *both, rail.get("mtu"), rail.get("table"), networks)


def _both(four: t.Any, six: t.Any) -> str:
    return " ".join(_few(each) for each in (four, six) if each)


def _few(value: t.Any) -> str:
    """The first of several ranges, and how many more there are."""
    ranges = value if isinstance(value, list) else str(value).split(", ")
    more = ["and %d more" % (len(ranges) - _RANGES)] if len(ranges) > _RANGES else []
    return ", ".join([*ranges[:_RANGES], *more])


def _capacity_rows(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    """A row a rail and family: its addresses, and how many are left for pods after all that takes some."""
    for rail in document["rails"]:
        for six in ("", "6"):
            capacity = rail.get("capacity" + six)
            if capacity:
                taken = ["%s %s" % (what, _number(number)) for what, number in capacity["taken"].items() if number]
                yield (
                    rail["name"] + (" IPv6" if six else ""),
                    *(_number(capacity.get(key)) for key in ("addresses", "pods", "pods_per_node", "needed", "nodes")),
                    ", ".join(taken),
                )


def _number(value: int | None) -> str | None:
    """A count; of more than a person can read, the power of two below it."""
    if value is None or value < 1 << 32:
        return None if value is None else "{:,}".format(value)
    power = value.bit_length() - 1
    return ("" if value == 1 << power else "over ") + "2^%d" % power


def as_table(document: Document, most: int) -> str:
    """Rails, ports and objects. Of more than ``most`` ports or objects, the first; what is left out is counted."""
    lines = [*head(document), "", "RAILS", *table(_RAILS, _rail_rows(document), indent="  ")]
    capacity = table(_CAPACITY, _capacity_rows(document), indent="  ")
    lines.extend(["", "CAPACITY", *capacity] if capacity else [])
    lines.extend(["", "PORTS"])
    left = most
    shown = 0
    for node in document["nodes"]:
        if left <= 0:
            break
        chosen = _choose(rows.PORTS, _PORTS, list(rows.ports(dict(document, nodes=[node])))[:left])
        left -= len(chosen)
        shown += len(chosen)
        lines.append("  " + _node_line(node, len(document["fabric"].get("attachments") or ()) > 1))
        lines.extend(table(_PORTS, chosen, indent="    "))
    lines.extend(_more(counts(document)["ports"] - shown, "port", "ports.csv"))
    objects = rows.objects(document)
    for kind, title in _TITLES.items():
        chosen = [row for row in objects[:most] if row[0] == kind]
        if chosen:
            lines.extend(["", title, *table(_OBJECTS, _choose(rows.OBJECTS, _OBJECTS, chosen), indent="  ")])
    lines.extend(_more(len(objects) - most, "object", "objects.csv"))
    return "\n".join(lines)


def _node_line(node: Document, mixed: bool) -> str:
    """``mixed``: the nodes have different attachments."""
    keys = ("unit", "place", "rack", "profile")
    words = ["index %s" % node.get("index")]
    words.extend("%s %s" % (key, node[key]) for key in keys if node.get(key) is not None)
    if mixed:
        words.append("%s, rdma mode %s" % (node.get("attachment"), node.get("rdma_mode")))
    return "%s (%s)" % (node["name"], ", ".join(words))


def _more(left: int, one: str, file: str) -> list[str]:
    return ["  ... and %s more: see %s, written with -e report_dir=DIR" % (count(left, one), file)] if left > 0 else []


def _choose(
    columns: t.Sequence[str], wanted: t.Sequence[str], chosen: t.Iterable[tuple[t.Any, ...]]
) -> list[tuple[t.Any, ...]]:
    at = {column: columns.index(column) for column in columns}
    return [
        tuple(
            _both(row[at[column]], row[at[column + "6"]]) if column in _BOTH else row[at[column]] for column in wanted
        )
        for row in chosen
    ]


def leaf_table(document: Document, most: int) -> str:
    """The ports of each leaf, for a terminal; at most ``most`` of them."""
    lines: list[str] = []
    left = most
    leaves = rows.leaves(document)
    for leaf in leaves:
        if left <= 0:
            break
        lines.append(_leaf_line(leaf))
        lines.extend(table(_LEAVES, _choose(rows.LEAVES, _LEAVES, leaf.rows[:left]), indent="  "))
        lines.append("")
        left -= len(leaf.rows)
    lines.extend(_more(sum(len(leaf.rows) for leaf in leaves) - most, "leaf port", "leaves.csv"))
    return "\n".join(lines).rstrip("\n")


def _leaf_line(leaf: rows.Leaf) -> str:
    # Without a gateway nothing is routed: the ports are on one switch, or back to back on a cable.
    at = [rows.LEAVES.index(column) for column in ("gateway", "gateway6")]
    routed = any(row[index] for row in leaf.rows for index in at)
    line = "leaf %s, rail %s" % (leaf.name, leaf.rail) if leaf.name else "rail %s" % leaf.rail
    line += ", leaves without names" if routed and not leaf.name else ""
    unit = ", unit %s" % leaf.unit if leaf.unit else ""
    advertised = [each for each in (leaf.aggregate, leaf.aggregate6) if each and routed]
    return "%s%s: %s%s" % (
        line,
        unit,
        count(len(leaf.rows), "port"),
        ", advertises %s" % " and ".join(advertised) if advertised else "",
    )


def leaf_page(document: Document) -> bytes:
    """A Markdown page for the network team: QoS, then a table a leaf."""
    fabric = document["fabric"]
    lines = ["# Leaf ports of fabric %s" % fabric["name"], "", *_qos_lines(document)]
    lines.append("The MTU is that of the nodes' ports, in bytes of IP packet; a leaf port must carry at least that.")
    for leaf in rows.leaves(document):
        title = _leaf_line(leaf)
        lines.extend(["", "## %s" % (title[0].upper() + title[1:]), ""])
        at = [rows.LEAVES.index(column) for column in _PAGE]
        used = [index for index in at if any(row[index] not in (None, "") for row in leaf.rows)]
        lines.extend(
            markdown([rows.LEAVES[each] for each in used], [[row[each] for each in used] for row in leaf.rows])
        )
    return ("\n".join(lines) + "\n").encode("utf-8")


def _qos_lines(document: Document) -> list[str]:
    """What the leaves' QoS must agree with."""
    qos = document["fabric"].get("qos")
    if not qos:
        return []
    ecn = qos["ecn"]
    said = [
        ("class", rows.qos_class(document)),
        ("trust", qos["trust"]),
        ("RoCE packets", "priority %d, DSCP %d" % (qos["priority"], qos["dscp"])),
        ("congestion notification packets", "priority %d, DSCP %d" % (ecn["cnp_priority"], ecn["cnp_dscp"])),
        ("PFC on priorities", [priority for priority, on in enumerate(qos["pfc"]) if on] or "none"),
        ("ECN", "on" if ecn["enable"] else "off"),
    ]
    return [*markdown(("QoS", "value"), said), ""]


def files(document: Document) -> dict[str, bytes]:
    """The files of a report by their names, but for the picture and the comparison."""
    leaf_rows = (row for leaf in rows.leaves(document) for row in leaf.rows)
    return {
        "plan.json": as_json(document),
        "ports.csv": as_csv(rows.PORTS, rows.ports(document)),
        "objects.csv": as_csv(rows.OBJECTS, rows.objects(document)),
        "leaves.csv": as_csv(rows.LEAVES, leaf_rows),
        "leaves.md": leaf_page(document),
    }
