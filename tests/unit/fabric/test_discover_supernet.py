# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare servers and a supernet give a fabric file in which nothing is left to decide."""

from __future__ import annotations

import copy
import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import (
    NodeInfo,
    Outcome,
    counts,
    run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.supernet_schemes import supernet_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import network_of
from tests import yaml_text
from tests.unit.fabric import live_nodes
from tests.unit.fabric.test_discover import ROOT, bare, planned


def servers(count: int, inventory: str = "macvlan-roce", first: int = 1) -> list[NodeInfo]:
    """Servers whose ports have no addresses."""
    text = (ROOT / "inventories" / inventory / "fabric.yml").read_text(encoding="utf-8")
    (node, *_others) = bare(live_nodes.nodes_of(planned(text)))
    return [
        NodeInfo("hgx-%d" % number, None, copy.deepcopy(node.result) if count < 9 else node.result)
        for number in range(first, first + count)
    ]


def discover(infos: t.Sequence[NodeInfo], supernet: str = "172.16.0.0/16", **more: t.Any) -> Outcome:
    return run(infos, Options(**dict({"name": "ai", "supernet": network_of(supernet)}, **more)))


@pytest.mark.parametrize("provider", [None, "agent", "network-operator", "cni"])
@pytest.mark.parametrize("supernet", ["172.16.0.0/16", "10.64.0.0/10", "fd00:10::/48"])
def test_nothing_is_left_to_decide(provider: str | None, supernet: str) -> None:
    outcome = discover(servers(2), supernet, provider=provider)
    assert "DECIDE" not in re.sub("^#.*", "", outcome.text) and counts(outcome.findings)["error"] == 0
    assert outcome.lint == [] and lint(outcome.text.encode()).findings == []
    net = network_of(supernet)
    for node in planned(outcome.text).document()["nodes"]:
        for port in node["ports"]:
            held = network_of(port["address"] or port["address6"])
            assert net and held and net.holds(held.first)


@pytest.mark.parametrize("count", [1, 32, 100, 600])
def test_networks_have_room_for_all_nodes_and_their_pods(count: int) -> None:
    outcome = discover(servers(count), "10.64.0.0/10", provider="agent")
    fabric = yaml_text.load(outcome.text)["fabric"]
    # many neighbours need a larger table
    assert {each.code for each in outcome.lint} == ({"RY952"} if count > 100 else set())
    assert fabric["pods_per_node"] == 8
    addresses = [port["address"] for node in planned(outcome.text).document()["nodes"] for port in node["ports"]]
    assert len(set(addresses)) == 8 * count


def test_numbers_in_names_stay_indexes_if_the_networks_have_room() -> None:
    indexes = [node.node.index for node in planned(discover(servers(3, first=401)).text).nodes]
    assert indexes == [401, 402, 403]
    small = discover(servers(3, first=401), "172.16.0.0/22")
    assert [node.node.index for node in planned(small.text).nodes] == [1, 2, 3] and small.lint == []


@pytest.mark.parametrize(("mtu", "reported"), [(1500, True), (4200, False), (9000, False)])
def test_the_default_mtu_of_the_kernel_is_named(mtu: int, reported: bool) -> None:
    infos = servers(2)
    for info in infos:
        for row in info.result["nics"]:
            row["mtu"] = mtu
    outcome = discover(infos)
    assert yaml_text.load(outcome.text)["fabric"]["mtu"] == mtu
    assert ("CHECK default-mtu (DS409)" in outcome.text) is reported
    assert yaml_text.load(discover(infos, mtu=9000).text)["fabric"]["mtu"] == 9000


def test_gateways_and_pods_can_be_set() -> None:
    outcome = discover(servers(2), given={"gateway": ".254", "pods": ".1-.99"})
    rail = yaml_text.load(outcome.text)["rails"]["gpu01"]
    assert rail["gateway"] == "172.16.0.254" and rail["pods"] == "172.16.0.1-172.16.0.99" and outcome.lint == []
    assert rail["hosts"].endswith(".253")


@pytest.mark.parametrize(
    ("key", "value"),
    [("pods", "1-200"), ("pods", ".200-.1"), ("pods", ".1 to .9"), ("gateway", "x"), ("gateway", ".1-.2")],
)
def test_options_that_are_not_addresses_are_refused(key: str, value: str) -> None:
    addressed = live_nodes.nodes_of(planned((ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_text()))
    for infos in (servers(2), addressed):
        with pytest.raises(RailyardError, match="discover_%s: %s is not valid" % (key, re.escape(value))):
            discover(infos, given={key: value})


def test_networks_leave_out_taken_ones_of_any_size() -> None:
    supernet, taken, other = map(network_of, ("fd00::/32", "fd00::/33", "fd00:0:8000::1:0/112"))
    assert supernet and taken and other
    schemes = supernet_schemes(supernet, ["a", "b"], (), 4, {}, [taken, other])
    assert [str(each.network) for each in schemes.values()] == ["fd00:0:8000:1::/64", "fd00:0:8000:2::/64"]


def test_addresses_that_ports_have_stay() -> None:
    infos = live_nodes.nodes_of(planned((ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_text()))
    before = yaml_text.load(run(infos, Options(name="ai")).text)["rails"]
    for info in infos:
        netdev = info.result["nics"][0]["netdev"]
        rows = info.result["ip"]["addresses"]
        info.result["ip"]["addresses"] = [row for row in rows if row["netdev"] != "enp18s0f0np0"]
        assert netdev and len(info.result["ip"]["addresses"]) < len(rows)
    outcome = discover(infos, "172.16.0.0/16")
    rails = yaml_text.load(outcome.text)["rails"]
    assert {name: rails[name] for name in list(rails)[:7]} == {name: before[name] for name in list(before)[:7]}
    assert rails["gpu08"]["subnet"] == "172.16.0.0/24" and outcome.lint == []


@pytest.mark.parametrize("supernet", ["172.16.0.0/28", "172.16.0.0/26", "fd00::/125"])
def test_a_supernet_that_is_too_small_is_refused(supernet: str) -> None:
    with pytest.raises(RailyardError, match="too small for 8 rails"):
        discover(servers(32), supernet)


@pytest.mark.parametrize("supernet", ["10.0.0.0/8", "10.1.0.0/16", "10.1.16.0/20"])
def test_a_supernet_that_another_port_uses_is_refused(supernet: str) -> None:
    infos = servers(2)
    for info in infos:
        row = {"netdev": "eno1", "address": "10.1.16.5", "prefix": 24, "family": "ipv4"}
        info.result["ip"]["addresses"] = [row]
    with pytest.raises(RailyardError, match=r"contains 10\.1\.16\.5, which hgx-1 has on eno1"):
        discover(infos, supernet)


def test_infiniband_without_addresses_gets_them_for_ipoib_only() -> None:
    infos = servers(2, "ipoib")
    assert "subnet" not in discover(infos).text
    outcome = discover(infos, attachment="ipoib")
    assert outcome.text.count("subnet: 172.16.") == outcome.rails and outcome.lint == []
