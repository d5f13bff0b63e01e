# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify's layers of Kubernetes and pods, and cordons, on a real API server. What kubelets would say, the test does."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.action import kube_objects, kube_pods, kube_ready
from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import Goal
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    VERIFY,
    NodeReport,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import Asked, judge
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import api_server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_cordon import CORDONED, cordon
from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import Planned
from lab.cluster import api, nodes
from tests.integration.cluster import Cluster, Object
from tests.integration.kube_bench import Bench, work
from tests.integration.kube_fixtures import bench, proxy  # noqa: F401  (fixtures)
from tests.playbook import run
from tests.waiting import wait_for

NODES = ("node-1", "node-2")
DEFINITIONS = "/apis/k8s.cni.cncf.io/v1/namespaces/%s/network-attachment-definitions"


def action(name: str, options: Object) -> Object:
    """What an action returns in check mode, as the role verify asks it."""
    words = ("localhost", "-i", "localhost,", "--check", "-m", "railyard.fabric." + name, "-a", json.dumps(options))
    done = run("ansible", *words, env={"ANSIBLE_CALLBACK_RESULT_FORMAT": "json"})
    assert "=> " in done.stdout, done.text
    result: Object = json.loads(done.stdout.partition("=> ")[2])
    return result


class Ground:
    """A cluster as planned, with the status that its kubelets and controllers would have written."""

    def __init__(self, bench: Bench) -> None:  # noqa: F811
        self.bench = bench
        self.plan: Planned = bench.plan(kubernetes={"metrics": False})
        place = {"file": str(bench.place / "fabric.yml"), "kubeconfig": str(bench.kubeconfig)}
        self.options = {**place, "kubernetes": self.plan.given}
        bench.apply(self.plan)
        labels = Labelling(bench.server(), self.plan.node_labels(), {FABRIC: self.plan.fabric}, LABEL, MANAGER)
        labels.run(False, lambda _text: None)
        with api.Api(bench.cluster.running) as admin:
            self._kubelets(admin)
            self._controllers(admin)

    def _kubelets(self, admin: api.Api) -> None:
        goal = Goal(self.plan.document, self.plan.given, self.plan.objects)
        for name in NODES:
            wanted = {resource: str(units) for resource, units in goal._wanted[name].items()}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it is"}
            status = {"status": {"allocatable": wanted, "conditions": [ready]}}
            admin.request("PATCH", "/api/v1/nodes/%s/status" % name, status, api_server.MERGE)

    def _controllers(self, admin: api.Api) -> None:
        for each in self.plan.objects:
            if each["kind"] == "SpiderMultusConfig":
                place, name = each["metadata"]["namespace"], each["metadata"]["name"]
                made = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
                made["metadata"] = {"name": name}  # type: ignore[assignment]
                admin.request("POST", DEFINITIONS % place, made)
            elif each["kind"] == "SpiderIPPool":
                path = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/%s" % each["metadata"]["name"]
                admin.request("PATCH", path + "/status", {"status": {"totalIPCount": 9}}, api_server.MERGE)

    def failures(self) -> list[t.Any]:
        ready, objects = (work(each.ActionModule, self.options, check=True) for each in (kube_ready, kube_objects))
        seen = {"server": "it", "error": "", "missing": ready["missing"], "changes": objects["changes"]}
        plans = {node["name"]: node for node in self.plan.document["nodes"]}
        reports = [
            NodeReport(name, plan, {"system": {"boot_id": "x", "rdma_mode": plan["rdma_mode"]}}, {})
            for name, plan in plans.items()
        ]
        return judge(DRIFT, self.plan.document["fabric"], reports, Asked(list(plans)), (), seen).run.failures


@pytest.fixture
def ground(bench: Bench) -> t.Iterator[Ground]:  # noqa: F811
    made = Ground(bench)
    yield made
    with api.Api(bench.cluster.running) as admin:
        for name in NODES:
            status = {"status": {"allocatable": None, "conditions": None}}
            admin.request("PATCH", "/api/v1/nodes/%s/status" % name, status, api_server.MERGE)
        nodes.apply(admin, list(NODES))  # as the lab describes them
        for each in admin.get(DEFINITIONS.replace("/namespaces/%s", ""))["items"]:
            admin.delete(DEFINITIONS % each["metadata"]["namespace"] + "/" + each["metadata"]["name"])


def test_faults_of_a_cluster_are_reported_one_by_one(ground: Ground, cluster: Cluster) -> None:
    assert [each.line() for each in ground.failures()] == []
    resource = next(
        each for each in Goal(ground.plan.document, ground.plan.given, ground.plan.objects)._wanted["node-1"]
    )
    rail = next(
        port["rail"]
        for port in ground.plan.document["nodes"][0]["ports"]
        if resource.endswith("/" + port["names"]["resource"])
    )
    pool = next(each["metadata"]["name"] for each in ground.plan.objects if each["kind"] == "SpiderIPPool")
    network = next(each["metadata"] for each in ground.plan.objects if each["kind"] == "SpiderMultusConfig")
    pools, ours = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/" + pool, api_server.MERGE
    with api.Api(cluster.running) as admin:
        # a resource is short
        full = admin.get("/api/v1/nodes/node-1")["status"]["allocatable"][resource]
        short = {"status": {"allocatable": {resource: "1"}}}
        admin.request("PATCH", "/api/v1/nodes/node-1/status", short, ours)
        (failure,) = ground.failures()
        assert (failure.code, failure.node, failure.rail) == ("RV901", "node-1", rail)
        assert "reports 1 of" in failure.found
        admin.request("PATCH", "/api/v1/nodes/node-1/status", {"status": {"allocatable": {resource: full}}}, ours)

        # a stale pool
        before = admin.get(pools)["spec"]["ips"]
        admin.request("PATCH", pools, {"spec": {"ips": ["172.16.99.1-172.16.99.9"]}}, ours)
        (failure,) = ground.failures()
        assert (failure.code, failure.node) == ("RV902", None) and failure.rail in ground.plan.document["fabric"][
            "rails"
        ]
        assert "172.16.99.1" in failure.found and failure.playbook == "playbooks/kubernetes.yml"
        admin.request("PATCH", pools, {"spec": {"ips": before}}, ours)
        assert [each.line() for each in ground.failures()] == []

        # a network is gone
        path = "/apis/spiderpool.spidernet.io/v2beta1/namespaces/%s/spidermultusconfigs/%s"
        admin.request("DELETE", path % (network["namespace"], network["name"]))
        failures = ground.failures()
        assert [(each.code, each.found) for each in failures] == [("RV902", "absent")], [e.line() for e in failures]

        # a kubelet that is silent
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
        admin.request("PATCH", "/api/v1/nodes/node-2/status", {"status": {"conditions": [ready]}}, ours)
        assert ("RV901", "node-2", None) in [(each.code, each.node, each.rail) for each in ground.failures()]


PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/daemonsets"
FAILED = 'plugin type="macvlan" failed (add): failed to look up master "rail01"'


@pytest.fixture
def started(ground: Ground, cluster: Cluster) -> t.Iterator[dict[str, Object]]:
    """The workload as people apply it; node -> the pod that the DaemonSet has made for it."""
    images = {"images": {"test": "registry.example.com/tools/busybox:1.37"}}
    given = dict(ground.plan.given, **images)
    made = [
        each
        for component, each in object_components.components(ground.plan.document, given)
        if component == test_workload.COMPONENT
    ]
    with api.Api(cluster.running) as admin:
        for each in made:
            # nodes without kubelets have taints
            each["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
            admin.request("POST", SETS, each)
        try:
            yield {str(pods_made_for(pod)): pod for pod in pods_there(admin, len(NODES))}
        finally:
            for each in made:
                admin.delete("%s/%s" % (SETS, each["metadata"]["name"]))
            pods_there(admin, 0, clear=True)


def pods_there(admin: api.Api, count: int, clear: bool = False) -> list[Object]:
    """The pods once there are so many. ``clear``: meanwhile take them away, for no kubelet confirms that one ends."""

    def there() -> list[list[Object]]:
        pods: list[Object] = admin.get(PODS)["items"]
        if len(pods) == count:
            return [pods]
        for pod in pods if clear else ():
            admin.delete("%s/%s" % (PODS, pod["metadata"]["name"]), at_once=True)
        return []

    (pods,) = wait_for(there, "the number of pods does not become %d" % count)
    return pods


def pods_made_for(pod: Object) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def judged(ground: Ground, seen: Object, inside: dict[str, Object]) -> list[t.Any]:
    """What the layer of pods makes of it."""
    known = {"server": "it", "error": "", "missing": [], "changes": [], "pods": seen}
    plans = {node["name"]: node for node in ground.plan.document["nodes"]}
    reports = [NodeReport(name, plan, {"system": {}}, {}, inside=inside.get(name)) for name, plan in plans.items()]
    asked = Asked(list(plans), ["pods"])
    return judge(VERIFY, ground.plan.document["fabric"], reports, asked, (), known).run.failures


def test_without_test_pods_the_option_that_starts_them_is_named(ground: Ground) -> None:
    seen = work(kube_pods.ActionModule, ground.options, check=True)
    assert (seen["there"], seen["pods"], seen["nodes"], seen["running"]) == (False, [], [], {})
    assert seen["remedy"].startswith("kubectl apply -k ") and "images.test" in seen["remedy"]
    assert judged(ground, seen, {}) == []


def test_test_pods_are_found_and_why_one_does_not_run(
    ground: Ground, cluster: Cluster, started: dict[str, Object]
) -> None:
    assert sorted(started) == sorted(NODES)
    first, second = (started[name] for name in NODES)
    status = {"phase": "Running", "containerStatuses": [state(running={"startedAt": "2026-11-21T20:00:00Z"})]}
    attached = json.dumps([{"name": "cbr0", "interface": "eth0"}, {"name": "x/gpu01", "interface": "net1"}])
    with api.Api(cluster.running) as admin:
        for name, pod in started.items():
            if not admin.get("%s/%s" % (PODS, pod["metadata"]["name"]))["spec"].get("nodeName"):
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
                target = {"apiVersion": "v1", "kind": "Node", "name": name}
                admin.request("POST", "%s/%s/binding" % (PODS, pod["metadata"]["name"]), dict(binding, target=target))
        place = "%s/%s" % (PODS, first["metadata"]["name"])
        admin.request(
            "PATCH", place, {"metadata": {"annotations": {test_workload.NETWORK_STATUS: attached}}}, api_server.MERGE
        )
        admin.request("PATCH", place + "/status", {"status": status}, api_server.MERGE)
        place = "%s/%s" % (PODS, second["metadata"]["name"])
        waiting = {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ContainerCreating"})]}
        admin.request("PATCH", place + "/status", {"status": waiting}, api_server.MERGE)
        for number, (reason, message) in enumerate((("FailedMount", "old"), ("FailedCreatePodSandBox", FAILED))):
            admin.request("POST", "/api/v1/namespaces/default/events", warning(second, number, reason, message))
    seen = action("kube_pods", ground.options)
    assert (seen["there"], sorted(seen["nodes"]), seen["remedy"]) == (True, sorted(NODES), "")
    rows = {row["node"]: row for row in seen["pods"]}
    uid = first["metadata"]["uid"]
    assert seen["running"] == {NODES[0]: [uid]} and rows[NODES[0]]["uid"] == uid
    assert rows[NODES[0]]["networks"][1] == {"interface": "net1", "network": "x/gpu01"}
    assert (rows[NODES[1]]["running"], rows[NODES[1]]["why"]) == (False, "FailedCreatePodSandBox: " + FAILED)
    (settings,) = seen["settings"]
    assert sorted(settings["nodes"]) == sorted(NODES) and "NCCL_SOCKET_IFNAME" in settings["nccl"]

    gone = {"uid": uid, "why": "no process of it runs here"}
    failures = judged(ground, seen, {NODES[0]: {"pods": [gone]}, NODES[1]: {"pods": []}})
    assert [(each.code, each.node) for each in failures] == [("RV912", NODES[0]), ("RV910", NODES[1])]
    assert FAILED in failures[1].found


def state(**state: Object) -> Object:
    return {
        **{"name": "rails", "image": "x", "imageID": "", "ready": True, "restartCount": 0},
        "state": state,
    }


def warning(pod: Object, number: int, reason: str, message: str) -> Object:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "default"}
    about.update(name=pod["metadata"]["name"], uid=pod["metadata"]["uid"])
    moment = "2026-11-21T20:0%d:00Z" % number
    return {
        **{"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message},
        **{"metadata": {"generateName": "rails-"}, "involvedObject": about, "source": {"component": "kubelet"}},
        **{"firstTimestamp": moment, "lastTimestamp": moment, "count": 1},
    }


def test_nodes_with_a_bad_rail_are_cordoned_until_it_is_good_again(cluster: Cluster) -> None:
    made = server_of(cluster)
    with api.Api(cluster.running) as admin:
        admin.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"unschedulable": True}}, api_server.MERGE)
        try:
            bad: dict[str, list[str]] = {"node-1": ["gpu02", "gpu05"], "node-2": ["gpu01"], "node-9": ["gpu01"]}
            assert cordon(made, bad, MANAGER, True) and not labels(admin, "node-1").get(BAD)
            done = cordon(made, bad, MANAGER, False)
            assert [(each.subject, each.attribute) for each in done] == [
                ("Node node-1", "metadata.labels." + BAD),
                ("Node node-1", "spec.unschedulable"),
                ("Node node-2", "metadata.labels." + BAD),
            ]
            assert labels(admin, "node-1")[BAD] == "gpu02.gpu05"
            assert admin.get("/api/v1/nodes/node-1")["spec"]["unschedulable"] is True
            assert cordon(made, bad, MANAGER, False) == []
            # with the rail agent, a bad rail does not make the node unschedulable
            cordon(made, {"node-1": ["gpu05"]}, MANAGER, False, unschedulable=False)
            assert labels(admin, "node-1")[BAD] == "gpu05"
            assert not admin.get("/api/v1/nodes/node-1")["spec"].get("unschedulable")
            cordon(made, bad, MANAGER, False)
            well: dict[str, list[str]] = {"node-1": [], "node-2": []}
            cordon(made, well, MANAGER, False)
            after = {name: admin.get("/api/v1/nodes/" + name) for name in NODES}
            assert not after["node-1"]["spec"].get("unschedulable")
            # another user had cordoned this one
            assert after["node-2"]["spec"]["unschedulable"] is True
            assert not any(BAD in (each["metadata"].get("labels") or {}) for each in after.values())
            assert not any(CORDONED in (each["metadata"].get("annotations") or {}) for each in after.values())
            assert cordon(made, well, MANAGER, False) == []
        finally:
            admin.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"unschedulable": None}}, api_server.MERGE)


def labels(admin: api.Api, name: str) -> dict[str, str]:
    return dict(admin.get("/api/v1/nodes/" + name)["metadata"].get("labels") or {})


def server_of(cluster: Cluster) -> api_server.Server:
    return connect(str(cluster.kubeconfig), None, 2)
