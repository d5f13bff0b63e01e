# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/awx.yml`` against a stand-in of AWX's API: what it makes, that it then makes nothing, what it hides."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.playbook import ROOT, Played, play
from tests.standins.awx import Awx, serve

SAMPLE = ROOT / "tests/unit/awx/sample.yml"
SECRETS = {
    "git": {"ssh_key_data": "-----BEGIN KEY-----\nKEY-of-git\n-----END KEY-----\n"},
    "registry": {"password": "PASSWORD-of-registry"},
    "nodes": {"ssh_key_data": "KEY-of-nodes"},
    "cluster": {"kubeconfig": "KUBECONFIG-of-cluster"},
    "ops": {"token": "TOKEN-of-ops"},
}
PLAYBOOKS = {"playbooks/%s" % path.name for path in (ROOT / "playbooks").glob("*.yml")}


class Site:
    """A stand-in, and the playbook run against it."""

    def __init__(self, place: Path) -> None:
        self.awx = Awx(PLAYBOOKS)
        self.server = serve(self.awx)
        self.place = place

    def play(
        self, *arguments: str, file: Path = SAMPLE, secrets: t.Any = SECRETS, **environment: str
    ) -> tuple[Played, list[t.Any]]:
        """Run it; gives what it said, and what it wrote."""
        vault = self.place / "secrets.json"
        vault.write_text(json.dumps({"awx_secrets": secrets}))
        env = {"HOME": str(self.place), "CONTROLLER_HOST": "http://127.0.0.1:%d" % self.server.server_port}
        env.update(CONTROLLER_REQUEST_TIMEOUT="120")  # a busy machine is no failure
        env.update({"CONTROLLER_OAUTH_TOKEN": self.awx.token, **environment})
        words, given = ("-e", "@%s" % vault, *arguments), {"awx_file": str(file)}
        before = len(self.awx.writes())
        done = play("playbooks/awx.yml", *words, inventory="localhost,", given=given, env=env)
        return done, self.awx.writes()[before:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("awx"))
    yield site
    site.server.shutdown()
    site.server.server_close()


def ok(done: Played) -> None:
    assert done.returncode == 0, done.text


def hidden(done: Played) -> None:
    for each in ("KEY-of", "PASSWORD-of", "KUBECONFIG-of", "TOKEN-of"):
        assert each not in done.text


# These build on one another, as a person's runs do: each full run takes dozens of calls of modules.


def test_check_mode_says_what_would_be_made_and_makes_nothing(site: Site) -> None:
    done, wrote = site.play("--check")
    ok(done)
    assert wrote == []
    for name in ("Railyard nodes", "Railyard ai-east: hosts", "hosts-with-reboots", "Railyard ai-east: nightly drift"):
        assert name in done.stdout


def test_the_first_run_makes_everything_and_tells_no_secret(site: Site) -> None:
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
    assert awx.linked("job_templates", "Railyard ai-east: hosts", "notification_templates_error") == ["Railyard ops"]
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


def test_the_second_run_changes_nothing(site: Site) -> None:
    done, wrote = site.play()
    ok(done)
    assert wrote == [] and "changed=0" in done.stdout


def test_what_left_the_file_goes_the_rest_stays_and_secrets_are_new_where_asked(site: Site) -> None:
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
    assert before - set(awx.names("job_templates")) == {"Railyard ai-east: kubernetes", "Railyard ai-east: teardown"}
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


def test_nobody_said_which_awx(site: Site) -> None:
    done, wrote = site.play(CONTROLLER_HOST="")
    assert done.returncode == 2 and wrote == []
    assert "CONTROLLER_HOST: nobody said which AWX. Remedy: " in done.stdout


def test_a_wrong_token_is_one_line(site: Site) -> None:
    done, wrote = site.play(CONTROLLER_OAUTH_TOKEN="nonsense")
    assert done.returncode == 2 and wrote == []
    assert "Invalid authentication credentials" in done.stdout


def test_a_wrong_file_asks_awx_nothing(site: Site) -> None:
    wrong = site.place / "wrong.yml"
    wrong.write_text(SAMPLE.read_text().replace("branch: main", "brnach: main"))
    before = len(site.awx.requests)
    done, _wrote = site.play(file=wrong)
    assert done.returncode == 2 and len(site.awx.requests) == before
    assert "project.brnach: brnach is no key here" in done.stdout.replace("\n        ", " ")
