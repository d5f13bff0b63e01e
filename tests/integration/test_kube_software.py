# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Software into a cluster and away again, by the playbooks, through Helm, on a real API server.

The small charts and manifests have the keys and places of upstream's; where upstream's own are at hand they are
installed too. No kubelet runs, so nothing waits for pods, and hooks that are pods are left out.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.action import kube_software
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import chart_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import PINS
from lab.cluster import schemas, tools
from lab.image import cache_directory
from tests import playbook
from tests.integration.cluster import Cluster, Object
from tests.integration.kube_bench import work
from tests.unit.fabric.kubernetes import plans, software_files

GROUP = "railyard.example"
FABRIC = "ai"

pytest.importorskip("ansible_collections.kubernetes.core", reason="the collection kubernetes.core is not installed")


class Done(t.NamedTuple):
    """How an action ended."""

    failed: bool
    one_line: str
    changed: bool


class Bench:
    """A cluster, a fabric file, and a directory of archives."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster = cluster
        self.place = place
        self.archives = place / "archives"
        self.archives.mkdir()
        self.helm = tools.ensure("helm", cache_directory())
        self.checksums: dict[str, dict[str, str]] = {}
        self.plan()

    def plan(self, provider: str = "spiderpool", attachment: str = "macvlan", mode: str = "subnet") -> None:
        (self.place / "fabric.yml").write_text(json.dumps(plans.fabric_file(provider, attachment, mode, (4,))))

    def vouch(self, name: str, path: Path) -> None:
        self.checksums.setdefault(name, {})[path.name] = software_files.digest(path)

    def given(self, **more: t.Any) -> dict[str, t.Any]:
        """Return the extra variables of a playbook."""
        return {
            "fabric_file": str(self.place / "fabric.yml"),
            "kubernetes_kubeconfig": str(self.cluster.kubeconfig),
            "cluster_archives": str(self.archives),
            "cluster_checksums": self.checksums,
            "cluster_helm": self.helm,
            "cluster_hooks": False,
            "cluster_wait": False,
            **more,
        }

    def play(self, name: str, *words: str, env: t.Mapping[str, str] | None = None, **more: t.Any) -> tuple[int, str]:
        """Return code and output, in one line."""
        given = self.given(**more)
        known = {"XDG_CACHE_HOME": str(self.place), **(env or {})}
        book = "playbooks/%s.yml" % name
        done = playbook.play(book, *words, inventory="localhost,", given=given, env=known, timeout=900)
        return done.returncode, done.one_line

    def act(self, name: str, state: str = "present", check: bool = False, **options: t.Any) -> Done:
        """The action as the role calls it, without a playbook around it: definitions and objects, but no release."""
        given = {
            "name": name,
            "state": state,
            "file": str(self.place / "fabric.yml"),
            "kubeconfig": str(self.cluster.kubeconfig),
            "source": str(self.archives),
            "checksums": self.checksums.get(name, {}),
            "helm": self.helm,
            **options,
        }
        try:
            result = work(kube_software.ActionModule, given, check)
        except RailyardError as error:
            return Done(True, str(error), False)
        output = [result.get("msg", ""), result["summary"], *result["warnings"]]
        return Done(bool(result.get("failed")), "\n".join(output), result["changed"])

    def releases(self) -> dict[str, t.Any]:
        listed = json.loads(self.cluster.helm("list", "-A", "-a", "-o", "json"))
        return {each["name"]: each for each in listed}

    def values(self, name: str, namespace: str) -> t.Any:
        return json.loads(self.cluster.helm("get", "values", name, "-n", namespace, "-o", "json"))

    def get(self, kind: str, name: str, namespace: str = "", api: str = "v1") -> Object | None:
        return self.cluster.get({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}})


@pytest.fixture
def bench(clean_cluster: Cluster, tmp_path: Path) -> t.Iterator[Bench]:
    bench = Bench(clean_cluster, tmp_path)
    yield bench
    for name, release in bench.releases().items():
        clean_cluster.helm("uninstall", name, "-n", release["namespace"], "--no-hooks")
    for name in clean_cluster.crds():
        if name.endswith(GROUP):
            clean_cluster.kubectl("delete", "crd", name, "--wait=false")
    for kind in ("daemonset,deployment,configmap,serviceaccount", "clusterrole,clusterrolebinding"):
        clean_cluster.kubectl("delete", kind, "-A", "-l", "railyard.fabric/software", "--wait=false")


@pytest.fixture
def chart(bench: Bench) -> Path:
    path = software_files.spiderpool(bench.archives)
    bench.vouch("spiderpool", path)
    return path


def plugin(bench: Bench) -> Object:
    found = bench.get("DaemonSet", "spiderpool-rdma-shared-device-plugin", "spiderpool", "apps/v1")
    assert found
    return found


def test_a_chart_from_the_first_run_to_the_last(bench: Bench, chart: Path) -> None:
    # check mode reports all and does nothing
    rc, output = bench.play("cluster", "--check", "--diff")
    assert rc == 0 and "smallpools.%s" % GROUP in output and "nothing is written in check mode" in output, output
    assert bench.releases() == {} and not bench.get("Namespace", "spiderpool")
    assert "smallpools.%s" % GROUP not in bench.cluster.crds()
    # it installs the planned software, with its definitions before it
    rc, output = bench.play("cluster")
    assert rc == 0 and bench.releases()["spiderpool"]["status"] == "deployed", output
    values = bench.values("spiderpool", "spiderpool")
    (entry, *_others) = values["rdma"]["rdmaSharedDevicePlugin"]["deviceConfig"]["configList"]
    assert entry["rdmaHcaMax"] == 100 and values["ipam"]["enableIPv6"] is False
    space = bench.get("Namespace", "spiderpool")
    assert space and space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "smallpools.%s" % GROUP in bench.cluster.crds()
    first = plugin(bench)
    # a second time is nothing
    rc, output = bench.play("cluster")
    assert rc == 0 and "changed=0" in output and bench.releases()["spiderpool"]["revision"] == "1", output
    # another list is another template, and the plugin restarts; the registry moves the image
    options = {"rdma_hca_max": 64, "registry": "registry.example/m"}
    rc, output = bench.play("cluster", kubernetes_options=options)
    assert rc == 0 and bench.releases()["spiderpool"]["revision"] == "2", output
    second = plugin(bench)
    notes = [each["spec"]["template"]["metadata"]["annotations"]["railyard.fabric/config"] for each in (first, second)]
    assert notes[0] != notes[1]
    image = second["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example/m/mellanox/plugin:v1"
    # another release brings its definitions first
    more = {"crds/example.yaml": software_files.definition(GROUP, "SmallPool", ("v1", "v2"))}
    newer = software_files.spiderpool(bench.archives, "1.3.0", **more)
    bench.checksums["spiderpool"] = {newer.name: software_files.digest(newer)}
    rc, output = bench.play("cluster", cluster_versions={"spiderpool": "1.3.0"}, kubernetes_options=options)
    assert rc == 0 and bench.releases()["spiderpool"]["chart"] == "spiderpool-1.3.0", output
    assert len(bench.cluster.crds()["smallpools.%s" % GROUP]["spec"]["versions"]) == 2
    rc, output = bench.play("cluster", cluster_versions={"spiderpool": "1.3.0"}, kubernetes_options=options)
    assert rc == 0 and "changed=0" in output, output
    # and it goes: the release, then by leave the definitions
    rc, output = bench.play("teardown", teardown_consent=FABRIC)
    assert rc == 0 and "spiderpool" in bench.releases(), "the software stays without teardown_software"
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True)
    assert rc == 0 and bench.releases() == {} and "smallpools.%s" % GROUP in bench.cluster.crds(), output
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True, teardown_purge=True)
    assert rc == 0 and "smallpools.%s" % GROUP not in bench.cluster.crds(), output
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True, teardown_purge=True)
    assert rc == 0 and "changed=0" in output, output


@pytest.mark.long
def test_helm_uses_the_named_cluster(bench: Bench, chart: Path) -> None:
    """Whatever else the environment names, as AWX's credential for another cluster does, or a shell that has Helm's."""
    beside = {
        **{"K8S_AUTH_HOST": "https://127.0.0.1:9", "K8S_AUTH_API_KEY": "another's", "K8S_AUTH_VERIFY_SSL": "false"},
        **{"HELM_KUBECONTEXT": "elsewhere", "HELM_KUBEAPISERVER": "https://127.0.0.1:9"},
        "K8S_AUTH_SSL_CA_CERT": str(chart),
    }
    context = bench.cluster.kubectl("config", "current-context").strip()
    rc, output = bench.play("cluster", env=beside, kubernetes_context=context)
    assert rc == 0 and bench.releases()["spiderpool"]["status"] == "deployed", output
    rc, output = bench.play("cluster", env=beside)
    assert rc == 0 and "changed=0" in output, output
    rc, output = bench.play("cluster", env={"K8S_AUTH_CONTEXT": "elsewhere"}, kubernetes_context=context)
    assert rc == 0 and "changed=0" in output, output
    refused = {**beside, "K8S_AUTH_CONTEXT": context}
    rc, output = bench.play("cluster", env=refused)
    assert rc == 2 and "Helm's module refuses it together with K8S_AUTH_SSL_CA_CERT" in output, output
    rc, output = bench.play("teardown", env=beside, teardown_consent=FABRIC, teardown_software=True)
    assert rc == 0 and bench.releases() == {}, output


def certificate(bench: Bench) -> tuple[str, str]:
    """The controller's certificate, and the annotation of its pods that names their release."""
    secret = bench.get("Secret", "spiderpool-controller-server-certs", "spiderpool")
    deployment = bench.get("Deployment", "spiderpool-controller", "spiderpool", "apps/v1")
    assert secret and deployment
    return secret["data"]["tls.crt"], deployment["spec"]["template"]["metadata"]["annotations"][chart_values.RELEASE]


@pytest.mark.long
def test_a_certificate_of_each_rendering_changes_nothing_and_restarts_its_reader(bench: Bench, chart: Path) -> None:
    assert bench.play("cluster")[0] == 0
    first = certificate(bench)
    # also where Helm has the plugin that renders to compare, and so finds another certificate each time
    place = bench.place / "plugins/diff"
    place.mkdir(parents=True)
    about = {"name": "diff", "version": "3.9.14", "usage": "x", "description": "x", "command": "$HELM_PLUGIN_DIR/run"}
    (place / "plugin.yaml").write_text(json.dumps(about))
    (place / "run").write_text("#!/bin/sh\necho 'spiderpool, Secret has changed'\n")
    (place / "run").chmod(0o755)
    plugins = {"HELM_PLUGINS": str(place.parent)}
    listed = subprocess.run(
        [bench.helm, "plugin", "list"], env={**os.environ, **plugins}, capture_output=True, text=True, check=True
    )
    assert "3.9.14" in listed.stdout
    rc, output = bench.play("cluster", env=plugins)
    assert rc == 0 and "changed=0" in output and certificate(bench) == first, output
    # other values are another release, with another certificate, and the controller's pods restart
    rc, output = bench.play("cluster", cluster_values={"spiderpool": {"spiderpoolController": {"replicas": 3}}})
    assert rc == 0, output
    second = certificate(bench)
    assert second[0] != first[0] and second[1] != first[1]


def test_only_valid_values_are_installed(bench: Bench, chart: Path) -> None:
    def nothing(words: tuple[str, ...], output: str) -> None:
        assert bench.releases() == {} and "smallpools.%s" % GROUP not in bench.cluster.crds(), output
        for word in words:
            assert word in output, (word, output)

    def played(*words: str, **more: t.Any) -> None:
        rc, output = bench.play("cluster", **more)
        assert rc == 2, output
        nothing(words, output)

    def acted(*words: str, **options: t.Any) -> None:
        done = bench.act("spiderpool", **options)
        assert done.failed, done.one_line
        nothing(words, done.one_line)

    wrong = {"ipam": "off", "coordinator": {"detectGateway": True}}
    played("the chart has a mapping there", "set ipam.enableGatewayDetection", cluster_values={"spiderpool": wrong})
    acted("has no checksum here", checksums={}, version="9.9.9")
    acted("should have " + "0" * 64, checksums={chart.name: "0" * 64})
    acted("should have", checksums={})  # the small chart is not the pinned one
    acted("no source is configured for", source="")
    acted("is not a program", helm="/nowhere/helm")
    # a name that no software has
    known = "use one of calico, flannel, gpu-operator, multus, network-operator, spiderpool, sriov-operator"
    wrong = "cluster_versions.spider_pool: this is not the name of cluster software"
    played(wrong, known, cluster_versions={"spider_pool": "2"})
    played("cluster_values.flannel: this is not the name of a chart", cluster_values={"flannel": {"mtu": 1400}})
    played("cluster_cni: Flannel cannot be installed by this playbook", cluster_cni="Flannel")
    four = bench.place / "helm4"
    four.write_text("#!/bin/sh\necho v4.1.4\n")
    four.chmod(0o755)
    acted("reports the version v4.1.4", "Helm 3", helm=str(four))
    about = {"apiVersion": "v2", "name": "spiderpool", "version": "1.2.2", "kubeVersion": ">= 1.99.0-0"}
    later = software_files.spiderpool(bench.place / "later", "1.2.2", **{"Chart.yaml": about})
    checksums = {later.name: software_files.digest(later)}
    acted("requires 1.99 or later", source=str(later.parent), checksums=checksums)


def test_a_missing_registry_is_reported_if_an_object_must_name_it(bench: Bench) -> None:
    bench.plan("network-operator", "macvlan")
    rc, output = bench.play("kubernetes", kubernetes_wait=False)
    assert rc == 2 and "kubernetes.registry: no registry is set for the image" in output, output


def test_software_that_is_in_use_stays(bench: Bench, chart: Path) -> None:
    rc, output = bench.play("cluster")
    assert rc == 0, output
    pool = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": "one", "labels": {"app.kubernetes.io/managed-by": "railyard"}},
        "spec": {"subnet": "172.16.1.0/24", "ips": ["172.16.1.10"]},
    }
    bench.cluster.apply(pool)
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True)
    assert rc == 2 and "it still serves 1 SpiderIPPool" in output and "spiderpool" in bench.releases(), output
    bench.cluster.resource(pool).delete(name="one")
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True)
    assert rc == 0 and bench.releases() == {}, output


@pytest.mark.long
def test_check_mode_of_a_removal_foresees_that_the_fabrics_own_objects_go_before(bench: Bench, chart: Path) -> None:
    assert bench.play("cluster")[0] == 0
    pool = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {
            "name": "one",
            "labels": {"app.kubernetes.io/managed-by": "railyard", "railyard.fabric/fabric": FABRIC},
        },
        "spec": {"subnet": "172.16.1.0/24", "ips": ["172.16.1.10"]},
    }
    bench.cluster.apply(pool)
    going = {"teardown_consent": FABRIC, "teardown_software": True, "teardown_purge": True}
    rc, output = bench.play("teardown", "--check", **going)
    assert rc == 0 and "still serves 1 SpiderIPPool of fabric ai" in output and "spiderpool" in bench.releases(), output
    # another fabric's do not go by this
    pool["metadata"]["name"], pool["metadata"]["labels"]["railyard.fabric/fabric"] = "two", "other"  # type: ignore[index]
    bench.cluster.apply(pool)
    rc, output = bench.play("teardown", "--check", **going)
    assert (
        rc == 2 and "it still serves 1 SpiderIPPool of" not in output and "it still serves 1 SpiderIPPool" in output
    ), output
    rc, output = bench.play("teardown", teardown_cni="cilium", **going)
    assert rc == 2 and "teardown_cni: cilium cannot be removed by this playbook" in output, output
    assert "spiderpool" in bench.releases()
    # a release has the values of one of two fabrics
    reserved = {
        **pool,
        "kind": "SpiderReservedIP",
        "metadata": {**pool["metadata"], "name": "three"},  # type: ignore[dict-item]
        "spec": {"ips": ["172.16.1.9"]},
    }
    bench.cluster.apply(reserved)
    rc, output = bench.play("cluster")
    assert rc == 0 and "spiderpool serves fabric other too, and gets the values of ai" in output, output


@pytest.mark.long
def test_a_release_that_failed_is_brought_again(bench: Bench, chart: Path) -> None:
    """Chart and values are those that Helm has, and still half of it is missing."""
    client = {"url": "https://127.0.0.1:9/"}
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["daemonsets"]}
    hook = {"name": "no.daemonsets.example", "clientConfig": client, "rules": [rule], "failurePolicy": "Fail"}
    hook.update(sideEffects="None", admissionReviewVersions=["v1"], timeoutSeconds=1)
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    bench.cluster.kubectl(
        "create", "-f", "-", text=json.dumps({**kind, "metadata": {"name": "no-daemonsets"}, "webhooks": [hook]})
    )
    try:
        rc, output = bench.play("cluster")
        assert rc == 2 and bench.releases()["spiderpool"]["status"] == "failed", output
    finally:
        bench.cluster.kubectl("delete", "validatingwebhookconfiguration", "no-daemonsets")
    rc, output = bench.play("cluster", "--check")
    assert rc == 0 and "changed=0" not in output, output
    rc, output = bench.play("cluster")
    assert rc == 0 and bench.releases()["spiderpool"]["status"] == "deployed", output
    assert plugin(bench)
    values = bench.values("spiderpool", "spiderpool")
    rc, output = bench.play("cluster")
    assert rc == 0 and "changed=0" in output and bench.values("spiderpool", "spiderpool") == values, output


@pytest.mark.long
def test_an_interrupted_release_is_reported_with_the_remedy(bench: Bench, chart: Path) -> None:
    assert bench.play("cluster")[0] == 0
    note = ("-n", "spiderpool", "label", "secret", "sh.helm.release.v1.spiderpool.v1", "--overwrite")
    bench.cluster.kubectl(*note, "status=pending-upgrade")
    rc, output = bench.play("cluster", "--check")
    assert rc == 2 and "helm rollback spiderpool -n spiderpool, then run again" in output, output
    bench.cluster.kubectl(*note, "status=uninstalling")
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True)
    assert rc == 2 and "end it with helm uninstall spiderpool -n spiderpool" in output, output
    bench.cluster.kubectl(*note, "status=deployed")
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_software=True)
    assert rc == 0 and bench.releases() == {}, output


def test_definitions_with_finalizers_or_of_other_programs_are_kept(bench: Bench, chart: Path) -> None:
    small = {
        "apiVersion": GROUP + "/v1",
        "kind": "SmallPool",
        "metadata": {"name": "one", "finalizers": ["a.example/x"]},
    }
    done = bench.act("spiderpool")
    assert not done.failed, done.one_line
    bench.cluster.kubectl("apply", "-f", "-", text=json.dumps(small))
    done = bench.act("spiderpool", "purged")
    assert done.failed and "one would never be deleted: it waits for a.example/x" in done.one_line, done.one_line
    assert "smallpools.%s" % GROUP in bench.cluster.crds()
    bench.cluster.kubectl("patch", "smallpool", "one", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    done = bench.act("spiderpool", "purged")
    assert not done.failed and "smallpools.%s" % GROUP not in bench.cluster.crds(), done.one_line
    # the objects of another release belong to that release
    held = software_files.definition(GROUP, "SmallPool")
    held["metadata"] = {"name": held["metadata"]["name"], "annotations": {"meta.helm.sh/release-name": "theirs"}}
    bench.cluster.kubectl("create", "-f", "-", text=json.dumps(held))
    done = bench.act("spiderpool")
    assert not done.failed and "is part of Helm's release theirs and stays unchanged" in done.one_line, done.one_line
    # and a version in which objects are stored is not taken away under them
    bench.cluster.kubectl("annotate", "crd", held["metadata"]["name"], "meta.helm.sh/release-name-")
    more = {"crds/example.yaml": software_files.definition(GROUP, "SmallPool", ("v2",))}
    newer = software_files.spiderpool(bench.archives, "1.3.0", **more)
    bench.checksums["spiderpool"] = {newer.name: software_files.digest(newer)}
    done = bench.act("spiderpool", version="1.3.0")
    assert done.failed and "objects are stored as v1" in done.one_line, done.one_line


def test_a_newer_definition_is_not_downgraded(bench: Bench, chart: Path) -> None:
    """Helm marks nothing of what lies in a chart's crds/, so an operator of the user's own leaves no sign on it."""
    name = "smallpools.%s" % GROUP

    def there(made: Object) -> None:
        bench.cluster.kubectl("delete", "crd", name, "--ignore-not-found")
        bench.cluster.kubectl("create", "-f", "-", text=json.dumps(made))

    def fields() -> set[str]:
        (version,) = bench.cluster.crds()[name]["spec"]["versions"]
        return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"].get("properties") or ())

    newer = software_files.definition(GROUP, "SmallPool", rdma={"type": "string"}, mtu={"type": "integer"})
    there(newer)
    done = bench.act("spiderpool")
    stays = "is newer (it has v1.spec.mtu and 1 more) and stays unchanged"
    assert not done.failed and stays in done.one_line, done.one_line
    assert fields() == {"note", "rdma", "mtu"}
    # one that has less is renewed, as after an installation by hand
    older = software_files.definition(GROUP, "SmallPool")
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    there(older)
    done = bench.act("spiderpool")
    assert not done.failed and fields() == {"note"}, done.one_line
    # where each has what the other has not, only its owner knows
    del newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["note"]
    there(newer)
    done = bench.act("spiderpool", check=True)
    assert done.failed and "kubectl label crd %s railyard.fabric/software=spiderpool" % name in done.one_line, (
        done.one_line
    )
    bench.cluster.kubectl("label", "crd", name, "railyard.fabric/software=spiderpool")
    done = bench.act("spiderpool")
    assert not done.failed and fields() == {"note"}, done.one_line


@pytest.mark.long
def test_a_namespace_that_is_being_deleted_is_awaited(bench: Bench, chart: Path) -> None:
    holds = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["a.example/x"]}}
    bench.cluster.kubectl("create", "namespace", "spiderpool")
    bench.cluster.kubectl("-n", "spiderpool", "create", "-f", "-", text=json.dumps(holds))
    bench.cluster.kubectl("delete", "namespace", "spiderpool", "--wait=false")
    rc, output = bench.play("cluster", "--check")
    assert rc == 0 and "the namespace spiderpool is being deleted" in output, output
    run = playbook.start("playbooks/cluster.yml", "localhost,", bench.given(), XDG_CACHE_HOME=str(bench.place))
    assert run.stdout
    try:
        seen = list(itertools.takewhile(lambda line: "waiting for namespace spiderpool" not in line, run.stdout))
        assert run.poll() is None and "spiderpool" not in bench.releases(), "".join(seen)
    finally:
        patch = '{"metadata": {"finalizers": null}}'
        bench.cluster.kubectl("-n", "spiderpool", "patch", "configmap", "held", "--type=merge", "-p", patch)
        rest, _ = run.communicate()
    assert run.returncode == 0, rest
    assert bench.releases()["spiderpool"]["status"] == "deployed"


@pytest.fixture
def flannel(bench: Bench) -> Path:
    path = bench.archives / "kube-flannel.yml"
    path.write_text(software_files.FLANNEL)
    bench.vouch("flannel", path)
    software_files.spiderpool(bench.archives)
    bench.vouch("spiderpool", bench.archives / "spiderpool-1.2.2.tgz")
    return path


@pytest.mark.long
def test_a_manifest_from_the_first_run_to_the_last(bench: Bench, flannel: Path) -> None:
    def daemon() -> Object | None:
        return bench.get("DaemonSet", "kube-flannel-ds", "kube-flannel", "apps/v1")

    settings = {"cluster_cni": "flannel", "flannel_interface": "eth0", "flannel_mtu": 1400}
    options = {"settings": {"interface": "eth0", "mtu": 1400}}
    done = bench.act("flannel", check=True, **options)
    assert not done.failed and "flannel v0.28.9: 3 changes" in done.one_line and daemon() is None, done.one_line
    rc, output = bench.play("cluster", **settings)
    made = daemon()
    assert rc == 0 and made, output
    assert made["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "--iface=eth0"
    rc, output = bench.play("cluster", **settings)
    assert rc == 0 and "changed=0" in output, output
    # what was deleted is created again
    bench.cluster.kubectl("-n", "kube-flannel", "delete", "configmap", "kube-flannel-cfg")
    done = bench.act("flannel", **options)
    assert (
        not done.failed
        and "flannel v0.28.9: 1 changes" in done.one_line
        and bench.get("ConfigMap", "kube-flannel-cfg", "kube-flannel")
    )
    # what left the manifest goes
    documents = list(yaml.safe_load_all(flannel.read_text()))
    more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "once", "namespace": "kube-flannel"}}
    flannel.write_text(yaml.safe_dump_all([*documents, more]))
    bench.vouch("flannel", flannel)
    done = bench.act("flannel", **options)
    assert not done.failed and bench.get("ConfigMap", "once", "kube-flannel"), done.one_line
    flannel.write_text(yaml.safe_dump_all(documents))
    bench.vouch("flannel", flannel)
    done = bench.act("flannel", **options)
    assert not done.failed and bench.get("ConfigMap", "once", "kube-flannel") is None, done.one_line
    # a rail cannot be the pod network
    for wrong, why in (("enp11s0np0", "the port of rail"), (".*", "flanneld does not support patterns")):
        done = bench.act("flannel", settings={"interface": wrong})
        assert done.failed and why in done.one_line, done.one_line
    # it goes by consent alone
    done = bench.act("flannel", "absent", check=True)
    assert not done.failed and done.changed and daemon(), done.one_line
    rc, output = bench.play("teardown", teardown_consent=FABRIC, teardown_cni="flannel")
    assert rc == 0 and daemon() is None, output


def test_existing_objects_are_adopted_with_permission_only(bench: Bench, flannel: Path) -> None:
    objects = list(yaml.safe_load_all(flannel.read_text()))
    other = copy.deepcopy(objects)
    other[1]["data"]["net-conf.json"] = '{"Network": "10.9.0.0/16", "Backend": {"Type": "vxlan"}}'
    bench.cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(other[:2]))
    done = bench.act("flannel")
    assert (
        done.failed and "ConfigMap kube-flannel/kube-flannel-cfg" in done.one_line and "net-conf.json" in done.one_line
    ), done.one_line
    assert "-e cluster_force=true" in done.one_line and "kubernetes_force" not in done.one_line, done.one_line
    done = bench.act("flannel", force=True)
    assert not done.failed, done.one_line
    found = bench.get("ConfigMap", "kube-flannel-cfg", "kube-flannel")
    assert found and "10.244.0.0/16" in found["data"]["net-conf.json"]


@pytest.fixture
def upstreams(name: str) -> None:
    """Skip the test if files of upstream are missing, before other fixtures start."""
    for file in itertools.chain.from_iterable(PINS[name].files.values()):
        software_files.upstream(file.name)


@pytest.fixture
def definitions_again(cluster: Cluster) -> t.Iterator[None]:
    """Upstream's definitions are on the server for all tests; what takes them away brings them back."""
    yield
    cluster.kubectl("delete", "crd", "-l", "railyard.fabric/software", "--timeout=300s")
    cluster.load_crds(*[Path(each) for each in cluster.running.crds or ()] or [schemas.DEFAULT])


def test_every_role_of_software_runs_in_a_play_of_its_own(bench: Bench, chart: Path) -> None:
    """Check mode of a removal needs no upstream files. The cluster has Spiderpool only."""
    assert bench.play("cluster")[0] == 0
    given = {"file": str(bench.place / "fabric.yml"), "kubeconfig": str(bench.cluster.kubeconfig), "state": "absent"}
    roles = [name.replace("-", "_") for name in PINS]
    variables = {"%s_%s" % (role, key): value for role in [*roles, "rail_networks"] for key, value in given.items()}
    variables.update(("%s_helm" % role, bench.helm) for role in roles)
    variables["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
    play["roles"] = ["railyard.fabric." + role for role in ["rail_networks", *roles]]
    (bench.place / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook.play(bench.place / "play.yml", "--check", inventory="localhost,")
    assert done.returncode == 0, done.text
    assert re.findall(r"\[railyard.fabric.(\w+) : Remove the objects", done.stdout) == ["rail_networks"]
    assert done.stdout.count("cluster_software : Remove the manifest's objects") == len(roles)
    assert "changed=1" in done.one_line and list(bench.releases()) == ["spiderpool"], done.text


@pytest.mark.usefixtures("upstreams", "definitions_again")
@pytest.mark.parametrize("name", ["spiderpool", "gpu-operator", "multus", "flannel", "calico"])
def test_released_manifests_and_charts_are_accepted_by_the_server(bench: Bench, name: str) -> None:
    """What the server is new enough for; the others are rendered by Helm in the test below."""
    pin = PINS[name]
    for files in pin.files.values():
        for file in files:
            (bench.archives / file.name).symlink_to(software_files.upstream(file.name))
    if name != "spiderpool":
        bench.plan("cni", "macvlan", "block")
        (bench.archives / "multus-daemonset-thick.yml").unlink(missing_ok=True)
        (file,) = PINS["multus"].files[""]
        (bench.archives / file.name).symlink_to(software_files.upstream(file.name))
    more = {
        "gpu-operator": {"cluster_gpu_operator": True},
        "flannel": {"cluster_cni": "flannel"},
        # its manifests need policy/v1 of 1.21; its operator's do not
        "calico": {"cluster_cni": "calico", "calico_method": "operator", "calico_pod_cidr": "10.42.0.0/16"},
    }.get(name, {})
    # the objects of `cni` name images; to take them away they are planned too
    more["kubernetes_options"] = {"registry": "registry.example"}
    rc, output = bench.play("cluster", **more)
    assert rc == 0, output
    rc, output = bench.play("cluster", **more)
    assert rc == 0 and "changed=0" in output, output
    cni = more.pop("cluster_cni", "")
    going = {"teardown_software": True, "teardown_purge": True, "teardown_consent": FABRIC, "teardown_cni": cni}
    rc, output = bench.play("teardown", **going, **more)
    assert rc == 0 and bench.releases() == {}, output
    kinds = "crd,daemonset,deployment,clusterrole"
    ours = "railyard.fabric/software in (%s, multus, spiderpool)" % name
    left = bench.cluster.kubectl("get", kinds, "-A", "-o", "name", "-l", ours)
    assert left == "", left


@pytest.mark.usefixtures("upstreams")
@pytest.mark.parametrize("name", [name for name, pin in PINS.items() if pin.chart])
def test_helm_renders_upstreams_charts_with_the_values_of_plans(bench: Bench, name: str) -> None:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import chart_values
    from tests.unit.fabric.kubernetes.documents import combinations, document

    pin = PINS[name]
    (file,) = pin.files[""]
    path, chart = software_files.upstream(file.name), software_files.upstreams_chart(file.name)
    seen: dict[str, None] = {}
    for combination in combinations():
        for options in ({}, {"sriov_operator": "upstream"}, {"driver": "container", "gpudirect": "peermem"}):
            given = {"registry": "registry.example", **options}
            values = object_components.values(document(*combination), given).get(pin.chart)
            if values is not None:
                seen[yaml.safe_dump(chart_values.merged(chart_values.mirrored(chart, "registry.example"), values))] = (
                    None
                )
    assert seen
    for number, text in enumerate(seen):
        values = bench.place / ("%d.yaml" % number)
        values.write_text(text)
        version = ("--kube-version", "1.30.0", "-n", "x", "--skip-crds")
        made = bench.cluster.helm("template", pin.chart, str(path), "-f", str(values), *version)
        images = [
            each["image"]
            for one in yaml.safe_load_all(made)
            if one and one["kind"] in ("DaemonSet", "Deployment", "Job")
            for each in one["spec"]["template"]["spec"]["containers"]
        ]
        assert all(each.startswith("registry.example/") for each in images), images
