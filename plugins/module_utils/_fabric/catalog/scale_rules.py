# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY95x to RY99x: limits of the number of nodes and rails."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, rule

_RAILS = 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .16.0-.31.255, hosts: .0.1-.15.255}\n'

_PREFIX = (
    "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 15}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)

POOLS_MANY = rule(
    "RY951 many-pools: More pools than Spiderpool handles well",
    _PREFIX + "nodes:\n  ai-[0001:2100]: {profile: hgx}\n",
    _PREFIX + "nodes:\n  ai-[0001:2000]: {profile: hgx}\n",
    WARNING,
    why="Spiderpool reads all pools whenever it creates one, so the work grows with the square of their number.",
)

NEIGHBOURS = rule(
    "RY952 neighbour-table-overflow: More neighbours than a node's neighbour table holds",
    _RAILS + "nodes:\n  ai-[0001:1100]: {profile: hgx}\n",
    _RAILS + "nodes:\n  ai-[0001:1000]: {profile: hgx}\n",
    WARNING,
    why="The kernel drops entries above net.ipv4.neigh.default.gc_thresh3, 1024 until it is raised. With a prefix for"
    " each node, a node has one neighbour per rail, its leaf.",
)

RULES_MANY = rule(
    "RY953 rule-priority-overlap: Rule priorities that overlap those of Spiderpool",
    "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, routing: {first_priority: 999}}\n",
    "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, routing: {first_priority: 10001}}\n",
    WARNING,
    why="Spiderpool's own rule has priority 1000 for all sources. A rule before it would divert traffic from its pods.",
)
