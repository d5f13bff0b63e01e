# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify's layer of Kubernetes, and cordons, on a real API server. What kubelets would say, the test does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.base import FABRIC, LABEL, MANAGER
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.ready import Goal
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.verify.engine import Asked, judge
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.verify.run import DRIFT, Told
from ansible_collections.railyard.fabric.plugins.module_utils.kube import server
from ansible_collections.railyard.fabric.plugins.module_utils.kube.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils.kube.cordon import BAD, CORDONED, cordon, label
from ansible_collections.railyard.fabric.plugins.module_utils.kube.nodes import Labelling
from ansible_collections.railyard.fabric.plugins.plugin_utils.kube import Planned
from lab.cluster import api
from tests.integration.cluster import Cluster, Object
from tests.integration.conftest import ROOT
from tests.integration.test_kube_objects import Bench, bench, proxy  # noqa: F401  (fixtures)

NODES = ("node-1", "node-2")


def action(bench: Bench, name: str, **options: t.Any) -> Object:  # noqa: F811
    """What an action returns in check mode, as the role verify asks it."""
    given = {"file": str(bench.place / "fabric.yml"), "kubeconfig": str(bench.kubeconfig), **options}
    program = str(Path(sys.executable).with_name("ansible"))
    command = [
        program,
        "localhost",
        "-i",
        "localhost,",
        "--check",
        "-m",
        "railyard.fabric." + name,
        "-a",
        json.dumps(given),
    ]
    env = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    env["ANSIBLE_CALLBACK_RESULT_FORMAT"] = "json"
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert "=> " in done.stdout, done.stdout + done.stderr
    result: Object = json.loads(done.stdout.partition("=> ")[2])
    return result


class Ground:
    """A cluster as planned, with what its kubelets and controllers would have said."""

    def __init__(self, bench: Bench) -> None:  # noqa: F811
        self.bench = bench
        self.plan: Planned = bench.plan(kubernetes={"metrics": False})
        self.options = {"kubernetes": self.plan.given}
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
            admin.request("PATCH", "/api/v1/nodes/%s/status" % name, status, server.MERGE)

    def _controllers(self, admin: api.Api) -> None:
        for each in self.plan.objects:
            if each["kind"] == "SpiderMultusConfig":
                place, name = each["metadata"]["namespace"], each["metadata"]["name"]
                made = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
                made["metadata"] = {"name": name}  # type: ignore[assignment]
                admin.request(
                    "POST", "/apis/k8s.cni.cncf.io/v1/namespaces/%s/network-attachment-definitions" % place, made
                )
            elif each["kind"] == "SpiderIPPool":
                path = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/%s" % each["metadata"]["name"]
                admin.request("PATCH", path + "/status", {"status": {"totalIPCount": 9}}, server.MERGE)

    def failures(self) -> list[t.Any]:
        ready = action(self.bench, "kube_ready", **self.options)
        objects = action(self.bench, "kube_objects", **self.options)
        seen = {"server": "it", "error": "", "lacks": ready["lacks"], "changes": objects["changes"]}
        plans = {node["name"]: node for node in self.plan.document["nodes"]}
        told = [
            Told(name, plan, {"system": {"boot_id": "x", "rdma_mode": plan["rdma_mode"]}}, {})
            for name, plan in plans.items()
        ]
        return judge(DRIFT, self.plan.document["fabric"], told, Asked(list(plans)), (), seen).run.failures


@pytest.fixture
def ground(bench: Bench) -> t.Iterator[Ground]:  # noqa: F811
    made = Ground(bench)
    yield made
    with api.Api(bench.cluster.running) as admin:
        for name in NODES:
            status = {"status": {"allocatable": None, "conditions": None}}
            admin.request("PATCH", "/api/v1/nodes/%s/status" % name, status, server.MERGE)


def test_faults_of_a_cluster_are_told_one_by_one(ground: Ground, cluster: Cluster) -> None:
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
    pools, ours = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/" + pool, server.MERGE
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
        assert "172.16.99.1" in failure.found and failure.mends == "playbooks/kubernetes.yml"
        admin.request("PATCH", pools, {"spec": {"ips": before}}, ours)
        assert [each.line() for each in ground.failures()] == []

        # a network is gone
        path = "/apis/spiderpool.spidernet.io/v2beta1/namespaces/%s/spidermultusconfigs/%s"
        admin.request("DELETE", path % (network["namespace"], network["name"]))
        failures = ground.failures()
        assert [(each.code, each.found) for each in failures] == [("RV902", "not there")], [e.line() for e in failures]

        # a kubelet that is silent
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
        admin.request("PATCH", "/api/v1/nodes/node-2/status", {"status": {"conditions": [ready]}}, ours)
        assert ("RV901", "node-2", None) in [(each.code, each.node, each.rail) for each in ground.failures()]


def test_nodes_with_a_bad_rail_are_cordoned_until_they_are_well(cluster: Cluster) -> None:
    made = server_of(cluster)
    with api.Api(cluster.running) as admin:
        admin.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"unschedulable": True}}, server.MERGE)
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
            well: dict[str, list[str]] = {"node-1": [], "node-2": []}
            cordon(made, well, MANAGER, False)
            after = {name: admin.get("/api/v1/nodes/" + name) for name in NODES}
            assert not after["node-1"]["spec"].get("unschedulable")
            # somebody else had cordoned this one
            assert after["node-2"]["spec"]["unschedulable"] is True
            assert not any(BAD in (each["metadata"].get("labels") or {}) for each in after.values())
            assert not any(CORDONED in (each["metadata"].get("annotations") or {}) for each in after.values())
            assert cordon(made, well, MANAGER, False) == []
        finally:
            admin.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"unschedulable": None}}, server.MERGE)


def labels(admin: api.Api, name: str) -> dict[str, str]:
    return dict(admin.get("/api/v1/nodes/" + name)["metadata"].get("labels") or {})


def server_of(cluster: Cluster) -> server.Server:
    return connect(str(cluster.kubeconfig), None, 2)


def test_a_label_has_room_for_so_many_rails() -> None:
    many = label(["gpu%02dp%d" % (number, plane) for number in range(1, 9) for plane in (1, 2)])
    assert many and len(many) <= 63 and many.endswith(".more") and many.startswith("gpu01p1.gpu01p2")
    assert label([]) is None
