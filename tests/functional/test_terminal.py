# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback ``railyard.fabric.rails`` as a user sees it, at 2 and at 100 nodes."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.playbook import ROOT, Played, play

MTU = {"subject": "enp1s0", "attribute": "mtu", "before": 1500, "after": 4200}
PREPARED = {
    "changed": True,
    "modules": {
        "sriov": {"changed": False, "changes": []},
        "rail_ports": {"changed": True, "changes": [MTU]},
    },
}


def task(name: str, result: t.Mapping[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "canned": {"result": result, "seconds": more.pop("seconds", 0)}, **more}


def run(tmp_path: Path, nodes: int, tasks: list[dict[str, t.Any]], *words: str, progress: int = 0) -> Played:
    playbook = tmp_path / "play.yml"
    hosts = {"name": "Prepare the hosts", "hosts": "all", "gather_facts": False, "tasks": tasks}
    playbook.write_text(json.dumps([hosts]))
    inventory = ",".join("node-%d" % number for number in range(1, nodes + 1)) + ","
    (tmp_path / "action_plugins").symlink_to(ROOT / "tests/plugins/action")
    env = {"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails", "RAILYARD_PROGRESS_SECONDS": str(progress)}
    return play(playbook, *words, inventory=inventory, env=env)


def test_a_play_that_ends_at_once_has_no_heading(tmp_path: Path) -> None:
    ended = {"name": "End the play", "ansible.builtin.meta": "end_play"}
    done = run(tmp_path, 2, [ended, task("Prepare the node", PREPARED)])
    assert done.returncode == 0 and "Prepare the hosts" not in done.stdout, done.text


@pytest.mark.parametrize("nodes", [2, 12])
def test_layers_and_failures_are_shown_and_nothing_else(tmp_path: Path, nodes: int) -> None:
    not_shown = [
        {"name": "Note", "ansible.builtin.set_fact": {"noted": True}},
        {"name": "Not here", "ansible.builtin.command": "true", "when": False},
        task("Read the node", {"changed": False, "nics": []}),
    ]
    done = run(
        tmp_path,
        nodes,
        [
            *(not_shown if nodes == 2 else []),
            task("Prepare the node", PREPARED),
            task("Check", {"failed": True, "msg": "enp1s0 is missing. Remedy: insert it"}),
        ],
    )
    assert done.returncode == 2, done.text
    before, _, recap = done.stdout.partition("PLAY RECAP")
    # in whichever order the nodes answer
    first = next(line for line in before.splitlines() if "FAILED" in line)
    rest = next(line for line in before.splitlines() if "the same on" in line)
    assert before.splitlines() == [
        "",
        "Prepare the hosts",
        "  sriov: %d nodes as planned" % nodes,
        "  rail_ports: %d nodes changed: node-[1-%d]" % (nodes, nodes),
        "    enp1s0 mtu: 1500 -> 4200 (node-[1-%d])" % nodes,
        first,
        "    enp1s0 is missing. Remedy: insert it",
        rest,
        "",
    ]
    assert first.startswith("  FAILED: node-") and first.endswith(": Check")
    if nodes == 2:
        assert recap.count("changed=1") == 2 and recap.count("failed=1") == 2
    else:
        assert "node-[1-12] : changed=1 unreachable=0 failed=1 (12 nodes)" in recap


def test_the_verdict_is_last(tmp_path: Path) -> None:
    done = play("playbooks/validate.yml", inventory=ROOT / "inventories/macvlan-roce",
                env={"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"})  # fmt: skip
    assert done.returncode == 0 and "fabric.yml: no findings" in done.text and "TASK [" not in done.text


def test_progress_names_the_nodes_that_have_not_answered(tmp_path: Path) -> None:
    slow = {"seconds": "{{ 12 if inventory_hostname == 'node-2' else 0 }}"}
    done = run(tmp_path, 3, [task("Reboot", {"changed": False}, **slow)], progress=2)
    lines = [line for line in done.stdout.splitlines() if "waiting for" in line]
    assert lines and lines[-1].startswith("  Reboot: ") and lines[-1].endswith(", 2 of 3 nodes; waiting for node-2")


def test_verbose_output_is_the_default_callbacks(tmp_path: Path) -> None:
    done = run(tmp_path, 1, [task("Prepare the node", PREPARED)], "-v")
    assert "TASK [Prepare the node]" in done.stdout and "changed: [node-1]" in done.stdout


def test_ignored_errors_are_marked(tmp_path: Path) -> None:
    failed = {"failed": True, "msg": "no answer"}
    done = run(tmp_path, 1, [task("Ask", failed, ignore_errors=True)])
    assert done.returncode == 0 and "  ignored: node-1: Ask\n    no answer\n" in done.stdout
