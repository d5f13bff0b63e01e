# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/awx.yml`` against a simulation of AWX's API: what it creates and hides, and a second run."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from tests.functional.awx.site import SAMPLE, SECRETS, Site
from tests.playbook import PROGRAMS, Played


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("awx"))
    yield site
    site.close()


def ok(done: Played) -> None:
    assert done.returncode == 0, done.text


def hidden(done: Played) -> None:
    for each in ("KEY-of", "PASSWORD-of", "KUBECONFIG-of", "TOKEN-of"):
        assert each not in done.text


# These build on one another, as a person's runs do: each full run takes dozens of calls of modules.


def test_check_mode_reports_changes_without_making_them(site: Site) -> None:
    done, wrote = site.play("--check", "--diff")
    ok(done)
    hidden(done)
    assert wrote == [] and "+image: registry.example/railyard-ee" in done.stdout
    for name in ("Railyard nodes", "Railyard ai-east: hosts", "hosts-with-reboots", "Railyard ai-east: nightly drift"):
        assert name in done.stdout


def test_the_first_run_makes_everything_and_reports_no_secret(site: Site) -> None:
    done, wrote = site.play("-vvv")
    ok(done)
    hidden(done)
    awx = site.awx
    assert "PATCH" not in {method for method, _path, _data in wrote}, "nothing is made twice"
    inputs = {"username": "ops", "become_method": "sudo", **SECRETS["nodes"]}
    assert awx.one("credentials", "Railyard nodes")["inputs"] == inputs
    kubeconfig = awx.one("credential_types", "Railyard kubeconfig")
    assert kubeconfig["injectors"]["file"] == {"template": "{{ kubeconfig }}"}
    assert kubeconfig["injectors"]["env"]["K8S_AUTH_KUBECONFIG"] == "{{ tower.filename }}"
    hosts = awx.one("job_templates", "Railyard ai-east: hosts")
    assert (hosts["playbook"], hosts["forks"], hosts["timeout"]) == ("playbooks/hosts.yml", 64, 7200)
    assert hosts["ask_limit_on_launch"] and hosts["ask_job_type_on_launch"] and hosts["survey_enabled"]
    assert awx.linked("job_templates", "Railyard ai-east: hosts", "credentials") == [
        "Railyard cluster",
        "Railyard nodes",
    ]
    assert awx.linked("job_templates", "Railyard ai-east: kubernetes", "credentials") == ["Railyard cluster"]
    assert awx.linked("job_templates", "Railyard ai-east: drift", "notification_templates_error") == ["Railyard ops"]
    source = awx.one("inventory_sources", "Railyard ai-east: fabric file")
    assert (source["source_path"], source["overwrite_vars"]) == ("inventories/macvlan-roce/fabric.yml", True)
    workflow = "Railyard ai-east: site"
    assert awx.linked("workflow_job_templates", workflow, "notification_templates_approvals") == ["Railyard ops"]
    nodes = "workflow_job_template_nodes"
    assert awx.linked(nodes, "hosts", "failure_nodes") == ["reboots"]
    assert awx.linked(nodes, "reboots", "success_nodes") == ["approval"]
    assert awx.linked(nodes, "approval", "success_nodes") == ["hosts-with-reboots"]
    assert awx.one(nodes, "hosts-with-reboots")["extra_data"] == {"reboot_allowed": "true"}
    approval = awx.tables["workflow_approval_templates"][awx.one(nodes, "approval")["unified_job_template"]]
    assert approval["name"].startswith("ai-east: reboot the nodes")
    assert awx.one("schedules", "Railyard ai-east: nightly drift")["rrule"].startswith("DTSTART;TZID=Europe/Amsterdam:")
    assert awx.one("notification_templates", "Railyard ops")["notification_configuration"]["token"] == "TOKEN-of-ops"


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_the_second_run_changes_nothing(words: tuple[str, ...], site: Site) -> None:
    """And so it takes a token that may only read."""
    done, wrote = site.play(*words, CONTROLLER_OAUTH_TOKEN="token-auditor")
    ok(done)
    assert wrote == [] and "changed=0" in done.stdout


def test_removed_objects_are_deleted_and_secrets_renewed_on_request(site: Site) -> None:
    less = site.place / "less.yml"
    text = SAMPLE.read_text().replace("forks: 64", "forks: 32").replace("    cluster: cluster\n", "")
    text = text.replace('    drift: {at: "03:00", timezone: Europe/Amsterdam}\n', "").replace("#rails", "#ops")
    less.write_text(text)
    awx = site.awx
    before = set(awx.names("job_templates"))
    new = {**SECRETS, "nodes": {"ssh_key_data": "KEY-of-new-nodes"}, "ops": {"token": "TOKEN-of-new-ops"}}
    done, wrote = site.play("-e", "awx_update_secrets=true", file=less, secrets=new)
    ok(done)
    hidden(done)
    assert before - set(awx.names("job_templates")) == {
        "Railyard ai-east: cluster",
        "Railyard ai-east: kubernetes",
        "Railyard ai-east: teardown",
    }
    assert awx.names("schedules") == [] and "kubernetes" not in awx.names("workflow_job_template_nodes")
    assert awx.linked("workflow_job_template_nodes", "hosts", "success_nodes") == ["verify"]
    assert awx.one("job_templates", "Railyard ai-east: hosts")["forks"] == 32
    assert awx.one("notification_templates", "Railyard ops")["notification_configuration"] == {
        "channels": ["#ops"],
        "token": "TOKEN-of-new-ops",
    }
    assert awx.one("credentials", "Railyard nodes")["inputs"]["ssh_key_data"] == "KEY-of-new-nodes"
    touched = {path.split("/")[3] for _method, path, _data in wrote}
    expected = {"job_templates", "schedules", "workflow_job_template_nodes", "notification_templates", "credentials"}
    assert touched == expected


def test_inside_awx_the_secrets_are_a_file_of_the_project(site: Site, tmp_path: Path) -> None:
    """As AWX runs it: AWX's credential in the environment, and the vault's password by a vault credential."""
    (tmp_path / "password").write_text("hush\n")
    (tmp_path / "awx-secrets.yml").write_text(json.dumps({"awx_secrets": SECRETS}))
    command = [str(PROGRAMS / "ansible-vault"), "encrypt", "--vault-password-file", "password", "awx-secrets.yml"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    fresh = Site(tmp_path)
    try:
        given = ("-e", "awx_secrets_file=%s" % (tmp_path / "awx-secrets.yml"))
        done, wrote = fresh.play(*given, "--vault-password-file", str(tmp_path / "password"), "-vvv", secrets={})
        ok(done)
        hidden(done)
        assert fresh.awx.one("credentials", "Railyard nodes")["inputs"]["ssh_key_data"] == "KEY-of-nodes"
        done, wrote = fresh.play(*given, secrets={})
    finally:
        fresh.close()
    assert done.returncode == 2 and wrote == []
    assert (
        "awx-secrets.yml: it cannot be read: " in done.one_line
        and "Remedy: check that it is YAML, and give the vault password" in done.one_line
    )


def test_no_awx_is_named(site: Site) -> None:
    done, wrote = site.play(CONTROLLER_HOST="")
    assert done.returncode == 2 and wrote == []
    assert "CONTROLLER_HOST: no AWX is named. Remedy: set CONTROLLER_HOST" in done.one_line


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_a_wrong_token_is_one_line(words: tuple[str, ...], site: Site) -> None:
    done, wrote = site.play(*words, CONTROLLER_OAUTH_TOKEN="nonsense")
    assert done.returncode == 2 and wrote == []
    assert "does not accept the token or password (HTTP 401)" in done.one_line
    assert "Remedy: set CONTROLLER_OAUTH_TOKEN to a valid token" in done.one_line


def test_a_wrong_file_asks_awx_nothing(site: Site) -> None:
    wrong = site.place / "wrong.yml"
    wrong.write_text(
        SAMPLE.read_text()
        .replace("branch: main", "brnach: main")
        .replace("forks:", "extra_vars: {reboot_alowed: 1}, forks:")
    )
    before = len(site.awx.requests)
    done, _wrote = site.play(file=wrong)
    assert done.returncode == 2 and len(site.awx.requests) == before
    assert "project.brnach: unknown key brnach" in done.one_line
    assert (
        "railyard.fabric has no variable reboot_alowed (did you mean reboot_allowed?)" in done.one_line
        and "Remedy: correct the name" in done.one_line
    )
