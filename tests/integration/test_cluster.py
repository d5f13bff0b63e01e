# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's API server keeps its promises, and answers server-side apply as this project relies on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
import typing as t
from pathlib import Path

import pytest
from kubernetes.dynamic.exceptions import ConflictError, DynamicApiError, ForbiddenError

from lab import process
from lab.cluster import lifecycle, parts, schemas
from lab.cluster.lifecycle import Spec
from tests.integration.cluster import NODES, Cluster, Object
from tests.waiting import retried, wait_for

pytestmark = pytest.mark.long
UNKNOWN = "field not declared in schema"


def config_map(namespace: str, **data: str) -> Object:
    metadata = {"name": "rails", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def pool(name: str = "gpu01", **spec: t.Any) -> Object:
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name},
        "spec": {"subnet": "172.16.11.0/24", "ips": ["172.16.11.1-172.16.11.200"], "gateway": "172.16.11.254", **spec},
    }


def network(namespace: str, **macvlan: t.Any) -> Object:
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderMultusConfig",
        "metadata": {"name": "gpu01-macvlan", "namespace": namespace},
        "spec": {"cniType": "macvlan", "macvlan": {"master": ["enp11s0f0np0"], **macvlan}},
    }


CRD = """# of these tests alone
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: trials.railyard.test
spec:
  group: railyard.test
  scope: Namespaced
  names: {kind: Trial, plural: trials}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                count: {type: integer, maximum: MAXIMUM}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
                name:
                  type: string
                  default: ""
                  x-kubernetes-validations: [{rule: "self != 'bogus'"}]
"""


def version_of(found: Object | None) -> str:
    assert found is not None
    return str(found["metadata"]["resourceVersion"])


def pids(cluster: Cluster) -> dict[str, int]:
    return {part: member.pid for part, member in process.members(cluster.running.directory).items()}


def kill(cluster: Cluster, *names: str) -> None:
    alive = pids(cluster)
    for name in names:
        os.kill(alive[name], signal.SIGKILL)
    wait_for(lambda: not set(names) & set(pids(cluster)))


def soon(question: t.Callable[[], bool]) -> None:
    """Ask until the answer is yes; a replaced schema takes the server a moment, and it refuses until then."""
    wait_for(lambda: retried(question, DynamicApiError))


# --- the lab's own promises -------------------------------------------------------------------------------------------


def test_second_up_changes_nothing(cluster: Cluster) -> None:
    before = pids(cluster)
    assert set(before) == set(cluster.running.parts)
    again, done = lifecycle.up(Spec(cluster.running.name, nodes=NODES))
    assert (done.started, done.crds, done.nodes) == ([], [], [])
    assert again == cluster.running
    assert pids(cluster) == before


def test_status_shows_parts_and_nodes(cluster: Cluster) -> None:
    summary = lifecycle.summary(cluster.running)
    assert all(part["up"] for part in summary["parts"])
    assert [node["name"] for node in summary["nodes"]] == NODES
    assert {node["ready"] for node in summary["nodes"]} == {"Unknown"}


def test_killed_parts_are_started_again_with_what_they_held(cluster: Cluster, namespace: str) -> None:
    kept = cluster.apply(config_map(namespace, a="1"))
    for names in (["kube-apiserver"], ["etcd", "kube-controller-manager"]):
        names = [name for name in names if name in cluster.running.parts]
        before = pids(cluster)
        kill(cluster, *names)
        assert not lifecycle.summary(cluster.running)["parts"][0 if "etcd" in names else 1]["up"]
        _again, done = lifecycle.up(Spec(cluster.running.name))
        assert done.started == names
        after = pids(cluster)
        assert {part for part in after if after[part] == before[part]} == set(before) - set(names)
        assert version_of(cluster.get(kept)) == version_of(kept)


def test_no_user_without_a_key_gets_in(cluster: Cluster) -> None:
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    for port, answer in (("etcd", b""), ("peer", b""), ("api", b"HTTP/1.0 401"), ("manager", b"HTTP/1.0 403")):
        if port == "manager" and cluster.running.binaries.manager is None:
            continue
        got = b""
        with socket.create_connection(("127.0.0.1", cluster.running.ports[port]), timeout=60) as plain:
            try:
                with blind.wrap_socket(plain) as secure:
                    secure.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                    got = secure.recv(4096)
            except (ssl.SSLError, ConnectionError):
                got = b""
        assert got.startswith(answer) and bool(got) == bool(answer), (port, got)


def test_everything_listens_on_loopback_alone(cluster: Cluster) -> None:
    inodes = set()
    for pid in pids(cluster).values():
        for link in Path("/proc/%d/fd" % pid).iterdir():
            target = os.readlink(link)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    heard = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net/%s" % table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                heard.append(words[1].rpartition(":"))
    assert {address for address, _colon, _port in heard} == {"0100007F"}
    running = cluster.running
    wanted = {port for name, port in running.ports.items() if name != "manager" or running.binaries.manager}
    assert {int(port, 16) for _address, _colon, port in heard} == wanted


def test_secrets_of_the_cluster_are_ours_alone(cluster: Cluster) -> None:
    for place in (cluster.kubeconfig, *cluster.running.pki.iterdir(), cluster.running.directory / "manager.kubeconfig"):
        assert place.stat().st_mode & 0o077 == 0, place


def test_nodes_claim_nothing_that_a_kubelet_would(cluster: Cluster) -> None:
    for name in NODES:
        node = cluster.get({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        assert node is not None
        ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert [(one["status"], one["reason"]) for one in ready] == [("Unknown", "NoKubelet")]
        assert {taint["key"] for taint in node["spec"]["taints"]} >= {"railyard.lab/no-kubelet"}
        assert not node["status"].get("allocatable")
    assert "NotReady" in cluster.kubectl("get", "nodes") or "Unknown" in cluster.kubectl("get", "nodes")


def test_nodes_are_those_asked_for_and_others_are_left_alone(cluster: Cluster) -> None:
    own: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebodys"}}
    try:
        cluster.apply(own)
        _again, done = lifecycle.up(Spec(cluster.running.name, nodes=["node-2", "node-3"]))
        assert sorted(done.nodes) == ["node-1", "node-3"]
        names = [node["name"] for node in lifecycle.summary(cluster.running)["nodes"]]
        assert names == ["node-2", "node-3", "somebodys"]
    finally:
        cluster.kubectl("delete", "node", "somebodys")
        lifecycle.up(Spec(cluster.running.name, nodes=NODES))


def test_pod_that_no_kubelet_runs_stays_pending(cluster: Cluster, namespace: str) -> None:
    if cluster.running.binaries.manager is None:
        pytest.skip("no kube-controller-manager makes the pods")
    labels = {"app": "rail-test"}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "rail-test", "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "a", "image": "registry.invalid/a:1"}],
                    },
                },
            },
        }
    )
    wait = (
        "wait",
        "-n",
        namespace,
        "--timeout=180s",
        "--for=jsonpath={.status.desiredNumberScheduled}=2",
        "daemonset/rail-test",
    )
    cluster.kubectl(*wait)
    status = json.loads(cluster.kubectl("get", "-n", namespace, "daemonset/rail-test", "-o", "json"))["status"]
    assert (status["numberReady"], status["numberUnavailable"]) == (0, 2)
    pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    assert {pod["status"]["phase"] for pod in pods} == {"Pending"}


def test_upstreams_schemas_are_all_served(cluster: Cluster) -> None:
    wanted, _overridden = schemas.read([schemas.DEFAULT])
    present = cluster.crds()
    assert set(wanted) <= set(present)
    for name in wanted:
        conditions = {one["type"]: one["status"] for one in present[name]["status"]["conditions"]}
        assert conditions["Established"] == "True", name
        # a schema that is not structural would not prune, and would let everything through
        assert conditions.get("NonStructuralSchema", "False") == "False", name


def test_schemas_are_created_replaced_and_left_alone(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    file, name = tmp_path / "trials.yaml", "trials.railyard.test"
    trial = {"apiVersion": "railyard.test/v1", "kind": "Trial", "metadata": {"name": "a", "namespace": namespace}}
    try:
        file.write_text(CRD.replace("MAXIMUM", "8"))
        assert cluster.load_crds(tmp_path) == [name]
        # an empty string is a string, as default and as value
        assert cluster.apply({**trial, "spec": {"count": 8}})["spec"] == {"count": 8, "name": ""}
        assert cluster.apply({**trial, "spec": {"count": 8, "name": ""}})["spec"] == {"count": 8, "name": ""}
        other = {**trial, "metadata": {"name": "b", "namespace": namespace}, "spec": {"free": {"any": [1]}}}
        assert cluster.apply(other)["spec"] == {"free": {"any": [1]}, "name": ""}
        assert cluster.load_crds(tmp_path) == []
        with pytest.raises(DynamicApiError, match="less than or equal to 8"):
            cluster.apply({**trial, "spec": {"count": 9}})
        file.write_text(CRD.replace("MAXIMUM", "9"))
        assert cluster.load_crds(tmp_path) == [name]
        soon(lambda: cluster.apply({**trial, "spec": {"count": 9}})["spec"] == {"count": 9, "name": ""})
    finally:
        cluster.kubectl("delete", "crd", "--ignore-not-found", name)


def test_several_shapes_of_a_schema_can_be_loaded_in_turn(cluster: Cluster) -> None:
    name = "sriovnetworks.sriovnetwork.openshift.io"
    shapes = []
    try:
        for folder in ("spiderpool", "sriov-network-operator"):
            cluster.load_crds(schemas.DEFAULT / folder)
            shapes.append(json.dumps(cluster.crds()[name]["spec"], sort_keys=True))
    finally:
        cluster.load_crds(schemas.DEFAULT)
    assert shapes[0] != shapes[1]


def test_namespace_ends_with_all_that_is_in_it(cluster: Cluster) -> None:
    if cluster.running.binaries.manager is None:
        pytest.skip("no kube-controller-manager empties namespaces")
    name = "soon-gone"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    kept = cluster.apply(config_map(name, a="1"))
    cluster.delete_namespace(name)
    assert cluster.get(kept) is None


def test_clean_takes_custom_resources_away_even_held_ones(clean_cluster: Cluster, namespace: str) -> None:
    held = pool()
    held["metadata"]["finalizers"] = ["spiderpool.spidernet.io"]
    clean_cluster.apply(held)
    clean_cluster.apply(network(namespace))
    clean_cluster.clean()
    assert clean_cluster.get(held) is None
    space = clean_cluster.get({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    assert space is None or space["status"]["phase"] == "Terminating"


# --- server-side apply on this server ---------------------------------------------------------------------------------


def test_second_apply_keeps_the_resource_version(clean_cluster: Cluster, namespace: str) -> None:
    for one in [config_map(namespace, a="1"), pool(), network(namespace, ippools={"ipv4": ["gpu01"]})]:
        first = clean_cluster.apply(one)
        assert version_of(clean_cluster.apply(one)) == version_of(first)
        assert version_of(clean_cluster.get(one)) == version_of(first)
        owners = {(entry["manager"], entry["operation"]) for entry in first["metadata"]["managedFields"]}
        assert owners == {("railyard", "Apply")}


def test_dry_run_shows_the_result_and_writes_nothing(cluster: Cluster, namespace: str) -> None:
    first = cluster.apply(config_map(namespace, a="1"))
    assert cluster.apply(config_map(namespace, a="2"), dry_run=True)["data"] == {"a": "2"}
    found = cluster.get(first)
    assert found is not None
    assert found["data"] == {"a": "1"}
    assert version_of(found) == version_of(first)


def test_an_omitted_field_is_removed_and_fields_of_other_managers_stay(cluster: Cluster, namespace: str) -> None:
    cluster.apply(config_map(namespace, a="1", b="1"))
    cluster.apply(config_map(namespace, c="1"), manager="another-user")
    assert cluster.apply(config_map(namespace, a="1"))["data"] == {"a": "1", "c": "1"}


def test_field_of_another_manager_is_a_conflict_that_names_both(clean_cluster: Cluster, namespace: str) -> None:
    clean_cluster.apply(config_map(namespace, a="1"), manager="another-user")
    with pytest.raises(ConflictError) as caught:
        clean_cluster.apply(config_map(namespace, a="2"))
    status = json.loads(caught.value.body)
    assert status["code"] == 409
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "another-user": .data.a'
    causes = status["details"]["causes"]
    assert [(cause["reason"], cause["field"]) for cause in causes] == [("FieldManagerConflict", ".data.a")]
    assert clean_cluster.apply(config_map(namespace, a="2"), force=True)["data"] == {"a": "2"}
    with pytest.raises(ConflictError, match='conflict with \\\\"railyard'):
        clean_cluster.apply(config_map(namespace, a="1"), manager="another-user")
    # the same value does not conflict: it is owned by both
    clean_cluster.apply(config_map(namespace, a="2"), manager="another-user")


@pytest.mark.parametrize("what", ["built in", "custom", "nested"])
def test_apply_refuses_unknown_fields_and_writes_nothing(clean_cluster: Cluster, namespace: str, what: str) -> None:
    if what == "built in":
        wanted, field = {**config_map(namespace, a="1"), "bogus": 1}, ".bogus"
    else:
        wanted, field = network(namespace), ".spec.rdmaResourceName"
        wanted["spec"]["rdmaResourceName"] = "spidernet.io/gpu01"
        if what == "nested":
            wanted, field = network(namespace, enableRdma=True), ".spec.macvlan.enableRdma"
    with pytest.raises(DynamicApiError) as caught:
        clean_cluster.apply(wanted)
    status = json.loads(caught.value.body)
    assert "%s: %s" % (field, UNKNOWN) in status["message"]
    assert caught.value.status == 500
    assert clean_cluster.get(wanted) is None


def test_apply_refuses_unknown_fields_of_every_kind_but_those_with_int_or_string(cluster: Cluster) -> None:
    """A server of 1.20 cannot build the types of a schema with int-or-string, and then takes any field."""
    accepted, unsure = set(), set()
    for name, crd in cluster.crds().items():
        version = next(one for one in crd["spec"]["versions"] if one["served"])
        if "x-kubernetes-int-or-string" in json.dumps(version):
            unsure.add(name)
        wanted: Object = {
            "apiVersion": "%s/%s" % (crd["spec"]["group"], version["name"]),
            "kind": crd["spec"]["names"]["kind"],
            "metadata": {"name": "a", **({"namespace": "default"} if crd["spec"]["scope"] == "Namespaced" else {})},
            "spec": {"bogusField": 1},
        }
        try:
            cluster.apply(wanted, dry_run=True)
            accepted.add(name)
        except DynamicApiError as error:
            if UNKNOWN not in json.loads(error.body)["message"]:
                accepted.add(name)
    assert accepted <= unsure
    if cluster.version == (1, 20):
        assert accepted == unsure


def test_apply_refuses_a_wrong_type_and_a_value_outside_its_list(clean_cluster: Cluster, namespace: str) -> None:
    with pytest.raises(DynamicApiError) as caught:
        clean_cluster.apply(network(namespace, master="enp11s0f0np0"))
    assert ".spec.macvlan.master: expected list" in json.loads(caught.value.body)["message"]
    wanted = network(namespace)
    wanted["spec"]["cniType"] = "macvlam"
    with pytest.raises(DynamicApiError) as caught:
        clean_cluster.apply(wanted)
    status = json.loads(caught.value.body)
    assert status["code"] == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.cniType"]


def test_create_drops_unknown_fields_silently_unless_the_server_can_be_strict(
    clean_cluster: Cluster, namespace: str
) -> None:
    wanted = network(namespace, enableRdma=True)
    client = clean_cluster.resource(wanted)
    made = client.create(body=wanted, namespace=namespace).to_dict()
    assert "enableRdma" not in made["spec"]["macvlan"]
    wanted["metadata"]["name"] = "strictly"

    def strictly() -> t.Any:
        return client.create(body=wanted, namespace=namespace, query_params=[("fieldValidation", "Strict")])

    if clean_cluster.version < (1, 25):
        assert "enableRdma" not in strictly().to_dict()["spec"]["macvlan"]
    else:
        with pytest.raises(DynamicApiError, match="enableRdma"):
            strictly()


def test_removed_fields_get_the_defaults_of_the_server(clean_cluster: Cluster) -> None:
    made = clean_cluster.apply(pool())
    assert made["spec"]["disable"] is False
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert set(owned) == {"f:subnet", "f:ips", "f:gateway"}


def test_forbidden_verb_is_named(cluster: Cluster, namespace: str) -> None:
    client = cluster.client_as("another-user")
    with pytest.raises(ForbiddenError) as caught:
        cluster.apply(config_map(namespace, a="1"), client=client)
    status = json.loads(caught.value.body)
    assert status["code"] == 403
    assert 'User "another-user" cannot patch resource "configmaps" in API group ""' in status["message"]
    assert namespace in status["message"]


def test_two_who_apply_at_once_both_get_their_fields(cluster: Cluster, namespace: str) -> None:
    def fill(who: str) -> None:
        for number in range(10):
            cluster.apply(config_map(namespace, **{who: str(number)}), manager=who, client=clients[who])

    clients = {who: cluster.client_as() for who in ("one", "two")}
    threads = [threading.Thread(target=fill, args=(who,)) for who in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = cluster.get(config_map(namespace))
    assert found is not None
    assert found["data"] == {"one": "9", "two": "9"}


def test_helm_installs_changes_nothing_twice_and_takes_away(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: rails\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text("rails: 8\n")
    (chart / "templates/map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: rails\ndata:\n  rails: {{ .Values.rails | quote }}\n"
    )
    cluster.helm("upgrade", "--install", "rails", str(chart), "-n", namespace, "--set", "rails=4")
    found = cluster.get(config_map(namespace))
    assert found is not None
    assert found["data"] == {"rails": "4"}
    cluster.helm("upgrade", "--install", "rails", str(chart), "-n", namespace, "--set", "rails=4")
    assert version_of(cluster.get(found)) == version_of(found)
    cluster.helm("uninstall", "rails", "-n", namespace)
    assert cluster.get(found) is None


def test_a_hanging_part_is_reported_and_continues_later(cluster: Cluster) -> None:
    pid = pids(cluster)["kube-apiserver"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not parts.works(cluster.running, "kube-apiserver", seconds=0.5)
        assert lifecycle.summary(cluster.running)["parts"][1]["up"] is False
    finally:
        os.kill(pid, signal.SIGCONT)
    parts.wait(cluster.running, "kube-apiserver")
