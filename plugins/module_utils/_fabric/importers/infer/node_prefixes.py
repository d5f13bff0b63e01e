# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive the addresses of rails with one prefix per node, from pools of nodes or from a pool divided by node."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    import_rules,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Claim,
    Facts,
    Pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import common_subnets
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    LINK,
    PREFIX,
    Addressed,
    Addressing,
    exclude,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    covering,
    network,
    overlaps,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import common, single, without


def prefixes(drafts: t.Sequence[Draft], facts: Facts, found: Found) -> Addressing:
    """Return the addresses of all rails."""
    result = Addressing(PREFIX)
    divided = [pool for draft in drafts for pool in draft.pools if pool.node_prefix and pool.net]
    if divided:
        _from_divided_pools(drafts, divided, result, found)
        _report_claimed(drafts, facts, result, found)
        return result
    node_pools = {
        place: {pool.nodes[0]: pool for pool in draft.pools if pool.nodes and pool.net and pool.net.bits == IPV4}
        for place, draft in enumerate(drafts, 1)
    }
    all_pools = [pool for of_rail in node_pools.values() for pool in of_rail.values()]
    nets = [pool.net for pool in all_pools if pool.net]
    ipv6_pools = [pool for draft in drafts for pool in draft.pools if pool.nodes and pool.net and pool.net.bits == IPV6]
    if ipv6_pools:
        message = "the IPv6 prefix of %s, and of %d pools in all, is not read" % (
            shown(ipv6_pools[0].name),
            len(ipv6_pools),
        )
        remedy = "write subnet6 of each rail, and node_prefix6, into the fabric file"
        found.add(import_rules.LAYOUT, ipv6_pools[0].place, message, remedy, "no IPv6")
    if not nets and not ipv6_pools:
        message = "no node's pool has a subnet"
        found.add(
            import_rules.NO_SUBNET, drafts[0].place, message, "write the rails' subnets into the fabric file", "none"
        )
    if not nets:
        return result
    result.node_prefix = max(set(net.prefix for net in nets), key=[net.prefix for net in nets].count)
    odd = [pool for pool in all_pools if pool.net and pool.net.prefix != result.node_prefix]
    for pool in odd:
        message = "%s has a /%d, and other nodes a /%d" % (
            shown(pool.name),
            pool.net.prefix if pool.net else 0,
            result.node_prefix,
        )
        found.add(
            import_rules.LAYOUT,
            pool.place,
            message,
            "give every node a prefix of one length",
            "/%d" % result.node_prefix,
        )
    result.gateway = _gateway_position(all_pools, found)
    covers = {
        place: _covering([pool.net for pool in of_rail.values() if pool.net])
        for place, of_rail in node_pools.items()
        if of_rail
    }
    several = max(len(of_rail) for of_rail in node_pools.values()) > 1
    if several and len(covers) == len(drafts) and _disjoint(covers.values()):
        _by_rail(drafts, node_pools, _widen(covers), result, found)
        result.host = _host_position(all_pools, result.gateway, found)
    elif _by_node(node_pools, facts, result):
        result.host = _host_position(all_pools, result.gateway, found)
    else:
        _propose(drafts, nets, facts, result, found)
    _report_claimed(drafts, facts, result, found)
    return result


def _report_claimed(drafts: t.Sequence[Draft], facts: Facts, result: Addressing, found: Found) -> None:
    """Report addresses in the prefixes of nodes that another object reserves or can allocate."""
    _set_static_indexes(drafts, result, found)
    reserved = [Claim(each, name) for name, ranges in facts.taken.items() for each in ranges]
    owners = {claimed_addresses.owner_of(pool.kind, pool.label) for draft in drafts for pool in draft.pools}
    # addresses of pods belong to their nodes
    others = [claim for claim in facts.claims if claim.owner not in owners and not claim.allocated]
    for place, draft in enumerate(drafts, 1):
        for bits, rails in result.rails.items():
            rail = rails.get(place)
            if rail is None:
                continue
            reported: list[Range] = []
            for claims in (reserved, others):
                for claim in claims:
                    unreported = without(claimed_addresses.within([claim], rail.net), reported)
                    for inside in unreported if claim.range.bits == bits else ():
                        if not _is_gateway(rail.net, inside, result):
                            reported.append(inside)
                            _report_claim(draft, inside, claim, claims is reserved, found)
                            exclude(rail, claim.owner, [inside])
                            rail.note = "DECIDE: free the taken addresses, or end the nodes of the rail before them"


def _report_claim(draft: Draft, inside: Range, claim: Claim, reserved: bool, found: Found) -> None:
    """Report one range of addresses that a node's prefix shares with another object."""
    message = "%s of %s %s" % (
        inside,
        shown(draft.label),
        ("is reserved by %s" if reserved else "is in %s as well") % shown(claim.owner),
    )
    remedy = "free these addresses, or give the rail another network, if you want to add nodes"
    written = "taken of the rail, whose nodes end before them"
    found.add(import_rules.NOT_KNOWN if reserved else import_rules.HELD, draft.place, message, remedy, written)


def _set_static_indexes(drafts: t.Sequence[Draft], result: Addressing, found: Found) -> None:
    """Set the index of nodes whose network a pool names. Report an index that differs between rails."""
    for place, draft in enumerate(drafts, 1):
        for pool in draft.pools:
            rail = result.rails[pool.net.bits].get(place) if pool.net else None
            for node, text in pool.static.items():
                net = pool_ranges.exact(text)
                length = net.bits - 1 if net and result.mode == LINK else result.node_prefix
                if net is None or rail is None or net.prefix != length or not rail.net.holds(net.first):
                    message = "the network %s of the node %s is not one of %s" % (
                        shown(text),
                        shown(node),
                        shown(pool.label),
                    )
                    remedy = "write it as address/prefix, of the length of every node's"
                    found.add(import_rules.LAYOUT, pool.place, message, remedy, "nothing")
                    continue
                index = (net.first - rail.net.first >> net.bits - (result.node_aggregate or net.prefix)) + 1
                if result.indexes.setdefault(node, index) != index:
                    message = "%s is node %d of %s, and node %d elsewhere" % (
                        shown(node),
                        index,
                        shown(draft.label),
                        result.indexes[node],
                    )
                    remedy = "give a node the same place in the network of every rail"
                    found.add(import_rules.LAYOUT, pool.place, message, remedy, "node %d" % result.indexes[node])
                    exclude(rail, node, [net.addresses])


def _is_gateway(net: Network, addresses: Range, result: Addressing) -> bool:
    """Return whether this is a single address of a node's prefix that neither the port nor pods get."""
    if addresses.size > 1 or result.node_prefix is None:
        return False
    usable = network(addresses.first, result.node_prefix, net.bits).usable
    ends = {"first": usable.first, "last": usable.last}
    return not usable.holds(addresses.first) or addresses.first == ends.get(result.gateway or "")


def _from_divided_pools(drafts: t.Sequence[Draft], pools: t.Sequence[Pool], result: Addressing, found: Found) -> None:
    """Set the rails of pools that are divided by node, and the positions of gateway and port."""
    result.node_prefix = pools[0].node_prefix
    for place, draft in enumerate(drafts, 1):
        pool = next((each for each in draft.pools if each.node_prefix and each.net), None)
        if pool is None or pool.net is None:
            message = "no manifest contains the network of %s" % shown(draft.label)
            found.add(import_rules.NO_SUBNET, draft.place, message, "give the rail's pool", "a rail without a subnet")
            continue
        result.rails[pool.net.bits][place] = Addressed(pool.net)
        if pool.node_prefix != result.node_prefix:
            message = "the pool %s gives a node a /%d, but %s a /%d" % (
                shown(pool.name),
                pool.node_prefix or 0,
                shown(pools[0].name),
                result.node_prefix or 0,
            )
            found.add(import_rules.LAYOUT, pool.place, message, "use one length", "/%d" % (result.node_prefix or 0))
    _set_aggregate(drafts, result, found)
    net, gateway = pools[0].net, pools[0].gateway
    if net is None or result.node_prefix is None:
        raise AssertionError("the networks are known here")
    if result.node_prefix == net.bits - 1:
        result.mode, result.node_prefix = LINK, None
        if any(network.attachment != "host-device" for draft in drafts for network in draft.networks):
            # the other address of a link belongs to the pod; a port can only have it if the device moves into the pod
            result.host = "none"
        result.leaf_end = "first" if gateway == net.first else "second"
        return
    usable = network(net.first, result.node_prefix, net.bits).usable
    result.gateway = "none" if gateway is None else "last" if gateway == usable.last else "first"
    if gateway is not None and gateway not in (usable.first, usable.last):
        message = "the gateway is neither the first nor the last address of a node's network"
        found.add(import_rules.GATEWAY, pools[0].place, message, "set gatewayIndex to 1", "the first")
    firsts = [_first_node(pool) for pool in pools]
    result.host = _host_position(firsts, result.gateway, found)
    differing = [
        (pool, text)
        for pool, one_node in zip(pools, firsts)
        for text in [_addresses_for_pods(pool, one_node, result)]
        if text
    ]
    if differing:
        names = ", ".join(shown(pool.name) for pool, _text in differing)
        message = "each node of %s keeps addresses from its pods, the first node %s" % (
            shown(names, 100),
            differing[0][1],
        )
        remedy = "make sure that nothing else uses them, because a node's pods get all that gateway and port leave"
        found.add(import_rules.LOST, differing[0][0].place, message, remedy, "these addresses for pods")


def _addresses_for_pods(pool: Pool, one_node: Pool, result: Addressing) -> str:
    """Return addresses of the first node, as text, that its pods do not get today but get in the plan."""
    if pool.net is None or one_node.net is None:
        return ""
    first, bits, usable = pool.net.first, pool.net.bits, one_node.net.usable
    low, high = usable.first, usable.last
    ports = {"last": [high - (result.gateway == "last")], "none": []}
    others = ports.get(result.host or "", [low + (result.gateway == "first")])
    others += [{"first": low, "last": high}[result.gateway]] if result.gateway in ("first", "last") else []
    left_out = [Range(first + start, first + end, bits) for start, end in pool.left_out]
    lost = common(without(left_out, [single(each, bits) for each in others]), [usable])
    return " and ".join(str(each) for each in lost[:4])


def _first_node(pool: Pool) -> Pool:
    """Return the first node's part of a pool that is divided by node."""
    if pool.net is None or pool.node_prefix is None:
        raise AssertionError("only pools that are cut come here")
    first = pool.net.first
    node_net = network(first, pool.node_prefix, pool.net.bits)
    left_out = [Range(first + low, first + high, node_net.bits) for low, high in pool.left_out]
    left_out += [single(pool.gateway, node_net.bits)] if pool.gateway is not None else []
    return replace(pool, net=node_net, ranges=without([node_net.usable], left_out))


def _gateway_position(pools: t.Sequence[Pool], found: Found) -> str:
    """Return the position of the gateway in each node's prefix. Report pools that differ."""
    positions = set()
    for pool in pools:
        if pool.net is None:
            continue
        usable = pool.net.usable
        if pool.gateway is None:
            positions.add("none")
        elif pool.gateway in (usable.first, usable.last):
            positions.add("first" if pool.gateway == usable.first else "last")
        else:
            positions.add("another")
    if len(positions) == 1 and "another" not in positions:
        return positions.pop()
    message = "the nodes' gateways are not all the first or all the last address of their networks"
    found.add(
        import_rules.GATEWAY,
        pools[0].place,
        message,
        "use either the first or the last address in all networks",
        "gateway: first",
    )
    return "first"


def _host_position(pools: t.Sequence[Pool], gateway: str, found: Found) -> str | None:
    """Return the end of a node's prefix that is free for its port: None for the first (default), ``last``, ``none``."""
    occupied: dict[str, list[Pool]] = {"first": [], "last": []}
    for pool in pools:
        if pool.net is None or not pool.ranges:
            continue
        usable = pool.net.usable
        ends = {"first": usable.first + (gateway == "first"), "last": usable.last - (gateway == "last")}
        for position, address in ends.items():
            if any(each.holds(address) for each in pool.ranges):
                occupied[position].append(pool)
    if not occupied["first"]:
        return None
    if not occupied["last"]:
        return "last"
    pool = occupied["first"][0]
    further = " and of %d more" % (len(occupied["first"]) - 1) if len(occupied["first"]) > 1 else ""
    message = "the addresses of %s%s leave none for the node's own port" % (shown(pool.name), further)
    remedy = "remove the first address after the gateway from the pools, and then host: none from the fabric file"
    found.add(import_rules.HOST_IN_PODS, pool.place, message, remedy, "host: none: ports get no address")
    return "none"


def _set_aggregate(drafts: t.Sequence[Draft], result: Addressing, found: Found) -> None:
    """Set the length of the nodes' aggregates if pools of several rails divide one network. Report it without them."""
    for rails in common_subnets.in_common(result):
        nets: dict[str, dict[int, Network]] = {}
        for place, rail in rails.items():
            for pool in drafts[place - 1].pools:
                for node, text in pool.static.items() if pool.net == rail.net else ():
                    net = pool_ranges.exact(text)
                    if net and net.bits == rail.net.bits and rail.net.holds(net.first):
                        nets.setdefault(node, {})[place] = net
        result.node_aggregate = _aggregate_of(nets)
        place = min(rails)
        if result.node_aggregate is None:
            message = "the pools of %s and of %s divide %s, so nodes can get one network on two rails" % (
                shown(drafts[place - 1].label),
                shown(drafts[sorted(rails)[1] - 1].label),
                rails[place].net,
            )
            remedy = "give each rail its own network, or each node static networks side by side"
            found.add(import_rules.RAILS_OVERLAP, drafts[place - 1].place, message, remedy, "both unchanged")


def _aggregate_of(nets: t.Mapping[str, t.Mapping[int, Network]]) -> int | None:
    """Return the prefix length of the aggregate of each node, in which its networks are side by side by rail.

    :param nets: node -> position of the rail -> network.
    :return: None if no such length exists, or with only one node.
    """
    every = [net for of_node in nets.values() for net in of_node.values()]
    if len(nets) < 2 or len({(net.bits, net.prefix) for net in every}) > 1:
        return None
    bits, length = every[0].bits, every[0].prefix
    rails = max(place for of_node in nets.values() for place in of_node)
    firsts = []
    for of_node in nets.values():
        starts = {net.first - (place - 1) * net.size for place, net in of_node.items()}
        if len(starts) > 1:
            return None
        firsts.append(starts.pop())
    for prefix in range(1, length - (rails - 1).bit_length() + 1):
        size = 1 << bits - prefix
        if not any(first % size for first in firsts) and len(set(firsts)) == len(firsts):
            return prefix
    return None


def _by_node(node_pools: t.Mapping[int, t.Mapping[str, Pool]], facts: Facts, result: Addressing) -> bool:
    """Set one network of all rails, and the index of each node, if each node has networks side by side by rail. Return
    whether it has."""
    nets: dict[str, dict[int, Network]] = {}
    for place, of_rail in node_pools.items():
        for node, pool in of_rail.items():
            if pool.net:
                nets.setdefault(node, {})[place] = pool.net
    aggregate = _aggregate_of(nets)
    if aggregate is None or len(node_pools) < 2:
        return False
    every = [network(net.first, aggregate) for of_node in nets.values() for net in of_node.values()]
    candidates = [net for net in facts.supernets if all(net.holds(each.first) for each in every)]
    cover = _covering(every)
    # room for more nodes
    supernet = max(
        candidates, key=lambda net: net.prefix, default=network(cover.first, min(cover.prefix, aggregate - 4))
    )
    result.node_aggregate = aggregate
    for place in node_pools:
        result.rails[IPV4][place] = Addressed(supernet)
    for node, of_node in nets.items():
        first = min(net.first for net in of_node.values())
        result.indexes[node] = (first - supernet.first >> IPV4 - aggregate) + 1
    return True


def _covering(nets: t.Sequence[Network]) -> Network:
    return covering(min(net.first for net in nets), max(net.last for net in nets), IPV4)


def _disjoint(nets: t.Iterable[Network]) -> bool:
    return not any(overlaps((net, None) for net in nets))


def _widen(covers: t.Mapping[int, Network]) -> dict[int, Network]:
    """Return networks of equal length for all rails, up to a /24 if they stay disjoint, so that nodes can be added."""
    length = min(net.prefix for net in covers.values())
    for prefix in range(min(length, 24), length + 1):
        wide = {place: network(net.first, prefix) for place, net in covers.items()}
        if _disjoint(wide.values()):
            return wide
    return dict(covers)


def _by_rail(
    drafts: t.Sequence[Draft],
    node_pools: t.Mapping[int, t.Mapping[str, Pool]],
    covers: t.Mapping[int, Network],
    result: Addressing,
    found: Found,
) -> None:
    """Set the rails' networks, and the index of each node from the place of its prefix."""
    if result.node_prefix is None:
        raise AssertionError("the length is known here")
    for place, of_rail in node_pools.items():
        result.rails[IPV4][place] = Addressed(covers[place])
        for node, pool in of_rail.items():
            if pool.net is None:
                continue
            index = ((pool.net.first - covers[place].first) >> 32 - result.node_prefix) + 1
            if result.indexes.setdefault(node, index) != index:
                message = "%s is node %d of %s by its prefix there, and node %d elsewhere" % (
                    shown(node),
                    index,
                    shown(drafts[place - 1].label),
                    result.indexes[node],
                )
                remedy = "give a node the same place in the network of every rail"
                found.add(import_rules.LAYOUT, pool.place, message, remedy, "node %d" % result.indexes[node])


def _propose(
    drafts: t.Sequence[Draft], nets: t.Sequence[Network], facts: Facts, result: Addressing, found: Found
) -> None:
    """Propose a network for each rail, if prefixes are divided by node first or only one node is known.

    Proposals are comments: pods have addresses in these networks.
    """
    if result.node_prefix is None:
        raise AssertionError("the length is known here")
    candidates = [net for net in facts.supernets if all(net.holds(each.first) for each in nets)]
    supernet = max(candidates, key=lambda net: net.prefix) if candidates else _covering(nets)
    bits = (len(drafts) - 1).bit_length()
    if supernet.prefix + bits > result.node_prefix:
        supernet = network(supernet.first, max(result.node_prefix - bits - 3, 8))
    prefix = supernet.prefix + bits
    message = "the pools do not divide a rail's network by node, so a leaf cannot advertise one prefix for its rail"
    remedy = "choose a network for each rail, such as %s divided into a /%d per rail, and renumber the pods" % (
        supernet,
        prefix,
    )
    found.add(
        import_rules.LAYOUT, drafts[0].place, message, remedy, "no subnets, and a /%d for a node" % result.node_prefix
    )
    for place in range(1, len(drafts) + 1):
        net = network(supernet.first + (place - 1 << IPV4 - prefix), prefix)
        result.proposed[place] = "subnet, such as %s; pods have addresses in it that are cut by node first" % net
