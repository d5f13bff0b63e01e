# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several rails in one network: from the fabric file to every address of ports, pods, pools and slots."""

from __future__ import annotations

import ipaddress
import itertools
import json
import typing as t
from dataclasses import dataclass

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text
from tests.unit.fabric.range_files import listed

Document = t.Dict[str, t.Any]
OPTIONS = {"registry": "registry.example"}
PROVIDERS = ("none", "spiderpool", "network-operator", "cni", "agent")
SIZE = 256


@dataclass
class Drawn:
    """A fabric file whose rails have one network, and its values.

    ``hosts``, ``pods``: places in the network, in the order of the file. ``nodes``: the section of the file.
    """

    file: Document
    rails: int
    six: bool
    mode: str
    numbering: str | None
    hosts: list[int]
    pods: list[int]
    taken: set[int]
    gateway: int | None

    @property
    def suffix(self) -> str:
        return "6" if self.six else ""

    def plan(self, nodes: t.Sequence[int] | None = None) -> t.Any:
        """The plan, of the nodes with these indexes only."""
        file = dict(self.file)
        if nodes is not None:
            file["nodes"] = {"n-%d" % index: {"profile": "hgx"} for index in nodes}
        outcome = lint(yaml_text.dump(file, sort_keys=False).encode())
        assume(outcome.plan is not None)
        return outcome.plan

    def address(self, place: int) -> str:
        return str(ipaddress.ip_address("fd00:11::" if self.six else "10.248.0.0") + place)

    def part(self, places: list[int], number: int) -> list[int]:
        """One of the equal parts, of the rail with this number."""
        size = len(places) // self.rails
        return places[(number - 1) * size : number * size]

    def port(self, number: int, index: int) -> str:
        """The address of a node's port on the rail with this number."""
        free = [place for place in self.hosts if place not in self.taken]
        if self.numbering == "node":
            place = free[(index - 1) * self.rails + number - 1]
        else:
            place = [place for place in self.part(self.hosts, number) if place not in self.taken][index - 1]
        return "%s/%d" % (self.address(place), 120 if self.six else 24)


@st.composite
def files(draw: st.DrawFn, provider: str | None = None) -> Drawn:
    """A network of 256 addresses, with hosts and pods beside each other and taken addresses anywhere."""
    provider = provider or draw(st.sampled_from(PROVIDERS))
    six, rails, nodes = draw(st.booleans()), draw(st.integers(2, 4)), draw(st.integers(1, 3))
    modes = {"cni": ("block",), "network-operator": ("subnet",), "none": ("subnet",)}
    mode = draw(st.sampled_from(modes.get(provider, ("subnet", "block"))))
    numbering = draw(st.sampled_from(("node", "rail", None)))
    end, prefix = ("6", "fd00:11::/120") if six else ("", "10.248.0.0/24")
    pod_first, host_first = (1, 201) if provider == "network-operator" else draw(st.sampled_from(((1, 201), (61, 1))))
    hosts = list(range(host_first, host_first + draw(st.integers(3 * rails, 50))))
    pods = list(range(pod_first, pod_first + draw(st.integers(rails * 24, 140)))) if provider != "none" else []
    # The end of the network, in any case outside of what is assigned; and some addresses anywhere.
    spare = draw(st.lists(st.tuples(st.integers(10, 230), st.integers(0, 3)), max_size=2))
    taken = {place for low, more in spare for place in range(low, low + more + 1)}
    network: Document = {"subnet" + end: prefix, "mode": mode}
    gateway = draw(st.sampled_from((254, None)))
    if gateway:
        network["gateway" + end] = "+%d" % gateway
        taken |= set(draw(st.sampled_from(((), (254,), (252, 253, 254, 255)))))
    if taken:
        network["taken"] = {"others": ["+%d" % place for place in sorted(taken)]}
    if mode == "block":
        network["block" + end] = draw(st.integers(2, 4))
    drawn = Drawn({}, rails, six, mode, numbering, hosts, pods, taken, gateway)
    names = ["gpu%02d" % number for number in range(1, rails + 1)]
    texts = {"hosts": hosts, "pods": pods}
    if numbering:
        network["numbering"] = numbering
        network.update((key + end, "+%d-+%d" % (each[0], each[-1])) for key, each in texts.items() if each)
        sections: Document = {"gpu[01:%02d]" % rails: network}
    else:
        sections = {
            name: dict(
                network,
                **{
                    key + end: "+%d-+%d" % (part[0], part[-1])
                    for key, each in texts.items()
                    for part in [drawn.part(each, number)]
                    if part
                },
            )
            for number, name in enumerate(names, 1)
        }
    fabric: Document = {"name": "ai", "provider": provider, "mtu": 4200}
    if provider != "none":
        fabric["attachment"] = "macvlan"
        fabric["pods_per_node"] = draw(st.integers(1, 2))
    if draw(st.booleans()):
        fabric["routing"] = {"cross_rail": False}
    drawn.file = {
        "plugin": "railyard.fabric.rails",
        "fabric": fabric,
        "rails": sections,
        "profiles": {"hgx": {"ports": {name: {"netdev": name, "rdma": "mlx5_" + name} for name in names}}},
        "nodes": {"n-[1:%d]" % nodes: {"profile": "hgx"}},
    }
    return drawn


def objects(document: Document) -> list[Document]:
    texts = [text for name, text in render(document, OPTIONS).items() if name.endswith((".yaml", ".yml"))]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def pools_of(document: Document) -> list[Document]:
    """The objects with pools of addresses."""
    return [each for each in objects(document) if each.get("kind") in ("SpiderIPPool", "IPPool", "CIDRPool")]


def of_pods(drawn: Drawn, document: Document) -> list[str]:
    """Every address that a pod may get, once per pool that gives it."""
    provider = document["fabric"]["provider"]
    found: list[str] = []
    if provider == "spiderpool":
        return [address for pool in pools_of(document) for ips in pool["spec"]["ips"] for address in listed(ips)]
    if provider == "network-operator":
        for pool in pools_of(document):
            net = ipaddress.ip_network(pool["spec"]["subnet"])
            gone = {each for row in pool["spec"]["exclusions"] for each in listed("%(startIP)s-%(endIP)s" % row)}
            # nv-ipam itself leaves out the network address and the broadcast address
            found += [str(each) for each in list(net)[1 : None if drawn.six else -1] if str(each) not in gone]
    elif provider == "cni":
        for name, text in render(document, OPTIONS, nodes=True).items():
            if name.endswith(".conflist"):
                ipam = json.loads(text)["plugins"][0]["ipam"]
                found += [each["address"].partition("/")[0] for each in ipam.get("addresses", ())]
                for ranges in ipam.get("ranges", ()):
                    found += [each for row in ranges for each in listed("%(rangeStart)s-%(rangeEnd)s" % row)]
    elif provider == "agent":
        slots = [slot for node in document["nodes"] for rail in node["agent"]["rails"] for slot in rail["slots"]]
        found = [slot["address" + drawn.suffix].partition("/")[0] for slot in slots]
    return found


def of_ports(document: Document, suffix: str) -> list[str]:
    return [port["address" + suffix].partition("/")[0] for node in document["nodes"] for port in node["ports"]]


@given(files())
@settings(max_examples=max(120, settings.default.max_examples))
def test_no_address_is_assigned_twice(drawn: Drawn) -> None:
    document = drawn.plan().document()
    pods, ports = of_pods(drawn, document), of_ports(document, drawn.suffix)
    edges = [drawn.address(0)] + ([] if drawn.six else [drawn.address(SIZE - 1)])
    fixed = edges + [drawn.address(place) for place in drawn.taken | ({drawn.gateway} if drawn.gateway else set())]
    owned = pods + ports + sorted(set(fixed))
    assert len(owned) == len(set(owned))
    assert pods or document["fabric"]["provider"] == "none"
    assert len(ports) == len(document["nodes"]) * drawn.rails
    assert set(pods) <= {drawn.address(place) for place in drawn.pods}
    for rail in document["rails"]:
        capacity = rail["capacity" + drawn.suffix]
        assert capacity["taken"]["idle"] >= 0
        assert sum(capacity["taken"].values()) + capacity["pods"] == capacity["addresses"] == SIZE


@given(files())
@settings(max_examples=max(60, settings.default.max_examples))
def test_ports_have_the_addresses_of_their_numbers_and_rules_by_source(drawn: Drawn) -> None:
    document = drawn.plan().document()
    for node in document["nodes"]:
        for number, port in enumerate(node["ports"], 1):
            assert port["address" + drawn.suffix] == drawn.port(number, node["index"])
            assert (port["table"], port["rule_priority"]) == (100 + number, 10000 + number)
            assert port["sysctl"].get("arp_filter") == (None if drawn.six else 1)
            routed = document["fabric"]["routing"]["cross_rail"] and drawn.gateway
            assert port["gateway" + drawn.suffix] == (drawn.address(drawn.gateway or 0) if routed else None)
            assert port["routes"] == []


@given(files(), st.sets(st.integers(1, 3), min_size=1))
@settings(max_examples=max(40, settings.default.max_examples))
def test_nodes_that_come_and_go_change_no_other_node(drawn: Drawn, some: set[int]) -> None:
    every = {node["name"]: node for node in drawn.plan((1, 2, 3)).document()["nodes"]}
    for node in drawn.plan(sorted(some)).document()["nodes"]:
        assert node == every[node["name"]]


@given(files())
@settings(max_examples=max(40, settings.default.max_examples))
def test_a_written_file_gives_the_same_plan(drawn: Drawn) -> None:
    plan = drawn.plan()
    text = write(plan.fabric)
    again = lint(text.encode())
    assert again.plan is not None and again.plan.document() == plan.document()
    assert write(again.plan.fabric) == text
    assert ("gpu[01:%02d]:" % drawn.rails in text) == (drawn.numbering is not None), "one entry for all of them"


# -- networks of nodes that are divided into those of rails


@st.composite
def node_first(draw: st.DrawFn) -> tuple[Document, int, int, int]:
    """A fabric file, and its prefix lengths: of the supernet, of a node's aggregate and of a rail's network."""
    six = draw(st.booleans())
    bits, end = (128, "6") if six else (32, "")
    rails = draw(st.integers(1, 8))
    mode = draw(st.sampled_from(("prefix", "link")))
    host_bits = 1 if mode == "link" else draw(st.integers(3, 5))
    aggregate = bits - host_bits - (rails - 1).bit_length() - draw(st.integers(0, 1))
    length = aggregate - draw(st.integers(3, 6))
    net = ipaddress.ip_network(("fd00:11::" if six else "172.16.0.0", length))
    addresses: Document = {"mode": mode, "supernet" + end: str(net), "node_aggregate" + end: aggregate}
    if mode == "prefix":
        addresses["node_prefix" + end] = bits - host_bits
    names = ["gpu%02d" % number for number in range(1, rails + 1)]
    file: Document = {
        "plugin": "railyard.fabric.rails",
        "fabric": {"name": "ai", "provider": "none", "mtu": 4200},
        "addresses": addresses,
        "rails": {"gpu[01:%02d]" % rails: {}},
        "profiles": {"hgx": {"ports": {name: {"netdev": name} for name in names}}},
    }
    if draw(st.booleans()):
        file["units"] = {"su[1:2]": {"nodes": 3}}
        file["nodes"] = {"n-su[1:2]-[1:3]": {"profile": "hgx", "unit": "su[1:2]"}}
    else:
        file["nodes"] = {"n-[1:5]": {"profile": "hgx"}}
    return file, length, aggregate, bits - host_bits


@given(node_first())
@settings(max_examples=max(60, settings.default.max_examples))
def test_each_node_has_one_aggregate_and_each_rail_its_part(drawn: tuple[Document, int, int, int]) -> None:
    file, _length, aggregate, prefix = drawn
    outcome = lint(yaml_text.dump(file, sort_keys=False).encode())
    assume(outcome.plan is not None)
    assert outcome.plan
    document = outcome.plan.document()
    end = "6" if "supernet6" in file["addresses"] else ""
    supernet = ipaddress.ip_network(file["addresses"]["supernet" + end])
    aggregates = list(supernet.subnets(new_prefix=aggregate))
    assert all(rail["subnet" + end] == str(supernet) for rail in document["rails"])
    seen = set()
    for node in document["nodes"]:
        # Places of a unit are rounded up to a power of two.
        at = (node["unit_number"] - 1) * 4 + node["place"] - 1 if node["unit"] else node["index"] - 1
        parts = list(aggregates[at].subnets(new_prefix=prefix))
        for number, port in enumerate(node["ports"]):
            interface = ipaddress.ip_interface(port["address" + end])
            assert interface.network == parts[number]
            seen.add(interface.ip)
            assert "arp_filter" not in port["sysctl"]
    assert len(seen) == len(document["nodes"]) * len(document["rails"])
    for rail in document["rails"]:
        capacity = rail["capacity" + end]
        assert sum(capacity["taken"].values()) + capacity["pods"] == capacity["addresses"] == supernet.num_addresses
        assert capacity["taken"]["idle"] >= 0
    text = write(outcome.plan.fabric)
    again = lint(text.encode())
    assert again.plan and again.plan.document() == document


def test_without_a_gateway_between_rails_the_other_nodes_are_reached_through_the_rails_gateway() -> None:
    file = fabric(
        "gpu[01:02]: {}",
        "mode: prefix, supernet: 172.16.0.0/16, node_aggregate: 24, node_prefix: 27",
        routing="{cross_rail: false}",
    )
    ports = planned(file)["nodes"][0]["ports"]
    assert [port["routes"] for port in ports] == [
        [{"to": "172.16.0.0/16", "via": "172.16.0.1", "table": 101}],
        [{"to": "172.16.0.0/16", "via": "172.16.0.33", "table": 102}],
    ]


@pytest.mark.parametrize(
    ("leaf", "aggregates"),
    [("tor{u}", ["172.16.0.0/22"] * 2), ("leaf{u}-{n}", [None, None])],
    ids=["one switch has all rails of its nodes", "a switch per rail has a part of each aggregate"],
)
def test_a_leaf_advertises_an_aggregate_only_if_it_has_all_of_it(leaf: str, aggregates: list[str | None]) -> None:
    file = fabric(
        "gpu[01:02]: {}",
        "mode: prefix, supernet: 172.16.0.0/16, node_aggregate: 24, node_prefix: 27",
        nodes="n-su[1:2]-[1:2]: {profile: hgx, unit: 'su[1:2]'}",
        more="units: {'su[1:2]': {nodes: 4, leaf: '%s'}}\n" % leaf,
    )
    document = planned(file)
    assert [port["leaf"]["aggregate"] for port in document["nodes"][0]["ports"]] == aggregates
    assert [leaf["aggregate"] for leaf in document["units"][0]["leaves"]] == aggregates


# -- the file


def fabric(
    rails: str, addresses: str = "", provider: str = "none", routing: str = "", nodes: str = "n-[1:2]: {profile: hgx}",
    more: str = "",
) -> str:  # fmt: skip
    attachment = "" if provider == "none" else ", attachment: macvlan"
    return (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: ai, mtu: 4200, provider: %s%s%s}\n%s%s"
        "rails:\n%s"
        "profiles: {hgx: {ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}}\n"
        "nodes:\n  %s\n"
    ) % (
        provider,
        attachment,
        routing and ", routing: %s" % routing,
        addresses and "addresses: {%s}\n" % addresses,
        more,
        "".join("  %s\n" % rail for rail in rails.splitlines()),
        nodes,
    )


def planned(text: str) -> Document:
    outcome = lint(text.encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    document: Document = outcome.plan.document()
    return document


def found(text: str, *codes: str) -> list[str]:
    return [finding.text() for finding in lint(text.encode()).findings if not codes or finding.code in codes]


def test_the_public_report_of_all_nics_in_one_subnet_is_planned() -> None:
    document = planned(
        fabric(
            "gpu01: {subnet: 10.248.0.0/16, hosts: 10.248.0.1-10.248.0.20}\n"
            "gpu02: {subnet: 10.248.0.0/16, hosts: 10.248.0.21-10.248.0.40}"
        )
    )
    assert of_ports(document, "") == ["10.248.0.1", "10.248.0.21", "10.248.0.2", "10.248.0.22"]
    assert all(port["sysctl"]["arp_filter"] == 1 for node in document["nodes"] for port in node["ports"])


_ONE = "subnet: 172.16.11.0/24, gateway: .254, "


@pytest.mark.parametrize(
    ("rails", "words"),
    [
        (
            "gpu[01:02]: {%shosts: .1-.100}" % _ONE,
            "hosts of gpu01 and hosts of gpu02 both have 172.16.11.1-172.16.11.100, and both rails have the subnet",
        ),
        (
            "gpu01: {%shosts: .1-.10, pods: .20-.50}\ngpu02: {%shosts: .50-.60, pods: .70-.90}" % (_ONE, _ONE),
            "pods of gpu01 and hosts of gpu02 both have 172.16.11.50, and",
        ),
        (
            "gpu01: {%shosts: .1-.10}\ngpu02: {%shosts: .11-.20, taken: {switches: .9-.10}}" % (_ONE, _ONE),
            "hosts of gpu01 and taken.switches of gpu02 both have 172.16.11.9-172.16.11.10, and",
        ),
        (
            "gpu01: {subnet: 172.16.11.0/24, gateway: .30, hosts: .1-.10}\n"
            "gpu02: {subnet: 172.16.11.0/24, hosts: .21-.30}",
            "gateway of gpu01 and hosts of gpu02 both have 172.16.11.30, and",
        ),
    ],
    ids=["hosts", "pods and hosts", "taken", "gateway"],
)
def test_lint_reports_addresses_of_two_rails_with_a_remedy(rails: str, words: str) -> None:
    (text,) = found(fabric(rails), "RY311")
    assert words in text and "numbering: node" in text and "its own ranges" in text


@pytest.mark.parametrize(
    ("rails", "addresses", "expected"),
    [
        (
            "gpu01: {subnet: 172.16.0.0/16, hosts: .0.1-.0.9}\ngpu02: {subnet: 172.16.1.0/24, hosts: .1-.9}",
            "",
            ["RY311 rails.gpu02.subnet", "exactly the same one"],
        ),
        (
            "gpu01: {%shosts: .1-.20, numbering: node}\ngpu02: {%shosts: .1-.20, numbering: rail}" % (_ONE, _ONE),
            "",
            ["RY338 rails.gpu02.numbering", "gpu01 and gpu02 divide 172.16.11.0/24, but differ in numbering"],
        ),
        (
            "gpu01: {%shosts: .1-.20, numbering: node}\ngpu02: {%shosts: .1-.20}" % (_ONE, _ONE),
            "",
            ["RY338 rails.gpu02.numbering", "write the same numbering at all rails"],
        ),
        (
            "gpu01: {%shosts: .1-.20, numbering: node}\ngpu02: {subnet: 172.16.12.0/24, hosts: .1-.20}" % _ONE,
            "",
            ["RY321 rails.gpu01.numbering", "no other rail has 172.16.11.0/24"],
        ),
        (
            "gpu[01:02]: {}",
            "mode: prefix, supernet: 172.16.0.0/16, rail_prefix: 20, node_aggregate: 24, node_prefix: 27",
            ["RY321 addresses.rail_prefix", "no effect with node_aggregate"],
        ),
        (
            "gpu[01:02]: {}",
            "mode: prefix, supernet: 172.16.0.0/16, node_aggregate: 27, node_prefix: 27",
            ["RY304 addresses.node_aggregate", "a /27 per node has room for 1 rail", "write 26 or less"],
        ),
        (
            "gpu[01:02]: {}",
            "mode: prefix, supernet: 172.16.0.0/24, node_aggregate: 20, node_prefix: 27",
            ["RY304 addresses.node_aggregate", "does not fit into 172.16.0.0/24"],
        ),
        (
            "gpu[01:02]: {%shosts: .1-.20, node_aggregate: 28, numbering: node}" % _ONE,
            "",
            ["RY321 rails.gpu[01:02].node_aggregate", "node_aggregate has no effect in the mode subnet"],
        ),
        ("gpu[01:02]: {%shosts: .1, numbering: rail}" % _ONE, "", ["RY313", "hosts (172.16.11.1) has 1 address for 2"]),
        (
            "gpu[01:02]: {%shosts: .1-.3, numbering: node}" % _ONE,
            "",
            ["RY313", "has room for 1 node on 2 rails, and n-2 has index 2", "to 4 addresses"],
        ),
        (
            "gpu[2:1]: {}\ngpu02: {subnet: 172.16.11.0/24, hosts: .1-.9}",
            "",
            ["RY206 rails.gpu[2:1]", "2 comes after 1"],
        ),
        (
            "gpu[01:02]: {%shosts: .1-.20, numbering: node}\ngpu02: {subnet: 172.16.12.0/24, hosts: .1-.9}" % _ONE,
            "",
            ["RY202 rails.gpu02", "gpu02 is also in gpu[01:02]"],
        ),
        ("gpu[01:65]: {subnet: '10.{n}.0.0/16', hosts: .0.1-.0.9}", "", ["65 rails; the maximum is 64"]),
    ],
)
def test_a_wrong_network_of_several_rails_is_one_finding(rails: str, addresses: str, expected: list[str]) -> None:
    texts = [text for text in found(fabric(rails, addresses)) if "RY403" not in text and "RY435" not in text]
    shown = "\n".join(text.replace("(", "").replace(") ", " ") for text in texts)
    code, *words = expected
    assert code in shown, texts
    plain = "\n".join(texts)
    assert all(word in plain for word in words), texts
    assert len([text for text in texts if "RY402" not in text]) == 1, texts


def test_fields_of_a_range_of_rails_are_numbers_within_the_range() -> None:
    file = fabric(
        "gpu[01:02]: {subnet: '172.16.{n+10}.0/24', gateway: .254, hosts: .1-.9}\n"
        "stor[1:2]: {subnet: '10.24{n}.0.0/16', hosts: .0.1-.3.254, mtu: 9000}",
    )
    rails = planned(file)["rails"]
    assert [(rail["name"], rail["number"], rail["subnet"]) for rail in rails] == [
        ("gpu01", 1, "172.16.11.0/24"),
        ("gpu02", 2, "172.16.12.0/24"),
        ("stor1", 3, "10.241.0.0/16"),
        ("stor2", 4, "10.242.0.0/16"),
    ]
    assert [rail["mtu"] for rail in rails] == [4200, 4200, 9000, 9000]


def test_planes_of_rails_in_one_network_each_have_their_part() -> None:
    file = fabric(
        "gpu[01:02]: {planes: 2, subnet: 10.248.0.0/16, hosts: .0.1-.0.200, numbering: node}",
    ).replace("gpu01: {netdev: nic1}, gpu02: {netdev: nic2}", PLANES)
    document = planned(file)
    assert of_ports(document, "") == ["10.248.0.%d" % last for last in range(1, 9)]
    assert planned(write(lint(file.encode()).plan.fabric)) == document  # type: ignore[union-attr]


PLANES = ", ".join("gpu%02dp%d: {netdev: nic%d%d}" % (n, p, n, p) for n, p in itertools.product((1, 2), repeat=2))


def test_one_family_may_be_common_and_the_other_not() -> None:
    file = fabric(
        "gpu[01:02]: {subnet: 10.248.0.0/16, hosts: .0.1-.0.200, subnet6: 'fd00:{n}::/64', hosts6: '::1-::ff',"
        " numbering: node}"
    )
    ports = planned(file)["nodes"][1]["ports"]
    assert [(port["address"], port["address6"]) for port in ports] == [
        ("10.248.0.3/16", "fd00:1::2/64"),
        ("10.248.0.4/16", "fd00:2::2/64"),
    ]


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator"])
def test_pods_without_rules_by_source_are_reported(provider: str) -> None:
    """Both make rules by source only beside a default route."""
    rail = "gpu[01:02]: {subnet: 10.248.0.0/16, %spods: .0.1-.99.254, hosts: .200.0-.200.99, numbering: node}"
    more = ", pods_per_node: 2"
    with_gateway = fabric(rail % "gateway: last, ", provider=provider).replace("mtu: 4200", "mtu: 4200" + more)
    without = fabric(rail % "", provider=provider).replace("mtu: 4200", "mtu: 4200" + more)
    assert not found(with_gateway, "RY340")
    (text,) = found(without, "RY340")
    assert "provider: agent or cni" in text and "gateway" in text
    (text,) = found(with_gateway.replace("mtu: 4200", "mtu: 4200, routing: {cross_rail: false}"), "RY340")
    assert "fabric.routing.cross_rail" in text


def test_nv_ipam_has_one_pool_for_all_rails_of_a_network() -> None:
    """Its blocks begin with the network, so each rail cannot have a pool of its own."""
    rail = "gpu[01:02]: {subnet: 10.248.0.0/16, gateway: last, pods: .0.1-.99.254, hosts: .200.0-.200.99%s}"
    file = fabric(rail % ", numbering: node", provider="network-operator")
    document = planned(file.replace("mtu: 4200", "mtu: 4200, pods_per_node: 8"))
    (pool,) = pools_of(document)
    assert (pool["metadata"]["name"], pool["spec"]["perNodeBlockSize"]) == ("ai-gpu01", 16)
    assert [rail["pool"] for rail in document["rails"]] == ["ai-gpu01", "ai-gpu01"]
    networks = [each for each in objects(document) if each.get("kind") == "MacvlanNetwork"]
    assert [json.loads(each["spec"]["ipam"])["poolName"] for each in networks] == ["ai-gpu01", "ai-gpu01"]
    own = fabric(
        "gpu01: {subnet: 10.248.0.0/16, gateway: last, pods: .0.1-.9.254, hosts: .200.0-.200.99}\n"
        "gpu02: {subnet: 10.248.0.0/16, gateway: last, pods: .10.1-.19.254, hosts: .201.0-.201.99}",
        provider="network-operator",
    ).replace("mtu: 4200", "mtu: 4200, pods_per_node: 8")
    (text,) = found(own, "RY815")
    assert "pods of gpu02 begin at 10.248.10.1" in text and "numbering: node" in text


def test_spiderpool_reserves_the_taken_addresses_of_one_network_once() -> None:
    rail = "gpu[01:02]: {subnet: 10.248.0.0/16, gateway: last, pods: .0.1-.9.254, hosts: .200.0-.200.99,"
    file = fabric(rail + " taken: {switches: .9.0-.9.9}, numbering: rail}", provider="spiderpool")
    made = [each for each in objects(planned(file)) if each.get("kind") == "SpiderReservedIP"]
    assert [(each["metadata"]["name"], each["spec"]["ips"]) for each in made] == [
        ("ai-gpu01-taken", ["10.248.9.0-10.248.9.9"])
    ]


@pytest.mark.parametrize(
    "rail",
    [
        "{%shosts: .201-.253, taken: {switches: .250-.255}}" % _ONE,
        "{%shosts: .201-.253, taken: {switches: [.0-.9, .254]}}" % _ONE,
        "{%spods: .0-.200, hosts: .201-.255, taken: {switches: [.0-.9, .250-.255]}}" % _ONE,
        "{subnet: 172.16.11.0/24, gateway: .100, pods: .1-.200, hosts: .201-.253, taken: {leaf: .99-.101}}",
        "{subnet6: 'fd00::/120', gateway6: '+1', pods6: +0-+99, hosts6: +100-+110, taken: {leaf: +0-+9}}",
    ],
    ids=["gateway and broadcast", "network", "in the ranges", "in the middle of pods", "IPv6"],
)
def test_taken_addresses_may_include_the_gateway_and_the_edges(rail: str) -> None:
    file = fabric("gpu01: %s" % rail, provider="spiderpool").replace(", gpu02: {netdev: nic2}", "")
    assert not found(file, "RY306", "RY307", "RY309")
    document = planned(file)
    for suffix in ("", "6"):
        capacity = document["rails"][0]["capacity" + suffix]
        assert capacity is None or sum(capacity["taken"].values()) + capacity["pods"] == 256


@pytest.mark.parametrize("gateway", ["gateway: last, ", ""], ids=["with rules by source", "without"])
@pytest.mark.parametrize("provider", ["spiderpool", "network-operator", "cni"])
def test_interfaces_of_pods_answer_arp_requests_for_their_own_addresses(provider: str, gateway: str) -> None:
    """Without rules by source, arp_filter would leave all but the first interface without answers."""
    rail = "gpu[01:02]: {subnet: 10.248.0.0/16, %spods: .0.1-.99.254, hosts: .200.0-.200.99, numbering: node%s}"
    block = ", mode: block, block: 8" if provider == "cni" else ""
    file = fabric(rail % (gateway, block), provider=provider).replace("mtu: 4200", "mtu: 4200, pods_per_node: 2")
    document = planned(file)
    plugins: list[Document] = []
    for made in objects(document):
        spec = made.get("spec") or {}
        texts = [*spec.get("chainCNIJsonData", ()), *("[%s]" % spec[key] for key in ("metaPlugins",) if key in spec)]
        for text in texts:
            read = json.loads(text)
            plugins += read if isinstance(read, list) else [read]
    for name, text in render(document, OPTIONS, nodes=True).items():
        if name.endswith(".conflist"):
            plugins += json.loads(text)["plugins"]
    found_ = [each["sysctl"] for each in plugins if "sysctl" in each]
    assert len(found_) >= (4 if provider == "cni" else 2), "of each rail, and with plain CNI of each node"
    prefix = "" if provider == "cni" else "net.ipv4.conf.IFNAME."
    for sysctl in found_:
        assert str(sysctl[prefix + "arp_ignore"]) == "1"
        assert (prefix + "arp_filter" in sysctl) == (provider == "cni" or bool(gateway))


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator", "cni", "agent"])
def test_pods_of_node_first_prefixes_have_no_address_twice(provider: str) -> None:
    file = fabric(
        "gpu[01:02]: {}",
        "mode: prefix, supernet: 172.16.0.0/20, node_aggregate: 26, node_prefix: 27",
        provider=provider,
        nodes="n-[1:3]: {profile: hgx}",
    ).replace("mtu: 4200", "mtu: 4200, pods_per_node: 4")
    document = planned(file)
    drawn = Drawn({}, 2, False, "prefix", None, [], [], set(), None)
    if provider == "network-operator":
        pods: list[str] = []
        for pool in pools_of(document):
            spec = pool["spec"]
            for row in spec["staticAllocations"]:
                every = [str(each) for each in ipaddress.ip_network(row["prefix"])][1:-1]
                first = ipaddress.ip_network(row["prefix"])[0]
                gone = {row["gateway"]}
                for each in spec["perNodeExclusions"]:
                    gone |= {str(first + at) for at in range(each["startIndex"], each["endIndex"] + 1)}
                pods += [each for each in every if each not in gone]
    else:
        pods = of_pods(drawn, document)
    ports = of_ports(document, "")
    gateways = [port["gateway"] for node in document["nodes"] for port in node["ports"]]
    owned = pods + ports + gateways
    assert len(owned) == len(set(owned)) and len(set(gateways)) == 6
    assert len(pods) == (6 * 4 if provider == "agent" else 6 * 28)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            fabric("gpu[01:02]: {%shosts: .1-.100, numbering: node}" % _ONE).replace("mtu:", "max_nodes: 60, mtu:"),
            "RY325",
            "has room for 50 nodes on 2 rails, and max_nodes is 60. Remedy: widen the range to 120 addresses",
        ),
        (
            fabric("gpu[01:02]: {%shosts: .1-.101, numbering: rail}" % _ONE).replace("mtu:", "max_nodes: 60, mtu:"),
            "RY325",
            "has room for 50 nodes on 2 rails, and max_nodes is 60. Remedy: widen the range to 120 addresses",
        ),
        (
            fabric(
                "gpu[01:02]: {%shosts: .201-.250, mode: block, block: 16, pods: .1-.199, numbering: node}" % _ONE,
                provider="spiderpool",
            ).replace("mtu:", "max_nodes: 9, mtu:"),
            "RY325",
            "6 blocks of 16 on 2 rails, and max_nodes is 9. Remedy: use a /22 as the subnet of these rails",
        ),
        (
            fabric(
                "gpu[01:02]: {}", "mode: prefix, supernet: 172.16.0.0/23, node_aggregate: 24, node_prefix: 27"
            ).replace("mtu:", "max_nodes: 3, mtu:"),
            "RY325",
            "172.16.0.0/23 has room for 2 nodes, a /24 each, and max_nodes is 3. Remedy: use a /22 or larger",
        ),
        (
            fabric("gpu[01:02]: {%shosts: .201-.250, pods: .1-.30, numbering: node}" % _ONE, provider="agent").replace(
                "mtu:", "slots: {all_rails: 4, per_rail: 4}, mtu:"
            ),
            "RY324",
            "2 nodes with 8 pods each need 16 addresses, and 172.16.11.1-172.16.11.15 has 15",
        ),
    ],
    ids=["by node", "by rail", "blocks", "node first", "slots"],
)
def test_too_few_addresses_are_counted_for_all_rails(text: str, code: str, words: str) -> None:
    (shown,) = found(text, code)
    assert words in shown


@pytest.mark.parametrize(
    "rails",
    [
        '  {count: 2, name: "gpu{n:02}", subnet: 10.248.0.0/16, hosts: .0.1-.0.99, numbering: node}\n',
        "  gpu01: {subnet: 10.248.0.0/16, hosts: .0.1-.0.99, numbering: node}\n"
        "  gpu02: {subnet: 10.248.0.0/16, hosts: .0.1-.0.99, numbering: node}\n",
    ],
    ids=["generator", "an entry each"],
)
def test_every_form_of_the_section_can_have_one_network(rails: str) -> None:
    text = fabric("").replace("rails:\n", "rails:\n" + rails)
    common = fabric("gpu[01:02]: {}", "subnet: 10.248.0.0/16, hosts: .0.1-.0.99, numbering: node")
    assert (
        of_ports(planned(text), "") == of_ports(planned(common), "") == ["10.248.0.%d" % last for last in (1, 2, 3, 4)]
    )


@pytest.mark.parametrize("numbering", ["nodes", "[node]", "2"])
def test_an_invalid_numbering_is_one_finding(numbering: str) -> None:
    findings = lint(fabric("gpu[01:02]: {%shosts: .1-.100, numbering: %s}" % (_ONE, numbering)).encode()).findings
    (text,) = [finding.text() for finding in findings if finding.severity == "error"]
    assert "rails.gpu[01:02].numbering" in text
