# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's operators, plain CNI, policies, NCCL's settings, alerts and test pods."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import plan_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_metrics
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    Finding,
    HealthState,
    RailState,
)

from . import schema, webhooks
from .documents import REGISTRY, document

Object = t.Dict[str, t.Any]


def made(kind: str, *plan: t.Any, options: t.Mapping[str, t.Any] | None = None, **more: t.Any) -> list[Object]:
    return [
        each
        for each in object_components.objects(document(*plan, **more), {**REGISTRY, **(options or {})})
        if each["kind"] == kind
    ]


def names(things: t.Iterable[Object]) -> list[str]:
    return [thing["metadata"]["name"] for thing in things]


def two(index: int) -> str:
    return "a" if index % 2 else "b"


def differing(profile: str, rail: int) -> str:
    return "%s%d" % (profile, rail)


# -- network operator


def test_one_profile_has_its_device_plugins_in_the_cluster_policy() -> None:
    (policy,) = made("NicClusterPolicy", "network-operator", "macvlan", "prefix")
    config = json.loads(policy["spec"]["rdmaSharedDevicePlugin"]["config"])
    assert [each["resourceName"] for each in config["configList"]] == ["gpu01_macvlan", "gpu02_macvlan"]
    assert "ofedDriver" not in policy["spec"] and "sriovDevicePlugin" not in policy["spec"]
    assert not made("NicNodePolicy", "network-operator", "macvlan", "prefix")


def test_profiles_that_differ_have_policies_of_their_own() -> None:
    plan = ("network-operator", "host-device", "prefix")
    more: dict[str, t.Any] = {"profile_of": two, "netdev_of": differing}
    policies = made("NicNodePolicy", *plan, **more)
    assert not policies, "the ports have the same PCI addresses, so one configuration serves both"
    whole = document(*plan, **more)
    for node in whole["nodes"]:
        for port in node["ports"]:
            if node["profile"] == "b":
                port["pci"] = port["pci"].replace("0000:", "0001:")
    things = list(object_components.objects(whole, REGISTRY))
    cluster = next(each for each in things if each["kind"] == "NicClusterPolicy")
    own = [each for each in things if each["kind"] == "NicNodePolicy"]
    assert names(own) == ["ai-a", "ai-b"]
    assert "sriovDevicePlugin" not in cluster["spec"]
    selected = [json.loads(each["spec"]["sriovDevicePlugin"]["config"])["resourceList"][0] for each in own]
    assert [each["selectors"]["pciAddresses"] for each in selected] == [["0000:0b:00.0"], ["0001:0b:00.0"]]
    assert [each["spec"]["nodeSelector"][plan_view.VARIANT] for each in own] == ["a", "b"]


def test_vfs_are_the_sriov_operators_alone() -> None:
    (policy,) = made("NicClusterPolicy", "network-operator", "sriov", "prefix")
    assert "sriovDevicePlugin" not in policy["spec"] and "rdmaSharedDevicePlugin" not in policy["spec"]
    values = object_components.values(document("network-operator", "sriov", "prefix"))["network-operator"]
    assert values["sriovNetworkOperator"]["enabled"] is True
    assert values["upgradeCRDs"] is False, "they are brought before the chart"


def test_a_driver_container_is_waited_for() -> None:
    plan, options = ("network-operator", "sriov", "prefix"), {"driver": "container"}
    (policy,) = made("NicClusterPolicy", *plan, options=options)
    assert policy["spec"]["ofedDriver"]["image"] == "doca-driver"
    values = object_components.values(document(*plan), options)
    selector = values["network-operator"]["sriov-network-operator"]["sriovOperatorConfig"]["configDaemonNodeSelector"]
    assert selector["network.nvidia.com/operator.mofed.wait"] == "false"


def test_macvlan_has_its_prefix_and_source_routes() -> None:
    network = made("MacvlanNetwork", "network-operator", "macvlan", "prefix", families=(4, 6))[1]
    assert network["spec"]["master"] == "enp12s0np0"
    assert json.loads(network["spec"]["ipam"]) == {
        "type": "nv-ipam",
        "poolName": "ai-gpu02,v6-ai-gpu02",
        "poolType": "cidrpool",
    }
    tuning, sbr = json.loads("[%s]" % network["spec"]["metaPlugins"])
    assert tuning["sysctl"]["net.ipv4.conf.IFNAME.arp_ignore"] == "1"
    assert sbr == {"type": "sbr"}  # with a table, releases from 1.6 on add rules alone
    network = made("MacvlanNetwork", "network-operator", "macvlan", "prefix", routing="destination")[1]
    assert "sbr" not in network["spec"]["metaPlugins"]
    pool = made("CIDRPool", "network-operator", "macvlan", "prefix", routing="destination")[1]
    assert pool["spec"]["routes"] == [{"dst": "10.4.0.0/15"}]
    assert pool["spec"]["defaultGateway"] is False


def test_blocks_of_a_subnet_must_fit_nv_ipams_way() -> None:
    (pool, _other) = made("IPPool", "network-operator", "macvlan", "subnet")
    assert pool["spec"]["perNodeBlockSize"] == 8
    assert pool["spec"]["exclusions"] == [{"startIP": "172.16.11.200", "endIP": "172.16.11.254"}]
    plan = document("network-operator", "macvlan", "subnet")
    for changes, words in (
        ({"pods_per_node": None}, "fabric.pods_per_node"),
        ({"max_nodes": 30}, "need 240 addresses, and pods have 199"),
    ):
        whole = dict(plan, fabric=dict(plan["fabric"], **changes))
        with pytest.raises(RailyardError) as caught:
            list(object_components.objects(whole, REGISTRY))
        assert words in str(caught.value)
    for node in plan["nodes"]:
        for port in node["ports"]:
            port["pods"]["first"] = port["pods"]["first"].rpartition(".")[0] + ".9"
    with pytest.raises(RailyardError, match="begin at 172.16.11.9"):
        list(object_components.objects(plan, REGISTRY))


# -- policies


def test_policies_take_vfs_as_they_are() -> None:
    policy = made("SriovNetworkNodePolicy", "spiderpool", "sriov", "prefix", vfs=6)[0]
    assert policy["metadata"]["namespace"] == "spiderpool"
    assert policy["spec"] == {
        "resourceName": "gpu01_sriov",
        "nodeSelector": {"railyard.fabric/fabric": "ai", "railyard.fabric/variant": "hgx"},
        "nicSelector": {"pfNames": ["enp11s0np0"]},
        "numVfs": 6,
        "priority": 90,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "eth",
        "externallyManaged": True,
        "mtu": 4200,
    }


def test_each_profile_names_its_own_ports() -> None:
    plan = {"profile_of": two, "netdev_of": differing}
    policies = made("SriovNetworkNodePolicy", "spiderpool", "sriov", "prefix", **plan)
    assert names(policies) == ["ai-gpu01-a", "ai-gpu01-b", "ai-gpu02-a", "ai-gpu02-b"]
    assert [each["spec"]["nicSelector"]["pfNames"] for each in policies] == [["a1"], ["b1"], ["a2"], ["b2"]]
    policies = made("SriovNetworkNodePolicy", "spiderpool", "sriov", "prefix", netdev_of=lambda profile, rail: None)
    assert policies[0]["spec"]["nicSelector"] == {"rootDevices": ["0000:0b:00.0"]}


def test_the_operator_alone_has_its_own_namespace_and_values() -> None:
    options = {"sriov_operator": "upstream"}
    policy = made("SriovNetworkNodePolicy", "spiderpool", "ib-sriov", "none", options=options)[0]
    assert policy["metadata"]["namespace"] == "sriov-network-operator"
    assert policy["spec"]["linkType"] == "ib" and "mtu" not in policy["spec"]
    values = object_components.values(document("spiderpool", "ib-sriov", "none"), options)
    assert values["spiderpool"]["sriov"] == {"install": False}
    assert values["sriov-network-operator"]["operator"]["resourcePrefix"] == "spidernet.io"


def test_vfs_are_a_number_that_the_operator_takes() -> None:
    for count, words in ((0, "0 VFs"), (129, "1 to 128")):
        with pytest.raises(RailyardError, match=words):
            made("SriovNetworkNodePolicy", "spiderpool", "sriov", "prefix", vfs=count)


def test_groups_that_change_a_policy_make_a_variant_of_their_profile() -> None:
    plan = document("spiderpool", "sriov", "prefix", nodes=5)
    for at, groups, count in ((0, ["in_rack"], 8), (1, ["few_vfs"], 4), (2, ["few_vfs", "in_rack"], 4)):
        plan["nodes"][at]["groups"] = groups
        for port in plan["nodes"][at]["ports"]:
            port["vfs"] = {"count": count, "attributes": []}
    # A node without a rail is like the others of its profile.
    del plan["nodes"][4]["ports"][0]
    labels = object_components.node_labels(plan)
    assert [labels[node["name"]][plan_view.VARIANT] for node in plan["nodes"]] == [
        "hgx",
        "hgx-few-vfs",
        "hgx-few-vfs",
        "hgx",
        "hgx",
    ]
    policies = [each for each in object_components.objects(plan, REGISTRY) if each["kind"] == "SriovNetworkNodePolicy"]
    assert [(each["metadata"]["name"], each["spec"]["numVfs"]) for each in policies[:2]] == [
        ("ai-gpu01-hgx", 8),
        ("ai-gpu01-hgx-few-vfs", 4),
    ]
    assert policies[1]["spec"]["nodeSelector"][plan_view.VARIANT] == "hgx-few-vfs"


def with_range(text: str, provider: str = "spiderpool", **more: t.Any) -> t.Any:
    plan = document(provider, "sriov", "prefix", vfs=10, **more)
    for node in plan["nodes"]:
        for port in node["ports"]:
            port["vfs"]["range"] = text
    return plan


@pytest.mark.parametrize("text, pods", [("5-9", 5), ("0-3", 4), ("7-7", 1)])
def test_pods_get_only_the_vfs_of_the_range(text: str, pods: int) -> None:
    plan = with_range(text)
    policies = [each for each in object_components.objects(plan) if each["kind"] == "SriovNetworkNodePolicy"]
    specs = [each["spec"] for each in policies]
    assert [spec["nicSelector"]["pfNames"] for spec in specs] == [["enp11s0np0#" + text], ["enp12s0np0#" + text]]
    assert {(spec["numVfs"], spec["externallyManaged"]) for spec in specs} == {(10, True)}
    assert webhooks.problems(policies) == [] and not [each for one in policies for each in schema.problems(one)]
    plugins = object_components.objects(with_range(text, "cni"), REGISTRY)
    assert any('"pfNames":["enp11s0np0#%s"]' % text in str(each.get("data")) for each in plugins)
    first, last = (int(number) for number in text.split("-"))
    options = {"dpdk": {"rails": ["gpu01"], "vfs": pods - 1}}
    if pods > 1:
        policies = [
            each for each in object_components.objects(plan, options) if each["kind"] == "SriovNetworkNodePolicy"
        ]
        names = [name for each in policies for name in each["spec"]["nicSelector"]["pfNames"]]
        assert "enp11s0np0#%d-%d" % (first + 1, last) in names


def test_a_part_of_the_vfs_is_selected_by_netdev() -> None:
    plan = with_range("5-9", netdev_of=lambda profile, rail: None)
    with pytest.raises(RailyardError, match=r"rails.gpu01.vfs.range.*give the rail's ports a `netdev`"):
        list(object_components.objects(plan))


def test_dpdk_takes_the_last_vfs_of_its_rails() -> None:
    plan = ("spiderpool", "sriov", "prefix")
    options: dict[str, t.Any] = {"dpdk": {"rails": ["gpu02"], "vfs": 3}}
    policies = made("SriovNetworkNodePolicy", *plan, options=options)
    assert names(policies) == ["ai-gpu01-hgx", "ai-gpu02-hgx", "ai-gpu02-hgx-dpdk"]
    assert [each["spec"]["nicSelector"]["pfNames"][0] for each in policies] == [
        "enp11s0np0",
        "enp12s0np0#0-4",
        "enp12s0np0#5-7",
    ]
    assert [each["spec"]["deviceType"] for each in policies] == ["netdevice", "netdevice", "vfio-pci"]
    assert webhooks.problems(policies) == []
    assert [problem for each in policies for problem in schema.problems(each)] == []
    options["dpdk"]["driver"] = "netdevice"
    assert made("SriovNetworkNodePolicy", *plan, options=options)[2]["spec"]["isRdma"] is True
    for count in (0, 8):
        options["dpdk"]["vfs"] = count
        with pytest.raises(RailyardError, match="set it to 1 to 7"):
            made("SriovNetworkNodePolicy", *plan, options=options)
    options["dpdk"] = {"rails": ["gpu2"]}
    with pytest.raises(RailyardError, match=r"rail gpu2 \(did you mean gpu02\?\)\. Remedy: use rails of gpu01, gpu02"):
        made("SriovNetworkNodePolicy", *plan, options=options)
    with pytest.raises(RailyardError, match=r"kubernetes.dpdk.rails: .* Remedy: remove kubernetes_options.dpdk"):
        made("SriovNetworkNodePolicy", "spiderpool", "macvlan", "subnet", options=options)


# -- plain CNI


def conflists(node: str, *plan: t.Any, options: t.Mapping[str, t.Any] | None = None, **more: t.Any) -> list[Object]:
    files = dict(object_components.node_files(document(*plan, **more), options))[node]
    return [json.loads(text) for path, text in files.items() if path.startswith("/etc/cni/multus/net.d/")]


def test_a_definition_is_empty_and_the_node_has_the_file_of_its_name() -> None:
    plan = ("cni", "macvlan", "block")
    definitions = made("NetworkAttachmentDefinition", *plan)
    assert [each["spec"] for each in definitions] == [{}, {}]
    first, second = conflists("hgx-0002", *plan)
    assert [first["name"], second["name"]] == names(definitions)
    assert first["plugins"] == [
        {
            "type": "macvlan",
            "master": "enp11s0np0",
            "mode": "bridge",
            "mtu": 4200,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/railyard/cni",
                "ranges": [
                    [
                        {
                            "subnet": "172.16.11.0/24",
                            "rangeStart": "172.16.11.17",
                            "rangeEnd": "172.16.11.32",
                            "gateway": "172.16.11.254",
                        }
                    ]
                ],
            },
        },
        {
            "type": "railyard-rail",
            "sysctl": {"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2},
            "table": 101,
            "priority": 10001,
            "routes": [{"dst": "0.0.0.0/0", "gw": "172.16.11.254"}],
        },
    ]


def test_profiles_need_no_common_netdev_with_plain_cni() -> None:
    masters = {
        conf["plugins"][0]["master"]
        for node in ("a-0001", "b-0002")
        for conf in conflists(node, "cni", "ipvlan", "block", profile_of=two, netdev_of=differing)
    }
    assert masters == {"a1", "a2", "b1", "b2"}
    assert conflists("hgx-0001", "cni", "ipvlan", "block")[0]["plugins"][0]["mode"] == "l2"


def test_without_a_gateway_no_pod_address_is_lost_to_an_invented_one() -> None:
    plan = document("cni", "macvlan", "block")
    for node in plan["nodes"]:
        for port in node["ports"]:
            port["gateway"] = port["pods"]["gateway"] = None
    text = dict(object_components.node_files(plan))["hgx-0001"]["/etc/cni/multus/net.d/railyard-gpu01-macvlan.conflist"]
    conf = json.loads(text)
    assert conf["plugins"][0]["ipam"]["ranges"][0][0]["gateway"] == "172.16.11.201"
    assert (conf["plugins"][-1]["table"], conf["plugins"][-1]["routes"]) == (101, [])


def test_a_whole_function_goes_into_the_pod_with_its_rdma_device() -> None:
    (conf, _other) = conflists("hgx-0001", "cni", "host-device", "link")
    assert conf["plugins"][0] == {
        "type": "host-device",
        "pciBusID": "0000:0b:00.0",
        "ipam": {"type": "static", "addresses": [{"address": "10.2.0.0/31", "gateway": "10.2.0.1"}]},
    }
    assert conf["plugins"][1] == {"type": "rdma"}
    definitions = made("NetworkAttachmentDefinition", "cni", "host-device", "link")
    assert definitions[0]["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "rdma/gpu01_host_device"}
    # No program hands functions out: the RDMA plugin learns from the file which one it is.
    options = {"device_plugins": False}
    (conf, _other) = conflists("hgx-0001", "cni", "host-device", "link", options=options)
    assert conf["plugins"][1] == {"type": "rdma", "deviceID": "0000:0b:00.0"}
    assert not made("DaemonSet", "cni", "host-device", "link", options=options)


def test_vfs_get_their_mtu_by_tuning_and_routes_without_a_default() -> None:
    (conf, _other) = conflists("hgx-0002", "cni", "sriov", "prefix", cross_rail=False)
    assert conf["plugins"][0]["ipam"]["routes"] == [{"dst": "10.2.0.0/15", "gw": "10.2.0.33"}]
    assert [plugin["type"] for plugin in conf["plugins"]] == ["sriov", "rdma", "railyard-rail"]
    assert conf["plugins"][2]["mtu"] == 4200
    assert conf["plugins"][2]["routes"] == conf["plugins"][0]["ipam"]["routes"]
    (conf, _other) = conflists("hgx-0002", "cni", "sriov", "prefix", routing="destination")
    assert conf["plugins"][2] == {
        "type": "railyard-rail",
        "mtu": 4200,
        "sysctl": {"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2},
    }


def test_device_plugins_are_a_profiles_own_and_restart_when_their_configuration_changes() -> None:
    things = made("DaemonSet", "cni", "macvlan", "block", profile_of=two, netdev_of=differing)
    assert names(things) == ["ai-rdma-shared-device-plugin-a", "ai-rdma-shared-device-plugin-b"]
    digests = {each["spec"]["template"]["metadata"]["annotations"]["railyard.fabric/config"] for each in things}
    assert len(digests) == 2
    other = made("DaemonSet", "cni", "macvlan", "block", options={"rdma_hca_max": 5})
    assert other[0]["spec"]["template"]["metadata"]["annotations"]["railyard.fabric/config"] not in digests
    configs = made("ConfigMap", "cni", "macvlan", "block", profile_of=two, netdev_of=differing)
    assert json.loads(configs[1]["data"]["config.json"])["configList"][0]["selectors"] == {"ifNames": ["b1"]}


# -- NCCL, alerts, pods, nodes

QOS = {
    "priority": 3,
    "trust": "dscp",
    "pfc": [0, 0, 0, 1, 0, 0, 0, 0],
    "tclass": 106,
    "nccl": {"NCCL_IB_TC": "106"},
}


def nccl(**plan: t.Any) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a pod and of a host."""
    whole = document(**plan)
    whole["fabric"]["qos"] = QOS
    config = next(each for each in object_components.objects(whole, REGISTRY) if "nccl.conf" in each.get("data", {}))
    host = dict(object_components.node_files(whole))["hgx-0001"]["/etc/nccl.conf"]
    return _lines(config["data"]["nccl.conf"]), _lines(host)


def _lines(text: str) -> dict[str, str]:
    return {key: value for key, _is, value in (line.partition("=") for line in text.splitlines())}


def test_pods_get_the_names_of_the_rails_devices_if_they_see_others() -> None:
    pod, host = nccl()
    assert pod == {
        "NCCL_IB_HCA": "=mlx5_gpu01:1,mlx5_gpu02:1",
        "NCCL_IB_ROCE_VERSION_NUM": "2",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_TC": "106",
        "NCCL_SOCKET_IFNAME": "=eth0",
    }
    assert host == {key: value for key, value in pod.items() if key != "NCCL_SOCKET_IFNAME"}
    pod, host = nccl(attachment="sriov", mode="prefix", families=(6,))
    assert "NCCL_IB_HCA" not in pod and host["NCCL_IB_HCA"] == "=mlx5_gpu01:1,mlx5_gpu02:1"
    assert pod["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"


def test_rails_without_a_way_between_them_are_not_crossed() -> None:
    pod, _host = nccl(cross_rail=False)
    assert (pod["NCCL_CROSS_NIC"], pod["NCCL_PXN_DISABLE"]) == ("0", "0")
    pod, _host = nccl(attachment="ib-sriov", mode="none")
    assert set(pod) == {"NCCL_SOCKET_IFNAME"}


@pytest.mark.parametrize("attachment", ["macvlan", "sriov", "ipoib", "ib-sriov"])
def test_no_setting_fixes_a_gid_index(attachment: str) -> None:
    text = json.dumps(list(object_components.objects(document("network-operator", attachment, "prefix"), REGISTRY)))
    text += json.dumps(dict(object_components.node_files(document("network-operator", attachment, "prefix"))))
    assert "GID_INDEX" not in text


_PAUSES = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: %s, mtu: 4200}
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253%s}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles: {hgx: {ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}}
nodes: {"ai-[1:2]": {profile: hgx, address: "10.1.16.[1:2]"}}
qos: {%s}
"""


@pytest.mark.parametrize(
    "provider", ["spiderpool", "network-operator, pods_per_node: 8", "agent, slots: {all_rails: 2}"]
)
@pytest.mark.parametrize(
    ("of_rail", "qos", "names"),
    [
        ("", "profile: roce-lossy", ["RailPauseFrames"]),
        (", qos: {profile: multipath}", "profile: roce-lossless", ["RailPauseStorm", "RailPauseFrames"]),
        ("", "profile: roce-lossless", ["RailPauseStorm"]),
        ("", "pfc: []", ["RailPauseStorm"]),
    ],
)
def test_each_pause_frame_is_an_alert_where_the_profile_has_no_pfc(
    provider: str, of_rail: str, qos: str, names: list[str]
) -> None:
    outcome = lint((_PAUSES % (provider, of_rail, qos)).encode())
    assert outcome.plan is not None, [each.text() for each in outcome.findings]
    rendered = object_components.objects(outcome.plan.document(), REGISTRY)
    (rules,) = [each for each in rendered if each["kind"] == "PrometheusRule"]
    pauses = {each["alert"]: each["expr"] for each in rules["spec"]["groups"][0]["rules"] if "Pause" in each["alert"]}
    assert list(pauses) == names
    for name, expression in pauses.items():
        assert expression.endswith(" > 0" if name == "RailPauseFrames" else " > 1000")
        if "network-operator" in provider:
            # all priorities, because none may be paused
            priorities = {int(each) for each in re.findall(r"prio(\d)_pause", expression)}
            assert priorities == (set(range(8)) if name == "RailPauseFrames" else {3})
    if of_rail:
        first, second = ('rail=~"gpu01"', 'rail=~"gpu02"') if "agent" in provider else ("nic1", "nic2")
        assert first in pauses["RailPauseFrames"] and second not in pauses["RailPauseFrames"]
        assert second in pauses["RailPauseStorm"] and first not in pauses["RailPauseStorm"]


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator"])
def test_alerts_are_sound_expressions_on_the_rails_alone(provider: str) -> None:
    plan = document(provider, "macvlan", "prefix", netdev_of=lambda profile, rail: "rail.%d" % rail)
    (rules,) = [each for each in object_components.objects(plan, REGISTRY) if each["kind"] == "PrometheusRule"]
    alerts = rules["spec"]["groups"][0]["rules"]
    expected = ["RailPauseStorm", "RailOutOfSequence", "RailCongestion", "RailAsymmetry", "RailLinkFlap"]
    assert [each["alert"] for each in alerts] == (expected if provider == "spiderpool" else [expected[0], expected[4]])
    for alert in alerts:
        text = re.sub(r'"[^"]*"', '""', alert["expr"])
        for left, right in ("()", "{}", "[]"):
            assert text.count(left) == text.count(right)
        assert "rail[.]1|rail[.]2" in alert["expr"]
        assert alert["annotations"]["description"].endswith(".")
    assert not [
        each
        for each in object_components.objects(plan, {**REGISTRY, "metrics": False})
        if each["apiVersion"].startswith("monitoring")
    ]


AGENT = "agent, slots: {all_rails: 2}"
FOUND = Finding("RV422", "plane-lost", "", "", "", "", 0, 2, None, "", "")
PROBED = {"sent": 1, "received": 1, "loss": 0.0, "rtt_us": 1, "tail_us": 1}
SAMPLE = RailState("gpu01", "pass", True, 0.0, (FOUND,), (), PROBED)
_FAMILIES = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: %s, mtu: 4200}
rails: {gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}}
profiles:
  one: {%sports: {gpu01: {netdev: nic1}}}
  two: {%sports: {gpu01: {netdev: nic1}}}
nodes: {ai-1: {profile: one, address: 10.1.16.1}, ai-2: {profile: two, address: 10.1.16.2}}
"""


def expressions(provider: str, *nics: str | None) -> list[str]:
    """Return the expressions of alerts and of the dashboard. ``nics``: the family of each node's NICs."""
    given = ["nic: %s, " % nic if nic else "" for nic in nics or (None, None)]
    plan = lint((_FAMILIES % (provider, *given)).encode()).plan
    assert plan
    options = {**REGISTRY, "grafana_labels": {"grafana": "1"}}
    objects = {each["kind"]: each for each in object_components.objects(plan.document(), options)}
    found = [rule["expr"] for rule in objects["PrometheusRule"]["spec"]["groups"][0]["rules"]]
    boards = [json.loads(text) for text in objects["ConfigMap"]["data"].values()] if "agent" in provider else []
    return found + [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("provider", ["spiderpool", AGENT])
@pytest.mark.parametrize(
    ("nics", "sent", "received"),
    [
        (("bnxt_re", "bnxt_re"), "np_cnp_sent|tx_cnp_pkts", "rx_vport_rdma_unicast_bytes|rx_bytes"),
        (("ionic", None), "np_cnp_sent|tx_rdma_cnp_pkts", "rx_vport_rdma_unicast_bytes|rx_rdma_ucast_bytes"),
        (
            ("ionic", "bnxt_re"),
            "np_cnp_sent|tx_cnp_pkts|tx_rdma_cnp_pkts",
            "rx_vport_rdma_unicast_bytes|rx_bytes|rx_rdma_ucast_bytes",
        ),
    ],
)
def test_alerts_and_panels_count_what_other_families_name_otherwise(
    provider: str, nics: tuple[str | None, str | None], sent: str, received: str
) -> None:
    usual, found = expressions(provider), expressions(provider, *nics)
    for names in (sent, received):
        counter = "rdma_%s_total{" % names.partition("|")[0]
        uses = [number for number, text in enumerate(usual) if counter in text]
        assert uses and not any(counter in text for text in found)
        assert all('{__name__=~"rdma_(%s)_total",' % names in found[number] for number in uses)
    # pause frames, and the speed that Spiderpool reads, have one name for all families
    alone = {name for text in found for name in re.findall(r"\brdma_(\w+)_total{", text)}
    assert alone - {"vport_speed_mbps"} == {"rx_pause", "tx_pause"}
    # an expression uses each name of a family for a counter that alerts and panels have
    texts, words = " ".join(found), set(re.findall(r"\w+", " ".join(usual)))
    assert all(
        name in texts
        for nic in nics
        if nic
        for counter, name in FAMILIES[nic].counters.items()
        if "rdma_%s_total" % counter in words
    )


def test_expressions_of_mlx5_do_not_change() -> None:
    usual = expressions(AGENT)
    assert expressions(AGENT, "mlx5", "mlx5") == expressions(AGENT, "habanalabs", None) == usual
    assert not any("__name__" in text for text in usual)


def test_irdma_counts_congestion_under_its_own_names() -> None:
    changed = [text for text in expressions(AGENT, "irdma", None) if "__name__" in text]
    assert len(changed) == 2 and all('"rdma_(np_cnp_sent|cnpSent)_total"' in text for text in changed)
    assert '"rdma_(rx_vport_rdma_unicast_packets|RxUDP)_total"' in changed[0]


def health_objects(provider: str, address: str | None, **options: t.Any) -> dict[tuple[str, str], t.Any]:
    plan = lint((_FAMILIES % (provider, "", "")).encode()).plan
    assert plan
    document = plan.document()
    document["fabric"]["health"] = {"interval": 5, "metrics": address}
    given = {**REGISTRY, "grafana_labels": {"grafana": "1"}, **options}
    return {(each["kind"], each["metadata"]["name"]): each for each in object_components.objects(document, given)}


@pytest.mark.parametrize("provider", ["spiderpool", AGENT])
def test_the_health_service_has_alerts_and_one_result_with_each_provider(provider: str) -> None:
    made = health_objects(provider, "*:9466")
    scrape = made["ScrapeConfig", "ai-rails-health"]["spec"]
    assert scrape["relabelings"][1]["replacement"] == "$1:9466" and scrape["honorLabels"]
    rules = made["PrometheusRule", "ai-rails"]["spec"]["groups"][0]["rules"]
    alerts = [rule["alert"] for rule in rules if "alert" in rule]
    assert alerts[-5:] == ["RailFails", "RailDegraded", "RailUnknown", "RailHealthStale", "RailHealthMissing"]
    recorded = {rule["record"]: rule for rule in rules if "record" in rule}
    assert list(recorded) == ["railyard:rails_pass", "railyard:rails_fail", "railyard:fabric_health"]
    # two nodes with a rail each
    assert "< bool 2), 2)" in recorded["railyard:fabric_health"]["expr"]
    # each metric is one that the service exports
    boards = [json.dumps(each) for each in made.values() if each["kind"] == "ConfigMap" and "dashboard" in str(each)]
    used = " ".join([*boards, *(rule["expr"] for rule in rules)])
    exported = health_metrics.text(HealthState("", "ai", "ai-1", "", 0, 0, True, (SAMPLE,), ()).as_dict())
    names = set(re.findall(r"railyard_health_\w+", used))
    assert names and all("# TYPE %s " % name in exported for name in names)
    # of a loopback address, and with the textfile collector, the agent of the cluster's choice collects them
    assert ("ScrapeConfig", "ai-rails-health") not in health_objects(provider, "127.0.0.1:9466")
    assert ("PrometheusRule", "ai-rails") in health_objects(provider, None)
    assert not [kind for kind, _name in health_objects(provider, "*:9466", metrics=False) if kind == "PrometheusRule"]


def test_priorities_that_wait_are_those_of_the_plan() -> None:
    plan = document("cni", "macvlan", "prefix")
    plan["fabric"]["qos"] = dict(QOS, pfc=[0, 0, 0, 0, 0, 1, 0, 0])
    (rules,) = [each for each in object_components.objects(plan, REGISTRY) if each["kind"] == "PrometheusRule"]
    assert "prio5_pause" in rules["spec"]["groups"][0]["rules"][0]["expr"]


def test_pods_ask_for_every_rail_by_the_plans_names() -> None:
    options = {"images": {"test": "registry.example/rdma:1"}}
    (pods,) = made("DaemonSet", "spiderpool", "macvlan", "subnet", options=options)
    template = pods["spec"]["template"]
    assert template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == (
        "kube-system/gpu01-macvlan@net1,kube-system/gpu02-macvlan@net2"
    )
    container = template["spec"]["containers"][0]
    assert container["resources"]["limits"] == {
        "spidernet.io/gpu01_macvlan": "1",
        "spidernet.io/gpu02_macvlan": "1",
    }
    assert {"name": "UCX_NET_DEVICES", "value": "mlx5_gpu01:1,mlx5_gpu02:1"} in container["env"]
    assert not made("DaemonSet", "spiderpool", "macvlan", "subnet")


def test_nodes_are_labelled_and_no_object_is_a_node() -> None:
    plan = document(profile_of=two)
    plan["nodes"][0].update(unit="su1", rack="r7")
    assert object_components.node_labels(plan) == {
        "a-0001": {
            "railyard.fabric/fabric": "ai",
            "railyard.fabric/profile": "a",
            "railyard.fabric/variant": "a",
            "railyard.fabric/unit": "su1",
            "railyard.fabric/rack": "r7",
        },
        "b-0002": {
            "railyard.fabric/fabric": "ai",
            "railyard.fabric/profile": "b",
            "railyard.fabric/variant": "b",
        },
    }
    things = list(object_components.objects(plan, {**REGISTRY, "node_feature_rule": True}))
    rules = [each for each in things if each["kind"] == "NodeFeatureRule"]
    assert things[: len(rules)] == rules and names(rules) == ["ai-a", "ai-b"]
    assert rules[1]["spec"]["rules"][0]["matchFeatures"][0]["matchExpressions"]["nodename"]["value"] == ["b-0002"]
    assert "Node" not in {each["kind"] for each in things}


def test_gpu_memory_reaches_the_nic_in_the_way_that_was_chosen() -> None:
    def driver(**options: t.Any) -> t.Any:
        return object_components.values(document(), options)["gpu-operator"]["driver"]

    assert driver() == {"kernelModuleType": "open", "rdma": {"enabled": False, "useHostMofed": False}}
    assert driver(gpudirect="peermem")["rdma"] == {"enabled": True, "useHostMofed": True}
    assert driver(gpudirect="peermem", driver="container")["rdma"] == {"enabled": True, "useHostMofed": False}
