# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address planner against brute force: every address of small plans, one by one, with the standard library."""

from __future__ import annotations

import ipaddress
import random
import re
import typing as t
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate import address_planner, address_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    Demand,
    Scheme,
    Units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, Range, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges
from tests import work

Ip = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
IpNetwork = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

DOCS = Path(__file__).resolve().parents[3] / "docs" / "addressing.md"


def net(text: str) -> Network:
    bits = ip_integers.bits_of(text)
    found = ip_integers.parse_network(text, bits)
    assert found, text
    return ip_integers.network(*found, bits)


def held(text: str, within: Network) -> Range:
    found = ip_integers.parse_range(text, within)
    assert found, text
    return Range(*found, within.bits)


def pool(texts: str | list[str], within: Network) -> Ranges:
    return Ranges(tuple(held(text, within) for text in ([texts] if isinstance(texts, str) else texts)))


def kinds(problems: t.Iterable[address_schemes.Problem]) -> list[tuple[str, str]]:
    return [(problem.kind, problem.key) for problem in problems]


# -- addresses of both families


@given(st.one_of(st.ip_addresses(v=6), st.integers(0, 2**50).map(ipaddress.IPv6Address)))
def test_ipv6_is_written_and_read_as_ipaddress_does(address: ipaddress.IPv6Address) -> None:
    assert show(int(address), 128) == str(address)
    for text in (str(address), address.exploded, str(address).upper()):
        assert ip_integers.parse_address(text, bits=128) == int(address)
    assert ip_integers.parse_address(str(address)) is None, "not IPv4"


@given(st.one_of(st.text(max_size=20), st.from_regex(r"\A[0-9a-f:.]{1,24}\Z"), st.from_regex(r"\A[0-9a-f:%]{1,9}\Z")))
def test_a_text_that_is_not_ipv6_gives_none(text: str) -> None:
    try:
        expected = None if "%" in text else int(ipaddress.IPv6Address(text))
    except ValueError:
        expected = None
    assert ip_integers.parse_address(text, bits=128) == expected


@given(st.ip_addresses(v=6), st.integers(0, 128))
def test_ipv6_networks_are_those_of_ipaddress(address: ipaddress.IPv6Address, prefix: int) -> None:
    theirs = ipaddress.IPv6Network((int(address), prefix), strict=False)
    ours = ip_integers.network(int(address), prefix, 128)
    assert (ours.first, ours.last, ours.size) == (int(theirs[0]), int(theirs[-1]), theirs.num_addresses)
    assert str(ours) == str(theirs)
    assert ip_integers.parse_network(str(theirs), 128) == (int(theirs[0]), prefix)


def test_short_forms_of_ipv6_replace_the_last_groups() -> None:
    wide = net("fd00:11::/32")
    assert show(ip_integers.parse_address("::fe", wide) or 0, 128) == "fd00:11::fe"
    assert show(ip_integers.parse_address("::1:0:0:5", wide) or 0, 128) == "fd00:11::1:0:0:5"
    assert show(ip_integers.parse_address("fd00:11:2::1", wide) or 0, 128) == "fd00:11:2::1"
    assert str(held("::10-::1f", net("fd00:11:0:7::/64"))) == "fd00:11:0:7::10-fd00:11:0:7::1f"
    for bad in (".254", "::10000", "fe", ":fe", "::fe/64", "10.0.0.1", "fe80::1%eth0"):
        assert ip_integers.parse_address(bad, wide) is None
    assert ip_integers.parse_network("fd00::/129", 128) is None and ip_integers.parse_network("10.0.0.0/33") is None


def test_networks_of_both_families_with_and_without_host_bits() -> None:
    for text, whole in (("10.0.0.7/24", "10.0.0.0/24"), ("fd00::7/64", "fd00::/64")):
        assert str(ip_integers.network_of(text)) == str(ip_integers.network_of(whole, exact=True)) == whole
        assert ip_integers.network_of(text, exact=True) is None
    assert ip_integers.network_of("fd00::/129") is None and ip_integers.network_of("10.0.0.0") is None


@st.composite
def some_networks(draw: st.DrawFn, size: int = 8) -> list[Network]:
    """Networks of both families at the same numbers, so that only the family distinguishes them."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 6), st.sampled_from((32, 128))), max_size=size))
    return [ip_integers.network(first, bits - host, bits) for first, host, bits in drawn]


def meet(one: Network, other: Network) -> bool:
    return bool(
        ipaddress.ip_network(str(one)).version == ipaddress.ip_network(str(other)).version
    ) and ipaddress.ip_network(str(one)).overlaps(ipaddress.ip_network(str(other)))  # type: ignore[arg-type]


@given(some_networks(), some_networks(), st.integers(0, 63), st.sampled_from((32, 128)))
def test_disjointness_matches_a_brute_force_search(
    rails: list[Network], reserved: list[Network], address: int, bits: int
) -> None:
    late = {other for _outer, _one, _inner, other in ip_integers.overlaps((rail, at) for at, rail in enumerate(rails))}
    order = sorted(range(len(rails)), key=lambda at: (rails[at].bits, rails[at].first, rails[at].prefix, at))
    assert late == {at for place, at in enumerate(order) if any(meet(rails[at], rails[one]) for one in order[:place])}
    found = list(ip_integers.clashes(enumerate_networks(rails), enumerate_networks(reserved)))
    assert all(meet(rail, other) for rail, _at, other, _name in found)
    assert {at for _rail, at, _other, _name in found} == {
        at for at, rail in enumerate(rails) if any(meet(rail, other) for other in reserved)
    }
    hit = ip_integers.Outermost(enumerate_networks(rails)).find(address, bits)
    assert (hit is not None) == any(rail.bits == bits and rail.holds(address) for rail in rails)
    assert hit is None or (hit[0].bits == bits and hit[0].holds(address) and rails[hit[1]] == hit[0])


def enumerate_networks(networks: list[Network]) -> list[tuple[Network, int]]:
    return [(network, at) for at, network in enumerate(networks)]


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(0, 6), st.booleans())
def test_rails_are_cut_from_their_supernet_in_the_order_of_their_numbers(
    first: int, prefix: int, more: int, six: bool
) -> None:
    bits = 128 if six else 32
    supernet = ip_integers.network(first, prefix, bits)
    assume(prefix + more <= bits)
    theirs = [str(each) for each in ipaddress.ip_network(str(supernet)).subnets(prefixlen_diff=more)]
    ours = [str(ip_integers.nth_subnet(supernet, prefix + more, number + 1)) for number in range(1 << more)]
    assert ours == theirs
    assert ip_integers.nth_subnet(supernet, prefix + more, 0) is None
    assert ip_integers.nth_subnet(supernet, prefix + more, (1 << more) + 1) is None
    assert address_planner.supernet_problem(supernet, prefix + more, 1 << more) is None
    assert address_planner.supernet_problem(supernet, prefix + more, (1 << more) + 1) is not None


# -- small plans, worked out address by address


@dataclass
class Forced:
    """A plan by brute force: role -> addresses, and each node's own, by unit, place and index."""

    roles: dict[str, set[Ip]]
    nodes: dict[tuple[int, int, int], dict[str, t.Any]]
    blocks: list[list[Ip]] = field(default_factory=list)


def addresses_of(given_range: Range) -> list[Ip]:
    kind: t.Any = ipaddress.IPv6Address if given_range.bits == 128 else ipaddress.IPv4Address
    return [kind(number) for number in range(given_range.first, given_range.last + 1)]


def roles_of(whole: IpNetwork) -> tuple[Ip | None, Ip | None, list[Ip]]:
    """The network's own address, its broadcast address, and the ones that interfaces may have."""
    hosts: list[Ip] = list(whole.hosts())
    own = None if whole[0] in hosts else whole[0]
    broadcast = None if whole[-1] in hosts else whole[-1]
    return own, broadcast, hosts


def own_by_force(scheme: Scheme, units: Units | None) -> Forced:
    """Nodes one by one, until the subnet ends or a taken address is met in a unit."""
    whole = ipaddress.ip_network(str(scheme.network))
    taken = {each for _name, each_range in scheme.taken for each in addresses_of(each_range)} & set(whole)
    length = whole.max_prefixlen - 1 if scheme.mode == "link" else scheme.node_prefix
    assert length is not None
    forced = Forced({"reserved": taken}, {})
    places = units.places if units else 1
    spans: list[IpNetwork] = []
    for prefix in range(whole.max_prefixlen, whole.prefixlen - 1, -1):
        # The smallest networks that hold all places of a unit.
        if prefix <= length and 2 ** (length - prefix) >= places:
            spans = list(whole.subnets(new_prefix=prefix))
            break
    for unit, span in enumerate(spans, 1):
        nodes = list(span.subnets(new_prefix=length))[:places]
        if any(address in taken for node in nodes for address in node):
            break
        for place, node in enumerate(nodes, 1):
            own, broadcast, hosts = roles_of(node)
            mine: dict[str, t.Any] = {
                "subnet": node,
                "aggregate": span if units else whole,
                "gateway": None,
                "host": None,
            }
            if scheme.mode == "link":
                leaf = 0 if scheme.leaf_end == "first" else 1
                mine["gateway"], hosts = node[leaf], [node[1 - leaf]]
                mine["host"] = None if scheme.host == "none" else hosts[0]
            else:
                for role, word in (("gateway", scheme.gateway or "first"), ("host", scheme.host or "first")):
                    mine[role] = None if word == "none" or not hosts else hosts.pop(0 if word == "first" else -1)
            mine["pods"] = hosts
            forced.nodes[unit, place, (unit - 1) * places + place] = mine
            for role, at in (("network", own), ("broadcast", broadcast), ("gateway", mine["gateway"])):
                forced.roles.setdefault(role, set()).update([] if at is None else [at])
            if scheme.mode != "link" and mine["host"] is not None:
                forced.roles.setdefault("hosts", set()).add(mine["host"])
            forced.roles.setdefault("pods", set()).update(hosts)
    return forced


@st.composite
def own_schemes(draw: st.DrawFn) -> tuple[Scheme, Units | None]:
    bits = draw(st.sampled_from((32, 128)))
    host = draw(st.integers(0, 9))
    network = ip_integers.network(draw(st.integers(0, 2**bits - 1)), bits - host, bits)
    mode = draw(st.sampled_from(("prefix", "link")))
    size = draw(st.integers(0, min(host, 5)))
    ends = st.sampled_from(("first", "last", "none", None))
    starts = draw(st.lists(st.integers(0, network.size - 1), max_size=2))
    taken = tuple(
        (
            "t%d" % at,
            Range(network.first + start, min(network.first + start + draw(st.integers(0, 6)), network.last), bits),
        )
        for at, start in enumerate(starts)
    )
    scheme = Scheme(
        mode,
        network,
        gateway=draw(ends),
        host=draw(ends),
        node_prefix=bits - size,
        leaf_end=draw(st.sampled_from(("first", "second", None))),
        taken=taken,
    )
    return scheme, draw(st.one_of(st.none(), st.integers(1, 9).map(Units)))


def check_capacity(forced: Forced, found: address_schemes.Capacity, network: Network) -> None:
    counted = {
        role: len(forced.roles.get(role, ()))
        for role in ("network", "broadcast", "gateway", "hosts", "reserved", "pods")
    }
    assert counted == {role: getattr(found, role) for role in counted}
    used = [address for role in counted for address in forced.roles.get(role, ())]
    assert len(used) == len(set(used)), "no address has two roles"
    assert found.addresses == network.size and found.idle == network.size - len(used)
    document = found.document()
    assert sum(document["taken"].values()) + document["pods"] == document["addresses"]


@given(own_schemes(), st.integers(0, 40), st.one_of(st.none(), st.integers(0, 40)))
def test_separate_networks_match_a_brute_force_search(
    drawn: tuple[Scheme, Units | None], max_nodes: int, pods_per_node: int | None
) -> None:
    scheme, units = drawn
    demand = Demand(0, max_nodes, pods_per_node)
    plan = planner(scheme, units)
    problems = plan.problems(demand)
    if scheme.mode == "link" and scheme.network.size == 1:
        assert kinds(problems) == [("size", "subnet6" if scheme.network.bits == 128 else "subnet")]
        return
    forced = own_by_force(scheme, units)
    for (unit, place, index), mine in forced.nodes.items():
        share = plan.share(unit, place, index)
        family = ipaddress.IPv6Address if scheme.network.bits == 128 else ipaddress.IPv4Address
        assert (share.subnet, share.prefix) == (int(mine["subnet"][0]), mine["subnet"].prefixlen)
        assert share.gateway == share.leaf == (mine["gateway"] and int(mine["gateway"]))
        assert (None if share.address is None else family(share.address)) == mine["host"]
        ends = (int(mine["pods"][0]), int(mine["pods"][-1])) if mine["pods"] else (None, None)
        assert (share.pods_first, share.pods_last) == ends
        assert str(plan.aggregate(unit)) == str(mine["aggregate"])
        assert mine["subnet"].subnet_of(mine["aggregate"])
        assert plan.index_problem("n", unit, place, index) is None
    assert plan.room == len(forced.nodes)
    places = units.places if units else 1
    assert plan.index_problem("n", plan.room // places + 1, 1, plan.room + 1) is not None
    found = plan.capacity(demand)
    check_capacity(forced, found, scheme.network)
    each = len(next(iter(forced.nodes.values()))["pods"]) if forced.nodes else plan.capacity(demand).share
    assert found.share == each or not forced.nodes
    # The plan is whole exactly where brute force finds room for every node and its pods.
    enough = found.share is not None and found.share >= (pods_per_node or 1)
    if scheme.mode == "prefix":
        ends_wanted = (scheme.gateway != "none") + (scheme.host != "none")
        usable_of = len(
            roles_of(next(ipaddress.ip_network(str(scheme.network)).subnets(new_prefix=scheme.node_prefix)))[2]
        )
        enough = usable_of >= ends_wanted + (pods_per_node or 1)
    clean = len({*addresses_in(scheme)}) == sum(each_range.size for _name, each_range in scheme.taken)
    assert (not problems) == (bool(forced.nodes) and max_nodes <= len(forced.nodes) and enough and clean), problems


def addresses_in(scheme: Scheme) -> list[Ip]:
    return [address for _name, each_range in scheme.taken for address in addresses_of(each_range)]


def in_order(ranges: Ranges | None) -> list[Ip]:
    return [address for part in ranges.parts for address in addresses_of(part)] if ranges else []


@st.composite
def common_schemes(draw: st.DrawFn) -> Scheme:
    """Pools of up to three ranges, mostly next to each other in the subnet; taken may be anywhere."""
    bits = draw(st.sampled_from((32, 128)))
    host = draw(st.integers(1, 7))
    network = ip_integers.network(draw(st.integers(2**16, 2**bits - 2**16)), bits - host, bits)
    mode = draw(st.sampled_from(("subnet", "block")))
    wanted = ["pods"] * draw(st.integers(int(mode == "block"), 3)) + ["hosts"] * draw(st.integers(0, 3))
    apart = ["t%d" % at for at in range(draw(st.integers(0, 2)))]
    taken = ["t%d" % at for at in range(5, 5 + draw(st.integers(0, 2)))]
    spots = list(range(1, network.size - 1 if draw(st.booleans()) else network.size))
    count = 2 * len(wanted + apart)
    drawn: list[tuple[str, tuple[int, int]]] = []
    if draw(st.integers(0, 3)) and 0 < count <= len(spots):
        # One after the other in the subnet, in any order.
        cuts = sorted(draw(st.lists(st.sampled_from(spots), min_size=count, max_size=count, unique=True)))
        drawn += zip(draw(st.permutations(wanted + apart)), draw(st.permutations(list(zip(cuts[::2], cuts[1::2])))))
    else:
        taken = wanted + apart + taken
    for name in taken:
        start = draw(st.integers(-1, network.size))
        drawn.append((name, (start, start + draw(st.integers(0, 9)))))
    ranges = [(name, Range(network.first + low, network.first + high, bits)) for name, (low, high) in drawn]
    gateway: t.Any = draw(st.sampled_from(("first", "last", "none", None, "address")))
    if gateway == "address":
        gateway = network.first + draw(st.integers(-1, network.size))
    pools = {key: tuple(each for name, each in ranges if name == key) for key in ("pods", "hosts")}
    return Scheme(
        mode,
        network,
        gateway=gateway,
        pods=Ranges(pools["pods"]) if pools["pods"] else None,
        hosts=Ranges(pools["hosts"]) if pools["hosts"] else None,
        block=draw(st.integers(1, 6)) if mode == "block" else None,
        taken=tuple(sorted((name, each) for name, each in ranges if name.startswith("t"))),
    )


def common_by_force(scheme: Scheme) -> tuple[Forced, bool]:
    """The roles of all addresses, and whether each has one at the most."""
    whole = ipaddress.ip_network(str(scheme.network))
    own, broadcast, hosts = roles_of(whole)
    gateway: list[Ip] = []
    if isinstance(scheme.gateway, int):
        gateway = addresses_of(Range(scheme.gateway, scheme.gateway, scheme.network.bits))
    elif scheme.gateway in ("first", "last"):
        gateway = [hosts[0 if scheme.gateway == "first" else -1]]
    taken = addresses_in(scheme)
    given = {"pods": in_order(scheme.pods), "hosts": in_order(scheme.hosts)}
    left = {key: [address for address in listed if address not in taken] for key, listed in given.items()}
    blocks: list[list[Ip]] = []
    pods = left["pods"]
    if scheme.block:
        for part in scheme.pods.parts if scheme.pods else ():
            cut = addresses_of(part)
            pieces = [cut[at : at + scheme.block] for at in range(0, len(cut), scheme.block)]
            blocks += [block for block in pieces if len(block) == scheme.block]
        kept = [[address for address in block if address not in taken] for block in blocks]
        pods = [address for block in kept for address in block]
        blocks = kept
    # What is reserved may have the network's own or its broadcast address; no node gets it.
    edges = {own, broadcast}
    sound = all(len(listed) == len(set(listed)) for listed in (given["pods"], given["hosts"], taken))
    sound = sound and not set(left["pods"]) & set(left["hosts"])
    sound = sound and all(bool(left[key]) == bool(given[key]) for key in given)
    used = [*given["pods"], *given["hosts"]]
    sound = sound and not set(gateway) & {*used, *taken} and not edges & {*gateway, *used}
    sound = sound and all(address in whole for address in (*gateway, *used, *taken))
    sound = sound and (not scheme.block or bool(blocks))
    forced = Forced(
        {"gateway": set(gateway), "pods": set(pods), "hosts": set(left["hosts"]), "reserved": set(taken)}, {}, blocks
    )
    forced.roles["network"] = set() if own is None else {own}
    forced.roles["broadcast"] = set() if broadcast is None else {broadcast}
    forced.roles["reserved"] -= edges  # type: ignore[arg-type]
    counts = [len(left["hosts"])] * bool(scheme.hosts) + [len(blocks)] * bool(scheme.block)
    for index in range(1, (min(counts) if counts else 50) + 1):
        mine = blocks[index - 1] if scheme.block else sorted(pods, key=int)
        forced.nodes[1, index, index] = {
            "host": left["hosts"][index - 1] if scheme.hosts else None,
            "pods": mine,
            "gateway": gateway,
        }
    return forced, sound


def shown_ranges(share: address_schemes.Share) -> list[int]:
    """The addresses of a share one by one."""
    if share.ranges is not None:
        assert len(share.ranges) > 1 and share.pods_first == share.ranges[0].first
        assert share.pods_last == share.ranges[-1].last
        assert all(one.last + 1 < other.first for one, other in zip(share.ranges, share.ranges[1:]))
        return [number for part in share.ranges for number in range(part.first, part.last + 1)]
    if share.pods_first is None or share.pods_last is None:
        return []
    return list(range(share.pods_first, share.pods_last + 1))


@given(common_schemes(), st.integers(0, 30), st.integers(0, 30), st.one_of(st.none(), st.integers(1, 8)))
def test_one_subnet_matches_a_brute_force_search(
    scheme: Scheme, nodes: int, max_nodes: int, pods_per_node: int | None
) -> None:
    demand = Demand(nodes, max_nodes, pods_per_node)
    plan = planner(scheme, Units(4))
    problems = plan.problems(demand)
    forced, sound = common_by_force(scheme)
    room = plan.room if plan.room is not None else 50
    enough = max_nodes <= room
    if scheme.block:
        enough = enough and (pods_per_node or 1) <= scheme.block
        whole = [mine for mine in forced.blocks if len(mine) >= (pods_per_node or 1)]
        enough = enough and (max_nodes <= len(whole) or len(whole) == len(forced.blocks))
    elif pods_per_node and scheme.pods:
        enough = enough and max(nodes, max_nodes) * pods_per_node <= len(forced.roles["pods"])
    assert (not problems) == (sound and enough), (problems, sound)
    if not sound:
        return
    assert room == len(forced.nodes)
    for (unit, place, index), mine in forced.nodes.items():
        share = plan.share(unit, place, index)
        assert share.address == (mine["host"] and int(mine["host"]))
        assert share.gateway == (int(mine["gateway"][0]) if mine["gateway"] else None)
        assert shown_ranges(share) == [int(address) for address in mine["pods"]]
        if scheme.block and (pods_per_node or 1) <= scheme.block:
            assert (plan.block_problem("n", index, demand) is None) == (len(mine["pods"]) >= (pods_per_node or 1))
        assert str(Network(share.subnet, 0, share.prefix, plan.bits)) == str(scheme.network)
        assert plan.index_problem("n", unit, place, index) is None
    assert (plan.index_problem("n", 1, room + 1, room + 1) is None) == (plan.room is None)
    assert plan.aggregate(3) == scheme.network
    found = plan.capacity(demand)
    check_capacity(forced, found, scheme.network)
    if pods_per_node and scheme.pods and found.nodes is not None:
        # So many nodes do, and one more does not.
        assert not planner(scheme).problems(Demand(found.nodes, found.nodes, pods_per_node)) or found.nodes == 0
        assert planner(scheme).problems(Demand(found.nodes + 1, found.nodes + 1, pods_per_node))


# -- whole fabrics


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[dict[str, address_schemes.Planner], list[tuple[int, int, int]], Units | None]:
    """Rails of one or both families out of supernets, each in a mode of its own; and nodes by unit, place and index."""
    units = draw(st.one_of(st.none(), st.integers(1, 5).map(Units)))
    planners: dict[str, address_schemes.Planner] = {}
    for text in draw(st.sampled_from((("10.0.0.0/16",), ("fd00::/112",), ("10.0.0.0/16", "fd00::/112")))):
        supernet = net(text)
        for number in range(1, draw(st.integers(1, 6)) + 1):
            network = ip_integers.nth_subnet(supernet, supernet.prefix + 6, number)
            assert network
            low = network.first
            scheme = Scheme(
                draw(st.sampled_from(address_schemes.MODES[:-1])),
                network,
                gateway=draw(st.sampled_from(("first", "last", "none", None))),
                node_prefix=network.bits - draw(st.integers(3, 4)),
                block=draw(st.integers(1, 8)),
                host=draw(st.sampled_from(("first", "last", "none", None))),
                leaf_end=draw(st.sampled_from(("first", "second"))),
            )
            if scheme.mode in ("subnet", "block"):
                pods, hosts = Range(low + 2, low + 513, network.bits), Range(low + 600, low + 663, network.bits)
                scheme = replace(scheme, pods=Ranges.of(pods), hosts=Ranges.of(hosts))
            planners["%s-%d" % (text, number)] = planner(scheme, units)
    spots = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 5)), min_size=1, max_size=12, unique=True))
    if units:
        nodes = [(unit, place, units.index(unit, place)) for unit, place in spots if place <= units.places]
    else:
        nodes = [(1, place, place) for place in sorted({unit * place for unit, place in spots})]
    return planners, nodes, units


def spans(shares: t.Mapping[tuple[str, tuple[int, int, int]], address_schemes.Share], planners: t.Any) -> t.Any:
    """Every allocation as (family, first, last): what is one node's alone, and each rail's gateway and pods once."""
    found = set()
    for (rail, node), share in shares.items():
        plan = planners[rail]
        own = plan.scheme.mode in ("prefix", "link")
        if share.address is not None:
            found.add((plan.bits, share.address, share.address, rail, node))
        if share.gateway is not None:
            found.add((plan.bits, share.gateway, share.gateway, rail, node if own else None))
        if share.pods_first is not None and not (plan.scheme.mode == "link" and share.address is not None):
            found.add(
                (plan.bits, share.pods_first, share.pods_last, rail, None if plan.scheme.mode == "subnet" else node)
            )
    return sorted(found, key=lambda each: each[:3])


@given(fabrics())
def test_no_two_allocations_overlap(
    fabric: tuple[dict[str, address_schemes.Planner], list[tuple[int, int, int]], Units | None],
) -> None:
    planners, nodes, units = fabric
    assert not any(plan.problems(Demand(len(nodes))) for plan in planners.values())
    shares = {(rail, node): plan.share(*node) for rail, plan in planners.items() for node in nodes}
    allocated = spans(shares, planners)
    for one, other in zip(allocated, allocated[1:]):
        assert one[0] < other[0] or one[2] < other[1], (one, other)
    for bits, first, last, rail, node in allocated:
        plan = planners[rail]
        assert plan.network.first <= first <= last <= plan.network.last and plan.bits == bits
        if node:
            aggregate = plan.aggregate(node[0])
            assert aggregate.holds(first) and aggregate.holds(last), "a node's own lies in its unit's aggregate"
    for plan in planners.values():
        cut_by_units = units is not None and plan.scheme.mode in ("prefix", "link")
        aggregates = sorted({plan.aggregate(unit) for unit, _place, _index in nodes}, key=lambda each: each.first)
        assert all(one.last < other.first for one, other in zip(aggregates, aggregates[1:]))
        for aggregate in aggregates:
            assert aggregate.first % aggregate.size == 0 and plan.network.holds(aggregate.first)
            if cut_by_units and units:
                own = plan.share(1, 1, 1)
                assert aggregate.size >= units.places << plan.bits - own.prefix > aggregate.size // 2, (
                    "as small as can be"
                )


@given(fabrics(), st.randoms(use_true_random=False))
def test_no_node_is_renumbered(
    fabric: tuple[dict[str, address_schemes.Planner], list[tuple[int, int, int]], Units | None], chance: random.Random
) -> None:
    """Whatever nodes and units there are besides, in whatever order, with whatever was asked before, and when the
    subnet grows at its end."""
    planners, nodes, units = fabric
    for plan in planners.values():
        before = {node: plan.share(*node) for node in nodes}
        scheme, later = plan.scheme, planner(plan.scheme, units)
        others = nodes + [(unit, 1, units.index(unit, 1) if units else unit) for unit in range(1, 9)]
        chance.shuffle(others)
        later.problems(Demand(len(others), 40, 3))
        later.capacity(Demand(len(others)))
        kept = {node: later.share(*node) for node in others[: chance.randint(0, len(others))] + nodes}
        assert {node: kept[node] for node in nodes} == before
        wider = ip_integers.network(scheme.network.first, scheme.network.prefix - 1, plan.bits)
        if wider.first == scheme.network.first and scheme.mode in ("prefix", "link"):
            grown = planner(replace(scheme, network=wider), units)
            assert {node: grown.share(*node) for node in nodes} == before
            assert grown.room is not None and plan.room is not None and grown.room >= 2 * plan.room


# -- figures that others publish


def test_a_slash_27_has_28_addresses_for_pods() -> None:
    """Of 32, the network's, the broadcast address, the gateway and the port's own go."""
    plan = planner(Scheme("prefix", net("172.17.1.0/24"), node_prefix=27))
    assert plan.capacity(Demand(8)).share == 28 and plan.room == 8
    assert not plan.problems(Demand(8, 8, 28))
    assert kinds(plan.problems(Demand(8, 8, 29))) == [("small", "node_prefix")]
    share = plan.share(1, 2, 2)
    texts = [
        show(number or 0) for number in (share.subnet, share.gateway, share.address, share.pods_first, share.pods_last)
    ]
    assert texts == ["172.17.1.32", "172.17.1.33", "172.17.1.34", "172.17.1.35", "172.17.1.62"]


def test_a_router_known_by_its_link_local_address_takes_none_of_the_rails() -> None:
    local = ip_integers.parse_address("fe80::1", bits=128)
    rail = net("fd00:11::/64")
    ranges = {"pods": Ranges.of(held("::1-::100", rail)), "hosts": Ranges.of(held("::1001-::10ff", rail))}
    for scheme in (
        Scheme("subnet", rail, gateway=local, **ranges),
        Scheme("block", rail, gateway=local, block=16, **ranges),
        Scheme("prefix", net("fd00:11::/56"), gateway=local, node_prefix=64),
    ):
        plan, none = planner(scheme), planner(replace(scheme, gateway="none"))
        assert plan.problems(Demand(4, 4, 16)) == none.problems(Demand(4, 4, 16)) == []
        for index in (1, 4):
            share = plan.share(1, index, index)
            assert share.gateway == share.leaf == local
            assert share._replace(gateway=None) == none.share(1, index, index)
        assert plan.capacity(Demand(4)) == none.capacity(Demand(4))
    for wrong in ("fe80::", "fe80:0:0:1::1", "fec0::1"):
        plan = planner(Scheme("subnet", rail, gateway=ip_integers.parse_address(wrong, bits=128), **ranges))
        assert kinds(plan.problems(Demand(1))) == [("outside", "gateway6")]
    four = planner(Scheme("subnet", net("172.16.11.0/24"), gateway=ip_integers.parse_address("169.254.0.1")))
    assert kinds(four.problems(Demand(1))) == [("outside", "gateway")]


@pytest.mark.parametrize("text", ["10.200.0.0/22", "fd00:200::/118"])
def test_of_a_link_the_port_is_even_and_the_leaf_odd(text: str) -> None:
    plan = planner(Scheme("link", net(text)), Units(32))
    assert not plan.problems(Demand(128, 128, 1))
    for unit in range(1, 5):
        for place in range(1, 33):
            share = plan.share(unit, place, 0)
            assert share.address is not None and share.leaf is not None
            assert share.address % 2 == 0 and share.leaf == share.address + 1
            assert share.prefix == plan.bits - 1
            assert share.pods_first == share.pods_last == share.address
    turned = planner(Scheme("link", net(text), leaf_end="first"), Units(32)).share(1, 1, 1)
    assert (turned.leaf, turned.address) == (net(text).first, net(text).first + 1)


def test_four_units_of_32_nodes_with_two_planes() -> None:
    """8 rails x 2 planes x 4 units are 64 leaves with a /26 each, all in one /20."""
    supernet, units = net("10.200.0.0/20"), Units(32)
    assert address_planner.supernet_problem(supernet, 24, 16) is None
    planes = [ip_integers.nth_subnet(supernet, 24, number) for number in range(1, 17)]
    leaves = []
    for plane in planes:
        assert plane
        plan = planner(Scheme("link", plane), units)
        assert not plan.problems(Demand(128, 128))
        assert kinds(plan.problems(Demand(128, 129))) == [("growth", "subnet")]
        leaves += [plan.aggregate(unit) for unit in range(1, 5)]
        assert plan.capacity(Demand(128)).nodes == 128
    assert [str(leaf) for leaf in leaves] == [
        str(each) for each in ipaddress.ip_network("10.200.0.0/20").subnets(new_prefix=26)
    ]


def test_thousands_of_nodes_are_planned_with_little_work() -> None:
    # an object for each address would be millions
    with work.at_most(1_000_000):
        units, supernets = Units(32), (net("10.0.0.0/8"), net("fd00::/32"))
        for supernet, rail_prefix, node_prefix in zip(supernets, (12, 48), (27, 80)):
            for number in range(1, 9):
                network = ip_integers.nth_subnet(supernet, rail_prefix, number)
                assert network
                plan = planner(Scheme("prefix", network, node_prefix=node_prefix), units)
                assert not plan.problems(Demand(4096, 4096, 16))
                for unit in range(1, 129):
                    plan.aggregate(unit)
                    for place in range(1, 33):
                        plan.share(unit, place, 0)


# -- what is wrong

RAIL, RAIL6 = net("172.16.11.0/24"), net("fd00:11::/64")
NARROW = net("172.16.11.0/28")


def common(
    mode: str = "subnet", network: Network = RAIL, taken: dict[str, t.Any] | None = None, **words: t.Any
) -> Scheme:
    ranges = {key: pool(words.pop(key), network) for key in ("pods", "hosts") if key in words}
    gateway = words.pop("gateway", None)
    parsed = ip_integers.parse_address(gateway, network) if gateway else None
    held_back = tuple((name, part) for name, texts in (taken or {}).items() for part in pool(texts, network).parts)
    return Scheme(mode, network, gateway if parsed is None else parsed, taken=held_back, **ranges, **words)


GOOD = {"gateway": ".254", "pods": ".1-.200", "hosts": ".201-.253"}
WRONG: list[tuple[str, Scheme, Units | None, Demand, list[tuple[str, str]], str]] = [
    ("whole", common(**GOOD), None, Demand(2, 53, 3), [], ""),
    ("too small", common(network=net("172.16.11.0/32")), None, Demand(), [("size", "subnet")], "use a /31 or larger"),
    (
        "too small, IPv6",
        common(network=net("fd00::/128")),
        None,
        Demand(),
        [("size", "subnet6")],
        "use a /127 or larger",
    ),
    ("back to back", common(network=net("172.16.11.0/31"), hosts="+0-+1"), None, Demand(2, 2), [], ""),
    ("back to back, IPv6", common(network=net("fd00::/127"), hosts="+0-+1"), None, Demand(2, 2), [], ""),
    (
        "gateway elsewhere",
        common(**dict(GOOD, gateway="172.16.13.254")),
        None,
        Demand(),
        [("outside", "gateway")],
        "use an address from 172.16.11.1 to 172.16.11.254",
    ),
    (
        "gateway is the network's",
        common(gateway=".0"),
        None,
        Demand(),
        [("unusable", "gateway")],
        "is the network address of",
    ),
    (
        "gateway broadcasts",
        common(gateway=".255"),
        None,
        Demand(),
        [("unusable", "gateway")],
        "is the broadcast address of",
    ),
    (
        "gateway means any router",
        common(network=RAIL6, gateway="::0"),
        None,
        Demand(),
        [("unusable", "gateway6")],
        "fd00:11:: is the address of any router",
    ),
    ("IPv6 has no broadcast", common(network=RAIL6, gateway="::ffff"), None, Demand(), [], ""),
    (
        "invalid gateway",
        common(gateway="middle"),
        None,
        Demand(),
        [("choice", "gateway")],
        "middle is not a gateway",
    ),
    (
        "first is in pods",
        common(**dict(GOOD, gateway="first")),
        None,
        Demand(),
        [("gateway-held", "pods")],
        "172.16.11.1-172.16.11.200 contains the gateway 172.16.11.1",
    ),
    (
        "pods from the network's",
        common(pods=".0-.9"),
        None,
        Demand(),
        [("unusable", "pods")],
        "contains the network address of",
    ),
    (
        "hosts to broadcast",
        common(hosts=".9-.255"),
        None,
        Demand(),
        [("unusable", "hosts")],
        "contains the broadcast address of",
    ),
    (
        "pods elsewhere",
        common(pods="172.16.12.1"),
        None,
        Demand(),
        [("outside", "pods")],
        "172.16.12.1 is not in 172.16.11.0/24",
    ),
    (
        "pods and hosts",
        common(**dict(GOOD, pods=".1-.210")),
        None,
        Demand(),
        [("overlap", "hosts")],
        "172.16.11.201-172.16.11.210 is in pods",
    ),
    ("taken in pods", common(taken={"switches": ".1-.9"}, **GOOD), None, Demand(53, 53, 3), [], ""),
    (
        "all pods are taken",
        common(taken={"switches": ".1-.150", "more": ".151-.200"}, **GOOD),
        None,
        Demand(),
        [("taken", "taken")],
        "all addresses of pods (172.16.11.1-172.16.11.200) are taken",
    ),
    ("taken and gateway", common(gateway=".9", taken={"a": ".9"}), None, Demand(), [], ""),
    (
        "taken network, gateway and broadcast address",
        common(gateway=".1", pods=".0-.199", hosts=".200-.255", taken={"a": [".0-.9", ".250-.255"]}),
        None,
        Demand(),
        [],
        "",
    ),
    (
        "gateway beside taken addresses",
        common(gateway=".10", pods=".0-.199", taken={"a": ".0-.9"}),
        None,
        Demand(),
        [("gateway-held", "pods")],
        "contains the gateway 172.16.11.10",
    ),
    (
        "taken elsewhere",
        common(taken={"a": "172.16.12.9"}),
        None,
        Demand(),
        [("outside", "taken.a")],
        "172.16.12.9 is not in",
    ),
    (
        "taken twice",
        common(taken={"a": ".1-.9", "b": ".9-.12"}),
        None,
        Demand(),
        [("overlap", "taken.b")],
        "172.16.11.9 is taken for a and for b",
    ),
    (
        "growth",
        common(**GOOD),
        None,
        Demand(2, 54),
        [("growth", "hosts")],
        "hosts (172.16.11.201-172.16.11.253) has room for 53 nodes, and max_nodes is 54",
    ),
    (
        "pods of all",
        common(**GOOD),
        None,
        Demand(2, 53, 4),
        [("pods", "pods")],
        "53 nodes with 4 pods each need 212 addresses, and 172.16.11.1-172.16.11.200 has 200",
    ),
    ("no block", common("block", **GOOD), None, Demand(), [("missing", "block")], "block is missing"),
    ("no pods", common("block", hosts=".1-.9", block=4), None, Demand(), [("missing", "pods")], "pods is missing"),
    (
        "block too large",
        common("block", pods=".1-.9", block=10),
        None,
        Demand(),
        [("small", "block")],
        "larger than pods",
    ),
    (
        "block too small",
        common("block", block=4, **GOOD),
        None,
        Demand(1, 1, 5),
        [("small", "block")],
        "set it to 5 or more",
    ),
    (
        "growth of blocks",
        common("block", block=16, **GOOD),
        None,
        Demand(1, 13),
        [("growth", "pods")],
        "pods (172.16.11.1-172.16.11.200) has room for 12 blocks of 16, and max_nodes is 13",
    ),
    ("no prefix", common("prefix"), None, Demand(), [("missing", "node_prefix")], "such as 27"),
    ("no prefix, IPv6", common("prefix", RAIL6), None, Demand(), [("missing", "node_prefix6")], "such as 112"),
    ("prefix too short", common("prefix", node_prefix=23), None, Demand(), [("size", "node_prefix")], "from 24 to 32"),
    ("prefix too long", common("prefix", node_prefix=33), None, Demand(), [("size", "node_prefix")], "from 24 to 32"),
    (
        "all but broadcast",
        common(hosts=".1-.255"),
        None,
        Demand(),
        [("unusable", "hosts")],
        "contains the broadcast address",
    ),
    ("no link", common("link", net("10.0.0.0/32")), None, Demand(), [("size", "subnet")], "use a /31 or larger"),
    (
        "unused ranges",
        common("prefix", node_prefix=27, pods=".1-.9", hosts=".10-.20"),
        None,
        Demand(),
        [("unused", "pods"), ("unused", "hosts")],
        "has no effect in the mode prefix",
    ),
    (
        "gateway of every node",
        common("prefix", node_prefix=27, gateway=".254"),
        None,
        Demand(),
        [("choice", "gateway")],
        "172.16.11.254 cannot be the gateway of every node",
    ),
    (
        "share without pods",
        common("prefix", node_prefix=30),
        None,
        Demand(),
        [("small", "node_prefix")],
        "a /30 has 2 usable addresses, and a node needs 1 for pods, 1 for its port, 1 for the gateway",
    ),
    (
        "share for pods",
        common("prefix", node_prefix=28),
        None,
        Demand(1, 1, 28),
        [("small", "node_prefix")],
        "write 27 or less",
    ),
    (
        "share of IPv6",
        common("prefix", RAIL6, node_prefix=127),
        None,
        Demand(1, 1, 1),
        [("small", "node_prefix6")],
        "write 126 or less",
    ),
    ("pods of a link", common("link"), None, Demand(1, 1, 8), [("small", "pods_per_node")], "use the mode prefix"),
    (
        "taken at the beginning",
        common("prefix", node_prefix=27, taken={"switches": ".1-.9"}),
        None,
        Demand(1),
        [("taken", "taken.switches")],
        "use addresses at the end of 172.16.11.0/24",
    ),
    (
        "taken of those to come",
        common("prefix", node_prefix=27, taken={"switches": ".240-.254"}),
        None,
        Demand(2, 8),
        [("growth", "taken.switches")],
        "172.16.11.240-172.16.11.254, taken for switches, leaves room for 7 nodes, a /27 each, and max_nodes is 8",
    ),
    (
        "growth of prefixes",
        common("prefix", node_prefix=27),
        None,
        Demand(2, 9),
        [("growth", "subnet")],
        "172.16.11.0/24 has room for 8 nodes, a /27 each, and max_nodes is 9",
    ),
    (
        "growth of units",
        common("link", RAIL),
        Units(32),
        Demand(2, 129),
        [("growth", "subnet")],
        "172.16.11.0/24 has room for 4 units of 32 nodes, a /26 each, and max_nodes is 129",
    ),
    (
        "a unit too large",
        common("link", NARROW),
        Units(9),
        Demand(2),
        [("units", "subnet")],
        "172.16.11.0/28 is smaller than one unit of 9 nodes with a /31 each, a /27",
    ),
]


@pytest.mark.parametrize(
    ("scheme", "units", "demand", "expected", "words"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG]
)
def test_each_mistake_has_its_key_and_its_values(
    scheme: Scheme, units: Units | None, demand: Demand, expected: list[tuple[str, str]], words: str
) -> None:
    problems = planner(scheme, units).problems(demand)
    assert kinds(problems) == expected
    assert all(words in "%s. %s" % (problem.message, problem.remedy) for problem in problems)
    assert all(len(problem.message) < 200 and "\n" not in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("scheme", "units", "spot", "kind", "key", "message", "remedy"),
    [
        (
            common(**GOOD),
            None,
            (1, 54, 54),
            "full",
            "hosts",
            "hosts (172.16.11.201-172.16.11.253) has room for 53 nodes, and ai-1 has index 54",
            "widen the range to 54 addresses, or lower the index",
        ),
        (
            common("block", block=16, **GOOD),
            None,
            (1, 13, 13),
            "full",
            "pods",
            "pods (172.16.11.1-172.16.11.200) has room for 12 blocks of 16, and ai-1 has index 13",
            "widen the range to 208 addresses, or lower the index",
        ),
        (
            common("prefix", node_prefix=27),
            None,
            (1, 9, 9),
            "full",
            "subnet",
            "172.16.11.0/24 has room for 8 nodes, a /27 each, and ai-1 has index 9",
            "use a /23 or larger",
        ),
        (
            common("link"),
            Units(32),
            (5, 1, 129),
            "units",
            "subnet",
            "172.16.11.0/24 has room for 4 units of 32 nodes, a /26 each, and ai-1 is in unit 5",
            "use a /23 or larger",
        ),
        (
            common("prefix", net("fd00:11::/76"), node_prefix=80),
            None,
            (1, 17, 17),
            "full",
            "subnet6",
            "fd00:11::/76 has room for 16 nodes, a /80 each, and ai-1 has index 17",
            "use a /75 or larger",
        ),
    ],
)
def test_the_node_without_addresses_is_named(
    scheme: Scheme, units: Units | None, spot: tuple[int, int, int], kind: str, key: str, message: str, remedy: str
) -> None:
    found = planner(scheme, units).index_problem("ai-1", *spot)
    assert found == address_schemes.Problem(kind, key, message, remedy)


def test_a_supernet_has_room_for_its_rails() -> None:
    found = address_planner.supernet_problem(net("172.16.0.0/12"), 16, 17)
    assert found and (found.kind, found.key) == ("rails", "supernet")
    assert found.message == "172.16.0.0/12 has room for 16 rails, a /16 each, and there are 17"
    assert found.remedy == "use a /11 or larger"
    found = address_planner.supernet_problem(net("fd00::/48"), 40, 1)
    assert found and (found.kind, found.key) == ("size", "rail_prefix6")
    assert found.remedy == "write a number from 48 to 128"

    assert address_planner.supernet_problem(net("172.16.0.0/31"), 32, 2) is None


@pytest.mark.parametrize(
    ("text", "room"),
    [
        (".60-.63", 120),
        (".59-.60", 0),
        (".63-.64", 30),
        (".64", 30),
        (".60-.70", 30),
        (".127", 120),
        (".252-.255", 120),
    ],
)
def test_spare_addresses_of_a_unit_may_be_used(text: str, room: int) -> None:
    """30 places are the first 60 addresses of a unit's /26; the other 4 are unused."""
    plan = planner(common("link", taken={"switches": text}), Units(30))
    assert plan.room == room


def test_keys_of_other_modes_change_nothing() -> None:
    """A word for all rails may mean something on some of them alone."""
    words = {"block": 16, "node_prefix": 27, "host": "last", "leaf_end": "first"}
    assert planner(common(**GOOD, **words)).share(1, 2, 2) == planner(common(**GOOD)).share(1, 2, 2)
    assert planner(common(**GOOD, **words)).capacity(Demand()) == planner(common(**GOOD)).capacity(Demand())
    link = common("link", block=16, node_prefix=27)
    assert planner(link).share(1, 2, 2) == planner(common("link")).share(1, 2, 2)


def test_a_mode_without_addresses_has_no_planner() -> None:
    with pytest.raises(ValueError, match="none"):
        planner(Scheme("none", RAIL))


# -- the documentation's figures


def worked() -> t.Iterator[tuple[dict[str, t.Any], list[dict[str, str]], list[dict[str, str]]]]:
    """Each rail that the page works out: its words, the rows of its nodes, and those of its account."""
    for part in re.split(r"^```yaml\n", DOCS.read_text(encoding="utf-8"), flags=re.M)[1:]:
        words, rest = part.split("```\n", 1)
        tables = tables_of(re.split(r"^## ", rest, flags=re.M)[0])
        # .254 is not a number.
        rail = yaml.load(words, yaml.BaseLoader)
        rail.update({key: int(value) for key, value in rail.items() if str(value).isdigit()})
        yield rail, tables[0], tables[1] if len(tables) > 1 else []


def tables_of(text: str) -> list[list[dict[str, str]]]:
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
        found.append([dict(zip(rows[0], row)) for row in rows[2:]])
    return found


def test_figures_of_the_page_match_the_planner() -> None:
    modes = set()
    for words, nodes, account in worked():
        network = net(words.pop("subnet"))
        units = Units(words.pop("units")) if "units" in words else None
        demand = Demand(words["nodes"], words.pop("nodes"), words.pop("pods_per_node", None))
        rails = words.pop("rails", 0)
        scheme = common(words.pop("mode"), network, **words)
        modes.add(scheme.mode)
        if rails:
            scheme = replace(scheme, part=address_schemes.Part(1, rails))
        plan = planner(scheme, units)
        assert plan.problems(demand) == []
        assert len(nodes) >= 3
        for row in nodes:
            if rails:
                plan = planner(replace(scheme, part=address_schemes.Part(int(row["rail"]), rails)), units)
                assert plan.problems(demand) == []
            unit, place = int(row.get("unit", 1)), int(row.get("place", 1))
            index = int(row["index"]) if "index" in row else units.index(unit, place) if units else place
            share = plan.share(unit, place, index)
            assert share.address is not None and share.gateway is not None and share.pods_first is not None
            assert plan.index_problem("n", unit, place, index) is None
            assert row["address"] == "%s/%d" % (show(share.address, plan.bits), share.prefix)
            assert row["gateway"] == show(share.gateway, plan.bits)
            whole = Range(share.pods_first, share.pods_last or 0, plan.bits)
            assert row["pods"] == str(Ranges(share.ranges or (whole,)))
            assert row.get("aggregate", str(network)) == str(plan.aggregate(unit))
        found = plan.capacity(demand)
        for row in account:
            expected = {key: int(value) for key, value in row.items()}
            assert expected.pop("most nodes") == found.nodes
            assert expected == {key: getattr(found, key) for key in expected}
    assert modes == {"subnet", "block", "prefix", "link"}


def test_the_pages_rails_are_those_of_the_supernet() -> None:
    rows = next(table for table in tables_of(DOCS.read_text(encoding="utf-8")) if set(table[0]) == {"rail", "network"})
    assert len(rows) == 4
    for row in rows:
        assert row["network"] == str(ip_integers.nth_subnet(net("172.16.0.0/12"), 16, int(row["rail"])))
