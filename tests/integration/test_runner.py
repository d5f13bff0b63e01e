# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that log in to nodes, run by ansible-runner on the lab's guests as AWX runs job templates."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.functional.awx import runner
from tests.integration.conftest import LAB_DIR

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def hosts(project: Path) -> dict[str, t.Any]:
    """The lab's fabric file as an inventory source keeps it, with the way to its guests."""
    found = runner.inventory("inventories/lab/fabric.yml", project)
    for name, variables in found["_meta"]["hostvars"].items():
        variables["ansible_ssh_common_args"] = "-F %s" % (LAB_DIR / "ssh_config")
        variables["ansible_control_path_dir"] = "/tmp/ry-runner-%s" % name
    return found


Launch = t.Callable[..., runner.Job]


@pytest.fixture
def launch(project: Path, hosts: dict[str, t.Any], tmp_path: Path) -> Launch:
    def go(playbook: str, arguments: str = "", **answers: t.Any) -> runner.Job:
        place = tmp_path / ("%s%s" % (playbook, arguments.replace(" ", "")))
        job = runner.run(place, project, "playbooks/%s.yml" % playbook, hosts, answers, arguments)
        assert "Traceback" not in job.one_line
        return job

    return go


def test_hosts_and_verify(launch: Launch) -> None:
    """Check mode of one node, as its template asks at launch; all of it, a second time for nothing; and the proof."""
    one = launch("hosts", "--limit node-1 --check --diff", reboot_allowed="false", railyard_reboot_batch=1)
    assert one.status == "successful", one.one_line
    assert "node-1" in one.one_line and "node-2" not in one.one_line.partition("PLAY RECAP")[2]

    first = launch("hosts", reboot_allowed="false", railyard_reboot_batch=1)
    assert first.status == "successful", first.one_line
    assert first.artifacts["railyard_reboots"] == {}
    again = launch("hosts", "--diff", reboot_allowed="false", railyard_reboot_batch=1)
    assert again.status == "successful" and again.changed == 0, again.one_line

    proof = launch("verify", verify_layers="", verify_rails="gpu01", verify_budget=0, verify_lldp_seconds=0)
    assert proof.status == "successful", proof.one_line
