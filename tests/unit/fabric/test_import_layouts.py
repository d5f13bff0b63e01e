# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests of layouts that clusters have: server models, addresses of ports, charts, bonds, VLANs, parts of VFs."""

from __future__ import annotations

import itertools
import json
import re
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import helm_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text

Document = t.Dict[str, t.Any]
NODES = Options("ai", {"ai-[1:2]": {"address": "10.250.0.[1:2]"}}, mtu=9000)
OPERATOR, SRIOV = "mellanox.com/v1alpha1", "sriovnetwork.openshift.io/v1"
HOSTNAME = "kubernetes.io/hostname"


def imported(
    documents: t.Iterable[t.Any], options: Options = NODES, files: t.Mapping[str, str] | None = None
) -> Outcome:
    texts = {"a.yml": yaml_text.dump_all(documents), **(files or {})}
    return run([(name, text.encode()) for name, text in texts.items()], options)


def data(outcome: Outcome) -> t.Any:
    return yaml_text.load(outcome.text)


def texts(outcome: Outcome, *codes: str) -> list[str]:
    return [each.text() for each in outcome.findings if not codes or each.finding.code in codes]


def codes(outcome: Outcome) -> set[str]:
    return {each.finding.code for each in outcome.findings}


def errors(outcome: Outcome) -> set[str]:
    return {each.finding.code for each in outcome.findings if each.finding.severity == "error"}


def addresses(outcome: Outcome) -> dict[str, list[str]]:
    """Node -> the planned addresses of its ports."""
    plan = lint(outcome.text.encode()).plan
    assert plan is not None, [each.text() for each in outcome.lint] + [outcome.text]
    nodes = plan.document()["nodes"]
    return {node["name"]: [(port["address"] or "").partition("/")[0] for port in node["ports"]] for node in nodes}


def made(api: str, kind: str, name: str, **spec: t.Any) -> Document:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def macvlan(rail: int, master: str, ranges: str = ".10-.199", kind: str = "MacvlanNetwork") -> Document:
    first, last = (("172.16.%d" % rail) + part for part in ranges.split("-"))
    ipam = {"type": "whereabouts", "range": "172.16.%d.0/24" % rail, "range_start": first, "range_end": last}
    ipam["gateway"] = "172.16.%d.254" % rail
    return made(OPERATOR, kind, "rail%d" % rail, master=master, mtu=9000, ipam=json.dumps(ipam))


def policy(name: str, ports: t.Sequence[str], resource: str, **more: t.Any) -> Document:
    spec = {"resourceName": resource, "numVfs": 8, "nicSelector": {"pfNames": list(ports)}, "isRdma": True}
    return made(SRIOV, "SriovNetworkNodePolicy", name, **dict(spec, linkType="eth", mtu=9000, **more))


def vf_network(rail: int, resource: str = "") -> list[Document]:
    ipam = '{"type": "nv-ipam", "poolName": "rail%d", "poolType": "cidrpool"}' % rail
    spec = {"resourceName": resource or "rail%d" % rail, "ipam": ipam, "metaPlugins": '{"type": "rdma"}'}
    pool = {"cidr": "10.%d.0.0/16" % rail, "perNodeNetworkPrefix": 28, "gatewayIndex": 1}
    pool["perNodeExclusions"] = [{"startIndex": 2, "endIndex": 2}]
    pools = made("nv-ipam.nvidia.com/v1alpha1", "CIDRPool", "rail%d" % rail, **pool)
    return [made(SRIOV, "SriovNetwork", "rail%d" % rail, **spec), pools]


# -- case 3: addresses of ports


def nmstate(node: str, netdev: str, *addresses_: str, prefix: int = 24, **more: t.Any) -> Document:
    listed = [{"ip": each, "prefix-length": prefix} for each in addresses_]
    interface = {"name": netdev, "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "address": listed}}
    state = {"interfaces": [dict(interface, **more)]}
    selector = {HOSTNAME: node}
    kind = "NodeNetworkConfigurationPolicy"
    return made("nmstate.io/v1", kind, "%s-%s" % (node, netdev), nodeSelector=selector, desiredState=state)


def _netplan(node: str, netdev: str, address: str) -> dict[str, str]:
    text = "network:\n  version: 2\n  ethernets:\n    %s:\n      addresses: [%s/24]\n      mtu: 9000\n"
    return {"hosts/%s/etc/netplan/60-rails.yaml" % node: text % (netdev, address)}


def _ifcfg(node: str, netdev: str, address: str) -> dict[str, str]:
    text = "DEVICE=%s\nBOOTPROTO=none\nIPADDR=%s\nNETMASK=255.255.255.0\nMTU=9000\n" % (netdev, address)
    return {"%s/ifcfg-%s" % (node, netdev): text}


def _keyfile(node: str, netdev: str, address: str) -> dict[str, str]:
    text = "[connection]\nid=rail\ntype=ethernet\ninterface-name=%s\n[ethernet]\nmtu=9000\n[ipv4]\naddress1=%s/24\n"
    return {"%s/system-connections/rail.nmconnection" % node: text % (netdev, address)}


def _networkd(node: str, netdev: str, address: str) -> dict[str, str]:
    text = "[Match]\nName=%s\n[Link]\nMTUBytes=9000\n[Network]\nAddress=%s/24\n" % (netdev, address)
    return {"%s/etc/systemd/network/10-rail.network" % node: text}


def _cloud_init(node: str, netdev: str, address: str) -> dict[str, str]:
    subnets = "subnets: [{type: static, address: %s, netmask: 255.255.255.0}]" % address
    text = "version: 1\nconfig:\n  - {type: physical, name: %s, mtu: 9000, %s}\n" % (netdev, subnets)
    return {"%s/network-config.yaml" % node: text}


def _cloud_init_2(node: str, netdev: str, address: str) -> dict[str, str]:
    text = "version: 2\nethernets:\n  nic0:\n    set-name: %s\n    match: {macaddress: 'b8:3f:d2:00:00:01'}\n"
    return {"%s/network-config.yaml" % node: text % netdev + "    addresses: [%s/24]\n" % address}


def _plain_nmstate(node: str, netdev: str, address: str) -> dict[str, str]:
    return {"%s.yml" % node: yaml_text.dump_all([nmstate(node, netdev, address)["spec"]["desiredState"]])}


SOURCES = (_netplan, _ifcfg, _keyfile, _networkd, _plain_nmstate, _cloud_init, _cloud_init_2)


@pytest.mark.parametrize("source", ["policy", *SOURCES])
def test_nodes_keep_the_addresses_that_their_files_have(source: t.Any) -> None:
    documents, files = [macvlan(1, "ens1np0")], {}
    for node, address in (("ai-1", "172.16.1.201"), ("ai-2", "172.16.1.202")):
        if source == "policy":
            documents.append(nmstate(node, "ens1np0", address))
        else:
            files.update(source(node, "ens1np0", address))
    outcome = imported(documents, files=files)
    assert data(outcome)["rails"]["rail01"]["hosts"] == "172.16.1.201-172.16.1.253"
    assert addresses(outcome) == {"ai-1": ["172.16.1.201"], "ai-2": ["172.16.1.202"]}
    assert "IM319" not in codes(outcome) and outcome.lint == []


def test_an_index_follows_from_the_addresses() -> None:
    options = Options("ai", {"wa": {}, "wb": {}, "wc": {}}, mtu=9000)
    last = {"wa": 205, "wb": 201, "wc": 210}
    documents = [macvlan(rail, "ens%dnp0" % rail) for rail in (1, 2)]
    documents += [
        nmstate(node, "ens%dnp0" % rail, "172.16.%d.%d" % (rail, octet + 10 * (rail - 1)))
        for node, octet in last.items()
        for rail in (1, 2)
    ]
    outcome = imported(documents, options)
    assert addresses(outcome) == {
        node: ["172.16.1.%d" % octet, "172.16.2.%d" % (octet + 10)] for node, octet in last.items()
    }
    assert not errors(outcome)


def test_addresses_that_fit_no_index_are_listed() -> None:
    documents = [macvlan(rail, "ens%dnp0" % rail) for rail in (1, 2)]
    documents += [nmstate("ai-%d" % node, "ens1np0", "172.16.1.%d" % (200 + node)) for node in (1, 2, 3)]
    documents += [
        nmstate("ai-%d" % node, "ens2np0", "172.16.2.%d" % last) for node, last in ((1, 201), (2, 202), (3, 209))
    ]
    outcome = imported(documents, Options("ai", {"ai-[1:3]": {}}, mtu=9000))
    (text,) = texts(outcome, "IM330")
    assert "ai-3: 172.16.2.209" in text and "172.16.2.201" not in text
    assert "# DECIDE: nodes that have other addresses" in outcome.text
    assert addresses(outcome)["ai-2"] == ["172.16.1.202", "172.16.2.202"]


def test_an_address_of_an_unknown_node_is_asked() -> None:
    files = {"rails.yaml": "network:\n  version: 2\n  ethernets:\n    ens1np0: {addresses: [172.16.1.203/24]}\n"}
    outcome = imported([macvlan(1, "ens1np0")], files=files)
    (text,) = texts(outcome, "IM331")
    assert "172.16.1.203 on ens1np0" in text
    # no other node gets it
    assert not any(address == "172.16.1.203" for own in addresses(outcome).values() for address in own)


def test_a_port_with_an_address_of_the_pool_is_an_error() -> None:
    documents = [macvlan(1, "ens1np0"), *(nmstate("ai-%d" % n, "ens1np0", "172.16.1.%d" % (20 + n)) for n in (1, 2))]
    outcome = imported(documents)
    assert "IM321" in errors(outcome) and outcome.lint == []
    assert addresses(outcome) == {"ai-1": ["172.16.1.21"], "ai-2": ["172.16.1.22"]}


def test_addresses_in_prefixes_of_nodes_give_their_indexes() -> None:
    documents = [policy("rail1", ["ens1np0"], "rail1"), *vf_network(1)]
    documents += [nmstate("ai-%d" % node, "ens1np0", "10.1.0.%d" % (16 * (node + 3) + 2)) for node in (1, 2)]
    outcome = imported(documents)
    assert addresses(outcome) == {"ai-1": ["10.1.0.66"], "ai-2": ["10.1.0.82"]}


@settings(max_examples=40)
@given(
    st.dictionaries(st.integers(1, 30), st.integers(1, 40), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(0, 9),
    st.booleans(),
)
def test_every_node_keeps_its_address_or_is_listed(last: dict[int, int], rails: int, shift: int, ranged: bool) -> None:
    nodes = {"ai-%d" % node: 200 + octet for node, octet in last.items()}
    documents = [macvlan(rail, "ens%dnp0" % rail) for rail in range(1, rails + 1)]
    for (node, octet), rail in itertools.product(nodes.items(), range(1, rails + 1)):
        own = octet + (shift if rail == 2 and ranged else 0)
        documents.append(nmstate(node, "ens%dnp0" % rail, "172.16.%d.%d" % (rail, own)))
    outcome = imported(documents, Options("ai", {node: {} for node in nodes}, mtu=9000))
    if any(each.severity == "error" for each in outcome.lint):
        # nodes that have one address, or more nodes than the range from the first has addresses
        assert "IM330" in errors(outcome) and "# DECIDE: " in outcome.text
        return
    listed = " ".join(texts(outcome, "IM330", "IM321"))
    planned = addresses(outcome)
    changed = []
    for (node, octet), rail in itertools.product(nodes.items(), range(1, rails + 1)):
        own = "172.16.%d.%d" % (rail, octet + (shift if rail == 2 and ranged else 0))
        if planned[node][rail - 1] != own:
            changed.append("%s: %s" % (node, own))
    further = sum(map(int, re.findall(r"and (\d+) more", listed)))
    assert sum(each in listed for each in changed) == len(changed) - further


# -- case 5: link layers


def shared(name: str, netdev: str, *links: str) -> Document:
    selectors = {"vendors": ["15b3"], "ifNames": [netdev], "linkTypes": list(links)}
    return {"resourceName": name, "rdmaHcaMax": 63, "selectors": selectors}


def cluster_policy(*entries: Document, key: str = "configList", **more: t.Any) -> Document:
    plugin = "rdmaSharedDevicePlugin" if key == "configList" else "sriovDevicePlugin"
    config = {plugin: {"config": json.dumps({key: list(entries)})}}
    return made(OPERATOR, "NicClusterPolicy", "nic-cluster-policy", **config, **more)


def test_infiniband_of_shared_devices_refuses_macvlan() -> None:
    documents = [macvlan(1, "ib1"), macvlan(2, "ib2")]
    documents.append(cluster_policy(shared("mlx5_1", "ib1", "infiniband"), shared("mlx5_2", "ib2", "infiniband")))
    outcome = imported(documents)
    found = texts(outcome, "IM511")
    assert len(found) == 2 and all("an IPoIB interface does not support macvlan" in text for text in found)
    assert data(outcome)["fabric"]["attachment"] == "ipoib" and outcome.text.count("# DECIDE: ipoib") == 1


@pytest.mark.parametrize(
    "document",
    [
        nmstate("ai-1", "rdma1", "172.16.1.201", type="infiniband"),
        dict(
            made(SRIOV, "SriovNetworkNodeState", "ai-1"),
            status={"interfaces": [{"name": "rdma1", "pciAddress": "0000:18:00.0", "linkType": "IB"}]},
        ),
        cluster_policy(shared("rail1", "rdma1", "IB")),
        made(
            "configuration.net.nvidia.com/v1alpha1",
            "NicConfigurationTemplate",
            "nics",
            template={"linkType": "Infiniband", "numVfs": 4},
        ),
    ],
)
def test_a_link_type_of_any_source_is_compared_with_the_attachment(document: Document) -> None:
    outcome = imported([macvlan(1, "rdma1"), document])
    assert "IM511" in errors(outcome) and data(outcome)["fabric"]["attachment"] == "ipoib"


@pytest.mark.parametrize("netdev", ["ib0", "ibp24s0", "ibs1", "ibo1"])
def test_names_of_infiniband_ports_are_a_question(netdev: str) -> None:
    outcome = imported([macvlan(1, netdev)])
    assert any("has the name %s, which only InfiniBand ports get" % netdev in text for text in texts(outcome, "IM511"))
    assert "# DECIDE: ipoib, or ib-sriov" in outcome.text
    assert "IM511" not in codes(imported([macvlan(1, "ibex0" if netdev == "ib0" else "ens1np0")]))
    # a known link type decides
    known = imported([macvlan(1, netdev), cluster_policy(shared("rail1", netdev, "ether"))])
    assert "IM511" not in codes(known) and data(known)["fabric"]["attachment"] == "macvlan"


def test_rails_of_two_link_layers_are_one_file() -> None:
    documents = [macvlan(1, "ib1"), macvlan(2, "ens2np0"), macvlan(3, "ens3np0")]
    documents.append(cluster_policy(shared("a", "ib1", "infiniband"), shared("b", "ens2np0", "ether")))
    got = data(imported(documents))
    kinds = [(rail.get("attachment"), rail.get("link_layer")) for rail in got["rails"].values()]
    assert got["fabric"]["attachment"] == "macvlan"
    assert kinds == [("ipoib", "infiniband"), (None, None), (None, None)]


# -- case 7: objects for some nodes only


def two_models() -> list[Document]:
    ports = {"a": ("eth1", "eth2"), "b": ("eth2", "eth4")}
    documents = [
        policy("rail%d-%s" % (rail, model), [names[rail - 1]], "rail%d" % rail, nodeSelector={"node.model": model})
        for model, names in ports.items()
        for rail in (1, 2)
    ]
    return [*documents, *vf_network(1), *vf_network(2)]


def test_policies_by_label_are_server_models() -> None:
    outcome = imported(two_models())
    got = data(outcome)
    assert list(got["rails"]) == ["rail01", "rail02"]
    ports = {name: [port["netdev"] for port in profile["ports"].values()] for name, profile in got["profiles"].items()}
    assert ports == {"server-a": ["eth1", "eth2"], "server-b": ["eth2", "eth4"]}
    assert not codes(outcome) & {"IM406", "IM408"}
    (text,) = texts(outcome, "IM516")
    assert "server-a for nodes with node.model=a; server-b for nodes with node.model=b" in text
    assert "# DECIDE: the profile of each node" in outcome.text
    assert not any("nodeSelector" in each for each in texts(outcome, "IM211"))
    assert {each.code for each in outcome.lint if each.severity == "error"} == set()


def test_models_by_the_names_of_nodes_need_no_question() -> None:
    documents = two_models()
    for document in documents[:4]:
        number = 1 + (document["spec"]["nodeSelector"]["node.model"] == "b")
        document["spec"]["nodeSelector"] = {HOSTNAME: "ai-%d" % number}
    got = data(imported(documents))
    assert got["nodes"]["ai-1"]["profile"] == "server-ai-1" and got["nodes"]["ai-2"]["profile"] == "server-ai-2"
    # with equal ports, one profile is enough
    for document in documents[2:4]:
        document["spec"]["nicSelector"] = documents[int(document["spec"]["resourceName"][-1]) - 1]["spec"][
            "nicSelector"
        ]
    assert list(data(imported(documents))["profiles"]) == ["server"]


@pytest.mark.parametrize("form", ["affinity", "terms", "not in", "shared devices"])
def test_any_selector_separates_objects(form: str) -> None:
    def expression(operator: str) -> Document:
        return {"matchExpressions": [{"key": "rack", "operator": operator, "values": ["a"]}]}

    def of(number: int) -> Document:
        terms: list[Document] = [expression("NotIn" if number else "In")]
        if form == "affinity":
            terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["b" if number else "a"]}]}]
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    documents = [macvlan(1, "eth1"), macvlan(2, "eth2")]
    for number, netdevs in enumerate((("eth1", "eth2"), ("eth2", "eth3"))):
        entries = [shared("rail%d" % rail, name, "ether") for rail, name in enumerate(netdevs, 1)]
        own = made(
            OPERATOR,
            "NicNodePolicy",
            "of-%d" % number,
            rdmaSharedDevicePlugin={"config": json.dumps({"configList": entries})},
            **({"nodeSelector": {"rack": "ab"[number]}} if form == "shared devices" else {"nodeAffinity": of(number)}),
        )
        documents.append(own)
    outcome = imported(documents)
    assert not codes(outcome) & {"IM406", "IM408"} and "IM516" in codes(outcome)
    assert len(data(outcome)["profiles"]) == 2 and len(data(outcome)["rails"]) == 2, outcome.text


def test_configurations_of_daemon_sets_apply_to_their_nodes() -> None:
    documents = [macvlan(1, "eth1"), macvlan(2, "eth2")]
    for model, netdevs in (("a", ("eth1", "eth2")), ("b", ("eth2", "eth4"))):
        entries = [shared("rail%d" % rail, name, "ether") for rail, name in enumerate(netdevs, 1)]
        config = {"config.json": json.dumps({"configList": entries})}
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-" + model}, "data": config})
        pod = {"nodeSelector": {"node.model": model}, "volumes": [{"name": "c", "configMap": {"name": "of-" + model}}]}
        documents.append(made("apps/v1", "DaemonSet", "plugin-" + model, template={"spec": pod}))
    outcome = imported(documents)
    assert list(data(outcome)["profiles"]) == ["server-a", "server-b"] and len(data(outcome)["rails"]) == 2
    assert not codes(outcome) & {"IM406", "IM408"} and "IM516" in errors(outcome)


def test_pools_for_different_nodes_stay_separate() -> None:
    documents = []
    for rack, third in (("a", 1), ("b", 2)):
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]
        spec = {"subnet": "172.16.%d.0/24" % third, "perNodeBlockSize": 16, "gateway": "172.16.%d.254" % third}
        spec["nodeSelector"] = {"nodeSelectorTerms": terms}
        documents.append(made("nv-ipam.nvidia.com/v1alpha1", "IPPool", "rail1-" + rack, **spec))
        ipam = '{"type": "nv-ipam", "poolName": "rail1-%s"}' % rack
        documents.append(made(OPERATOR, "MacvlanNetwork", "rail1-" + rack, master="ens1np0", mtu=9000, ipam=ipam))
    outcome = imported(documents)
    (text,) = texts(outcome, "IM308")
    assert "rail1-a (rack=a) and rail1-b (rack=b) of one rail select different nodes" in text
    assert "IM510" not in codes(outcome)


def test_one_network_numbered_by_node() -> None:
    entries = [{"resourceName": "rail%d" % rail, "selectors": {"pfNames": ["gpu0%d" % rail]}} for rail in (1, 2)]
    documents = [made(OPERATOR, "HostDeviceNetwork", "rail%d" % rail, resourceName="rail%d" % rail) for rail in (1, 2)]
    documents.append(cluster_policy(*entries, key="resourceList"))
    for node, rail in itertools.product((1, 2), (1, 2)):
        address = "10.248.0.%d" % ((node - 1) * 2 + rail)
        documents.append(nmstate("ai-%d" % node, "gpu0%d" % rail, address, prefix=16))
    outcome = imported(documents)
    assert data(outcome)["rails"]["rail02"]["numbering"] == "node" and not errors(outcome)
    assert addresses(outcome) == {"ai-1": ["10.248.0.1", "10.248.0.2"], "ai-2": ["10.248.0.3", "10.248.0.4"]}


def test_overlapping_selectors_are_still_compared() -> None:
    documents = [
        policy("rail1", ["eth1"], "rail1", nodeSelector={"node.model": "a"}),
        policy("more", ["eth2"], "rail1", nodeSelector={"gpu": "h100"}),
        *vf_network(1),
    ]
    assert "IM406" in codes(imported(documents))


def test_resource_names_by_model_are_a_template() -> None:
    documents = two_models()
    for document in documents[:4]:
        spec = document["spec"]
        spec["resourceName"] += "_server_" + spec["nodeSelector"]["node.model"]
    outcome = imported(documents)
    assert data(outcome)["names"]["resource"] == "rail{n}_{profile}"
    plan = lint(outcome.text.encode()).plan
    assert plan is not None and len(data(outcome)["rails"]) == 2
    resources = [port["names"]["resource"] for port in plan.document()["nodes"][0]["ports"]]
    assert resources == ["rail1_server_a", "rail2_server_a"]


# -- case 9: Helm values


OPERATOR_VALUES = {
    "deployCR": True,
    "rdmaSharedDevicePlugin": {
        "deploy": True,
        "resources": [{"name": "rdma_shared_device_a", "vendors": ["15b3"], "deviceIDs": ["1017", "1021"]}],
    },
}


def test_values_of_the_network_operator() -> None:
    networks = [macvlan(1, "ens1np0"), macvlan(2, "ens2np0")]
    outcome = imported([*networks, OPERATOR_VALUES])
    assert {"IM405", "IM406", "IM515"} <= codes(outcome) and "# DECIDE: provider" in outcome.text
    (text,) = texts(outcome, "IM405")
    assert "rdma_shared_device_a selects no port by ifNames, but every port by vendors, deviceIDs" in text
    assert "rdma/rdma_shared_device_a" in outcome.text
    # as the ConfigMap with the same resource
    entry = {"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63}
    entry["selectors"] = {"vendors": ["15b3"], "deviceIDs": ["1017", "1021"]}
    same = imported([*networks, {"configList": [entry]}])
    assert errors(same) == errors(outcome) and "rdma/rdma_shared_device_a" in same.text


@pytest.mark.parametrize(
    ("values", "chart"),
    [
        (OPERATOR_VALUES, "network-operator"),
        ({"nfd": {"enabled": True}, "ofedDriver": {"deploy": True}}, "network-operator"),
        ({"devicePlugin": {"deploy": True, "resources": [{"name": "hca", "vendors": ["15b3"]}]}}, "network-operator"),
        (
            {"operator": {"resourcePrefix": "openshift.io"}, "sriovOperatorConfig": {"deploy": True}},
            "sriov-network-operator",
        ),
        ({"driver": {"rdma": {"enabled": True}}, "devicePlugin": {"enabled": True}}, "gpu-operator"),
        ({"toolkit": {"enabled": True}, "operator": {"defaultRuntime": "containerd"}}, "gpu-operator"),
        ({"rdma": {"rdmaSharedDevicePlugin": {"install": True}}}, "spiderpool"),
        ({"sriov": {"install": True}, "ipam": {"enableIPv4": True}}, "spiderpool"),
        ({"feature": {"enableIPv4": True}, "multus": {"multusCNI": {"install": True}}}, "spiderpool"),
        ({"rdmaSharedDevicePlugin": {"image": "x"}}, None),
        ({"operator": {"image": "x"}, "nfd": {}}, None),
    ],
)
def test_values_are_recognized_by_their_chart(values: Document, chart: str | None) -> None:
    root = t.cast(t.Any, _root(values))
    assert helm_values.chart_of(root) == chart
    outcome = imported([macvlan(1, "ens1np0"), values])
    signs = data(outcome)["fabric"]["provider"], codes(outcome)
    if chart not in ("spiderpool", None) or "rdmaSharedDevicePlugin" in values:
        # the networks are the Network Operator's, with an address manager that its provider does not use
        assert signs[0] == "spiderpool" and "IM515" in signs[1]
    if chart is None and "rdmaSharedDevicePlugin" in values:
        assert "IM112" in errors(outcome)


def _root(values: Document) -> t.Any:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source

    document = yaml_source.parse(yaml_text.dump_all([values]).encode(), Report())
    assert document is not None
    return document.root


def test_values_below_the_name_of_their_chart() -> None:
    entries = [{"name": "rail%d" % rail, "vendors": ["15b3"], "ifNames": ["ens%dnp0" % rail]} for rail in (1, 2)]
    values = {"network-operator": {"rdmaSharedDevicePlugin": {"deploy": True, "resources": entries}}}
    outcome = imported([macvlan(1, "ens1np0"), macvlan(2, "ens2np0"), values])
    names = data(outcome)["names"]
    assert (names["resource"], names["resource_prefix"]) == ("rail{n}", "rdma")
    assert not codes(outcome) & {"IM405", "IM406"}


def test_resources_of_policies_get_the_operators_prefix() -> None:
    values = {"operator": {"resourcePrefix": "example.com"}, "sriovOperatorConfig": {"deploy": True}}
    outcome = imported([policy("rail1", ["ens1np0"], "rail1"), *vf_network(1), values])
    assert data(outcome)["names"]["resource_prefix"] == "example.com"


# -- case 10: VFs of others


def parted(*ports: str, **more: t.Any) -> list[Document]:
    return [policy("rail1", ports, "rail1", **dict({"numVfs": 10, "externallyManaged": True}, **more)), *vf_network(1)]


@pytest.mark.parametrize("part", ["5-9", "0-4", "3-3"])
def test_a_part_of_the_vfs_stays_a_part(part: str) -> None:
    outcome = imported(parted("ens3f0#" + part))
    assert data(outcome)["fabric"]["vfs"] == {"count": 10, "range": part}
    assert "IM518" in codes(outcome) and "# CHECK: pods get only the VFs of the range" in outcome.text
    plan = lint(outcome.text.encode()).plan
    assert plan is not None
    first, last = (int(number) for number in part.split("-"))
    (port, *_rest) = plan.document()["nodes"][0]["ports"]
    assert [row["index"] for row in port["vfs"]["attributes"]] == list(range(first, last + 1))


def test_the_parts_of_two_owners_count_once() -> None:
    other = policy("dpdk", ["ens3f0#0-4"], "dpdk", numVfs=10, deviceType="vfio-pci", isRdma=False)
    for documents in ([other, *parted("ens3f0#5-9")], [*parted("ens3f0#5-9"), other]):
        outcome = imported(documents)
        assert data(outcome)["fabric"]["vfs"] == {"count": 10, "range": "5-9"}
        assert not codes(outcome) & {"IM406", "IM408", "IM519"} and len(data(outcome)["rails"]) == 1


@pytest.mark.parametrize(
    "documents",
    [
        parted("ens3f0", deviceType="vfio-pci"),
        [policy("dpdk", ["ens3f0#0-7"], "dpdk", deviceType="vfio-pci"), *parted("ens3f0#5-9")],
        parted("ens3f0#0-3", "ens4f0#5-9"),
        [
            {
                "resourceList": [
                    {"resourceName": "rail1", "selectors": {"pfNames": ["ens3f0"], "drivers": ["vfio-pci"]}}
                ]
            },
            *vf_network(1),
        ],
    ],
)
def test_vfs_that_the_plan_would_take_from_another_owner_are_errors(documents: list[Document]) -> None:
    outcome = imported(documents)
    assert "IM519" in errors(outcome) and "# DECIDE: which VFs have another owner" in outcome.text


def test_a_part_in_the_device_plugins_configuration() -> None:
    entry = {"resourceName": "rail1", "selectors": {"pfNames": ["ens3f0#2-5"], "isRdma": True}}
    outcome = imported([cluster_policy(entry, key="resourceList"), *vf_network(1)])
    assert data(outcome)["fabric"]["vfs"] == {"count": 6, "range": "2-5"}


# -- bonds and VLANs


BOND = {
    "name": "bond0",
    "type": "bond",
    "link-aggregation": {"mode": "802.3ad", "port": ["ens1f0", "ens1f1"], "options": {"xmit_hash_policy": "layer3+4"}},
}
STACKS = {
    "bond0": {"bond": {"name": "bond0", "mode": "802.3ad", "hash_policy": "layer3+4", "members": ["ens1f0", "ens1f1"]}},
    "bond0.100": {"vlan": 100, "bond": {"name": "bond0", "mode": "802.3ad", "hash_policy": "layer3+4",
                                        "members": ["ens1f0", "ens1f1"]}},
    "ens1np0.7": {"netdev": "ens1np0", "vlan": 7},
    "storage": {"netdev": "ens1np0", "vlan": {"id": 8, "name": "storage"}},
}  # fmt: skip


@pytest.mark.parametrize("master", STACKS)
@pytest.mark.parametrize("kind", ["MacvlanNetwork", "NetworkAttachmentDefinition", "SpiderMultusConfig"])
def test_bonds_and_vlans_are_interfaces_that_others_make(master: str, kind: str) -> None:
    vlan = {"name": "storage", "type": "vlan", "vlan": {"base-iface": "ens1np0", "id": 8}}
    state = made("nmstate.io/v1", "NodeNetworkConfigurationPolicy", "rails", desiredState={"interfaces": [BOND, vlan]})
    network = macvlan(1, master)
    if kind == "NetworkAttachmentDefinition":
        config = {"type": "macvlan", "master": master, "ipam": json.loads(network["spec"]["ipam"])}
        network = made("k8s.cni.cncf.io/v1", kind, "rail1", config=json.dumps(config))
    elif kind == "SpiderMultusConfig":
        spider = "spiderpool.spidernet.io/v2beta1"
        section = {"master": [master], "ippools": {"ipv4": ["rail1"]}, "rdmaResourceName": "spidernet.io/rail1"}
        pool = {"subnet": "172.16.1.0/24", "ips": ["172.16.1.10-172.16.1.199"], "gateway": "172.16.1.254"}
        network = made(spider, kind, "rail1", cniType="macvlan", macvlan=section)
        state = [state, made(spider, "SpiderIPPool", "rail1", **pool)]  # type: ignore[assignment]
    outcome = imported([network, *(state if isinstance(state, list) else [state])])
    port = data(outcome)["profiles"]["server"]["ports"]["rail01"]
    if "bond" in port:
        port["bond"]["members"] = [member["netdev"] for member in port["bond"]["members"]]
    assert port == dict(STACKS[master], managed=False)
    assert "IM520" in codes(outcome) and [each.text() for each in outcome.lint if each.severity == "error"] == []


def test_two_vlans_of_one_port_are_two_rails() -> None:
    ports = data(imported([macvlan(1, "ens1np0.101"), macvlan(2, "ens1np0.102")]))["profiles"]["server"]["ports"]
    assert [(port["netdev"], port["vlan"]) for port in ports.values()] == [("ens1np0", 101), ("ens1np0", 102)]


def test_a_bond_of_unknown_members_is_asked() -> None:
    outcome = imported([macvlan(1, "bond0")])
    assert "IM521" in errors(outcome) and "# DECIDE: the members of bond0" in outcome.text


def test_spiderpools_own_bond() -> None:
    spider = "spiderpool.spidernet.io/v2beta1"
    section = {"master": ["ens1f0", "ens1f1"], "bond": {"name": "bond7", "mode": 1}, "vlanID": 100}
    section.update(ippools={"ipv4": ["rail1"]}, rdmaResourceName="spidernet.io/rail1")
    pool = made(spider, "SpiderIPPool", "rail1", subnet="172.16.1.0/24", ips=["172.16.1.10-172.16.1.199"])
    outcome = imported([pool, made(spider, "SpiderMultusConfig", "rail1", cniType="macvlan", macvlan=section)])
    port = data(outcome)["profiles"]["server"]["ports"]["rail01"]
    assert port["bond"]["mode"] == "active-backup" and port["vlan"] == 100 and port["managed"] is False
    assert [member["netdev"] for member in port["bond"]["members"]] == ["ens1f0", "ens1f1"]


@pytest.mark.parametrize(
    "files",
    [
        {
            "ai-1/bond0.netdev": "[NetDev]\nName=bond0\nKind=bond\n[Bond]\nMode=active-backup\n",
            "ai-1/1.network": "[Match]\nName=ens1f0 ens1f1\n[Network]\nBond=bond0\n",
            "ai-1/2.network": "[Match]\nName=bond0\n[Network]\nAddress=172.16.1.201/24\n",
        },
        {
            "ai-1/ifcfg-bond0": "DEVICE=bond0\nTYPE=Bond\nBONDING_OPTS='mode=1 miimon=100'\n"
            "IPADDR=172.16.1.201\nPREFIX=24\n",
            "ai-1/ifcfg-ens1f0": "DEVICE=ens1f0\nMASTER=bond0\nSLAVE=yes\n",
            "ai-1/ifcfg-ens1f1": "DEVICE=ens1f1\nMASTER=bond0\nSLAVE=yes\n",
        },
        {
            "ai-1/bond0.nmconnection": "[connection]\ntype=bond\ninterface-name=bond0\n[bond]\nmode=active-backup\n"
            "[ipv4]\naddress1=172.16.1.201/24,172.16.1.254\n",
            "ai-1/a.nmconnection": "[connection]\ninterface-name=ens1f0\nmaster=bond0\nslave-type=bond\n",
            "ai-1/b.nmconnection": "[connection]\ninterface-name=ens1f1\ncontroller=bond0\nport-type=bond\n",
        },
        {
            "ai-1/netplan.yaml": "network:\n  bonds:\n    bond0:\n      interfaces: [ens1f0, ens1f1]\n"
            "      addresses: [172.16.1.201/24]\n      parameters: {mode: active-backup}\n"
        },
    ],
)
def test_members_of_a_bond_come_from_the_nodes_files(files: dict[str, str]) -> None:
    outcome = imported([macvlan(1, "bond0")], files=files)
    bond = data(outcome)["profiles"]["server"]["ports"]["rail01"]["bond"]
    members = [{"netdev": "ens1f0"}, {"netdev": "ens1f1"}]
    assert bond == {"name": "bond0", "mode": "active-backup", "members": members}
    assert addresses(outcome)["ai-1"] == ["172.16.1.201"]


# -- what the import writes has no error that the import made


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Document], dict[str, str]]:
    """Manifests and files of one cluster, with layouts of many kinds."""
    kind = draw(st.sampled_from(["whereabouts", "blocks", "vfs", "spiderpool"]))
    documents: list[Document] = []
    files: dict[str, str] = {}
    for rail in range(1, draw(st.integers(1, 3)) + 1):
        port = "ens%dnp0" % rail
        master = draw(st.sampled_from([port] * 4 + [port + ".7", "bond%d" % rail, "bond%d.9" % rail, "ib%d" % rail]))
        if kind == "whereabouts":
            documents.append(macvlan(rail, master, draw(st.sampled_from([".10-.199", ".1-.253", ".0-.255"]))))
        elif kind == "blocks":
            ipam = '{"type": "nv-ipam", "poolName": "rail%d"}' % rail
            documents.append(made(OPERATOR, "MacvlanNetwork", "rail%d" % rail, master=master, mtu=9000, ipam=ipam))
            spec: Document = {"subnet": "172.16.%d.0/24" % rail, "perNodeBlockSize": 32}
            spec["gateway"] = "172.16.%d.%d" % (rail, draw(st.sampled_from([1, 254])))
            if draw(st.booleans()):
                ends = [{"startIP": "172.16.%d.%d", "endIP": "172.16.%d.%d"}]
                pairs = draw(st.sampled_from([(0, 9), (1, 1), (250, 255), (100, 120)]))
                spec["exclusions"] = [
                    {"startIP": each["startIP"] % (rail, pairs[0]), "endIP": each["endIP"] % (rail, pairs[1])}
                    for each in ends
                ]
            documents.append(made("nv-ipam.nvidia.com/v1alpha1", "IPPool", "rail%d" % rail, **spec))
        elif kind == "spiderpool":
            spider = "spiderpool.spidernet.io/v2beta1"
            section = {"master": [master], "ippools": {"ipv4": ["rail%d" % rail]}}
            documents.append(made(spider, "SpiderMultusConfig", "rail%d" % rail, cniType="macvlan", macvlan=section))
            pool = {"subnet": "172.16.%d.0/24" % rail, "ips": ["172.16.%d.1-172.16.%d.199" % (rail, rail)]}
            pool["excludeIPs"] = draw(st.sampled_from([[], ["172.16.%d.1-172.16.%d.20" % (rail, rail)]]))
            documents.append(made(spider, "SpiderIPPool", "rail%d" % rail, gateway="172.16.%d.254" % rail, **pool))
        else:
            part = draw(st.sampled_from(["", "#0-3", "#4-7", "#0-7"]))
            models = draw(st.sampled_from([[None], ["a", "b"]]))
            for at, model in enumerate(models):
                more = {"nodeSelector": {"node.model": model}} if model else {}
                name = "ens%dnp%d%s" % (rail, at, part)
                documents.append(policy("rail%d%s" % (rail, model or ""), [name], "rail%d" % rail, **more))
            documents.extend(vf_network(rail))
        for node in draw(st.lists(st.integers(1, 4), max_size=3, unique=True)):
            octet = draw(st.sampled_from([node + 200, node + 200, node + 20, 254 - node, 201]))
            address = "172.16.%d.%d" % (rail, octet) if kind != "vfs" else "10.%d.0.%d" % (rail, 16 * node + 2)
            if draw(st.booleans()):
                documents.append(nmstate("ai-%d" % node, master, address))
            else:
                files.update(draw(st.sampled_from(SOURCES[:4]))("ai-%d/%d" % (node, rail), master, address))
        if draw(st.booleans()):
            members = ["ens%df%d" % (rail, at) for at in (0, 1)]
            bond = dict(BOND, name="bond%d" % rail, **{"link-aggregation": {"mode": "active-backup", "port": members}})
            state = {"interfaces": [bond]}
            kind_of = "NodeNetworkConfigurationPolicy"
            documents.append(made("nmstate.io/v1", kind_of, "bond%d" % rail, desiredState=state))
    documents.extend(draw(st.sampled_from([[], [], [OPERATOR_VALUES], [{"sriov": {"install": True}}]])))
    return documents, files


@settings(max_examples=60)
@given(worlds())
def test_an_error_of_lint_is_a_question_of_the_import(world: tuple[list[Document], dict[str, str]]) -> None:
    documents, files = world
    outcome = imported(documents, Options("ai", {"ai-[1:4]": {"address": "10.250.0.[1:4]"}}, mtu=9000), files)
    wrong = [each for each in outcome.lint if each.severity == "error"]
    if wrong:
        assert errors(outcome) and "# DECIDE: " in outcome.text, [each.text() for each in wrong] + [outcome.text]
        # no line of the file was wrong before the questions are answered
        assert {each.code for each in wrong} <= {"RY111", "RY313", "RY314", "RY450"}, [
            [each.text() for each in wrong],
            outcome.text,
            [each.text() for each in outcome.findings],
        ]


# -- maps of PCI addresses


def test_ports_get_the_pci_addresses_that_operators_report() -> None:
    state = made(SRIOV, "SriovNetworkNodeState", "ai-1")
    state["status"] = {"interfaces": [{"name": "ens1np0", "pciAddress": "0000:18:00.0", "linkType": "ETH"}]}
    ports = data(imported([macvlan(1, "ens1np0"), state]))["profiles"]["server"]["ports"]
    assert ports == {"rail01": {"netdev": "ens1np0", "pci": "0000:18:00.0"}}


def test_the_map_of_rails_gives_pci_addresses() -> None:
    template = made(
        "configuration.net.nvidia.com/v1alpha1",
        "NicInterfaceNameTemplate",
        "names",
        pfsPerNic=1,
        netDevicePrefix="eth_r%rail_id%",
        rdmaDevicePrefix="roce_r%rail_id%",
        railPciAddresses=[["0000:1a:00.0"], ["0000:2a:00.0"]],
    )
    ports = data(imported([macvlan(1, "eth_r0"), macvlan(2, "eth_r1"), template]))["profiles"]["server"]["ports"]
    assert [(port["netdev"], port["pci"], port["rdma"]) for port in ports.values()] == [
        ("eth_r0", "0000:1a:00.0", "roce_r0"),
        ("eth_r1", "0000:2a:00.0", "roce_r1"),
    ]


@pytest.mark.parametrize(("address", "planes"), [("0000:1a:00.0", 9), ("0000:1a:00.0", 99999), ("0000:1a:00.7", 2)])
def test_functions_above_seven_are_reported(address: str, planes: int) -> None:
    template = made(
        "configuration.net.nvidia.com/v1alpha1",
        "NicInterfaceNameTemplate",
        "names",
        pfsPerNic=planes,
        netDevicePrefix="eth_p%plane_id%",
        rdmaDevicePrefix="roce_p%plane_id%",
        railPciAddresses=[[address]],
    )
    outcome = imported([macvlan(1, "eth_p0"), template])
    (text,) = texts(outcome, "IM209")
    assert "pfsPerNic is %d, but a PCI device has the functions 0 to 7 only" % planes in text and address in text
    assert data(outcome)["profiles"]["server"]["ports"]["rail01"]["pci"] == address


@pytest.mark.parametrize("mask", ["255.0.255.0", "255.255.255.1", "0.0.0.255"])
@pytest.mark.parametrize("source", [_ifcfg, _cloud_init])
def test_an_invalid_netmask_gives_no_address(source: t.Any, mask: str) -> None:
    documents = [macvlan(1, "ens1np0")]
    files = {
        path: text.replace("255.255.255.0", mask) for path, text in source("ai-1", "ens1np0", "172.16.1.201").items()
    }
    outcome = imported(documents, files=files)
    assert data(outcome)["rails"]["rail01"].get("hosts") != "172.16.1.201-172.16.1.253"
