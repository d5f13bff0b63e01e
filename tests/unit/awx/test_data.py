# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data file for AWX: what is wrong with one is a clear line each; what is right becomes the objects."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import Fabric, Schedule, Settings, rrule
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import Object, Wanted, objects
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_reader import read
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_templates import (
    TEMPLATES,
    WORKFLOW,
    WORKFLOW_QUESTIONS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.plugin_utils import _extra_variables

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = Path(__file__).with_name("sample.yml").read_text()
FULL = Path(__file__).with_name("full.yml").read_text()
SECRETS: dict[str, list[str]] = {
    "git": ["ssh_key_data"],
    "registry": ["password"],
    "nodes": ["ssh_key_data"],
    "cluster": ["kubeconfig"],
    "ops": ["token"],
}


VARIABLES = functools.partial(_extra_variables.errors, root=ROOT)


def made(text: str = SAMPLE, secrets: t.Mapping[str, t.Collection[str]] = SECRETS) -> Wanted:
    return objects(read(text.encode(), "awx.yml", secrets, VARIABLES))


def named(found: Wanted, kind: str) -> dict[str, Object]:
    """The objects of a kind, by what distinguishes their names."""
    return {each.name.rpartition(": ")[2]: each for each in found.of(kind)}


def absent(found: Wanted, kind: str, parts: bool = False) -> set[str]:
    """The names of what must not exist; of templates and steps of parts only with ``parts``."""
    names = {each.name.rpartition(": ")[2] for each in found.absent if each.kind == kind}
    return {name for name in names if parts == ("-part" in name)}


def edges(each: Object) -> dict[str, list[str]]:
    return {key: [ref.name for ref in refs or ()] for key, refs in each.links.items()}


def errors(text: str, secrets: t.Mapping[str, t.Collection[str]] = SECRETS) -> list[str]:
    with pytest.raises(RailyardError) as caught:
        read(text.encode(), "awx.yml", secrets, VARIABLES)
    return str(caught.value).splitlines()


def test_the_sample_is_what_the_page_prints() -> None:
    page = (ROOT / "docs" / "awx.md").read_text()
    small, full = re.findall(r"```yaml\n(organization: .*?)```", page, re.DOTALL)
    assert yaml.safe_load(small) == yaml.safe_load(SAMPLE)
    assert yaml.safe_load(full) == yaml.safe_load(FULL)


def test_every_key_is_on_the_page() -> None:
    page = (ROOT / "docs" / "awx.md").read_text()
    fabric = [each for each in vars(Fabric("f", (), None)) if each != "schedules"]
    for key in [*vars(Settings()), *fabric, *TEMPLATES, "create_organization", "sync_timeout", "update_cache", "drift"]:
        assert "`%s`" % key in page, key


WRONG = [
    ("branch: main", "brnach: main", r"awx.yml:2: project.brnach: unknown key brnach \(did you mean branch\?\)"),
    ("organization: Platform", "prefix: X", r"awx.yml:1: organization: organization is missing"),
    (
        "type: machine",
        "type: machin",
        r"awx.yml:7: credentials.nodes.type: machin is not one .*\(did you mean machine\?\)",
    ),
    ("{username: git}", "{usrname: git}", r"awx.yml:5: credentials.git.inputs.usrname: .*\(did you mean username\?\)"),
    ("ssh://git@", "https://git:hush@", r"awx.yml:2: project.url: https://git:\*\*\*@git.example/\S+ holds a password"),
    ("become_method: sudo", "password: x", r"awx.yml:7: credentials.nodes.inputs.password: password is a secret"),
    ("credential: git", "credential: gti", r"awx.yml:2: project.credential: gti is not one of .*write git"),
    ("credential: git", "credential: nodes", r"awx.yml:2: project.credential: nodes is of type machine"),
    ("cluster: cluster", "cluster: nodes", r"awx.yml:13: .*cluster: nodes is of type machine.*kubeconfig"),
    ('"03:00"', '"25:00"', r"awx.yml:14: .*drift.at: 25:00 is not a time of day"),
    ("timezone: Europe/Amsterdam", "timezone: '; x'", r"awx.yml:14: .*timezone: .* is not a time zone"),
    ("reports: /var", "reports: var", r"awx.yml:15: .*reports: var/lib/.* is removed with the job"),
    ("timezone: Europe/Amsterdam", "days: [mon]", r"awx.yml:14: .*days\[0\]: mon is not one of mo, tu"),
    ("inventories/macvlan-roce", "../elsewhere", r"awx.yml:11: .*file: .* is outside of the project"),
    ("forks: 64", "forks: many", r"awx.yml:17: templates.hosts.forks: many is not a whole number"),
    ("  hosts: {forks", "  host: {forks", r"awx.yml:17: templates.host: unknown key host \(did you mean hosts\?\)"),
    ("type: slack", "type: pigeon", r"awx.yml:19: notifications.ops.type: pigeon is not one of"),
    ("[error, approval]", "[failure]", r"awx.yml:19: notifications.ops.on\[0\]: failure is not one of started"),
    ('channels: ["#rails"]', "token: x", r"awx.yml:19: notifications.ops.settings.token: token is a secret"),
    ('image: "registry', 'img: "registry', r"awx.yml:3: execution_environment.img: unknown key img"),
    ("organization: Platform", "organization: A\nprefix: %s" % ("A" * 401), r"awx.yml:2: prefix: A+\S* is too long"),
    ("fabrics:\n", "fabrics: {}\nfabrix:\n", r"awx.yml:9: fabrics: fabrics is empty"),
    ("username: puller", "usr: puller", r"awx.yml:6: .*inputs.usr: unknown key usr"),
    (
        "  ai-east:\n",
        "  control node:\n",
        r"awx.yml:10: .*control node is the name of the inventory of the control node",
    ),
    ("fabrics:\n", "labels: {a: b}\nfabrics:\n", r"awx.yml:9: labels: .*instead of a single value"),
    (
        "credentials: [nodes]",
        "credentials: [nodes, nodes]",
        r"awx.yml:12: .*credentials\[1\]: nodes and nodes are both of",
    ),
    (
        "forks: 64",
        "extra_vars: {reboot_alowed: true}",
        r"awx.yml:17: .*no variable reboot_alowed \(did you mean reboot_allowed\?\)\. Remedy: correct the name",
    ),
    ("forks: 64", "extra_vars: {agent_zzz: 1}", r"awx.yml:17: .*railyard.fabric has no variable agent_zzz\. Remedy: "),
    ("forks: 64", "extra_vars: {agent_install: ture}", r"awx.yml:17: .*ture is not a boolean \(did you mean true\?\)"),
    ("forks: 64", "access: {Ops: [lanch]}", r"awx.yml:17: .*access.Ops\[0\]: lanch is not one of .*write launch"),
    (
        "forks: 64",
        "access: {Ops: [approve]}",
        r"awx.yml:17: .*access.Ops\[0\]: approve is not one of read, launch, admin",
    ),
    ("drift: {at", "drift: {evry: 1, at", r"awx.yml:14: .*drift.evry: unknown key evry"),
    (
        "    reports: /",
        "    webhook: {service: githb}\n    reports: /",
        r"awx.yml:15: .*service: githb is not one.*\(did you mean github\?\)",
    ),
    ("    reports: /", "    manifests: x\n    reports: /", r"awx.yml:15: .*manifests: x is removed with the job"),
    (
        "    reports: /",
        '    schedules: {weekly: {template: verify, at: "04:00", answers: {verify_bugdet: 1}}}\n    reports: /',
        r"awx.yml:15: .*answers.verify_bugdet: .* is not asked by the survey of verify.*Remedy: write verify_budget",
    ),
    (
        "    reports: /",
        '    schedules: {nightly drift: {template: drift, at: "04:00"}}\n    reports: /',
        r"awx.yml:15: .*nightly drift: drift: makes a schedule of this name.*choose another name",
    ),
    (
        "    reports: /",
        "    templates: {hosts: {fork: 1}}\n    reports: /",
        r"awx.yml:15: .*fork: unknown key fork.*forks",
    ),
    ("organization: Platform", "organization: [", r"awx.yml:\d+: invalid YAML"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new.strip() for _old, new, _reported in WRONG])
def test_every_error_is_reported(old: str, new: str, message: str) -> None:
    assert SAMPLE.count(old) >= 1
    lines = errors(SAMPLE.replace(old, new, 1))
    assert any(re.match(message, line) for line in lines), lines
    assert all(re.match(r"awx.yml:\d+: .*\. Remedy: .*\.\Z", line) for line in lines)


def test_everything_is_reported_at_once() -> None:
    text = SAMPLE.replace("brnach", "x").replace("branch", "brnach").replace("slack", "pigeon").replace("64", "many")
    assert len(errors(text)) == 3


def test_given_secrets_match_the_required_ones() -> None:
    less = {**SECRETS, "nodes": []}
    (message,) = errors(SAMPLE, less)
    assert message.startswith(
        "awx.yml:7: credentials.nodes: no secret is given for it. Remedy: give awx_secrets.nodes one"
    )
    (message,) = errors(SAMPLE, {**SECRETS, "node": ["password"]})
    assert "awx_secrets.node: no credential and no notification has that name" in message and "nodes" in message
    (message,) = errors(SAMPLE, {**SECRETS, "nodes": ["ssh_key_data", "passwrd"]})
    assert "passwrd is not one of its secrets" in message and "password" in message
    (message,) = errors(SAMPLE, {**SECRETS, "ops": []})
    assert "no token is given for it. Remedy: give awx_secrets.ops.token" in message


@pytest.mark.parametrize("raw", [b"", b"- a\n", b"\xff", b"a: b\n---\nc: d\n", b"x"])
def test_any_file_gives_findings_and_no_traceback(raw: bytes) -> None:
    with pytest.raises(RailyardError) as caught:
        read(raw, "awx.yml", {})
    assert "Remedy: " in str(caught.value) and "fabric file" not in str(caught.value)


def test_secrets_of_a_credential_that_awx_has_are_refused_by_that_reason() -> None:
    text = SAMPLE.replace("{type: machine, inputs: {username: ops, become_method: sudo}}", "{existing: SSH}")
    (message,) = errors(text)
    assert (
        "nodes is a credential that AWX has (existing: SSH)" in message
        and "Remedy: remove awx_secrets.nodes" in message
    )


def test_vault_ids_must_be_unique() -> None:
    vaults = "".join("  v%d: {type: vault, inputs: {vault_id: %s}}\n" % pair for pair in enumerate("aba"))
    text = SAMPLE.replace("fabrics:\n", vaults + "fabrics:\n").replace("[nodes]", "[nodes, v0, v1%s]")
    secrets = {**SECRETS, **{"v%d" % each: ["vault_password"] for each in range(3)}}
    assert len(named(made(text % "", secrets), "job_templates")["hosts"].links["credentials"] or ()) == 4
    (message,) = errors(text % ", v2", secrets)
    assert "v0 and v2 are both of type vault with vault_id a" in message


def test_a_url_of_a_notification_may_be_a_secret() -> None:
    text = SAMPLE.replace('type: slack, "on"', 'type: mattermost, "on"').replace(
        ', settings: {channels: ["#rails"]}', ""
    )
    assert "settings is missing" in errors(text, {**SECRETS, "ops": []})[0]
    found = made(text, {**SECRETS, "ops": ["mattermost_url"]})
    assert found.of("notification_templates")[0].fields["notification_configuration"] == {
        "mattermost_no_verify_ssl": False
    }


def test_a_credential_that_awx_has_is_left_alone() -> None:
    text = SAMPLE.replace("{type: machine, inputs: {username: ops, become_method: sudo}}", "{existing: SSH}")
    found = made(text, {name: fields for name, fields in SECRETS.items() if name != "nodes"})
    assert "nodes" not in [each.secrets for each in found.of("credentials")]
    assert edges(named(found, "job_templates")["hosts"])["credentials"] == ["SSH", "Railyard cluster"]


def test_object_names_are_unique() -> None:
    """AWX looks up what schedules and workflows run by name, among templates, projects and sources together."""
    west = "  ai-west: {file: inventories/sriov-roce/fabric.yml, credentials: [nodes]}\n"
    found = made(SAMPLE.replace("templates:", west + "templates:", 1))
    kinds_of = ("projects", "job_templates", "workflow_job_templates", "inventory_sources")
    names = [each.name for kind in kinds_of for each in found.of(kind)]
    assert len(names) == len(set(names)) and sum("ai-west" in name for name in names) > 5


def test_without_a_cluster_the_workflow_continues() -> None:
    text = SAMPLE.replace("    cluster: cluster\n", "").replace("  cluster: {type: kubeconfig}\n", "")
    found = made(text, {name: fields for name, fields in SECRETS.items() if name != "cluster"})
    steps = named(found, "workflow_job_template_nodes")
    assert "kubernetes" not in steps and edges(steps["hosts"])["success_nodes"] == ["verify"]
    assert found.of("credential_types") == []
    assert absent(found, "job_templates") == {"cluster", "kubernetes", "render", "teardown"}
    assert absent(found, "workflow_job_template_nodes") == {"kubernetes"}


def test_verdicts_and_manifests_are_kept_in_the_configured_directory() -> None:
    def given(text: str) -> dict[str, t.Any]:
        return {key: each.fields["extra_vars"] for key, each in named(made(text), "job_templates").items()}

    place = "/var/lib/railyard/reports/ai-east"
    templates = given(SAMPLE.replace("    reports:", "    manifests: /m\n    reports:"))
    reported = {key: set(each) - {"fabric_file"} for key, each in templates.items()}
    assert templates["report"]["report_dir"] == templates["verify"]["verify_report_dir"] == place
    assert templates["render"]["render_dir"] == "/m"
    assert {key for key in reported if reported[key]} == {"verify", "drift", "status", "report", "render"}
    without = SAMPLE.replace("    reports: %s\n" % place, "")
    assert "report" not in given(without) and "verify_report_dir" not in given(without)["verify"]
    assert absent(made(without), "job_templates") == {"report", "render"}


def test_an_extra_variable_that_the_survey_asks_for_is_its_default_answer() -> None:
    """AWX puts the defaults of a survey over a template's own extra variables, which would have no effect."""
    words = "extra_vars: {reboot_drain: true, railyard_reboot_batch: 4, reboot_timeout: 3600}"
    found = made(SAMPLE.replace("forks: 64", words))
    hosts = named(found, "job_templates")["hosts"]
    assert hosts.fields["extra_vars"] == {"reboot_timeout": 3600}
    asked = {each["variable"]: each["default"] for each in (hosts.survey or {})["spec"]}
    assert asked == {"reboot_allowed": "false", "reboot_drain": "true", "railyard_reboot_batch": 4}
    site = named(found, "workflow_job_templates")["site"]
    asked = {each["variable"]: each["default"] for each in (site.survey or {})["spec"]}
    assert asked == {"reboot_drain": "true", "railyard_reboot_batch": 4}, (
        "an answer of the workflow goes to all its jobs"
    )
    verify = SAMPLE.replace("hosts: {forks: 64", "verify: {extra_vars: {verify_layers: [link, rdma]}")
    assert (named(made(verify), "job_templates")["verify"].survey or {})["spec"][0]["default"] == "link,rdma"


def test_settings_of_a_fabric_have_priority_over_defaults() -> None:
    west = "  ai-west:\n    file: inventories/sriov-roce/fabric.yml\n    credentials: [nodes]\n"
    west += "    templates: {hosts: {forks: 8, extra_vars: {reboot_drain: false}}, verify: {enabled: false}}\n"
    shared = "forks: 64, limit: a, extra_vars: {reboot_drain: true, reboot_timeout: 3600}"
    text = SAMPLE.replace("templates:\n", west + "templates:\n", 1).replace("forks: 64", shared)
    found = {each.name: each for each in made(text).of("job_templates")}
    hosts = [found["Railyard %s: hosts" % each] for each in ("ai-east", "ai-west")]
    assert [each.fields["forks"] for each in hosts] == [64, 8]
    assert [each.fields["limit"] for each in hosts] == ["a", "a"]
    assert [each.fields["extra_vars"] for each in hosts] == [{"reboot_timeout": 3600}] * 2
    drains = [{each["variable"]: each["default"] for each in (one.survey or {})["spec"]} for one in hosts]
    assert [each["reboot_drain"] for each in drains] == ["true", "false"]
    assert "Railyard ai-east: verify" in found and "Railyard ai-west: verify" not in found


def test_nodes_of_a_fabric_without_a_cluster_are_not_drained() -> None:
    west = "  ai-west: {file: f.yml, credentials: [nodes]%s}\n"
    text = SAMPLE.replace("templates:\n", west + "templates:\n", 1).replace(
        "forks: 64", "extra_vars: {reboot_drain: true}"
    )
    (message,) = errors(text % "")
    assert (
        "fabrics.ai-west: hosts sets reboot_drain, and the fabric has no cluster. Remedy: add cluster: to it" in message
    )
    made(text % ", templates: {hosts: {extra_vars: {reboot_drain: false}}}")


def test_slices_and_simultaneous_jobs_are_off_for_every_template() -> None:
    """A slice has its own inventory and its own serial: as many nodes would reboot at once as there are slices."""
    found = made(SAMPLE.replace("forks: 64", "slices: 2"))
    assert all(each.fields["job_slice_count"] == 1 for each in found.of("job_templates"))
    both = [*found.of("job_templates"), *found.of("workflow_job_templates")]
    simultaneous = [each.name for each in both if each.fields["allow_simultaneous"]]
    assert simultaneous == ["Railyard ai-east: hosts-part"]


def test_parts_run_before_the_step_that_runs_on_all_nodes() -> None:
    text = SAMPLE.replace(
        "hosts: {forks: 64",
        "verify: {slices: 2, extra_vars: {verify_layers: link, verify_cordon: true}}\n"
        "  hosts: {slices: 3, instance_groups: [a], extra_vars: {reboot_allowed: true, reboot_timeout: 9}, forks: 64",
    )
    found = made(text)
    steps = named(found, "workflow_job_template_nodes")
    hosts, verify = ["hosts-part-1", "hosts-part-2", "hosts-part-3"], ["verify-part-1", "verify-part-2"]
    assert edges(steps["validate"])["success_nodes"] == hosts
    for number, name in enumerate(hosts):
        assert {key: names for key, names in edges(steps[name]).items() if names} == {"always_nodes": ["hosts"]}
        assert steps[name].fields["extra_data"] == {"railyard_part": "%d/3" % (number + 1)}
    assert edges(steps["hosts"]) == {"success_nodes": ["kubernetes"], "failure_nodes": ["reboots"]}
    assert steps["hosts"].fields["extra_data"] == {}
    assert edges(steps["kubernetes"])["success_nodes"] == verify
    assert all(edges(steps[name])["always_nodes"] == ["verify"] for name in verify)
    assert steps["verify"].fields["extra_data"] == {"railyard_part": "judge"}
    waiting = {name for name, step in steps.items() if step.fields["all_parents_must_converge"]}
    assert waiting == {"hosts", "verify"}

    templates = named(found, "job_templates")
    part = templates["hosts-part"]
    assert part.fields["playbook"] == "playbooks/hosts.yml" and part.fields["forks"] == 64
    assert part.fields["extra_vars"] == {"reboot_timeout": 9}, "a part reboots no node"
    assert part.links["instance_groups"] == templates["hosts"].links["instance_groups"]
    assert [each["variable"] for each in (part.survey or {})["spec"]] == ["railyard_part"]
    part = templates["verify-part"]
    assert part.fields["extra_vars"] == {
        "fabric_file": "inventories/macvlan-roce/fabric.yml",
        "verify_report_dir": "/var/lib/railyard/reports/ai-east",
    }
    asked = [
        {each["variable"]: each.get("default") for each in (templates[key].survey or {})["spec"]}
        for key in ("verify", "verify-part")
    ]
    assert asked[0]["verify_layers"] == asked[1]["verify_layers"] == "link" and "verify_cordon" not in asked[1]


def test_parts_that_the_file_no_longer_has_are_removed() -> None:
    found = made(SAMPLE.replace("forks: 64", "slices: 2"))
    gone = absent(found, "workflow_job_template_nodes", parts=True)
    assert {"hosts-part-3", "hosts-part-32", "verify-part-1"} <= gone
    assert not gone & {"hosts-part-1", "hosts-part-2"}
    found = made()
    assert absent(found, "job_templates", parts=True) == {"hosts-part", "verify-part"}
    assert {"hosts-part-1", "verify-part-1"} <= absent(found, "workflow_job_template_nodes", parts=True)


def test_parts_of_verify_need_a_directory_that_their_jobs_share() -> None:
    text = SAMPLE.replace("hosts: {forks: 64", "verify: {slices: 2").replace(
        "    reports: /var/lib/railyard/reports/ai-east\n", ""
    )
    (message,) = errors(text)
    assert "fabrics.ai-east: verify has slices" in message and "Remedy: add reports:" in message
    (message,) = errors(SAMPLE.replace("hosts: {forks: 64", "drift: {slices: 2"))
    assert "templates.drift.slices: unknown key" in message


def test_jobs_that_read_the_fabric_file_alone_do_not_wait_for_the_inventory() -> None:
    found = named(made(), "job_templates")
    alone = {key for key, each in found.items() if each.fields["inventory"].name == "Railyard control node"}
    assert alone == {"validate", "plan", "reboots"}


def test_the_workflow_reports_for_its_steps() -> None:
    """Or hosts, which waits for consent, would be reported as an error, and each failure twice."""
    words = '    schedules: {weekly: {template: verify, at: "04:00"}}\n    reports:'
    for text, reporting in ((SAMPLE, set()), (SAMPLE.replace("    reports:", words), {"verify"})):
        found = named(made(text), "job_templates")
        own = {key for key, each in found.items() if each.links["notification_templates_error"]}
        steps = {step.template for step in WORKFLOW.values()}
        assert own & steps == reporting and "drift" in own
    assert edges(named(made(), "workflow_job_templates")["site"])["notification_templates_error"] == ["Railyard ops"]
    forced = named(made(SAMPLE.replace("forks: 64", "notify: true")), "job_templates")
    assert forced["hosts"].links["notification_templates_error"]


def test_every_object_has_a_description() -> None:
    found = made()
    kinds_of = {each.kind for each in found.objects} - {"workflow_job_template_nodes"}
    assert len(kinds_of) == 11 and all(each.fields["description"] for each in found.objects if each.kind in kinds_of)


def test_access() -> None:
    words = "access: {Ops: [launch], Duty: [approve], Leads: [admin, use], All: read}\ntemplates:"
    guarded = words + "\n  teardown: {access: {Leads: [launch]}}\n  reboots: {access: {All: [read]}}"
    found = made(SAMPLE.replace("templates:", guarded, 1))

    def roles(kind: str, key: str) -> dict[str, set[str]]:
        return {role: set(teams) for role, teams in (named(found, kind)[key].access or {}).items()}

    # a team that approves reads which nodes are rebooted, and no other job
    read = {"hosts": {"All", "Duty"}, "reboots": {"All", "Duty"}, "plan": {"All"}, "kubernetes": {"All"}}
    for key, teams in read.items():
        assert roles("job_templates", key)["read_role"] == teams, key
    assert roles("job_templates", "hosts")["execute_role"] == {"Ops"}
    assert roles("job_templates", "hosts")["admin_role"] == {"Leads"}
    assert roles("job_templates", "teardown")["execute_role"] == {"Leads"}
    assert roles("workflow_job_templates", "site")["approval_role"] == {"Duty"}
    assert roles("inventories", "Railyard ai-east") == {
        "read_role": {"All", "Ops"},
        "use_role": {"Leads"},
        "admin_role": {"Leads"},
    }
    assert roles("credentials", "Railyard nodes") == {"use_role": {"Leads"}, "admin_role": {"Leads"}}
    assert all(each.access is None for each in made().objects), "without the key AWX's own is left as it is"
    launched = named(made(SAMPLE.replace("templates:", words, 1)), "job_templates")
    assert (launched["teardown"].access or {})["execute_role"] == frozenset()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "reboot_drain: perhaps",
            r"hosts.extra_vars.reboot_drain: perhaps is not an answer.*Remedy: write false or true",
        ),
        ("railyard_reboot_batch: 0", r"railyard_reboot_batch: 0 is not an answer.*write a whole number from 1 to 4096"),
        (
            "railyard_reboot_batch: all",
            r"railyard_reboot_batch: all is not an answer.*write a whole number from 1 to 4096",
        ),
    ],
)
def test_a_wrong_answer_is_reported(words: str, message: str) -> None:
    (line,) = errors(SAMPLE.replace("forks: 64", "extra_vars: {%s}" % words))
    assert re.search(message, line), line


def test_numbers_of_surveys_have_limits() -> None:
    """AWX's own page refuses a number where one limit is given and the other is not."""
    for template in TEMPLATES.values():
        for each in template.questions:
            assert (each.low is None) == (each.high is None), each.variable


def test_the_confirmation_requires_the_expected_name() -> None:
    (asked,) = [each for each in TEMPLATES["teardown"].questions if each.variable == "teardown_consent"]
    assert "fabric.name" in asked.about


def test_a_disabled_template_is_removed() -> None:
    found = made(SAMPLE.replace("  hosts: {forks: 64, timeout: 7200}", "  hosts: {enabled: false}"))
    steps = named(found, "workflow_job_template_nodes")
    assert set(steps) == {"validate", "kubernetes", "verify"}
    assert edges(steps["validate"])["success_nodes"] == ["kubernetes"]
    assert "hosts" in absent(found, "job_templates")
    assert named(found, "workflow_job_templates")["site"].survey == {}


def test_a_reboot_needs_an_approval() -> None:
    """Every way to the step that may reboot leads through the approval, and no other step may."""
    before = [name for name, step in WORKFLOW.items() if "hosts-with-reboots" in (*step.success, *step.failure)]
    assert before == ["approval"] and WORKFLOW["approval"].template is None
    may = [name for name, step in WORKFLOW.items() if step.answers.get("reboot_allowed") == "true"]
    assert may == ["hosts-with-reboots"]
    (asked,) = [each for each in TEMPLATES["hosts"].questions if each.variable == "reboot_allowed"]
    assert asked.default == "false"
    assert "reboot_allowed" not in {each.variable for each in WORKFLOW_QUESTIONS}


def test_every_template_has_its_playbook() -> None:
    assert [each.playbook for each in TEMPLATES.values() if not (ROOT / "playbooks" / each.playbook).exists()] == []


def test_schedules() -> None:
    assert rrule(Schedule("drift", "03:00")) == "DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1"
    weekly = rrule(Schedule("drift", "23:30", "Europe/Amsterdam", ("mo", "fr")))
    assert weekly == "DTSTART;TZID=Europe/Amsterdam:20260101T233000 RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,FR"


def test_no_secret_is_an_input() -> None:
    for known in awx_kinds.CREDENTIALS.values():
        assert not set(known.inputs) & set(known.secrets) and set(known.required) <= set(known.inputs)
