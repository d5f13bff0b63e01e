# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The addresses of drafted rails: a subnet each, or a prefix each node, as their pools have it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports import counting, pools, rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.facts import Facts, HostPort, Net, Pool
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.weave import Draft

# Addresses of ports that an IPv6 rail is given: as many as there are nodes in the largest cluster, and as many again.
_PORTS = 8192
SUBNET, BLOCK, PREFIX, LINK, NONE = "subnet", "block", "prefix", "link", "none"


@dataclass
class Addressed:
    """One family of one rail."""

    net: Net
    gateway: int | None = None
    pods: pools.Run | None = None
    hosts: pools.Run | None = None
    taken: dict[str, pools.Run] = field(default_factory=dict)
    note: str = ""


@dataclass
class Addressing:
    """``rails``: IP version -> place of the rail, from 1 -> its addresses. ``indexes``: node -> its index."""

    mode: str = SUBNET
    node_prefix: int | None = None
    block: int | None = None
    gateway: str | None = None
    host: str | None = None
    leaf_end: str | None = None
    pods_per_node: int | None = None
    rails: dict[int, dict[int, Addressed]] = field(default_factory=lambda: {4: {}, 6: {}})
    indexes: dict[str, int] = field(default_factory=dict)
    note: str = ""


def addressing(drafts: t.Sequence[Draft], facts: Facts, nodes: int, infiniband: bool, found: Found) -> Addressing:
    """The addresses of all rails. ``nodes``: how many there are, as far as is known."""
    if any(_by_prefix(draft) for draft in drafts) and not any(_in_one_subnet(draft) for draft in drafts):
        return _prefixes(drafts, facts, found)
    made = Addressing()
    for place, draft in enumerate(drafts, 1):
        for version in (4, 6):
            got = _of_pools(draft, version, found)
            if got:
                made.rails[version][place] = got
    _from_hosts(drafts, facts, made)
    if not made.rails[4] and not made.rails[6] and infiniband:
        made.mode = NONE
        return made
    for version in (4, 6):
        _count_subnets(drafts, facts, made.rails[version], version, found)
    for place, draft in enumerate(drafts, 1):
        if place not in made.rails[4] and place not in made.rails[6]:
            message = "nothing says the subnet of %s" % shown(draft.label)
            remedy = "write it into the fabric file, or give the rail's pool"
            found.add(rules.NO_SUBNET, draft.place, message, remedy, "a rail without its subnet")
    _apart(drafts, made, found)
    _of_blocks(drafts, made, found)
    free = []
    for place, draft in enumerate(drafts, 1):
        rail = made.rails[4].get(place) or made.rails[6].get(place)
        free.extend([(draft, rail)] if rail else [])
    free = [(draft, rail) for draft, rail in free if _hosts(draft, rail, facts, nodes, found)]
    if free:
        message = "nothing says the ports' own addresses on %s" % counting.compact(
            [draft.label for draft, _rail in free]
        )
        ranges = counting.compact([pools.shown_run(rail.net, rail.hosts) for _draft, rail in free if rail.hosts])
        remedy = "check that nobody has these addresses"
        written = "hosts: %s, which the manifests leave free" % ranges
        found.add(rules.HOSTS, free[0][0].place, message, remedy, written)
    blocks = {pool.block for draft in drafts for pool in draft.pools if pool.block}
    made.pods_per_node = max(blocks) if blocks else None
    return made


def _by_prefix(draft: Draft) -> bool:
    return any(pool.nodes or pool.node_prefix for pool in draft.pools)


def _in_one_subnet(draft: Draft) -> bool:
    """Whether several nodes are in one subnet: a pool is for all of them, or theirs have the same one."""
    nodes: dict[Net, set[str]] = {}
    for pool in draft.pools:
        if pool.net and not pool.node_prefix:
            nodes.setdefault(pool.net, set()).update(pool.nodes)
    return any(len(held) > 1 for held in nodes.values())


# -- one subnet a rail -----------------------------------------------------------------------------------------------


def _of_pools(draft: Draft, version: int, found: Found) -> Addressed | None:
    mine = [pool for pool in draft.pools if pool.net and pool.net.version == version]
    if not mine or mine[0].net is None:
        return None
    net = mine[0].net
    runs: list[pools.Run] = []
    gateway = None
    for pool in mine:
        if pool.net != net:
            message = "the pools %s and %s of one rail are of two subnets" % (shown(mine[0].name), shown(pool.name))
            remedy = "let a rail have one subnet, or give each pool its nodeName"
            found.add(rules.SUBNETS, pool.place, message, remedy, pools.shown_net(net))
            continue
        both = [run for run in pool.runs if any(run[0] <= last and first <= run[1] for first, last in runs)]
        if both:
            message = "%s is in two pools of %s" % (pools.shown_run(net, both[0]), shown(draft.label))
            found.add(rules.OVERLAP, pool.place, message, "let each address be in one pool", "the addresses once")
        runs = pools.merged(runs + pool.runs)
        gateway = pool.gateway if gateway is None else gateway
    pods = pools.longest(runs)
    if pods and len(runs) > 1 and not all(len(pool.nodes) == 1 for pool in mine):
        message = "the pod addresses are %d ranges, and a rail has one" % len(runs)
        remedy = "join them in the fabric file where the addresses between are free"
        written = "the largest, %s" % pools.shown_run(net, pods)
        found.add(rules.SEVERAL, mine[0].place, message, remedy, written)
    return Addressed(net, gateway, pods)


def _from_hosts(drafts: t.Sequence[Draft], facts: Facts, made: Addressing) -> None:
    """The subnet and the gateway that shell lines give a port, where no pool says them."""
    for place, draft in enumerate(drafts, 1):
        for port in _ports_of(draft, facts):
            if port.address is None or port.prefix is None or port.prefix > 30:
                continue
            rail = made.rails[4].setdefault(place, Addressed(pools.around(4, port.address, port.prefix)))
            if rail.gateway is None and port.gateway is not None and rail.net.holds(port.gateway):
                rail.gateway = port.gateway
                rail.pods = pools.longest(pools.without([rail.pods], [(port.gateway,) * 2])) if rail.pods else None


def _ports_of(draft: Draft, facts: Facts) -> list[HostPort]:
    return [port for port in facts.host_ports if draft.netdev and port.netdev == draft.netdev]


def _count_subnets(
    drafts: t.Sequence[Draft], facts: Facts, known: dict[int, Addressed], version: int, found: Found
) -> None:
    """Subnets that no pool gives: as a page's routes show them, or counted on from the others."""
    lost = [place for place in range(1, len(drafts) + 1) if place not in known]
    if not lost or not known:
        return
    first = min(known)
    model = known[first]
    grows = _growth(known)
    counted: list[tuple[Draft, Net, str]] = []
    for place in lost:
        shown_there = facts.routes.get(place) if version == 4 else None
        start = model.net.first + grows * (place - first)
        if shown_there is not None and shown_there.prefix == model.net.prefix:
            net, why = shown_there, "a route table on the page has it"
        elif start < 0 or start >> model.net.bits:
            continue
        else:
            net, why = Net(version, start, model.net.prefix), "counted on from %s" % pools.shown_net(model.net)
        moved = net.first - model.net.first
        rail = Addressed(net, None if model.gateway is None else model.gateway + moved)
        if model.pods:
            rail.pods = (model.pods[0] + moved, model.pods[1] + moved)
        rail.note = "CHECK: no pool gives this rail's addresses; %s" % why
        known[place] = rail
        counted.append((drafts[place - 1], net, why))
    for why in dict.fromkeys(each[2] for each in counted):
        alike = [each for each in counted if each[2] == why]
        message = "no pool gives the addresses of %s" % counting.compact([draft.label for draft, _net, _why in alike])
        remedy = "check these subnets in the fabric file"
        nets = counting.compact([pools.shown_net(net) for _draft, net, _why in alike])
        found.add(rules.COUNTED, alike[0][0].place, message, remedy, "%s, for %s" % (nets, why))


def _growth(known: t.Mapping[int, Addressed]) -> int:
    """How far the subnets of two neighbouring rails are apart."""
    places = sorted(known)
    low, high = places[0], places[-1]
    size = 1 << known[low].net.bits - known[low].net.prefix
    if low == high:
        return size
    growth, rest = divmod(known[high].net.first - known[low].net.first, high - low)
    return growth if not rest and growth % size == 0 and growth else size


def _apart(drafts: t.Sequence[Draft], made: Addressing, found: Found) -> None:
    for version in (4, 6):
        rails = sorted(made.rails[version].items(), key=lambda each: (each[1].net.first, each[1].net.prefix))
        for (one, left), (other, right) in zip(rails, rails[1:]):
            if right.net.first <= left.net.last:
                message = "%s of %s overlaps %s of %s" % (
                    pools.shown_net(right.net),
                    shown(drafts[other - 1].label),
                    pools.shown_net(left.net),
                    shown(drafts[one - 1].label),
                )
                remedy = "give each rail a subnet of its own: a node cannot tell two rails of one subnet apart"
                found.add(rules.RAILS_OVERLAP, drafts[other - 1].place, message, remedy, "both as they are")


def _hosts(draft: Draft, rail: Addressed, facts: Facts, nodes: int, found: Found) -> bool:
    """Addresses for the nodes' own ports: those that shell lines give, else what nobody has (True)."""
    for name, runs in facts.taken.items():
        for version, first, last in runs:
            inside = max(first, rail.net.first), min(last, rail.net.last)
            if version == rail.net.version and inside[0] <= inside[1]:
                rail.taken["%s-%d" % (name, len(rail.taken) + 1) if name in rail.taken else name] = inside
    for at, run in enumerate(_routers(draft, rail), 1):
        rail.taken["routers-%d" % at] = run
    taken = list(rail.taken.values())
    if rail.pods and taken:
        rail.pods = pools.longest(pools.without([rail.pods], taken))
    if rail.gateway is not None:
        taken.append((rail.gateway, rail.gateway))
    own = sorted(port.address for port in _ports_of(draft, facts) if port.address is not None)
    own = [address for address in own if rail.net.version == 4 and rail.net.holds(address)]
    _room_behind_blocks(draft, rail, taken)
    if own and rail.pods and any(rail.pods[0] <= address <= rail.pods[1] for address in own):
        message = "%s is a port's own address, and among the pod addresses" % pools.show(4, own[0])
        left = pools.without([rail.pods], [(own[0], max(own[-1], own[0] + max(nodes, 1) - 1))])
        rail.pods = pools.longest(left)
        written = pools.shown_run(rail.net, rail.pods) if rail.pods else "no pods"
        found.add(rules.HOST_IN_PODS, draft.place, message, "keep the ports' addresses out of the pools", written)
    free = pools.without([rail.net.usable], taken + ([rail.pods] if rail.pods else []))
    if own:
        holder = next((run for run in free if run[0] <= own[0] <= run[1]), None)
        rail.hosts = (own[0], holder[1]) if holder else None
        if rail.hosts:
            return False
    rail.hosts = pools.longest(free)
    if rail.hosts and rail.net.version == 6:
        # of IPv6 there is no end, and a plan needs one
        rail.hosts = rail.hosts[0], min(rail.hosts[1], rail.hosts[0] + _PORTS - 1)
    if rail.hosts is None or rail.hosts[1] - rail.hosts[0] + 1 < max(nodes, 1):
        message = "%s has no addresses left for the ports of %d nodes" % (pools.shown_net(rail.net), max(nodes, 1))
        remedy = "shorten the pool, or take a larger subnet"
        found.add(rules.NO_HOSTS, draft.place, message, remedy, "what is left" if rail.hosts else "no hosts")
        return False
    return True


def _routers(draft: Draft, rail: Addressed) -> list[pools.Run]:
    """Addresses of the rail beside its gateway that the pools' routes go over: somebody has them."""
    mine = [pool for pool in draft.pools if pool.net and pool.net.version == rail.net.version]
    runs = [(each, each) for pool in mine for each in pool.routers if rail.net.holds(each) and each != rail.gateway]
    return pools.without(runs, [*rail.taken.values(), *([rail.pods] if rail.pods else [])])


def _of_blocks(drafts: t.Sequence[Draft], made: Addressing, found: Found) -> None:
    """Pools of a node each in one subnet, as long as each other and side by side, are the mode block."""
    own = {
        place: [
            pool for pool in draft.pools if len(pool.nodes) == 1 and pool.net and pool.net.version == 4 and pool.runs
        ]
        for place, draft in enumerate(drafts, 1)
    }
    if not any(len({pool.nodes[0] for pool in of_rail}) > 1 for of_rail in own.values()):
        return
    if made.rails[6]:
        message = "nodes have pools of their own in one subnet, and there is IPv6 beside it"
        remedy = "write mode: block, with block and block6, where each node shall keep its own"
        found.add(rules.SEVERAL, drafts[0].place, message, remedy, "the largest range, for all nodes")
        return
    sizes = {last - first + 1 for of_rail in own.values() for pool in of_rail for first, last in pool.runs}
    indexes: dict[str, int] = {}
    for place, of_rail in own.items():
        size, low = min(sizes), min((pool.runs[0][0] for pool in of_rail), default=0)
        for pool in of_rail:
            rest = (pool.runs[0][0] - low) % size
            index = (pool.runs[0][0] - low) // size + 1
            if len(sizes) > 1 or rest or len(pool.runs) > 1 or indexes.setdefault(pool.nodes[0], index) != index:
                message = "the nodes' pools of %s are not of one size and side by side" % shown(drafts[place - 1].label)
                remedy = "let each node have as many addresses, in the same order on every rail, and write mode: block"
                found.add(rules.SEVERAL, pool.place, message, remedy, "the largest range, for all nodes")
                return
        rail = made.rails[4].get(place)
        if rail and of_rail:
            rail.pods = low, max(pool.runs[-1][1] for pool in of_rail)
    made.mode, made.block, made.indexes = BLOCK, min(sizes), indexes


def _room_behind_blocks(draft: Draft, rail: Addressed, taken: t.Sequence[pools.Run]) -> None:
    """A pool that is cut into blocks takes the whole subnet; the last of them make room for the ports."""
    block = next((pool.block for pool in draft.pools if pool.block), None)
    if not block or not rail.pods or pools.without([rail.net.usable], [*taken, rail.pods]):
        return
    blocks = (rail.pods[1] - rail.pods[0] + 1) // (block + 1)
    if blocks:
        rail.pods = rail.pods[0], rail.pods[0] + blocks * block - 1


# -- a prefix a node -------------------------------------------------------------------------------------------------


def _prefixes(drafts: t.Sequence[Draft], facts: Facts, found: Found) -> Addressing:
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
        found.add(rules.LAYOUT, six[0].place, message, remedy, "no IPv6")
    if not nets and not six:
        message = "no node's pool has a subnet"
        found.add(rules.NO_SUBNET, drafts[0].place, message, "write the rails' subnets into the fabric file", "none")
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
        found.add(rules.LAYOUT, pool.place, message, "give every node a prefix of one length", "/%d" % made.node_prefix)
    made.gateway = _gateway_word(every, found)
    covers = {
        place: _cover([pool.net for pool in of_rail.values() if pool.net]) for place, of_rail in mine.items() if of_rail
    }
    several = max(len(of_rail) for of_rail in mine.values()) > 1
    if several and len(covers) == len(drafts) and _disjoint(covers.values()):
        _by_rail(drafts, mine, _widened(covers), made, found)
        made.host = _host_word(every, made.gateway, found)
    else:
        _cut_anew(drafts, nets, facts, made, found)
    _held_back(drafts, facts, made, found)
    return made


def _held_back(drafts: t.Sequence[Draft], facts: Facts, made: Addressing, found: Found) -> None:
    """Tell of addresses that nobody may get, and that are in the prefixes of nodes."""
    for place, draft in enumerate(drafts, 1):
        for version, rails in made.rails.items():
            rail = rails.get(place)
            for name, runs in facts.taken.items():
                for of, first, last in runs:
                    inside = (
                        (max(first, rail.net.first), min(last, rail.net.last)) if rail and of == version else (1, 0)
                    )
                    if rail is None or inside[0] > inside[1] or _is_gateway(rail.net, inside, made):
                        continue
                    message = "%s of %s is for nobody, by %s" % (
                        pools.shown_run(rail.net, inside),
                        shown(draft.label),
                        shown(name),
                    )
                    remedy = "free these addresses, or say them as taken of the rail, whose nodes end before them"
                    found.add(rules.NOT_KNOWN, draft.place, message, remedy, "the nodes' prefixes with these addresses")


def _is_gateway(net: Net, run: pools.Run, made: Addressing) -> bool:
    """Whether this is the one address of a node's prefix that neither its port nor its pods get anyway."""
    if run[0] != run[1] or made.node_prefix is None:
        return False
    one = pools.around(net.version, run[0], made.node_prefix)
    return run[0] not in range(one.usable[0], one.usable[1] + 1) or (
        made.gateway in ("first", "last") and run[0] == one.usable[made.gateway == "last"]
    )


def _of_whole(drafts: t.Sequence[Draft], whole: t.Sequence[Pool], made: Addressing, found: Found) -> None:
    made.node_prefix = whole[0].node_prefix
    for place, draft in enumerate(drafts, 1):
        pool = next((each for each in draft.pools if each.node_prefix and each.net), None)
        if pool is None or pool.net is None:
            message = "nothing says the network of %s" % shown(draft.label)
            found.add(rules.NO_SUBNET, draft.place, message, "give the rail's pool", "a rail without its subnet")
            continue
        made.rails[pool.net.version][place] = Addressed(pool.net)
        if pool.node_prefix != made.node_prefix:
            message = "the pool %s gives a node a /%d, and %s a /%d" % (
                shown(pool.name),
                pool.node_prefix or 0,
                shown(whole[0].name),
                made.node_prefix or 0,
            )
            found.add(rules.LAYOUT, pool.place, message, "take one length", "/%d" % (made.node_prefix or 0))
    net, gateway = whole[0].net, whole[0].gateway
    if net is None or made.node_prefix is None:
        raise AssertionError("the networks are known here")
    if made.node_prefix == net.bits - 1:
        made.mode, made.node_prefix = LINK, None
        made.leaf_end = "first" if gateway == net.first else "second"
        return
    one = Net(net.version, net.first, made.node_prefix)
    made.gateway = "none" if gateway is None else "last" if gateway == one.usable[1] else "first"
    if gateway is not None and gateway not in one.usable:
        message = "the gateway is neither the first nor the last address of a node's network"
        found.add(rules.GATEWAY, whole[0].place, message, "take gatewayIndex 1", "the first")
    firsts = [_first_node(pool) for pool in whole]
    made.host = _host_word(firsts, made.gateway, found)
    for pool, one_node in zip(whole, firsts):
        _left_out(pool, one_node, made, found)


def _left_out(pool: Pool, one_node: Pool, made: Addressing, found: Found) -> None:
    """Tell of addresses of each node that its pods do not get, and that the plan gives them."""
    if pool.net is None or one_node.net is None:
        return
    first, (low, high) = pool.net.first, one_node.net.usable
    others = [high - (made.gateway == "last") if made.host == "last" else low + (made.gateway == "first")]
    others += [{"first": low, "last": high}[made.gateway]] if made.gateway in ("first", "last") else []
    runs = pools.without([(first + start, first + end) for start, end in pool.left_out], [(at, at) for at in others])
    runs = [run for run in runs if run[0] <= high and run[1] >= low]
    if runs:
        message = "each node of the pool %s keeps addresses from its pods, the first one %s" % (
            shown(pool.name),
            " and ".join(pools.shown_run(one_node.net, (max(low, run[0]), min(high, run[1]))) for run in runs[:4]),
        )
        remedy = "free them: a node's pods get all that the gateway and the port leave"
        found.add(rules.NOT_KNOWN, pool.place, message, remedy, "these addresses for pods")


def _first_node(pool: Pool) -> Pool:
    """The first node's share of a pool that is cut into a network a node."""
    if pool.net is None or pool.node_prefix is None:
        raise AssertionError("only pools that are cut come here")
    first = pool.net.first
    one = Net(pool.net.version, first, pool.node_prefix)
    out = [(first + low, first + high) for low, high in pool.left_out]
    out += [(pool.gateway, pool.gateway)] if pool.gateway is not None else []
    return replace(pool, net=one, runs=pools.without([one.usable], out))


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
    found.add(rules.GATEWAY, every[0].place, message, "let them be one of both", "gateway: first")
    return "first"


def _host_word(every: t.Sequence[Pool], gateway: str, found: Found) -> str | None:
    """Which end of a node's prefix its port can have; None for the first, as when nothing is said."""
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
    remedy = "take the first one after the gateway out of the pools, or write host: none"
    found.add(rules.HOST_IN_PODS, pool.place, message, remedy, "that one for the port, and pods have the rest")
    return None


def _cover(nets: t.Sequence[Net]) -> Net:
    """The smallest network that holds all of these."""
    first, last = min(net.first for net in nets), max(net.last for net in nets)
    prefix = min(net.prefix for net in nets)
    while not pools.around(4, first, prefix).holds(last):
        prefix -= 1
    return pools.around(4, first, prefix)


def _disjoint(nets: t.Iterable[Net]) -> bool:
    ordered = sorted(nets, key=lambda net: net.first)
    return all(left.last < right.first for left, right in zip(ordered, ordered[1:]))


def _widened(covers: t.Mapping[int, Net]) -> dict[int, Net]:
    """All rails' networks of one length, and up to a /24 as long as they stay apart: room for more nodes."""
    length = min(net.prefix for net in covers.values())
    for prefix in range(min(length, 24), length + 1):
        wide = {place: pools.around(4, net.first, prefix) for place, net in covers.items()}
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
                found.add(rules.LAYOUT, pool.place, message, remedy, "node %d" % made.indexes[node])


def _cut_anew(drafts: t.Sequence[Draft], nets: t.Sequence[Net], facts: Facts, made: Addressing, found: Found) -> None:
    """The prefixes are cut by node first, or only one node's are known: no rail has an aggregate of its own."""
    if made.node_prefix is None:
        raise AssertionError("the length is known here")
    wide = [net for net in facts.supernets if all(net.holds(each.first) for each in nets)]
    whole = max(wide, key=lambda net: net.prefix) if wide else _cover(nets)
    prefix = whole.prefix + (len(drafts) - 1).bit_length()
    if prefix > made.node_prefix:
        whole = pools.around(4, whole.first, max(made.node_prefix - (len(drafts) - 1).bit_length() - 3, 8))
        prefix = whole.prefix + (len(drafts) - 1).bit_length()
    for place in range(1, len(drafts) + 1):
        net = Net(4, whole.first + (place - 1 << 32 - prefix), prefix)
        made.rails[4][place] = Addressed(net)
    message = "the pools do not cut a rail's network by node: no leaf can advertise one prefix for its rail"
    remedy = "renumber to these networks, or write the rails' own ones"
    written = "%s cut into a /%d a rail, and this into a /%d a node" % (
        pools.shown_net(whole),
        prefix,
        made.node_prefix,
    )
    found.add(rules.LAYOUT, drafts[0].place, message, remedy, written)
    made.note = "DECIDE: these networks are new; the pools have a node's prefixes of all rails side by side"
