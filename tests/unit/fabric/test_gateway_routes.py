# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes through gateways: ports, agents, Kubernetes objects and verify have the routes that the plan decides."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import host_variables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import pod_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, pod_desired
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import TABLE_MAIN
from tests.unit.fabric.kubernetes.documents import REGISTRY
from tests.unit.fabric.kubernetes.plans import fabric_file, planned

Document = t.Dict[str, t.Any]
Ways = t.Set[t.Tuple[str, t.Optional[str]]]
ROUTINGS: tuple[Document, ...] = ({}, {"cross_rail": False}, {"mode": "destination"})
# Networks of the site, to which a fourth mode of routing could add routes beside the default route.
SITE = {4: "10.128.0.0/9", 6: "fd80::/16"}


def of_plan(provider: str, mode: str, families: t.Sequence[int], routing: Document) -> Document:
    file = fabric_file(provider, "macvlan", mode, families)
    file["fabric"]["routing"] = routing
    if provider == "agent":
        del file["fabric"]["pods_per_node"]
        file["fabric"]["slots"] = {"all_rails": 2}
    return planned(file)


def in_pods(plan: Document) -> t.Iterator[tuple[Document, Document, pod_spec.RailSpec]]:
    """Yield each node and port of a plan, with the spec by which verify judges its pods."""
    view = pod_spec.view_of(plan["fabric"], plan["nodes"])
    for node in plan["nodes"]:
        for port, spec in zip(node["ports"], pod_spec.rail_specs(view, node)):
            yield node, port, spec


@pytest.mark.parametrize(
    ("mode", "families", "routing"),
    list(itertools.product(("subnet", "prefix"), ((4,), (4, 6)), ROUTINGS)),
)
def test_pods_of_the_agent_have_the_routes_that_verify_expects(
    mode: str, families: t.Sequence[int], routing: Document
) -> None:
    for node, port, spec in in_pods(of_plan("agent", mode, families, routing)):
        rail = agent_spec.parse_spec(node["agent"]).rail(port["rail"])
        in_table: Ways = set()
        in_main: Ways = set()
        for route in pod_desired.routes(rail, rail.slots[0], 1):
            ways = in_main if route.table == TABLE_MAIN else in_table
            ways.add((str(route.destination), str(route.gateway) if route.gateway else None))
        assert (set(spec.table_routes), set(spec.main_routes)) == (in_table, in_main)


@pytest.fixture
def fourth_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the function that decides the routes, as a fourth mode of routing would."""

    def routes(_routing: t.Any, planner: t.Any) -> list[str]:
        version = 4 if planner.bits == 32 else 6
        return [ANYWHERE[version], SITE[version]]

    monkeypatch.setattr(host_variables, "gateway_routes", routes)


@pytest.mark.usefixtures("fourth_mode")
@pytest.mark.parametrize("mode", ["subnet", "prefix"])
def test_a_fourth_mode_reaches_ports_and_agents(mode: str) -> None:
    for node, port, spec in in_pods(of_plan("agent", mode, (4, 6), {})):
        assert port["gateway"] and port["gateway6"]
        to = [(SITE[4], port["gateway"]), (SITE[6], port["gateway6"])]
        assert [(route["to"], route["via"]) for route in port["routes"]] == to
        (rail,) = [each for each in node["agent"]["rails"] if each["rail"] == port["rail"]]
        pods = port["pods"]
        assert (rail["gateway"], rail["gateway6"]) == (pods["gateway"], pods["gateway6"])
        assert [(route["to"], route["via"], route["table"]) for route in rail["routes"]] == [
            (SITE[4], pods["gateway"], port["table"]),
            (SITE[6], pods["gateway6"], port["table"]),
        ]
        assert {(SITE[4], pods["gateway"]), (ANYWHERE[6], pods["gateway6"])} <= set(spec.table_routes)


@pytest.mark.usefixtures("fourth_mode")
@pytest.mark.parametrize(
    ("provider", "mode"), [("spiderpool", "subnet"), ("network-operator", "prefix"), ("cni", "prefix")]
)
def test_a_fourth_mode_reaches_objects_and_verify(provider: str, mode: str) -> None:
    plan = of_plan(provider, mode, (4,), {})
    objects = [each for _component, each in object_components.components(plan, dict(REGISTRY))]
    for _node, port, spec in in_pods(plan):
        gateway, ways = port["pods"]["gateway"], {*spec.table_routes, *spec.main_routes}
        assert {(ANYWHERE[4], gateway), (SITE[4], gateway)} <= ways
    if provider == "spiderpool":
        pools = [each["spec"] for each in objects if each["kind"] == "SpiderIPPool"]
        assert all(pool["routes"] == [{"dst": SITE[4], "gw": pool["gateway"]}] for pool in pools)
    elif provider == "network-operator":
        pools = [each["spec"] for each in objects if each["kind"] == "CIDRPool"]
        assert all(pool["routes"] == [{"dst": SITE[4]}] for pool in pools)
    else:
        files = [file for _name, texts in object_components.node_files(plan) for file in texts.items()]
        pools = [json.loads(text)["plugins"] for path, text in files if path.endswith(".conflist")]
        for first, *_rest, last in pools:
            assert [route["dst"] for route in last["routes"]] == [ANYWHERE[4], SITE[4]]
            assert [route["dst"] for route in first["ipam"]["routes"]] == [SITE[4]]
    assert pools
