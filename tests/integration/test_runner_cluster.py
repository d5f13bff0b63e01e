# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the cluster, run by ansible-runner as AWX runs job templates, on a real API server."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.functional.awx import runner
from tests.integration.cluster import Cluster

FABRIC = "inventories/lab/fabric.yml"
# What surveys hand on is text; what a template's extra_vars hold is what it is.
ANSWERS: dict[str, t.Any] = {
    "fabric_file": FABRIC,
    "kubernetes_options": {"metrics": False, "registry": "registry.example"},
    "kubernetes_wait": "false",
    "kubernetes_prune": "true",
    "kubernetes_force": "false",
    "kubernetes_wait_timeout": 60,
}


@pytest.mark.long
def test_the_cluster_that_a_credential_names(clean_cluster: Cluster, tmp_path: Path) -> None:
    """Check mode, the objects, a second time for nothing; and away again, with consent alone."""
    project = runner.project(tmp_path / "project")
    hosts = runner.inventory(FABRIC, project)
    # as the injectors of our credential type set them
    credential = {each: str(clean_cluster.kubeconfig) for each in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG")}

    def launch(name: str, playbook: str, arguments: str = "", **answers: t.Any) -> runner.Job:
        variables = {**ANSWERS, **answers}
        path = "playbooks/%s.yml" % playbook
        job = runner.run(tmp_path / name, project, path, hosts, variables, arguments, credential)
        assert "Traceback" not in job.one_line, job.one_line
        return job

    check = launch("check", "kubernetes", "--check --diff")
    assert check.status == "successful" and check.changed == 1, check.one_line
    first = launch("first", "kubernetes")
    assert first.status == "successful" and first.changed == 1, first.one_line
    second = launch("second", "kubernetes")
    assert second.status == "successful" and second.changed == 0, second.one_line

    refused = launch("refused", "teardown", teardown_consent="another")
    (result,) = refused.failed.values()
    assert refused.status == "failed" and "Remedy: " in result["msg"]
    gone = launch("gone", "teardown", teardown_consent="lab")
    assert gone.status == "successful" and gone.changed == 1, gone.one_line
    again = launch("again", "teardown", teardown_consent="lab")
    assert again.status == "successful" and again.changed == 0, again.one_line
