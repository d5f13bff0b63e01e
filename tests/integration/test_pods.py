# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that a kubelet starts on rails that ``hosts.yml`` prepared: ``lab/lab up --cluster`` first.

Each node has a pod on all eight rails, by the CNI networks of ``inventories/lab-cni``.
"""

from __future__ import annotations

import ipaddress
import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests.integration import lab_pods
from tests.integration.conftest import ROOT, Node
from tests.integration.lab_pods import (
    NAMES,
    SECONDS,
    Kube,
    Manifest,
    addresses,
    check_interfaces,
    check_ping,
    check_rdma,
)
from tests.playbook import Played, play

pytestmark = pytest.mark.lab


def networks() -> dict[str, list[Manifest]]:
    """Node -> its CNI networks in rail order, as planned."""
    plan = lint((ROOT / "inventories/lab-cni/fabric.yml").read_bytes()).plan
    assert plan
    return {
        each["name"]: plain_cni.of_node(plan.fabric_vars(), each)
        for each in (plan.node_vars(node) for node in plan.nodes)
    }


PLANNED = networks()


def manifest(pod: str) -> Manifest:
    node = NAMES[pod]
    annotation = ",".join(network["name"] for network in PLANNED[node])
    return lab_pods.manifest(pod, node, {"k8s.v1.cni.cncf.io/networks": annotation})


@pytest.fixture(scope="module")
def kube() -> Kube:
    return Kube()


@pytest.fixture(scope="module")
def prepared(node: t.Callable[[str], Node], kube: Kube) -> Played:
    """Both nodes after ``hosts.yml``, without pods of an earlier run."""
    kube("delete", "pod", *NAMES, "--ignore-not-found", "--wait")
    played = play("playbooks/hosts.yml", inventory=ROOT / "inventories/lab-cni", timeout=SECONDS)
    assert played.returncode == 0, played.text
    return played


@pytest.fixture(scope="module")
def pods(kube: Kube, prepared: Played) -> t.Iterator[dict[str, list[str]]]:
    """Pod -> its addresses in rail order."""
    items = {"apiVersion": "v1", "kind": "List", "items": [manifest(pod) for pod in NAMES]}
    kube("apply", "-f", "-", text=json.dumps(items))
    kube.wait(NAMES)
    yield {pod: addresses(kube, pod) for pod in NAMES}
    kube("delete", "pod", *NAMES, "--wait")


def check_pod(kube: Kube, pod: str) -> None:
    """A pod's rails are as the plan has them, with addresses in the node's blocks."""
    for address, network in zip(check_interfaces(kube, pod), PLANNED[NAMES[pod]]):
        ((ranges,),) = network["plugins"][0]["ipam"]["ranges"]
        first, last = (ipaddress.ip_address(ranges[key]) for key in ("rangeStart", "rangeEnd"))
        assert first <= ipaddress.ip_address(address) <= last, (address, ranges)


def test_nodes_are_ready_under_their_own_addresses(kube: Kube) -> None:
    found = {}
    for each in kube.get("nodes")["items"]:
        ready = [one["status"] for one in each["status"]["conditions"] if one["type"] == "Ready"]
        internal = [one["address"] for one in each["status"]["addresses"] if one["type"] == "InternalIP"]
        found[each["metadata"]["name"]] = (ready, internal)
    assert found == {"node-1": (["True"], ["10.77.0.11"]), "node-2": (["True"], ["10.77.0.12"])}


@pytest.mark.parametrize("pod", NAMES)
def test_pod_has_every_rail_as_planned(kube: Kube, pods: dict[str, list[str]], pod: str) -> None:
    check_pod(kube, pod)


def test_pods_reach_each_other_on_every_rail_and_the_pod_network(kube: Kube, pods: dict[str, list[str]]) -> None:
    check_ping(kube, "one", pods["two"])
    address = kube.get("pod", "two")["status"]["podIP"]
    kube.inside("one", "ping -q -c 2 -w 60 -I eth0 %s" % address)


def test_rdma_passes_between_pods_of_two_nodes_on_every_rail(kube: Kube, pods: dict[str, list[str]]) -> None:
    speeds = check_rdma(kube, ("two", pods["two"]), ("one", pods["one"]))
    print("MB/s per rail:", speeds)


def test_second_run_of_hosts_changes_nothing_under_running_pods(kube: Kube, pods: dict[str, list[str]]) -> None:
    played = play("playbooks/hosts.yml", inventory=ROOT / "inventories/lab-cni", timeout=SECONDS)
    assert played.returncode == 0, played.text
    assert played.text.count("changed=0") == len(NAMES), played.text
    check_ping(kube, "one", pods["two"])


def test_pods_of_a_rebooted_node_return_to_their_rails(
    kube: Kube, pods: dict[str, list[str]], node: t.Callable[[str], Node]
) -> None:
    node("node-1").reboot(timeout=SECONDS)
    kube.wait(["one"], restarts=1)
    check_pod(kube, "one")
    again = addresses(kube, "one")
    check_ping(kube, "two", again)
    check_rdma(kube, ("one", again), ("two", pods["two"]))
