# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The import as a whole: nothing is lost without a finding, and no address has two owners."""

from __future__ import annotations

import copy
import ipaddress
import json
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output import import_run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "manifests"
NODES = Options("ai", {"ai-[1:2]": {"address": "10.250.0.[1:2]"}}, mtu=4200)
SPIDER = "spiderpool.spidernet.io/v2beta1"


def imported(documents: t.Iterable[t.Any], options: Options = NODES) -> Outcome:
    return run([("a.yml", yaml_text.dump_all(documents).encode())], options)


def texts(outcome: Outcome, *codes: str) -> list[str]:
    return [each.text() for each in outcome.findings if not codes or each.finding.code in codes]


def pool(name: str, spec: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"apiVersion": SPIDER, "kind": "SpiderIPPool", "metadata": {"name": name}, "spec": dict(spec)}


def network(rail: int, pools: t.Sequence[str]) -> dict[str, t.Any]:
    section = {"master": ["eth%d" % rail], "mtu": 4200, "rdmaResourceName": "spidernet.io/gpu%d" % rail}
    spec = {"cniType": "macvlan", "macvlan": dict(section, ippools={"ipv4": list(pools)})}
    metadata = {"name": "gpu%d-macvlan" % rail, "namespace": "x"}
    return {"apiVersion": SPIDER, "kind": "SpiderMultusConfig", "metadata": metadata, "spec": spec}


# -- nothing is lost

_FILES = ("network-operator.yml", "dual-stack.yml", "host-device-links.yml", "nv-ipam-blocks.yml")
_DOCUMENTS = [list(yaml_text.load_all((RECORDINGS / name).read_text(encoding="utf-8"))) for name in _FILES]


def _mappings(value: t.Any, path: str) -> t.Iterator[tuple[dict[str, t.Any], str]]:
    if isinstance(value, dict):
        yield value, path
        for key, entry in value.items():
            yield from _mappings(entry, "%s.%s" % (path, key) if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from _mappings(item, path + "[]")


@settings(max_examples=max(50, settings.default.max_examples))
@given(
    st.sampled_from(range(len(_DOCUMENTS))),
    st.integers(0, 200),
    st.from_regex(r"\Ax[a-z]{3}Extra\Z"),
    st.from_regex(r"\Av[a-z]{6}q\Z"),
    st.sampled_from(["value", "list", "mapping"]),
)
def test_any_further_field_is_a_finding(which: int, at: int, key: str, value: str, shape: str) -> None:
    documents = copy.deepcopy(_DOCUMENTS[which])
    places = [
        (body, path, document)
        for document in documents
        for body, path in _mappings(document, "")
        if path.startswith("spec") or path in ("", "metadata")
    ]
    body, path, document = places[at % len(places)]
    body[key] = {"value": value, "list": [value], "mapping": {"inner": value}}[shape]
    reported = [text for text in texts(imported(documents), "IM204", "IM211") if key in text]
    assert len(reported) == 1, reported
    assert value in reported[0] and document["kind"] in reported[0] and document["metadata"]["name"] in reported[0]
    # a short mapping of which nothing is read is one value, with its keys
    whole = "%s.%s" % (path, key) if path else key
    assert whole in reported[0] or (path in reported[0] and key + ": " in reported[0])


@given(st.sampled_from(range(len(_DOCUMENTS))), st.from_regex(r"\A[A-Z][a-z]{9}\Z"), st.integers(1, 8))
def test_any_further_object_is_a_finding(which: int, kind: str, number: int) -> None:
    group = ["example.com/v1", "v1", "mellanox.com/v1alpha1", SPIDER][number % 4]
    more = [
        {"apiVersion": group, "kind": kind, "metadata": {"name": "further-%d" % each}, "spec": {"a": "b"}}
        for each in range(1, number + 1)
    ]
    reported = [text for text in texts(imported(_DOCUMENTS[which] + more), "IM212") if kind in text]
    assert len(reported) == 1 and "further-1" in reported[0]


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (SPIDER, "SpiderSubnet"),
        ("sriovnetwork.openshift.io/v1", "OVSNetwork"),
        ("sriovnetwork.openshift.io/v1", "SriovNetworkPoolConfig"),
        ("apps/v1", "Deployment"),
    ],
)
def test_kinds_that_are_not_read_are_findings(group: str, kind: str) -> None:
    document = {"apiVersion": group, "kind": kind, "metadata": {"name": "one"}, "spec": {"a": 1}}
    assert any("%s is not imported: one" % kind in text for text in texts(imported([*_DOCUMENTS[0], document])))


def test_fields_of_the_api_server_give_no_finding() -> None:
    documents = copy.deepcopy(_DOCUMENTS[0])
    before = texts(imported(documents))
    for document in documents:
        document["metadata"].update(
            uid="x", resourceVersion="1", creationTimestamp="2026-01-01T00:00:00Z", generation=2,
            managedFields=[{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            ownerReferences=[{"kind": "X", "name": "y"}],
            annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        )  # fmt: skip
        document["status"] = {"state": "ready", "counts": [1, 2]}
    assert [text.split(" ", 1)[1] for text in texts(imported(documents))] == [text.split(" ", 1)[1] for text in before]


def test_equal_fields_of_eight_objects_are_one_finding() -> None:
    documents = []
    for rail in range(1, 9):
        subnet = "10.%d.0.0/24" % rail
        documents.append(pool("p%d" % rail, {"subnet": subnet, "ips": ["10.%d.0.9" % rail], "podAffinity": {"a": "b"}}))
        documents.append(network(rail, ["p%d" % rail]))
    outcome = imported(documents)
    (reported,) = [each for each in outcome.findings if "podAffinity" in each.text()]
    assert "b (p1 to p8)" in reported.text() and len(reported.also) == 7 and len(reported.as_dict()["also"]) == 7


# -- what is carried over

_NICS: dict[str, t.Any] = {
    "apiVersion": "configuration.net.nvidia.com/v1alpha1",
    "kind": "NicConfigurationTemplate",
    "metadata": {"name": "nics"},
    "spec": {
        "template": {
            "numVfs": 4,
            "linkType": "Ethernet",
            "pciPerformanceOptimized": {"enabled": True, "maxReadRequest": 4096},
            "roceOptimized": {"enabled": True, "qos": {"trust": "dscp", "pfc": "0,0,0,0,1,0,0,0", "tos": 128}},
        }
    },
}


def test_nic_settings_become_qos_pci_and_firmware() -> None:
    outcome = imported([*_DOCUMENTS[2], _NICS])
    got = yaml_text.load(outcome.text)
    assert got["qos"] == {"priority": 4, "dscp": 32, "trust": "dscp"}
    assert got["profiles"]["server"]["pci"] == {"max_read_request": 4096}
    assert got["profiles"]["server"]["firmware"] == {"num_of_vfs": 4}
    assert not texts(outcome, "IM211") and "error" not in {finding.severity for finding in outcome.lint}
    # without PCI addresses the firmware's tools know no card
    other = imported([*_DOCUMENTS[0], _NICS])
    assert "firmware" not in yaml_text.load(other.text)["profiles"]["server"]
    assert any("num_of_vfs: 4 needs the PCI addresses" in text for text in texts(other, "IM209"))


def test_nic_settings_without_pfc_are_the_lossy_profile() -> None:
    lossy = copy.deepcopy(_NICS)
    lossy["spec"]["template"]["roceOptimized"]["qos"]["pfc"] = "0,0,0,0,0,0,0,0"
    outcome = imported([*_DOCUMENTS[2], lossy])
    assert yaml_text.load(outcome.text)["qos"] == {"profile": "roce-lossy", "dscp": 32, "trust": "dscp"}
    assert "error" not in {finding.severity for finding in outcome.lint}
    # of two templates that differ, the first is used, and the PFC of the other stays unread
    second = copy.deepcopy(_NICS)
    second["metadata"]["name"] = "other"
    outcome = imported([*_DOCUMENTS[2], lossy, second])
    assert yaml_text.load(outcome.text)["qos"]["profile"] == "roce-lossy"
    assert any("pfc" in text for text in texts(outcome, "IM211"))


def test_a_driver_container_is_the_driver() -> None:
    documents = copy.deepcopy(_DOCUMENTS[0])
    documents[0]["spec"]["ofedDriver"] = {"version": "25.04", "upgradePolicy": {"autoUpgrade": True}}
    outcome = imported(documents)
    assert yaml_text.load(outcome.text)["profiles"]["server"]["driver"] == {"kind": "container"}
    assert len([text for text in texts(outcome, "IM211") if "spec.ofedDriver" in text]) >= 1


def test_rails_are_in_the_order_of_their_names_and_keep_both_identities() -> None:
    entries = (
        '{"resourceName": "hostdev_r1", "selectors": {"pfNames": ["r1"], "pciAddresses": ["0000:1a:00.0"]}},'
        '{"resourceName": "hostdev_r2", "selectors": {"pciAddresses": ["0000:0c:00.0"]}}'
    )
    policy = {"sriovDevicePlugin": {"config": '{"resourceList": [%s]}' % entries}}
    documents: list[dict[str, t.Any]] = [
        {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "p"}, "spec": policy}
    ]
    got = yaml_text.load(imported(documents).text)
    assert got["profiles"]["server"]["ports"] == {
        "rail01": {"netdev": "r1", "pci": "0000:1a:00.0"},
        "rail02": {"pci": "0000:0c:00.0"},
    }
    assert got["names"]["resource"] == "hostdev_r{n}"


def test_names_with_letters_are_kept_by_rail() -> None:
    documents = []
    for rail, letter in enumerate("abc", 1):
        subnet = "10.%d.0.0/24" % rail
        documents.append(pool("pool-%s" % letter, {"subnet": subnet, "ips": ["10.%d.0.9-10.%d.0.20" % (rail, rail)]}))
        made = network(rail, ["pool-" + letter])
        made["metadata"]["name"] = "net-" + letter
        made["spec"]["macvlan"]["rdmaResourceName"] = "spidernet.io/dev_" + letter
        documents.append(made)
    outcome = imported(documents)
    plan = lint(outcome.text.encode()).plan
    assert plan is not None and not texts(outcome, "IM411")
    names = [port["names"] for port in plan.document()["nodes"][0]["ports"]]
    assert [(each["resource"], each["network"], each["pool"]) for each in names] == [
        ("dev_%s" % letter, "net-%s" % letter, "pool-%s" % letter) for letter in "abc"
    ]


def _operator(group: str, kind: str, name: str, **spec: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("attachment", ["macvlan", "ib-sriov"])
def test_sets_of_the_network_operator_lint_without_errors(attachment: str) -> None:
    """Names end in letters, and blocks begin with the gateway, as in the operator's own examples."""
    nvidia, sriov, ipam = "mellanox.com/v1alpha1", "sriovnetwork.openshift.io/v1", "nv-ipam.nvidia.com/v1alpha1"
    documents, shared = [], []
    for rail, letter in enumerate("abcdefgh", 1):
        net = "192.168.%d." % rail
        pool_of_rail = _operator(
            ipam, "IPPool", "pool-" + letter, subnet=net + "0/24", perNodeBlockSize=8, gateway=net + "1"
        )
        taken = json.dumps({"type": "nv-ipam", "poolName": "pool-" + letter})
        device, resource = "ibs%df0" % rail, "res_" + letter
        if attachment == "macvlan":
            shared.append({"resourceName": resource, "rdmaHcaMax": 63, "selectors": {"ifNames": [device]}})
            made = _operator(nvidia, "MacvlanNetwork", "net-" + letter, master=device, mtu=1500, ipam=taken)
        else:
            nic = {"vendor": "15b3", "pfNames": [device]}
            documents.append(
                _operator(
                    sriov,
                    "SriovNetworkNodePolicy",
                    "vfs-" + letter,
                    nicSelector=nic,
                    numVfs=8,
                    linkType="ib",
                    isRdma=True,
                    resourceName=resource,
                    mtu=4000,
                    nodeSelector={},
                )  # fmt: skip
            )
            made = _operator(sriov, "SriovIBNetwork", "net-" + letter, resourceName=resource, ipam=taken)
        documents += [pool_of_rail, made]
    if shared:
        config = {"config": json.dumps({"configList": shared})}
        documents.append(_operator(nvidia, "NicClusterPolicy", "nic-cluster-policy", rdmaSharedDevicePlugin=config))
    outcome = imported(documents, NODES._replace(mtu=None))
    plan = lint(outcome.text.encode()).plan
    assert plan is not None, [finding.text() for finding in outcome.lint]
    assert "RY336" in {finding.code for finding in outcome.lint}
    assert len(texts(outcome, "IM318")) == 1, "one finding for eight pools"
    ports = plan.document()["nodes"][0]["ports"]
    assert [port["names"]["network"] for port in ports] == ["net-" + letter for letter in "abcdefgh"]
    assert [port["names"]["resource"] for port in ports] == ["res_" + letter for letter in "abcdefgh"]


def test_pools_of_nodes_keep_their_names() -> None:
    documents = []
    for rail in (1, 2):
        for node in (1, 2):
            spec = {"subnet": "10.%d.0.0/24" % rail, "nodeName": ["ai-%d" % node]}
            spec["ips"] = ["10.%d.0.%d-10.%d.0.%d" % (rail, 16 * node, rail, 16 * node + 15)]
            documents.append(pool("gpu%d-ai-%d" % (rail, node), spec))
        documents.append(network(rail, ["gpu%d-*" % rail]))
    assert yaml_text.load(imported(documents).text)["names"]["pool"] == "gpu{n}-{node}"


def test_whereabouts_of_the_network_operator_is_not_nv_ipam() -> None:
    ipam = '{"type": "whereabouts", "range": "192.168.5.0/24", "exclude": ["192.168.5.128/25"]}'
    document = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "IPoIBNetwork",
        "metadata": {"name": "ib"},
        "spec": {"master": "ibs1", "ipam": ipam},
    }
    outcome = imported([document], NODES._replace(mtu=2044))
    assert yaml_text.load(outcome.text)["fabric"]["provider"] == "spiderpool"
    assert "# DECIDE: provider" in outcome.text and not [each for each in outcome.lint if each.severity == "error"]


def test_the_summary_counts_every_mark_in_the_file() -> None:
    outcome = imported([pool("gpu1", {"subnet": "10.1.0.0/24", "ips": ["10.1.0.9"]}), network(1, ["gpu1"])])
    marks = [line for line in outcome.text.splitlines() if line.strip().startswith(("# DECIDE: ", "# CHECK: "))]
    assert len(marks) >= 2 and "to decide: %d " % len(marks) in import_run.summary(outcome)


def test_a_node_with_a_network_of_its_own_keeps_it() -> None:
    documents = copy.deepcopy(_DOCUMENTS[2])
    for document in documents:
        if document["kind"] == "CIDRPool":
            net = document["spec"]["cidr"].replace(".0/24", ".2/31")
            document["spec"]["staticAllocations"] = [{"nodeName": "ai-7", "prefix": net}]
    for given_ in ({"ai-[6:7]": {"address": "10.250.0.[6:7]"}}, {"ai-7": {}}, {"ai-6": {}}):
        outcome = imported(documents, Options("ai", given_, mtu=4200))
        plan = lint(outcome.text.encode()).plan
        assert plan is not None, outcome.text
        (node,) = [each for each in plan.document()["nodes"] if each["name"] == "ai-7"]
        assert [port["address"] for port in node["ports"]] == ["172.20.0.3/31", "172.20.1.3/31"]


# -- addresses

_SPAN = st.tuples(st.integers(1, 240), st.integers(0, 30)).map(lambda each: (each[0], min(each[0] + each[1], 253)))


@st.composite
def pools_of_a_rail(draw: t.Callable[..., t.Any]) -> tuple[list[dict[str, t.Any]], set[int], set[int]]:
    """Manifests of one rail in 10.1.0.0/24, the addresses that pods get, and those that anything can give."""
    documents, pods, owned, names = [], set(), {254}, []
    used: set[int] = set()
    for number in range(1, draw(st.integers(1, 3)) + 1):
        runs = draw(st.lists(_SPAN, min_size=1, max_size=3))
        mine = {each for first, last in runs for each in range(first, last + 1)} - used
        if not mine:
            continue
        used |= mine
        out = draw(st.lists(_SPAN, max_size=2))
        excluded = {each for first, last in out for each in range(first, last + 1)}
        spec: dict[str, t.Any] = {"subnet": "10.1.0.0/24", "gateway": "10.1.0.254"}
        spec["ips"] = ["10.1.0.%d" % each for each in sorted(mine)]
        spec["excludeIPs"] = ["10.1.0.%d-10.1.0.%d" % run for run in out]
        documents.append(pool("pool-%d" % number, spec))
        names.append("pool-%d" % number)
        pods |= mine - excluded
        owned |= mine | excluded
    reserved = draw(st.lists(_SPAN, max_size=1))
    for first, last in reserved:
        spec = {"ips": ["10.1.0.%d-10.1.0.%d" % (first, last)]}
        documents.append({"apiVersion": SPIDER, "kind": "SpiderReservedIP", "metadata": {"name": "r"}, "spec": spec})
        pods -= set(range(first, last + 1))
        owned |= set(range(first, last + 1))
    first, last = draw(_SPAN)
    other = draw(st.sampled_from(["range", "pair", "static", "status", "subnet"]))
    ends = {"start": "10.1.0.%d" % first, "end": "10.1.0.%d" % last}
    bodies: dict[str, t.Any] = {
        "range": {"spec": {"addresses": ["%(start)s-%(end)s" % ends]}},
        "pair": {"spec": {"allocations": [{"startIP": ends["start"], "endIP": ends["end"]}]}},
        "static": {
            "spec": {"config": '{"ipam": {"type": "static", "addresses": [{"address": "%(start)s/24"}]}}' % ends}
        },
        "status": {"status": {"ips": [ends["start"]]}},
        "subnet": {"spec": {"ips": ["%(start)s-%(end)s" % ends]}},
    }
    kind = "SpiderSubnet" if other == "subnet" else "Other"
    documents.append({"apiVersion": SPIDER, "kind": kind, "metadata": {"name": "other"}, **bodies[other]})
    owned |= {first} if other in ("static", "status") else set(range(first, last + 1))
    return [*documents, network(1, names)], pods, owned


@settings(max_examples=max(60, settings.default.max_examples))
@given(pools_of_a_rail())
def test_pods_keep_their_addresses_and_ports_get_unallocated_ones(
    made: tuple[list[dict[str, t.Any]], set[int], set[int]],
) -> None:
    documents, pods, owned = made
    outcome = imported(documents)
    plan = lint(outcome.text.encode()).plan
    base = int(ipaddress.ip_address("10.1.0.0"))
    if not pods:
        return
    assert plan is not None, (outcome.text, [finding.text() for finding in outcome.lint])
    for node in plan.document()["nodes"]:
        (port,) = node["ports"]
        ranges = port["pods"].get("ranges") or ["%(first)s-%(last)s" % port["pods"]]
        got = set()
        for each in ranges:
            first, _dash, last = each.partition("-")
            numbers = [int(ipaddress.ip_address(text)) - base for text in (first, last or first)]
            got |= set(range(numbers[0], numbers[1] + 1))
        assert got == pods, outcome.text
        assert port["gateway"] == "10.1.0.254"
        if port["address"]:
            own = int(ipaddress.ip_interface(port["address"]).ip) - base
            assert own not in owned and own not in pods, outcome.text
        else:
            assert texts(outcome, "IM320") and "# DECIDE: hosts" in outcome.text


def test_an_excluded_address_in_the_middle_of_a_pool_is_taken() -> None:
    spec = {"subnet": "172.16.11.0/24", "ips": ["172.16.11.1-172.16.11.200"], "excludeIPs": ["172.16.11.120"]}
    rail = yaml_text.load(imported([pool("gpu1", spec), network(1, ["gpu1"])]).text)["rails"]["gpu01"]
    assert rail["pods"] == "172.16.11.1-172.16.11.200" and rail["taken"] == {"gpu1-excluded": "172.16.11.120"}
    assert rail["hosts"] == "172.16.11.201-172.16.11.254"


def test_a_pool_of_whereabouts_with_exclusions_gives_no_address_to_a_port() -> None:
    config = '{"type": "macvlan", "master": "eth1", "ipam": {"type": "whereabouts", "range": "10.7.0.0/16",'
    config += ' "range_start": "10.7.0.100", "range_end": "10.7.3.254", "exclude": ["10.7.1.0/28"]}}'
    metadata = {"name": "rail1"}
    document = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata}
    got = yaml_text.load(imported([dict(document, spec={"config": config})]).text)["rails"]["rail01"]
    assert got["pods"] == "10.7.0.100-10.7.3.254" and got["taken"] == {"rail1-excluded": "10.7.1.0-10.7.1.15"}
    assert got["hosts"].startswith("10.7.3.255-")


def test_addresses_of_another_object_end_the_nodes_of_a_rail_with_prefixes() -> None:
    other = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "services"}}
    documents = [*_DOCUMENTS[2], dict(other, spec={"addresses": ["172.20.0.9-172.20.0.12"]})]
    outcome = imported(documents)
    assert yaml_text.load(outcome.text)["rails"]["rail01"]["taken"] == {
        "ipaddresspool-services": "172.20.0.9-172.20.0.12"
    }
    many = imported(documents, Options("ai", {"ai-[1:9]": {}}, mtu=4200))
    assert "error" not in {finding.severity for finding in outcome.lint}
    assert "error" in {finding.severity for finding in many.lint} and lint(many.text.encode()).plan is None


def test_a_cluster_of_spiderpool_becomes_a_fabric_of_the_agent_with_the_addresses_of_pods() -> None:
    documents = [
        pool(
            "v4-%d" % rail, {"subnet": "172.16.1%d.0/24" % rail, "ips": ["172.16.1%d.1-172.16.1%d.200" % (rail, rail)]}
        )
        for rail in (1, 2)
    ] + [network(rail, ["v4-%d" % rail]) for rail in (1, 2)]
    outcome = imported(documents, NODES._replace(provider="agent"))
    written = yaml_text.load(outcome.text)
    assert written["fabric"]["provider"] == "agent"
    assert "names" not in written
    assert "DECIDE: how many pods of a node use all rails" in outcome.text
    assert not [finding for finding in outcome.lint if finding.severity == "error"]
    plan = lint(outcome.text.encode()).plan
    assert plan
    rails = plan.document()["nodes"][0]["agent"]["rails"]
    assert [slot["address"] for rail in rails for slot in rail["slots"]] == [
        "172.16.11.101/24",
        "172.16.11.102/24",
        "172.16.12.101/24",
        "172.16.12.102/24",
    ]
