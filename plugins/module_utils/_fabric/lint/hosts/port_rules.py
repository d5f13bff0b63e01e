# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY4xx: how ports are identified, their expected speed and width, and ports that are not on a rail."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Report,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Node,
    OtherPort,
    Port,
    Profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Member
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of


def _others(role: str, pci: str) -> str:
    first, second = ('gpu0%d: {netdev: nic%d, pci: "0000:0%s:00.0"}' % each for each in ((1, 1, "b"), (2, 2, "c")))
    return example_file.ports(first, second) + '    other_ports:\n      x1: {role: %s, netdev: nic9, pci: "%s"}\n' % (
        role,
        pci,
    )


# PCIe generation -> Gb/s of one lane, without the overhead of the line code.
_LANE = {1: 2.0, 2: 4.0, 3: 7.88, 4: 15.75, 5: 31.51, 6: 60.5, 7: 121.0}


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for profile in fabric.profiles.values():
        _other_ports(profile, report)
    _overridden_ports(variants, report)
    _portless(variants, report)
    _numbers(variants, report)
    _shared_identities(variants, report)
    _links(fabric, variants, report)


OTHER_IS_RAIL = rule(
    "RY430 other-port-on-rail: Rail port that is also a port for storage or management",
    _others("management", "0000:0c:00.0"),
    _others("management", "0000:81:00.0"),
    why="Rail ports are reset, renamed and readdressed. That must not happen to ports for management or storage.",
)


def _other_ports(profile: Profile, report: Report) -> None:
    """Report ports for storage or management that are on a rail, or on the card of a rail port."""
    functions = {each: port for port in profile.ports.values() for each in _functions(port)}
    cards = {each: port for port in profile.ports.values() for each in _cards(port)}
    for other in profile.other_ports.values():
        same = next((each for each in _function(other.port) if each in functions), None)
        if same:
            message = "%s is the port of %s" % (shown(same[1]), functions[same].rail)
            report.add(OTHER_IS_RAIL, other.path + (same[0],), message, "correct it for the port for %s" % other.role)
            continue
        _shared_card(other, cards, report)


OTHER_ON_CARD = rule(
    "RY431 shared-card: Rail port on the card of a port for storage or management",
    _others("storage", "0000:0c:00.1"),
    _others("storage", "0000:81:00.0"),
    WARNING,
    why="A firmware reset drops all links of a card, so cards with ports for management or storage are not reset.",
)


def _overridden_ports(variants: Variants, report: Report) -> None:
    """Check other ports against the rail ports that groups and nodes override."""
    for variant, ports in variants.tables():
        profile = variant.profile
        if not profile.other_ports:
            continue
        functions = {each: other for other in profile.other_ports.values() for each in _function(other.port)}
        cards = {each: other for other in profile.other_ports.values() for each in _card(other.port)}
        for rail, port in ports.items():
            of_profile = profile.ports.get(rail)
            if port is of_profile:
                continue
            known = _functions(of_profile) + _cards(of_profile) if of_profile else []
            same = next((each for each in _functions(port) if each in functions and each not in known), None)
            if same:
                other = functions[same]
                message = "%s is %s, a port for %s" % (shown(same[1]), other.name, other.role)
                report.add(
                    OTHER_IS_RAIL, port.paths.get(same[0], port.path), message, "correct it for the port of %s" % rail
                )
                continue
            card = next((each for each in _cards(port) if each in cards and each not in known), None)
            if card:
                message, remedy = _shared_card_texts(cards[card].name, rail)
                report.add(OTHER_ON_CARD, port.paths.get(card[0], port.path), message, remedy)


PORTLESS = rule(
    "RY440 node-without-ports: Node without a port on any rail",
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: null, gpu02: null}}",
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu02: null}}",
)


def _portless(variants: Variants, report: Report) -> None:
    """Report nodes without rail ports."""
    for variant in variants:
        if not variant.profile.ports:
            continue  # the profile has been reported
        for node in variants.nodes_of(variant):
            if ports_of(node, variant):
                continue
            path = node.path + ("ports",) if node.ports else variant.path + ("ports",)
            message = "%s has no rail ports: all ports of profile %s are null" % (node.name, variant.name)
            report.add(PORTLESS, path, message, "keep at least one port, or remove the node from the file")


def _shared_card_texts(other: str, rail: str) -> tuple[str, str]:
    """Return message and remedy for another port that shares its card with a rail port."""
    return (
        "the card of %s has the port of %s too: its firmware is set, and never reset by itself" % (other, rail),
        "move one of them to another card, or suppress this finding and reboot for firmware settings",
    )


def _shared_card(other: OtherPort, cards: t.Mapping[tuple[str, str], Port], report: Report) -> None:
    """Report another port that is on the card of a rail port."""
    for kind, card in _card(other.port):
        if (kind, card) not in cards:
            continue
        message, remedy = _shared_card_texts(other.name, cards[kind, card].rail)
        report.add(OTHER_ON_CARD, other.path, message, remedy)
        return


def _functions(port: Port) -> list[tuple[str, str]]:
    """Return the identities of all functions of a port, and the names of its bond and VLAN."""
    found = [each for function in port.functions for each in _function(function)]
    return found + [("netdev", name) for name in (port.rdma_netdev, port.interface) if name]


def _cards(port: Port) -> list[tuple[str, str]]:
    return [each for function in port.functions for each in _card(function)]


def _function(port: Port | Member) -> list[tuple[str, str]]:
    """Return the identities of a port's PCI function. For a card with slot or serial number, it is the port number."""
    found = [(key, value) for key in ("pci", "netdev", "mac") for value in [getattr(port, key)] if value]
    return found + [(key, "%s port %d" % (value, port.port or 1)) for key, value in _card(port) if key != "pci"]


def _card(port: Port | Member) -> list[tuple[str, str]]:
    """Return the identities of a port's card: PCI address without the function, slot, serial number."""
    found = [("pci", port.pci.partition(".")[0])] if port.pci else []
    return found + [(key, value) for key, value in (("slot", port.slot), ("serial", port.serial)) if value]


PORT_OF_NOTHING = rule(
    "RY418 port-number-without-card: Port number without a card",
    example_file.ports('gpu01: {netdev: nic1, pci: "0000:0b:00.0", port: 2}', "gpu02: {netdev: nic2}"),
    example_file.ports('gpu01: {netdev: nic1, slot: "4", port: 2}', "gpu02: {netdev: nic2}"),
)


def _numbers(variants: Variants, report: Report) -> None:
    """Report port numbers without a card, and two ports of a server with one identity."""
    for _variant, ports in variants.tables():
        numbered = [
            (port, at)
            for port in ports.values()
            for at, each in enumerate(port.functions)
            if (port.bond or port.sets("port")) and each.port and not each.slot and not each.serial
        ]
        unknown = [(port, at) for port, at in numbered if not report.within(port.path)]
        # Ports that a variant shares with its profile have been reported with the profile.
        if unknown and len(unknown) == len(numbered):
            more = " (and %d more ports)" % (len(unknown) - 1) if len(unknown) > 1 else ""
            port, at = unknown[0]
            message = "port %s without slot or serial does not identify a card%s" % (port.functions[at].port, more)
            place = port.function_path(at) + ("port",) if port.bond else port.paths["port"]
            report.add(PORT_OF_NOTHING, place, message, "add slot or serial, or remove port")
        _duplicates(ports, report)


IDENTITY_TWICE = rule(
    "RY417 duplicate-port-match: Two ports with the same slot, serial number or MAC address",
    example_file.ports('gpu01: {netdev: nic1, slot: "4"}', 'gpu02: {netdev: nic2, slot: "4"}'),
    example_file.ports('gpu01: {netdev: nic1, slot: "4", port: 1}', 'gpu02: {netdev: nic2, slot: "4", port: 2}'),
    why="A card has one slot and one serial number; port distinguishes its functions. Serial numbers and MAC addresses"
    " belong to one server, so they are set for nodes and not for a profile of several nodes.",
)


def _duplicates(ports: t.Mapping[str, Port], report: Report) -> None:
    """Report two ports of a server with the same slot, serial number or MAC address."""
    owners: dict[tuple[str, str, int], Port] = {}
    for port in ports.values():
        if port.bond or port.vlan:
            continue  # interface_rules reports these
        for key, number in (("slot", port.port or 1), ("serial", port.port or 1), ("mac", 0)):
            value = getattr(port, key)
            if value is None:
                continue
            first = owners.setdefault((key, value, number), port)
            if first is not port:
                message = "%s %s is also of %s" % (key, shown(value), first.rail)
                remedy = "correct it for %s, or set port, the port's number on the card" % port.rail
                remedy = remedy if number else "correct it for the port of %s" % port.rail
                report.add(IDENTITY_TWICE, port.paths.get(key, port.path), message, remedy)


def _shared_identities(variants: Variants, report: Report) -> None:
    """Report serial numbers and MAC addresses that several nodes have."""
    owners: dict[tuple[str, str], Node] = {}
    for variant in variants:
        for node in variants.nodes_of(variant):
            functions = [(each, port) for port in ports_of(node, variant).values() for each in port.functions]
            for function, port in functions:
                for key in ("serial", "mac"):
                    value = getattr(function, key)
                    first = owners.setdefault((key, value), node) if value is not None else node
                    if first is not node:
                        message = "%s %s is also of %s" % (key, shown(value), first.name)
                        remedy = "set it at each node, such as ports: {%s: {%s: ...}}" % (port.rail, key)
                        report.add(IDENTITY_TWICE, port.paths.get(key, port.path), message, remedy)


SLOW_SLOT = rule(
    "RY432 slow-slot: PCIe slot slower than the link",
    example_file.ports("gpu01: {netdev: nic1, speed: 400, pcie_gen: 4, pcie_lanes: 16}", "gpu02: {netdev: nic2}"),
    example_file.ports("gpu01: {netdev: nic1, speed: 400, pcie_gen: 5, pcie_lanes: 16}", "gpu02: {netdev: nic2}"),
    WARNING,
)

WIDTH = rule(
    "RY434 width-on-ethernet: Link width on Ethernet",
    example_file.ports("gpu01: {netdev: nic1, width: 4}", "gpu02: {netdev: nic2}"),
    example_file.ports("gpu01: {netdev: nic1, speed: 400}", "gpu02: {netdev: nic2}"),
)


def _links(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report expected values that the link or the PCIe slot does not support."""
    for variant in variants.with_unused():
        profile = variant.profile
        layers = {rail.name: fabric.link_layer_on(rail) for rail in fabric.rails}
        ports = [("width", port.width, port.path, layers.get(port.rail)) for port in variant.ports.values()]
        # The expected width of a profile applies to its InfiniBand links.
        of_profile = INFINIBAND if INFINIBAND in [layer for *_port, layer in ports] else fabric.link_layer
        for key, value, path, layer in [("width", profile.expected.get("width"), profile.path, of_profile), *ports]:
            if value is not None and layer == ETHERNET:
                message = "width %d is for InfiniBand, and the link layer is ethernet" % value
                report.add(WIDTH, path + (key,), message, "remove it; set speed instead")
        for port in variant.ports.values():
            speed, gen, lanes = (
                getattr(port, key) or profile.expected.get(key) for key in ("speed", "pcie_gen", "pcie_lanes")
            )
            if not (speed and gen and lanes) or speed <= _LANE[gen] * lanes:
                continue
            message = "PCIe %d.0 with %d lanes carries %d Gb/s, but the link carries %d" % (
                gen,
                lanes,
                _LANE[gen] * lanes,
                speed,
            )
            path = port.paths.get("speed", profile.path + ("speed",))
            report.add(SLOW_SLOT, path, message, "correct the expected values, or move the card to a faster slot")
