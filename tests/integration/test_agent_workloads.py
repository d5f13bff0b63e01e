# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Controllers whose pods have rails, and nodes whose kubelet plugin changes: ``lab/lab up --cluster`` first."""

from __future__ import annotations

import json
import shutil
import typing as t
from pathlib import Path

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    DRA,
    INVENTORY,
    NO_SLOT,
    NODE,
    SERVICE,
    GetNode,
    apply,
    held,
    kube,
    manifest,
    prepared,
    slot_addresses,
    wait_for,
    wait_for_event,
    wait_for_slots,
    wait_until_whole,
    whole,
)
from tests.integration.conftest import LAB_DIR
from tests.integration.lab_pods import SECONDS, Kube, Manifest, links
from tests.playbook import play

pytestmark = pytest.mark.lab

RAIL, RESOURCE = "gpu01", "railyard.fabric/gpu01"
SLOTS = len(slot_addresses(NODE, RAIL))
LABEL = "app=workload"


def controller(kind: str, replicas: int, **spec: t.Any) -> Manifest:
    """A controller of pods with one slot of a rail on :data:`NODE`."""
    pod = manifest("pod", NODE, RESOURCE)
    key, _equals, value = LABEL.partition("=")
    template = {"metadata": {"labels": {key: value}}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "workload"},
        "spec": dict(spec, replicas=replicas, selector={"matchLabels": {key: value}}, template=template),
    }


def running(kube: Kube) -> dict[str, str]:
    """Pod -> its address on the rail, of the pods of the controller that are ready and not being deleted."""
    items = kube.get("pods", "-l", LABEL)["items"]
    names = [each["metadata"]["name"] for each in items if not each["metadata"].get("deletionTimestamp")]
    return {name: links(kube, name)["net1"]["addr_info"][0]["local"] for name in names if kube.ready(name)}


def check_addresses(kube: Kube, count: int) -> dict[str, str]:
    """Wait for ``count`` pods of the controller. Each has another planned address."""
    found: dict[str, str] = wait_for(
        lambda: (pods := running(kube)) and len(pods) == count and pods, lambda: kube("describe", "pods", "-l", LABEL)
    )
    assert len(set(found.values())) == count
    assert {(address,) for address in found.values()} <= {tuple(slot) for slot in slot_addresses(NODE, RAIL)}
    return found


@pytest.fixture
def clean(kube: Kube, prepared: None, node: GetNode) -> t.Iterator[None]:
    """A test, after which nothing of its pods is left on the node."""
    before = whole(node(NODE))
    yield
    kube("delete", "deployment,statefulset,pod", "-l", LABEL, "--wait")
    kube("delete", "deployment,statefulset", "--all", "--wait")
    wait_until_whole(node(NODE), before)
    wait_for_slots(kube, NODE, RESOURCE)


def test_a_deployment_with_a_pod_on_each_slot_rolls_over(kube: Kube, clean: None) -> None:
    """The surge pod waits until an old pod has released its slot."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    apply(kube, controller("Deployment", SLOTS, strategy=rolling))
    first = check_addresses(kube, SLOTS)
    kube("rollout", "restart", "deployment/workload")
    kube("rollout", "status", "deployment/workload", "--timeout=%ds" % SECONDS)
    second = check_addresses(kube, SLOTS)
    assert not set(first) & set(second)


def test_a_deployment_without_a_free_slot_waits_and_continues(kube: Kube, clean: None) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    apply(kube, controller("Deployment", SLOTS, strategy=rolling))
    check_addresses(kube, SLOTS)
    kube("rollout", "restart", "deployment/workload")

    def pending() -> list[str]:
        return [
            each["metadata"]["name"]
            for each in kube.get("pods", "-l", LABEL)["items"]
            if each["status"]["phase"] == "Pending"
        ]

    (waiting,) = wait_for(pending, lambda: kube("describe", "pods", "-l", LABEL))
    wait_for_event(kube, waiting, NO_SLOT.replace(ALL_RAILS, RESOURCE))
    assert len(running(kube)) == SLOTS
    kube("scale", "deployment/workload", "--replicas=%d" % (SLOTS - 1))
    kube("rollout", "status", "deployment/workload", "--timeout=%ds" % SECONDS)
    check_addresses(kube, SLOTS - 1)


@pytest.mark.parametrize("words", [("--wait",), ("--force", "--grace-period=0")], ids=["deleted", "by-force"])
def test_a_pod_of_a_stateful_set_returns_on_a_slot_of_its_own(kube: Kube, clean: None, words: tuple[str, ...]) -> None:
    apply(kube, controller("StatefulSet", 2, serviceName="workload"))
    check_addresses(kube, 2)
    old = kube.get("pod", "workload-0")["metadata"]["uid"]
    kube("delete", "pod", "workload-0", *words)

    def replaced() -> bool:
        items = kube.get("pods", "-l", LABEL)["items"]
        return all(each["metadata"]["uid"] != old for each in items) and len(items) == 2

    wait_for(replaced, lambda: kube("describe", "pods", "-l", LABEL))
    check_addresses(kube, 2)


@pytest.fixture
def other_plugin() -> t.Iterator[Path]:
    """An inventory with the other kubelet plugin: for DRA a device plugin, else DRA."""
    fabric = (INVENTORY / "fabric.yml").read_text()
    dra = "  slots: {kubelet_plugin: dra, kubeconfig: /etc/kubernetes/kubeconfig}\n"
    if DRA:
        assert dra in fabric
        text = fabric.replace(dra, "")
    else:
        text = fabric.replace("  pods_per_node: 8\n", "  pods_per_node: 8\n" + dra)
    assert text != fabric
    # its variables name the lab by a path that begins at the inventory
    copy = LAB_DIR.parent / "other-kubelet-plugin"
    shutil.copytree(INVENTORY, copy, dirs_exist_ok=True)
    (copy / "fabric.yml").write_text(text)
    yield copy
    shutil.rmtree(copy)


def test_the_kubelet_plugin_of_a_node_with_pods_is_not_changed(
    kube: Kube, clean: None, node: GetNode, other_plugin: Path
) -> None:
    apply(kube, controller("Deployment", 1))
    check_addresses(kube, 1)
    before = node(NODE).run("cat /etc/railyard/agent.json")
    words = ("--tags", "agent", "--limit", NODE)
    played = play("playbooks/hosts.yml", *words, inventory=other_plugin, timeout=SECONDS)
    assert played.returncode and "pod default/workload-" in played.one_line and "drain" in played.one_line, played.text
    assert node(NODE).run("cat /etc/railyard/agent.json") == before
    # the pod ends, and its slot is offered again
    kube("delete", "deployment", "workload", "--wait")
    wait_for(lambda: held(node(NODE)) == {}, lambda: str(held(node(NODE))))


@pytest.mark.skipif(not DRA, reason="without DRA")
def test_claims_that_the_kubelet_forgot_release_their_slots(kube: Kube, clean: None, node: GetNode) -> None:
    """``kubeadm reset`` and a damaged checkpoint remove the kubelet's list of prepared claims."""
    apply(kube, controller("Deployment", SLOTS))
    pods = check_addresses(kube, SLOTS)
    there = node(NODE)
    there.run("systemctl stop kubelet; rm -f /var/lib/kubelet/dra_manager_state")
    try:
        kube("delete", "pod", *pods, "--force", "--grace-period=0")
    finally:
        there.run("systemctl start kubelet")
    # each slot is given again
    assert not set(check_addresses(kube, SLOTS)) & set(pods)
