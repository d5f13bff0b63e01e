# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Rails on which each node has a prefix of its own, as pools of nodes or a pool that is cut by node have it."""

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
    Net,
    Pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.correlate import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    LINK,
    PREFIX,
    Addressed,
    Addressing,
    exclude,
)


def prefixes(drafts: t.Sequence[Draft], facts: Facts, found: Found) -> Addressing:
    made = Addressing(PREFIX)
    whole = [pool for draft in drafts for pool in draft.pools if pool.node_prefix and pool.net]
    if whole:
        _of_whole(drafts, whole, made, found)
        _held_back(drafts, facts, made, found)
        return made
    mine = {
        place: {pool.nodes[0]: pool for pool in draft.pools if pool.nodes and pool.net and pool.net.version == 4}
        for place, draft in enumerate(drafts, 1)
    }
    every = [pool for of_rail in mine.values() for pool in of_rail.values()]
    nets = [pool.net for pool in every if pool.net]
    six = [pool for draft in drafts for pool in draft.pools if pool.nodes and pool.net and pool.net.version == 6]
    if six:
        message = "the IPv6 prefix of %s, and of %d pools in all, is not read" % (shown(six[0].name), len(six))
        remedy = "write subnet6 of each rail, and node_prefix6, into the fabric file"
        found.add(import_rules.LAYOUT, six[0].place, message, remedy, "no IPv6")
    if not nets and not six:
        message = "no node's pool has a subnet"
        found.add(
            import_rules.NO_SUBNET, drafts[0].place, message, "write the rails' subnets into the fabric file", "none"
        )
    if not nets:
        return made
    made.node_prefix = max(set(net.prefix for net in nets), key=[net.prefix for net in nets].count)
    odd = [pool for pool in every if pool.net and pool.net.prefix != made.node_prefix]
    for pool in odd:
        message = "%s has a /%d, and other nodes a /%d" % (
            shown(pool.name),
            pool.net.prefix if pool.net else 0,
            made.node_prefix,
        )
        found.add(
            import_rules.LAYOUT, pool.place, message, "give every node a prefix of one length", "/%d" % made.node_prefix
        )
    made.gateway = _gateway_word(every, found)
    covers = {
        place: _cover([pool.net for pool in of_rail.values() if pool.net]) for place, of_rail in mine.items() if of_rail
    }
    several = max(len(of_rail) for of_rail in mine.values()) > 1
    if several and len(covers) == len(drafts) and _disjoint(covers.values()):
        _by_rail(drafts, mine, _widened(covers), made, found)
        made.host = _host_word(every, made.gateway, found)
    else:
        _propose(drafts, nets, facts, made, found)
    _held_back(drafts, facts, made, found)
    return made


def _held_back(drafts: t.Sequence[Draft], facts: Facts, made: Addressing, found: Found) -> None:
    """Report addresses in the prefixes of nodes that another object reserves or can allocate."""
    _static(drafts, facts, made, found)
    held = [Claim(*run, owner=name) for name, runs in facts.taken.items() for run in runs]
    mine = {claimed_addresses.owner_of(pool.kind, pool.label) for draft in drafts for pool in draft.pools}
    others = [claim for claim in facts.claims if claim.owner not in mine]
    for place, draft in enumerate(drafts, 1):
        for version, rails in made.rails.items():
            rail = rails.get(place)
            if rail is None:
                continue
            given: list[pool_ranges.Run] = []
            for every in (held, others):
                for claim in every:
                    left = pool_ranges.without(claimed_addresses.within([claim], rail.net), given)
                    for inside in left if claim.version == version else ():
                        if not _is_gateway(rail.net, inside, made):
                            given.append(inside)
                            _say_held(draft, rail, inside, claim, every is held, found)
                            exclude(rail, claim.owner, [inside])


def _say_held(draft: Draft, rail: Addressed, run: pool_ranges.Run, claim: Claim, held: bool, found: Found) -> None:
    message = "%s of %s %s" % (
        pool_ranges.shown_run(rail.net, run),
        shown(draft.label),
        ("is reserved by %s" if held else "is in %s as well") % shown(claim.owner),
    )
    remedy = "free these addresses, or give the rail another network, if you want to add nodes"
    written = "taken of the rail, whose nodes end before them"
    found.add(import_rules.NOT_KNOWN if held else import_rules.HELD, draft.place, message, remedy, written)


def _static(drafts: t.Sequence[Draft], facts: Facts, made: Addressing, found: Found) -> None:
    """Nodes whose networks a pool names: their indexes follow, unless another rail has them elsewhere."""
    for place, draft in enumerate(drafts, 1):
        for pool in draft.pools:
            rail = made.rails[pool.net.version].get(place) if pool.net else None
            for node, text in pool.static.items():
                net = pool_ranges.exact(text)
                length = net.bits - 1 if net and made.mode == LINK else made.node_prefix
                if net is None or rail is None or net.prefix != length or not rail.net.holds(net.first):
                    message = "the network %s of the node %s is not one of %s" % (
                        shown(text),
                        shown(node),
                        shown(pool.label),
                    )
                    remedy = "write it as address/prefix, of the length of every node's"
                    found.add(import_rules.LAYOUT, pool.place, message, remedy, "nothing")
                    continue
                index = (net.first - rail.net.first >> net.bits - net.prefix) + 1
                if made.indexes.setdefault(node, index) != index:
                    message = "%s is node %d of %s, and node %d elsewhere" % (
                        shown(node),
                        index,
                        shown(draft.label),
                        made.indexes[node],
                    )
                    remedy = "give a node the same place in the network of every rail"
                    found.add(import_rules.LAYOUT, pool.place, message, remedy, "node %d" % made.indexes[node])
                    exclude(rail, node, [(net.first, net.last)])


def _is_gateway(net: Net, run: pool_ranges.Run, made: Addressing) -> bool:
    """Whether this is the one address of a node's prefix that neither its port nor its pods get anyway."""
    if run[0] != run[1] or made.node_prefix is None:
        return False
    one = pool_ranges.around(net.version, run[0], made.node_prefix)
    return run[0] not in range(one.usable[0], one.usable[1] + 1) or (
        made.gateway in ("first", "last") and run[0] == one.usable[made.gateway == "last"]
    )


def _of_whole(drafts: t.Sequence[Draft], whole: t.Sequence[Pool], made: Addressing, found: Found) -> None:
    made.node_prefix = whole[0].node_prefix
    for place, draft in enumerate(drafts, 1):
        pool = next((each for each in draft.pools if each.node_prefix and each.net), None)
        if pool is None or pool.net is None:
            message = "no manifest contains the network of %s" % shown(draft.label)
            found.add(import_rules.NO_SUBNET, draft.place, message, "give the rail's pool", "a rail without a subnet")
            continue
        made.rails[pool.net.version][place] = Addressed(pool.net)
        if pool.node_prefix != made.node_prefix:
            message = "the pool %s gives a node a /%d, but %s a /%d" % (
                shown(pool.name),
                pool.node_prefix or 0,
                shown(whole[0].name),
                made.node_prefix or 0,
            )
            found.add(import_rules.LAYOUT, pool.place, message, "use one length", "/%d" % (made.node_prefix or 0))
    net, gateway = whole[0].net, whole[0].gateway
    if net is None or made.node_prefix is None:
        raise AssertionError("the networks are known here")
    if made.node_prefix == net.bits - 1:
        made.mode, made.node_prefix = LINK, None
        if any(network.attachment != "host-device" for draft in drafts for network in draft.networks):
            # the other address of a link is the pod's: only a device that is moved into the pod can have it before
            made.host = "none"
        made.leaf_end = "first" if gateway == net.first else "second"
        return
    one = Net(net.version, net.first, made.node_prefix)
    made.gateway = "none" if gateway is None else "last" if gateway == one.usable[1] else "first"
    if gateway is not None and gateway not in one.usable:
        message = "the gateway is neither the first nor the last address of a node's network"
        found.add(import_rules.GATEWAY, whole[0].place, message, "set gatewayIndex to 1", "the first")
    firsts = [_first_node(pool) for pool in whole]
    made.host = _host_word(firsts, made.gateway, found)
    lost = [(pool, text) for pool, one_node in zip(whole, firsts) for text in [_left_out(pool, one_node, made)] if text]
    if lost:
        pools = ", ".join(shown(pool.name) for pool, _text in lost)
        message = "each node of %s keeps addresses from its pods, the first node %s" % (shown(pools, 100), lost[0][1])
        remedy = "make sure that nothing else uses them, because a node's pods get all that gateway and port leave"
        found.add(import_rules.LOST, lost[0][0].place, message, remedy, "these addresses for pods")


def _left_out(pool: Pool, one_node: Pool, made: Addressing) -> str:
    """Addresses of the first node that its pods do not get today, but get in the plan."""
    if pool.net is None or one_node.net is None:
        return ""
    first, (low, high) = pool.net.first, one_node.net.usable
    ports = {"last": [high - (made.gateway == "last")], "none": []}
    others = ports.get(made.host or "", [low + (made.gateway == "first")])
    others += [{"first": low, "last": high}[made.gateway]] if made.gateway in ("first", "last") else []
    runs = pool_ranges.without(
        [(first + start, first + end) for start, end in pool.left_out], [(at, at) for at in others]
    )
    runs = [(max(low, run[0]), min(high, run[1])) for run in runs if run[0] <= high and run[1] >= low]
    return " and ".join(pool_ranges.shown_run(one_node.net, run) for run in runs[:4])


def _first_node(pool: Pool) -> Pool:
    """The first node's share of a pool that is divided into one network per node."""
    if pool.net is None or pool.node_prefix is None:
        raise AssertionError("only pools that are cut come here")
    first = pool.net.first
    one = Net(pool.net.version, first, pool.node_prefix)
    out = [(first + low, first + high) for low, high in pool.left_out]
    out += [(pool.gateway, pool.gateway)] if pool.gateway is not None else []
    return replace(pool, net=one, runs=pool_ranges.without([one.usable], out))


def _gateway_word(every: t.Sequence[Pool], found: Found) -> str:
    words = set()
    for pool in every:
        if pool.net is None:
            continue
        if pool.gateway is None:
            words.add("none")
        elif pool.gateway in pool.net.usable:
            words.add("first" if pool.gateway == pool.net.usable[0] else "last")
        else:
            words.add("another")
    if len(words) == 1 and "another" not in words:
        return words.pop()
    message = "the nodes' gateways are not all the first or all the last address of their networks"
    found.add(
        import_rules.GATEWAY,
        every[0].place,
        message,
        "use either the first or the last address in all networks",
        "gateway: first",
    )
    return "first"


def _host_word(every: t.Sequence[Pool], gateway: str, found: Found) -> str | None:
    """Which end of a node's prefix its port can have; None for the first, as when nothing is given."""
    held: dict[str, list[Pool]] = {"first": [], "last": []}
    for pool in every:
        if pool.net is None or not pool.runs:
            continue
        low, high = pool.net.usable
        ends = {"first": low + (gateway == "first"), "last": high - (gateway == "last")}
        for word, address in ends.items():
            if any(first <= address <= last for first, last in pool.runs):
                held[word].append(pool)
    if not held["first"]:
        return None
    if not held["last"]:
        return "last"
    pool = held["first"][0]
    more = " and of %d more" % (len(held["first"]) - 1) if len(held["first"]) > 1 else ""
    message = "the addresses of %s%s leave none for the node's own port" % (shown(pool.name), more)
    remedy = "remove the first address after the gateway from the pools, and then host: none from the fabric file"
    found.add(import_rules.HOST_IN_PODS, pool.place, message, remedy, "host: none: ports get no address")
    return "none"


def _cover(nets: t.Sequence[Net]) -> Net:
    """The smallest network that holds all of these."""
    first, last = min(net.first for net in nets), max(net.last for net in nets)
    prefix = min(net.prefix for net in nets)
    while not pool_ranges.around(4, first, prefix).holds(last):
        prefix -= 1
    return pool_ranges.around(4, first, prefix)


def _disjoint(nets: t.Iterable[Net]) -> bool:
    ordered = sorted(nets, key=lambda net: net.first)
    return all(left.last < right.first for left, right in zip(ordered, ordered[1:]))


def _widened(covers: t.Mapping[int, Net]) -> dict[int, Net]:
    """All rails' networks of one length, and up to a /24 as long as they stay apart: room for more nodes."""
    length = min(net.prefix for net in covers.values())
    for prefix in range(min(length, 24), length + 1):
        wide = {place: pool_ranges.around(4, net.first, prefix) for place, net in covers.items()}
        if _disjoint(wide.values()):
            return wide
    return dict(covers)


def _by_rail(
    drafts: t.Sequence[Draft],
    mine: t.Mapping[int, t.Mapping[str, Pool]],
    covers: t.Mapping[int, Net],
    made: Addressing,
    found: Found,
) -> None:
    if made.node_prefix is None:
        raise AssertionError("the length is known here")
    for place, of_rail in mine.items():
        made.rails[4][place] = Addressed(covers[place])
        for node, pool in of_rail.items():
            if pool.net is None:
                continue
            index = ((pool.net.first - covers[place].first) >> 32 - made.node_prefix) + 1
            if made.indexes.setdefault(node, index) != index:
                message = "%s is node %d of %s by its prefix there, and node %d elsewhere" % (
                    shown(node),
                    index,
                    shown(drafts[place - 1].label),
                    made.indexes[node],
                )
                remedy = "give a node the same place in the network of every rail"
                found.add(import_rules.LAYOUT, pool.place, message, remedy, "node %d" % made.indexes[node])


def _propose(drafts: t.Sequence[Draft], nets: t.Sequence[Net], facts: Facts, made: Addressing, found: Found) -> None:
    """The prefixes are cut by node first, or only one node's are known: no rail has an aggregate of its own.

    Networks that would do are proposed and not written: pods have addresses in them.
    """
    if made.node_prefix is None:
        raise AssertionError("the length is known here")
    wide = [net for net in facts.supernets if all(net.holds(each.first) for each in nets)]
    whole = max(wide, key=lambda net: net.prefix) if wide else _cover(nets)
    bits = (len(drafts) - 1).bit_length()
    if whole.prefix + bits > made.node_prefix:
        whole = pool_ranges.around(4, whole.first, max(made.node_prefix - bits - 3, 8))
    prefix = whole.prefix + bits
    message = "the pools do not divide a rail's network by node, so a leaf cannot advertise one prefix for its rail"
    remedy = "choose a network for each rail, such as %s divided into a /%d per rail, and renumber the pods" % (
        pool_ranges.shown_net(whole),
        prefix,
    )
    found.add(
        import_rules.LAYOUT, drafts[0].place, message, remedy, "no subnets, and a /%d for a node" % made.node_prefix
    )
    for place in range(1, len(drafts) + 1):
        net = Net(4, whole.first + (place - 1 << 32 - prefix), prefix)
        made.proposed[place] = "subnet, such as %s; pods have addresses in it that are cut by node first" % (
            pool_ranges.shown_net(net)
        )
