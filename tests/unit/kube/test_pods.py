# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a DaemonSet's pods are and why one does not run, against a server that is a function."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import workload_pods
from tests.unit.kube.test_server import Answer, Far

STATUS = "k8s.v1.cni.cncf.io/network-status"
UID = "0f7c1d6a-3c55-4a8c-9d2e-5b1f0a7e6c3d"
NETWORKS = [
    {"name": "cbr0", "interface": "eth0", "ips": ["10.244.1.9"], "default": True},
    {"name": "kube-system/gpu01-macvlan", "interface": "net1", "ips": ["172.16.11.7"], "mac": "02:00:00:00:00:01"},
]


def pod(phase: str = "Running", state: t.Any = None, node: str | None = "ai-1", **status: t.Any) -> dict[str, t.Any]:
    field = {"key": "metadata.name", "operator": "In", "values": ["ai-1"]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    metadata = {"name": "ai-rails-7xk2p", "namespace": "default", "uid": UID}
    states = [{"name": "rails", "state": state or {"running": {}}}] if phase != "Pending" or state else []
    return {
        "metadata": dict(metadata, annotations={STATUS: json.dumps(NETWORKS)}),
        "spec": dict({"affinity": {"nodeAffinity": affinity}}, **({"nodeName": node} if node else {})),
        "status": dict({"phase": phase, "containerStatuses": states}, **status),
    }


def of(found: dict[str, t.Any], *events: dict[str, t.Any], may: bool = True) -> dict[str, t.Any]:
    def say(_method: str, path: str, query: dict[str, str]) -> Answer:
        if path.endswith("/events"):
            assert query["fieldSelector"] == "involvedObject.uid=%s,type=Warning" % UID
            return (200, {"items": list(events)}) if may else (403, {"message": "no"})
        assert (path, query["labelSelector"]) == ("/api/v1/namespaces/default/pods", "a=b")
        return 200, {"items": [found], "metadata": {}}

    far = Far(say)
    (row,) = workload_pods.of(far.server(), "default", "a=b", STATUS)
    assert row["running"] or row["leaving"] or far.paths()[-1] == "/api/v1/namespaces/default/events"
    return row


def test_a_running_pod_is_reported_with_its_attachments() -> None:
    assert of(pod()) == {
        **{"name": "ai-rails-7xk2p", "namespace": "default", "uid": UID, "node": "ai-1", "wanted": "ai-1"},
        **{"phase": "Running", "running": True, "leaving": False, "why": ""},
        "networks": [
            {"interface": "eth0", "network": "cbr0"},
            {"interface": "net1", "network": "kube-system/gpu01-macvlan"},
        ],
    }


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "2 Insufficient x.\n"}
BACK_OFF = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (pod("Pending", None, None, conditions=[UNSCHEDULABLE]), "Unschedulable: 2 Insufficient x"),
        (pod("Pending", BACK_OFF), "ImagePullBackOff: Back-off pulling image"),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), "it is Pending"),
        (pod("Running", {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}), "CrashLoopBackOff: m"),
        (pod("Running", {"terminated": {"reason": "Error", "exitCode": 127}}), "Error: exit status 127"),
        (pod("Failed", {"terminated": {"exitCode": 1}}), "exit status 1"),
        (pod("Failed", {"running": {}}, reason="Evicted", message="The node was low."), "Evicted: The node was low"),
    ],
)
def test_why_one_does_not_run_is_in_its_status(found: dict[str, t.Any], why: str) -> None:
    row = of(found)
    assert (row["running"], row["why"]) == (False, why)
    # without the right to read events there is the status still
    assert of(found, may=False)["why"] == why


def event(reason: str, message: str, **when: t.Any) -> dict[str, t.Any]:
    return dict(
        {"reason": reason, "message": message, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}, **when
    )


def test_the_newest_warning_is_reported_instead_of_the_creation_of_a_container() -> None:
    failed = 'plugin type="macvlan" failed (add): failed to look up master "ens3"'
    row = of(
        pod("Pending", {"waiting": {"reason": "ContainerCreating"}}),
        event("FailedScheduling", "old", lastTimestamp="2026-11-21T20:00:00Z"),
        event("FailedCreatePodSandBox", failed, lastTimestamp="2026-11-21T21:00:00Z"),
        event("Old", "older", eventTime="2026-11-21T19:00:00.000000Z", series={}),
    )
    assert row["why"] == "FailedCreatePodSandBox: " + failed


@pytest.mark.parametrize("reason", ["FailedCreatePodSandBox", "FailedMount", "NetworkNotReady", "Unhealthy"])
@pytest.mark.parametrize("harmless", ["MissingClusterDNS", "DNSConfigForming", "FailedToRetrieveImagePullSecret"])
def test_a_failure_is_reported_though_a_harmless_warning_is_newer(reason: str, harmless: str) -> None:
    newer = event(harmless, "the default", lastTimestamp="2026-11-21T22:00:00Z")
    older = event(reason, "it failed", lastTimestamp="2026-11-21T21:00:00Z")
    waiting = pod("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert of(waiting, newer, older)["why"] == of(waiting, older, newer)["why"] == reason + ": it failed"
    # without a failure, the status is what is known
    assert of(waiting, newer)["why"] == "it is Pending"
    assert of(pod("Pending", BACK_OFF), newer)["why"] == "ImagePullBackOff: Back-off pulling image"


def test_a_pod_that_ends_is_reported_as_that_and_a_damaged_status_is_ignored() -> None:
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-11-21T21:00:00Z"
    assert of(going)["leaving"] is True
    for text in ("{", "7", '["x"]', "null"):
        damaged = pod()
        damaged["metadata"]["annotations"][STATUS] = text
        assert of(damaged)["networks"] == []


def test_which_daemon_sets_there_are() -> None:
    def say(_method: str, path: str, _query: dict[str, str]) -> Answer:
        message = 'User "u" cannot get resource "daemonsets" in API group "apps" in the namespace "default"'
        answers: dict[str, Answer] = {"one": (200, {}), "two": (404, {}), "three": (403, {"message": message})}
        assert path.startswith("/apis/apps/v1/namespaces/default/daemonsets/")
        return answers[path.rpartition("/")[2]]

    assert workload_pods.there(Far(say).server(), "default", ["one", "two"]) == ["one"]
    with pytest.raises(RailyardError) as caught:
        workload_pods.there(Far(say).server(), "default", ["three"])
    assert "u may not get daemonsets.apps. Remedy: have a cluster administrator grant" in str(caught.value)
