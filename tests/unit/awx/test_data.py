# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data file for AWX: what is wrong with one is a clear line each; what is right becomes the objects."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx import kinds
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.data import Drift, read, rrule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.objects import objects
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.templates import TEMPLATES, WORKFLOW

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = Path(__file__).with_name("sample.yml").read_text()
SECRETS: dict[str, list[str]] = {
    "git": ["ssh_key_data"],
    "registry": ["password"],
    "nodes": ["ssh_key_data"],
    "cluster": ["kubeconfig"],
    "ops": ["token"],
}


def made(text: str = SAMPLE, secrets: t.Mapping[str, t.Collection[str]] = SECRETS) -> dict[str, t.Any]:
    return objects(read(text.encode(), "awx.yml", secrets))


def errors(text: str, secrets: t.Mapping[str, t.Collection[str]] = SECRETS) -> list[str]:
    with pytest.raises(RailyardError) as caught:
        read(text.encode(), "awx.yml", secrets)
    return str(caught.value).splitlines()


def test_the_sample_is_what_the_page_prints() -> None:
    page = (ROOT / "docs" / "awx.md").read_text()
    (block,) = re.findall(r"```yaml\n(organization: .*?)```", page, re.DOTALL)
    assert yaml.safe_load(block) == yaml.safe_load(SAMPLE)


WRONG = [
    ("branch: main", "brnach: main", r"awx.yml:2: project.brnach: brnach is no key here.* Remedy: write branch"),
    ("organization: Platform", "prefix: X", r"awx.yml:1: organization: organization is missing"),
    ("type: machine", "type: machin", r"awx.yml:7: credentials.nodes.type: machin is none of .* Remedy: write machine"),
    ("{username: git}", "{usrname: git}", r"awx.yml:5: credentials.git.inputs.usrname: .* Remedy: write username"),
    ("ssh://git@", "https://git:hush@", r"awx.yml:2: project.url: https://git:\*\*\*@git.example/\S+ holds a password"),
    ("become_method: sudo", "password: x", r"awx.yml:7: credentials.nodes.inputs.password: password is a secret"),
    ("credential: git", "credential: gti", r"awx.yml:2: project.credential: gti is none of .*write git"),
    ("credential: git", "credential: nodes", r"awx.yml:2: project.credential: nodes is of type machine"),
    ("cluster: cluster", "cluster: nodes", r"awx.yml:13: .*cluster: nodes is of type machine.*kubeconfig"),
    ('"03:00"', '"25:00"', r"awx.yml:14: .*drift.at: 25:00 is no time of day"),
    ("timezone: Europe/Amsterdam", "timezone: '; x'", r"awx.yml:14: .*timezone: .* is no time zone"),
    ("reports: /var", "reports: var", r"awx.yml:15: .*reports: var/lib/.* goes with the job that writes it"),
    ("timezone: Europe/Amsterdam", "days: [mon]", r"awx.yml:14: .*days\[0\]: mon is none of mo, tu"),
    ("inventories/macvlan-roce", "../elsewhere", r"awx.yml:11: .*file: .* leads out of the project"),
    ("forks: 64", "forks: many", r"awx.yml:17: templates.hosts.forks: many is not a whole number"),
    ("  hosts: {forks", "  host: {forks", r"awx.yml:17: templates.host: host is no key here.* Remedy: write hosts"),
    ("type: slack", "type: pigeon", r"awx.yml:19: notifications.ops.type: pigeon is none of"),
    ("[error, approval]", "[failure]", r"awx.yml:19: notifications.ops.on\[0\]: failure is none of started"),
    ('channels: ["#rails"]', "token: x", r"awx.yml:19: notifications.ops.settings.token: token is a secret"),
    ('image: "registry', 'img: "registry', r"awx.yml:3: execution_environment.img: img is no key here"),
    ("organization: Platform", "organization: A++B\nprefix: A++B", r"awx.yml:2: prefix: A\+\+B is no name for objects"),
    ("fabrics:\n", "fabrics: {}\nfabrix:\n", r"awx.yml:9: fabrics: fabrics is empty"),
    ("username: puller", "usr: puller", r"awx.yml:6: .*inputs.usr: usr is no key here"),
    ("organization: Platform", "organization: [", r"awx.yml:\d+: this is not YAML"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[new.strip() for _old, new, _said in WRONG])
def test_what_is_wrong_is_said(old: str, new: str, said: str) -> None:
    assert SAMPLE.count(old) >= 1
    lines = errors(SAMPLE.replace(old, new, 1))
    assert any(re.match(said, line) for line in lines), lines
    assert all(re.match(r"awx.yml:\d+: .*\. Remedy: .*\.\Z", line) for line in lines)


def test_everything_is_said_at_once() -> None:
    text = SAMPLE.replace("brnach", "x").replace("branch", "brnach").replace("slack", "pigeon").replace("64", "many")
    assert len(errors(text)) == 3


def test_secrets_are_there_and_wanted() -> None:
    less = {**SECRETS, "nodes": []}
    (said,) = errors(SAMPLE, less)
    assert said.startswith(
        "awx.yml:7: credentials.nodes: there is no secret for it. Remedy: give awx_secrets.nodes one"
    )
    (said,) = errors(SAMPLE, {**SECRETS, "node": ["password"]})
    assert "awx_secrets.node: no credential and no notification has that name" in said and "nodes" in said
    (said,) = errors(SAMPLE, {**SECRETS, "nodes": ["ssh_key_data", "passwrd"]})
    assert "passwrd is no secret of it" in said and "password" in said
    (said,) = errors(SAMPLE, {**SECRETS, "ops": []})
    assert "there is no token for it. Remedy: give awx_secrets.ops.token" in said


@pytest.mark.parametrize("raw", [b"", b"- a\n", b"\xff", b"a: b\n---\nc: d\n", b"x"])
def test_no_file_whatever_ends_in_a_traceback(raw: bytes) -> None:
    with pytest.raises(RailyardError) as caught:
        read(raw, "awx.yml", {})
    assert "Remedy: " in str(caught.value) and "fabric file" not in str(caught.value)


def test_a_credential_that_awx_has_is_left_alone() -> None:
    text = SAMPLE.replace("{type: machine, inputs: {username: ops, become_method: sudo}}", "{existing: SSH}")
    found = made(text, {name: fields for name, fields in SECRETS.items() if name != "nodes"})
    assert "nodes" not in [each["key"] for each in found["credentials"]]
    (hosts,) = [each for each in found["job_templates"] if each["name"].endswith(": hosts")]
    assert hosts["credentials"] == ["SSH", "Railyard cluster"] and "credentials/SSH" in hosts["needs"]


def test_names_are_unlike() -> None:
    """AWX looks up what schedules and workflows run by name, among templates, projects and sources together."""
    west = "  ai-west: {file: inventories/sriov-roce/fabric.yml, credentials: [nodes]}\n"
    two = SAMPLE.replace("templates:", west + "templates:", 1)
    found = made(two)
    names = [each["name"] for kind in ("projects", "job_templates", "workflows") for each in found[kind]]
    names += [each["source"] for each in found["inventories"]]
    assert len(names) == len(set(names)) and sum("ai-west" in name for name in names) > 5


def test_without_a_cluster_the_workflow_goes_on() -> None:
    text = SAMPLE.replace("    cluster: cluster\n", "").replace("  cluster: {type: kubeconfig}\n", "")
    found = made(text, {name: fields for name, fields in SECRETS.items() if name != "cluster"})
    steps = {each["name"]: each for each in found["steps"]}
    assert "kubernetes" not in steps and steps["hosts"]["success"] == ["verify"]
    assert found["credential_types"] == []
    assert {name.partition(": ")[2] for name in found["absent"]["job_templates"]} == {"kubernetes", "teardown"}
    assert found["absent"]["steps"] == [{"name": "kubernetes", "workflow": "Railyard ai-east: site"}]


def test_verdicts_outlast_jobs_where_there_is_a_place_for_them() -> None:
    def given(text: str) -> dict[str, t.Any]:
        return {each["name"].rpartition(" ")[2]: each["extra_vars"] for each in made(text)["job_templates"]}

    place = "/var/lib/railyard/reports/ai-east"
    templates = given(SAMPLE)
    told = {key: set(each) - {"fabric_file"} for key, each in templates.items()}
    assert templates["report"]["report_dir"] == templates["verify"]["verify_report_dir"] == place
    assert {key for key in told if told[key]} == {"verify", "drift", "report"}
    without = SAMPLE.replace("    reports: %s\n" % place, "")
    assert "report" not in given(without) and "verify_report_dir" not in given(without)["verify"]
    assert "Railyard ai-east: report" in made(without)["absent"]["job_templates"]


def test_an_extra_variable_that_the_survey_asks_for_is_its_default_answer() -> None:
    """AWX puts the defaults of a survey over a template's own extra variables, which would so be without effect."""
    words = "extra_vars: {reboot_drain: true, railyard_reboot_batch: 4, reboot_timeout: 3600}"
    (hosts,) = (
        each
        for each in made(SAMPLE.replace("forks: 64", words))["job_templates"]
        if each["name"] == "Railyard ai-east: hosts"
    )
    assert hosts["extra_vars"] == {"reboot_timeout": 3600}
    asked = {each["variable"]: each["default"] for each in hosts["survey"]["spec"]}
    assert asked == {"reboot_allowed": "false", "reboot_drain": "true", "railyard_reboot_batch": 4}
    verify = SAMPLE.replace("hosts: {forks: 64", "verify: {extra_vars: {verify_layers: [link, rdma]}")
    spec = {each["name"]: each["survey"].get("spec", []) for each in made(verify)["job_templates"]}
    assert spec["Railyard ai-east: verify"][0]["default"] == "link,rdma"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reboot_drain: perhaps", r"hosts.extra_vars.reboot_drain: perhaps is no answer.*Remedy: write false or true"),
        ("railyard_reboot_batch: 0", r"railyard_reboot_batch: 0 is no answer.*write a whole number from 1 to 4096"),
        ("railyard_reboot_batch: all", r"railyard_reboot_batch: all is no answer.*write a whole number from 1 to 4096"),
    ],
)
def test_what_is_no_answer_is_said(words: str, said: str) -> None:
    (line,) = errors(SAMPLE.replace("forks: 64", "extra_vars: {%s}" % words))
    assert re.search(said, line), line


def test_a_template_that_is_off_is_taken_away() -> None:
    found = made(SAMPLE.replace("  hosts: {forks: 64, timeout: 7200}", "  hosts: {enabled: false}"))
    steps = {each["name"]: each for each in found["steps"]}
    assert set(steps) == {"validate", "kubernetes", "verify"} and steps["validate"]["success"] == ["kubernetes"]
    assert "Railyard ai-east: hosts" in found["absent"]["job_templates"]


def test_a_step_is_made_after_those_that_follow_it() -> None:
    order = [each["name"] for each in made()["steps"]]
    for each in made()["steps"]:
        for follower in (*each["success"], *each["failure"]):
            assert order.index(follower) < order.index(each["name"])


def test_a_reboot_is_approved_before() -> None:
    """Every way to the step that may reboot leads through the approval, and no other step may."""
    before = [name for name, step in WORKFLOW.items() if "hosts-with-reboots" in (*step.success, *step.failure)]
    assert before == ["approval"] and WORKFLOW["approval"].template is None
    may = [name for name, step in WORKFLOW.items() if step.answers.get("reboot_allowed") == "true"]
    assert may == ["hosts-with-reboots"]
    (asked,) = [each for each in TEMPLATES["hosts"].questions if each.variable == "reboot_allowed"]
    assert asked.default == "false"


def test_every_template_has_its_playbook() -> None:
    assert [each.playbook for each in TEMPLATES.values() if not (ROOT / "playbooks" / each.playbook).exists()] == []


def test_schedules() -> None:
    assert rrule(Drift("03:00", "UTC", ())) == "DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1"
    weekly = rrule(Drift("23:30", "Europe/Amsterdam", ("mo", "fr")))
    assert weekly == "DTSTART;TZID=Europe/Amsterdam:20260101T233000 RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,FR"


def test_no_secret_is_an_input() -> None:
    for known in kinds.CREDENTIALS.values():
        assert not set(known.inputs) & set(known.secrets) and set(known.required) <= set(known.inputs)
