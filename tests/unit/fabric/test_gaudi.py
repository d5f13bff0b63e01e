# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gaudi: one RDMA device with 24 ports, of which three are rails, and addresses that the leaf sends by LLDP."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from tests.unit.fabric.verify_nodes import World

NODE, RAIL = "g-2", "so02"
TEXT = """
plugin: railyard.fabric.rails
fabric: {name: gaudi, attachment: host, provider: none, mtu: 9000}
addresses: {mode: link, supernet: 10.200.0.0/16, rail_prefix: 24}
rails: {count: 3, name: "so{n:02}"}
units: {su1: {nodes: 4, leaf: "leaf-{n}", leaf_port: "Ethernet{i}"}}
profiles:
  gaudi3:
    nic: habanalabs
    speed: 200
    ports:
      so01: {netdev: ens1d22, rdma: "hbl_0:22"}
      so02: {netdev: ens1d23, rdma: "hbl_0:23"}
      so03: {netdev: ens1d24, rdma: "hbl_0:24"}
nodes: {"g-[1:4]": {profile: gaudi3, unit: su1}}
"""


def _found(port: str) -> list[str]:
    text = TEXT.replace('so01: {netdev: ens1d22, rdma: "hbl_0:22"}', "so01: " + port)
    return [each.code for each in lint(text.encode()).findings]


def test_the_devices_keep_their_names_and_the_ports_are_rails() -> None:
    plan = lint(TEXT.encode()).plan
    assert plan
    ports = plan.document()["nodes"][1]["ports"]
    assert [(port["netdev"], port["rdma"]["name"], port["rdma"]["port"]) for port in ports] == [
        ("ens1d22", "hbl_0", 22),
        ("ens1d23", "hbl_0", 23),
        ("ens1d24", "hbl_0", 24),
    ]
    assert port_options(ports, "rdma_link") == []


def test_the_family_of_the_profile_decides_that_a_device_keeps_its_name() -> None:
    """Other NICs with such a name are renamed, and the rule about names of the kernel applies to them."""
    text = TEXT.replace("    nic: habanalabs\n", "").replace("netdev: ens1d22,", 'netdev: nic1, pci: "0000:19:00.0",')
    outcome = lint(text.encode())
    places = ["profiles.gaudi3.ports.so%02d.rdma" % rail for rail in (1, 2, 3)]
    assert [(each.code, each.place) for each in outcome.findings] == [("RY211", place) for place in places]
    assert outcome.plan
    renamed = port_options(outcome.plan.document()["nodes"][1]["ports"], "rdma_link")
    assert [row["name"] for row in renamed] == ["hbl_0"]


def test_netdevs_identify_the_ports_of_one_function() -> None:
    text = TEXT.replace("netdev: ens1d22,", 'netdev: ens1d22, pci: "0000:19:00.0",')
    text = text.replace("netdev: ens1d23,", 'netdev: ens1d23, pci: "0000:19:00.0",')
    (finding,) = lint(text.encode()).findings
    assert finding.code == "RY405" and "remove pci of both, and keep netdev" in finding.remedy
    assert lint(text.replace(', pci: "0000:19:00.0"', "").encode()).findings == []


@pytest.mark.parametrize("port", ['{netdev: ens1d22, rdma: "hbl_0:1"}', "{netdev: ens1d22}"])
def test_a_scale_out_port_is_identified_by_its_netdev(port: str) -> None:
    assert _found(port) == []


@pytest.mark.parametrize(
    ("port", "code"),
    [
        ('{netdev: ens1d22, rdma: "hbl_0:25"}', "RY555"),
        ("{netdev: ens1d22, rdma: hbl_so01}", "RY556"),
        ("{netdev: ens1d22, rdma: roce_0}", "RY556"),
        ('{rdma: "hbl_0:22"}', "RY556"),
        ('{pci: "0000:19:00.0", rdma: "hbl_1:22"}', "RY556"),
        ('{netdev: ens1d22, rdma: "hbl_0:23"}', "RY406"),
    ],
)
def test_ports_that_gaudi_does_not_have_and_names_that_it_must_keep_are_errors(port: str, code: str) -> None:
    assert code in _found(port)


def _world(text: str = TEXT) -> World:
    plan = lint(text.encode()).plan
    assert plan
    return World(plan)


def _describe(world: World, text: str | None, rail: str = RAIL) -> None:
    """Set the LLDP port description that the port of a rail receives."""
    netdev = world.port(NODE, rail)["netdev"]
    next(row for row in world.infos[NODE]["lldp"] if row["netdev"] == netdev).update(port_description=text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "to g-2",
        "Ethernet1/2/3",
        "no-alert 10.200.1.3/31",
        "10.200.1.3",
        "g-2 mtu 9000",
        "rev 1.2.3.4.5",
        # not an address of an interface
        "no-alert 10.200.1.999/31",
    ],
)
def test_a_port_description_with_the_planned_address_or_without_one_is_correct(text: str | None) -> None:
    world = _world()
    leaf = world.port(NODE, RAIL)["leaf"]["address"]
    assert leaf == "10.200.1.3"
    _describe(world, text)
    document = world.document()
    assert document["failures"] == document["warnings"] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # the format that Intel's network-operator reads
        ("no-alert 10.210.8.122/30", "10.210.8.122/30"),
        ("no-alert 10.200.0.3/31", "10.200.0.3/31"),
        # the address of the node instead of the leaf's
        ("no-alert 10.200.1.2/31", "10.200.1.2/31"),
        # the planned address in a network that does not contain the node
        ("no-alert 10.200.1.3/32", "10.200.1.3/32"),
    ],
)
def test_another_address_in_the_port_description_is_a_warning(text: str, found: str) -> None:
    world = _world()
    _describe(world, text)
    document = world.document()
    assert document["failures"] == []
    (warning,) = document["warnings"]
    assert (warning["code"], warning["node"], warning["rail"]) == ("RV706", NODE, RAIL)
    assert warning["what"] == "address of the leaf port of ens1d23"
    assert (warning["expected"], warning["found"]) == ("10.200.1.3/31", found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no-alert fd00:10:0:1::5/127", "fd00:10:0:1::5/127"),
        # the planned address in another network
        ("no-alert fd00:10:0:1::3/126", "fd00:10:0:1::3/126"),
        ("no-alert fd00:10:0:1:0::3/127", None),
    ],
)
def test_addresses_of_ipv6_are_compared_too(text: str, found: str | None) -> None:
    world = _world(TEXT.replace("rail_prefix: 24", 'rail_prefix: 24, supernet6: "fd00:10::/48", rail_prefix6: 64'))
    assert world.port(NODE, RAIL)["leaf"]["address6"] == "fd00:10:0:1::3"
    _describe(world, text)
    document = world.document()
    assert document["failures"] == []
    assert [(each["code"], each["found"]) for each in document["warnings"]] == ([("RV706", found)] if found else [])


def test_a_port_without_a_planned_address_of_its_leaf_is_not_compared() -> None:
    world = _world()
    world.port(NODE, RAIL)["leaf"]["address"] = None
    _describe(world, "no-alert 10.210.8.122/30")
    document = world.document()
    assert document["failures"] == document["warnings"] == []
