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

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import layer_table
from tests import playbook
from tests.playbook import ROOT, Played

TAKE_BACK = ROOT / "playbooks/tasks/take_back.yml"
# These see to it that others can work, or cannot be taken back.
NOT_TAKEN_BACK = ["preflight", "ofed", "nic_firmware"]
NO_CONSENT = "teardown_consent is required"
Task = t.Dict[str, t.Any]


def tasks(path: Path) -> list[Task]:
    return t.cast("list[Task]", yaml.safe_load(path.read_text()))


def options(role: str) -> dict[str, t.Any]:
    text = (ROOT / "roles" / role / "meta/argument_specs.yml").read_text()
    return t.cast("dict[str, t.Any]", yaml.safe_load(text)["argument_specs"]["main"].get("options", {}))


# The tags of a task that all layers need; a skipped layer does not skip the task.
SHARED = ["{{ query('railyard.fabric.layer_tags', state='absent') }}"]
LAYERS = list(layer_table.REMOVABLE)


def test_layers_are_reverted_from_the_last_to_the_first() -> None:
    assert [each for each in layer_table.LAYERS if each not in NOT_TAKEN_BACK] == LAYERS
    # what is on a node decides, and not what the plan has
    rows = layer_modules.layer_modules({}, {}, {}, layer_table.LAYERS, "absent")
    assert list(dict.fromkeys(row["layer"] for row in rows)) == LAYERS[::-1]
    assert {row["options"]["state"] for row in rows} == {"absent"}


def test_all_tasks_have_the_tags_of_all_layers() -> None:
    for task in tasks(TAKE_BACK):
        assert task["tags"] == SHARED
    plays = yaml.safe_load((ROOT / "playbooks/teardown.yml").read_text())
    assert [play["tags"] for play in plays] == [["kubernetes"], ["kubernetes"], ["hosts"], ["hosts"]]
    for play in plays[2:]:
        for task in play["tasks"]:
            shared = "tags" in task
            assert not shared or task["tags"] == SHARED, task["name"]
            assert shared or "take_back" in str(task) or task["name"] == "Show the settings that are not reverted"


@pytest.mark.parametrize(
    ("name", "skip", "layers"),
    [("hosts", "", layer_table.LAYERS), ("teardown", "", LAYERS), ("hosts", "qos", layer_table.LAYERS)],
)
def test_tags_of_playbooks_are_the_layers(name: str, skip: str, layers: t.Sequence[str]) -> None:
    """A skipped layer does not skip the tasks of all layers."""
    arguments = ["--list-tags", "-e", "teardown_hosts=true", *(["--skip-tags", skip] if skip else [])]
    played = playbook.play("playbooks/%s.yml" % name, *arguments, inventory=ROOT / "inventories/lab")
    listed = [set(re.findall(r"\w+", line)) for line in played.stdout.splitlines() if "TASK TAGS" in line]
    assert listed and all(tags - {"TASK", "TAGS", "always", "hosts"} == {*layers} - {skip} for tags in listed[-2:])


def test_every_role_of_a_layer_needs_only_a_state_to_be_removed() -> None:
    for role in LAYERS:
        held = options(role)
        state = held[role + "_state"]
        assert (state["choices"], state["default"], state["type"]) == (["present", "absent"], "present", "str")
        assert not [name for name, about in held.items() if about.get("required")], role
    for role in NOT_TAKEN_BACK:
        assert not [name for name in options(role) if name.endswith("_state")]


def play(tmp_path: Path, *words: str, connection: str = "ssh") -> Played:
    """Revert the hosts of a fabric with one node: an unused address, or this machine, which is only read."""
    node: dict[str, t.Any] = {"railyard_node": {"name": "node-1", "nccl": None, "ports": []}}
    node.update(ansible_connection=connection, ansible_host="192.0.2.1", ansible_become=False)
    node.update(ansible_python_interpreter=sys.executable)
    group = {"hosts": {"node-1": node}, "vars": {"railyard_fabric": {"name": "ai"}}}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": {"railyard_nodes": group}}}))
    given = {"kubernetes_enabled": "false"}
    done = playbook.play("playbooks/teardown.yml", "-T", "3", *words, inventory=inventory, given=given)
    assert "[WARNING]" not in done.text, done.text
    return done


@pytest.mark.parametrize("consent", ["", "another"])
def test_without_consent_no_host_is_touched(tmp_path: Path, consent: str) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "-e", "teardown_consent=%s" % consent)
    assert done.returncode == 2 and "reverting the hosts of fabric ai needs consent" in done.one_line, done.text
    assert "consent with -e teardown_consent=ai" in done.one_line and "UNREACHABLE" not in done.one_line


def test_a_single_layer_requires_the_same_consent(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "--tags", "sriov")
    assert done.returncode == 2 and "needs consent" in done.one_line and "UNREACHABLE" not in done.one_line
    # with it, no node answers
    done = play(tmp_path, "-e", "teardown_consent=ai", "--tags", "sriov", "-e", "teardown_hosts=true")
    assert done.returncode == 4 and "UNREACHABLE" in done.one_line and "needs consent" not in done.one_line


def test_a_skipped_layer_does_not_skip_the_consent(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_hosts=true", "--skip-tags", "sriov,qos")
    assert done.returncode == 2 and "needs consent" in done.one_line and "UNREACHABLE" not in done.one_line, done.text


def test_pods_are_not_driven_away_between_it_and_a_reboot(tmp_path: Path) -> None:
    words = ("-e", "teardown_hosts=true", "-e", "reboot_allowed=true", "-e", "reboot_drain=true", "--check")
    done = play(tmp_path, *words)
    assert done.returncode == 2 and "UNREACHABLE" not in done.one_line, done.text
    assert "reboot_drain: nodes must be drained before they are reverted" in done.one_line


def test_teardown_without_teardown_hosts_does_not_change_hosts(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "teardown_consent=ai")
    assert done.returncode == 0 and "UNREACHABLE" not in done.one_line, done.text
    assert "Check the consent" not in done.one_line


@pytest.mark.skipif(os.geteuid() != 0, reason="reads what is root's")
def test_a_machine_without_layers_is_read_and_not_changed(tmp_path: Path) -> None:
    """In check mode, because the tests may run on a machine that Railyard manages."""
    words: tuple[str, ...] = ("-e", "teardown_hosts=true", "--check")
    done = play(tmp_path, *words, connection="local")
    assert done.returncode == 2 and "node-1 (192.0.2.1) is the machine on which Ansible runs" in done.one_line, (
        done.text
    )
    assert "changed=0" in done.one_line
    words += ("-e", "preflight_control_node_allowed=true")
    done = play(tmp_path, *words, connection="local")
    assert done.returncode == 0 and "TASK [Revert the node]" in done.one_line, done.text
    assert "The NIC driver, firmware parameters and installed packages stay on hosts" in done.one_line
    done = play(tmp_path, *words, "--tags", "limits", "-vv", connection="local")
    assert done.returncode == 0 and "rail_limits:" in done.one_line and "sriov_vfs:" not in done.one_line, done.text
