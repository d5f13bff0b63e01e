# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY95x to RY99x: limits of the number of nodes and rails."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    LINK,
    PREFIX,
    SUBNET,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants

_RAILS = 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .16.0-.31.255, hosts: .0.1-.15.255}\n'

_PREFIX = (
    "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 15}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)

# The kernel's default; limits.neighbours never lowers it.
_NEIGHBOURS = 1024


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    _pools(fabric, report)
    _neighbours(fabric, variants, report)
    _priorities(fabric, report)


POOLS_MANY = rule(
    "RY951 many-pools: More pools than Spiderpool handles well",
    _PREFIX + "nodes:\n  ai-[0001:2100]: {profile: hgx}\n",
    _PREFIX + "nodes:\n  ai-[0001:2000]: {profile: hgx}\n",
    WARNING,
    why="Spiderpool reads all pools whenever it creates one, so the work grows with the square of their number.",
)


def _pools(fabric: Fabric, report: Report) -> None:
    """Report more pools than the provider supports."""
    own = sum(1 for rail in fabric.rails if rail.mode in (PREFIX, BLOCK, LINK))
    nodes = max(len(fabric.nodes), fabric.max_nodes or 0)
    most = facts_of(fabric.provider).most_pools
    if most is not None and own * nodes > most:
        message = "{:,} nodes on {} rails with addresses of their own are {:,} pools".format(nodes, own, own * nodes)
        remedy = "use the provider network-operator, which has one pool per rail, or the mode subnet"
        report.add(POOLS_MANY, ("fabric", "provider"), message, remedy)


NEIGHBOURS = rule(
    "RY952 neighbour-table-overflow: More neighbours than a node's neighbour table holds",
    _RAILS + "nodes:\n  ai-[0001:1100]: {profile: hgx}\n",
    _RAILS + "nodes:\n  ai-[0001:1000]: {profile: hgx}\n",
    WARNING,
    why="The kernel drops entries above net.ipv4.neigh.default.gc_thresh3, 1024 until it is raised. With a prefix for"
    " each node, a node has one neighbour per rail, its leaf.",
)


def _neighbours(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report rails with more neighbours than the neighbour tables hold."""
    demands = demands_of(fabric, variants)
    tables = [(_table(variant), variants.rails_of(variant)) for variant in variants]
    counts = {
        rail.name: demands[rail.name][0].planned_nodes * (1 + (demands[rail.name][0].pods_per_node or 0))
        for rail in fabric.rails
        if rail.mode in (SUBNET, BLOCK)
    }
    # A node has one table for the neighbours on all of its rails.
    room = 1 << max(sum(counts.values()) - 1, 0).bit_length()
    for rail in fabric.rails:
        least = min([size for size, rails in tables if rail.name in rails] or [_NEIGHBOURS])
        if rail.name not in counts or report.within(rail.path):
            continue
        count = counts[rail.name]
        if count > least:
            message = "{:,} nodes and their pods on {} are {:,} neighbours, and the table holds {:,}".format(
                demands[rail.name][0].planned_nodes, rail.name, count, least
            )
            remedy = "use the mode prefix, or set gc_thresh3 of limits.neighbours to %d or more" % room
            report.add(NEIGHBOURS, rail.where("subnet" if 32 in rail.schemes else "subnet6"), message, remedy)


def _table(variant: Variant) -> int:
    """Return how many neighbours the table of a variant's nodes holds."""
    given = host_model.value(variant.host, host_model.LIMITS, "neighbours", {})
    return max(given.get("gc_thresh3", 0), _NEIGHBOURS)


RULES_MANY = rule(
    "RY953 rule-priority-overlap: Rule priorities that overlap those of Spiderpool",
    example_file.fabric(", routing: {first_priority: 999}") + "\n",
    example_file.fabric(", routing: {first_priority: 10001}") + "\n",
    WARNING,
    why="Spiderpool's own rule has priority 1000 for all sources. A rule before it would divert traffic from its pods.",
)


def _priorities(fabric: Fabric, report: Report) -> None:
    """Report rule priorities that include the provider's."""
    first = fabric.routing.first_priority
    last = first + len(fabric.rails) - 1
    taken = facts_of(fabric.provider).rule_priority
    if taken is not None and fabric.routing.mode == "source" and first <= taken <= last:
        message = "the rails' rules have priorities %d to %d, and Spiderpool's has %d" % (
            first,
            last,
            taken,
        )
        report.add(RULES_MANY, ("fabric", "routing", "first_priority"), message, "begin after it, such as at 10001")
