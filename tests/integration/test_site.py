# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster `site.yml` brings the rail networks to, and that it is asked before a host is touched.

Without guests: no host has the nodes' addresses, so that any access to a host fails.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import LABEL
from lab.cluster import schemas
from tests.integration.cluster import Cluster
from tests.playbook import Played, play
from tests.unit.fabric.kubernetes import plans

OPTIONS = {"metrics": False, "operator_namespace": "kube-system"}
NO_CLUSTER = "are not applied, because no Kubernetes cluster is named"


class Site:
    """A fabric file and a way to run `site.yml` with it."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster, self.place = cluster, place
        self.file = place / "fabric.yml"
        whole = plans.fabric_file("spiderpool", "macvlan", "subnet", (4,))
        # 192.0.2.0/24 is for documents alone; a moment is enough to see that no host is there
        whole["nodes"] = {"node-[1:2]": {"profile": "hgx", "address": "192.0.2.[1:2]"}}
        self.file.write_text(yaml.safe_dump(whole, sort_keys=False))

    def run(self, *words: str, given: dict[str, t.Any] | None = None, **environment: str) -> Played:
        variables = {"kubernetes_options": OPTIONS, "kubernetes_wait": False, **(given or {})}
        # no cluster that the person who runs the tests works with
        env = {"KUBECONFIG": str(self.place / "nowhere"), **environment}
        return play("site.yml", "--timeout", "3", *words, inventory=self.file, given=variables, env=env)

    def pools(self) -> set[str]:
        found = json.loads(self.cluster.kubectl("get", "spiderippools", "-o", "json"))
        return {each["metadata"]["name"] for each in found["items"]}


@pytest.fixture
def site(clean_cluster: Cluster, tmp_path: Path) -> t.Iterator[Site]:
    yield Site(clean_cluster, tmp_path)
    # the nodes are the whole session's
    for node in json.loads(clean_cluster.kubectl("get", "nodes", "-o", "json"))["items"]:
        ours = ["%s-" % key for key in node["metadata"]["labels"] if key.startswith(LABEL)]
        clean_cluster.kubectl("label", "node", node["metadata"]["name"], *ours, "unused-")


def test_without_a_cluster_one_line_reports_it(site: Site) -> None:
    done = site.run("--tags", "kubernetes", KUBECONFIG=str(site.cluster.kubeconfig))
    assert done.returncode == 0 and done.one_line.count(NO_CLUSTER) == 1, done.text
    assert "-e kubernetes_kubeconfig=PATH" in done.one_line and site.pools() == set()


@pytest.mark.parametrize(
    "how", ["variable", *(pytest.param(how, marks=pytest.mark.long) for how in ("awx", "environment", "consent"))]
)
def test_the_cluster_that_is_named_gets_the_networks(site: Site, how: str) -> None:
    config = str(site.cluster.kubeconfig)
    given: dict[str, t.Any] = {}
    env: dict[str, str] = {}
    if how == "variable":
        given = {"kubernetes_kubeconfig": config}
    elif how == "awx":
        pki = site.cluster.running.pki
        env = {"HOST": site.cluster.running.url, "SSL_CA_CERT": str(pki / "ca.crt"), "VERIFY_SSL": "True"}
        env.update(CERT_FILE=str(pki / "admin.crt"), KEY_FILE=str(pki / "admin.key"))
        env = {"K8S_AUTH_" + key: value for key, value in env.items()}
    elif how == "environment":
        env = {"K8S_AUTH_KUBECONFIG": config}
    else:
        given, env = {"kubernetes_enabled": True}, {"KUBECONFIG": config}
    done = site.run("--tags", "kubernetes", given=given, **env)
    assert done.returncode == 0 and NO_CLUSTER not in done.one_line and site.pools() == {"ai-gpu01", "ai-gpu02"}, (
        done.text
    )


def test_check_mode_predicts_and_a_second_run_changes_nothing(site: Site) -> None:
    words, given = ("--tags", "kubernetes"), {"kubernetes_kubeconfig": str(site.cluster.kubeconfig)}
    done = site.run(*words, "--check", "--diff", given=given)
    # a namespace or what others share may be there already
    created = re.search(r"[67] created", done.one_line)
    assert done.returncode == 0 and created and "SpiderIPPool ai-gpu01" in done.one_line, done.text
    assert site.pools() == set()
    done = site.run(*words, given=given)
    assert done.returncode == 0 and created[0] in done.one_line and site.pools() == {"ai-gpu01", "ai-gpu02"}, done.text
    done = site.run(*words, given=given)
    assert done.returncode == 0 and "nothing differs" in done.one_line and "changed=0" in done.one_line, done.text


def test_a_wrong_cluster_is_one_finding_before_any_host_is_touched(site: Site) -> None:
    site.cluster.kubectl("delete", "crd", "spiderippools.spiderpool.spidernet.io")
    try:
        done = site.run(given={"kubernetes_kubeconfig": str(site.cluster.kubeconfig)})
    finally:
        site.cluster.load_crds(schemas.DEFAULT)
    assert done.returncode == 2 and "the cluster has no kind SpiderIPPool" in done.one_line, done.text
    assert "UNREACHABLE" not in done.one_line and "node-1" not in done.one_line


def test_a_missing_cluster_is_reported_before_any_host_is_touched(site: Site) -> None:
    done = site.run(K8S_AUTH_HOST="https://127.0.0.1:1", K8S_AUTH_API_KEY="very-secret-token")
    assert done.returncode == 2 and "https://127.0.0.1:1: the API server does not answer" in done.one_line, done.text
    assert "UNREACHABLE" not in done.one_line and "node-1" not in done.one_line
    done = site.run("-vvv", K8S_AUTH_HOST="https://127.0.0.1:1", K8S_AUTH_API_KEY="very-secret-token")
    assert done.returncode == 2 and "very-secret-token" not in done.one_line


def test_a_limit_skips_the_cluster_and_reports_it_if_nothing_else_is_selected(site: Site) -> None:
    given = {"kubernetes_kubeconfig": str(site.cluster.kubeconfig)}
    done = site.run("--limit", "node-1", "--tags", "kubernetes", given=given)
    assert done.returncode == 1 and "the limit node-1 leaves out localhost" in done.one_line, done.text
    assert site.pools() == set()
    done = site.run("--limit", "node-1,localhost", "--tags", "kubernetes", given=given)
    assert done.returncode == 0 and site.pools() == {"ai-gpu01", "ai-gpu02"}, done.text
