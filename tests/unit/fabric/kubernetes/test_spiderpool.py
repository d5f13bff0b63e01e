# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spiderpool's objects and chart values."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import (
    device_plugins,
    spiderpool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View

from .documents import document


def made(kind: str, options: t.Mapping[str, t.Any] | None = None, **values: t.Any) -> list[dict[str, t.Any]]:
    view = View(document("spiderpool", **values))
    return [each for each in spiderpool.Spiderpool().objects(view, Options.of(options)) if each["kind"] == kind]


def names(things: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    return [thing["metadata"]["name"] for thing in things]


def test_a_subnet_has_one_pool_per_rail_and_no_node_has_its_own() -> None:
    pools = made("SpiderIPPool", nodes=3)
    assert names(pools) == ["ai-gpu01", "ai-gpu02"]
    assert pools[0]["spec"] == {
        "ipVersion": 4,
        "subnet": "172.16.11.0/24",
        "ips": ["172.16.11.1-172.16.11.199"],
        "gateway": "172.16.11.254",
    }


def test_a_prefix_is_a_pool_of_its_node_alone() -> None:
    pools = made("SpiderIPPool", mode="prefix", attachment="sriov")
    assert names(pools) == [
        "ai-gpu01-hgx-0001",
        "ai-gpu02-hgx-0001",
        "ai-gpu01-hgx-0002",
        "ai-gpu02-hgx-0002",
    ]
    assert pools[2]["spec"] == {
        "ipVersion": 4,
        "subnet": "10.2.0.32/27",
        "ips": ["10.2.0.35-10.2.0.62"],
        "gateway": "10.2.0.33",
        "nodeName": ["hgx-0002"],
    }


def test_a_network_names_its_nodes_pools_by_a_pattern_that_matches_no_other_rail() -> None:
    configs = made("SpiderMultusConfig", {"injection": False}, mode="prefix", attachment="sriov", families=(4, 6))
    assert configs[0]["spec"]["sriov"]["ippools"] == {"ipv4": ["ai-gpu01-*"], "ipv6": ["v6-ai-gpu01-*"]}


def test_a_pattern_that_matches_another_pool_is_not_used() -> None:
    plan = document("spiderpool", attachment="sriov", mode="prefix")
    for node in plan["nodes"]:
        for port in node["ports"]:
            port["names"]["pool"] = "%s-%s" % (node["name"], "a" if port["rail"] == "gpu01" else "x-a")
    configs = [
        each
        for each in spiderpool.Spiderpool().objects(View(plan), Options.of({"injection": False}))
        if "sriov" in each["spec"]
    ]
    assert configs[0]["spec"]["sriov"]["ippools"]["ipv4"] == ["hgx-0001-a", "hgx-0002-a"]
    assert configs[1]["spec"]["sriov"]["ippools"]["ipv4"] == ["*-x-a"]


def test_macvlan_has_master_and_resource_in_its_own_section() -> None:
    config = made("SpiderMultusConfig")[0]
    assert config["spec"] == {
        "cniType": "macvlan",
        "macvlan": {
            "master": ["enp11s0np0"],
            "mtu": 4200,
            "rdmaResourceName": "spidernet.io/gpu01_macvlan",
            "ippools": {"ipv4": ["ai-gpu01"]},
        },
    }
    assert config["metadata"]["namespace"] == "kube-system"


def test_infiniband_without_addresses_has_no_address_management_and_no_group() -> None:
    configs = made("SpiderMultusConfig", {"pkey": "0x7fff", "ufm_secret": "ufm"}, attachment="ib-sriov", mode="none")
    assert [each["metadata"].get("annotations") for each in configs] == [None, None]
    assert configs[0]["spec"] == {
        "cniType": "ib-sriov",
        "enableCoordinator": False,
        "disableIPAM": True,
        "ibsriov": {
            "resourceName": "spidernet.io/gpu01_ib_sriov",
            "rdmaIsolation": True,
            "linkState": "enable",
            "pkey": "0x7fff",
            "enableIbKubernetes": True,
        },
    }


def test_without_a_way_between_rails_pods_get_no_default_route() -> None:
    for values in ({"cross_rail": False}, {"routing": "destination"}):
        pool = made("SpiderIPPool", mode="prefix", attachment="sriov", **values)[0]
        assert "gateway" not in pool["spec"]
        assert pool["spec"]["routes"] == [{"dst": "10.2.0.0/15", "gw": "10.2.0.1"}]


def test_used_addresses_are_reserved() -> None:
    reserved = made("SpiderReservedIP", taken={"switches": "172.16.11.250-172.16.11.253"})
    assert names(reserved) == ["ai-gpu01-taken", "ai-gpu02-taken"]
    assert reserved[0]["spec"] == {"ipVersion": 4, "ips": ["172.16.11.250-172.16.11.253"]}


def test_each_rail_is_once_in_every_group_of_its_size() -> None:
    configs = made("SpiderMultusConfig", rails=8)
    members: dict[str, list[str]] = {}
    for config in configs:
        group = config["metadata"]["annotations"][spiderpool.INJECT_RDMA]
        members.setdefault(group, []).append(config["spec"]["macvlan"]["master"][0])
    assert len(configs) == 4 * 8 and len(set(names(configs))) == len(configs)
    assert members["ai"] == ["enp%ds0np0" % number for number in range(11, 19)]
    assert members["ai-4x2"] == ["enp%ds0np0" % number for number in range(15, 19)]
    assert members["ai-2x1"] == ["enp11s0np0", "enp12s0np0"]
    assert members["ai-1x8"] == ["enp18s0np0"]
    assert sum(map(len, members.values())) == 32


def test_kinds_of_nodes_with_other_networks_have_groups_of_their_own() -> None:
    plan = document("spiderpool", nodes=2, rails=4, profile_of=lambda index: "big" if index == 1 else "small")
    del plan["nodes"][1]["ports"][2:]
    view = View(plan)
    pools_of = {network.name: {"ipv4": ["any"]} for network in view.networks}
    groups = spiderpool.injection(view, Options.of({"injection_groups": [2]}), pools_of)
    assert groups["gpu01-macvlan"] == [
        ("gpu01-macvlan", "ai-big"),
        ("gpu01-macvlan-2x1-big", "ai-big-2x1"),
        ("gpu01-macvlan-all-small", "ai-small"),
    ]
    assert groups["gpu04-macvlan"] == [("gpu04-macvlan", "ai-big"), ("gpu04-macvlan-2x2-big", "ai-big-2x2")]


def test_ports_that_have_no_common_netdev_are_refused() -> None:
    def two(profile: str, rail: int) -> str:
        return "%s%d" % (profile, rail)

    with pytest.raises(RailyardError) as caught:
        made("SpiderMultusConfig", profile_of=lambda index: "ab"[index % 2], netdev_of=two)
    assert caught.value.place == "rails.gpu01"
    assert "b1, a1" in caught.value.message
    with pytest.raises(RailyardError, match="hgx-0001 has none"):
        made("SpiderMultusConfig", netdev_of=lambda profile, rail: None)


# -- values


def values(given: t.Mapping[str, t.Any] | None = None, **plan: t.Any) -> dict[str, t.Any]:
    return spiderpool.values(View(document("spiderpool", **plan)), Options.of(given))


def test_the_shared_plugin_knows_each_rail_by_its_netdev() -> None:
    plugin = values(given={"rdma_hca_max": 64})["rdma"]["rdmaSharedDevicePlugin"]
    assert plugin["install"] is True
    assert plugin["deviceConfig"]["configList"][1] == {
        "resourcePrefix": "spidernet.io",
        "resourceName": "gpu02_macvlan",
        "rdmaHcaMax": 64,
        "selectors": {"ifNames": ["enp12s0np0"]},
    }


def test_without_shared_devices_there_is_no_empty_list() -> None:
    made_values = values(attachment="sriov")
    assert made_values["rdma"]["rdmaSharedDevicePlugin"]["install"] is False
    assert "deviceConfig" not in made_values["rdma"]["rdmaSharedDevicePlugin"]
    assert made_values["sriov"]["operatorConfig"]["disableDrain"] is False
    assert made_values["plugins"]["installRdmaCNI"] is True


def test_conflicts_and_gateways_are_looked_for() -> None:
    assert values()["ipam"] == {
        "enableIPv4": True,
        "enableIPv6": False,
        "enableIPConflictDetection": True,
        "enableGatewayDetection": True,
        "spiderSubnet": {"enable": False, "autoPool": {"enable": False}},
    }
    assert values(attachment="ib-sriov", mode="none")["ipam"]["enableIPConflictDetection"] is False
    assert values(families=(4, 6))["ipam"]["enableIPv6"] is True


def test_the_device_plugin_restarts_with_its_list_and_only_then() -> None:
    def digest(options: Options | None = None, **plan: t.Any) -> str:
        values = spiderpool.values(View(document("spiderpool", **plan)), options or Options())
        plugin = values["rdma"]["rdmaSharedDevicePlugin"]
        return str(plugin.get("podAnnotations", {}).get("railyard.fabric/config", ""))

    assert digest() == digest(Options(metrics=False)) != digest(rails=3)
    assert digest() != digest(Options(rdma_hca_max=64))
    assert digest(attachment="sriov") == ""


def test_a_netdev_that_is_two_rails_is_refused() -> None:
    def crossed(profile: str, rail: int) -> str:
        return "eth%d" % (rail if profile == "a" else 3 - rail)

    view = View(document("spiderpool", profile_of=lambda index: "ab"[index % 2], netdev_of=crossed))
    with pytest.raises(RailyardError, match="eth2 is a netdev of the resource gpu01_macvlan on node b-0001"):
        device_plugins.shared(view, Options())
    # Each profile by itself is sound: that is how providers with a configuration a profile serve them.
    assert [each["selectors"]["ifNames"] for each in device_plugins.shared(view, Options(), "b")] == [
        ["eth2"],
        ["eth1"],
    ]


def test_the_resources_that_nodes_must_report() -> None:
    view = View(document("spiderpool", attachment="sriov", vfs=6))
    assert device_plugins.allocatable(view, Options())["hgx-0002"] == {
        "spidernet.io/gpu01_sriov": 6,
        "spidernet.io/gpu02_sriov": 6,
    }
    view = View(document("spiderpool"))
    assert (
        device_plugins.allocatable(view, Options.of({"rdma_hca_max": 7}))["hgx-0001"]["spidernet.io/gpu02_macvlan"] == 7
    )
