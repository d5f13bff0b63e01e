# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan on a real API server: what is sent, what is refused with which message; and the next run converges."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import threading
import time
import types
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.action import kube_ready, kube_software
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import Goal
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import api_server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import observed
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import FAMILY, Planned
from lab import process
from lab.cluster import api, binaries, lifecycle
from tests import playbook
from tests.integration.cluster import Cluster
from tests.integration.kube_bench import OPTIONS, Bench, kubeconfig, names, pool, quiet
from tests.playbook import Played
from tests.waiting import retried


def test_a_second_run_lists_each_kind_once_and_writes_nothing(bench: Bench) -> None:
    plan = bench.plan()
    first = bench.apply(plan)
    assert len(first.done) == len(plan.objects) == len({write.key for write in first.done})
    assert set(names(first)) == set(bench.live(plan))
    second = bench.apply(plan)
    assert second.done == [] and second.warnings == []
    assert {method for method, _path in bench.proxy.seen} == {"GET"}
    assert bench.proxy.lists and len(bench.proxy.lists) == len(set(bench.proxy.lists))


@pytest.mark.parametrize(
    ("provider", "attachment", "mode"),
    [
        ("spiderpool", "sriov", "prefix"),
        ("network-operator", "macvlan", "subnet"),
        ("network-operator", "sriov", "prefix"),
        ("cni", "macvlan", "block"),
        ("cni", "sriov", "block"),
    ],
)
def test_every_provider_converges_at_once(bench: Bench, provider: str, attachment: str, mode: str) -> None:
    options = dict(OPTIONS, operator_namespace="kube-system", sriov_namespace="kube-system")
    plan = bench.plan(provider, attachment, mode, options=options)
    predicted = bench.apply(plan, check=True)
    assert bench.proxy.writes == [] or all("dryRun" in json.dumps(each) for each in bench.proxy.writes)
    assert names(bench.apply(plan)) == names(predicted)
    assert bench.apply(plan).done == []
    assert bench.proxy.writes == []
    # a later plan with another provider takes all of it away
    bench.apply(bench.plan(), replace=True)
    assert {kind.split()[0] for kind in bench.live(plan)} == {"SpiderIPPool", "SpiderMultusConfig", "ConfigMap"}


def test_one_change_is_one_write(bench: Bench) -> None:
    bench.apply(bench.plan())
    plan = bench.plan(rails={"gpu01": {"pods": ".0.1-.19.100"}})
    before = {name: each["metadata"]["resourceVersion"] for name, each in bench.live(plan).items()}
    checked = bench.apply(plan, check=True)
    assert bench.proxy.writes == []
    run = bench.apply(plan)
    assert names(run) == ["SpiderIPPool ai-gpu01"] == names(checked)
    changes = [change.as_dict() for write in run.done for change in write.changes()]
    assert changes == [change.as_dict() for write in checked.done for change in write.changes()]
    assert {change["attribute"] for change in changes} == {"spec.ips", "metadata.annotations.railyard.fabric/applied"}
    assert [path.partition("?")[0] for _method, path in bench.proxy.writes] == [
        "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/ai-gpu01"
    ]
    after = {name: each["metadata"]["resourceVersion"] for name, each in bench.live(plan).items()}
    assert {name for name in after if after[name] != before[name]} == {"SpiderIPPool ai-gpu01"}


def test_unplanned_objects_are_listed_and_then_pruned(bench: Bench) -> None:
    whole = bench.plan()
    bench.apply(whole)
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger", "namespace": "default"}}
    bench.cluster.apply(stranger, manager="another")
    small = bench.plan(without=["gpu02"])
    left = sorted(set(bench.live(whole)) - {"%s %s" % (o["kind"], o["metadata"]["name"]) for o in small.objects})
    assert "SpiderIPPool ai-gpu02" in left
    kept = bench.apply(small, prune=False)
    assert not [write for write in kept.done if write.wanted is None]
    checked = bench.apply(small, check=True)
    assert sorted(names(checked)) == left and set(left) <= set(bench.live(whole))
    assert names(bench.apply(small)) == left
    assert not set(left) & set(bench.live(whole))
    assert bench.cluster.get(stranger) is not None
    assert bench.apply(small).done == []


def test_a_field_that_another_applies_is_a_conflict(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    other = dict(pool(), spec={"gateway": "10.1.255.253"})
    bench.cluster.apply(other, manager="argocd", force=True)
    text = bench.refused(plan)
    assert text.startswith("SpiderIPPool ai-gpu01: spec.gateway is owned by argocd. Remedy: ")
    assert "kubernetes_force=true" in text and "\n" not in text
    assert bench.refused(plan, check=True) == text
    run = bench.apply(plan, force=True)
    assert names(run) == ["SpiderIPPool ai-gpu01"]
    assert bench.live(plan)["SpiderIPPool ai-gpu01"]["spec"]["gateway"] == "10.1.255.254"
    assert bench.apply(plan).done == []


def test_an_object_of_another_user_is_not_taken_over(bench: Bench) -> None:
    plan = bench.plan()
    planned = next(each for each in plan.objects if each["metadata"]["name"] == "ai-gpu01")
    theirs = dict(planned, spec=dict(planned["spec"], gateway="10.1.255.253"))
    theirs["metadata"] = {"name": "ai-gpu01"}
    bench.cluster.apply(theirs, manager="kubectl-create")
    assert "SpiderIPPool ai-gpu01: spec.gateway is owned by kubectl-create" in bench.refused(plan)
    bench.apply(plan, force=True)
    assert bench.apply(plan).done == []
    # it is still theirs, and outlives the teardown
    bench.absent(plan)
    assert bench.cluster.get(pool()) is not None
    bench.cluster.kubectl("delete", "spiderippool", "ai-gpu01")


def test_an_edited_field_is_reported_and_corrected(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    bench.cluster.kubectl(
        "patch", "spiderippool", "ai-gpu01", "--type=merge", "-p", '{"spec":{"gateway":"10.1.255.253"}}'
    )
    bench.cluster.kubectl("label", "spiderippool", "ai-gpu02", "railyard.fabric/rail-")
    bench.cluster.kubectl("delete", "spidermultusconfig", "-n", "kube-system", "gpu01-macvlan")
    run = bench.apply(plan)
    assert names(run) == ["SpiderIPPool ai-gpu01", "SpiderIPPool ai-gpu02", "SpiderMultusConfig gpu01-macvlan"]
    assert run.warnings == [
        "SpiderIPPool ai-gpu01: spec.gateway was changed by kubectl-patch since it was applied, and is corrected"
    ]
    assert bench.live(plan)["SpiderIPPool ai-gpu01"]["spec"]["gateway"] == "10.1.255.254"
    assert bench.apply(plan).done == []


@pytest.mark.parametrize("check", [True, False])
def test_an_unknown_field_is_refused_before_anything_is_written(bench: Bench, check: bool) -> None:
    plan = bench.plan()
    next(each for each in plan.objects if each["kind"] == "ConfigMap")["bogus"] = "x"
    wrong = next(each for each in plan.objects if each["kind"] == "SpiderMultusConfig")
    wrong["spec"]["macvlan"]["enableRdma"] = True
    text = bench.refused(plan, check=check)
    assert (
        "SpiderMultusConfig kube-system/%s: the server does not know spec.macvlan.enableRdma"
        % wrong["metadata"]["name"]
        in text
    )
    if bench.server().strict and not check:
        # the server checks each object when it is written, so that objects of the same and of earlier steps exist
        assert "SpiderMultusConfig %s" % wrong["metadata"]["name"] not in bench.live(plan)
        return
    assert "ConfigMap default/ai-nccl-hgx: the server does not know bogus. Remedy: report it" in text
    assert bench.proxy.writes == [] and bench.live(plan) == {}


def test_a_field_that_an_old_server_drops_in_silence_is_refused(bench: Bench) -> None:
    options = dict(OPTIONS, operator_namespace="kube-system")
    plan = bench.plan("network-operator", "macvlan", "prefix", options=options)
    policy = next(each for each in plan.objects if each["kind"] == "NicClusterPolicy")
    policy["spec"]["rdmaSharedDevicePluginn"] = {"image": "x"}
    text = bench.refused(plan)
    place = "NicClusterPolicy nic-cluster-policy: the server %s spec.rdmaSharedDevicePluginn"
    assert place % ("does not know" if bench.server().strict else "drops") in text
    assert bench.live(plan) == {}


def test_a_server_that_can_be_strict_is_asked_to_and_nothing_is_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is sent to 1.25 and later; an older server, which this may be, ignores it
    monkeypatch.setattr(api_server.Server, "strict", True)
    plan = bench.plan()
    bench.apply(plan)
    patches = [path for method, path in bench.proxy.seen if method == "PATCH"]
    assert len(patches) == len(plan.objects)
    assert all("fieldValidation=Strict" in path and "dryRun" not in path for path in patches)


def test_a_missing_kind_names_who_brings_it(bench: Bench) -> None:
    plan = bench.plan(options=dict(OPTIONS, node_feature_rule=True))
    assert (
        "no kind NodeFeatureRule of nfd.k8s-sigs.io/v1alpha1. Remedy: install Node Feature Discovery"
        in bench.refused(plan)
    )
    found = preflight.problems(bench.server(), bench.plan(options={"node_feature_rule": True}).desired(), False, quiet)
    assert [error.message for error in found] == [
        "the cluster has no kind NodeFeatureRule of nfd.k8s-sigs.io/v1alpha1",
        "the cluster has no namespace spiderpool",
    ]
    assert preflight.problems(bench.server(), bench.plan().desired(), True, quiet) == []


def test_objects_of_schedulers_are_applied_compared_and_removed_like_all_others(bench: Bench) -> None:
    kinds = {"Topology", "ResourceFlavor", "HyperNode"}

    def planned(*schedulers: str) -> Planned:
        options = dict(OPTIONS, schedulers=list(schedulers))
        nodes = {"node-[1:2]": {"profile": "hgx", "unit": "su1"}}
        return bench.plan(options=options, nodes=nodes, units={"su1": {"nodes": 2, "site": "ams"}})

    def live(plan: Planned) -> set[str]:
        return {name for name in bench.live(plan) if name.split()[0] in kinds}

    both = planned("kueue", "volcano")
    bench.apply(both)
    everything = {"Topology ai-hgx", "ResourceFlavor ai-hgx", "HyperNode ai-unit-su1", "HyperNode ai-site-ams"}
    assert live(both) == everything
    assert bench.apply(both, check=True).done == []
    # what others set stays, and a changed or deleted object is drift
    flavor = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    bench.cluster.kubectl("patch", "resourceflavor", "ai-hgx", "--type=merge", "-p", json.dumps(flavor))
    assert bench.apply(both, check=True).done == []
    bench.cluster.kubectl("patch", "hypernode", "ai-unit-su1", "--type=merge", "-p", '{"spec": {"tier": 7}}')
    bench.cluster.kubectl("delete", "topology", "ai-hgx")
    drift = {change.attribute for write in bench.apply(both, check=True).done for change in write.changes()}
    assert drift == {"spec.tier", "object"}
    bench.apply(both, force=True)
    assert live(both) == everything
    kueue = planned("kueue")
    bench.apply(kueue)
    assert live(kueue) == {"Topology ai-hgx", "ResourceFlavor ai-hgx"}
    bench.absent(kueue)
    assert live(kueue) == set()


def test_a_namespace_that_is_being_deleted_is_reported_with_its_holders(bench: Bench, namespace: str) -> None:
    holds = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["a.example/x"]}}
    bench.cluster.kubectl("-n", namespace, "create", "-f", "-", text=json.dumps(holds))
    bench.cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    desired = bench.plan(options=dict(OPTIONS, metrics=True, operator_namespace=namespace)).desired()

    def refused() -> None:
        (error,) = preflight.problems(bench.server(), desired, False, quiet)
        assert "the namespace %s is being deleted" % namespace in str(error)
        if "a.example/x in 1 resource instances" not in str(error):
            pytest.fail("the server does not say why: %s" % error)

    try:
        _until(refused)
    finally:
        patch = '{"metadata": {"finalizers": null}}'
        bench.cluster.kubectl("-n", namespace, "patch", "configmap", "held", "--type=merge", "-p", patch)


def test_an_error_about_rights_names_the_verb_and_the_resource(bench: Bench, namespace: str, tmp_path: Path) -> None:
    cluster = bench.cluster
    who = "system:serviceaccount:%s:reader" % namespace
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    ]
    for each in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": namespace},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        },
    ):
        cluster.apply(each)
    with api.Api(cluster.running) as admin:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = admin.request("POST", "/api/v1/namespaces/%s/serviceaccounts/reader/token" % namespace, request)
    authority, token = cluster.running.pki / "ca.crt", made["status"]["token"]
    config = kubeconfig(tmp_path / "reader", cluster.running.url, {"token": token}, authority)
    try:
        plan = bench.plan()
        text = bench.refused(plan, config=config)
        assert "%s may not patch spiderippools.spiderpool.spidernet.io. Remedy: have a cluster" % who in text
        found = preflight.problems(bench.server(config), plan.desired(), True, quiet)
        assert [error.message for error in found] == [
            "the user may not patch nodes",
            "the user may not create, delete, patch spiderippools.spiderpool.spidernet.io",
            "the user may not create, delete, patch spidermultusconfigs.spiderpool.spidernet.io",
        ]
        stranger = kubeconfig(tmp_path / "stranger", cluster.running.url, {"token": "no-token"}, authority)
        text = bench.refused(plan, config=stranger)
        assert "%s: the server does not accept these credentials (401). Remedy: renew" % cluster.running.url in text
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            cluster.kubectl("delete", kind, namespace)
    bench.apply(plan)


def test_an_unreachable_server_is_a_one_line_error(bench: Bench, tmp_path: Path) -> None:
    text = bench.refused(bench.plan(), config=kubeconfig(tmp_path / "unreachable", "https://127.0.0.1:1"))
    assert (
        text.startswith("https://127.0.0.1:1: the API server does not answer: ")
        and "refused" in text
        and "\n" not in text
    )
    with pytest.raises(RailyardError, match="it cannot be used.*Remedy: name a kubeconfig"):
        connect(str(tmp_path / "missing"), None, 1)
    with pytest.raises(RailyardError, match="it cannot be used.*nowhere"):
        connect(str(bench.kubeconfig), "nowhere", 1)


@pytest.mark.long
def test_a_server_that_dies_during_a_run_is_reported_and_the_next_run_does_the_rest(bench: Bench) -> None:
    plan, running = bench.plan(), bench.cluster.running
    killed = threading.Event()

    def kill(writes: int) -> None:
        if writes >= 4 and not killed.is_set():
            killed.set()
            os.kill(process.members(running.directory)[binaries.API].pid, signal.SIGKILL)

    bench.proxy.after = kill
    try:
        text = bench.refused(plan)
    finally:
        bench.proxy.after = lambda writes: None
        lifecycle.up(lifecycle.Spec(running.name, nodes=["node-1", "node-2"]))
    assert "%s: the API server does not answer: " % bench.proxy.url in text
    assert "of %d objects were written before). Remedy: check that it runs" % len(plan.objects) in text
    written = set(bench.live(plan))
    assert 0 < len(written) < len(plan.objects)
    rest = bench.apply(plan)
    assert not set(names(rest)) & written and set(bench.live(plan)) == written | set(names(rest))
    assert len(bench.live(plan)) == len(plan.objects)
    assert bench.apply(plan).done == []


@pytest.mark.long
def test_a_server_that_starts_again_in_mid_run_is_awaited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "_AWAY", 60.0)
    plan, running = bench.plan(), bench.cluster.running
    again = threading.Thread(target=lambda: lifecycle.up(lifecycle.Spec(running.name, nodes=["node-1", "node-2"])))

    def kill(writes: int) -> None:
        if writes >= 4 and not again.ident:
            os.kill(process.members(running.directory)[binaries.API].pid, signal.SIGKILL)
            again.start()

    bench.proxy.after = kill
    try:
        run = bench.apply(plan)
    finally:
        bench.proxy.after = lambda writes: None
        if again.ident:
            again.join()
    assert again.ident, "no process was killed"
    assert ("GET", "/readyz") in bench.proxy.seen
    assert len(run.done) == len(plan.objects) == len(bench.live(plan)) and run.warnings == []
    assert bench.apply(plan).done == []


def test_missing_resources_can_be_reported_without_an_error(bench: Bench) -> None:
    bench.apply(bench.plan())
    options = {"file": str(bench.place / "fabric.yml"), "kubernetes": OPTIONS, "kubeconfig": str(bench.kubeconfig)}
    options.update(context=None, connections=4, timeout=0, interval=1, required=False)
    found = kube_ready.ActionModule.__new__(kube_ready.ActionModule).work(options, False)
    assert "failed" not in found and found["missing"]
    assert found["lines"][0].startswith("node-1, node-2: is not Ready. Likely: its kubelet does not run")


@pytest.fixture
def webhook(cluster: Cluster) -> t.Iterator[t.Callable[[str], None]]:
    """A validating webhook over pools at an address; it goes with the test."""
    authority = base64.b64encode((cluster.running.pki / "ca.crt").read_bytes()).decode()

    def at(url: str) -> None:
        rule = {
            "apiGroups": ["spiderpool.spidernet.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["spiderippools"],
        }
        hook = {
            "name": "pools.webhook.example",
            "clientConfig": {"url": url, "caBundle": authority},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }
        cluster.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "pools"},
                "webhooks": [hook],
            }
        )

    yield at
    cluster.kubectl("delete", "validatingwebhookconfiguration", "pools", "--ignore-not-found")


def test_a_webhook_that_is_down_is_named(bench: Bench, webhook: t.Callable[[str], None]) -> None:
    plan = bench.plan()
    webhook("https://127.0.0.1:1/")
    text = _until(lambda: bench.refused(plan, check=True))
    assert "the webhook pools.webhook.example does not answer" in text and "\n" not in text
    bench.cluster.kubectl("delete", "validatingwebhookconfiguration", "pools")
    _until(lambda: bench.apply(plan))
    assert bench.apply(plan).done == []


def test_a_webhook_that_denies_is_quoted(bench: Bench, webhook: t.Callable[[str], None]) -> None:
    class Deny(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = {"message": "spec.subnet: overlaps with pool legacy"}
            answer = {"uid": review["request"]["uid"], "allowed": False, "status": status}
            text = json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_words: t.Any) -> None:
            pass

    pki = bench.cluster.running.pki
    denier = ThreadingHTTPServer(("127.0.0.1", 0), Deny)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    denier.socket = context.wrap_socket(denier.socket, server_side=True)
    threading.Thread(target=denier.serve_forever, daemon=True).start()
    try:
        webhook("https://127.0.0.1:%d/" % denier.server_address[1])
        text = _until(lambda: bench.refused(bench.plan(), check=True))
    finally:
        denier.shutdown()
        denier.server_close()
    # both pools, in order, each a line
    lines = text.split("\n")
    assert [line.partition(":")[0] for line in lines] == ["SpiderIPPool ai-gpu01", "SpiderIPPool ai-gpu02"]
    assert "the webhook pools.webhook.example denies it: spec.subnet: overlaps with pool legacy. Remedy: " in lines[0]


T = t.TypeVar("T")


def _until(do: t.Callable[[], T]) -> T:
    """A server takes a moment to hear of a webhook, or that it is gone."""
    return retried(do, pytest.fail.Exception, RailyardError)


def test_objects_of_another_fabric_are_not_changed(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    before = {name: each["metadata"]["resourceVersion"] for name, each in bench.live(plan).items()}
    text = bench.refused(bench.plan(fabric={"name": "other"}))
    assert (
        "SpiderMultusConfig kube-system/gpu01-macvlan: it exists already and belongs to another owner:"
        " railyard.fabric/fabric=ai" in text
    )
    assert bench.proxy.writes == []
    assert {name: each["metadata"]["resourceVersion"] for name, each in bench.live(plan).items()} == before


def test_another_fabrics_policy_of_the_operator_is_not_taken_over(bench: Bench) -> None:
    """There is one NicClusterPolicy of a cluster, and both fabrics apply it under one field manager: no conflict."""
    what: tuple[str, str, str] = ("network-operator", "macvlan", "subnet")
    options = dict(OPTIONS, operator_namespace="kube-system", sriov_namespace="kube-system")
    plan = bench.plan(*what, options=options)
    bench.apply(plan)
    before = bench.live(plan)["NicClusterPolicy nic-cluster-policy"]["metadata"]["resourceVersion"]
    other = bench.plan(*what, options=options, fabric={"name": "other"})
    given = {"kubeconfig": str(bench.kubeconfig), "context": None, "connections": 4, "kubernetes": options}
    for force in (False, True):
        wanted = {**given, "name": "network-operator", "version": "", "force": force, "timeout": 5}
        with pytest.raises(RailyardError, match="nic-cluster-policy: it exists already and belongs to .*=ai"):
            kube_software.SoftwareRun(wanted, other.document, False).started()
        # and it is refused before the operator's release has the other's values
        with pytest.raises(RailyardError, match="serves fabric ai already, and supports the NicClusterPolicy of one"):
            kube_software.SoftwareRun(wanted, other.document, False).check_other_fabrics()
    assert bench.live(plan)["NicClusterPolicy nic-cluster-policy"]["metadata"]["resourceVersion"] == before
    mine = {**given, "name": "network-operator", "version": "", "force": False, "timeout": 5}
    run = kube_software.SoftwareRun(mine, plan.document, False)
    run.check_other_fabrics()
    run.started()
    assert run.writer.changes == []


def test_teardown_waits_for_finalizers_and_names_stuck_objects(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    patch = '{"metadata":{"finalizers":["spiderpool.spidernet.io/spiderippool"]}}'
    bench.cluster.kubectl("patch", "spiderippool", "ai-gpu01", "--type=merge", "-p", patch)
    assert len(bench.absent(plan, check=True).done) == len(plan.objects)
    assert bench.proxy.writes == [] or len(bench.live(plan)) == len(plan.objects)
    with pytest.raises(RailyardError) as error:
        bench.absent(plan, timeout=1.5)
    assert str(error.value).startswith(
        "SpiderIPPool ai-gpu01: it is deleted and still exists; its finalizers: spiderpool.spidernet.io/spiderippool"
    )
    kinds = [path.split("/")[-2] for method, path in bench.proxy.seen if method == "DELETE"]
    # the last applied first; what came before the pools is still there for their controller
    assert kinds.index("spidermultusconfigs") < kinds.index("spiderippools")
    assert "ConfigMap" in {name.split()[0] for name in bench.live(plan)}
    # while it hangs it is neither applied over nor deleted again
    assert "is deleted and still exists" in bench.refused(plan, timeout=1)
    assert bench.proxy.writes == []
    with pytest.raises(RailyardError, match="its finalizers"):
        bench.absent(plan, timeout=1)
    # nor does the next run go past it
    assert [method for method, _path in bench.proxy.seen if method == "DELETE"] == []
    assert "ConfigMap" in {name.split()[0] for name in bench.live(plan)}
    bench.cluster.kubectl("patch", "spiderippool", "ai-gpu01", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    bench.absent(plan)
    assert bench.live(plan) == {}
    assert bench.absent(plan).done == []


def test_teardown_waits_for_all_kinds_that_another_user_deleted_before(bench: Bench) -> None:
    """One kind that goes in a moment and, beside it, another that hangs: both are awaited, the second is reported."""
    plan = bench.plan()
    bench.apply(plan)
    hung = [("spidermultusconfig", "gpu01-macvlan", "-n", "kube-system"), ("spiderippool", "ai-gpu02")]
    for what in hung:
        patch = '{"metadata":{"finalizers":["example.org/held"]}}'
        bench.cluster.kubectl("patch", *what, "--type=merge", "-p", patch)
        bench.cluster.kubectl("delete", *what, "--wait=false")
    let_go = '{"metadata":{"finalizers":null}}'
    first = threading.Timer(2, bench.cluster.kubectl, ("patch", *hung[0], "--type=merge", "-p", let_go))
    first.start()
    with pytest.raises(RailyardError, match="SpiderIPPool ai-gpu02: it is deleted and still exists"):
        bench.absent(plan, timeout=5)
    first.join()
    assert "ConfigMap" in {name.split()[0] for name in bench.live(plan)}
    bench.cluster.kubectl("patch", *hung[1], "--type=merge", "-p", let_go)
    bench.absent(plan)
    assert bench.live(plan) == {}


def test_nodes_are_labelled_and_lose_only_our_labels(bench: Bench) -> None:
    plan = bench.plan()
    bench.cluster.kubectl("label", "node", "node-1", "rack.example/row=7", "--overwrite")

    def label(wanted: t.Mapping[str, t.Mapping[str, str]], check: bool = False) -> Labelling:
        bench.proxy.seen.clear()
        run = Labelling(bench.server(), wanted, {FABRIC: plan.fabric}, LABEL, MANAGER)
        run.run(check, quiet)
        return run

    def labels(node: str) -> dict[str, str]:
        found = json.loads(bench.cluster.kubectl("get", "node", node, "-o", "json"))
        return {key: value for key, value in found["metadata"]["labels"].items() if "/" in key and "lab/" not in key}

    wanted = plan.node_labels()
    checked = label(wanted, check=True)
    assert "railyard.fabric/profile" not in labels("node-1")
    assert [change.as_dict() for change in label(wanted).done] == [change.as_dict() for change in checked.done] != []
    assert labels("node-1") == {**labels("node-1"), **wanted["node-1"], "rack.example/row": "7"}
    assert label(wanted).done == [] and [method for method, _path in bench.proxy.seen] == ["GET"]
    left = label({"node-2": wanted["node-2"], "node-9": wanted["node-2"]})
    assert left.missing == ["node-9"] and {change.subject for change in left.done} == {"Node node-1"}
    assert (
        not [key for key in labels("node-1") if key.startswith(LABEL)] and labels("node-1")["rack.example/row"] == "7"
    )
    # another fabric's nodes, whose device plugins find them by these labels
    label(wanted)
    before = labels("node-1"), labels("node-2")
    other = Labelling(bench.server(), {**wanted, "node-9": {}}, {FABRIC: "other"}, LABEL, MANAGER)
    with pytest.raises(
        RailyardError, match="Node node-1, node-2: in this plan, and labelled for another one: .*=ai. Remedy"
    ):
        other.run(False, quiet)
    # and before any host is touched
    file = yaml.safe_load((bench.place / "fabric.yml").read_text())
    file["fabric"]["name"] = "other"
    file["names"] = {"network": "{fabric}-{rail}"}
    (bench.place / "other.yml").write_text(yaml.safe_dump(file, sort_keys=False))
    done = play(bench, "kubernetes", "-e", "fabric_file=%s" % (bench.place / "other.yml"))
    assert (
        done.returncode == 2 and "Node node-1, node-2: in this plan, and labelled for another one" in done.one_line
    ), done.text
    assert "Apply the objects that differ" not in done.one_line
    assert (labels("node-1"), labels("node-2")) == before and other.done == []
    label({})
    assert not [key for key in labels("node-2") if key.startswith(LABEL)]


def test_missing_resources_of_nodes_and_objects_are_reported(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    made = bench.server()
    goal = Goal(plan.document, plan.given, plan.objects)

    def look() -> list[str]:
        nodes = {each["metadata"]["name"]: each for each in made.list(api_server.Resource("/api/v1", "nodes", False))}
        found = observed(made, made.resources(goal.kinds), FAMILY, quiet)
        found.update(observed(made, made.resources(goal.beside()), {}, quiet))
        live = {(key.kind, key.namespace, key.name): each for key, each in found.items()}
        return ["%s %s" % (each.subject, each.what) for each in goal.missing(nodes, live)]

    lines = look()
    assert "node-1 is not Ready" in lines and "node-1 reports none of its 2 rails' resources" in lines
    assert "SpiderIPPool ai-gpu01 has no count of addresses yet" in lines
    assert "SpiderMultusConfig gpu01-macvlan has no NetworkAttachmentDefinition in namespace kube-system" in lines
    # what a kubelet and Spiderpool's controller would write
    with api.Api(bench.cluster.running) as admin:
        status = {"status": {"allocatable": {"spidernet.io/gpu01_macvlan": "100", "spidernet.io/gpu02_macvlan": "40"}}}
        admin.request("PATCH", "/api/v1/nodes/node-1/status", status, api_server.MERGE)
    try:
        lines = look()
    finally:
        with api.Api(bench.cluster.running) as admin:
            gone = {"status": {"allocatable": None}}
            admin.request("PATCH", "/api/v1/nodes/node-1/status", gone, api_server.MERGE)
    assert "node-1 reports 40 of 100 spidernet.io/gpu02_macvlan (rail gpu02)" in lines
    assert not [line for line in lines if line.startswith("node-1") and "gpu01" in line]


def test_the_wait_outlasts_a_server_that_is_away_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(_cluster_access, "say", shown.append)
    bench.apply(bench.plan())
    options = {"file": str(bench.place / "fabric.yml"), "kubernetes": OPTIONS, "kubeconfig": str(bench.kubeconfig)}
    options.update(context=None, connections=4, timeout=300, interval=1, required=True)
    action = kube_ready.ActionModule.__new__(kube_ready.ActionModule)
    passed = [0.0]

    def away(value: bool) -> None:
        bench.proxy.away = value

    def sleep(seconds: float) -> None:
        """The server is away after the first look, until that is reported. The timeout passes with the next look."""
        reported = any("the API server does not answer" in line for line in shown)
        away(not reported)
        passed[0] = 300.0 if reported else 0.0
        time.sleep(seconds)

    clock = types.SimpleNamespace(sleep=sleep, monotonic=lambda: time.monotonic() + passed[0])
    monkeypatch.setattr(kube_ready, "time", clock)
    found = action.work(options, False)
    assert found["failed"] and "0 of 4 resources of 2 nodes" in found["msg"]
    assert [line for line in shown if "the API server does not answer" in line]
    away(True)
    with pytest.raises(RailyardError, match="does not answer"):
        action.work(options, False)
    away(False)


def play(bench: Bench, name: str, *words: str, options: t.Mapping[str, t.Any] = OPTIONS) -> Played:
    """A playbook on the bench's own fabric file."""
    given = {"fabric_file": str(bench.place / "fabric.yml"), "kubernetes_options": options}
    return run_play(bench, name, "localhost,", *words, **given)


def run_play(bench: Bench, name: str, inventory: str, *words: str, **given: t.Any) -> Played:
    given["kubernetes_kubeconfig"] = str(bench.kubeconfig)
    return playbook.play("playbooks/%s.yml" % name, *words, inventory=inventory, given=given, timeout=300)


def test_the_playbooks_from_the_first_run_to_the_teardown(bench: Bench) -> None:
    plan = bench.plan()
    wanted = "fabric ai: %d objects; " % len(plan.objects)
    done = play(bench, "kubernetes", "--check", "-e", "kubernetes_wait=false")
    assert done.returncode == 0 and wanted + "%d created" % len(plan.objects) in done.one_line, done.text
    assert bench.live(plan) == {}
    done = play(bench, "kubernetes", "-e", "kubernetes_wait=false")
    assert done.returncode == 0 and "2 nodes labelled" in done.one_line and "Not waited" in done.one_line, done.text
    bench.proxy.seen.clear()
    done = play(bench, "kubernetes", "-e", "kubernetes_wait_timeout=1")
    assert done.returncode == 2 and "changed=0" in done.one_line and bench.proxy.writes == [], done.text
    assert wanted + "nothing differs" in done.one_line
    assert "fabric ai: 0 of 4 resources of 2 nodes at the planned number" in done.one_line
    assert "node-1, node-2: is not Ready. Likely: its kubelet does not run or is not ready (NoKubelet" in done.one_line
    done = play(bench, "teardown")
    assert done.returncode == 2 and "consent with -e teardown_consent=ai" in done.one_line, done.text
    assert len(bench.live(plan)) == len(plan.objects)
    done = play(bench, "teardown", "-e", "teardown_consent=ai")
    assert done.returncode == 0 and "%d removed" % len(plan.objects) in done.one_line, done.text
    assert bench.live(plan) == {}


def test_a_missing_kind_has_the_message_of_its_cluster(bench: Bench) -> None:
    bench.plan()
    options = dict(OPTIONS, node_feature_rule=True)
    lines = "no kind NodeFeatureRule of nfd.k8s-sigs.io/v1alpha1. Remedy: "
    assert lines + "install Node Feature Discovery" in play(bench, "kubernetes", options=options).one_line
    done = play(bench, "kubernetes", "-e", json.dumps({"kubernetes_kinds_from": "make lab CRDS=DIR"}), options=options)
    assert done.returncode == 2 and lines + "make lab CRDS=DIR" in done.one_line, done.text


def test_the_labs_inventory_without_an_operator_runs_without_changes(bench: Bench) -> None:
    cni = "inventories/lab-cni/fabric.yml"
    try:
        done = run_play(bench, "kubernetes", cni)
        assert done.returncode == 0 and "changed=0" not in done.one_line and "fabric lab-cni" in done.one_line, (
            done.text
        )
        done = run_play(bench, "kubernetes", cni)
        assert done.returncode == 0 and "changed=0" in done.one_line and "nothing differs" in done.one_line, done.text
    finally:
        done = run_play(bench, "teardown", cni, "-e", "teardown_consent=lab-cni")
    assert done.returncode == 0, done.text
