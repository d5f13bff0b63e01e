# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster `site.yml` brings the rail networks to, and that it is asked before a host is touched.

Without guests: the nodes' addresses are nobody's, so that whoever touches a host fails.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.base import LABEL
from lab.cluster import schemas
from tests.integration.cluster import Cluster
from tests.unit.fabric.kubernetes import plans

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {"metrics": False, "operator_namespace": "kube-system"}
NOBODY = "are brought to no Kubernetes cluster, because none is named"


class Site:
    """A fabric file and a way to run `site.yml` with it."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster, self.place = cluster, place
        self.file = place / "fabric.yml"
        whole = plans.fabric_file("spiderpool", "macvlan", "subnet", (4,))
        # 192.0.2.0/24 is for documents alone; a moment is enough to see that nobody is there
        whole["nodes"] = {"node-[1:2]": {"profile": "hgx", "address": "192.0.2.[1:2]"}}
        self.file.write_text(yaml.safe_dump(whole, sort_keys=False))
        self.env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("K8S_AUTH_") and key not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")
        }
        self.env.update(
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1", ANSIBLE_TIMEOUT="3", HOME=str(place)
        )

    def run(self, *words: str, given: dict[str, t.Any] | None = None, **environment: str) -> tuple[int, str]:
        variables = {"kubernetes_options": OPTIONS, "kubernetes_wait": False, **(given or {})}
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.file), "site.yml"]
        argv += ["-e", json.dumps(variables), *words]
        env = {**self.env, **environment}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        text = " ".join((done.stdout + done.stderr).split())
        assert "Traceback" not in text
        return done.returncode, text

    def pools(self) -> set[str]:
        found = json.loads(self.cluster.kubectl("get", "spiderippools", "-o", "json"))
        return {each["metadata"]["name"] for each in found["items"]}


@pytest.fixture
def site(clean_cluster: Cluster, tmp_path: Path) -> t.Iterator[Site]:
    clean_cluster.need("spiderippools.spiderpool.spidernet.io")
    yield Site(clean_cluster, tmp_path)
    # the nodes are the whole session's
    for node in json.loads(clean_cluster.kubectl("get", "nodes", "-o", "json"))["items"]:
        ours = ["%s-" % key for key in node["metadata"]["labels"] if key.startswith(LABEL)]
        clean_cluster.kubectl("label", "node", node["metadata"]["name"], *ours, "unused-")


def test_without_a_cluster_it_says_so_in_a_line(site: Site) -> None:
    rc, out = site.run("--tags", "kubernetes", KUBECONFIG=str(site.cluster.kubeconfig))
    assert rc == 0 and out.count(NOBODY) == 1 and "-e kubernetes_kubeconfig=PATH" in out, out
    assert site.pools() == set()


@pytest.mark.parametrize("how", ["variable", "awx", "environment", "consent"])
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
    rc, out = site.run("--tags", "kubernetes", given=given, **env)
    assert rc == 0 and NOBODY not in out and site.pools() == {"ai-gpu01", "ai-gpu02"}, out


def test_check_mode_predicts_and_a_second_run_changes_nothing(site: Site) -> None:
    words, given = ("--tags", "kubernetes"), {"kubernetes_kubeconfig": str(site.cluster.kubeconfig)}
    rc, out = site.run(*words, "--check", "--diff", given=given)
    # a namespace or what others share may be there already
    created = re.search(r"[67] created", out)
    assert rc == 0 and created and "SpiderIPPool ai-gpu01" in out and site.pools() == set(), out
    rc, out = site.run(*words, given=given)
    assert rc == 0 and created[0] in out and site.pools() == {"ai-gpu01", "ai-gpu02"}, out
    rc, out = site.run(*words, given=given)
    assert rc == 0 and "nothing differs" in out and "changed=0" in out, out


def test_a_wrong_cluster_is_one_finding_before_any_host_is_touched(site: Site) -> None:
    site.cluster.kubectl("delete", "crd", "spiderippools.spiderpool.spidernet.io")
    try:
        rc, out = site.run(given={"kubernetes_kubeconfig": str(site.cluster.kubeconfig)})
    finally:
        site.cluster.load_crds(schemas.DEFAULT)
    assert rc == 2 and "the cluster has no kind SpiderIPPool" in out, out
    assert "UNREACHABLE" not in out and "node-1" not in out


def test_a_cluster_that_is_not_there_is_told_before_any_host_is_touched(site: Site) -> None:
    rc, out = site.run(K8S_AUTH_HOST="https://127.0.0.1:1", K8S_AUTH_API_KEY="very-secret-token")
    assert rc == 2 and "https://127.0.0.1:1: the API server does not answer" in out, out
    assert "UNREACHABLE" not in out and "node-1" not in out
    rc, out = site.run("-vvv", K8S_AUTH_HOST="https://127.0.0.1:1", K8S_AUTH_API_KEY="very-secret-token")
    assert rc == 2 and "very-secret-token" not in out


def test_a_limit_leaves_the_cluster_alone(site: Site) -> None:
    given = {"kubernetes_kubeconfig": str(site.cluster.kubeconfig)}
    rc, out = site.run("--limit", "node-1", "--tags", "kubernetes", given=given)
    assert rc == 0 and site.pools() == set(), out
    rc, out = site.run("--limit", "node-1,localhost", "--tags", "kubernetes", given=given)
    assert rc == 0 and site.pools() == {"ai-gpu01", "ai-gpu02"}, out
