# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of several ranges with exclusions, from the fabric file to what each provider gives out, address by address."""

from __future__ import annotations

import ipaddress
import json
import typing as t

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_diff, plan_rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.plan_tables import as_table, leaf_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    Ranges,
    common,
    longest,
    merged,
    partial_blocks,
    without,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import of_share, view_of

from .range_files import NODES, SIZE, Document, Drawn, fabric, files, listed, planned

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
    assert (pool.repeated is None) == (len(set(listed)) == len(listed))
    left = pool.without(held)
    assert (every(left.parts) if left else []) == [address for address in listed if address not in every(held)]
    one = merged(parts)
    assert every(one) == sorted(set(listed))
    assert all(first.last + 1 < second.first for first, second in zip(one, one[1:])), "as few as possible"
    if held:
        both = Ranges(tuple(held)).overlap(pool)
        assert bool(both) == bool(set(listed) & set(every(held)))
        assert not both or set(every([both])) <= set(listed) & set(every(held))


@given(st.lists(spans, max_size=6), st.lists(spans, max_size=6))
def test_free_ranges_are_those_of_sets(ranges: list[Range], taken: list[Range]) -> None:
    left, shared = without(ranges, taken), common(ranges, taken)
    assert every(left) == sorted(set(every(ranges)) - set(every(taken)))
    assert every(shared) == sorted(set(every(ranges)) & set(every(taken)))
    assert all(low.last + 1 < high.first for result in (left, shared) for low, high in zip(result, result[1:]))
    best = longest(left)
    assert (best is None) == (not left)
    assert best is None or all(best.size >= each.size for each in left)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_covering_network_is_the_smallest(one: int, other: int) -> None:
    first, last = sorted((one, other))
    net = ip_integers.covering(first, last, ip_integers.IPV4)
    assert net.holds(first) and net.holds(last)
    assert net.prefix == ip_integers.IPV4 or not ip_integers.network(first, net.prefix + 1).holds(last)


@pytest.mark.parametrize(
    ("prefix", "bits", "first", "last"), [(24, 32, 1, 254), (120, 128, 1, 255), (31, 32, 0, 1), (127, 128, 0, 1)]
)
def test_usable_addresses_of_networks(prefix: int, bits: int, first: int, last: int) -> None:
    assert ip_integers.network(0, prefix, bits).usable == Range(first, last, bits)


@given(st.integers(0, 9), st.integers(1, 7), st.lists(spans, max_size=5))
def test_blocks_of_which_some_addresses_are_held(first: int, block: int, held: list[Range]) -> None:
    part = Range(first, first + 9 * block - 1)
    left = {
        at: sum(first + at * block + place not in every(held) for place in range(block))
        for at in range(part.size // block)
    }
    found = {
        at: rest for start, many, rest in partial_blocks(part, block, merged(held)) for at in range(start, start + many)
    }
    assert found == {at: rest for at, rest in left.items() if rest < block}


def test_a_pool_of_an_ipv6_subnet_is_planned_with_little_work() -> None:
    whole = Range(1 << 64, (1 << 65) - 1, 128)
    held = [Range((1 << 64) + 1000, (1 << 64) + (1 << 60), 128)]
    pool = Ranges.of(whole).without(held)
    assert pool and pool.at(1000) == (1 << 64) + (1 << 60) + 1
    assert sum(many for _at, many, _left in partial_blocks(whole, 16, held)) == (1 << 56) - 61


# -- from the file to every address


@given(files())
@settings(max_examples=max(50, settings.default.max_examples))
def test_no_address_has_two_owners_and_each_node_has_its_own(drawn: Drawn) -> None:
    _outcome, document = planned(drawn)
    rail, six = document["rails"][0], "6" if drawn.six else ""
    hosts = [place for place in drawn.hosts if place not in drawn.taken]
    view = view_of(document["fabric"], document["nodes"])
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
@settings(max_examples=max(40, settings.default.max_examples))
def test_a_written_file_gives_the_same_plan(drawn: Drawn) -> None:
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
@settings(max_examples=max(30, settings.default.max_examples))
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
@settings(max_examples=max(30, settings.default.max_examples))
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
@settings(max_examples=max(30, settings.default.max_examples))
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


# -- offsets, and values that several rails share


def findings(text: str) -> list[str]:
    return [finding.text() for finding in lint(text.encode()).findings]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("supernet: 172.30.0.0/16, rail_prefix: 22, %s", {"hosts": ".0.10-.0.73", "pods": ".1.0-.3.254"}),
        ("supernet: 172.30.0.0/16, rail_prefix: 22, %s", {"gateway": "172.30.4.1", "hosts": "[.4.10-.4.12, .4.20]"}),
        ("supernet: 10.0.0.0/8, rail_prefix: 14, %s", {"hosts": ".3.0.0-.3.1.0", "pods": ".0.1-.2.255.255"}),
        ("supernet: 172.30.0.0/16, rail_prefix: 26, %s", {"hosts": ".65-.80", "taken": "{a: .10}"}),
        ("supernet6: 'fd00::/48', rail_prefix6: 68, %s", {"hosts6": '"::1000:0:0:1-::1000:0:0:9"'}),
    ],
)
def test_the_remedy_for_a_shared_value_is_right_for_all_rails(words: str, keys: dict[str, str]) -> None:
    """Following each remedy once ends in a file without errors, and each finding of RY306 names a rail."""
    for _turn in range(len(keys) + 1):
        text = fabric("gpu01: {}, gpu02: {}", words % ", ".join("%s: %s" % pair for pair in keys.items()))
        found = [each for each in lint(text.encode()).findings if each.code in ("RY306", "RY308")]
        if not found:
            break
        for each in found:
            assert each.code != "RY306" or each.message.startswith(("on gpu01", "on gpu02")), each.message
            offset = next(word.strip(",.") for word in each.remedy.split() if word.startswith("+"))
            key = each.place.split(".")[1].partition("[")[0]
            old = keys[key]
            keys[key] = "{a: %s}" % offset if key == "taken" else "[%s, +20]" % offset if "[" in old else offset
    assert not [each.text() for each in lint(text.encode()).findings if each.code in ("RY306", "RY308")], text


def test_a_value_of_one_rail_keeps_its_own_remedy() -> None:
    (found,) = findings(
        fabric("gpu01: {subnet: 10.1.0.0/24, hosts: .1.9}, gpu02: {subnet: 10.2.0.0/24, hosts: .9-.10}", nodes=1)
    )
    assert "address-outside-subnet (RY306) rails.gpu01.hosts: 10.1.1.9 is not in 10.1.0.0/24." in found
    assert found.endswith("Remedy: use addresses from 10.1.0.1 to 10.1.0.254.")


@given(st.integers(0, 2**40), st.integers(8, 30), st.booleans())
def test_offsets_count_from_the_networks_address(offset: int, prefix: int, six: bool) -> None:
    bits = 128 if six else 32
    net = ip_integers.network(int(ipaddress.ip_address("fd00:11::1" if six else "172.30.5.9")), prefix, bits)
    found = ip_integers.parse_address("+%d" % offset, net)
    assert found == (net.first + offset if net.first + offset < 1 << bits else None)
    assert ip_integers.parse_address("+%d" % offset, bits=bits) is None, "no base address"
    for wrong in ("+", "+-1", "+01", "++1", "+1.5", "+0x10", "+1 ", "+٣"):
        assert ip_integers.parse_address(wrong, net) is None


def test_an_offset_in_taken_counts_in_both_families() -> None:
    text = fabric(
        "gpu01: {subnet: 10.1.0.0/24, pods: .99, hosts: +9-+10, subnet6: 'fd00:1::/64', pods6: +99, hosts6: +9-+10,"
        " taken: {a: [+1-+3, '::f']}},"
        " gpu02: {subnet: 10.2.0.0/24, pods: .9, hosts: .7-.8, subnet6: 'fd00:2::/64', hosts6: +8-+9, taken: {a: .1}}"
    )
    outcome = lint(text.encode())
    assert outcome.plan is not None, findings(text)
    rails = outcome.plan.document()["rails"]
    assert [rail["taken"] for rail in rails] == [
        {"a": "10.1.0.1-10.1.0.3, fd00:1::1-fd00:1::3, fd00:1::f"},
        {"a": "10.2.0.1"},
    ]
    reserved = manifests(outcome.plan.document(), "SpiderReservedIP")
    assert [each["spec"]["ips"] for each in reserved] == [
        ["10.1.0.1-10.1.0.3"],
        ["fd00:1::1-fd00:1::3", "fd00:1::f"],
        ["10.2.0.1"],
    ]
    again = lint(write(outcome.plan.fabric).encode())
    assert again.plan is not None and again.plan.document()["rails"] == rails


# -- nodes back to back


@pytest.mark.parametrize(
    ("subnet", "hosts", "own"),
    [
        ('subnet: "192.168.{n}.0/31"', "hosts: +0-+1", ["192.168.1.0/31", "192.168.1.1/31"]),
        ('subnet6: "fd00:{n}::/127"', "hosts6: +0-+1", ["fd00:1::/127", "fd00:1::1/127"]),
        ('subnet: "192.168.{n}.0/30"', "hosts: .1-.2", ["192.168.1.1/30", "192.168.1.2/30"]),
    ],
)
def test_two_nodes_back_to_back(subnet: str, hosts: str, own: list[str]) -> None:
    text = fabric('count: 2, name: "gpu{n:02}", %s, %s' % (subnet, hosts))
    assert findings(text) == []
    outcome = lint(text.encode())
    assert outcome.plan is not None
    document = outcome.plan.document()
    six = "6" if "6:" in hosts else ""
    assert [node["ports"][0]["address" + six] for node in document["nodes"]] == own
    # Nothing is routed, so no leaf advertises anything.
    table = leaf_table(document, 100)
    assert "rail gpu01: 2 ports" in table and "leaves" not in table and "advertises" not in table
    render(document, OPTIONS, nodes=True)


def test_counts_are_written_in_readable_form() -> None:
    one = 'count: 2, name: "gpu{n:02}", subnet: "192.168.{n}.0/31", hosts: +0'
    (found,) = findings(fabric(one))
    assert "has room for 1 node, and n-2 has index 2. Remedy: widen the range to 2 addresses, or" in found
    (found,) = findings(fabric(one.replace(", hosts: +0", "")))
    assert "gpu01 and 1 more rail have no hosts: their ports" in found and found.endswith("such as hosts: +0-+1.")
    (found,) = findings(fabric("gpu01: {subnet: 10.1.0.0/24, hosts: .1-.9}, gpu02: {subnet: 10.2.0.0/24}"))
    assert "no-host-addresses (RY314) rails.gpu02: gpu02 has no hosts: its ports" in found
    (found,) = findings(
        fabric("gpu01: {}, gpu02: {}", "mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 27, node_prefix: 27")
    )
    assert "has room for 1 node, a /27 each, and n-2 has index 2" in found


# -- what people see


def test_ranges_in_tables_and_rows() -> None:
    ranges = ", ".join("+%d" % place for place in range(10, 30, 2))
    text = fabric('count: 2, name: "gpu{n:02}", subnet: "10.{n}.0.0/24", hosts: .200-.210, pods: [%s]' % ranges)
    outcome = lint(text.encode())
    assert outcome.plan is not None
    document = outcome.plan.document()
    assert "10.1.0.10, 10.1.0.12, 10.1.0.14, 10.1.0.16, and 6 more" in " ".join(as_table(document, 100).split())
    row = dict(zip(plan_rows.PORTS, next(iter(plan_rows.ports(document)))))
    assert (row["pods_first"], row["pods_last"]) == ("10.1.0.10", "10.1.0.28")
    assert row["pods_ranges"] == ["10.1.0.%d" % place for place in range(10, 30, 2)] and row["pods_ranges6"] is None
    (pool, *_others) = [dict(zip(plan_rows.OBJECTS, row)) for row in plan_rows.objects(document) if row[0] == "pool"]
    assert pool["ranges"] == row["pods_ranges"]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (".1-.100", "[.1-.100, .150]", {"changed"}),
        ("[.1-.100, .150]", ".1-.160", {"changed"}),
        ("[.1-.49, .51-.100]", "[.1-.49, .51-.100, .120-.130]", {"changed"}),
        (".1-.100", "[.1-.49, .51-.100]", {"renumbered"}),
        ("[.1-.49, .51-.100]", "[.1-.49, .52-.100]", {"renumbered"}),
    ],
)
def test_a_difference_of_ranges_shows_whether_addresses_of_pods_are_kept(
    before: str, after: str, kinds: set[str]
) -> None:
    documents = []
    for pods in (before, after):
        text = fabric('count: 2, name: "gpu{n:02}", subnet: "10.{n}.0.0/24", hosts: .200-.210, pods: %s' % pods)
        outcome = lint(text.encode())
        assert outcome.plan is not None
        documents.append(outcome.plan.document())
    changes = [each for each in plan_diff.diff(*documents) if "capacity" not in each.attribute]
    assert {each.kind for each in changes} == kinds, changes
    assert {each.attribute for each in changes if each.what == "port"} >= {"pods.ranges"}
    assert plan_diff.diff(documents[1], documents[1]) == []


# -- what providers make of exclusions


def codes(text: str) -> list[str]:
    return [finding.code for finding in lint(text.encode()).findings]


@pytest.mark.parametrize(
    ("pods", "taken", "expected"),
    [
        (".1-.100", "", []),
        (".1-.100", ".30-.40", []),  # behind the last node's block
        (".1-.100", ".6", ["RY336"]),  # in the block of some node
        (".1-.100", ".5-.8", ["RY815"]),  # a whole block
        (".1-.100", ".1", ["RY336"]),  # in the first block
        (".2-.100", "", ["RY336"]),
        (".5-.100", "", ["RY815"]),  # the whole first block
        ("[.1-.8, .100-.120]", "", ["RY336", "RY815"][1:]),
    ],
)
def test_nv_ipam_cuts_blocks_without_regard_to_exclusions(pods: str, taken: str, expected: list[str]) -> None:
    text = fabric(
        'count: 2, name: "gpu{n:02}", subnet: "10.{n}.0.0/24", hosts: .200-.210, pods: %s%s'
        % (pods, taken and ", taken: {a: %s}" % taken),
        nodes=3,
        provider="network-operator",
        more=", pods_per_node: 4",
    )
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ("[+1-+4000000000]", ["RY811"]),
        ("[+1-+2000000, +2000001-+4000000]", ["RY811"]),  # these are one range
        ("[+1-+2000000, +2000002-+4000000]", ["RY337"]),
        ("[+1-+20, +22-+40]", []),
    ],
)
def test_spiderpool_does_not_get_ranges_that_its_webhook_cannot_list(pods: str, expected: list[str]) -> None:
    rails = 'count: 2, name: "gpu{n:02}", subnet6: "fd00:{n}::/64", hosts6: "::1:0:0:1-::1:0:0:9", pods6: %s' % pods
    assert codes(fabric(rails)) == expected


def test_too_many_ranges_are_refused_with_little_work() -> None:
    listed = ["+%d" % place for place in range(1, 2 * 300, 2)]
    rails = 'count: 2, name: "gpu{n:02}", subnet: "10.{n}.0.0/16", hosts: .200.1-.200.9, pods: [%s]'
    assert codes(fabric(rails % ", ".join(listed))) == ["RY113"]
    assert codes(fabric(rails % ", ".join(listed[:256]))) == []


@pytest.mark.parametrize(("pods_per_node", "expected"), [(1, []), (4, ["RY336"])])
def test_nv_ipam_takes_a_gateway_in_the_first_block(pods_per_node: int, expected: list[str]) -> None:
    """As the examples of the network operator have it. One pod per node leaves the other address of the first block."""
    text = fabric(
        'count: 2, name: "gpu{n:02}", subnet: "10.{n}.0.0/24", gateway: .1, hosts: .200-.210, pods: .2-.100',
        nodes=3,
        provider="network-operator",
        more=", pods_per_node: %d" % pods_per_node,
    )
    outcome = lint(text.encode())
    assert [finding.code for finding in outcome.findings] == expected and outcome.plan is not None
    first, _second = manifests(outcome.plan.document(), "IPPool")
    assert (first["spec"]["gateway"], first["spec"]["perNodeBlockSize"]) == ("10.1.0.1", max(2, pods_per_node))
    assert first["spec"]["exclusions"] == [
        {"startIP": "10.1.0.1", "endIP": "10.1.0.1"},
        {"startIP": "10.1.0.101", "endIP": "10.1.0.254"},
    ]
