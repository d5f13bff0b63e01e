# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods a drain evicts, in which order it looks, who holds a cordon, and what an eviction's answers mean.

A real API server is in ``tests/integration/test_kube_drain.py``.
"""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import concurrency
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import node_drain
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.cordon_holders import HEALTH
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_cordon import cordon
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_drain import (
    MIRROR,
    OURS,
    Consent,
    Drain,
    classed,
)

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


# -- the order of a drain, and the holders of a cordon -----------------------------------------------------------------

NONE = Consent()
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
Hook = t.Callable[[], t.Any]


class Cluster:
    """A node with its pods. ``then``: what others do just before (``PATCH``) or after (``GET pods``...) a request."""

    def __init__(self, *names: str) -> None:
        self.pods: dict[str, dict[str, t.Any]] = {}
        metadata: dict[str, t.Any] = {"name": "n-1", "resourceVersion": "1", "annotations": {}, "managedFields": []}
        self.node: dict[str, t.Any] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}}
        self.log: list[str] = []
        self.then: list[tuple[str, Hook]] = []
        self.ends = True
        for name in names:
            self.bind(name)

    def bind(self, name: str, owner: str | None = "ReplicaSet", uid: str = "", **more: t.Any) -> None:
        """Bind a pod to the node, as the scheduler or a client with ``spec.nodeName`` does."""
        made = pod(owner, **more)
        made["metadata"].update(name=name, uid=uid or "uid-" + name)
        made["spec"]["tolerations"] = more.get("tolerations")
        self.pods[name] = made

    def cordon(self, value: bool | None, manager: str = "kubectl-cordon") -> None:
        """Change the cordon as another client does, which leaves annotations alone."""
        self._write({"spec": {"unschedulable": value}}, manager)

    def change(self) -> None:
        """Report a status, as the kubelet does."""
        self._write({}, "kubelet")

    @property
    def state(self) -> tuple[bool, str | None]:
        return bool(self.node["spec"].get("unschedulable")), self.node["metadata"]["annotations"].get(OURS)

    def drain(self, consent: Consent = NONE, check: bool = False, cordon: str = "") -> Drain:
        return Drain(self.server(), "n-1", consent, "railyard", check, lambda _text: None, cordon)

    def server(self) -> Server:
        return Server("https://it", self, dict, 1, lambda _text: None)

    def __call__(self, method: str, url: str, _headers: dict[str, str], data: bytes | None) -> tuple[int, bytes]:
        path, _mark, query = url.partition("https://it")[2].partition("?")
        line = "%s %s" % (method, path.rpartition("/")[2])
        self.log.append(line)
        before = method == "PATCH"
        if before:
            self._happens(line)
        answer = self._answer(method, path, query, json.loads(data or b"{}"))
        if not before:
            self._happens(line)
        return answer[0], json.dumps(answer[1]).encode()

    def _happens(self, line: str) -> None:
        for at, (when, hook) in enumerate(self.then):
            if when == line:
                del self.then[at]
                hook()
                return

    def _answer(self, method: str, path: str, query: str, body: dict[str, t.Any]) -> tuple[int, t.Any]:
        if path == "/version":
            return 200, {"major": "1", "minor": "34"}
        if path in ("/api/v1/pods", "/api/v1/nodes"):
            items = list(self.pods.values()) if path.endswith("pods") else [self.node]
            return 200, {"metadata": {}, "items": items}
        if path == "/api/v1/nodes/n-1":
            if method == "PATCH" and "dryRun" not in query:
                version = body["metadata"].pop("resourceVersion")
                if version != self.node["metadata"]["resourceVersion"]:
                    return 409, {"message": "the object has been modified"}
                self._write(body, "railyard")
            return 200, self.node
        assert path.endswith("/eviction"), path
        name = path.split("/")[-2]
        found = self.pods.get(name)
        if not found or found["metadata"]["uid"] != body["deleteOptions"]["preconditions"]["uid"]:
            return 409, {"message": "the UID in the precondition does not match"}
        if self.ends and "dryRun" not in body["deleteOptions"]:
            del self.pods[name]
        return 201, {}

    def _write(self, body: dict[str, t.Any], manager: str) -> None:
        metadata, spec = self.node["metadata"], self.node["spec"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        for key in ("annotations", "labels"):
            _merge(metadata.setdefault(key, {}), body.get("metadata", {}).get(key) or {})
        if "spec" in body and body["spec"].get("unschedulable") != spec.get("unschedulable"):
            _merge(spec, body["spec"])
            fields = {"f:spec": {"f:unschedulable": {}}}
            metadata["managedFields"] = [{"manager": manager, "fieldsV1": fields}] if spec else []


def _merge(into: dict[str, t.Any], patch: dict[str, t.Any]) -> None:
    into.update(patch)
    for key in [key for key, value in into.items() if value is None]:
        del into[key]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_drain, "PAUSE", 0.0)
    monkeypatch.setattr(concurrency, "_PAUSES", (0.0,) * 5)


def test_pods_are_listed_after_the_cordon_and_again_after_the_evictions() -> None:
    cluster = Cluster("early")
    cluster.then += [("PATCH n-1", lambda: cluster.bind("late")), ("POST eviction", lambda: cluster.bind("later"))]
    drain = cluster.drain()
    drain.drained(10)
    assert cluster.pods == {} and cluster.state == (True, drain.cordon)
    reads = [line for line in cluster.log if line != "GET version"]
    assert reads[:3] == ["GET n-1", "PATCH n-1", "GET pods"] and reads[-2:] == ["GET pods", "GET n-1"], reads
    evicted = [change.subject for change in drain.done if change.after == "evicted"]
    assert evicted == ["Pod default/early", "Pod default/late", "Pod default/later"]


def test_a_pod_with_the_name_of_an_evicted_one_is_evicted_too() -> None:
    cluster = Cluster("db-0")
    cluster.then.append(("POST eviction", lambda: cluster.bind("db-0", "StatefulSet", uid="second")))
    cluster.drain().drained(10)
    assert cluster.pods == {}


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ({"owner": None}, "no controller recreates these pods: default/late"),
        ({"owner": "ReplicaSet", "volumes": EMPTY}, "these pods have data in an emptyDir"),
        # nothing creates it again, so that it is evicted although it tolerates the cordon
        ({"owner": None, "tolerations": [{"operator": "Exists"}]}, "no controller recreates these pods: default/late"),
    ],
)
@pytest.mark.parametrize("when", ["PATCH n-1", "POST eviction"])
def test_a_late_pod_needs_the_same_consent(when: str, late: dict[str, t.Any], message: str) -> None:
    cluster = Cluster("early")
    cluster.then.append((when, lambda: cluster.bind("late", **late)))
    with pytest.raises(Refused, match=message):
        cluster.drain().drained(10)
    assert "late" in cluster.pods and cluster.state == (False, None)
    cluster.drain(Consent(True, True)).drained(10)
    assert cluster.pods == {}


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": UNSCHEDULABLE, "operator": "Exists"}, True),
        ({"key": UNSCHEDULABLE, "operator": "Equal", "effect": "NoSchedule"}, True),
        ({"key": UNSCHEDULABLE, "value": "yes"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_a_late_pod_stays_only_with_a_toleration_of_the_cordon(toleration: dict[str, str], stays: bool) -> None:
    cluster = Cluster("early")
    cluster.then.append(("POST eviction", lambda: cluster.bind("late", tolerations=[toleration])))
    drain = cluster.drain()
    drain.drained(10)
    assert list(cluster.pods) == (["late"] if stays else [])
    # the check before the reboot does not evict it either
    again = cluster.drain(cordon=drain.cordon)
    again.drained(10)
    assert again.done == [] and list(cluster.pods) == (["late"] if stays else [])


def test_a_pod_that_tolerates_the_cordon_is_evicted_once() -> None:
    cluster = Cluster()
    cluster.bind("web", tolerations=[{"operator": "Exists"}])
    recreated = {"tolerations": [{"operator": "Exists"}], "uid": "second"}
    cluster.then.append(("POST eviction", lambda: cluster.bind("web", **recreated)))
    cluster.drain().drained(10)
    assert cluster.log.count("POST eviction") == 1 and list(cluster.pods) == ["web"]


def test_a_node_that_others_uncordon_is_cordoned_and_read_again() -> None:
    cluster = Cluster("early")

    def opened() -> None:
        cluster.cordon(None)
        cluster.bind("late")

    cluster.then += [("GET pods", lambda: None), ("GET pods", opened)]
    drain = cluster.drain()
    drain.drained(10)
    assert cluster.pods == {} and cluster.state == (True, drain.cordon)

    # a program that always uncordons it keeps the node up
    cluster.then += [("GET pods", lambda: cluster.cordon(None))] * 30
    with pytest.raises(
        RailyardError, match="Node n-1: others uncordoned it 4 times while it was drained. Remedy: find"
    ):
        cluster.drain(cordon=drain.cordon).drained(10)
    assert not cluster.state[0]


def test_the_check_before_the_reboot_drains_again_what_came_since() -> None:
    cluster = Cluster("web")
    first = cluster.drain()
    first.drained(10)
    cluster.cordon(None)
    cluster.bind("next")
    second = cluster.drain(cordon=first.cordon)
    second.drained(10)
    assert cluster.pods == {} and cluster.state == (True, first.cordon) == (True, second.cordon)
    # without a late pod it only reads
    before = len(cluster.log)
    cluster.drain(cordon=first.cordon).drained(10)
    assert [line for line in cluster.log[before:] if not line.startswith("GET")] == []


def test_a_pod_that_is_bound_at_the_end_of_the_time_is_named() -> None:
    cluster = Cluster("early")
    cluster.then.append(("POST eviction", lambda: cluster.bind("late")))
    with pytest.raises(RailyardError, match="Pod default/late: it was created on n-1 while the node was drained"):
        cluster.drain().drained(0)
    assert cluster.state == (False, None)


def test_a_second_run_takes_over_the_cordon_and_the_first_does_not_reboot() -> None:
    cluster = Cluster("web")
    first, second = cluster.drain(), cluster.drain()
    first.drained(10)
    second.drained(10)
    assert cluster.state == (True, second.cordon) and second.done == []
    with pytest.raises(Refused, match="another run drains it since this run drained it.*Remedy: let that run reboot"):
        cluster.drain(cordon=first.cordon).drained(10)
    # neither that error nor the end of the first run opens the node of the second
    cluster.drain(cordon=first.cordon).restored()
    assert cluster.state == (True, second.cordon)
    cluster.drain(cordon=second.cordon).restored()
    assert cluster.state == (False, None)


def test_a_second_run_in_the_middle_of_a_drain_ends_the_first() -> None:
    cluster = Cluster("web")
    second = cluster.drain()
    cluster.then.append(("POST eviction", lambda: second.drained(10)))
    with pytest.raises(Refused, match="another run drains it"):
        cluster.drain().drained(10)
    assert cluster.state == (True, second.cordon)


def test_two_runs_that_cordon_at_once_have_one_holder() -> None:
    cluster = Cluster()
    second = cluster.drain()
    cluster.then.append(("PATCH n-1", lambda: second.drained(10)))
    first = cluster.drain()
    first.drained(10)
    # the patch of the first met another resourceVersion, so that it took over the cordon
    assert cluster.state == (True, first.cordon) and first.done == []
    assert [change.attribute for change in second.done] == ["spec.unschedulable"]


def test_the_next_run_continues_the_drain_of_an_interrupted_one() -> None:
    cluster = Cluster("web")
    cluster.cordon(True, "railyard")
    cluster.node["metadata"]["annotations"][OURS] = "true"  # as releases before identifiers wrote it
    drain = cluster.drain()
    drain.drained(10)
    assert cluster.pods == {} and [change.subject for change in drain.done] == ["Pod default/web"]
    cluster.drain(cordon=drain.cordon).restored()
    assert cluster.state == (False, None)
    # a run that does not drain the node removes what an interrupted one left
    cluster.drain().drained(10)
    cluster.drain().restored()
    assert cluster.state == (False, None)


def test_the_cordon_of_an_administrator_stays() -> None:
    cluster = Cluster("web")
    cluster.cordon(True)
    drain = cluster.drain()
    drain.drained(10)
    assert cluster.pods == {} and cluster.state == (True, None)
    cluster.drain(cordon=drain.cordon).restored()
    assert cluster.state == (True, None)

    # nor is one removed that replaced ours: kubectl leaves our annotation
    cluster.cordon(None)
    drain = cluster.drain()
    drain.drained(10)
    cluster.cordon(None)
    cluster.cordon(True)
    restored = cluster.drain(cordon=drain.cordon)
    restored.restored()
    assert cluster.state == (True, None) and restored.done == []


def test_reports_of_the_kubelet_do_not_end_a_drain() -> None:
    cluster = Cluster("web")
    cluster.then += [("PATCH n-1", cluster.change)] * 3
    drain = cluster.drain()
    drain.drained(10)
    assert cluster.state == (True, drain.cordon) and cluster.log.count("PATCH n-1") == 4
    cluster.then += [("PATCH n-1", cluster.change)] * 30
    with pytest.raises(RailyardError, match="Node n-1: it was created or changed meanwhile"):
        cluster.drain(cordon=drain.cordon).restored()


def test_a_node_with_a_bad_rail_stays_cordoned_after_its_reboot() -> None:
    cluster = Cluster("web")
    drain = cluster.drain()
    drain.drained(10)
    done = cordon(cluster.server(), {"n-1": ["gpu01"]}, "railyard", False)
    assert HEALTH in cluster.node["metadata"]["annotations"]
    assert [change.attribute for change in done] == ["metadata.labels.health.railyard.fabric/bad-rails"]
    cluster.drain(cordon=drain.cordon).restored()
    assert cluster.state == (True, None)
    cordon(cluster.server(), {"n-1": []}, "railyard", False)
    assert cluster.state == (False, None) and HEALTH not in cluster.node["metadata"]["annotations"]

    # and a node that is drained stays cordoned after its rail is good again
    cordon(cluster.server(), {"n-1": ["gpu01"]}, "railyard", False)
    cluster.node["metadata"]["annotations"][OURS] = "run"
    done = cordon(cluster.server(), {"n-1": []}, "railyard", False)
    assert cluster.state == (True, "run") and "spec.unschedulable" not in [change.attribute for change in done]


def test_a_cordon_of_an_administrator_during_that_of_a_bad_rail_stays() -> None:
    cluster = Cluster()
    # between the read of the node and the patch
    cluster.then.append(("PATCH n-1", lambda: cluster.cordon(True)))
    cordon(cluster.server(), {"n-1": ["gpu01"]}, "railyard", False)
    assert cluster.state[0] and HEALTH not in cluster.node["metadata"]["annotations"]
    cordon(cluster.server(), {"n-1": []}, "railyard", False)
    assert cluster.state[0]


def test_check_mode_reads_first_and_changes_nothing() -> None:
    cluster = Cluster("web")
    drain = cluster.drain(check=True)
    drain.drained(10)
    assert [change.subject for change in drain.done] == ["Node n-1", "Pod default/web"]
    assert [line for line in cluster.log if line != "GET version"][:2] == ["GET n-1", "GET pods"]
    assert cluster.state == (False, None) and list(cluster.pods) == ["web"]
    cluster.bind("lone", None)
    with pytest.raises(Refused, match="default/lone"):
        cluster.drain(check=True).drained(10)
