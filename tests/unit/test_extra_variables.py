# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extra variables whose names or values are wrong are errors; variables of users and of AWX are not."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._awx import awx_templates
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.plugin_utils import _extra_variables
from tests import yaml_text
from tests.functional.docs_commands import takes

ROOT = Path(__file__).resolve().parents[2]


OTHERS = yaml_text.load(
    """
    [my_var, ansible_host, ansible_become_pass, env, region, site_name, hosts_file, repo_dir, export_dir,
     vendor_dir, restrict, district, nodes, name, state, context, kubeconfig, node_count, kube_version,
     app_version, output_dir, service_file, foo, awx_job_id, awx_job_template_name, awx_user_id, awx_user_email,
     awx_schedule_id, awx_workflow_job_id, awx_project_revision, awx_inventory_id, awx_webhook_event_guid,
     awx_execution_node, tower_job_id, tower_user_name]
    """
)


def errors(given: t.Mapping[str, t.Any], unchecked: t.Any = None, others: t.Sequence[str] = ()) -> list[str]:
    try:
        _extra_variables.check(given, ROOT, unchecked, others)
    except RailyardError as error:
        return [str(each) for each in error.errors]
    return []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("reprot_dir", "report_dir"),
        ("Report_Dir", "report_dir"),
        ("report-dir", "report_dir"),
        ("strct", "strict"),
        ("kubernets_enabled", "kubernetes_enabled"),
        ("kubernetes_kubeconfg", "kubernetes_kubeconfig"),
        ("verfy_layers", "verify_layers"),
        ("railyardpart", "railyard_part"),
        ("reboot_alowed", "reboot_allowed"),
        ("teardwon_consent", "teardown_consent"),
        ("import_form", "import_from"),
        ("rail_port_backend", "rail_ports_backend"),
        ("awx_fiel", "awx_file"),
        ("eport_dir", "report_dir"),
        ("report_directory", "report_dir"),
    ],
)
def test_a_misspelt_name_is_a_question(name: str, meant: str) -> None:
    (error,) = errors({name: "x", "my_var": 1})
    assert error.startswith("-e %s: railyard.fabric has no variable %s (did you mean %s?). " % (name, name, meant))
    assert "add -e railyard_unchecked_variables=%s if the variable is your own" % name in error
    assert errors({name: "x"}, unchecked=name) == errors({name: "x"}, unchecked=["other", name]) == []


@pytest.mark.parametrize(
    "name",
    ["rail_ports_persist", "agent_zzz", "railyard_zzz", "verify_zzz", "kubernetes_zzz", "discover_zzz", "drift_zzz"],
)
def test_a_name_that_begins_like_ours_is_ours(name: str) -> None:
    (error,) = errors({name: "x"})
    assert "railyard.fabric has no variable %s. Remedy: " % name in error


def test_an_unknown_name_shows_the_few_names_that_begin_like_it() -> None:
    (error,) = errors({"rail_ports_persist": False})
    assert "Remedy: use rail_ports_backend or " in error


@pytest.mark.parametrize("name", OTHERS)
def test_the_names_of_others_pass(name: str) -> None:
    assert errors({name: "x"}) == []


def test_all_errors_are_reported_at_once() -> None:
    given = {"reprot_dir": "x", "kubernetes_enabled": "ture", "agent_zzz": 1, "plan_rows": "8"}
    assert [error.partition(":")[0] for error in errors(given)] == [
        "-e reprot_dir",
        "-e kubernetes_enabled",
        "-e agent_zzz",
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kubernetes_enabled", "ture", "ture is not a boolean (did you mean true?). Remedy: use true or false."),
        ("reboot_allowed", "flase", "flase is not a boolean (did you mean false?)"),
        ("teardown_hosts", 2, "2 is not a boolean"),
        ("teardown_hosts", ["true"], "['true'] is not a boolean"),
        ("plan_rows", {"a": 1}, "{'a': 1} is not an integer"),
        ("plan_rows", "eight", "eight is not an integer. Remedy: use an integer."),
        ("plan_rows", 3.5, "3.5 is not an integer"),
        ("plan_rows", True, "True is not an integer"),
        ("verify_share", "most", "most is not a number"),
        ("verify_share", "nan", "nan is not a number"),
        (
            "agent_state",
            "absnt",
            "absnt is not a valid value (did you mean absent?). Remedy: use one of present, absent.",
        ),
    ],
)
def test_a_value_of_another_type_is_an_error(name: str, value: t.Any, message: str) -> None:
    (error,) = errors({name: value})
    assert error.startswith("-e %s: %s" % (name, message))


@pytest.mark.parametrize("value", [True, "yes", "0", "", None, "{{ later }}", "True"])
def test_a_value_that_ansible_accepts_passes(value: t.Any) -> None:
    assert errors({"kubernetes_enabled": value, "reboot_drain": value}) == []


def test_a_name_that_the_users_playbook_contains_is_the_users(tmp_path: Path) -> None:
    book = tmp_path / "mine.yml"
    book.write_text('- import_playbook: railyard.fabric.plan\n  vars: {report_dir: "{{ report_root }}/plan"}\n')
    assert errors({"report_root": "x"}, others=[str(book)]) == []
    assert len(errors({"report_rot": "x", "report_root": "x"}, others=[str(book), "other.collection.play"])) == 1


def test_what_awx_passes_to_jobs_is_known() -> None:
    assert errors(dict.fromkeys(_extra_variables.ARTIFACTS, {})) == []
    surveys = [awx_templates.questions(each) for each in (*awx_templates.TEMPLATES, awx_templates.SITE)]
    answers = {each.variable: each.default for survey in surveys for each in survey}
    assert len(answers) > 15 and errors(answers) == []


# -- the variables of playbooks: what they read and do not set themselves

_GIVEN = {"dict", "groups", "hostvars", "inventory_hostname", "item", "lookup", "omit", "query", "role_path"}
_PLANNED = {"railyard_fabric", "railyard_node"}  # of the inventory


def _set_in(path: Path) -> tuple[set[str], set[str]]:
    """Return the variables that a file of tasks or plays sets, and those of its set_stats."""
    names: set[str] = set()
    artifacts: set[str] = set()

    def walk(value: t.Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, dict):
            for key, each in value.items():
                short = str(key).rpartition(".")[2]
                if short in ("vars", "set_fact"):
                    names.update(each)
                elif short in ("register", "loop_var"):
                    names.add(each)
                elif short == "set_stats":
                    artifacts.update(each["data"])
                walk(each)

    content = yaml_text.load(path.read_text())
    if path.parent.name == "vars":
        names.update(content)
    walk(content)
    return names, artifacts


SETTERS = [_set_in(path) for place in ("playbooks", "roles") for path in sorted((ROOT / place).rglob("*.yml"))]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


def test_the_artifacts_are_those_of_the_playbooks() -> None:
    assert set(_extra_variables.ARTIFACTS) == {name for _names, artifacts in SETTERS for name in artifacts}


@pytest.mark.parametrize("path", PLAYBOOKS, ids=[path.stem for path in PLAYBOOKS])
def test_the_variables_of_a_playbook_are_those_that_it_reads(path: Path) -> None:
    specs = yaml_text.load((ROOT / "playbooks/meta/argument_specs.yml").read_text())["argument_specs"]
    of_roles = set()
    for file in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml_text.load(file.read_text())["argument_specs"].values():
            of_roles |= set(entry.get("options") or {})
    reads = {name for name in takes(path).variables if not name.startswith(("ansible_", "__"))}
    reads -= of_roles | _GIVEN | _PLANNED | {name for names, _artifacts in SETTERS for name in names}
    assert set(specs.get(path.stem, {"options": {}})["options"]) == reads, path.stem
