# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is handed over is enough for its CNI networks, and they are those of the whole plan."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan

INVENTORIES = Path(__file__).resolve().parents[4] / "inventories"
OPTIONS = {"device_plugins": False}


def plan(name: str, **replaced: str) -> Plan:
    text = (INVENTORIES / name / "fabric.yml").read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    found = lint(text.encode()).plan
    assert found
    return found


PLANS = {
    "four-gpu-two-nic": lambda: plan("four-gpu-two-nic"),
    "lab-cni": lambda: plan("lab-cni"),
    # pods have routes through the rail's gateway, and no default
    "host-device": lambda: plan("host-device", **{"provider: network-operator": "provider: cni"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_node_knows_its_networks_from_its_own_variables(name: str) -> None:
    planned = PLANS[name]()
    whole = dict(object_components.node_files(planned.document(), OPTIONS))
    for node in planned.nodes:
        variables = planned.node_vars(node)
        own = plain_cni.of_node(planned.fabric_vars(), variables, OPTIONS)
        assert len(own) == len(variables["ports"])
        paths = {"/etc/cni/multus/net.d/railyard-%s.conflist" % each["name"]: each for each in own}
        files = {path: json.loads(text) for path, text in whole[variables["name"]].items() if "/cni/" in path}
        assert paths == files


def test_the_blocks_of_all_nodes_are_apart() -> None:
    planned = plan("lab-cni", **{"node-[1:2]": "node-[1:6]"})
    given: dict[str, set[ipaddress.IPv4Address]] = {}
    for node in planned.nodes:
        variables = planned.node_vars(node)
        for port, conf in zip(variables["ports"], plain_cni.of_node(planned.fabric_vars(), variables)):
            ((block,),) = conf["plugins"][0]["ipam"]["ranges"]
            first, last = (ipaddress.IPv4Address(block[key]) for key in ("rangeStart", "rangeEnd"))
            own = {ipaddress.IPv4Address(number) for number in range(int(first), int(last) + 1)}
            seen = given.setdefault(conf["name"], set())
            assert len(own) == 32 and not own & seen
            seen |= own
            hosts = {ipaddress.ip_interface(port["address"]).ip, ipaddress.ip_address(port["pods"]["gateway"])}
            assert not hosts & own
    assert {len(addresses) for addresses in given.values()} == {192}


def test_a_link_local_router_is_the_pods_too_and_no_operators() -> None:
    rails = 'rails: {count: 8, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24"'
    six = ', subnet6: "fd00:{n}::/64", pods6: "::1-::100", hosts6: "::1001-::10ff", gateway6: "fe80::1", block6: 32'
    planned = plan("lab-cni", **{rails: rails + six})
    (first, *_others) = plain_cni.of_node(planned.fabric_vars(), planned.node_vars(planned.nodes[0]), OPTIONS)
    interface, rail = first["plugins"]
    assert [each["gateway"] for (each,) in interface["ipam"]["ranges"]] == ["172.16.11.254", "fe80::1"]
    assert {"dst": "::/0", "gw": "fe80::1"} in rail["routes"]
    text = (INVENTORIES / "lab-cni" / "fabric.yml").read_text().replace(rails, rails + six)
    for provider in ("spiderpool", "network-operator"):
        found = lint(text.replace("provider: cni", "provider: " + provider).encode()).findings
        assert ("RY819", "rails.gateway6") in [(each.code, each.place) for each in found], provider


def test_an_unknown_option_is_an_error() -> None:
    planned = plan("lab-cni")
    with pytest.raises(RailyardError, match="kubernetes.no_such: is not an option"):
        plain_cni.of_node(planned.fabric_vars(), planned.node_vars(planned.nodes[0]), {"no_such": 1})
