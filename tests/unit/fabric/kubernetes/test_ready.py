# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a cluster is as planned, and what is reported if it is not."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.action import kube_ready
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Goal,
    grouped,
    lines,
    reason_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import ON_DEMAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_kinds import KINDS

from . import plans
from .documents import REGISTRY, Document, combinations

OPTIONS = {
    "images": {"test": "registry.example/tools/rdma:1.2"},
    "registry": "registry.example",
    "node_feature_rule": True,
    "grafana_labels": {"a": "b"},
}


@pytest.mark.parametrize(("provider", "attachment", "mode"), combinations())
def test_every_kind_that_a_plan_can_have_is_known(provider: str, attachment: str, mode: str) -> None:
    document = plans.planned(plans.fabric_file(provider, attachment, mode, (4, 6)))
    assert {(each["apiVersion"], each["kind"]) for each in object_components.objects(document, OPTIONS)} <= set(KINDS)


def goal_of(provider: str, attachment: str, mode: str) -> tuple[Goal, Document, list[Document]]:
    document = plans.planned(plans.fabric_file(provider, attachment, mode, (4,), nodes=3))
    objects = [
        made for component, made in object_components.components(document, REGISTRY) if component not in ON_DEMAND
    ]
    return Goal(document, {}, objects), document, objects


def node(name: str, allocatable: t.Mapping[str, int], ready: str = "True") -> Document:
    return {
        "metadata": {"name": name, "labels": {"railyard.fabric/fabric": "ai"}},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Why", "message": "because."}],
            "allocatable": {"cpu": "64", **{key: str(value) for key, value in allocatable.items()}},
        },
    }


def whole(document: Document) -> dict[str, Document]:
    return {name: node(name, resources) for name, resources in object_components.allocatable(document, {}).items()}


def accepted(objects: t.Sequence[Document], document: Document) -> dict[tuple[str, str, str], Document]:
    """The objects with what their controllers write, as upstream's schemas have it."""
    nodes = [each["name"] for each in document["nodes"]]
    allocations = [{"nodeName": name, "startIP": "1", "endIP": "2", "prefix": "1/32"} for name in nodes]
    daemons = {"desiredNumberScheduled": 3, "numberReady": 3, "observedGeneration": 1}
    statuses: dict[str, Document] = {
        "SpiderIPPool": {"totalIPCount": 9},
        "IPPool": {"allocations": allocations},
        "CIDRPool": {"allocations": allocations},
        "DaemonSet": daemons,
    }
    live: dict[tuple[str, str, str], Document] = {}
    for each in objects:
        metadata = each["metadata"]
        status = statuses.get(each["kind"], {"state": "ready"})
        live[each["kind"], metadata.get("namespace") or "", metadata["name"]] = dict(each, status=status)
        if each["kind"] in ("SpiderMultusConfig", "SriovNetwork", "SriovIBNetwork"):
            place = each["spec"].get("networkNamespace") or metadata["namespace"]
            live["NetworkAttachmentDefinition", place, metadata["name"]] = {}
    for name in nodes:
        live["SriovNetworkNodeState", "any", name] = {"status": {"syncStatus": "Succeeded"}}
    return live


@pytest.mark.parametrize(("provider", "attachment", "mode"), combinations())
def test_a_complete_cluster_misses_nothing_and_each_deleted_object_is_reported(
    provider: str, attachment: str, mode: str
) -> None:
    goal, document, objects = goal_of(provider, attachment, mode)
    live = accepted(objects, document)
    assert goal.missing(whole(document), live) == []
    assert goal.reached(whole(document), {}) == goal.resources == 6
    for name in [(each["kind"], each["metadata"].get("namespace") or "", each["metadata"]["name"]) for each in objects]:
        without = {key: value for key, value in live.items() if key != name}
        assert [each.what for each in goal.missing(whole(document), without)] == ["is not in the cluster"], name


@pytest.mark.parametrize(
    ("provider", "attachment", "mode", "kind"),
    [
        ("spiderpool", "macvlan", "subnet", "SpiderIPPool"),
        ("spiderpool", "macvlan", "subnet", "NetworkAttachmentDefinition"),
        ("spiderpool", "sriov", "subnet", "SriovNetworkNodeState"),
        ("network-operator", "macvlan", "subnet", "IPPool"),
        ("network-operator", "macvlan", "subnet", "MacvlanNetwork"),
        ("network-operator", "macvlan", "subnet", "NicClusterPolicy"),
        ("network-operator", "host-device", "prefix", "CIDRPool"),
        ("network-operator", "sriov", "subnet", "NetworkAttachmentDefinition"),
        ("cni", "macvlan", "block", "DaemonSet"),
    ],
)
def test_an_object_that_its_controller_did_not_accept_is_missing(
    provider: str, attachment: str, mode: str, kind: str
) -> None:
    goal, document, objects = goal_of(provider, attachment, mode)
    live = accepted(objects, document)
    mine = next(name for name in live if name[0] == kind)
    if kind == "NetworkAttachmentDefinition":
        del live[mine]
    else:
        live[mine] = {key: value for key, value in live[mine].items() if key != "status"}
    found = goal.missing(whole(document), live)
    assert len(found) == 1 and found[0].reason


def test_pods_of_a_daemon_set_that_start_are_distinguished_from_a_selector_of_no_node() -> None:
    goal, document, objects = goal_of("cni", "macvlan", "block")
    live = accepted(objects, document)
    mine = next(name for name in live if name[0] == "DaemonSet")

    def reported(**status: int) -> str:
        # as the action keeps it of what the server lists
        live[mine] = kube_ready._judged(dict(live[mine], status={"observedGeneration": 1, **status}))
        (found,) = goal.missing(whole(document), live)
        return "%s: %s" % (found.what, found.reason)

    starting = reported(desiredNumberScheduled=3, numberReady=1)
    assert starting.startswith("has 1 of 3 pods ready: its pods are starting")
    labels = live[mine]["spec"]["selector"]["matchLabels"]
    selector = ",".join("%s=%s" % label for label in sorted(labels.items()))
    assert labels and "kubectl -n %s describe pods -l %s)" % (mine[1], selector) in starting
    assert "no node has the labels of its selector" in reported(desiredNumberScheduled=0)


def test_a_node_is_reported_with_the_likeliest_reason() -> None:
    goal, document, objects = goal_of("spiderpool", "macvlan", "subnet")
    live, nodes = accepted(objects, document), whole(document)
    gpu01, gpu02 = "spidernet.io/gpu01_macvlan", "spidernet.io/gpu02_macvlan"
    nodes["n-1"] = node("n-1", {gpu01: 100, gpu02: 64})
    nodes["n-2"] = node("n-2", {gpu01: 100}, ready="Unknown")
    nodes["N-3"] = nodes.pop("n-3")
    shown = lines(grouped(goal.missing(nodes, live)))
    assert shown == [
        "n-1: reports 64 of 100 %s (rail gpu02). Likely: its device plugin runs with another rdmaHcaMax than 100: "
        "restart it, it reads its file once." % gpu02,
        "n-2: is not Ready. Likely: its kubelet does not run or is not ready (Why: because).",
        "n-2: reports none of 100 %s (rail gpu02). Likely: its device plugin sees no such netdev with an RDMA device: "
        "see the port's name (playbooks/hosts.yml)." % gpu02,
        "n-3: is not a node of the cluster (did you mean N-3?). Likely: its kubelet has not joined, or is registered "
        "under another name than the fabric file's (kubectl get nodes).",
    ]
    assert goal.reached(nodes, {}) == 2


@pytest.mark.parametrize(("units", "number"), [(1000, "1k"), (1500, "1500"), (64000, "64k"), (2000000, "2M")])
def test_whole_thousands_are_read_as_the_server_writes_them(units: int, number: str) -> None:
    document = plans.planned(plans.fabric_file("spiderpool", "macvlan", "subnet", (4,), nodes=1))
    goal = Goal(document, {"rdma_hca_max": units}, [])
    resources = dict.fromkeys(object_components.allocatable(document, {})["n-1"], t.cast(int, number))
    assert goal.missing({"n-1": node("n-1", resources)}, {}) == []
    less = dict.fromkeys(resources, t.cast(int, "9k"))
    assert "reports 9000 of %d " % units in goal.missing({"n-1": node("n-1", less)}, {})[0].what


def test_vfs_for_dpdk_are_a_separate_resource() -> None:
    document = plans.planned(plans.fabric_file("spiderpool", "sriov", "subnet", (4,), nodes=1))
    given = {"dpdk": {"rails": ["gpu02"], "vfs": 3}}
    policies = [each["spec"] for each in object_components.objects(document, given) if "numVfs" in each.get("spec", {})]
    count = policies[0]["numVfs"]
    gpu01, gpu02 = "spidernet.io/gpu01_sriov", "spidernet.io/gpu02_sriov"
    there = {gpu01: count, gpu02: count - 3, gpu02 + "_dpdk": 3}
    assert {"spidernet.io/" + each["resourceName"] for each in policies} == set(there)
    goal = Goal(document, given, [])
    assert goal.missing({"n-1": node("n-1", there)}, {}) == [] and goal.resources == 3
    less = goal.missing({"n-1": node("n-1", {**there, gpu02 + "_dpdk": 2})}, {})
    assert [each.what for each in less] == ["reports 2 of 3 %s_dpdk (rail gpu02)" % gpu02]


def test_a_node_without_any_resource_is_one_line_and_many_are_one_too() -> None:
    goal, document, objects = goal_of("spiderpool", "sriov", "subnet")
    nodes = {name: node(name, {}) for name in whole(document)}
    shown = lines(grouped(goal.missing(nodes, accepted(objects, document))))
    assert len(shown) == 1
    assert shown[0].startswith(
        "n-1, n-2, n-3: reports none of its 2 rails' resources. Likely: no device plugin runs on it"
    )
    assert "spec.nodeName=NODE" in shown[0]
    (group,) = grouped(goal.missing(nodes, accepted(objects, document)))
    assert reason_of(group._asdict(), "n-2").endswith("spec.nodeName=n-2)")
    (line,) = lines([group._replace(subjects=["n-2"])])
    assert "spec.nodeName=n-2" in line
    del nodes["n-2"]["metadata"]["labels"]
    assert any(
        "n-2: reports none" in line and "does not have the label" in line
        for line in lines(grouped(goal.missing(nodes, {})))
    )


def test_too_few_functions_are_not_blamed_on_the_plugin() -> None:
    goal, document, objects = goal_of("spiderpool", "sriov", "subnet")
    nodes = whole(document)
    nodes["n-1"]["status"]["allocatable"]["spidernet.io/gpu01_sriov"] = "3"
    line = lines(grouped(goal.missing(nodes, accepted(objects, document))))[0]
    assert line.startswith(
        "n-1: reports 3 of 4 spidernet.io/gpu01_sriov (rail gpu01). Likely: the port has another number of VFs"
    )


def test_a_disabled_pool_differs_from_one_with_excluded_addresses() -> None:
    goal, document, objects = goal_of("spiderpool", "macvlan", "subnet")
    live = accepted(objects, document)
    mine = next(name for name in live if name[0] == "SpiderIPPool")
    assert goal.withheld(live) == []
    live[mine] = dict(live[mine], spec=dict(live[mine]["spec"], disable=True))
    (found,) = goal.missing(whole(document), live)
    assert found.subject == "SpiderIPPool %s" % mine[2] and "spec.disable" in found.what
    assert "kubectl patch spiderippool %s" % mine[2] in found.reason and goal.withheld(live) == [found]
    # excluded addresses leave a rail that works
    live[mine] = dict(live[mine], spec=dict(live[mine]["spec"], disable=False, excludeIPs=["10.1.0.7", "10.1.0.9"]))
    assert goal.missing(whole(document), live) == []
    (less,) = goal.withheld(live)
    assert "spec.excludeIPs 10.1.0.7, 10.1.0.9" in less.what and "'taken'" in less.reason
    assert (found.field, less.field) == ("spec.disable", "spec.excludeIPs")
