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


def _world() -> World:
    plan = lint(TEXT.encode()).plan
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
    assert (warning["expected"], warning["found"]) == ("10.200.1.3/31", found)


def test_a_port_without_a_planned_address_of_its_leaf_is_not_compared() -> None:
    world = _world()
    world.port(NODE, RAIL)["leaf"]["address"] = None
    _describe(world, "no-alert 10.210.8.122/30")
    document = world.document()
    assert document["failures"] == document["warnings"] == []
