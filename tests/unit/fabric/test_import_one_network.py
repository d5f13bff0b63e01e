# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The import of rails in one subnet: from manifests to a fabric file that lint accepts."""

from __future__ import annotations

import ipaddress
import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text
from tests.unit.fabric.range_files import listed

Document = t.Dict[str, t.Any]
NODES = Options("ai", {"ai-[1:4]": {"address": "10.1.16.[1:4]"}}, mtu=4200)


def of_text(text: str) -> Outcome:
    return run([("example.yml", text.encode())], NODES)


def rails_of(outcome: Outcome) -> Document:
    rails: Document = yaml_text.load(outcome.text)["rails"]
    return rails


def errors(outcome: Outcome) -> list[str]:
    """The errors of lint in what was written."""
    return [finding.text() for finding in lint(outcome.text.encode()).errors]


def codes(outcome: Outcome) -> set[str]:
    return {each.finding.code for each in outcome.findings}


def spider(ips: t.Sequence[str], more: str = "") -> str:
    """A pool and a network of each rail, all in one subnet."""
    return "---".join(
        """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: gpu%(n)d}
spec: {subnet: 10.248.0.0/16, gateway: 10.248.255.254, ips: [%(ips)s]%(more)s}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: gpu%(n)d-macvlan, namespace: kube-system}
spec:
  cniType: macvlan
  macvlan: {master: [eth%(n)d], rdmaResourceName: spidernet.io/gpu%(n)d, ippools: {ipv4: [gpu%(n)d]}}
"""
        % {"n": number, "ips": each, "more": more}
        for number, each in enumerate(ips, 1)
    )


WHEREABOUTS = "---".join(
    """
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: rail%(n)d}
spec:
  networkNamespace: default
  master: ens%(n)dnp0
  mode: bridge
  mtu: 9000
  ipam: >-
    {"type": "whereabouts", "range": "172.16.0.0/16", "range_start": "172.16.%(n)d.0", "range_end": "172.16.%(n)d.255"}
"""
    % {"n": number}
    for number in (1, 2, 3)
)


def nv_ipam(pools: t.Sequence[str], pool: str) -> str:
    """One pool, and a network per rail that takes addresses from it."""
    networks = [
        """
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: rail%d}
spec:
  networkNamespace: default
  master: ens%dnp0
  mode: bridge
  mtu: 9000
  ipam: '{"type": "nv-ipam", "poolName": "%s"}'
"""
        % (number, number, name)
        for number, name in enumerate(pools, 1)
    ]
    head = (
        "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: IPPool\nmetadata: {name: %s, namespace: operator}\nspec: {%s}\n"
    )
    return "---".join([head % (pools[0], pool), *networks])


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        (
            spider(["10.248.1.0-10.248.1.255", "10.248.2.0-10.248.2.255"]),
            ["10.248.1.0-10.248.1.255", "10.248.2.0-10.248.2.255"],
        ),
        (
            spider(["10.248.1.0-10.248.1.255", "10.248.2.0-10.248.2.255"], ", excludeIPs: [10.248.1.9, 10.248.2.9]"),
            ["10.248.1.0-10.248.1.255", "10.248.2.0-10.248.2.255"],
        ),
        (WHEREABOUTS, ["172.16.1.0-172.16.1.255", "172.16.2.0-172.16.2.255", "172.16.3.0-172.16.3.255"]),
    ],
    ids=["Spiderpool", "Spiderpool with exclusions", "whereabouts"],
)
def test_rails_of_one_subnet_keep_the_ranges_of_their_pools(text: str, pods: list[str]) -> None:
    outcome = of_text(text)
    assert not codes(outcome) & {"IM310", "IM328"}
    assert errors(outcome) == []
    rails = rails_of(outcome)
    assert [rail["pods"] for rail in rails.values()] == pods
    hosts = [set(listed(rail["hosts"])) for rail in rails.values()]
    assert all(len(each) >= 4 for each in hosts), "an address for the port of each node"
    assert len(set().union(*hosts)) == sum(map(len, hosts)), "no port of a rail has an address of another rail"
    assert not any(each in set().union(*hosts) for rail in rails.values() for each in listed(rail["pods"]))
    plan = lint(outcome.text.encode()).plan
    assert plan
    assert all(port["sysctl"]["arp_filter"] == 1 for port in plan.document()["nodes"][0]["ports"])


def test_one_pool_of_nv_ipam_remains_one_pool() -> None:
    text = nv_ipam(["flat", "flat"], "subnet: 192.168.0.0/22, gateway: 192.168.0.1, perNodeBlockSize: 32")
    outcome = of_text(text)
    assert "IM328" not in codes(outcome) and "IM310" not in codes(outcome)
    file = yaml_text.load(outcome.text)
    assert file["fabric"]["pods_per_node"] == 16, "of each rail: its block has 32 for both"
    assert file["names"]["pool"] == "flat"
    assert [rail["numbering"] for rail in file["rails"].values()] == ["node", "node"]
    # The pool has every address, as IM320 reports: the ports have no addresses.
    assert "IM320" in codes(outcome)
    assert errors(outcome) == []


def test_one_pool_of_nv_ipam_with_exclusions_leaves_addresses_for_ports() -> None:
    pool = (
        "subnet: 192.168.0.0/22, gateway: 192.168.3.254, perNodeBlockSize: 32,"
        " exclusions: [{startIP: 192.168.3.0, endIP: 192.168.3.255}]"
    )
    outcome = of_text(nv_ipam(["flat", "flat"], pool))
    assert errors(outcome) == []
    assert all("taken" in rail for rail in rails_of(outcome).values())


def test_one_range_of_whereabouts_in_several_networks_is_one_pool() -> None:
    """whereabouts has one record of allocations for a range, so no address is in two pools."""
    text = re.sub("172.16.[123]", "172.16.8", WHEREABOUTS)
    outcome = of_text(text)
    (each,) = [each for each in outcome.findings if each.finding.code == "IM328"]
    assert "172.16.8.0-172.16.8.255" in each.finding.message and "IM310" not in codes(outcome)
    assert errors(outcome) == []
    assert {rail["numbering"] for rail in rails_of(outcome).values()} == {"node"}
    plan = lint(outcome.text.encode()).plan
    assert plan and [rail["pods"] for rail in plan.document()["rails"]] == [
        "172.16.8.0-172.16.8.84",
        "172.16.8.85-172.16.8.169",
        "172.16.8.170-172.16.8.254",
    ]


def test_one_pool_of_another_manager_is_divided_and_reported() -> None:
    text = spider(["10.248.1.0-10.248.4.255", "10.248.5.0-10.248.5.9"]).replace("ipv4: [gpu2]", "ipv4: [gpu1]")
    outcome = of_text(text)
    (each,) = [each for each in outcome.findings if each.finding.code == "IM328"]
    assert "gpu1-macvlan" in each.finding.message and "gpu2-macvlan" in each.finding.message
    assert errors(outcome) == []
    rails = rails_of(outcome)
    assert {(rail["numbering"], rail["pods"]) for rail in rails.values()} == {("node", "10.248.1.0-10.248.4.255")}
    plan = lint(outcome.text.encode()).plan
    assert plan and [rail["pods"] for rail in plan.document()["rails"]] == [
        "10.248.1.0-10.248.2.255",
        "10.248.3.0-10.248.4.255",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (spider(["10.248.1.0-10.248.1.255", "10.248.1.255-10.248.2.255"]), "10.248.1.255 is in the pools of"),
        (spider(["10.248.1.0-10.248.1.9", "10.248.1.0-10.248.1.9"]), "10.248.1.0-10.248.1.9 is in the pools of"),
        (
            spider(["10.248.1.0-10.248.1.9", "10.249.1.0-10.249.1.9"])
            .replace("subnet: 10.248.0.0/16", "subnet: 10.248.0.0/14", 1)
            .replace("subnet: 10.248.0.0/16, gateway: 10.248", "subnet: 10.249.0.0/16, gateway: 10.249"),
            "10.249.0.0/16 of gpu2-macvlan overlaps 10.248.0.0/14",
        ),
    ],
    ids=["one address", "all addresses", "subnets"],
)
def test_addresses_of_two_rails_are_an_error(text: str, words: str) -> None:
    outcome = of_text(text)
    (each,) = [each for each in outcome.findings if each.finding.code == "IM310"]
    assert words in each.finding.message and each.finding.severity == "error"


def test_a_rail_without_a_pool_is_in_the_subnet_of_the_others() -> None:
    text = spider(["10.248.1.0-10.248.1.255", "10.248.2.0-10.248.2.255", "10.248.3.0-10.248.3.255"])
    start = text.index("---", text.index("name: gpu2-macvlan"))
    text = text[:start] + text[text.index("---", start + 3) :]
    outcome = of_text(text)
    rails = rails_of(outcome)
    assert [rail["subnet"] for rail in rails.values()] == ["10.248.0.0/16"] * 3
    assert "pods" not in list(rails.values())[2]
    assert not [text for text in errors(outcome) if "RY311" in text]


@pytest.mark.parametrize(
    "exclusions",
    [
        "{startIP: 192.168.1.0, endIP: 192.168.1.9}, {startIP: 192.168.1.250, endIP: 192.168.1.255}",
        "{startIP: 192.168.1.1, endIP: 192.168.1.1}, {startIP: 192.168.1.250, endIP: 192.168.1.255}",
        "{startIP: 192.168.1.0, endIP: 192.168.1.0}, {startIP: 192.168.1.1, endIP: 192.168.1.1}",
    ],
    ids=["network, gateway and broadcast address", "gateway and broadcast address", "one by one"],
)
def test_exclusions_may_contain_the_gateway(exclusions: str) -> None:
    """The fourth of the public reports: addresses that are not assigned may include any."""
    pool = "subnet: 192.168.1.0/24, gateway: 192.168.1.1, perNodeBlockSize: 32, exclusions: [%s]" % exclusions
    outcome = of_text(nv_ipam(["pool1"], pool))
    assert not [text for text in errors(outcome) if "taken" in text]
    assert errors(outcome) == []


def test_an_exclusion_around_the_gateway_in_the_middle_of_a_pool() -> None:
    text = spider(["10.248.1.0-10.248.1.255"], ", excludeIPs: [10.248.1.100-10.248.1.110]").replace(
        "gateway: 10.248.255.254", "gateway: 10.248.1.105"
    )
    outcome = of_text(text)
    assert errors(outcome) == []
    plan = lint(outcome.text.encode()).plan
    assert plan
    (rail,) = plan.document()["rails"]
    assert rail["gateway"] == "10.248.1.105"
    assert not any(
        ipaddress.ip_address("10.248.1.100") <= ipaddress.ip_address(each) <= ipaddress.ip_address("10.248.1.110")
        for part in rail["pods"].split(", ")
        for each in listed(part)
    )


# -- prefixes of nodes that are divided into those of rails


def node_pools(nets: t.Mapping[tuple[str, int], str]) -> str:
    """Pools of nodes, by (node, rail), and a network of each rail."""
    pools = []
    for (node, rail), text in nets.items():
        net = ipaddress.ip_network(text)
        pools.append(
            """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: %s-gpu%d}
spec: {subnet: %s, gateway: %s, ips: [%s-%s], nodeName: [%s]}
"""
            % (node, rail, net, net[1], net[3], net[-2], node)
        )
    rails = sorted({rail for _node, rail in nets})
    networks = [
        """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: gpu%(n)d-macvlan, namespace: kube-system}
spec:
  cniType: macvlan
  macvlan: {master: [eth%(n)d], rdmaResourceName: spidernet.io/gpu%(n)d, ippools: {ipv4: ["*-gpu%(n)d"]}}
"""
        % {"n": rail}
        for rail in rails
    ]
    return "---".join([*pools, *networks])


def cidr_pools(static: t.Sequence[t.Mapping[str, str]]) -> str:
    """A pool of one network for each rail, with static networks of nodes."""
    pools = [
        """
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail%d, namespace: operator}
spec:
  cidr: 172.16.0.0/16
  gatewayIndex: 1
  perNodeNetworkPrefix: 27
  perNodeExclusions: [{startIndex: 2, endIndex: 2}]
  staticAllocations: [%s]
"""
        % (number, ", ".join("{nodeName: %s, prefix: %s}" % each for each in of_rail.items()))
        for number, of_rail in enumerate(static, 1)
    ]
    networks = [
        """
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: rail%(n)d}
spec:
  networkNamespace: default
  master: ens%(n)dnp0
  mode: bridge
  mtu: 9000
  ipam: '{"type": "nv-ipam", "poolName": "rail%(n)d", "poolType": "cidrpool"}'
"""
        % {"n": number}
        for number in range(1, len(static) + 1)
    ]
    return "---".join([*pools, *networks])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            node_pools(
                {
                    ("ai-1", 1): "172.16.1.0/27",
                    ("ai-1", 2): "172.16.1.32/27",
                    ("ai-2", 1): "172.16.2.0/27",
                    ("ai-2", 2): "172.16.2.32/27",
                }
            ),
            {"ai-1": ["172.16.1.2/27", "172.16.1.34/27"], "ai-2": ["172.16.2.2/27", "172.16.2.34/27"]},
        ),
        (
            node_pools(
                {
                    ("ai-1", 1): "172.16.0.0/28",
                    ("ai-1", 2): "172.16.0.16/28",
                    ("ai-2", 1): "172.16.0.64/28",
                    ("ai-2", 2): "172.16.0.80/28",
                    ("ai-4", 2): "172.16.0.208/28",
                }
            ),
            {
                "ai-1": ["172.16.0.2/28", "172.16.0.18/28"],
                "ai-2": ["172.16.0.66/28", "172.16.0.82/28"],
                "ai-4": ["172.16.0.194/28", "172.16.0.210/28"],
            },
        ),
        (
            cidr_pools(
                [
                    {"ai-1": "172.16.0.0/27", "ai-2": "172.16.1.0/27", "ai-3": "172.16.2.0/27"},
                    {"ai-1": "172.16.0.32/27", "ai-2": "172.16.1.32/27", "ai-3": "172.16.2.32/27"},
                    {"ai-1": "172.16.0.64/27", "ai-2": "172.16.1.64/27", "ai-3": "172.16.2.64/27"},
                ]
            ),
            {"ai-2": ["172.16.1.2/27", "172.16.1.34/27", "172.16.1.66/27"]},
        ),
    ],
    ids=["a /24 per node", "a /26 per node, one of which misses a rail", "nv-ipam"],
)
def test_nodes_keep_prefixes_that_are_divided_by_node_first(text: str, expected: Document) -> None:
    outcome = of_text(text)
    assert not codes(outcome) & {"IM310", "IM312"}
    assert errors(outcome) == []
    plan = lint(outcome.text.encode()).plan
    assert plan
    found = {node["name"]: [port["address"] for port in node["ports"]] for node in plan.document()["nodes"]}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            node_pools(
                {
                    ("ai-1", 1): "172.16.1.0/27",
                    ("ai-1", 2): "172.16.1.32/27",
                    ("ai-2", 1): "172.16.2.32/27",
                    ("ai-2", 2): "172.16.2.0/27",
                }
            ),
            "IM312",
        ),
        (cidr_pools([{"ai-1": "172.16.0.0/27"}, {"ai-1": "172.16.0.32/27"}]), "IM310"),
        (cidr_pools([{}, {}]), "IM310"),
    ],
    ids=["another order on one node", "one node", "no static networks"],
)
def test_prefixes_without_an_order_of_rails_are_an_error(text: str, code: str) -> None:
    assert code in codes(of_text(text))
