# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How hosts are taken back: the layers of the playbook against those that prepare them, consent, and a bare machine."""

from __future__ import annotations

import os
import re
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.playbook import ROOT, Played

PREPARE = ROOT / "playbooks/tasks/prepare.yml"
TAKE_BACK = ROOT / "playbooks/tasks/take_back.yml"
# These see to it that others can work, or cannot be taken back.
NOT_TAKEN_BACK = ["preflight", "ofed", "nic_firmware"]
NO_CONSENT = "teardown_consent is required"
Task = t.Dict[str, t.Any]


def tasks(path: Path) -> list[Task]:
    return t.cast("list[Task]", yaml.safe_load(path.read_text()))


def roles(path: Path) -> list[str]:
    keys = ("ansible.builtin.import_role", "ansible.builtin.include_role")
    return [each[key]["name"].rpartition(".")[2] for each in tasks(path) for key in keys if key in each]


def options(role: str) -> dict[str, t.Any]:
    text = (ROOT / "roles" / role / "meta/argument_specs.yml").read_text()
    return t.cast("dict[str, t.Any]", yaml.safe_load(text)["argument_specs"]["main"].get("options", {}))


def shared_tags(task: Task) -> list[str]:
    """The tags of a task that all layers need, which a layer that is skipped does not take with it."""
    (text,) = task["tags"]
    assert "| difference(ansible_skip_tags) }}" in text, task["name"]
    return sorted(re.findall(r"'(\w+)'", text))


LAYERS = roles(TAKE_BACK)


def test_layers_are_taken_back_from_the_last_to_the_first() -> None:
    prepared = [role for role in roles(PREPARE) if role not in NOT_TAKEN_BACK]
    assert prepared[::-1] == LAYERS and len(LAYERS) == 11


def test_each_layer_has_its_roles_tag_and_what_they_share_has_all() -> None:
    for task in tasks(TAKE_BACK):
        included = task.get("ansible.builtin.include_role")
        if included:
            role = included["name"].rpartition(".")[2]
            assert task["tags"] == included["apply"]["tags"] == [role]
            assert task["vars"][role + "_state"] == "absent" and set(task["vars"]) <= set(options(role))
            # what is on a node decides, and not what the plan has
            assert "when" not in task and "loop" not in task
        else:
            assert shared_tags(task) == sorted(LAYERS)
    plays = yaml.safe_load((ROOT / "playbooks/teardown.yml").read_text())
    assert [play["tags"] for play in plays] == [["kubernetes"], ["kubernetes"], ["hosts"], ["hosts"]]
    for play in plays[2:]:
        for task in play["tasks"]:
            shared = "tags" in task
            assert not shared or shared_tags(task) == sorted(LAYERS), task["name"]
            assert shared or "take_back" in str(task) or task["name"] == "Show what is not reverted"


def test_every_role_of_a_layer_has_a_state_and_needs_nothing_else_to_be_absent() -> None:
    for role in LAYERS:
        held = options(role)
        state = held[role + "_state"]
        assert (state["choices"], state["default"], state["type"]) == (["present", "absent"], "present", "str")
        assert not [name for name, about in held.items() if about.get("required")], role
    for role in NOT_TAKEN_BACK:
        assert not [name for name in options(role) if name.endswith("_state")]


def test_what_stays_of_every_layer_is_noted() -> None:
    noted = str(next(task for task in tasks(TAKE_BACK) if "ansible.builtin.set_fact" in task)["vars"]["taken_back"])
    found = 0
    for role in LAYERS:
        for step in tasks(ROOT / "roles" / role / "tasks/main.yml"):
            name = next((key for key in step if key.startswith("railyard.fabric.")), "").rpartition(".")[2]
            if name and "\nreboot_reasons:" in (ROOT / "plugins/modules" / (name + ".py")).read_text():
                assert "{{ %s |" % step["register"] in noted, name
                found += 1
    assert found == 10


def play(tmp_path: Path, *words: str, connection: str = "ssh") -> Played:
    """Revert the hosts of a fabric with one node: an unused address, or this machine, which is only read."""
    node: dict[str, t.Any] = {"railyard_node": {"name": "node-1", "nccl": None, "ports": []}}
    node.update(ansible_connection=connection, ansible_host="192.0.2.1", ansible_become=False)
    node.update(ansible_python_interpreter=sys.executable)
    group = {"hosts": {"node-1": node}, "vars": {"railyard_fabric": {"name": "ai"}}}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": {"railyard_nodes": group}}}))
    given, env = {"kubernetes_enabled": "false"}, {"ANSIBLE_TIMEOUT": "3"}
    done = playbook.play("playbooks/teardown.yml", *words, inventory=inventory, given=given, env=env)
    assert "[WARNING]" not in done.text, done.text
    return done


@pytest.mark.parametrize("consent", ["", "another"])
def test_without_consent_no_host_is_touched(tmp_path: Path, consent: str) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "-e", "teardown_consent=%s" % consent)
    assert done.returncode == 2 and "reverting the hosts of fabric ai needs consent" in done.one_line, done.text
    assert "consent with -e teardown_consent=ai" in done.one_line and "UNREACHABLE" not in done.one_line


def test_one_layer_alone_takes_the_same_consent_and_then_a_host(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "--tags", "sriov")
    assert done.returncode == 2 and "needs consent" in done.one_line and "UNREACHABLE" not in done.one_line
    # with it, no node answers
    done = play(tmp_path, "-e", "teardown_consent=ai", "--tags", "sriov", "-e", "teardown_hosts=true")
    assert done.returncode == 4 and "UNREACHABLE" in done.one_line and "needs consent" not in done.one_line


def test_a_layer_that_is_left_out_takes_no_consent_with_it(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "--skip-tags", "sriov,qos")
    assert done.returncode == 2 and "needs consent" in done.one_line and "UNREACHABLE" not in done.one_line, done.text


def test_pods_are_not_driven_away_between_it_and_a_reboot(tmp_path: Path) -> None:
    words = ("-e", "teardown_hosts=true", "-e", "reboot_allowed=true", "-e", "reboot_drain=true", "--check")
    done = play(tmp_path, *words)
    assert done.returncode == 2 and "UNREACHABLE" not in done.one_line, done.text
    assert "reboot_drain: pods leave a node before it is taken back" in done.one_line


def test_hosts_are_left_without_teardown_hosts(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_consent=ai")
    assert done.returncode == 0 and "UNREACHABLE" not in done.one_line, done.text
    assert "Stop without consent" not in done.one_line


@pytest.mark.skipif(os.geteuid() != 0, reason="reads what is root's")
def test_a_machine_without_layers_is_looked_at_and_left(tmp_path: Path) -> None:
    """In check mode, because the tests may run on a machine that Railyard manages."""
    words: tuple[str, ...] = ("-e", "teardown_hosts=true", "--check")
    done = play(tmp_path, *words, connection="local")
    assert done.returncode == 2 and "node-1 (192.0.2.1) is the machine on which Ansible runs" in done.one_line, (
        done.text
    )
    assert "included:" not in done.one_line
    words += ("-e", "preflight_control_node_allowed=true")
    done = play(tmp_path, *words, connection="local")
    assert done.returncode == 0 and done.one_line.count("included: railyard.fabric.") == len(LAYERS), done.text
    assert "What stays on hosts is the NIC driver" in done.one_line
    done = play(tmp_path, *words, "--tags", "limits", connection="local")
    assert done.returncode == 0 and done.one_line.count("included: railyard.fabric.") == 1, done.text
    assert "fabric.limits : Set the limits" in done.one_line
