# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY4xx: rails, profiles, ports and nodes, and how they fit together."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import (
    Fabric,
    Node,
    OtherPort,
    Port,
    Profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.names import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import (
    Variant,
    Variants,
    ports_of,
)

_GOOD_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02, gpu: 1}
"""
_GOOD_NODES = """
nodes:
  ai-[1:2]: {profile: hgx}
"""


def _ports(first: str, second: str) -> str:
    return "profiles:\n  hgx:\n    ports:\n      %s\n      %s\n" % (first, second)


PROFILE_UNKNOWN = rule(
    "RY401",
    "A node's profile is not described",
    """
nodes:
  ai-[1:2]: {profile: hgx-h100}
""",
    _GOOD_NODES,
)
RAIL_UNKNOWN = rule(
    "RY402",
    "A port is on a rail that is not described",
    _ports("gpu01: {netdev: enp11s0f0np0}", "gpu2: {netdev: enp12s0f0np0}"),
    _GOOD_PORTS,
)
RAIL_UNSERVED = rule(
    "RY403",
    "A profile has no port on a rail",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: enp11s0f0np0}\n",
    _GOOD_PORTS,
    WARNING,
)
NETDEV_TWICE = rule(
    "RY404",
    "Two ports have one netdev",
    _ports("gpu01: {netdev: enp11s0f0np0}", "gpu02: {netdev: enp11s0f0np0}"),
    _GOOD_PORTS,
)
PCI_TWICE = rule(
    "RY405",
    "Two ports have one PCI address",
    _ports('gpu01: {netdev: eth1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: eth2, pci: "0b:00.0"}'),
    _GOOD_PORTS,
)
RDMA_TWICE = rule(
    "RY406",
    "Two ports have one RDMA device",
    _ports("gpu01: {netdev: eth1, rdma: mlx5_gpu01}", "gpu02: {netdev: eth2, rdma: mlx5_gpu01}"),
    _GOOD_PORTS,
)
PCI_ADDRESS = rule(
    "RY407",
    "A PCI address is none",
    _ports('gpu01: {netdev: eth1, pci: "0000:0b:00:0"}', "gpu02: {netdev: eth2}"),
    _GOOD_PORTS,
)
GPU = rule(
    "RY408",
    "A GPU is no number, or stands twice at one port",
    _ports("gpu01: {netdev: eth1, gpu: [0, 0]}", "gpu02: {netdev: eth2, gpu: [1, 2]}"),
    _GOOD_PORTS,
)
PORT_UNFOUND = rule(
    "RY409",
    "A port that a node adds has no netdev",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {gpu: 1}}}
""",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {netdev: enp12s0f0np0, gpu: 1}}}
""",
)
NO_INDEX = rule(
    "RY410",
    "A node has no index",
    """
nodes:
  jupiter: {profile: hgx}
""",
    """
nodes:
  jupiter: {profile: hgx, index: 1}
""",
)
INDEX = rule(
    "RY411",
    "A node's index is none",
    """
nodes:
  ai-[0:1]: {profile: hgx}
""",
    """
nodes:
  ai-[0:1]: {profile: hgx, index: "[1:2]"}
""",
)
INDEX_TWICE = rule(
    "RY412",
    "Two nodes have one index",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx}
""",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx, index: "[1:4]"}
""",
)
PROFILE_UNUSED = rule(
    "RY413",
    "No node has the profile",
    _GOOD_PORTS + "  spare:\n    ports:\n      gpu01: {netdev: eth1}\n      gpu02: {netdev: eth2}\n",
    _GOOD_PORTS,
    WARNING,
)
OVERRIDE_IDLE = rule(
    "RY414",
    "A node takes away a port that its profile does not have",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
  ai-2: {profile: hgx}
""",
    WARNING,
)
TOO_MANY_NODES = rule(
    "RY415",
    "There are more nodes than a fabric can have",
    """
nodes:
  ai-[1:70000]: {profile: hgx}
""",
    _GOOD_NODES,
)

IDENTITY = rule(
    "RY416",
    "A port is known by something that is none",
    _ports('gpu01: {netdev: eth1, mac: "01:00:5e:00:00:01"}', "gpu02: {netdev: eth2}"),
    _ports("gpu01: {netdev: eth1, slot: PCIE_1}", "gpu02: {netdev: eth2, slot: PCIE_2}"),
)
IDENTITY_TWICE = rule(
    "RY417",
    "Two ports are known by one slot, serial number or MAC address",
    _ports('gpu01: {netdev: eth1, slot: "4"}', 'gpu02: {netdev: eth2, slot: "4"}'),
    _ports('gpu01: {netdev: eth1, slot: "4", port: 1}', 'gpu02: {netdev: eth2, slot: "4", port: 2}'),
    why="A card has one slot and one serial number; port tells its functions apart. Serial numbers and MAC addresses"
    " are a server's own, so they stand at nodes and not at a profile that several have.",
)
PORT_OF_NOTHING = rule(
    "RY418",
    "A port's number on its card is said, and not the card",
    _ports('gpu01: {netdev: eth1, pci: "0000:0b:00.0", port: 2}', "gpu02: {netdev: eth2}"),
    _ports('gpu01: {netdev: eth1, slot: "4", port: 2}', "gpu02: {netdev: eth2}"),
)
PLANES = rule(
    "RY419",
    "A rail has a number of planes that none has",
    """
rails: {count: 2, name: "gpu{n:02}", planes: 3, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01: {netdev: eth1}, gpu02: {netdev: eth2}}}
""",
    """
rails: {count: 1, name: "gpu{n:02}", planes: 2, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01p1: {netdev: eth1}, gpu01p2: {netdev: eth2}}}
""",
)


def _others(role: str, pci: str) -> str:
    ports = _ports('gpu01: {netdev: eth1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: eth2, pci: "0000:0c:00.0"}')
    return ports + '    other_ports:\n      x1: {role: %s, netdev: eth9, pci: "%s"}\n' % (role, pci)


OTHER_IS_RAIL = rule(
    "RY430",
    "A port for storage or management is a rail's",
    _others("management", "0000:0c:00.0"),
    _others("management", "0000:81:00.0"),
    why="Rail ports are reset, renamed and readdressed. What carries a node's management or its disks must not be.",
)
OTHER_ON_CARD = rule(
    "RY431",
    "A rail's port shares its card with a port for storage or management",
    _others("storage", "0000:0c:00.1"),
    _others("storage", "0000:81:00.0"),
    WARNING,
    why="A reset of the firmware drops all ports of a card, so the cards of such ports are never reset.",
)
SLOW_SLOT = rule(
    "RY432",
    "A port's slot is slower than its link",
    _ports("gpu01: {netdev: eth1, speed: 400, pcie_gen: 4, pcie_lanes: 16}", "gpu02: {netdev: eth2}"),
    _ports("gpu01: {netdev: eth1, speed: 400, pcie_gen: 5, pcie_lanes: 16}", "gpu02: {netdev: eth2}"),
    WARNING,
)
GROUP_UNUSED = rule(
    "RY433",
    "No node is in a group that the file describes",
    "groups:\n  rack_a: {vars: {row: 1}}\n",
    "groups:\n  rack_a: {vars: {row: 1}}\nnodes:\n  ai-[1:2]: {profile: hgx, groups: [rack_a]}\n",
    WARNING,
)
WIDTH = rule(
    "RY434",
    "A link's width is of InfiniBand, and the link layer is Ethernet",
    _ports("gpu01: {netdev: eth1, width: 4}", "gpu02: {netdev: eth2}"),
    _ports("gpu01: {netdev: eth1, speed: 400}", "gpu02: {netdev: eth2}"),
)
RAIL_EMPTY = rule(
    "RY435",
    "No node has a port on a rail",
    """
nodes:
  ai-[1:2]: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx, ports: {gpu02: null}}
""",
    WARNING,
)

MAX_NODES = 65536
_SHARED_OWNERS = (("netdev", NETDEV_TWICE), ("pci", PCI_TWICE), ("rdma", RDMA_TWICE))
# Gb/s that one lane of a PCIe generation carries, its line code taken off.
_LANE = {1: 2.0, 2: 4.0, 3: 7.88, 4: 15.75, 5: 31.51, 6: 60.5, 7: 121.0}


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    rails = [rail.name for rail in fabric.rails]
    if any(report.has(rail.path) or report.has(rail.path + ("planes",)) for rail in fabric.rails):
        rails = []  # what could not be read says nothing about what refers to it
    owners: dict[str, list[Node]] = {}
    for node in fabric.nodes:
        if node.profile is not None:
            owners.setdefault(node.profile, []).append(node)
    _known_profiles(fabric, owners, report)
    for profile in fabric.profiles.values():
        _known_rails(profile.ports, rails, report)
        _apart(profile.ports, report)
        _other_ports(profile, report)
        _unserved(fabric, profile, owners.get(profile.name, []), report)
    for group in fabric.groups.values():
        _known_rails(group.ports, rails, report)
    for variant in variants:
        if any(group.ports for group in variant.groups):
            _apart(variant.ports, report)
        for node in variants.nodes_of(variant):
            if node.ports:
                _overrides(node, variant, rails, report)
    _groups(fabric, report)
    _cards(fabric, variants, report)
    _links(fabric, variants, report)
    _empty(fabric, variants, report)
    _indexes(fabric.nodes, report)


def _known_profiles(fabric: Fabric, owners: t.Mapping[str, t.Sequence[Node]], report: Report) -> None:
    known = fabric.profiles
    for name, nodes in owners.items():
        if name in known or not known or report.has(("profiles", name)):
            continue
        near = nearest(name, known)
        more = " for %d nodes" % len(nodes) if len(nodes) > 1 else ""
        message = "there is no profile %s%s%s" % (shown(name), more, did_you_mean(near))
        remedy = "write %s" % near if near else "describe it, or write one of %s" % ", ".join(known)
        report.add(PROFILE_UNKNOWN, nodes[0].path + ("profile",), message, remedy)
    for name, profile in known.items():
        if fabric.nodes and name not in owners and not report.within(("nodes",)):
            report.add(PROFILE_UNUSED, profile.path, "no node has the profile %s" % shown(name), "take it out")


def _known_rails(ports: t.Mapping[str, Port | None], rails: t.Sequence[str], report: Report) -> None:
    for name, port in ports.items():
        if port and rails and name not in rails:
            near = nearest(name, [rail for rail in rails if rail not in ports])
            remedy = "write %s" % near if near else "describe the rail, or take the port out"
            report.add(RAIL_UNKNOWN, port.path, "there is no rail %s%s" % (shown(name), did_you_mean(near)), remedy)


def _overrides(node: Node, variant: Variant, rails: t.Sequence[str], report: Report) -> None:
    profile = variant.profile
    own = {rail: port for rail, port in node.ports.items() if rail not in variant.ports}
    _known_rails(own, rails, report)
    _apart(ports_of(node, variant), report)
    unread = (profile.path, profile.path + ("ports",))
    if not profile.ports or any(report.has(path) for path in unread) or _strays(profile, rails):
        return
    for rail, port in own.items():
        path = node.path + ("ports", rail)
        if report.has(profile.path + ("ports", rail)) or report.within(path):
            continue
        if port is None:
            message = "%s has no port on %s" % (profile.name, shown(rail))
            report.add(OVERRIDE_IDLE, path, message, "take the line out")
        elif rail in rails and not port.known:
            message = "%s has no port on %s, and what it is known by is not said here" % (profile.name, rail)
            report.add(PORT_UNFOUND, path, message, "say the port's netdev, or its PCI address")


def _strays(profile: Profile, rails: t.Sequence[str]) -> bool:
    return any(name not in rails for name in profile.ports)


def _unserved(fabric: Fabric, profile: Profile, nodes: t.Sequence[Node], report: Report) -> None:
    path = profile.path + ("ports",)
    # Where rails or ports are misnamed or could not be read, that has been said.
    if not profile.ports or report.has(path) or _strays(profile, [rail.name for rail in fabric.rails]):
        return
    missing = [rail.name for rail in fabric.rails if rail.name not in profile.ports and not report.has(rail.path)]
    if nodes:  # where each of them says a port of its own, nothing is missing
        missing = [rail for rail in missing if not all(rail in node.ports for node in nodes)]
    if any(report.has(at + (rail,)) for at in [path] + [node.path + ("ports",) for node in nodes] for rail in missing):
        return
    if missing:
        message = "%s has no port on %s" % (profile.name, ", ".join(missing))
        report.add(RAIL_UNSERVED, path, message, "add the ports if the server has them")


def _apart(ports: t.Mapping[str, Port], report: Report) -> None:
    for key, twice in _SHARED_OWNERS:
        owners: dict[str, Port] = {}
        for port in ports.values():
            value = getattr(port, key)
            if value is None:
                continue
            first = owners.setdefault(value, port)
            if first is not port:
                message = "%s is the %s of %s too" % (value, key, first.rail)
                report.add(twice, port.paths.get(key, port.path), message, "name the port of %s" % port.rail)
    cards: dict[tuple[str, str, int], Port] = {}
    for port in ports.values():
        for key in ("slot", "serial"):
            value = getattr(port, key)
            if value is None:
                continue
            first = cards.setdefault((key, value, port.port or 1), port)
            if first is not port:
                message = "%s %s is of %s too" % (key, shown(value), first.rail)
                remedy = "name the card of %s, or say port, its number on the card" % port.rail
                report.add(IDENTITY_TWICE, port.paths.get(key, port.path), message, remedy)


def _other_ports(profile: Profile, report: Report) -> None:
    """That what must not be touched is not on a rail, nor on a card that is."""
    keys = ("pci", "netdev", "mac")
    functions = {(key, getattr(port, key)): port for port in profile.ports.values() for key in keys}
    cards = {each: port for port in profile.ports.values() for each in _card(port)}
    for other in profile.other_ports.values():
        same = next(
            (key for key in keys if getattr(other.port, key) and (key, getattr(other.port, key)) in functions), None
        )
        if same:
            value = getattr(other.port, same)
            message = "%s is the port of %s" % (value, functions[same, value].rail)
            report.add(OTHER_IS_RAIL, other.path + (same,), message, "name the port for %s" % other.role)
            continue
        _shared_card(other, cards, report)


def _shared_card(other: OtherPort, cards: t.Mapping[tuple[str, str], Port], report: Report) -> None:
    for kind, card in _card(other.port):
        if (kind, card) not in cards:
            continue
        rail = cards[kind, card].rail
        message = "the card of %s has the port of %s too: its firmware is set, and never reset by itself" % (
            other.name,
            rail,
        )
        remedy = "move one of them to another card, or let the finding stand and reboot for firmware settings"
        report.add(OTHER_ON_CARD, other.path, message, remedy)
        return


def _card(port: Port) -> list[tuple[str, str]]:
    """What tells the card: its PCI address without the function, its slot, its serial number."""
    found = [("pci", port.pci.partition(".")[0])] if port.pci else []
    return found + [(key, value) for key, value in (("slot", port.slot), ("serial", port.serial)) if value]


def _groups(fabric: Fabric, report: Report) -> None:
    used = {name for node in fabric.nodes for name in node.groups}
    for group in fabric.groups.values():
        if group.name not in used and fabric.nodes and not report.within(("nodes",)) and not report.has(group.path):
            near = nearest(group.name, used)
            message = "no node is in the group %s%s" % (shown(group.name), did_you_mean(near))
            report.add(GROUP_UNUSED, group.path, message, "write %s" % near if near else "take it out")


def _cards(fabric: Fabric, variants: Variants, report: Report) -> None:
    """That a port's number has a card, and that what only one server can have stands at one server."""
    owners: dict[tuple[str, str, int], tuple[Node, Port]] = {}
    for variant in variants:
        nodes = variants.nodes_of(variant)
        for port in variant.ports.values():
            if "port" in port.paths and port.slot is None and port.serial is None and not report.within(port.path):
                message = "port %s of which card? Neither slot nor serial is said" % port.port
                report.add(PORT_OF_NOTHING, port.paths["port"], message, "say slot or serial, or take port out")
        for node in nodes:
            held = ports_of(node, variant)
            for port in held.values():
                for key in ("serial", "mac"):
                    value = getattr(port, key)
                    if value is None:
                        continue
                    number = port.port or 1 if key == "serial" else 0
                    first, other = owners.setdefault((key, value, number), (node, port))
                    if first is not node:
                        message = "%s %s is of %s too" % (key, shown(value), first.name)
                        remedy = "say it at each node, such as ports: {%s: {%s: ...}}" % (port.rail, key)
                        report.add(IDENTITY_TWICE, port.paths.get(key, port.path), message, remedy)
                    elif other is not port and key == "mac":
                        message = "mac %s is of %s too" % (shown(value), other.rail)
                        report.add(IDENTITY_TWICE, port.paths.get(key, port.path), message, "name the port's own")


def _links(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        profile = variant.profile
        for key, value, path in [("width", profile.expected.get("width"), profile.path)] + [
            ("width", port.width, port.path) for port in variant.ports.values()
        ]:
            if value is not None and fabric.link_layer == "ethernet":
                message = "width %d counts InfiniBand's lanes, and the link layer is ethernet" % value
                report.add(WIDTH, path + (key,), message, "take it out; speed says what a link carries")
        for port in variant.ports.values():
            speed, gen, lanes = (
                getattr(port, key) or profile.expected.get(key) for key in ("speed", "pcie_gen", "pcie_lanes")
            )
            if not (speed and gen and lanes) or speed <= _LANE[gen] * lanes:
                continue
            message = "PCIe %d.0 with %d lanes carries %d Gb/s, and the link %d" % (
                gen,
                lanes,
                _LANE[gen] * lanes,
                speed,
            )
            path = port.paths.get("speed", profile.path + ("speed",))
            report.add(SLOW_SLOT, path, message, "correct what is expected, or move the card to a faster slot")


def _empty(fabric: Fabric, variants: Variants, report: Report) -> None:
    if not fabric.nodes or report.within(("nodes",)) or report.within(("profiles",)) or report.within(("rails",)):
        return
    served: set[str] = set()
    for variant in variants:
        plain = False
        for node in variants.nodes_of(variant):
            if node.ports:
                served.update(ports_of(node, variant))
            elif not plain:
                served.update(variant.ports)
                plain = True
    for rail in fabric.rails:
        if rail.name not in served and served:
            message = "no node has a port on %s" % rail.name
            report.add(RAIL_EMPTY, rail.path, message, "take the rail out, or give nodes a port on it")


def _indexes(nodes: t.Sequence[Node], report: Report) -> None:
    owners: dict[int, Node] = {}
    highest = max([node.index or 0 for node in nodes] + [len(nodes)])
    for node in nodes:
        # An index that follows from a unit and a place is looked at as these.
        if node.index is None or (node.unit is not None and node.index_path is None):
            continue
        first = owners.setdefault(node.index, node)
        if first is not node:
            report.add(
                INDEX_TWICE,
                node.index_path or node.path,
                "%s and %s both have index %d" % (first.name, node.name, node.index),
                'say index, such as index: %d, or index: "[1:%d]" for a range of nodes' % (highest + 1, len(nodes)),
            )
