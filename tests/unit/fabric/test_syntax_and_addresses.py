# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, names, ranges, YAML positions and pairs as text; and any bytes give findings, never a traceback."""

from __future__ import annotations

import ipaddress
import re
import typing as t

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, dotted
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers, name_syntax, yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs

from .wrong_files import GOOD, MACVLAN

# -- addresses


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_networks_are_those_of_ipaddress(address: int, prefix: int) -> None:
    ours = ip_integers.network(address, prefix)
    theirs = ipaddress.ip_network((address, prefix), strict=False)
    assert str(ours) == str(theirs)
    assert (ours.first, ours.last) == (int(theirs[0]), int(theirs[-1]))
    assert ip_integers.parse_network(str(theirs)) == (int(theirs[0]), prefix)


@given(st.one_of(st.text(max_size=20), st.from_regex(r"\A[0-9.]{1,16}\Z"), st.ip_addresses(v=4).map(str)))
def test_addresses_are_those_of_ipaddress(text: str) -> None:
    try:
        expected = int(ipaddress.IPv4Address(text))
    except ValueError:
        assert ip_integers.parse_address(text) is None
    else:
        assert ip_integers.parse_address(text) == expected


def test_short_forms_replace_the_last_octets() -> None:
    wide = ip_integers.network(ip_integers.parse_address("10.4.0.0") or 0, 14)
    assert ip_integers.show(ip_integers.parse_address(".9", wide) or 0) == "10.4.0.9"
    assert ip_integers.show(ip_integers.parse_address(".1.9", wide) or 0) == "10.4.1.9"
    assert ip_integers.show(ip_integers.parse_address(".7.1.9", wide) or 0) == "10.7.1.9"
    assert ip_integers.parse_address(".256", wide) is None
    assert ip_integers.parse_address(".9") is None


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 8)), max_size=8))
def test_overlaps_match_a_brute_force_search(pairs: list[tuple[int, int]]) -> None:
    networks = [ip_integers.network(first << 24, 8 - size) for first, size in pairs]
    found = list(ip_integers.overlaps((net, at) for at, net in enumerate(networks)))
    for outer, one, inner, other in found:
        assert one != other and outer.first <= inner.first and inner.last <= outer.last
    brute = {
        max(one, other, key=lambda at: (networks[at].first, networks[at].prefix, at))
        for one in range(len(networks))
        for other in range(one)
        if networks[one].first <= networks[other].last and networks[other].first <= networks[one].last
    }
    assert {other for _outer, _one, _inner, other in found} == brute


# -- names


def test_host_ranges_are_those_of_ansible() -> None:
    from ansible.plugins.inventory import expand_hostname_range

    for text in ("ai-[1:3]", "ai-[01:12]", "ai-[a:f]", "r[1:2]-n[08:10].x.org", "ai-[1:9:4]", "[A:C]x"):
        assert list(name_syntax.HostRange(text)) == expand_hostname_range(text)
        assert len(name_syntax.HostRange(text)) == len(expand_hostname_range(text))


def test_the_last_range_numbers_a_node() -> None:
    assert list(name_syntax.HostRange("r[1:2]-[08:09]").numbered()) == [
        ("r1-08", 8),
        ("r1-09", 9),
        ("r2-08", 8),
        ("r2-09", 9),
    ]
    assert [number for _text, number in name_syntax.HostRange("n[a:b]").numbered()] == [None, None]


@pytest.mark.parametrize(
    "text", ["a[", "a]", "a[1]", "a[:2]", "a[1:]", "a[2:1]", "a[b:a]", "a[1:2:0]", "a[1:2][", "a[1:a]"]
)
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(name_syntax.BadRange):
        name_syntax.HostRange(text)


def test_a_range_without_end_costs_nothing_until_it_is_expanded() -> None:
    assert len(name_syntax.HostRange("[1:999999999]-[1:999999999]")) == 999999999**2


def test_templates() -> None:
    assert name_syntax.fill("gpu{n:02}", 3) == "gpu03"
    assert name_syntax.fill("172.16.{n+10}.0/24", 3) == "172.16.13.0/24"
    assert name_syntax.fill("{n-1}:{n}", 1) == "0:1"
    for bad in ("{}", "{m}", "{n!r}", "{n.__class__}", "{n:2}", "{n", "n}", "{n*2}", "{{n}}", "{n:0}"):
        with pytest.raises(name_syntax.BadTemplate):
            name_syntax.fill(bad, 1)


def test_pci_addresses_are_as_sysfs_spells_them() -> None:
    assert name_syntax.pci("0B:00.0") == "0000:0b:00.0"
    assert name_syntax.pci("10000:e1:1f.7") == "10000:e1:1f.7"
    for bad in ("0b:00", "0000:0b:20.0", "0000:0b:00.8", "0000:0b:00.0\n", "000:0b:00.0", "0000-0b:00.0"):
        assert name_syntax.pci(bad) is None


# -- pairing


def _names(count: int) -> list[str]:
    return ["n%d" % number for number in range(count)]


@given(st.integers(0, 40), st.integers(1, 60))
def test_rounds(count: int, most: int) -> None:
    nodes = _names(count)
    rounds = probe_pairs.rounds(nodes, most)
    all_rounds = 0 if count < 2 else 2 if count == 2 else count - 1 + count % 2
    assert len(rounds) == min(most, all_rounds)
    pairs = [tuple(pair) if count == 2 else frozenset(pair) for each in rounds for pair in each]
    assert len(pairs) == len(set(pairs)), "no pair meets twice, except two nodes in both directions"
    for each in rounds:
        busy = [name for pair in each for name in pair]
        assert len(busy) == len(set(busy)) and set(busy) <= set(nodes)
        # in rounds of neighbours, the halves of an odd number of pairs have each a node that rests
        assert len(each) >= count // 2 - (count + count % 2) // 2 % 2
    if most >= all_rounds:
        assert len(set(map(frozenset, pairs))) == count * (count - 1) // 2
    if count > 1 and most >= 2:
        assert _parts(nodes, [frozenset(pair) for pair in pairs]) == 1


@pytest.mark.parametrize("count", [2, 3, 128, 999, 4096])
@pytest.mark.parametrize("most", [2, 3, 8])
def test_few_rounds_link_all_nodes(count: int, most: int) -> None:
    nodes = _names(count)
    rounds = probe_pairs.rounds(nodes, most)
    assert len(rounds) <= most
    assert _parts(nodes, [frozenset(pair) for each in rounds for pair in each]) == 1


def test_every_node_serves_and_probes() -> None:
    for count in (2, 8, 9, 32):
        rounds = probe_pairs.rounds(_names(count), 100)
        servers = [server for each in rounds for server, _client in each]
        assert all(abs(servers.count(name) - (count - 1) / 2) <= 1 for name in _names(count))


def test_nodes_probe_neighbours_and_distant_nodes() -> None:
    nodes = _names(64)
    partners: dict[str, set[int]] = {name: set() for name in nodes}
    for each in probe_pairs.rounds(nodes, 8):
        for server, client in each:
            partners[server].add(abs(nodes.index(server) - nodes.index(client)))
            partners[client].add(abs(nodes.index(server) - nodes.index(client)))
    # a leaf that fails for all its nodes differs from one that no other leaf reaches
    assert all(min(distances) < 8 and max(distances) >= 16 for distances in partners.values())


def test_invalid_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        probe_pairs.rounds(["a", "b", "a"], 2)
    with pytest.raises(ValueError, match="at least one"):
        probe_pairs.rounds(["a", "b"], 0)


def _parts(nodes: t.Sequence[str], pairs: t.Iterable[frozenset[str]]) -> int:
    leader = {name: name for name in nodes}

    def top(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for one, other in pairs:
        leader[top(one)] = top(other)
    return len({top(name) for name in nodes})


# -- source


def _parse(text: str) -> yaml_source.Document:
    report = Report()
    document = yaml_source.parse(text.encode("utf-8"), report)
    assert document is not None and not report.failed
    return document


def test_positions_are_those_of_the_keys() -> None:
    document = _parse(MACVLAN)
    lines = MACVLAN.splitlines()
    for path in (("rails", "gpu03", "mtu"), ("profiles", "hgx", "ports", "gpu02", "gpu"), ("nodes", "jupiter")):
        line, column = document.position(path)
        assert lines[line - 1][column - 1 :].startswith(path[-1]), dotted(path)
    assert document.position(("rails", "gpu03", "none", "at", "all")) == document.position(("rails", "gpu03"))
    assert document.position(("none",)) == (1, 1)


def test_anchors_and_merges_are_read_as_yaml_reads_them() -> None:
    text = "plugin: x\nbase: &b {k: 1, l: [a, b]}\none: *b\ntwo: {<<: *b, k: 2}\nthree: {<<: [{k: 3}, *b]}\n"
    assert yaml_source.plain(_parse(text).root) == yaml.safe_load(text)


def test_aliases_cannot_fill_the_memory() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join("a%d: &a%d [%s]\n" % (n, n, ", ".join(["*a%d" % (n - 1)] * 10)) for n in range(1, 30))
    (finding,) = lint(text.encode("utf-8")).findings
    assert finding.code == "RY103"


# Every key of the file, and some of the names in it.
KEYS = sorted(set(re.findall(r"([a-z_]+|ai-\[1:2\]|gpu01):", "".join(GOOD.values()))))
yaml_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.sampled_from(["gpu01", "172.16.11.0/24", ".1-.9", "[1:2]", "{n}", "hgx", "sriov", "macvlan", "ai-[1:2]"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=6),
                st.sampled_from(KEYS),
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=30,
)


@given(yaml_values)
def test_any_data_gives_findings_and_no_traceback(data: object) -> None:
    _reported(yaml.safe_dump(data, allow_unicode=True).encode("utf-8"))


@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(["drop", "double", "swap", "value"]), yaml_values), max_size=4
    ),
)
def test_no_change_of_a_good_file_ends_in_a_traceback(name: str, changes: list[tuple[int, str, object]]) -> None:
    lines = GOOD[name].splitlines()
    for at, how, value in changes:
        at %= len(lines)
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[-1] = lines[-1], lines[at]
        else:
            key = lines[at].partition(":")[0]
            lines[at] = "%s: %s" % (key, yaml.safe_dump(value, default_flow_style=True, width=9999).splitlines()[0])
    _reported("\n".join(lines).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"\xef\xbb\xbf")
@example(b"a: &a [*a]")
@example(b"? ? ? a")
@example(b"!!binary x: y")
@example(b"%YAML 9.9\n---\na: b")
@example(b"&a")
@example(b"- - - -\n -")
def test_any_bytes_give_findings_and_no_traceback(raw: bytes) -> None:
    _reported(raw)


def _reported(raw: bytes) -> None:
    outcome = lint(raw)
    assert outcome.plan is not None or outcome.errors
    if outcome.plan:
        assert outcome.plan.fabric.rails and outcome.plan.nodes, "what is missing was not reported"
        again = lint(write(outcome.plan.fabric).encode("utf-8"))
        assert again.plan is not None and again.plan.document() == outcome.plan.document()
    for finding in outcome.findings:
        assert finding.line >= 1 and finding.remedy and "\n" not in finding.text("fabric.yml")
        assert finding.text().isprintable()
