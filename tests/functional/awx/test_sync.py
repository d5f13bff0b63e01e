# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to AWX, and what is refused before: against a simulation of AWX's API."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from tests.functional.awx.site import PLAYBOOKS, SAMPLE, SECRETS, TEXT, Site, refused

FULL = SAMPLE.with_name("full.yml").read_text()
HOSTS = "Railyard ai-east: hosts"
WORKFLOW = "Railyard ai-east: site"
NODES = "workflow_job_template_nodes"
TEAMS = "access: {Ops: [launch], Duty: [approve], Leads: [admin]}\ntemplates:"


# -- what is there and what is not


def test_an_organization_that_awx_does_not_have_is_an_error(site: Site) -> None:
    message = refused(site, TEXT.replace("organization: Platform", "organization: Platfrom"))
    assert "AWX has no organization Platfrom (did you mean Platform?)" in message
    assert "Remedy: write Platform; create_organization: true creates it" in message


def test_an_organization_is_created_where_that_is_asked_for(tmp_path: Path) -> None:
    site = Site(tmp_path, organization="")
    text = "create_organization: true\n" + TEXT
    try:
        with site.wrote() as wrote:
            assert len(site.sync(text, check=True).changes) > 20
        assert wrote == []
        site.sync(text)
        assert site.awx.names("organizations") == ["Platform"] and site.sync(text).changes == []
    finally:
        site.close()


def test_two_organizations_with_one_prefix_are_reported_before_anything_is_written(made: Site) -> None:
    made.awx.add("organizations", name="Other")
    other = TEXT.replace("organization: Platform", "organization: Other")
    message = refused(made, other)
    assert "AWX has an execution environment Railyard of the organization Platform" in message
    assert "Remedy: choose another prefix" in message
    made.sync("prefix: Other\n" + other)
    assert made.sync().changes == [], "the first organization's file is not in the way of the second's"


def test_names_are_looked_up_in_the_organization(made: Site) -> None:
    """AWX's names of credentials, inventories and notifications are unique in an organization only."""
    other = made.awx.add("organizations", name="Other")["id"]
    kind = made.awx.one("credential_types", "Machine")["id"]
    for name in ("Railyard nodes", "SSH"):
        made.awx.add("credentials", name=name, organization=other, credential_type=kind)
    made.awx.add("inventories", name="Railyard ai-east", organization=other)
    assert made.sync().changes == []


def test_an_execution_environment_that_awx_has(site: Site) -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("execution_environment"))
    text = TEXT.replace(line, "execution_environment: {existing: Shared EE}")
    assert "AWX has no execution environment Shared EE" in refused(site, text)
    shared = site.awx.add("execution_environments", name="Shared EE", image="ee")
    site.sync(text)
    assert site.awx.one("job_templates", HOSTS)["execution_environment"] == shared["id"]
    assert site.awx.names("execution_environments") == ["Shared EE"] and site.sync(text).changes == []


def test_everything_that_awx_would_refuse_half_way_is_reported_at_once(site: Site) -> None:
    text = TEXT.replace("{type: machine, inputs: {username: ops, become_method: sudo}}", "{existing: SHS}")
    text = text.replace("Europe/Amsterdam", "Mars/Base").replace("templates:", TEAMS, 1)
    text += "instance_groups: [mangement]\n"
    site.awx.add("instance_groups", name="management")
    kind = site.awx.one("credential_types", "Machine")["id"]
    site.awx.add(
        "credentials", name="SSH", organization=site.awx.one("organizations", "Platform")["id"], credential_type=kind
    )
    secrets = {name: each for name, each in SECRETS.items() if name != "nodes"}
    lines = refused(site, text, secrets=secrets).splitlines()
    assert len(lines) == 6
    for message in (
        "credentials.nodes.existing: AWX has no credential SHS (did you mean SSH?)",
        "instance_groups: AWX has no instance group or container group mangement (did you mean management?)",
        "access: the organization Platform has no team Ops",
        "timezone: AWX has no time zone Mars/Base",
    ):
        assert any(line.startswith(message) for line in lines), lines


def test_two_credentials_of_one_type_are_found_where_awx_has_them(site: Site) -> None:
    organization = site.awx.one("organizations", "Platform")["id"]
    kind = site.awx.one("credential_types", "Machine")["id"]
    site.awx.add("credentials", name="SSH", organization=organization, credential_type=kind)
    text = TEXT.replace("credentials: [nodes]", "credentials: [nodes, theirs]")
    text = text.replace("  cluster: {type", "  theirs: {existing: SSH}\n  cluster: {type")
    assert "nodes and theirs have the same type, and a job can have only one of a type" in refused(site, text)


def test_two_credentials_of_one_name_are_distinguished_by_type(site: Site) -> None:
    organization = site.awx.one("organizations", "Platform")["id"]
    for kind in ("Machine", "Vault"):
        number = site.awx.one("credential_types", kind)["id"]
        site.awx.add("credentials", name="SSH", organization=organization, credential_type=number)
    text = TEXT.replace("{type: machine, inputs: {username: ops, become_method: sudo}}", "{existing: SSH}")
    secrets = {name: each for name, each in SECRETS.items() if name != "nodes"}
    assert "AWX has 2 credentials SSH. Remedy: write its type: too" in refused(site, text, secrets=secrets)
    text = text.replace("{existing: SSH}", "{existing: SSH, type: machine}")
    site.sync(text, secrets=secrets)
    assert site.awx.linked("job_templates", HOSTS, "credentials") == ["Railyard cluster", "SSH"]


# -- changes by hand


def test_settings_that_change_a_job_are_reset(made: Site) -> None:
    awx = made.awx
    changed = {"job_slice_count": 8, "allow_simultaneous": True, "job_tags": "link", "become_enabled": True, "forks": 5}
    changed.update(diff_mode=True, use_fact_cache=True, skip_tags="qos", extra_vars="reboot_allowed: true", limit="a")
    changed.update({"ask_%s_on_launch" % each: True for each in ("variables", "inventory", "scm_branch")})
    before = dict(awx.one("job_templates", HOSTS))
    awx.one("job_templates", HOSTS).update(changed)
    awx.one("schedules", "Railyard ai-east: nightly drift")["enabled"] = False
    awx.one("workflow_job_templates", WORKFLOW).update(
        allow_simultaneous=True, ask_variables_on_launch=True, extra_vars='{"reboot_allowed": "true"}'
    )
    awx.one(NODES, "kubernetes")["all_parents_must_converge"] = True
    awx.one("inventory_sources", "Railyard ai-east: fabric file")["overwrite"] = False
    lines = [each.line() for each in made.sync(check=True).changes]
    assert "change schedule Railyard ai-east: nightly drift: enabled" in lines and len(lines) == 5
    made.sync()
    assert {key: awx.one("job_templates", HOSTS)[key] for key in changed if key != "extra_vars"} == {
        key: before[key] for key in changed if key != "extra_vars"
    }
    assert awx.one("schedules", "Railyard ai-east: nightly drift")["enabled"] is True
    assert not awx.one("workflow_job_templates", WORKFLOW)["ask_variables_on_launch"], (
        "reboot_allowed needs an approval"
    )
    assert made.sync().changes == []


def test_extra_variables_are_compared_as_values(made: Site) -> None:
    made.awx.one("job_templates", HOSTS)["extra_vars"] = "--- {}\n"
    variables = "ansible_connection: local\nansible_python_interpreter: '{{ ansible_playbook_python }}'"
    made.awx.one("hosts", "localhost")["variables"] = variables
    assert made.sync().changes == []


def test_a_field_that_an_older_awx_does_not_have(made: Site) -> None:
    del made.awx.one("job_templates", HOSTS)["ask_job_slice_count_on_launch"]
    assert made.sync().changes == []


def test_a_webhook_a_label_and_an_edge_by_hand(made: Site) -> None:
    """Lists that the file does not have stay as they are, and so do the edges of other people's steps."""
    awx, organization = made.awx, made.awx.one("organizations", "Platform")["id"]
    label = awx.add("labels", name="mine", organization=organization)["id"]
    group = awx.add("instance_groups", name="far")["id"]
    number = awx.one("job_templates", HOSTS)["id"]
    awx.links["job_templates", number, "labels"] = [label]
    awx.links["job_templates", number, "instance_groups"] = [group]
    own = awx.add(NODES, identifier="own", workflow_job_template=awx.one("workflow_job_templates", WORKFLOW)["id"])
    awx.links[NODES, awx.one(NODES, "verify")["id"], "always_nodes"] = [own["id"]]
    awx.links[NODES, awx.one(NODES, "verify")["id"], "success_nodes"] = [own["id"]]
    assert made.sync().changes == []
    awx.links[NODES, awx.one(NODES, "hosts")["id"], "success_nodes"].append(own["id"])
    awx.links[NODES, awx.one(NODES, "hosts")["id"], "failure_nodes"].clear()
    made.sync()
    assert awx.linked(NODES, "hosts", "success_nodes") == ["kubernetes", "own"]
    assert awx.linked(NODES, "hosts", "failure_nodes") == ["reboots"]


def test_a_circle_by_hand_is_an_error_with_a_remedy(made: Site) -> None:
    awx = made.awx
    awx.links[NODES, awx.one(NODES, "hosts")["id"], "failure_nodes"].clear()
    own = awx.add(NODES, identifier="own", workflow_job_template=awx.one("workflow_job_templates", WORKFLOW)["id"])
    awx.links[NODES, awx.one(NODES, "reboots")["id"], "always_nodes"] = [own["id"]]
    awx.links[NODES, own["id"], "success_nodes"] = [awx.one(NODES, "hosts")["id"]]
    with pytest.raises(RailyardError, match="Cycle detected.*Remedy: remove the links"):
        made.sync()


# -- labels, instance groups, teams, webhooks, schedules: made, changed and removed with the file


def test_labels_and_instance_groups(made: Site) -> None:
    awx = made.awx
    for name in ("near", "far"):
        awx.add("instance_groups", name=name)
    text = TEXT.replace("templates:\n", "labels: [rails, ai]\ninstance_groups: [near, far]\ntemplates:\n", 1)
    text = text.replace("forks: 64", "instance_groups: [far]")
    made.sync(text)
    assert awx.linked("job_templates", HOSTS, "labels") == ["ai", "rails"]
    assert awx.linked("workflow_job_templates", WORKFLOW, "labels") == ["ai", "rails"]
    assert awx.linked("job_templates", HOSTS, "instance_groups") == ["far"]
    assert awx.linked("inventories", "Railyard ai-east", "instance_groups") == ["far", "near"]
    assert made.sync(text).changes == []
    turned = text.replace("[near, far]", "[far, near]")
    made.sync(turned)
    number = awx.one("inventories", "Railyard ai-east")["id"]
    groups = [
        awx.tables["instance_groups"][each]["name"] for each in awx.links["inventories", number, "instance_groups"]
    ]
    assert groups == ["far", "near"], "AWX takes the first that has capacity"
    made.sync(turned.replace("[rails, ai]", "[]").replace("[far, near]", "[]").replace("[far]", "[]"))
    assert awx.names("labels") == [] and awx.linked("job_templates", HOSTS, "instance_groups") == []


def test_teams_get_roles_and_lose_them(made: Site) -> None:
    awx, organization = made.awx, made.awx.one("organizations", "Platform")["id"]
    for team in ("Ops", "Duty", "Leads", "Others"):
        awx.add("teams", name=team, organization=organization)
    text = TEXT.replace("templates:", TEAMS, 1)
    assert any(
        each.line() == "change job template %s: execute_role of team Ops" % HOSTS
        for each in made.sync(text, check=True).changes
    )
    made.sync(text)
    assert (HOSTS, "execute_role") in awx.granted("Ops") and (WORKFLOW, "execute_role") in awx.granted("Ops")
    assert ("Railyard ai-east: teardown", "execute_role") not in awx.granted("Ops")
    shown = {(HOSTS, "read_role"), ("Railyard ai-east: reboots", "read_role")}
    assert awx.granted("Duty") == {(WORKFLOW, "approval_role"), *shown}, "who approves reads what is approved"
    assert ("Railyard nodes", "admin_role") in awx.granted("Leads")
    assert made.sync(text).changes == []
    made.sync(text.replace("Ops: [launch], ", ""))
    assert awx.granted("Ops") == set() and awx.granted("Duty")
    assert made.sync().changes == [] and awx.granted("Duty"), "without the key AWX's own stays"


def test_an_approval_has_a_timeout(made: Site) -> None:
    text = "approval: {timeout: 3600, description: Ask the tenants}\n" + TEXT
    made.sync(text)
    (approval,) = made.awx.tables["workflow_approval_templates"].values()
    assert (approval["timeout"], approval["description"]) == (3600, "Ask the tenants")
    made.sync()
    assert approval["timeout"] == 0 and made.sync().changes == []


def test_schedules_of_any_template_and_the_workflow(made: Site) -> None:
    words = '    schedules: {weekly: {template: site, at: "04:00", days: [sa], answers: {reboot_drain: true}},'
    words += ' hourly: {template: verify, at: "05:00", enabled: false, answers: {verify_budget: 60}}}\n    reports:'
    text = TEXT.replace("    reports:", words)
    made.sync(text)
    weekly = made.awx.one("schedules", "Railyard ai-east: weekly")
    assert weekly["unified_job_template"] == made.awx.one("workflow_job_templates", WORKFLOW)["id"]
    assert weekly["extra_data"] == {"reboot_drain": "true"}
    assert made.awx.one("schedules", "Railyard ai-east: hourly")["enabled"] is False
    assert made.sync(text).changes == []
    mine = made.awx.add("schedules", name="mine", unified_job_template=weekly["unified_job_template"], rrule="x")
    made.sync()
    assert made.awx.names("schedules") == ["Railyard ai-east: nightly drift", mine["name"]]


def test_a_webhook_is_added_and_removed(made: Site) -> None:
    text = TEXT.replace("    reports:", "    webhook: {service: github}\n    reports:")
    made.sync(text)
    assert made.awx.one("job_templates", "Railyard ai-east: validate")["webhook_service"] == "github"
    made.sync()
    assert made.awx.one("job_templates", "Railyard ai-east: validate")["webhook_service"] == ""


def test_cache_timeouts_are_written(made: Site) -> None:
    text = TEXT.replace("    reports:", "    inventory_cache: 600\n    reports:").replace(
        "branch: main", "update_cache: 60, branch: main"
    )
    made.sync(text)
    assert made.awx.one("inventory_sources", "Railyard ai-east: fabric file")["update_cache_timeout"] == 600
    assert made.awx.one("projects", "Railyard")["scm_update_cache_timeout"] == 60
    made.sync()
    assert made.awx.one("projects", "Railyard")["scm_update_cache_timeout"] == 0


def test_a_removed_field_of_a_credential_is_deleted(made: Site) -> None:
    made.sync(TEXT.replace(", become_method: sudo", ""))
    assert made.awx.one("credentials", "Railyard nodes")["inputs"] == {"username": "ops", **SECRETS["nodes"]}


def test_a_template_that_runs_is_not_deleted(made: Site) -> None:
    made.awx.busy.add(made.awx.one("job_templates", "Railyard ai-east: report")["id"])
    with pytest.raises(RailyardError, match=r"report: .*running jobs.*Remedy: wait until its running job ends"):
        made.sync(TEXT.replace("    reports: /var/lib/railyard/reports/ai-east\n", ""))


def test_every_key_of_the_data_file_is_synchronized(site: Site) -> None:
    """Made, left alone, and with the small file taken back as far as that describes it."""
    awx, organization = site.awx, site.awx.one("organizations", "Platform")["id"]
    for team in ("Operators", "Duty managers", "Platform engineers", "Auditors", "Lab"):
        awx.add("teams", name=team, organization=organization)
    for group in ("management-network", "lab-containers"):
        awx.add("instance_groups", name=group)
    awx.add("execution_environments", name="Platform EE", image="ee")
    kind = awx.one("credential_types", "Machine")["id"]
    awx.add("credentials", name="Platform SSH", organization=organization, credential_type=kind)
    secrets = {
        "git": SECRETS["git"],
        "vault": {"vault_password": "PASSWORD-of-vault"},
        "cluster": {"bearer_token": "TOKEN-of-cluster"},
        "ops": {"mattermost_url": "https://chat.example/hooks/TOKEN"},
    }
    planned = site.sync(FULL, check=True, secrets=secrets)
    assert not awx.writes() and not any("TOKEN" in str(each) or "PASSWORD" in str(each) for each in planned.changes)
    site.sync(FULL, secrets=secrets)
    assert awx.granted("Lab") >= {("Railyard lab: hosts", "execute_role"), ("Railyard lab: site", "approval_role")}
    assert not {name for name, _role in awx.granted("Operators") if " lab" in name}
    assert awx.linked("job_templates", "Railyard lab: verify", "instance_groups") == ["lab-containers"]
    assert awx.one("notification_templates", "Railyard ops")["notification_configuration"]["mattermost_url"].endswith(
        "TOKEN"
    )
    with site.wrote() as wrote:
        assert site.sync(FULL, secrets=secrets, CONTROLLER_OAUTH_TOKEN="token-auditor").changes == []
    assert wrote == []
    with pytest.raises(RailyardError, match=r"credential Railyard cluster: .*Remedy: give the credential another name"):
        site.sync()
    text = TEXT.replace("  cluster: {type", "  kube: {type").replace("cluster: cluster", "cluster: kube")
    secrets = {name if name != "cluster" else "kube": each for name, each in SECRETS.items()}
    site.sync(text, secrets=secrets)
    assert site.sync(text, secrets=secrets).changes == []
    assert awx.linked("job_templates", HOSTS, "credentials") == ["Railyard kube", "Railyard nodes"]


def test_the_type_of_a_credential_that_nothing_uses_may_change(made: Site) -> None:
    text = TEXT.replace("fabrics:\n", "  spare: {type: %s}\nfabrics:\n")
    made.sync(text % "vault, inputs: {vault_id: a}", secrets={**SECRETS, "spare": {"vault_password": "x"}})
    machine = {**SECRETS, "spare": {"password": "y"}}
    with pytest.raises(RailyardError, match="Vault IDs cannot be changed.*Remedy: give the credential another name"):
        made.sync(text % "machine, inputs: {}", secrets=machine)
    made.awx.one("credentials", "Railyard spare")["inputs"].pop("vault_id")
    made.sync(text % "machine, inputs: {}", secrets=machine)
    assert made.awx.one("credentials", "Railyard spare")["inputs"] == {"password": "y"}


# -- the project


def test_a_project_that_cannot_be_synced(site: Site) -> None:
    url = "ssh://git@git.example/platform/rails.git"
    site.awx.broken[url] = "fatal: repository '%s' does not exist" % url
    with pytest.raises(RailyardError) as caught:
        site.sync()
    message = str(caught.value)
    assert "project: its update, job 9000, is failed: fatal: repository" in message
    assert "Remedy: correct project.url" in message and "/#/jobs/project/9000" in message
    with pytest.raises(RailyardError, match="job 9001, is failed: fatal: repository"):
        site.sync()
    site.awx.broken.clear()
    site.sync()
    assert site.sync().changes == []


def test_an_awx_without_capacity_is_waited_for_and_then_reported(site: Site) -> None:
    site.awx.capacity = False
    text = TEXT.replace("branch: main", "sync_timeout: 1, branch: main")
    with pytest.raises(RailyardError, match=r"is still pending after 1 seconds.*Remedy: .*capacity"):
        site.sync(text)
    site.awx.capacity = True
    site.sync(text)


@pytest.mark.parametrize("words", ["branch: mian", "branch: main, playbooks: play"])
def test_a_repository_without_the_playbooks(words: str, site: Site) -> None:
    site.awx.branches["mian"] = {"playbooks/other.yml"}
    with pytest.raises(
        RailyardError, match=r"does not have play\w*/cluster.yml, .*Remedy: correct project.playbooks or project.branch"
    ):
        site.sync(TEXT.replace("branch: main", words))
    assert site.awx.names("job_templates") == []


def test_a_playbook_that_was_pushed_since_is_fetched(made: Site) -> None:
    (number,) = made.awx.playbook_files
    made.awx.playbook_files[number].remove("playbooks/plan.yml")
    with made.wrote() as wrote:
        assert [each.line() for each in made.sync(check=True).changes] == ["update project Railyard"]
    assert wrote == []
    made.sync()
    assert made.awx.playbook_files[number] == PLAYBOOKS


def test_a_fabric_file_that_the_project_does_not_have(site: Site) -> None:
    site.awx.files = {"inventories/other/fabric.yml"}
    with pytest.raises(RailyardError) as caught:
        site.sync()
    message = str(caught.value)
    assert message.startswith("fabrics: inventories/macvlan-roce/fabric.yml: its update, job ")
    assert "Unable to find the source path" in message and "Remedy: correct the file or its path" in message
    # the next runs try again, and check mode reports that
    line = "update inventory source Railyard ai-east: fabric file"
    assert [each.line() for each in site.sync(check=True).changes] == [line]
    with pytest.raises(RailyardError, match="Unable to find the source path"):
        site.sync()
    site.awx.files = None
    assert [each.line() for each in site.sync().changes] == [line]
    assert site.sync().changes == []


def test_a_fabric_file_that_awx_reads_just_now_is_awaited(made: Site) -> None:
    source = next(iter(made.awx.tables["inventory_sources"].values()))
    made.awx.start("inventory", source)
    with made.wrote() as wrote:
        assert made.sync().changes == []
    assert wrote == []


def test_the_reason_of_a_failed_update_is_read_after_awx_has_saved_it(site: Site) -> None:
    site.awx.broken["ssh://git@git.example/platform/rails.git"] = "fatal: repository not found"
    site.awx.unsaved = 9
    with pytest.raises(RailyardError, match="is failed: fatal: repository not found"):
        site.sync()
    # an AWX that never saves it is not waited for without end
    site.awx.unsaved = 1000
    with pytest.raises(RailyardError, match="is failed: AWX gives no reason"):
        site.sync()


def test_the_reason_is_read_from_an_awx_without_the_field_of_saved_events(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = site.awx.update_of

    def older(number: int, below: list[str]) -> dict[str, object]:
        return {key: each for key, each in answer(number, below).items() if key != "event_processing_finished"}

    monkeypatch.setattr(site.awx, "update_of", older)
    site.awx.broken["ssh://git@git.example/platform/rails.git"] = "fatal: repository not found."
    with pytest.raises(RailyardError, match="is failed: fatal: repository not found. Remedy"):
        site.sync()


def test_consent_is_not_an_empty_answer(made: Site) -> None:
    """The playbook refuses it, but only when the job runs."""
    number = made.awx.one("job_templates", "Railyard ai-east: teardown")["id"]
    (asked,) = [
        each for each in made.awx.surveys["job_templates", number]["spec"] if each["variable"] == "teardown_consent"
    ]
    assert (asked["required"], asked["min"], asked["max"]) == (True, 1, 1024)


def test_a_credential_type_that_awx_does_not_have(site: Site) -> None:
    for number, each in list(site.awx.tables["credential_types"].items()):
        if each["name"] == "Machine":
            del site.awx.tables["credential_types"][number]
    with pytest.raises(RailyardError, match="AWX has no credential type Machine, or this user has no permission"):
        site.sync()


def test_the_number_of_written_changes_is_that_of_accepted_ones(site: Site) -> None:
    done, wrote = site.play(CONTROLLER_OAUTH_TOKEN="token-org-admin")
    assert done.returncode == 2 and "are written; another run continues" not in done.one_line, done.text
    site.awx.refusals = {"workflow_job_templates": {"name": ["is refused"]}}
    done, wrote = site.play()
    created = [path for method, path, _data in wrote if method == "POST"]
    assert done.returncode == 2 and "is refused" in done.one_line
    number = int(done.one_line.partition(" changes are written; another run continues")[0].rpartition("(")[2])
    rows = [each for kind, table in site.awx.tables.items() if kind != "organizations" for each in table.values()]
    assert number == len([each for each in rows if not each.get("managed")]), created
