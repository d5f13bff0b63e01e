# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY4xx: how ports are identified, their expected speed and width, and ports that are not on a rail."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)


def _ports(first: str, second: str) -> str:
    return "profiles:\n  hgx:\n    ports:\n      %s\n      %s\n" % (first, second)


def _others(role: str, pci: str) -> str:
    ports = _ports('gpu01: {netdev: nic1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: nic2, pci: "0000:0c:00.0"}')
    return ports + '    other_ports:\n      x1: {role: %s, netdev: nic9, pci: "%s"}\n' % (role, pci)


_GOOD_PORTS = _ports(
    'gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}', 'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}'
)

PCI_ADDRESS = rule(
    "RY407 invalid-pci-address: Invalid PCI address",
    _ports('gpu01: {netdev: nic1, pci: "0000:0b:00:0"}', "gpu02: {netdev: nic2}"),
    _GOOD_PORTS,
)

IDENTITY = rule(
    "RY416 invalid-port-match: Invalid slot, serial number or MAC address of a port",
    _ports('gpu01: {netdev: nic1, mac: "01:00:5e:00:00:01"}', "gpu02: {netdev: nic2}"),
    _ports("gpu01: {netdev: nic1, slot: PCIE_1}", "gpu02: {netdev: nic2, slot: PCIE_2}"),
)

IDENTITY_TWICE = rule(
    "RY417 duplicate-port-match: Two ports with the same slot, serial number or MAC address",
    _ports('gpu01: {netdev: nic1, slot: "4"}', 'gpu02: {netdev: nic2, slot: "4"}'),
    _ports('gpu01: {netdev: nic1, slot: "4", port: 1}', 'gpu02: {netdev: nic2, slot: "4", port: 2}'),
    why="A card has one slot and one serial number; port distinguishes its functions. Serial numbers and MAC addresses"
    " belong to one server, so they are set for nodes and not for a profile of several nodes.",
)

PORT_OF_NOTHING = rule(
    "RY418 port-number-without-card: Port number without a card",
    _ports('gpu01: {netdev: nic1, pci: "0000:0b:00.0", port: 2}', "gpu02: {netdev: nic2}"),
    _ports('gpu01: {netdev: nic1, slot: "4", port: 2}', "gpu02: {netdev: nic2}"),
)

OTHER_IS_RAIL = rule(
    "RY430 other-port-on-rail: Rail port that is also a port for storage or management",
    _others("management", "0000:0c:00.0"),
    _others("management", "0000:81:00.0"),
    why="Rail ports are reset, renamed and readdressed. That must not happen to ports for management or storage.",
)

OTHER_ON_CARD = rule(
    "RY431 shared-card: Rail port on the card of a port for storage or management",
    _others("storage", "0000:0c:00.1"),
    _others("storage", "0000:81:00.0"),
    WARNING,
    why="A firmware reset drops all links of a card, so cards with ports for management or storage are not reset.",
)

SLOW_SLOT = rule(
    "RY432 slow-slot: PCIe slot slower than the link",
    _ports("gpu01: {netdev: nic1, speed: 400, pcie_gen: 4, pcie_lanes: 16}", "gpu02: {netdev: nic2}"),
    _ports("gpu01: {netdev: nic1, speed: 400, pcie_gen: 5, pcie_lanes: 16}", "gpu02: {netdev: nic2}"),
    WARNING,
)

WIDTH = rule(
    "RY434 width-on-ethernet: Link width on Ethernet",
    _ports("gpu01: {netdev: nic1, width: 4}", "gpu02: {netdev: nic2}"),
    _ports("gpu01: {netdev: nic1, speed: 400}", "gpu02: {netdev: nic2}"),
)

PORTLESS = rule(
    "RY440 node-without-ports: Node without a port on any rail",
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: null, gpu02: null}}",
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu02: null}}",
)
