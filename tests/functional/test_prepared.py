# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run in a fork of a process that has loaded Ansible does what the program itself does."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.functional.node.child_process import in_child
from tests.prepared import Prepared

pytestmark = pytest.mark.long
WORKED = ("-i", "inventories/macvlan-roce/fabric.yml")
RUNS = {
    "a playbook": ("ansible-playbook", *WORKED, "playbooks/validate.yml"),
    "a failure": ("ansible-playbook", "-i", "localhost,", "playbooks/plan.yml", "-e", "fabric_file=/nowhere"),
    "wrong words": ("ansible-playbook", "--nonsense"),
    "an inventory": ("ansible-inventory", *WORKED, "--list"),
    "group variables": ("ansible-inventory", "-i", "inventories/lab-agent", "--list"),
}


@pytest.fixture(scope="module")
def prepared() -> t.Iterator[Prepared]:
    """Prepared processes, of which the next run with the checkout's configuration starts the first."""
    prepared = Prepared()
    assert run(prepared, "--version") is None
    yield prepared
    prepared.close()


def run(prepared: Prepared, *words: str, timeout: float = 600, **env: str) -> tuple[int, str, str] | None:
    argv = ["ansible-playbook", "-i", "localhost,", *words]
    return prepared.run(argv[0], argv, playbook.environment(**env), str(playbook.ROOT), timeout)


@pytest.mark.parametrize("name", RUNS)
def test_it_ends_and_prints_as_the_program_itself(prepared: Prepared, name: str) -> None:
    program, *words = RUNS[name]
    argv = [str(playbook.PROGRAMS / program), *words]
    env = playbook.environment()
    alone = subprocess.run(argv, cwd=playbook.ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    for _twice in range(2):
        found = prepared.run(program, argv, env, str(playbook.ROOT), 600)
        assert found == (alone.returncode, alone.stdout, alone.stderr)


def test_each_run_has_its_own_environment_and_folder(prepared: Prepared, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    shown = "{{ lookup('ansible.builtin.env', 'OWN') }} {{ lookup('pipe', 'pwd') }}"
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": shown}}]}
    book.write_text(json.dumps([play]))
    argv = ["ansible-playbook", "-i", "localhost,", str(book)]
    for value in ("first", "second"):
        found = prepared.run("ansible-playbook", argv, playbook.environment(OWN=value), str(tmp_path), 600)
        assert found and found[0] == 0 and "%s %s" % (value, tmp_path) in found[1], found


def test_each_configuration_has_its_own_process_from_the_second_run_on(prepared: Prepared) -> None:
    other = {"ANSIBLE_FORKS": "7"}
    assert run(prepared, "--help", **other) is None
    for env, forks in ((other, "7"), ({}, "50"), (other, "7")):
        found = run(prepared, "--help", **env)
        assert found and "(default=%s)" % forks in found[1], found


def test_a_run_that_takes_too_long_is_ended(prepared: Prepared, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    book.write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.pause: {seconds: 600}\n"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        run(prepared, str(book), timeout=3)
    found = run(prepared, str(book), "--syntax-check")
    assert found and found[0] == 0


def test_a_fork_does_not_use_the_processes_of_its_parent(prepared: Prepared) -> None:
    """Tests in their own mount namespace fork, and the parent's process does not see their files."""

    def not_prepared() -> None:
        assert run(prepared, "--version") is None

    assert run(prepared, "--version")
    in_child(not_prepared)
    assert run(prepared, "--version")
