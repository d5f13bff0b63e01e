# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: routing tables, gateways, MTU, and management addresses of nodes."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, rule


def _fabric(more: str, mtu: int = 4200) -> str:
    return "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: %d%s}" % (mtu, more)


def _own_prefixes(more: str, fabric: str = "") -> str:
    """Return rails with a prefix for each node and rail."""
    addresses = "addresses: {mode: prefix, supernet: 172.16.0.0/12, rail_prefix: 16, %s}" % more
    return "%s\n%s\nrails: {gpu01: {}, gpu02: {}}" % (_fabric(fabric), addresses)


NODE_ADDRESS = rule(
    "RY315 invalid-node-address: Node address that is neither an IP address nor a host name",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1:22}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
)

NODE_ADDRESS_TWICE = rule(
    "RY316 duplicate-node-address: Two nodes with the same address",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}\n  ai-2: {profile: hgx, address: 10.1.16.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}\n  ai-2: {profile: hgx, address: 10.1.16.2}",
)

NODE_ADDRESS_ON_RAIL = rule(
    "RY317 node-address-on-rail: Node address on a rail",
    "nodes:\n  ai-1: {profile: hgx, address: 172.16.11.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
)

TABLE = rule(
    "RY318 kernel-routing-table: Routing table number that the kernel itself uses",
    _fabric(", routing: {first_table: 252}"),
    _fabric(", routing: {first_table: 101}"),
)

PRIORITY = rule(
    "RY319 rule-priority-too-high: Rule priority after the kernel's own rules",
    _fabric(", routing: {first_priority: 32765}"),
    _fabric(", routing: {first_priority: 10001}"),
)

MTU_STEP = rule(
    "RY320 mtu-just-below-step: MTU just below the next RoCE MTU", _fabric("", 4096), _fabric("", 4200), WARNING
)

NO_ROUTER = rule(
    "RY330 no-gateway-between-nodes: Node networks without a gateway between them",
    _own_prefixes("node_prefix: 27, gateway: none"),
    _own_prefixes("node_prefix: 27, gateway: first"),
    WARNING,
)

DESTINATION = rule(
    "RY332 destination-routing-without-gateway: Destination routing without a gateway",
    _own_prefixes("node_prefix: 27, gateway: none", ", routing: {mode: destination}"),
    _own_prefixes("node_prefix: 27, gateway: first", ", routing: {mode: destination}"),
)
