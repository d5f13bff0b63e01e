# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY3xx: routing tables, gateways, MTU, and management addresses of nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate import address_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX, Outermost
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.special_networks import canonical, same_host

# Tables 0, 253, 254 and 255 are unspec, default, main and local; priorities 32766 and 32767 look up main and default.
_KERNEL_TABLES = (0, 253, 254, 255)

_KERNEL_PRIORITY = 32766

# Bytes that the kernel subtracts from a netdev's MTU for RoCE headers before it selects the RDMA MTU (ib_addr.h).
_ROCE_HEADERS = 96

_ROCE_MTUS = (1024, 2048, 4096)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for rail in fabric.rails:
        _router(fabric, rail, report)
    _management(fabric, report)
    _routing(fabric, report)
    _mtu(fabric, report)


NO_ROUTER = rule(
    "RY330 no-gateway-between-nodes: Node networks without a gateway between them",
    example_file.node_prefixes("node_prefix: 27, gateway: none"),
    example_file.node_prefixes("node_prefix: 27, gateway: first"),
    WARNING,
)

DESTINATION = rule(
    "RY332 destination-routing-without-gateway: Destination routing without a gateway",
    example_file.node_prefixes("node_prefix: 27, gateway: none", ", routing: {mode: destination}"),
    example_file.node_prefixes("node_prefix: 27, gateway: first", ", routing: {mode: destination}"),
)


def _router(fabric: Fabric, rail: Rail, report: Report) -> None:
    """Report rails with a network per node and no gateway between them."""
    if rail.mode != address_schemes.PREFIX:
        return
    for bits, scheme in rail.schemes.items():
        if scheme.gateway != address_schemes.NONE:
            continue
        path = rail.where("gateway" + SUFFIX[bits])
        if fabric.routing.mode == "destination":
            message = "routes to %s need a gateway, and %s has none" % (scheme.network, rail.name)
            report.add(DESTINATION, path, message, "write gateway: first, or gateway: last")
        else:
            message = "each node has its own network on %s, and no gateway to the others" % rail.name
            report.add(NO_ROUTER, path, message, "write gateway: first, or gateway: last")


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


def _management(fabric: Fabric, report: Report) -> None:
    """Report management addresses that two nodes have, or that are on a rail."""
    known: dict[t.Hashable, Node] = {}
    rails = Outermost((net, rail) for rail in fabric.rails for net in rail.networks)
    for node in fabric.nodes:
        if node.address is None:
            continue
        first = known.setdefault(same_host(node.address), node)
        path = node.path + ("address",)
        if report.has(path):
            continue
        if first is not node:
            message = "%s is also the address of %s" % (node.address, first.name)
            report.add(NODE_ADDRESS_TWICE, path, message, "give %s an address of its own" % node.name)
        number = canonical(node.address)
        found = rails.find(number[1], number[0]) if number else None
        if found:
            net, rail = found
            message = "%s of %s is in %s of %s" % (node.address, node.name, net, rail.name)
            report.add(NODE_ADDRESS_ON_RAIL, path, message, "use an address outside the rails' subnets")


TABLE = rule(
    "RY318 kernel-routing-table: Routing table number that the kernel itself uses",
    example_file.fabric(", routing: {first_table: 252}"),
    example_file.fabric(", routing: {first_table: 101}"),
)

PRIORITY = rule(
    "RY319 rule-priority-too-high: Rule priority after the kernel's own rules",
    example_file.fabric(", routing: {first_priority: 32765}"),
    example_file.fabric(", routing: {first_priority: 10001}"),
)


def _routing(fabric: Fabric, report: Report) -> None:
    """Report routing tables and rule priorities that the kernel uses itself."""
    if fabric.routing.mode == "destination":
        return
    for rail in fabric.rails:
        table = fabric.routing.first_table + rail.number - 1
        if table in _KERNEL_TABLES or table >= 1 << 32:
            report.add(
                TABLE,
                ("fabric", "routing", "first_table"),
                "%s, rail %d, would have table %d" % (rail.name, rail.number, table),
                "begin above 255, or at %d or less" % (253 - len(fabric.rails)),
            )
        priority = fabric.routing.first_priority + rail.number - 1
        if priority >= _KERNEL_PRIORITY:
            report.add(
                PRIORITY,
                ("fabric", "routing", "first_priority"),
                "%s, rail %d, would have priority %d; main is looked up at %d"
                % (rail.name, rail.number, priority, _KERNEL_PRIORITY),
                "begin at %d or less" % (_KERNEL_PRIORITY - len(fabric.rails)),
            )


MTU_STEP = rule(
    "RY320 mtu-just-below-step: MTU just below the next RoCE MTU",
    example_file.fabric("", 4096),
    example_file.fabric("", 4200),
    WARNING,
)


def _mtu(fabric: Fabric, report: Report) -> None:
    """Report MTUs with which a slightly higher MTU would double the RDMA MTU."""
    rails = [rail for rail in fabric.rails if fabric.link_layer_on(rail) == ETHERNET]
    mtus = [(rail.mtu, rail.where("mtu")) for rail in rails]
    if fabric.link_layer == ETHERNET or any(rail.mtu is None for rail in rails):
        mtus.insert(0, (fabric.mtu, ("fabric", "mtu")))
    for mtu, path in mtus:
        for step in _ROCE_MTUS:
            if mtu is not None and step <= mtu < step + _ROCE_HEADERS:
                report.add(
                    MTU_STEP,
                    path,
                    "with %d, RDMA transfers have an MTU of %d: %d needs %d"
                    % (mtu, step // 2, step, step + _ROCE_HEADERS),
                    "set it to %d if the switches support it" % (4200 if step == 4096 else step + _ROCE_HEADERS),
                )
