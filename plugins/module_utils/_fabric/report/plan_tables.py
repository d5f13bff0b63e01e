# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan document as tables for a terminal, and the files of a report."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import PROFILES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import compute_ports, qos_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import (
    WIDTH,
    as_csv,
    count,
    markdown,
    table,
)

Document = t.Mapping[str, t.Any]

# Columns that fit a terminal of 120 characters. The CSV files have all columns.
_RAILS = ("rail", "kind", "mode", "subnet", "gateway", "pods", "mtu", "table", "networks")
_CAPACITY = ("rail", "addresses", "pods", "pods a node", "needed", "room for nodes", "addresses that pods cannot have")
_PORTS = ("rail", "netdev", "pci", "match", "planes", "functions", "rdma", "gpus", "address", "gateway", "mtu", "table")
_OBJECTS = ("name", "rail", "nodes", "node", "resource", "interface", "first", "last", "ranges")
_SLOTS = ("node", "rail", "slot", "device", "resource", "address", "mac", "vf")
_LEAVES = ("leaf_port", "node", "plane", "function", "bond", "vlan", "prefix", "gateway", "mtu", "qos_class")
# Columns in which the terminal shows both families, IPv4 first.
_BOTH = ("subnet", "gateway", "pods", "address", "prefix", "first", "last", "ranges")
# Number of ranges of a pool that the terminal shows.
_RANGES = 4
_PAGE = (
    "leaf_port",
    "node",
    "rail",
    "plane",
    "function",
    "bond",
    "vlan",
    "prefix",
    "gateway",
    "prefix6",
    "gateway6",
    "mtu",
    "qos_class",
)
# Kind -> title of its table.
_TITLES = {"policy": "POLICIES", "resource": "RESOURCES", "pool": "POOLS", "network": "NETWORKS"}


def as_json(document: Document) -> bytes:
    """Return the document as JSON, with one line per rail, unit and node, so that it is small and easy to compare."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n  %s\n ]" % ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
        else:
            text = json.dumps(value, ensure_ascii=False)
        parts.append(" %s: %s" % (json.dumps(key), text))
    return ("{\n%s\n}\n" % ",\n".join(parts)).encode("utf-8")


def digest(document: Document) -> str:
    """Return the SHA-256 of ``plan.json``, by which results refer to their plan."""
    return hashlib.sha256(as_json(document)).hexdigest()


def counts(document: Document) -> dict[str, int]:
    """Return the numbers of nodes, rails, ports and units."""
    return {
        "nodes": len(document["nodes"]),
        "rails": len(document["rails"]),
        "ports": sum(len(node["ports"]) for node in document["nodes"]),
        "units": len(document.get("units") or ()),
    }


def rails_of(document: Document) -> str:
    """Return the number of rails as text: ``8 rails``, ``8 rails x 2 planes``, ``4 rails x 2 NICs x 8 planes
    (hardware)``, or ``8 rails and 2 storage rails``."""
    compute = compute_ports(document["rails"])
    storage = len(document["rails"]) - len(compute)
    bases = {rail.get("base") or rail["name"] for rail in compute}
    nics = _common(compute, lambda rail: rail.get("nics") or 1)
    device_planes = _common(compute, lambda rail: (rail.get("planes") or {}).get("count") or 1)
    planes, rest = divmod(len(compute), max(1, len(bases)) * nics)
    whole = len(compute) > len(bases) and not rest
    words = count(len(bases) if whole else len(compute), "rail")
    words += " x %d NICs" % nics if whole and nics > 1 else ""
    words += " x %d planes" % planes if whole and planes > 1 else ""
    words += " x %d planes (hardware)" % device_planes if device_planes > 1 else ""
    return "%s and %s" % (words, count(storage, "storage rail")) if storage else words


def _common(rails: t.Sequence[Document], number_of: t.Callable[[Document], int]) -> int:
    """Return the number that all rails have; 1 if they differ."""
    found = {number_of(rail) for rail in rails}
    return found.pop() if len(found) == 1 else 1


def link_layers(document: Document) -> str | None:
    """Return the link layers of the rails as text."""
    general = document["fabric"].get("link_layer")
    layers = dict.fromkeys(rail.get("link_layer") or general for rail in document["rails"])
    return " and ".join(filter(None, layers)) or general


def head(document: Document) -> list[str]:
    """Return a summary of the fabric, as a few lines."""
    fabric = document["fabric"]
    kinds = ", ".join(fabric.get("attachments") or [fabric.get("attachment") or ""])
    numbers = [
        rails_of(document) if what == "rails" else count(number, what[:-1])
        for what, number in counts(document).items()
        if number
    ]
    modes = dict.fromkeys(str(node.get("rdma_mode") or fabric.get("rdma_mode")) for node in document["nodes"])
    kubernetes = facts_of(fabric.get("provider")).kubernetes
    words = [
        *([kinds, fabric.get("provider")] if kubernetes else ["without Kubernetes"]),
        "RDMA mode %s" % " and ".join(modes),
        link_layers(document),
    ]
    return [
        "fabric %s: %s" % (fabric["name"], ", ".join(numbers)),
        "%s, MTU %s" % (", ".join(word for word in words if word), fabric.get("mtu")),
    ]


def _rail_rows(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    for rail in document["rails"]:
        networks = [network.get("network") for network in rail.get("networks") or ()]
        both = [_both(rail.get(key), rail.get(key + "6")) for key in ("subnet", "gateway", "pods")]
        # without addresses, the routing table stays empty
        routed = rail.get("table") if rail.get("subnet") or rail.get("subnet6") else None
        # values that differ from the fabric; most rails have none
        kind = ", ".join(str(rail[key]) for key in ("role", "link_layer", "attachment") if rail.get(key))
        yield (rail["name"], kind, rail.get("mode"), *both, rail.get("mtu"), routed, networks)


def _both(four: t.Any, six: t.Any) -> str:
    return " ".join(_few(each) for each in (four, six) if each)


def _few(value: t.Any) -> str:
    """Return the first of several ranges, and how many more there are."""
    ranges = value if isinstance(value, list) else str(value).split(", ")
    more = ["and %d more" % (len(ranges) - _RANGES)] if len(ranges) > _RANGES else []
    return ", ".join([*ranges[:_RANGES], *more])


def _capacity_rows(document: Document) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield a row per family for rails with the same numbers: their addresses, and how many are available for pods."""
    found: dict[tuple[t.Any, ...], list[str]] = {}
    for rail in document["rails"]:
        for six in ("", "6"):
            capacity = rail.get("capacity" + six)
            if capacity:
                taken = ["%s %s" % (what, _number(number)) for what, number in capacity["taken"].items() if number]
                keys = ("addresses", "pods", "pods_per_node", "needed", "nodes")
                numbers = (*(_number(capacity.get(key)) for key in keys), ", ".join(taken))
                found.setdefault((six, *numbers), []).append(rail["name"])
    order = {rail["name"]: at for at, rail in enumerate(document["rails"])}
    for (six, *cells), names in found.items():
        yield ("%s%s" % (_span(names, order), " IPv6" if six else ""), *cells)


def _span(names: t.Sequence[str], order: t.Mapping[str, int]) -> str:
    """Return ``gpu01-gpu08`` for consecutive rails, else all names."""
    follow = order[names[-1]] - order[names[0]] == len(names) - 1
    return "%s-%s" % (names[0], names[-1]) if len(names) > 2 and follow else ", ".join(names)


def _number(value: int | None) -> str | None:
    """Return a number as text; for a large one, the power of two below it; None for None."""
    if value is None or value < 1 << 32:
        return None if value is None else "{:,}".format(value)
    power = value.bit_length() - 1
    return ("" if value == 1 << power else "over ") + "2^%d" % power


def as_table(document: Document, most: int, directory: str = "", width: int = WIDTH) -> str:
    """Return tables of rails, ports and objects, with at most ``most`` ports and objects of each kind.

    The number of rows that are left out is shown. ``directory``: where the files with all rows are; empty if they are
    not written.
    """
    lines = [*head(document), "", "RAILS", *table(_RAILS, _rail_rows(document), width, "  ")]
    capacity = table(_CAPACITY, _capacity_rows(document), width, "  ")
    if not facts_of(document["fabric"].get("provider")).kubernetes:
        capacity = []  # capacity counts pod addresses
    lines.extend(["", "CAPACITY", *capacity] if capacity else [])
    lines.extend(["", "PORTS"])
    left = most
    shown = 0
    mixed = len({node.get("attachment") for node in document["nodes"]}) > 1
    for node in document["nodes"]:
        if left <= 0:
            break
        chosen = _choose(plan_rows.PORTS, _PORTS, list(plan_rows.ports(dict(document, nodes=[node])))[:left])
        left -= len(chosen)
        shown += len(chosen)
        lines.append("  " + _node_line(node, mixed))
        lines.extend(table(_PORTS, chosen, width, "    "))
    lines.extend(_more(counts(document)["ports"] - shown, "port", "ports.csv", directory))
    slots = list(plan_rows.slots(document))
    if slots:
        lines.extend(["", "SLOTS", *table(_SLOTS, _choose(plan_rows.SLOTS, _SLOTS, slots[:most]), width, "  ")])
        lines.extend(_more(len(slots) - most, "slot", "slots.csv", directory))
    objects = plan_rows.objects(document)
    for kind, title in _TITLES.items():
        chosen = [row for row in objects if row[0] == kind]
        if chosen:
            lines.extend(
                ["", title, *table(_OBJECTS, _choose(plan_rows.OBJECTS, _OBJECTS, chosen[:most]), width, "  ")]
            )
            lines.extend(_more(len(chosen) - most, kind, "objects.csv", directory))
    return "\n".join(lines)


def _node_line(node: Document, mixed: bool) -> str:
    """Return a line for a node. ``mixed``: whether nodes have different attachments."""
    keys = ("unit", "place", "rack", "profile")
    words = ["index %s" % node.get("index")]
    words.extend("%s %s" % (key, node[key]) for key in keys if node.get(key) is not None)
    if mixed:
        words.append("%s, RDMA mode %s" % (node.get("attachment"), node.get("rdma_mode")))
    words.extend(filter(None, [other_ports(node)]))
    return "%s (%s)" % (node["name"], ", ".join(words))


def other_ports(node: Document) -> str:
    """Return the ports of a node that are not on a rail: ``storage ens6f0, management eno1``."""
    ports = node.get("other_ports") or ()
    return ", ".join("%s %s" % (port["role"], port.get("netdev") or port.get("pci") or port["name"]) for port in ports)


def _more(left: int, one: str, file: str, directory: str) -> list[str]:
    if left <= 0:
        return []
    where = "%s/%s" % (directory.rstrip("/"), file) if directory else "%s, written with -e report_dir=DIR" % file
    many = one[:-1] + "ies" if one.endswith("y") else one + "s"
    return ["  ... and %s: see %s; -e plan_rows=N shows N rows" % (count(left, "more " + one, "more " + many), where)]


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


def leaf_table(document: Document, most: int, directory: str = "", width: int = WIDTH) -> str:
    """Return the ports of each leaf, at most ``most``, for a terminal. ``directory``: as in :func:`as_table`."""
    lines: list[str] = []
    left = most
    leaves = plan_rows.leaves(document)
    for leaf in leaves:
        if left <= 0:
            break
        lines.append(_leaf_line(leaf))
        lines.extend(table(_LEAVES, _choose(plan_rows.LEAVES, _LEAVES, leaf.rows[:left]), width, "  "))
        lines.append("")
        left -= len(leaf.rows)
    lines.extend(_more(sum(len(leaf.rows) for leaf in leaves) - most, _leaf_port(leaves), "leaves.csv", directory))
    return "\n".join(lines).rstrip("\n")


def _leaf_port(leaves: t.Iterable[plan_rows.Leaf]) -> str:
    """Return the title of the rows: a leaf port, or without names of leaves the other end of a cable."""
    return "leaf port" if any(leaf.name for leaf in leaves) else "port"


def _leaf_line(leaf: plan_rows.Leaf) -> str:
    line = "leaf %s, rail %s" % (leaf.name, leaf.rail) if leaf.name else "rail %s" % leaf.rail
    unit = ", unit %s" % leaf.unit if leaf.unit else ""
    # The plan does not describe the other ends of the cables: ports of another node, or leaves without names.
    advertised = [each for each in (leaf.aggregate, leaf.aggregate6) if each and leaf.name]
    return "%s%s: %s%s" % (
        line,
        unit,
        count(len(leaf.rows), "port"),
        ", advertises %s" % " and ".join(advertised) if advertised else "",
    )


def leaf_page(document: Document, leaves: t.Sequence[plan_rows.Leaf]) -> bytes:
    """Return a Markdown page for the network team: QoS, then a table for each leaf."""
    fabric = document["fabric"]
    ports = "Leaf ports" if _leaf_port(leaves) == "leaf port" else "Ports by rail"
    lines = ["# %s of fabric %s" % (ports, fabric["name"]), "", *_qos_lines(document)]
    lines.append("The MTU is that of the nodes' ports, in bytes of IP packet. The other end must carry at least that.")
    for leaf in leaves:
        title = _leaf_line(leaf)
        lines.extend(["", "## %s" % (title[0].upper() + title[1:]), ""])
        at = [plan_rows.LEAVES.index(column) for column in _PAGE]
        used = [index for index in at if any(row[index] not in (None, "") for row in leaf.rows)]
        lines.extend(
            markdown([plan_rows.LEAVES[each] for each in used], [[row[each] for each in used] for row in leaf.rows])
        )
    return ("\n".join(lines) + "\n").encode("utf-8")


def _qos_lines(document: Document) -> list[str]:
    """Return the QoS settings that the leaves must have: of all rails, or a table for each group of rails."""
    groups: list[tuple[Document | None, list[str]]] = []
    for rail, qos in _qos_of_rails(document).items():
        known = next((rails for settings, rails in groups if settings == qos), None)
        if known is None:
            groups.append((qos, [rail]))
        else:
            known.append(rail)
    lines = []
    for qos, rails in groups:
        if len(groups) > 1:
            lines += ["%s:%s" % (", ".join(rails), "" if qos else " no QoS."), ""]
        if qos:
            lines += _qos_table(qos)
    return lines


def _qos_of_rails(document: Document) -> dict[str, Document | None]:
    """Return rail -> its QoS settings, in rail order. A rail without ports has the settings of the fabric."""
    fabric, rails = document["fabric"], [rail["name"] for rail in document["rails"]]
    found: dict[str, Document | None] = {}
    for node in document["nodes"]:
        found.update((port["rail"], qos_of(fabric, port)) for port in node["ports"] if port["rail"] not in found)
        if len(found) == len(rails):
            break
    return {rail: found.get(rail, fabric.get("qos")) for rail in rails}


def _qos_table(qos: Document) -> list[str]:
    ecn = qos["ecn"]
    settings = [
        ("class", plan_rows.qos_class(qos)),
        ("trust", qos["trust"]),
        ("RoCE packets", "priority %d, DSCP %d" % (qos["priority"], qos["dscp"])),
        ("congestion notification packets", "priority %d, DSCP %d" % (ecn["cnp_priority"], ecn["cnp_dscp"])),
        ("PFC on priorities", [priority for priority, on in enumerate(qos["pfc"]) if on] or "none"),
        ("ECN", "on" if ecn["enable"] else "off"),
    ]
    profile = PROFILES.get(qos.get("profile", ""))
    if profile:
        settings.insert(0, ("profile", profile.name))
        settings.append(("packet trimming", "on, in the class of RoCE" if profile.trimming else "off"))
    return [*markdown(("QoS", "value"), settings), ""]


def files(document: Document) -> dict[str, bytes]:
    """Return file name -> contents of a report's files, except the picture and the comparison."""
    leaves = plan_rows.leaves(document)
    leaf_rows = (row for leaf in leaves for row in leaf.rows)
    slots = list(plan_rows.slots(document))
    return {
        "plan.json": as_json(document),
        "ports.csv": as_csv(*plan_rows.used(plan_rows.PORTS, plan_rows.ports(document))),
        "objects.csv": as_csv(plan_rows.OBJECTS, plan_rows.objects(document)),
        "leaves.csv": as_csv(*plan_rows.used(plan_rows.LEAVES, leaf_rows)),
        "leaves.md": leaf_page(document, leaves),
        **({"slots.csv": as_csv(plan_rows.SLOTS, slots)} if slots else {}),
    }
