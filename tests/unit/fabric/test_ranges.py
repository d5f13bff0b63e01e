# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of several ranges with exclusions, from the fabric file to what each provider gives out, address by address."""

from __future__ import annotations

import ipaddress
import json
import typing as t
from dataclasses import dataclass

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import Range
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.render import render
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import Outcome, lint
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.ranges import Ranges, fewer, merged
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.verify.pods_wish import of_share, view_of
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.write import write

Document = t.Dict[str, t.Any]
SIZE = 64
NODES = 3
OPTIONS = {"registry": "registry.example.org"}


# -- ranges


spans = st.tuples(st.integers(0, SIZE - 1), st.integers(0, 12)).map(lambda span: Range(span[0], sum(span)))


def every(ranges: t.Iterable[Range]) -> list[int]:
    return [address for each in ranges for address in range(each.first, each.last + 1)]


@given(st.lists(spans, min_size=1, max_size=5), st.lists(spans, max_size=5))
def test_ranges_are_lists_of_their_addresses(parts: list[Range], held: list[Range]) -> None:
    pool, listed = Ranges(tuple(parts)), every(parts)
    assert (pool.size, pool.first, pool.last) == (len(listed), min(listed), max(listed))
    assert [pool.at(number) for number in range(-1, pool.size + 1)] == [None, *listed, None]
    assert (pool.double is None) == (len(set(listed)) == len(listed))
    left = pool.less(held)
    assert (every(left.parts) if left else []) == [address for address in listed if address not in every(held)]
    one = merged(parts)
    assert every(one) == sorted(set(listed))
    assert all(first.last + 1 < second.first for first, second in zip(one, one[1:])), "as few as possible"
    if held:
        both = Ranges(tuple(held)).overlap(pool)
        assert bool(both) == bool(set(listed) & set(every(held)))
        assert not both or set(every([both])) <= set(listed) & set(every(held))


@given(st.integers(0, 9), st.integers(1, 7), st.lists(spans, max_size=5))
def test_blocks_of_which_some_addresses_are_held(first: int, block: int, held: list[Range]) -> None:
    part = Range(first, first + 9 * block - 1)
    left = {
        at: sum(first + at * block + place not in every(held) for place in range(block))
        for at in range(part.size // block)
    }
    found = {at: rest for start, many, rest in fewer(part, block, merged(held)) for at in range(start, start + many)}
    assert found == {at: rest for at, rest in left.items() if rest < block}


def test_a_pool_of_an_ipv6_subnet_costs_as_much_as_one_of_ten_addresses() -> None:
    whole = Range(1 << 64, (1 << 65) - 1, 128)
    held = [Range((1 << 64) + 1000, (1 << 64) + (1 << 60), 128)]
    pool = Ranges.of(whole).less(held)
    assert pool and pool.at(1000) == (1 << 64) + (1 << 60) + 1
    assert sum(many for _at, many, _left in fewer(whole, 16, held)) == (1 << 56) - 61


# -- from the file to every address


@dataclass
class Drawn:
    """A fabric file of one rail, and what it says address by address (as places in the rail's network)."""

    text: str
    six: bool
    pods: list[list[int]]
    hosts: list[int]
    taken: set[int]
    block: int | None

    @property
    def left(self) -> list[int]:
        return [place for part in self.pods for place in part if place not in self.taken]

    def of_node(self, index: int) -> list[int]:
        """The places that a node's pods have."""
        if self.block is None:
            return sorted(self.left)
        blocks = [
            part[at : at + self.block] for part in self.pods for at in range(0, len(part) - self.block + 1, self.block)
        ]
        return [place for place in blocks[index - 1] if place not in self.taken]

    def address(self, place: int) -> str:
        return str(ipaddress.ip_address("fd00:11::" if self.six else "172.16.11.64") + place)


def spelled(draw: st.DrawFn, place: int, six: bool) -> str:
    """An address in one of its forms."""
    whole = str(ipaddress.ip_address("fd00:11::" if six else "172.16.11.64") + place)
    short = "::%x" % place if six else ".%d" % (64 + place)
    return draw(st.sampled_from((whole, short, "+%d" % place)))


@st.composite
def files(draw: st.DrawFn, provider: str = "spiderpool", mode: str | None = None) -> Drawn:
    """Pools beside each other in a network of 64 addresses, in any order, with exclusions anywhere."""
    six = draw(st.booleans())
    mode = mode or draw(st.sampled_from(("subnet", "block")))
    cuts = draw(st.lists(st.integers(3, SIZE - 3), min_size=5, max_size=11, unique=True).map(sorted))
    pairs = list(zip(cuts[::2], cuts[1::2]))
    if provider == "network-operator":
        # nv-ipam's blocks begin with the subnet.
        pairs = [(1, 8), *(pair for pair in pairs if pair[0] > 9)]
        names = ["pods"] + [draw(st.sampled_from(("pods", "hosts"))) for _pair in pairs[1:]]
        order = list(zip(names, pairs))
    else:
        order = [(draw(st.sampled_from(("pods", "hosts"))), pair) for pair in draw(st.permutations(pairs))]
    pools = {key: [pair for name, pair in order if name == key] for key in ("pods", "hosts")}
    excluded = [
        (low, low + more) for low, more in draw(st.lists(st.tuples(st.integers(3, 50), st.integers(0, 5)), max_size=3))
    ]
    excluded = [
        pair
        for at, pair in enumerate(sorted(excluded))
        if not any(other[1] >= pair[0] for other in sorted(excluded)[:at])
    ]
    block = draw(st.integers(1, 5)) if mode == "block" else None

    def texts(pair: tuple[int, int]) -> str:
        first, last = (spelled(draw, place, six) for place in pair)
        return first if pair[0] == pair[1] and draw(st.booleans()) else "%s-%s" % (first, last)

    def value(pairs: list[tuple[int, int]]) -> t.Any:
        listed = [texts(pair) for pair in pairs]
        return listed[0] if len(listed) == 1 and draw(st.booleans()) else listed

    end = "6" if six else ""
    rail: Document = {"subnet" + end: "fd00:11::/122" if six else "172.16.11.64/26", "mode": mode}
    rail.update((key + end, value(pairs)) for key, pairs in pools.items() if pairs)
    if block:
        rail["block" + end] = block
    gateway = draw(st.sampled_from((None, SIZE - 2)))
    if gateway:
        rail["gateway" + end] = spelled(draw, gateway, six)
    if excluded:
        rail["taken"] = {"some": value(excluded[:2]), **({"more": value(excluded[2:])} if excluded[2:] else {})}
    whole = {
        "plugin": "railyard.fabric.rails",
        "fabric": {"name": "ai", "attachment": "macvlan", "provider": provider, "mtu": 4200},
        "rails": {"gpu01": rail},
        "profiles": {"hgx": {"ports": {"gpu01": {"netdev": "eth1", "rdma": "mlx5_gpu01"}}}},
        "nodes": {"n-[1:%d]" % NODES: {"profile": "hgx"}},
    }
    if provider == "network-operator":
        whole["fabric"]["pods_per_node"] = 1
    return Drawn(
        yaml.safe_dump(whole, sort_keys=False),
        six,
        [list(range(low, high + 1)) for low, high in pools["pods"]],
        [place for low, high in pools["hosts"] for place in range(low, high + 1)],
        {place for low, high in excluded for place in range(low, high + 1)},
        block,
    )


def planned(drawn: Drawn) -> tuple[Outcome, Document]:
    outcome = lint(drawn.text.encode())
    assume(outcome.plan is not None)
    assert outcome.plan is not None
    return outcome, outcome.plan.document()


def listed(ips: str) -> list[str]:
    """The addresses of ``first-last`` or of one address."""
    first, _dash, last = ips.partition("-")
    kind = ipaddress.ip_address
    return [str(kind(first) + at) for at in range(int(kind(last or first)) - int(kind(first)) + 1)]


@given(files())
@settings(max_examples=150)
def test_no_address_has_two_owners_and_each_node_has_its_own(drawn: Drawn) -> None:
    _outcome, document = planned(drawn)
    rail, six = document["rails"][0], "6" if drawn.six else ""
    hosts = [place for place in drawn.hosts if place not in drawn.taken]
    view = view_of(dict(document["fabric"], subnets={"gpu01": rail}), document["nodes"])
    owned: list[str] = [] if rail["gateway" + six] is None else [rail["gateway" + six]]
    owned += [drawn.address(place) for place in drawn.taken]
    if drawn.block is None:
        owned += [drawn.address(place) for place in drawn.left]
    for index, node in enumerate(document["nodes"], 1):
        port = node["ports"][0]
        own = port["address" + six]
        assert own == ("%s/%d" % (drawn.address(hosts[index - 1]), 122 if drawn.six else 26) if drawn.hosts else None)
        owned += [own.partition("/")[0]] if own else []
        mine = [drawn.address(place) for place in drawn.of_node(index)] if drawn.pods else []
        shares = view.shares(port)
        assert [address for share in shares for ips in share.ips for address in listed(ips)] == mine
        everything = [drawn.address(place) for place in range(SIZE)]
        assert [address for address in everything if of_share(address, shares)] == mine
        if drawn.block is not None:
            owned += mine
        pods = port["pods"] or {}
        if mine:
            assert (pods["first" + six], pods["last" + six]) == (mine[0], mine[-1])
            assert ("ranges" + six in pods) == (
                len(mine) != int(ipaddress.ip_address(mine[-1])) - int(ipaddress.ip_address(mine[0])) + 1
            )
    assert len(owned) == len(set(owned))
    assert not {drawn.address(0), None if drawn.six else drawn.address(SIZE - 1)} & set(owned)
    capacity = rail["capacity" + six]
    assert sum(capacity["taken"].values()) + capacity["pods"] == SIZE
    assert capacity["taken"]["hosts"] == len(hosts)


@given(files())
@settings(max_examples=100)
def test_what_is_written_reads_back_to_the_same_plan(drawn: Drawn) -> None:
    outcome, document = planned(drawn)
    assert outcome.plan is not None
    again = lint(write(outcome.plan.fabric).encode())
    assert again.plan is not None and again.plan.document() == document
    assert write(again.plan.fabric) == write(outcome.plan.fabric)


# -- what providers give out


def manifests(document: Document, kind: str) -> list[Document]:
    texts = [text for name, text in render(document, OPTIONS).items() if name.endswith((".yaml", ".yml"))]
    return [each for text in texts for each in yaml.safe_load_all(text) if each and each.get("kind") == kind]


@given(files())
@settings(max_examples=60)
def test_spiderpools_pools_have_exactly_the_planned_addresses(drawn: Drawn) -> None:
    _outcome, document = planned(drawn)
    pools = manifests(document, "SpiderIPPool")
    assert len(pools) == (0 if not drawn.pods else NODES if drawn.block else 1)
    for pool in pools:
        ips = pool["spec"]["ips"]
        index = int(pool["spec"].get("nodeName", ["n-1"])[0][2:])
        assert [address for each in ips for address in listed(each)] == [
            drawn.address(place) for place in drawn.of_node(index)
        ]
        # Spiderpool's webhook sorts, and joins what touches: a difference would be drift for ever.
        ends = [(listed(each)[0], listed(each)[-1]) for each in ips]
        for (_first, last), (first, _last) in zip(ends, ends[1:]):
            assert int(ipaddress.ip_address(last)) + 1 < int(ipaddress.ip_address(first))
        assert all("-" not in each or len(listed(each)) > 1 for each in ips)


@given(files(provider="network-operator", mode="subnet"))
@settings(max_examples=60)
def test_nv_ipams_exclusions_leave_exactly_the_planned_addresses(drawn: Drawn) -> None:
    _outcome, document = planned(drawn)
    (pool,) = manifests(document, "IPPool")
    spec = pool["spec"]
    gone = {address for each in spec["exclusions"] for address in listed("%(startIP)s-%(endIP)s" % each)}
    last = SIZE if drawn.six else SIZE - 1
    assert [address for address in map(drawn.address, range(1, last)) if address not in gone] == [
        drawn.address(place) for place in sorted(drawn.left)
    ]


@given(files(provider="cni", mode="block"))
@settings(max_examples=60)
def test_host_locals_ranges_are_exactly_the_planned_addresses(drawn: Drawn) -> None:
    _outcome, document = planned(drawn)
    texts = {name: text for name, text in render(document, OPTIONS, nodes=True).items() if name.endswith(".conflist")}
    assume(drawn.pods)
    assert len(texts) == NODES
    for name, text in texts.items():
        index = next(at for at in range(1, NODES + 1) if "n-%d" % at in name)
        ipam = json.loads(text)["plugins"][0]["ipam"]
        if ipam["type"] == "static":
            found = [each["address"].partition("/")[0] for each in ipam["addresses"]]
        else:
            (ranges,) = ipam["ranges"]
            assert all(
                ipaddress.ip_address(each["rangeStart"]) in ipaddress.ip_network(each["subnet"]) for each in ranges
            )
            found = [address for each in ranges for address in listed("%(rangeStart)s-%(rangeEnd)s" % each)]
        assert found == [drawn.address(place) for place in drawn.of_node(index)]
