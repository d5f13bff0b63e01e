# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that docs/security.md prints are all that the actions of the cluster need, and none of them is idle."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.action.kube_ready import _look
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Goal,
    beside,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import workload_pods
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_cordon import cordon
from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import Planned
from lab.cluster import api
from lab.cluster.proxy import Proxy
from tests.integration.cluster import Cluster, Object
from tests.integration.conftest import ROOT
from tests.integration.kube_bench import Bench, kubeconfig, quiet
from tests.integration.kube_fixtures import bench, proxy  # noqa: F401  (fixtures)
from tests.waiting import wait_for

METRICS: Object = {"metrics": True, "monitoring_namespace": "default"}


class Case(t.NamedTuple):
    """A plan of each kind that there is of objects; ``fabric``: further words of the file's section."""

    provider: str
    attachment: str
    mode: str
    options: Object = {}
    fabric: Object = {}


CASES = [
    Case("spiderpool", "macvlan", "subnet"),
    Case("spiderpool", "sriov", "prefix", METRICS),
    Case("spiderpool", "ib-sriov", "subnet"),
    Case("network-operator", "macvlan", "subnet", METRICS),
    Case("network-operator", "host-device", "link"),
    Case("network-operator", "sriov", "prefix"),
    Case("network-operator", "ipoib", "subnet"),
    Case("network-operator", "ib-sriov", "subnet", {}, {"rdma_mode": "shared"}),
    Case("cni", "macvlan", "block"),
]
# In the role for what no plan of these has (other policies, Node Feature Discovery, schedulers, metrics of the rail
# agent), for Kubernetes 1.34, and for the layer of pods.
BEYOND = {
    "deviceclasses.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "topologies.kueue.x-k8s.io",
    "hypernodes.topology.volcano.sh",
    "scrapeconfigs.monitoring.coreos.com",
    "nicnodepolicies.mellanox.com",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "spiderreservedips.spiderpool.spidernet.io",
    "daemonsets.apps get",
    "pods list",
    "events list",
}


def role() -> Object:
    """The first ClusterRole of the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE | re.DOTALL)
    return next(made for made in map(yaml.safe_load, blocks) if made["kind"] == "ClusterRole")


def rights(made: Object) -> set[str]:
    """``RESOURCE.GROUP VERB`` of each."""
    return {
        "%s %s" % (".".join(filter(None, (resource, group))), verb)
        for rule in made["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def account(cluster: Cluster, proxy: Proxy, namespace: str, tmp_path: Path) -> t.Iterator[Path]:  # noqa: F811
    """The kubeconfig of a service account that has the page's role and no other, through the proxy."""
    made = role()
    name = made["metadata"]["name"]
    rbac = "rbac.authorization.k8s.io"
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
    cluster.apply(made)
    cluster.apply(
        {
            "apiVersion": rbac + "/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
    )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    with api.Api(cluster.running) as admin:
        answer = admin.request("POST", "/api/v1/namespaces/%s/serviceaccounts/%s/token" % (namespace, name), request)
    user = {"token": answer["status"]["token"]}
    yield kubeconfig(tmp_path / "account", proxy.url, user)
    for kind in ("clusterrolebinding", "clusterrole"):
        cluster.kubectl("delete", kind, name)


def asked_first(server: Server, plan: Planned, wait: bool = True) -> list[str]:
    """The errors of preflight."""
    later = preflight.Later(wait=wait, beside=beside((each["apiVersion"], each["kind"]) for each in plan.objects))
    found = preflight.problems(server, plan.desired(), plan.labels_nodes, quiet, plan.secrets(), later)
    return [error.message for error in found]


def whole_way(server: Server, plan: Planned) -> None:
    """Do what the playbooks do after preflight: labels, objects, a second run, wait, cordon, removal."""

    def labels(wanted: t.Mapping[str, t.Mapping[str, str]]) -> Labelling:
        made = Labelling(server, wanted, {FABRIC: plan.fabric}, LABEL, MANAGER)
        made.run(False, quiet)
        return made

    assert labels(plan.node_labels()).done
    first = Apply(server, plan.desired(), False, quiet)
    first.present(True)
    assert first.done
    again = Apply(server, plan.desired(), False, quiet)
    again.present(True)
    assert again.done == []
    _look(server, Goal(plan.document, plan.given, plan.objects))
    assert cordon(server, {"node-1": ["gpu01"]}, MANAGER, False)
    assert cordon(server, {"node-1": []}, MANAGER, False)
    Apply(server, plan.desired(), False, quiet).absent(120)
    assert labels({}).done


def planned(bench: Bench, case: Case) -> Planned:  # noqa: F811
    options = {"metrics": False, "registry": "registry.example", **case.options}
    options.update(operator_namespace="default", sriov_namespace="default")
    return bench.plan(case.provider, case.attachment, case.mode, options=options, fabric=case.fabric)


# What no run needs that brings networks: a namespace may be made by another user, and verify_cordon is verify's.
NOT_ASKED = {"namespaces get", "nodes get"}


def test_playbooks_and_preflight_use_exactly_the_rights_of_the_printed_role(
    bench: Bench,  # noqa: F811
    account: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: set[str] = set()
    may = Server.may

    def noted(server: Server, verb: str, resource: Resource) -> bool:
        asked.add("%s %s" % (resource.name, verb))
        return may(server, verb, resource)

    def taken() -> set[str]:
        """Return the rights that the requests since the last call needed."""
        found = {right for method, path in bench.proxy.seen for right in _rights(method, path)}
        bench.proxy.seen.clear()
        return found

    monkeypatch.setattr(Server, "may", noted)
    used: set[str] = set()
    for case in CASES:
        plan, server = planned(bench, case), bench.server(account)
        asked.clear()
        assert asked_first(server, plan) == [], case
        used |= taken()
        whole_way(server, plan)
        later = taken()
        assert later - asked - NOT_ASKED == set(), case
        used |= later
    left = {right for right in rights(role()) - used if right not in BEYOND and right.split()[0] not in BEYOND}
    assert left == set()
    assert used <= rights(role()), sorted(used - rights(role()))


def without(cluster: Cluster, lost: str) -> None:
    """Take ``RESOURCE.GROUP VERB`` from the account's role."""
    made = role()
    resource, verb = lost.split()
    for rule in made["rules"]:
        names = {".".join(filter(None, (name, group))) for name in rule["resources"] for group in rule["apiGroups"]}
        if resource in names:
            rule["verbs"] = [each for each in rule["verbs"] if each != verb]
    made["rules"] = [rule for rule in made["rules"] if rule["verbs"]]
    cluster.apply(made)


def reported_until(wanted: t.Sequence[str], say: t.Callable[[], list[str]]) -> None:
    """The server takes a moment to know of another role."""
    wait_for(lambda: say() == wanted, say)


def test_rights_of_the_wait_are_checked_before_any_write(
    bench: Bench,  # noqa: F811
    account: Path,
) -> None:
    plan, server = planned(bench, Case("network-operator", "sriov", "prefix")), bench.server(account)
    without(bench.cluster, "sriovnetworknodestates.sriovnetwork.openshift.io list")
    missing = "the user may not list sriovnetworknodestates.sriovnetwork.openshift.io"
    reported_until([missing], lambda: asked_first(server, plan))
    assert asked_first(server, plan, wait=False) == []
    # where Node Feature Discovery labels nodes, only the wait lists them
    without(bench.cluster, "nodes list")
    wait = preflight.Later(wait=True)
    reported_until(
        ["the user may not list nodes"],
        lambda: [each.message for each in preflight.problems(server, plan.desired(), False, quiet, (), wait)],
    )
    assert preflight.problems(server, plan.desired(), False, quiet) == []


def test_missing_rights_to_delete_are_an_error_before_any_write(bench: Bench, account: Path) -> None:  # noqa: F811
    bench.apply(planned(bench, Case("cni", "macvlan", "block")))
    plan, server = planned(bench, Case("spiderpool", "macvlan", "subnet")), bench.server(account)
    without(bench.cluster, "network-attachment-definitions.k8s.cni.cncf.io delete")
    missing = "the user may not delete network-attachment-definitions.k8s.cni.cncf.io"
    reported_until([missing], lambda: asked_first(server, plan))
    keeps = preflight.Later(prune=False)
    assert preflight.problems(server, plan.desired(), plan.labels_nodes, quiet, plan.secrets(), keeps) == []


def test_it_suffices_to_look_at_pods(bench: Bench, account: Path, namespace: str) -> None:  # noqa: F811
    """A pod that no kubelet runs, whose messages are read as well."""
    container = {"name": "rails", "image": "registry.example/busybox:1"}
    metadata = {"name": "ai-rails", "namespace": namespace, "labels": {"app": "rails"}}
    bench.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    server = bench.server(account)
    assert workload_pods.there(server, namespace, ["ai-rails"]) == []
    (row,) = workload_pods.of(server, namespace, "app=rails", "k8s.v1.cni.cncf.io/network-status")
    assert row["name"] == "ai-rails" and not row["running"] and row["why"]


def _rights(method: str, path: str) -> list[str]:
    """The rights that a request takes; none for what every user may ask."""
    found = re.match(r"/(?:api|apis/([^/]+))/v\w+(?:/namespaces/[^/?]+)?/([\w-]+)(/[^/?]+)?(?:\?|$)", path)
    namespace = re.match(r"/api/v1/namespaces(/[^/?]+)?(?:\?|$)", path)
    if namespace:
        return ["namespaces get"] if method == "GET" else []
    if not found or found[2].endswith("reviews"):
        return []
    name = ".".join(filter(None, (found[2], found[1])))
    if method == "GET":
        return ["%s %s" % (name, "get" if found[3] else "list")]
    # server-side apply of what is not there is a creation too; a node's labels are a merge
    verbs = {"PATCH": ["patch"] if name == "nodes" else ["patch", "create"], "DELETE": ["delete"]}[method]
    return ["%s %s" % (name, verb) for verb in verbs]
