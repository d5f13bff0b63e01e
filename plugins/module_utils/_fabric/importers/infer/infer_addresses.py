# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive the addresses of drafted rails with one subnet per rail. See :mod:`.node_prefixes` for prefixes per node."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    import_rules,
    name_counting,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import (
    common_subnets,
    host_addresses,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.node_prefixes import prefixes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    BLOCK,
    NONE,
    Addressed,
    Addressing,
    exclude,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    common,
    longest,
    merged,
    single,
    without,
)

_NO_POOL = "CHECK: no pool has addresses of this rail; %s"
# Number of addresses for ports of an IPv6 rail: twice the number of nodes of the largest cluster.
_PORTS = 8192


def addressing(drafts: t.Sequence[Draft], facts: Facts, nodes: int, infiniband: bool, found: Found) -> Addressing:
    """Return the addresses of all rails.

    :param nodes: number of known nodes.
    """
    own = host_addresses.own_addresses(drafts, facts)
    facts.claims = [
        each for each in facts.claims if each.range.size > 1 or (each.range.first, each.range.bits) not in own
    ]
    if any(_by_prefix(draft) for draft in drafts) and not any(_in_one_subnet(draft) for draft in drafts):
        result = prefixes(drafts, facts, found)
        host_addresses.keep(drafts, facts, nodes, result, found)
        return result
    result = Addressing()
    for place, draft in enumerate(drafts, 1):
        for bits in (IPV4, IPV6):
            rail_addresses = _of_pools(draft, bits, found)
            if rail_addresses:
                result.rails[bits][place] = rail_addresses
    host_addresses.add_subnets(drafts, facts, result)
    if not result.rails[IPV4] and not result.rails[IPV6] and infiniband:
        result.mode = NONE
        return result
    for bits in (IPV4, IPV6):
        _add_missing_subnets(drafts, facts, result.rails[bits], bits, found)
    for place, draft in enumerate(drafts, 1):
        if place not in result.rails[IPV4] and place not in result.rails[IPV6]:
            message = "no manifest contains the subnet of %s" % shown(draft.label)
            remedy = "write it into the fabric file, or give the rail's pool"
            found.add(import_rules.NO_SUBNET, draft.place, message, remedy, "a rail without a subnet")
    common_subnets.divide_pools(drafts, result, found)
    common_subnets.report_overlaps(drafts, result, found)
    _of_blocks(drafts, result, found)
    for place, draft in enumerate(drafts, 1):
        for bits in (IPV4, IPV6):
            if place in result.rails[bits]:
                _exclude_used(draft, result.rails[bits][place], facts)
    kept = host_addresses.keep(drafts, facts, nodes, result, found)
    free = []
    for place, draft in enumerate(drafts, 1):
        rail = result.rails[IPV4].get(place) or result.rails[IPV6].get(place)
        free.extend([(draft, rail)] if rail and place not in kept else [])
    free = [
        (draft, rail)
        for draft, rail in free
        if _hosts(draft, rail, facts, nodes * common_subnets.count(result, rail.net), infiniband, found)
    ]
    common_subnets.divide_hosts(result)
    if free:
        message = "no manifest contains the ports' own addresses on %s" % name_counting.compact(
            [draft.label for draft, _rail in free]
        )
        texts = [str(each) for _draft, rail in free for each in rail.hosts]
        ranges = name_counting.compact(list(dict.fromkeys(texts)))
        remedy = "check that nothing outside of these manifests has these addresses"
        written = "hosts: %s, which no object of the manifests can allocate" % ranges
        found.add(import_rules.HOSTS, free[0][0].place, message, remedy, written)
    blocks = {
        max(pool.block // (common_subnets.count(result, pool.net) if rail.numbering and pool.net else 1), 1)
        for place, draft in enumerate(drafts, 1)
        for pool in draft.pools
        for rail in [result.rails[pool.net.bits].get(place) if pool.net else None]
        if pool.block and rail
    }
    result.pods_per_node = max(blocks) if blocks else None
    return result


def _by_prefix(draft: Draft) -> bool:
    """Return whether a pool of the rail belongs to nodes or is divided by node."""
    return any(pool.nodes or pool.node_prefix for pool in draft.pools)


def _in_one_subnet(draft: Draft) -> bool:
    """Return whether several nodes share one subnet, by one pool or by pools of the same subnet."""
    nodes: dict[Network, set[str]] = {}
    for pool in draft.pools:
        if pool.net and not pool.node_prefix:
            nodes.setdefault(pool.net, set()).update(pool.nodes)
    return any(len(names) > 1 for names in nodes.values())


# -- one subnet per rail ---------------------------------------------------------------------------------------------


def _of_pools(draft: Draft, bits: int, found: Found) -> Addressed | None:
    """Return the addresses of one family that the rail's pools have; None without such pools."""
    pools = [pool for pool in draft.pools if pool.net and pool.net.bits == bits]
    if not pools or pools[0].net is None:
        return None
    net = pools[0].net
    ranges: list[Range] = []
    rail = Addressed(net)
    for pool in pools:
        if pool.net != net:
            message = "the pools %s and %s of one rail have different subnets" % (
                shown(pools[0].label),
                shown(pool.label),
            )
            remedy = "use one subnet per rail, or give each pool its nodeName"
            if not node_selectors.overlap(pools[0].selector, pool.selector):
                message = (
                    "the pools %s (%s) and %s (%s) of one rail select different nodes and have different subnets"
                    % (
                        shown(pools[0].label),
                        pools[0].selector,
                        shown(pool.label),
                        pool.selector,
                    )
                )
                remedy = "write a fabric file for the nodes of each, or a network that is divided by node"
            found.add(import_rules.SUBNETS, pool.place, message, remedy, str(net))
            continue
        duplicates = common(ranges, pool.ranges)
        if duplicates:
            message = "%s is in two pools of %s" % (duplicates[0], shown(draft.label))
            found.add(
                import_rules.OVERLAP, pool.place, message, "use each address in one pool only", "the addresses once"
            )
        ranges = merged(ranges + pool.ranges)
        rail.gateway = pool.gateway if rail.gateway is None else rail.gateway
    if rail.gateway is not None:
        ranges = without(ranges, [single(rail.gateway, bits)])
    for pool in pools:
        if pool.net == net:
            exclude(rail, "%s-excluded" % pool.label, without(pool.excluded, ranges))
    # a range includes its excluded addresses, so that it remains as in the pool
    rail.pods = _join(ranges, rail.all_taken)
    return rail


def _join(ranges: t.Sequence[Range], taken: t.Iterable[Range]) -> list[Range]:
    """Return the ranges, joined where only taken addresses are between them."""
    result: list[Range] = []
    taken_ranges = merged(taken)
    for each in merged(ranges):
        if result and Range(result[-1].last + 1, each.first - 1, each.bits) in taken_ranges:
            result[-1] = Range(result[-1].first, each.last, each.bits)
        else:
            result.append(each)
    return result


def _add_missing_subnets(
    drafts: t.Sequence[Draft], facts: Facts, known: dict[int, Addressed], bits: int, found: Found
) -> None:
    """Add subnets that no pool contains: continued from the other rails."""
    missing = [place for place, draft in enumerate(drafts, 1) if place not in known and _may_count(draft)]
    if not missing or not known:
        return
    first = min(known)
    model = known[first]
    distance = _growth(known)
    counted: list[tuple[Draft, Network]] = []
    if len(known) > 1 and all(rail.net == model.net for rail in known.values()):
        # The other rails share one subnet, in which this rail has no pool.
        for place in missing:
            known[place] = Addressed(model.net, model.gateway, note=_NO_POOL % model.net)
        return
    for place in missing:
        start = model.net.first + distance * (place - first)
        if start < 0 or start >> model.net.bits:
            continue
        net = network(start, model.net.prefix, bits)
        offset = net.first - model.net.first
        rail = Addressed(net, None if model.gateway is None else model.gateway + offset)
        rail.pods = [Range(each.first + offset, each.last + offset, bits) for each in model.for_pods]
        if claimed_addresses.within(facts.claims, net):
            continue  # an object uses addresses of this subnet
        rail.note = _NO_POOL % ("continued from %s" % model.net)
        known[place] = rail
        counted.append((drafts[place - 1], net))
    if counted:
        message = "no pool gives the addresses of %s" % name_counting.compact([draft.label for draft, _net in counted])
        remedy = "check these subnets in the fabric file"
        nets = name_counting.compact([str(net) for _draft, net in counted])
        written = "%s, continued from %s" % (nets, model.net)
        found.add(import_rules.COUNTED, counted[0][0].place, message, remedy, written)


def _may_count(draft: Draft) -> bool:
    """Return whether the rail's pool may be missing in the manifests: a network without pools has no addresses."""
    return not draft.networks or any(network.pools for network in draft.networks)


def _growth(known: t.Mapping[int, Addressed]) -> int:
    """Return the distance between the subnets of consecutive rails, in addresses."""
    places = sorted(known)
    low, high = places[0], places[-1]
    size = known[low].net.size
    if low == high:
        return size
    growth, rest = divmod(known[high].net.first - known[low].net.first, high - low)
    return growth if not rest and growth % size == 0 and growth else size


def _hosts(draft: Draft, rail: Addressed, facts: Facts, nodes: int, infiniband: bool, found: Found) -> bool:
    """Set the rail's ``hosts`` to addresses that no object can allocate. Return whether there are any."""
    claimed = claimed_addresses.within(facts.claims, rail.net) + rail.pods + rail.all_taken
    if rail.gateway is not None:
        claimed.append(single(rail.gateway, rail.net.bits))
    free = without([rail.net.usable], claimed)
    if rail.net.bits == IPV6:
        # an IPv6 subnet is too large to use all of it
        widest = longest(free)
        free = [Range(widest.first, min(widest.last, widest.first + _PORTS - 1), IPV6)] if widest else []
    widest, needed, size = longest(free), max(nodes, 1), sum(each.size for each in free)
    if widest and widest.size >= needed:
        rail.hosts = [widest]
    elif size >= needed:
        rail.hosts = free
    elif not infiniband:
        message = "%s has %d addresses that no object can give, for the ports of %d nodes" % (rail.net, size, needed)
        remedy = "shorten a pool, and write hosts of the rail"
        found.add(import_rules.NO_HOSTS, draft.place, message, remedy, "no hosts: ports get no address")
        rail.note = "; ".join(filter(None, (rail.note, "DECIDE: hosts; the manifests leave no addresses for ports")))
    return bool(rail.hosts)


def _exclude_used(draft: Draft, rail: Addressed, facts: Facts) -> None:
    """Add reserved addresses and routers to ``taken`` of the rail."""
    for name, reserved in facts.taken.items():
        exclude(rail, name, common([rail.net.addresses], reserved))
    exclude(rail, "routers", _routers(draft, rail))


def _routers(draft: Draft, rail: Addressed) -> list[Range]:
    """Return gateways of pool routes in the rail, except the rail's own: they are in use."""
    pools = [pool for pool in draft.pools if pool.net and pool.net.bits == rail.net.bits]
    routers = [each for pool in pools for each in pool.routers if rail.net.holds(each) and each != rail.gateway]
    return without((single(each, rail.net.bits) for each in routers), [*rail.all_taken, *rail.pods])


def _of_blocks(drafts: t.Sequence[Draft], result: Addressing, found: Found) -> None:
    """Set mode ``block`` if pools of single nodes in one subnet are adjacent and of equal size."""
    node_pools = {
        place: [
            pool for pool in draft.pools if len(pool.nodes) == 1 and pool.net and pool.net.bits == IPV4 and pool.ranges
        ]
        for place, draft in enumerate(drafts, 1)
    }
    if not any(len({pool.nodes[0] for pool in of_rail}) > 1 for of_rail in node_pools.values()):
        return
    if result.rails[IPV6]:
        message = "nodes have pools of their own in one subnet, and there is IPv6 beside it"
        remedy = "write mode: block, with block and block6, to keep each node's own addresses"
        found.add(import_rules.UNEVEN, drafts[0].place, message, remedy, "their addresses, for all nodes")
        return
    sizes = {each.size for of_rail in node_pools.values() for pool in of_rail for each in pool.ranges}
    indexes: dict[str, int] = {}
    for place, of_rail in node_pools.items():
        size, low = min(sizes), min((pool.ranges[0].first for pool in of_rail), default=0)
        for pool in of_rail:
            remainder = (pool.ranges[0].first - low) % size
            index = (pool.ranges[0].first - low) // size + 1
            if len(sizes) > 1 or remainder or len(pool.ranges) > 1 or indexes.setdefault(pool.nodes[0], index) != index:
                message = "the nodes' pools of %s are not of one size and side by side" % shown(drafts[place - 1].label)
                remedy = "give each node as many addresses, in the same order on every rail, and write mode: block"
                found.add(import_rules.UNEVEN, pool.place, message, remedy, "their addresses, for all nodes")
                return
        rail = result.rails[IPV4].get(place)
        if rail and of_rail:
            rail.pods = [Range(low, max(pool.ranges[-1].last for pool in of_rail))]
    result.mode, result.block, result.indexes = BLOCK, min(sizes), indexes
