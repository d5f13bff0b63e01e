# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import for the agent: slots get addresses that no pod has, and patches keep other address managers from them."""

from __future__ import annotations

import ipaddress
import json
import random
import typing as t

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text

AGENT = Options("ai", {"ai-[1:8]": {}}, mtu=4200, provider="agent")
Documents = t.List[t.Dict[str, t.Any]]


def imported(documents: Documents, options: Options = AGENT) -> Outcome:
    return run([("live.yml", yaml.safe_dump_all(documents).encode())], options)


def codes(outcome: Outcome) -> set[str]:
    return {each.finding.code for each in outcome.findings}


def slots(outcome: Outcome) -> set[str]:
    plan = lint(outcome.text.encode()).plan
    assert plan, outcome.text
    found = [
        slot.get(key)
        for node in plan.document()["nodes"]
        for rail in node["agent"]["rails"]
        for slot in rail["slots"]
        for key in ("address", "address6")
    ]
    addresses = [each.partition("/")[0] for each in found if each]
    assert addresses and len(addresses) == len(set(addresses))
    return set(addresses)


def rails(outcome: Outcome) -> t.Any:
    return yaml_text.load(outcome.text)["rails"]


def spiderpool(
    number: int, used: t.Sequence[str] | None, net: str = "172.16.1%d", ips: str = ".1-.200", **more: t.Any
) -> Documents:
    """Return pool and network of a rail. ``used``: addresses of pods; None: the pool has no status."""
    base = net.replace("%d", str(number))
    joint = "::" if ":" in base else "."
    parts = ["-".join(base + joint + end.lstrip(".:") for end in part.split("-")) for part in ips.split(",")]
    spec = {"subnet": base + ("::/112" if joint == "::" else ".0/24"), "ips": parts, **more}
    pool: dict[str, t.Any] = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": "pool-%d" % number},
        "spec": spec,
    }
    if used is not None:
        records = {each: {"pod": "default/p%d" % at, "podUid": "u%d" % at} for at, each in enumerate(used)}
        pool["status"] = {"totalIPCount": 200, "allocatedIPCount": len(used)}
        if used:
            pool["status"]["allocatedIPs"] = json.dumps(records)
    family = "ipv6" if joint == "::" else "ipv4"
    network = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderMultusConfig",
        "metadata": {"name": "gpu%d-macvlan" % number, "namespace": "spiderpool"},
        "spec": {
            "cniType": "macvlan",
            "macvlan": {
                "master": ["enp1%ds0f0np0" % number],
                "rdmaResourceName": "spidernet.io/shared_gpu%d" % number,
                "ippools": {family: ["pool-%d" % number]},
            },
        },
    }
    return [pool, network]


def whereabouts(ipam: dict[str, t.Any], kind: str = "NetworkAttachmentDefinition") -> dict[str, t.Any]:
    section = dict(ipam, type="whereabouts")
    if kind != "NetworkAttachmentDefinition":
        return {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": kind,
            "metadata": {"name": "gpu1"},
            "spec": {"master": "enp11s0f0np0", "networkNamespace": "ai", "ipam": json.dumps(section)},
        }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": kind,
        "metadata": {"name": "gpu1", "namespace": "ai"},
        "spec": {"config": json.dumps({"type": "macvlan", "master": "enp11s0f0np0", "ipam": section})},
    }


def allocations(net: str, offsets: t.Iterable[int]) -> dict[str, t.Any]:
    return {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": net.replace("/", "-").replace(":", "-"), "namespace": "kube-system"},
        "spec": {"range": net, "allocations": {str(each): {"id": "x", "podref": "default/t"} for each in offsets}},
    }


def reservation(name: str) -> dict[str, t.Any]:
    return {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"podref": "default/t"},
    }


def nv_ipam(spec: dict[str, t.Any], status: t.Any, kind: str = "IPPool") -> Documents:
    pool: dict[str, t.Any] = {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": "gpu1", "namespace": "nvidia-network-operator"},
        "spec": spec,
    }
    if status is not None:
        pool["status"] = {"allocations": status}
    ipam = {"type": "nv-ipam", "poolName": "gpu1", "poolType": kind.lower()}
    network = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "MacvlanNetwork",
        "metadata": {"name": "gpu1"},
        "spec": {"master": "enp11s0f0np0", "networkNamespace": "default", "ipam": json.dumps(ipam)},
    }
    return [pool, network]


def patched(outcome: Outcome) -> list[t.Any]:
    return [yaml.safe_load(each.text) for each in outcome.patches]


def of_range(text: str) -> set[str]:
    first, _dash, last = text.partition("-")
    low, high = (int(ipaddress.ip_address(each)) for each in (first, last or first))
    return {str(ipaddress.ip_address(each)) for each in range(low, high + 1)}


USED = ["172.16.1%d.%d" % (rail, last) for rail in (1, 2) for last in range(3, 11)]


def test_slots_get_addresses_that_no_pod_has() -> None:
    outcome = imported([*spiderpool(1, USED[:8]), *spiderpool(2, USED[8:])])
    assert slots(outcome).isdisjoint(USED) and len(slots(outcome)) == 32
    assert rails(outcome)["gpu01"]["pods"] == "172.16.11.105-172.16.11.200"
    assert codes(outcome) == {"IM319", "IM513"}
    assert [each.command("P") for each in outcome.patches] == [
        "kubectl patch spiderippools.spiderpool.spidernet.io pool-%d --type merge --patch-file P" % number
        for number in (1, 2)
    ]
    assert patched(outcome)[0] == {"spec": {"excludeIPs": ["172.16.11.105-172.16.11.200"]}}


def test_a_patch_keeps_exclusions_that_exist() -> None:
    outcome = imported(spiderpool(1, USED[:8], excludeIPs=["172.16.11.150-172.16.11.159"], gateway="172.16.11.254"))
    excluded = patched(outcome)[0]["spec"]["excludeIPs"]
    assert excluded[0] == "172.16.11.150-172.16.11.159"
    assert slots(outcome) <= set().union(*map(of_range, excluded[1:]))
    assert set().union(*map(of_range, excluded[1:])).isdisjoint([*USED, *of_range(excluded[0])])


def test_a_pool_that_no_pod_uses_is_known() -> None:
    outcome = imported(spiderpool(1, []))
    assert "IM332" not in codes(outcome) and "DECIDE: pods" not in outcome.text


def test_a_count_without_addresses_is_not_known() -> None:
    documents = spiderpool(1, [])
    documents[0]["status"]["allocatedIPCount"] = 8
    assert "IM332" in codes(imported(documents))


@pytest.mark.parametrize("text", ['{"172.16.11.9": {"pod"', "172.16.11.9", '["172.16.11.9"]'])
def test_a_list_of_allocations_that_cannot_be_read_is_not_known(text: str) -> None:
    documents = spiderpool(1, [])
    documents[0]["status"].update(allocatedIPCount=1, allocatedIPs=text)
    assert "IM332" in codes(imported(documents))


@pytest.mark.parametrize(
    ("documents", "command"),
    [
        (spiderpool(1, None), "kubectl get spiderippools.spiderpool.spidernet.io -o yaml"),
        ([whereabouts({"range": "172.16.11.0/24"})], "kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml"),
        (
            nv_ipam({"subnet": "172.16.11.0/24", "perNodeBlockSize": 4, "gateway": "172.16.11.254"}, None),
            "kubectl get ippools.nv-ipam.nvidia.com -A -o yaml",
        ),
    ],
    ids=["spiderpool", "whereabouts", "nv-ipam"],
)
def test_manifests_without_allocations_are_a_question(documents: Documents, command: str) -> None:
    outcome = imported(documents)
    (found,) = [each.finding for each in outcome.findings if each.finding.code == "IM332"]
    assert found.severity == "error" and command in found.remedy
    assert "# DECIDE: pods; " in outcome.text
    assert "RY120" in {each.code for each in lint(outcome.text.encode()).findings}


@pytest.mark.parametrize("used", [200, 190], ids=["no address is free", "fewer are free than slots need"])
def test_full_pools_are_one_finding_and_no_range(used: int) -> None:
    held = ["172.16.11.%d" % last for last in range(1, used + 1)]
    outcome = imported(spiderpool(1, held))
    (found,) = [each.finding for each in outcome.findings if each.finding.code == "IM333"]
    assert found.severity == "error" and "172.16.11.0/24" in found.remedy
    assert "pods" not in rails(outcome)["gpu01"] and "# DECIDE: pods; " in outcome.text
    assert lint(outcome.text.encode()).plan is None and not outcome.patches


def test_the_last_free_addresses_are_enough() -> None:
    held = ["172.16.11.%d" % last for last in range(1, 185)]
    assert slots(imported(spiderpool(1, held))) == {"172.16.11.%d" % last for last in range(185, 201)}


def test_an_allocation_outside_of_the_pool_is_not_for_slots_or_ports() -> None:
    """The pool was cut after a pod got the address; the pod's node may be gone, its record remains."""
    outcome = imported(spiderpool(1, ["172.16.11.210", "172.16.11.4"], ips=".1-.100"))
    plan = lint(outcome.text.encode()).plan
    assert plan and "172.16.11.210" not in slots(outcome)
    ports = {node["ports"][0]["address"].partition("/")[0] for node in plan.document()["nodes"]}
    assert "172.16.11.210" not in ports


def test_an_address_of_an_endpoint_or_a_pod_is_used() -> None:
    endpoint = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderEndpoint",
        "metadata": {"name": "train-1", "namespace": "default"},
        "status": {"current": {"ips": [{"interface": "net1", "ipv4": "172.16.11.199/24"}], "node": "gone-1"}},
    }
    status = json.dumps([{"name": "ai/gpu1", "interface": "net1", "ips": ["172.16.11.198"]}])
    annotations = {"k8s.v1.cni.cncf.io/network-status": status}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-2", "annotations": annotations}}
    outcome = imported([*spiderpool(1, []), endpoint, pod], AGENT._replace(nodes={"ai-[1:50]": {}}))
    assert slots(outcome).isdisjoint({"172.16.11.198", "172.16.11.199"})


def test_ranges_with_exclusions_and_used_addresses_leave_parts() -> None:
    used = ["172.16.11.%d" % last for last in range(2, 100, 2)]
    documents = spiderpool(1, used, ips=".1-.40,.50-.99", excludeIPs=["172.16.11.61-172.16.11.99"])
    outcome = imported(documents, AGENT._replace(nodes={"ai-[1:10]": {}}))
    assert slots(outcome).isdisjoint(used)
    assert slots(outcome).isdisjoint(of_range("172.16.11.61-172.16.11.99"))


def test_slots_of_ipv6() -> None:
    used = ["fd00:1::%x" % last for last in (1, 2, 0xFFFF)]
    outcome = imported(spiderpool(1, used, net="fd00:%d", ips=":1-:ffff"))
    assert slots(outcome).isdisjoint(used) and len(slots(outcome)) == 16
    (excluded,) = patched(outcome)[0]["spec"]["excludeIPs"]
    assert excluded.startswith("fd00:1::") and excluded.endswith("-fd00:1::fffe")


@pytest.mark.parametrize("net", ["172.16.11.0/24", "fd00:1::/112"])
@pytest.mark.parametrize("kind", ["NetworkAttachmentDefinition", "MacvlanNetwork"])
def test_slots_get_addresses_that_whereabouts_has_not_given(net: str, kind: str) -> None:
    start = ipaddress.ip_network(net).network_address
    exclude = ["%s/%d" % (start + 64, start.max_prefixlen - 3)]
    known = [whereabouts({"range": net, "exclude": exclude}, kind), allocations(net, [3, 40])]
    other = str(start + 250)
    outcome = imported([*known, reservation("ai-" + other.replace(":", "-"))])
    used = {str(start + 3), str(start + 40), other, *map(str, ipaddress.ip_network(exclude[0]))}
    assert slots(outcome).isdisjoint(used) and codes(outcome).isdisjoint({"IM105", "IM204", "IM332"})
    (patch,) = patched(outcome)
    if kind == "MacvlanNetwork":
        section = json.loads(patch["spec"]["ipam"])
    else:
        config = json.loads(patch["spec"]["config"])
        section = config["ipam"]
        assert (config["type"], config["master"]) == ("macvlan", "enp11s0f0np0")
    assert (section["range"], section["exclude"][0]) == (net, exclude[0])
    added = [ipaddress.ip_network(each) for each in section["exclude"][1:]]
    assert all(any(ipaddress.ip_address(slot) in each for each in added) for slot in slots(outcome))
    assert not any(ipaddress.ip_address(each) in prefix for each in used for prefix in added)


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({"exclude": None}, []),
        ({"exclude": "172.16.11.8/29"}, ["172.16.11.8/29"]),
        ({"ipRanges": None}, []),
        ({"ipRanges": ["x"]}, []),
        ({"ipRanges": {}}, []),
    ],
)
@pytest.mark.parametrize("plugins", [None, {}, "x"])
def test_odd_values_of_a_network_stay_in_its_patch(more: dict[str, t.Any], first: list[str], plugins: t.Any) -> None:
    network = whereabouts({"range": "172.16.11.0/24", **more})
    network["spec"]["config"] = json.dumps(dict(json.loads(network["spec"]["config"]), plugins=plugins))
    outcome = imported([network, allocations("172.16.11.0/24", [3])])
    config = json.loads(patched(outcome)[0]["spec"]["config"])
    exclude = config["ipam"].pop("exclude")
    assert config == dict(json.loads(network["spec"]["config"]), ipam=config["ipam"])
    assert exclude[: len(first)] == first and "172.16.11.192/27" in exclude


def test_each_range_of_a_network_gets_its_own_exclusions() -> None:
    ranges = {"ipRanges": [{"range": "172.16.11.0/24"}, {"range": "fd00:1::/112"}]}
    known = [allocations("172.16.11.0/24", [7]), allocations("fd00:1::/112", [9])]
    outcome = imported([whereabouts(ranges), *known])
    (patch,) = patched(outcome)
    four, six = json.loads(patch["spec"]["config"])["ipam"]["ipRanges"]
    assert all(":" not in each for each in four["exclude"]) and all(":" in each for each in six["exclude"])
    assert slots(outcome).isdisjoint({"172.16.11.7", "fd00:1::9"})


def test_slots_get_addresses_outside_of_the_blocks_of_nv_ipam() -> None:
    spec = {
        "subnet": "172.16.11.0/24",
        "perNodeBlockSize": 16,
        "gateway": "172.16.11.254",
        "exclusions": [{"startIP": "172.16.11.200", "endIP": "172.16.11.253"}],
    }
    status = [
        {"nodeName": "ai-%d" % at, "startIP": "172.16.11.%d" % (16 * at), "endIP": "172.16.11.%d" % (16 * at + 15)}
        for at in (1, 2, 3)
    ]
    outcome = imported(nv_ipam(spec, status), AGENT._replace(nodes={"ai-[1:3]": {}}))
    blocks = of_range("172.16.11.16-172.16.11.63")
    assert slots(outcome).isdisjoint(blocks | of_range("172.16.11.200-172.16.11.253"))
    (patch,) = patched(outcome)
    exclusions = patch["spec"]["exclusions"]
    assert exclusions[0] == {"startIP": "172.16.11.200", "endIP": "172.16.11.253"}
    added = set().union(*(of_range("%(startIP)s-%(endIP)s" % each) for each in exclusions[1:]))
    assert slots(outcome) <= added and added.isdisjoint(blocks)
    assert outcome.patches[0].arguments == "ippools.nv-ipam.nvidia.com gpu1 -n nvidia-network-operator"


def test_nodes_keep_the_networks_that_nv_ipam_has_given_them() -> None:
    spec = {
        "cidr": "10.101.0.0/16",
        "perNodeNetworkPrefix": 27,
        "gatewayIndex": 1,
        "perNodeExclusions": [{"startIndex": 2, "endIndex": 2}],
    }
    status = [
        {"nodeName": "ai-1", "prefix": "10.101.0.64/27"},
        {"nodeName": "ai-3", "prefix": "10.101.0.32/27"},
        {"nodeName": "gone-7", "prefix": "10.101.0.0/27"},
    ]
    outcome = imported(nv_ipam(spec, status, "CIDRPool"), AGENT._replace(nodes={"ai-[1:3]": {}}))
    plan = lint(outcome.text.encode()).plan
    assert plan, outcome.text
    own = {
        node["name"]: ipaddress.ip_interface(node["agent"]["rails"][0]["slots"][0]["address"]).network
        for node in plan.document()["nodes"]
    }
    nets = {str(own[name]) for name in ("ai-1", "ai-3", "gone-7")}
    assert nets == {"10.101.0.64/27", "10.101.0.32/27", "10.101.0.0/27"}
    assert str(own["ai-1"]) == "10.101.0.64/27" and str(own["ai-2"]) not in nets


def test_slots_in_the_pool_of_a_node_leave_out_what_its_pods_have() -> None:
    documents: Documents = []
    for node in (1, 2):
        pool, network = spiderpool(1, [], nodeName=["ai-%d" % node], ips=".%d-.%d" % (16 * node, 16 * node + 15))
        pool["metadata"]["name"] = "ai-%d-gpu1" % node
        used = "172.16.11.%d" % (16 * node)
        pool["status"].update(allocatedIPCount=1, allocatedIPs=json.dumps({used: {"pod": "default/x"}}))
        documents.append(pool)
    network["spec"]["macvlan"]["ippools"]["ipv4"] = ["ai-1-gpu1", "ai-2-gpu1"]
    outcome = imported([*documents, network], AGENT._replace(nodes={"ai-[1:2]": {}}))
    assert slots(outcome) == {"172.16.11.%d" % last for last in (17, 18, 33, 34)}
    assert rails(outcome)["gpu01"]["taken"] == {"in-use": ["172.16.11.16", "172.16.11.32"]}
    assert [each["spec"]["excludeIPs"] for each in patched(outcome)] == [
        ["172.16.11.17-172.16.11.31"],
        ["172.16.11.33-172.16.11.47"],
    ]


def test_rails_that_share_a_pool_share_its_free_addresses() -> None:
    first, second = spiderpool(1, USED[:8]), spiderpool(2, [])
    second[1]["spec"]["macvlan"]["ippools"]["ipv4"] = ["pool-1"]
    outcome = imported([*first, second[1]])
    assert slots(outcome).isdisjoint(USED) and len(slots(outcome)) == 32
    assert len(outcome.patches) == 1


def test_names_that_no_object_can_have_get_no_file() -> None:
    documents = spiderpool(1, [])
    documents[0]["metadata"]["name"] = "../../x; reboot"
    documents[1]["spec"]["macvlan"]["ippools"]["ipv4"] = ["../../x; reboot"]
    assert not imported(documents).patches


@pytest.mark.parametrize("seed", range(40))
def test_no_slot_has_the_address_of_a_pod(seed: int) -> None:
    chance = random.Random(seed)
    used = sorted({"172.16.11.%d" % chance.randint(1, 254) for _each in range(chance.choice((0, 5, 60, 180, 250)))})
    low = chance.randint(1, 100)
    ips = ".%d-.%d" % (low, chance.randint(low, 253))
    outcome = imported(spiderpool(1, used, ips=ips), AGENT._replace(nodes={"ai-[1:%d]" % chance.randint(1, 40): {}}))
    if "IM333" in codes(outcome):
        assert "pods" not in rails(outcome)["gpu01"] and not outcome.patches
    else:
        excluded = set().union(*(of_range(each) for each in patched(outcome)[0]["spec"]["excludeIPs"]))
        assert slots(outcome) <= excluded and excluded.isdisjoint(used)
