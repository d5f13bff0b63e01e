# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run in a fork of a process that has loaded Ansible does what the program itself does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import playbook
from tests.functional.node.child_process import in_child
from tests.prepared import Prepared

WORKED = ("-i", "inventories/macvlan-roce/fabric.yml")
RUNS = {
    "a playbook": ("ansible-playbook", *WORKED, "playbooks/validate.yml"),
    "a failure": ("ansible-playbook", "-i", "localhost,", "playbooks/plan.yml", "-e", "fabric_file=/nowhere"),
    "wrong words": ("ansible-playbook", "--nonsense"),
    "an inventory": ("ansible-inventory", *WORKED, "--list"),
    "group variables": ("ansible-inventory", "-i", "inventories/lab-agent", "--list"),
}


@pytest.fixture
def prepared() -> Prepared:
    return Prepared()


@pytest.mark.parametrize("name", RUNS)
def test_it_ends_and_prints_as_the_program_itself(prepared: Prepared, name: str) -> None:
    program, *words = RUNS[name]
    argv = [str(playbook.PROGRAMS / program), *words]
    env = playbook.environment()
    alone = subprocess.run(argv, cwd=playbook.ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    for _twice in range(2):
        found = prepared.run(program, argv, env, str(playbook.ROOT), 600)
        assert found == (alone.returncode, alone.stdout, alone.stderr)
    prepared.close()


def test_each_run_has_its_own_environment_and_folder(prepared: Prepared, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    shown = "{{ lookup('ansible.builtin.env', 'OWN') }} {{ lookup('pipe', 'pwd') }}"
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": shown}}]}
    book.write_text(json.dumps([play]))
    argv = ["ansible-playbook", "-i", "localhost,", str(book)]
    for value in ("first", "second"):
        found = prepared.run("ansible-playbook", argv, playbook.environment(OWN=value), str(tmp_path), 600)
        assert found and found[0] == 0 and "%s %s" % (value, tmp_path) in found[1], found
    assert prepared.run("ansible-playbook", argv, playbook.environment(ANSIBLE_FORKS="1"), str(tmp_path), 600) is None
    prepared.close()


def test_a_run_that_takes_too_long_is_ended(prepared: Prepared, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    book.write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.pause: {seconds: 600}\n"
    )
    argv = ["ansible-playbook", "-i", "localhost,", str(book)]
    env = playbook.environment()
    with pytest.raises(subprocess.TimeoutExpired):
        prepared.run("ansible-playbook", argv, env, str(tmp_path), 3)
    found = prepared.run("ansible-playbook", [*argv, "--syntax-check"], env, str(tmp_path), 600)
    assert found and found[0] == 0
    prepared.close()


def test_a_fork_has_a_process_of_its_own(prepared: Prepared, tmp_path: Path) -> None:
    """Tests in their own mount namespace fork, and the parent's process does not see their files."""
    words = ["ansible-playbook", "--version"]
    environment = playbook.environment()

    def version() -> None:
        found = prepared.run(words[0], words, environment, str(tmp_path), 600)
        assert found and found[0] == 0 and prepared._process
        print(prepared._process.pid, file=(tmp_path / "pid").open("a"))

    version()
    in_child(version)
    version()
    first, child, last = (tmp_path / "pid").read_text().split()
    assert first == last != child
    prepared.close()
