# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods a drain has end, and what an eviction's answers mean. The whole way is tested on a real API server."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_drain import MIRROR, classed

EMPTY = [{"name": "cache", "emptyDir": {}}]


def pod(owner: str | None = "ReplicaSet", phase: str = "Running", **more: t.Any) -> dict[str, t.Any]:
    owners = [{"kind": owner, "name": "it", "controller": True}] if owner else []
    metadata = {"name": "web-1", "namespace": "default", "uid": "u", "ownerReferences": owners}
    metadata.update(more.get("metadata") or {})
    return {"metadata": metadata, "spec": {"volumes": more.get("volumes")}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("given", "stays", "ways"),
    [
        (pod(), False, ()),
        (pod("DaemonSet"), True, ()),
        (pod("DaemonSet", volumes=EMPTY), True, ()),
        (pod("DaemonSet", phase="Failed"), False, ()),
        (pod(None, metadata={"annotations": {MIRROR: "x"}}), True, ()),
        (pod(None), False, ("unmanaged",)),
        # consent for the one is not consent for the other
        (pod(None, volumes=EMPTY), False, ("unmanaged", "empty_dirs")),
        (pod(volumes=EMPTY), False, ("empty_dirs",)),
        (pod(volumes=[{"name": "own", "configMap": {"name": "it"}}]), False, ()),
        # what has ended loses nothing
        (pod(None, phase="Succeeded", volumes=EMPTY), False, ()),
        # an owner that is not a controller recreates nothing
        (pod(None, metadata={"ownerReferences": [{"kind": "ConfigMap", "name": "it"}]}), False, ("unmanaged",)),
    ],
)
def test_which_pods_stay_and_which_take_leave(given: dict[str, t.Any], stays: bool, ways: tuple[str, ...]) -> None:
    found = classed(given)
    assert (found is None) == stays
    assert found is None or (found.ways, found.name) == (ways, "default/web-1")


class Answers:
    """A server of one release with one answer to evictions; what it was sent."""

    def __init__(self, status: int, body: dict[str, t.Any], minor: str = "30") -> None:
        self.status, self.body, self.minor = status, body, minor
        self.sent: list[tuple[str, dict[str, t.Any]]] = []

    def __call__(self, method: str, url: str, _headers: dict[str, str], data: bytes | None) -> tuple[int, bytes]:
        if url.endswith("/version"):
            return 200, json.dumps({"major": "1", "minor": self.minor}).encode()
        self.sent.append((method + " " + url, json.loads(data or b"{}")))
        return self.status, json.dumps(self.body).encode()

    def evict(self, grace: int | None = None, dry: bool = False) -> str:
        server = Server("https://it", self, dict, 1, lambda _text: None)
        return server.evict(Key("v1", "Pod", "default", "web-1"), "u", grace, dry)


def test_an_eviction_is_of_the_pod_that_was_seen() -> None:
    answers = Answers(201, {})
    assert answers.evict() == ""
    assert answers.evict(0, dry=True) == ""
    (line, first), (_line, second) = answers.sent
    assert line == "POST https://it/api/v1/namespaces/default/pods/web-1/eviction"
    assert (first["apiVersion"], first["deleteOptions"]) == ("policy/v1", {"preconditions": {"uid": "u"}})
    assert second["deleteOptions"] == {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0, "dryRun": ["All"]}
    old = Answers(201, {}, minor="21+")
    old.evict()
    assert old.sent[0][1]["apiVersion"] == "policy/v1beta1"


def test_the_refusal_of_a_budget_is_reported_at_once_in_its_words() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget db needs 1 healthy pods and has 1."}]
    body = {
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": causes},
    }
    answers = Answers(429, body)
    assert answers.evict() == (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget db needs 1 healthy pods and has 1"
    )
    assert len(answers.sent) == 1


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_is_gone_or_another_raises_no_error(status: int) -> None:
    assert Answers(status, {"message": "it is gone"}).evict() == ""


def test_permanent_errors_are_not_retried() -> None:
    with pytest.raises(Refusal, match="Pod default/web-1: .*more than one PodDisruptionBudget"):
        Answers(500, {"message": "This pod has more than one PodDisruptionBudget"}).evict()
