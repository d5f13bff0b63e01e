# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that need no guests, run by ansible-runner as AWX runs job templates."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import objects
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_reader import read
from ansible_collections.railyard.fabric.plugins.plugin_utils._extra_variables import known
from tests.functional.awx import runner
from tests.playbook import ROOT, play

SAMPLE = ROOT / "tests/unit/awx/sample.yml"
SECRETS = {"git": ["ssh_key_data"], "registry": ["password"], "nodes": ["password"], "cluster": ["kubeconfig"]}
SECRETS["ops"] = ["token"]
TEXT = SAMPLE.read_text().replace("    reports:", "    manifests: /var/lib/railyard/manifests\n    reports:")
WANTED = objects(read(TEXT.encode(), "sample.yml", SECRETS))
TEMPLATES: dict[str, dict[str, t.Any]] = {
    each.name.partition(": ")[2]: {**each.fields, "survey": each.survey or {}} for each in WANTED.of("job_templates")
}
(SITE,) = WANTED.of("workflow_job_templates")
FABRIC = TEMPLATES["validate"]["extra_vars"]["fabric_file"]
NO_HOSTS: dict[str, t.Any] = {"_meta": {"hostvars": {}}}
(LOCALHOST,) = WANTED.of("hosts")
CONTROL = {"all": {"hosts": ["localhost"]}, "_meta": {"hostvars": {"localhost": LOCALHOST.fields["variables"]}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def hosts(project: Path) -> dict[str, t.Any]:
    return runner.inventory(FABRIC, project)


Launch = t.Callable[..., runner.Job]


@pytest.fixture(scope="module")
def launch(project: Path, hosts: dict[str, t.Any], tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """``launch("plan", {answer: value}, "--check")``: a job of that template, with the survey's defaults.

    Its inventory is the template's: that of the fabric, or that of the control node.
    """

    def go(key: str, answers: t.Mapping[str, t.Any] | None = None, arguments: str = "", **more: t.Any) -> runner.Job:
        template = TEMPLATES[key]
        defaults = {
            each["variable"]: each["default"] for each in template["survey"].get("spec", []) if "default" in each
        }
        variables = {**template["extra_vars"], **defaults, **(answers or {})}
        more.setdefault("hosts", CONTROL if template["inventory"].name.endswith("control node") else hosts)
        place = tmp_path_factory.mktemp(key)
        job = runner.run(place, project, template["playbook"], more.pop("hosts"), variables, arguments, **more)
        assert (
            "Traceback" not in job.one_line and "[WARNING]" not in job.one_line and "DEPRECATION" not in job.one_line
        ), job.one_line
        return job

    return go


def test_the_inventory_is_the_fabric(hosts: dict[str, t.Any]) -> None:
    variables = hosts["_meta"]["hostvars"]
    assert len(variables) == 2
    assert all(each["railyard_node"]["name"] == name for name, each in variables.items())


def test_validate_and_plan_return_counts_and_write_nothing_to_the_project(launch: Launch, project: Path) -> None:
    def stamps() -> dict[Path, int]:
        files = (path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path: path.stat().st_mtime_ns for path in files}

    before = stamps()
    job = launch("validate", {"strict": "true"})
    assert job.status == "successful" and job.changed == 0, job.one_line
    assert job.artifacts["railyard_findings"]["error"] == 0
    job = launch("plan", {"plan_rows": 8})
    assert job.status == "successful" and "172.16.11.201/24" in job.one_line
    assert job.artifacts["railyard_plan"]["nodes"] == 2
    assert stamps() == before


def test_validate_fails_on_errors(launch: Launch, project: Path) -> None:
    bad = project / "inventories" / "bad" / "fabric.yml"
    bad.parent.mkdir(exist_ok=True)
    bad.write_text((project / FABRIC).read_text().replace("mtu: 4200", "mtu: jumbo", 1))
    job = launch("validate", {"fabric_file": "inventories/bad/fabric.yml"})
    assert job.status == "failed" and "RY112" in job.one_line
    assert job.artifacts["railyard_findings"]["error"] == 1, "what follows in a workflow knows how many"


def test_plan_of_a_file_that_is_not_there(launch: Launch) -> None:
    job = launch("plan", {"fabric_file": "inventories/none/fabric.yml"})
    (message,) = job.failed.values()
    assert (
        job.status == "failed"
        and message["msg"].startswith("inventories/none/fabric.yml: ")
        and "Remedy" in message["msg"]
    )


@pytest.mark.long
def test_render_writes_files(project: Path, hosts: dict[str, t.Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    variables = {"fabric_file": FABRIC, "render_dir": str(out)}
    check = runner.run(tmp_path / "check", project, "playbooks/render.yml", hosts, variables, "--check --diff")
    assert check.status == "successful" and check.changed == 1 and not out.exists(), check.one_line
    job = runner.run(tmp_path / "job", project, "playbooks/render.yml", hosts, variables)
    assert job.status == "successful" and job.changed == 1, job.one_line
    assert job.artifacts["railyard_render"]["written"] > 0
    assert any(out.rglob("*.y*ml"))


def test_import_writes_a_fabric_file(project: Path, tmp_path: Path) -> None:
    out = tmp_path / "fabric.yml"
    recorded = "tests/recordings/manifests/network-operator.yml"
    variables = {"import_from": recorded, "import_nodes": "ai-[1:2]", "fabric_file": str(out)}
    job = runner.run(tmp_path / "job", project, "playbooks/import.yml", NO_HOSTS, variables)
    assert job.status == "successful" and out.exists(), job.one_line
    assert set(job.artifacts["railyard_import"]) >= {"error", "warning"}


@pytest.mark.long
def test_report_of_what_other_jobs_left(launch: Launch, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    failure = {"code": "RV801", "layer": "reach", "node": "ai-10-1-16-1", "rail": "gpu01", "what": "reachability"}
    verdict = {"format": 1, "kind": "verify", "fabric": "ai-10-1-16", "ok": False, "failures": [failure]}
    verdict.update(nodes=["ai-10-1-16-1"], rails=["gpu01"], matrix={"ai-10-1-16-1": {"gpu01": "failed"}})
    (kept / "verify.json").write_text(json.dumps(verdict))
    job = launch("report", {"report_dir": str(kept)})
    assert job.status == "successful", job.one_line
    assert job.artifacts["railyard_report"] == {"state": "failed", "file": str(kept / "report.html")}
    assert "gpu01" in (kept / "report.html").read_text()


@pytest.mark.long
def test_discover_this_machine(launch: Launch) -> None:
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    here = {"all": {"hosts": ["this"]}, "_meta": {"hostvars": {"this": variables}}}
    job = launch("discover", {"discover_name": "", "discover_pods": "", "discover_rail_name": ""}, hosts=here)
    # whether this machine has rails is not ours to say; that it was read, and what was concluded, is
    assert "Read the state of the nodes" in job.one_line
    if job.status == "successful":
        assert set(job.artifacts["railyard_discover"]) >= {"nodes"}
    else:
        (message,) = job.failed.values()
        assert "Remedy: " in message["msg"], job.one_line


def test_reboots_are_distinguished_from_other_failures(launch: Launch) -> None:
    waiting = launch("reboots", {"railyard_reboots": {"ai-10-1-16-1": ["RDMA mode exclusive at boot"]}})
    assert waiting.status == "successful"
    assert "ai-10-1-16-1 needs a reboot: RDMA mode exclusive at boot" in waiting.one_line
    none = play("playbooks/reboots.yml", inventory="localhost,", given={"railyard_reboots": {}})
    assert none.returncode == 2 and "No node needs a reboot" in none.one_line, none.text


@pytest.fixture(scope="module")
def waiting(project: Path) -> Path:
    """The playbook hosts.yml with a fixed result of the preparation: each node needs a reboot."""
    place = project / "waiting"
    (place / "tasks").mkdir(parents=True)
    (place / "hosts.yml").write_text((project / "playbooks/hosts.yml").read_text())
    reasons = "{{ ['RDMA mode of ' ~ inventory_hostname, 'VFs'] }}"
    result = {"needs": {}, "reboot_required": True, "reboot_reasons": reasons, "system": {"boot_id": None}}
    preparing = yaml.safe_load((project / "playbooks/tasks/prepare.yml").read_text())[0]
    noted = {"ansible.builtin.set_fact": {"railyard_prepared": result}, "tags": preparing["tags"]}
    (place / "plays").symlink_to(project / "playbooks/plays")
    for name in ("prepare.yml", "prepare_and_complete.yml"):
        (place / "tasks" / name).write_text(yaml.safe_dump([noted]))
    return place / "hosts.yml"


def test_every_node_that_waits_for_a_reboot_is_named_and_handed_on(
    waiting: Path, project: Path, hosts: dict[str, t.Any], tmp_path: Path
) -> None:
    """The play that reboots stops at the first node without consent; the others must be known by then."""
    given = {"ansible_connection": "local", "ansible_become": False}
    job = runner.run(tmp_path / "job", project, str(waiting.relative_to(project)), hosts, given)
    names = sorted(hosts["_meta"]["hostvars"])
    assert job.status == "failed" and len(names) == 2, job.one_line
    for name in names:
        assert "%s needs a reboot: RDMA mode of %s; VFs" % (name, name) in job.one_line, job.one_line
    assert job.artifacts["railyard_reboots"] == {name: ["RDMA mode of " + name, "VFs"] for name in names}
    assert list(job.failed) == ["Check the consent"]


class Workflow:
    """The jobs of a workflow, each with the artifacts that AWX 24.6.1 gives it.

    From ``WorkflowJobNode.get_job_kwargs`` in ``awx/main/models/workflow.py``: a job gets the artifacts of all its
    ancestors as extra variables, whatever their results are. Parents are merged one after the other: first what a
    parent got from its ancestors, then what its job set, so that the last one replaces the others.
    """

    def __init__(self, run: t.Callable[[str, dict[str, t.Any]], runner.Job]) -> None:
        self.run = run
        self.ancestors: dict[str, dict[str, t.Any]] = {}
        self.jobs: dict[str, runner.Job] = {}

    def step(self, key: str, playbook: str, *parents: str, **answers: t.Any) -> runner.Job:
        self.without_artifacts(key, *parents)
        self.jobs[key] = self.run(playbook, {**answers, **self.ancestors[key]})
        return self.jobs[key]

    def without_artifacts(self, key: str, *parents: str) -> None:
        """An approval, or a job that ended before its play, such as by a timeout."""
        self.ancestors[key] = {}
        for parent in parents:
            own = self.jobs[parent].artifacts if parent in self.jobs else {}
            self.ancestors[key].update({**self.ancestors[parent], **own})


@pytest.fixture
def workflow(waiting: Path, project: Path, hosts: dict[str, t.Any], tmp_path: Path) -> Workflow:
    def run(playbook: str, variables: dict[str, t.Any]) -> runner.Job:
        given = {"ansible_connection": "local", "ansible_become": False, **variables}
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        path = str(waiting.relative_to(project)) if playbook == "hosts.yml" else "playbooks/" + playbook
        return runner.run(place, project, path, CONTROL if playbook == "reboots.yml" else hosts, given)

    return Workflow(run)


def test_the_list_of_a_part_is_never_approved(workflow: Workflow) -> None:
    """The job of all nodes is cancelled, or ends by its timeout: AWX goes on with the step after a failure."""
    for number in (1, 2):
        part = workflow.step("part-%d" % number, "hosts.yml", railyard_part="%d/2" % number)
        assert part.status == "failed" and "reboots no node, and 1 of its nodes need a reboot" in part.one_line
        assert part.artifacts == {}
    workflow.without_artifacts("hosts", "part-1", "part-2")
    reboots = workflow.step("reboots", "reboots.yml", "hosts")
    assert reboots.status == "failed" and "the job before this one failed for another reason" in reboots.one_line


def test_the_approved_list_is_the_list_that_is_rebooted(
    workflow: Workflow, waiting: Path, hosts: dict[str, t.Any]
) -> None:
    first, second = sorted(hosts["_meta"]["hostvars"])
    tasks = waiting.parent / "tasks" / "prepare.yml"
    preparing = tasks.read_text()
    one = preparing.replace("reboot_required: true", "reboot_required: '{{ inventory_hostname == \"%s\" }}'" % first)
    assert one != preparing
    try:
        tasks.write_text(one)
        workflow.step("hosts", "hosts.yml")
        shown = workflow.step("reboots", "reboots.yml", "hosts")
        assert shown.status == "successful" and second not in shown.one_line
        workflow.without_artifacts("approval", "reboots")
    finally:
        tasks.write_text(preparing)
    # meanwhile the second node needs a reboot too
    more = workflow.step("more", "hosts.yml", "approval", reboot_allowed="true")
    assert more.status == "failed" and list(more.failed) == [
        "Check that the approved list has all nodes that need a reboot"
    ], more.one_line
    expected = (
        "No node is rebooted: %s needs a reboot and is not in the approved list (%s). Remedy: start the workflow again"
    )
    assert expected % (second, first) in " ".join(more.one_line.split())
    # with the list of both, the consent is checked, and then the role refuses to reboot this machine
    both = workflow.jobs["more"].artifacts
    assert sorted(both["railyard_reboots"]) == [first, second]
    allowed = workflow.run("hosts.yml", {**both, "reboot_allowed": "true"})
    assert list(allowed.failed) == ["Reboot"] and "would reboot the control node" in allowed.one_line, allowed.one_line


@pytest.mark.parametrize("words", ["--tags qos", "--skip-tags gpudirect,qos", "--tags sriov --skip-tags nccl"])
def test_nodes_that_wait_for_a_reboot_are_named_with_any_tags(
    words: str, waiting: Path, hosts: dict[str, t.Any]
) -> None:
    given = {"ansible_connection": "local", "ansible_become": False}
    done = play(waiting, *words.split(), inventory=FABRIC, given=given)
    assert done.returncode == 2 and "TASK [Pass the nodes that need a reboot to later plays]" in done.stdout, done.text
    for name in hosts["_meta"]["hostvars"]:
        assert "%s needs a reboot: RDMA mode of %s; VFs" % (name, name) in done.one_line, done.text
    assert done.stdout.rpartition("TASK [")[2].startswith("railyard.fabric.reboot : Check the consent]"), done.text


@pytest.mark.parametrize(
    ("answer", "consented"),
    [("false", False), pytest.param("true", True, marks=pytest.mark.long), (False, False), (True, True)],
)
def test_an_answer_of_a_survey_is_a_text(answer: t.Any, consented: bool, project: Path, tmp_path: Path) -> None:
    """A survey's choice comes as text, and the text "false" is not consent. No machine has the host's address."""
    book = {"hosts": "absent", "gather_facts": False, "roles": ["railyard.fabric.reboot"]}
    (project / "consent.yml").write_text(yaml.safe_dump([book]))
    variables = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}
    hosts = {"all": {"hosts": ["absent"]}, "_meta": {"hostvars": {"absent": variables}}}
    given = {"reboot_allowed": answer, "reboot_reasons": ["its firmware"]}
    if isinstance(answer, str):
        job = runner.run(tmp_path, project, "consent.yml", hosts, given)
        failed, text = job.status == "failed", job.one_line
    else:
        done = play(project / "consent.yml", inventory="absent,", given={**given, **variables})
        failed, text = done.returncode != 0, done.one_line
    assert failed, text
    assert ("UNREACHABLE" in text) is consented
    assert ("absent needs a reboot: its firmware" in text) is not consented


@pytest.mark.parametrize("key", [pytest.param("kubernetes", marks=pytest.mark.long), "cluster", "teardown"])
def test_without_a_cluster_one_line_is_printed(key: str, launch: Launch) -> None:
    job = launch(key, {"teardown_consent": "ai-10-1-16"} if key == "teardown" else {}, "--check")
    (message,) = job.failed.values()
    assert job.status == "failed" and "Remedy: " in message["msg"], job.one_line


def asked(survey: t.Mapping[str, t.Any]) -> list[str]:
    return [each["variable"] for each in survey.get("spec", [])]


def test_every_survey_has_only_variables_of_its_playbook(project: Path) -> None:
    """A misspelt variable of a survey would be asked for and change nothing."""
    roles = "".join(path.read_text() for path in (project / "roles").rglob("*.yml"))
    for key, template in TEMPLATES.items():
        playbook = project / template["playbook"]
        text = playbook.read_text() + "".join(
            (project / "playbooks" / each).read_text() for each in ("tasks/prepare.yml", "site.yml")
        )
        for variable in [*template["extra_vars"], *asked(template["survey"])]:
            assert variable in text or variable in roles, "%s: nothing reads %s" % (key, variable)
        assert yaml.safe_load(playbook.read_text())


def test_the_workflow_has_the_surveys_of_its_templates() -> None:
    assert set(asked(SITE.survey or {})) <= set(asked(TEMPLATES["hosts"]["survey"])) - {"reboot_allowed"}


def test_every_variable_of_the_templates_may_be_an_extra_variable() -> None:
    for key, template in TEMPLATES.items():
        assert {*template["extra_vars"], *asked(template["survey"])} <= set(known(ROOT).specs), key


def test_the_surveys_survive_a_round_trip_through_json() -> None:
    surveys = {key: [each["survey"], each["extra_vars"]] for key, each in TEMPLATES.items()}
    assert json.loads(json.dumps(surveys)) == surveys
