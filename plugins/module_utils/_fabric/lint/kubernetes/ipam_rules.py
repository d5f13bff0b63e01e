# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY33x and RY81x: what Spiderpool and nv-ipam can allocate and serve as planned."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import SUBNET, Demand
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.kubernetes.rendered_rules import MOST_LISTED
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
    SHARED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX, Range, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, partial_blocks
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_FABRIC = "fabric: {name: ai, mtu: 4200, attachment: macvlan, provider: %s}\n"

_OPERATOR = _FABRIC % "network-operator, pods_per_node: 4"

_RANGES = 'rails: {count: 2, name: "gpu{n:02}", subnet6: "fd00:{n}::/64", pods6: [%s], hosts6: +1-+9}\n'


def _rails(pods: str) -> str:
    return 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: %s, hosts: .201-.253}\n' % pods


_SPIDERPOOL_TABLE = 500

_SPIDERPOOL_POOL = 5000


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    facts = facts_of(fabric.provider)
    if facts.lists_addresses:
        _spiderpool(fabric, variants, report)
    if facts.cuts_blocks:
        _blocks(fabric, variants, report)


BLOCKS = rule(
    "RY815 ipam-addresses-differ: Addresses that the provider's IPAM cannot allocate as planned",
    _OPERATOR + _rails(".11-.200"),
    _OPERATOR + _rails(".1-.200"),
    why="In a subnet, nv-ipam allocates blocks of pods_per_node addresses, at least two, from the first address on."
    " With the mode prefix, each node gets the addresses of the plan.",
)


def _blocks(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report pod ranges from which nv-ipam cannot allocate as planned."""
    demands = demands_of(fabric, variants)
    if any(facts_of(fabric.provider).refused(variant.attachment) for variant in variants):
        return
    for rail in fabric.rails:
        vfs = any(variant.has_vfs_on(rail) for variant in variants)
        demand = demands[rail.name][0]
        for bits, scheme in rail.schemes.items() if rail.mode == SUBNET else ():
            path = rail.where("pods" + SUFFIX[bits])
            if scheme.pods is None or report.within(path):
                continue
            first = scheme.network.usable.first
            own = scheme.own_pods
            pods = own.without(scheme.excluded) if own else None
            if pods is None:
                continue
            # One block serves a node's pods on all rails with this pool.
            rails = scheme.divided.rails if scheme.divided else 1
            block = max(2, demand.pods_per_node or 0) * rails
            if pods.first >= first + block or (pods.first != first and not demand.pods_per_node):
                message = "nv-ipam allocates from %s on, but pods of %s begin at %s" % (
                    show(first, bits),
                    rail.name,
                    show(pods.first, bits),
                )
                remedy = "begin pods there, or use the mode prefix"
                if scheme.part and not scheme.numbering:
                    remedy = "write numbering: node or numbering: rail, with which all rails have one pool"
                report.add(BLOCKS, path, message, remedy)
            elif demand.pods_per_node is None and not vfs and demand.nodes:
                message = (
                    "nv-ipam divides %s into blocks of pods_per_node addresses, and pods_per_node is not set"
                    % rail.name
                )
                remedy = "set pods_per_node, or use the mode prefix"
                report.add(BLOCKS, ("fabric", "pods_per_node"), message, remedy)
            elif demand.pods_per_node == 1 and pods.last - first + 1 < block * demand.planned_nodes:
                message = "nv-ipam's blocks have at least {} addresses, and {} has {:,} for {}".format(
                    block, rail.name, pods.last - first + 1, count(demand.planned_nodes, "node")
                )
                report.add(BLOCKS, path, message, "widen the range, or use the mode prefix")
            elif demand.pods_per_node:
                whole = Range(first, first + block * demand.planned_nodes - 1, bits)
                _holes(rail, whole, pods, demand, rails, path, report)


BLOCK_SHORT = rule(
    "RY336 excluded-address-in-block: Excluded address in a node's block of pod addresses",
    _OPERATOR + _rails("[.1-.3, .5-.200]"),
    _OPERATOR + _rails("[.1-.100, .120-.200]"),
    WARNING,
    why="nv-ipam divides the subnet into blocks regardless of exclusions and of the gateway, so the node with such a"
    " block has fewer addresses than pods_per_node.",
)


def _holes(rail: Rail, whole: Range, pods: Ranges, demand: Demand, rails: int, where: Path, report: Report) -> None:
    """Report a node's block of ``whole`` that has fewer pod addresses than ``pods_per_node`` on each of ``rails``."""
    needed, block = (demand.pods_per_node or 1) * rails, max(2, demand.pods_per_node or 1) * rails
    missing = Ranges.of(whole).without(pods.parts)
    partial = sorted(partial_blocks(whole, block, missing.parts)) if missing and demand.planned_nodes else []
    for index, _blocks, available in partial:
        if available < needed:
            first = whole.first + index * block
            message = "nv-ipam's block %s of %s has %s for pods, and pods_per_node is %d" % (
                Range(first, first + block - 1, whole.bits),
                rail.name,
                count(available, "address", "addresses"),
                demand.pods_per_node or 1,
            )
            remedy = (
                "move gateway and excluded addresses after the last block, lower pods_per_node, or use the mode prefix"
            )
            report.add(BLOCK_SHORT if available else BLOCKS, where, message, remedy)
            return


TABLE_TAKEN = rule(
    "RY810 spiderpool-routing-table: Routing table number that Spiderpool uses",
    _FABRIC % "spiderpool, routing: {first_table: 499}",
    _FABRIC % "spiderpool, routing: {first_table: 101}",
    WARNING,
    why="Spiderpool keeps the routes to a node's pods in table 500 (hostRuleTable), which a rule before all others"
    " looks up.",
)

POOL_LARGE = rule(
    "RY811 pool-above-spiderpool-limit: Pool with more addresses than Spiderpool allocates from it",
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.99.255, hosts: .200.1-.201.255}',
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.15.255, hosts: .200.1-.201.255}',
    WARNING,
    why="SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS is 5000 by default.",
)

MIXED_MODES = rule(
    "RY813 device-plugin-rdma-mode: Device plugin on nodes of the RDMA mode exclusive",
    _FABRIC % "spiderpool"
    + "\n"
    + example_file.PORTS
    + "  dgx:\n    attachment: sriov\n    vfs: {count: 4}\n"
    + "    ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _FABRIC % "spiderpool" + "\n" + example_file.PORTS,
    WARNING,
    why="The chart has no node selector for k8s-rdma-shared-dev-plugin, which exits on nodes of the mode exclusive.",
)

RANGES_LARGE = rule(
    "RY337 pool-ranges-too-large: Pool of several ranges with too many addresses for Spiderpool",
    _RANGES % "+16-+1500000, +1600000-+1700000",
    _RANGES % "+16-+3000, +4000-+5000",
    why="If a pool has several ranges, Spiderpool's webhook lists all their addresses to sort them, and its controller"
    " runs out of memory. The addresses of a single range are not listed.",
)


def _spiderpool(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report tables, pools and RDMA modes that Spiderpool does not support."""
    if fabric.routing.mode == "source":
        for rail in fabric.rails:
            if fabric.routing.first_table + rail.number - 1 == _SPIDERPOOL_TABLE:
                path: Path = ("fabric", "routing", "first_table")
                message = "%s, rail %d, would have table %d" % (rail.name, rail.number, _SPIDERPOOL_TABLE)
                report.add(TABLE_TAKEN, path, message, "set another number, such as 101")
    for rail in fabric.rails:
        for scheme in rail.schemes.values():
            own = scheme.own_pods if rail.mode == "subnet" else None
            pods = own.without(scheme.excluded) if own else None
            if pods is None:
                continue
            pods_path = rail.where("pods" + SUFFIX[scheme.network.bits])
            ranges = len(pods.merged().parts)
            if ranges > 1 and pods.size > MOST_LISTED:
                message = "pods of %s are %d ranges of %s, and Spiderpool lists each address of several ranges" % (
                    rail.name,
                    ranges,
                    count(pods.size, "address", "addresses"),
                )
                report.add(RANGES_LARGE, pods_path, message, "write one range, or smaller ones")
            elif pods.size > _SPIDERPOOL_POOL:
                message = "pods of {} has {:,} addresses, and Spiderpool allocates {:,} of a pool".format(
                    rail.name, pods.size, _SPIDERPOOL_POOL
                )
                report.add(
                    POOL_LARGE, pods_path, message, "shorten the range, or raise the limit and suppress this finding"
                )
    # RDMA mode -> a variant in it, one of its attachments, and the place of the attachment
    modes: dict[str, tuple[Variant, str, Path]] = {}
    for variant in variants:
        found = [
            (name, variant.attachment_path_on(rail)) for (name, _layer), rail in variants.kinds_of(variant).items()
        ]
        for name, path in found or [(variant.attachment, variant.attachment_path)]:
            kind = ATTACHMENTS.get(name or "")
            if kind and (kind.master or variant.rdma_mode == EXCLUSIVE):
                modes.setdefault(variant.rdma_mode, (variant, kind.name, path))
    if SHARED in modes and EXCLUSIVE in modes:
        message = "%s is served in the mode shared, and nodes of %s are exclusive" % (
            modes[SHARED][1],
            modes[EXCLUSIVE][0].name,
        )
        remedy = "restrict its plugin to nodes in the mode shared, and suppress this finding; or use one mode"
        report.add(MIXED_MODES, modes[EXCLUSIVE][2], message, remedy)
