# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains before reboots on a real API server. No kubelet confirms that a pod ends, so pods are given no grace."""

from __future__ import annotations

import concurrent.futures
import json
import re
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import MANAGER
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import api_server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import node_drain as subject
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_drain import OURS, Consent, Drain
from lab.cluster import api
from tests.integration.cluster import Cluster, Object
from tests.integration.kube_bench import kubeconfig
from tests.playbook import ROOT, Played, play
from tests.waiting import retried, wait_for

NODE, PATH = "node-1", "/api/v1/nodes/node-1"
AT_ONCE = Consent(grace=0)


class Node:
    """A node of the cluster with its pods, as the administrator sees and makes them."""

    def __init__(self, cluster: Cluster, admin: api.Api, namespace: str) -> None:
        self.cluster, self.admin, self.namespace = cluster, admin, namespace
        self.pods = "/api/v1/namespaces/%s/pods" % namespace
        self.server = connect(str(cluster.kubeconfig), None, 4, lambda _text: None)
        self.messages: list[str] = []

    def begin(self) -> None:
        """Wait for what each namespace gets, and create objects in place of the controllers of pods."""
        wait_for(lambda: self.admin.get("/api/v1/namespaces/%s/serviceaccounts" % self.namespace)["items"])
        made = self.admin.request(
            "POST", "/api/v1/namespaces/%s/configmaps" % self.namespace, {"metadata": {"name": "it"}}
        )
        # whose pods no controller deletes as surplus
        known = {"apiVersion": "v1", "kind": "ConfigMap", "name": "it", "uid": made["metadata"]["uid"]}
        self.owner = dict(known, controller=True)

    def pod(self, name: str, owned: bool = True, running: bool = False, **spec: t.Any) -> None:
        metadata: Object = {"name": name, "labels": {"app": name.partition("-")[0]}}
        if owned:
            metadata["ownerReferences"] = [self.owner]
        self.admin.request(
            "POST", self.pods, {"metadata": metadata, "spec": self._spec(**dict({"nodeName": NODE}, **spec))}
        )
        if running:
            ready = {"type": "Ready", "status": "True"}
            status = {"status": {"phase": "Running", "conditions": [ready]}}
            self.admin.request("PATCH", "%s/%s/status" % (self.pods, name), status, api_server.MERGE)

    @staticmethod
    def _spec(**more: t.Any) -> Object:
        container = {"name": "it", "image": "registry.example.com/tools/busybox:1.37"}
        # nodes without kubelets have taints, and tokens of a namespace come late
        common: Object = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
        return dict(common, automountServiceAccountToken=False, terminationGracePeriodSeconds=600, **more)

    def agent(self) -> str:
        """The name of a DaemonSet's pod on the node, with an emptyDir as network agents have it."""
        labels = {"app": "agent"}
        template = {"metadata": {"labels": labels}, "spec": self._spec(volumes=[{"name": "run", "emptyDir": {}}])}
        del template["spec"]["terminationGracePeriodSeconds"]
        made = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        self.admin.request("POST", "/apis/apps/v1/namespaces/%s/daemonsets" % self.namespace, made)

        def own() -> str:
            pods = [each for each in self.admin.get(self.pods)["items"] if each["metadata"]["labels"]["app"] == "agent"]
            mine = [each["metadata"]["name"] for each in pods if NODE in json.dumps(each["spec"]["affinity"])]
            return str(mine[0]) if mine else ""

        name = str(wait_for(own))
        # what a scheduler would do
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        self.admin.request("POST", "%s/%s/binding" % (self.pods, name), {"metadata": {"name": name}, "target": target})
        return name

    def budget(self, app: str, least: int, allowed: int) -> None:
        """A disruption budget, with what its controller, which is not run here, would count. Again: another count."""
        api_version = "policy/v1" if self.server.version >= (1, 21) else "policy/v1beta1"
        path = "/apis/%s/namespaces/%s/poddisruptionbudgets" % (api_version, self.namespace)
        if not self.admin.get(path)["items"]:
            spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
            self.admin.request("POST", path, {"metadata": {"name": app}, "spec": spec})
        healthy = {"currentHealthy": least + allowed, "desiredHealthy": least, "expectedPods": least + allowed}
        status = {"status": dict(healthy, observedGeneration=1, disruptionsAllowed=allowed)}
        self.admin.request("PATCH", "%s/%s/status" % (path, app), status, api_server.MERGE)

    def there(self) -> list[str]:
        """Pods that go on, on any node."""
        found = [each for each in self.admin.get(self.pods)["items"] if each["spec"].get("nodeName")]
        return sorted(each["metadata"]["name"] for each in found if not each["metadata"].get("deletionTimestamp"))

    @property
    def cordoned(self) -> tuple[bool, bool]:
        """Whether it takes no new pods, and whether its annotation marks this as ours."""
        node = self.admin.get(PATH)
        return bool(node["spec"].get("unschedulable")), OURS in (node["metadata"].get("annotations") or {})

    def drain(self, consent: Consent = AT_ONCE, check: bool = False) -> Drain:
        return Drain(self.server, NODE, consent, MANAGER, check, self.messages.append)

    def clear(self) -> None:
        sets = "/apis/apps/v1/namespaces/%s/daemonsets" % self.namespace
        for each in self.admin.get(sets)["items"]:
            self.admin.delete("%s/%s" % (sets, each["metadata"]["name"]))
        patch = {"spec": {"unschedulable": None}, "metadata": {"annotations": {OURS: None}}}
        self.admin.request("PATCH", PATH, patch, api_server.MERGE)
        for each in self.admin.get(self.pods)["items"]:
            self.admin.delete("%s/%s" % (self.pods, each["metadata"]["name"]), at_once=True)


@pytest.fixture
def node(cluster: Cluster, namespace: str) -> t.Iterator[Node]:
    with api.Api(cluster.running) as admin:
        made = Node(cluster, admin, namespace)
        made.begin()
        try:
            yield made
        finally:
            made.clear()


def done(drain: Drain) -> list[tuple[str, t.Any, t.Any]]:
    return [(each.subject, each.before, each.after) for each in drain.done]


def test_pods_go_and_those_of_daemonsets_stay(node: Node) -> None:
    node.pod("web-1")
    # one of a DaemonSet with an emptyDir: it stays, and needs no consent
    agent = node.agent()
    foreseen = node.drain(check=True)
    foreseen.drained(30)
    assert node.cordoned == (False, False) and node.there() == [agent, "web-1"]

    real = node.drain()
    real.drained(30)
    assert done(real) == done(foreseen)
    assert done(real) == [
        ("Node node-1", False, True),
        ("Pod %s/web-1" % node.namespace, "on node-1", "evicted"),
    ]
    assert node.cordoned == (True, True) and node.there() == [agent]
    again = node.drain()
    again.drained(30)
    assert done(again) == []

    back = node.drain()
    back.restored()
    assert done(back) == [("Node node-1", True, False)] and node.cordoned == (False, False)
    back.restored()
    assert len(back.done) == 1


def test_a_cordon_of_another_user_stays(node: Node) -> None:
    node.admin.request("PATCH", PATH, {"spec": {"unschedulable": True}}, api_server.MERGE)
    node.pod("web-1")
    node.drain().drained(30)
    assert node.there() == []
    node.drain().restored()
    assert node.cordoned == (True, False)


def test_a_cordon_of_another_user_that_replaced_ours_stays(node: Node) -> None:
    first = node.drain()
    first.drained(30)
    for value in (None, True):
        node.admin.request("PATCH", PATH, {"spec": {"unschedulable": value}}, api_server.MERGE)
    node.drain().restored()
    assert node.cordoned == (True, False)


def test_a_pod_that_is_bound_during_the_drain_is_evicted_before_the_end(node: Node) -> None:
    node.pod("web-1")
    drain = node.drain()
    evict = drain.server.evict

    def late(*what: t.Any) -> str:
        if "web-2" not in node.there():
            node.pod("web-2", tolerations=[])
        return evict(*what)

    drain.server.evict = late  # type: ignore[method-assign]
    drain.drained(30)
    assert node.there() == [] and node.cordoned == (True, True)
    assert node.admin.get(PATH)["metadata"]["annotations"][OURS] == drain.cordon


def test_two_runs_that_drain_a_node_have_one_holder(node: Node) -> None:
    first, second = node.drain(), node.drain()
    first.drained(30)
    second.drained(30)
    again = Drain(node.server, NODE, AT_ONCE, MANAGER, False, node.messages.append, first.cordon)
    with pytest.raises(Refused, match="another run drains it since this run drained it"):
        again.drained(30)
    again.restored()
    assert node.cordoned == (True, True)
    second.restored()
    assert node.cordoned == (False, False)


def test_changes_that_need_permission_are_named_before_any_write(node: Node) -> None:
    node.pod("web-1")
    node.pod("cache-1", volumes=[{"name": "data", "emptyDir": {}}])
    node.pod("lone-1", owned=False)
    with pytest.raises(Errors) as caught:
        node.drain().drained(30)
    unmanaged, empty = caught.value.errors
    assert isinstance(unmanaged, Refused) and "%s/lone-1" % node.namespace in str(unmanaged)
    assert "no controller recreates these pods" in str(unmanaged) and "-e reboot_drain_unmanaged=true" in str(unmanaged)
    assert "%s/cache-1" % node.namespace in str(empty) and "-e reboot_drain_empty_dirs=true" in str(empty)
    assert node.cordoned == (False, False) and node.there() == ["cache-1", "lone-1", "web-1"]
    node.drain(Consent(True, True, 0)).drained(30)
    assert node.there() == []


def test_a_disruption_budget_is_followed_reported_and_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PAUSE", 0.5)
    node.pod("web-1")
    node.pod("db-1", running=True)
    node.budget("db", 1, 0)
    foreseen = node.drain(check=True)
    foreseen.drained(3)
    assert list(foreseen.waits) == ["%s/db-1" % node.namespace]
    assert "disruption budget" in foreseen.waits["%s/db-1" % node.namespace]

    with pytest.raises(RailyardError) as caught:
        node.drain().drained(3)
    message = str(caught.value)
    assert message.startswith("Pod %s/db-1: it could not be evicted within 3 s: " % node.namespace), message
    assert "kubectl get poddisruptionbudgets -n %s" % node.namespace in message
    # what did not end in time keeps the node: it takes pods again, and the pod goes on
    assert node.cordoned == (False, False) and node.there() == ["db-1"]

    # meanwhile another of its kind comes up elsewhere
    def help_comes() -> None:
        time.sleep(2)
        # a connection is one thread's
        with api.Api(node.cluster.running) as admin:
            other = Node(node.cluster, admin, node.namespace)
            other.owner = node.owner
            other.pod("db-2", running=True, nodeName="node-2")
            other.budget("db", 1, 1)

    helper = threading.Thread(target=help_comes)
    helper.start()
    drain = node.drain()
    try:
        drain.drained(300)
    finally:
        helper.join()
    assert node.there() == ["db-2"] and drain.waits == {} and node.cordoned == (True, True)


def test_a_pod_that_does_not_end_is_reported_as_that(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PAUSE", 0.5)
    node.pod("slow-1")
    with pytest.raises(RailyardError, match="it was evicted and did not end within 2 s"):
        node.drain(Consent()).drained(2)
    assert node.cordoned == (False, False)
    assert any("waiting for 1 pods to end" in line for line in node.messages)


def test_a_node_that_the_cluster_does_not_know_is_named(node: Node) -> None:
    with pytest.raises(RailyardError, match="Node node-9: the cluster has no node of this name") as caught:
        Drain(node.server, "node-9", AT_ONCE, MANAGER, False, node.messages.append).drained(3)
    assert "kubectl get nodes" in str(caught.value)


def test_the_rights_in_the_documentation_are_sufficient_and_all_used(node: Node, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    (role,) = [made for made in blocks if made["metadata"]["name"] == "railyard-drain"]
    rules = list(role["rules"])
    account = "/api/v1/namespaces/%s/serviceaccounts" % node.namespace
    node.admin.request("POST", account, {"metadata": {"name": "railyard"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = node.admin.request("POST", account + "/railyard/token", request)
    user = {"token": answer["status"]["token"]}
    named = kubeconfig(tmp_path / "account", node.cluster.running.url, user, node.cluster.running.pki / "ca.crt")
    rbac = "rbac.authorization.k8s.io"
    binding: Object = {"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "railyard-drain"}}
    binding["roleRef"] = {"apiGroup": rbac, "kind": "ClusterRole", "name": "railyard-drain"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "railyard", "namespace": node.namespace}]
    try:
        node.cluster.apply(role)
        node.cluster.apply(binding)
        for left_out in (*range(len(rules)), None):
            kept = [rule for at, rule in enumerate(rules) if at != left_out]
            node.cluster.apply(dict(role, rules=kept), force=True)
            node.pod("web-%s" % (left_out if left_out is not None else "all"))
            drain = Drain(
                connect(str(named), None, 4, node.messages.append), NODE, AT_ONCE, MANAGER, False, node.messages.append
            )
            if left_out is None:
                wait_until_allowed(drain)
                drain.restored()
            else:
                with pytest.raises(RailyardError, match="may not"):
                    wait_until_refused(drain)
        assert node.there() == [] and node.cordoned == (False, False)
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            node.cluster.kubectl("delete", kind, "railyard-drain")


def wait_until_allowed(drain: Drain) -> None:
    """The server reads roles a moment after they are there."""
    retried(lambda: drain.drained(60), RailyardError)


def wait_until_refused(drain: Drain) -> None:
    time.sleep(2)
    drain.drained(30)


# -- the role ----------------------------------------------------------------------------------------------------------

ROLE = {"name": "railyard.fabric.reboot"}


def role(
    node: Node, place: Path, *words: str, connection: str = "local", restore: bool = False, **given: t.Any
) -> Played:
    """Run the role as hosts.yml does. To reboot over a local connection ansible.builtin.reboot itself refuses."""
    include = {"ansible.builtin.include_role": dict(ROLE, **({"tasks_from": "restore"} if restore else {}))}
    book: Object = {"hosts": "all", "gather_facts": False, "become": False, "tasks": [include]}
    book["vars"] = {
        "railyard_node": {"name": NODE},
        "reboot_reasons": ["the RDMA mode"],
        "reboot_drain": True,
        "reboot_kubeconfig": str(node.cluster.kubeconfig),
        "ansible_connection": connection,
        **given,
    }
    (place / "play.yml").write_text(yaml.safe_dump([book]))
    return play(place / "play.yml", *words, inventory="%s," % NODE)


def test_the_role_drains_before_the_reboot_and_uncordons_after_it(node: Node, tmp_path: Path) -> None:
    node.pod("web-1")
    # without consent nothing is drained
    refused = role(node, tmp_path)
    assert refused.returncode == 2 and "reboot_allowed=true" in refused.one_line and node.cordoned == (False, False)

    # no login happens: check mode ends before that
    foreseen = role(node, tmp_path, "--check", "--diff", connection="ssh")
    assert foreseen.returncode == 0 and "changed=2" in foreseen.one_line, foreseen.text
    assert "Pod %s/web-1" % node.namespace in foreseen.one_line
    assert node.cordoned == (False, False) and node.there() == ["web-1"]

    # the pod has a grace of its own, which no kubelet ends here
    late = role(node, tmp_path, reboot_allowed=True, reboot_drain_timeout=2)
    assert late.returncode == 2 and "was evicted and did not end within 2 s" in late.one_line
    assert "would reboot the control node" not in late.one_line and node.cordoned == (False, False)

    node.clear()
    done = role(node, tmp_path, reboot_allowed=True)
    assert done.returncode == 2 and "would reboot the control node" in done.one_line, done.one_line
    # cut off after the drain: it stays cordoned, and its annotation names the owner
    assert node.cordoned == (True, True)
    back = role(node, tmp_path, restore=True)
    assert back.returncode == 0 and "changed=1" in back.one_line, back.text
    assert node.cordoned == (False, False)
    assert "changed=0" in role(node, tmp_path, restore=True).one_line


def test_a_batch_of_which_one_node_cannot_be_freed_takes_pods_again(node: Node, tmp_path: Path) -> None:
    node.pod("web-1")
    other = "/api/v1/nodes/node-2"
    given: Object = {"reboot_allowed": True, "reboot_drain_timeout": 2, "reboot_together": True}
    given["railyard_node"] = {"name": "{{ inventory_hostname }}"}
    kept = role(node, tmp_path, "-i", "node-2,", **given)
    assert kept.returncode == 2 and "was evicted and did not end within 2 s" in kept.one_line, kept.text
    assert "node-2 is not rebooted: another node of its batch could not be drained" in kept.one_line
    assert "would reboot the control node" not in kept.one_line and node.cordoned == (False, False)
    assert not node.admin.get(other)["spec"].get("unschedulable"), "no cordon remains"

    # one that waits cordoned since an earlier run is not the one to give back here
    patch = {"spec": {"unschedulable": True}, "metadata": {"annotations": {OURS: "true"}}}
    node.admin.request("PATCH", other, patch, api_server.MERGE)
    try:
        kept = role(node, tmp_path, "-i", "node-2,", **given)
        assert kept.returncode == 2 and node.admin.get(other)["spec"]["unschedulable"], kept.one_line
    finally:
        patch = {"spec": {"unschedulable": None}, "metadata": {"annotations": {OURS: None}}}
        node.admin.request("PATCH", other, patch, api_server.MERGE)


def test_a_node_that_the_second_check_cordons_is_uncordoned_with_its_batch(node: Node, tmp_path: Path) -> None:
    """An administrator uncordons a drained node while the drain of another node waits."""
    other = "/api/v1/nodes/node-2"
    given: Object = {"reboot_allowed": True, "reboot_drain_timeout": 6, "reboot_together": True}
    given["railyard_node"] = {"name": "{{ inventory_hostname }}"}
    node.admin.request("PATCH", other, {"spec": {"unschedulable": True}}, api_server.MERGE)
    node.pod("web-1")
    # the API server deletes a completed pod at once
    node.pod("job-1", nodeName="node-2")
    completed = {"status": {"phase": "Succeeded"}}
    node.admin.request("PATCH", "%s/job-1/status" % node.pods, completed, api_server.MERGE)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(role, node, tmp_path, "-i", "node-2,", **given)
        wait_for(lambda: node.there() == [])
        time.sleep(1)  # the last requests of the drain of node-2
        node.admin.request("PATCH", other, {"spec": {"unschedulable": None}}, api_server.MERGE)
        kept = run.result()
    assert "node-2 is not rebooted: another node of its batch could not be drained" in kept.one_line, kept.text
    assert not node.admin.get(other)["spec"].get("unschedulable"), kept.text


def test_pods_that_would_wait_are_reported_in_check_mode(node: Node, tmp_path: Path) -> None:
    node.pod("db-1", running=True)
    node.budget("db", 1, 0)
    foreseen = role(node, tmp_path, "--check", connection="ssh")
    assert foreseen.returncode == 0 and "%s/db-1 would wait: " % node.namespace in foreseen.one_line, foreseen.one_line


def test_hosts_drains_only_in_a_cluster_that_is_named() -> None:
    # the nodes of the plan are not this machine, which preflight reports in check mode
    given = {"reboot_drain": True, "ansible_connection": "local"}
    book, words, inventory = "playbooks/hosts.yml", ("--tags", "preflight", "--check"), "inventories/macvlan-roce"
    done = play(book, *words, inventory=inventory, given=given)
    assert done.returncode == 2 and "reboot_drain: no cluster is named" in done.one_line, done.text
    assert "TASK [Prepare the node" not in done.one_line
    named = play(book, *words, inventory=inventory, given=dict(given, kubernetes_context="prod"))
    assert "no cluster is named" not in named.one_line and "TASK [Prepare the node" in named.one_line
