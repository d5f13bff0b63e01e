# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks run as a person runs them: by this environment's ``ansible-playbook``, with the checkout's ansible.cfg."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

from tests.prepared import Prepared

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(sys.executable).parent

# A cluster or an AWX that the person who runs the tests works with must not be met by them.
_FOREIGN = ("K8S_AUTH_", "KUBECONFIG", "KUBERNETES_", "CONTROLLER_", "TOWER_", "ANSIBLE_FORCE_COLOR")


_PREPARED = Prepared()


class Played(subprocess.CompletedProcess[str]):
    """How a program of Ansible's ended: ``returncode``, and what it printed, ``stdout`` and ``stderr``."""

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.stdout + self.stderr

    @property
    def one_line(self) -> str:
        """All that it printed, on one line with single spaces: where Ansible broke its lines does not matter."""
        return " ".join(self.text.split())


def environment(**more: str) -> dict[str, str]:
    """This process's environment without any cluster of its own, with Ansible's programs first, and with ``more``."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    env.update(ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    # what tests read is the same on every terminal; test_terminal.py reads that of the checkout's ansible.cfg
    env.update(ANSIBLE_STDOUT_CALLBACK="default", COLUMNS="120")
    # compiles each source once
    env.update(PYTHONPATH=str(ROOT / "tools/startup"))
    env["PATH"] = "%s:%s" % (PROGRAMS, env["PATH"])
    return {**env, **more}


def run(
    program: str, *words: str, env: t.Mapping[str, str] | None = None, cwd: Path = ROOT, timeout: float = 900
) -> Played:
    """Run a program of Ansible's to its end, whatever that is, with ``env`` over :func:`environment`.

    AssertionError where it prints a traceback, which no user is to see; TimeoutExpired after ``timeout`` seconds.
    """
    argv = [str(PROGRAMS / program), *words]
    known = environment(**(env or {}))
    found = _PREPARED.run(program, argv, known, str(cwd), timeout)
    if found is None:
        done = subprocess.run(
            argv, cwd=cwd, env=known, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
        found = done.returncode, done.stdout, done.stderr
    played = Played(argv, *found)
    assert "Traceback" not in played.text, played.text
    return played


def words_of(
    playbook: str | Path, *words: str, inventory: str | Path | None = None, given: t.Mapping[str, t.Any] | None = None
) -> list[str]:
    """The words after ``ansible-playbook``.

    A relative ``playbook`` is one of the checkout; ``inventory`` may be a host's name with a comma after it, too;
    ``given`` are extra variables. The ``words`` come last, so that theirs count where a variable is given twice.
    """
    argv = [str(ROOT / playbook)]
    if inventory is not None:
        argv += ["-i", str(inventory)]
    if given:
        argv += ["-e", json.dumps(given)]
    return [*argv, *words]


def play(
    playbook: str | Path,
    *words: str,
    inventory: str | Path | None = None,
    given: t.Mapping[str, t.Any] | None = None,
    env: t.Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    timeout: float = 900,
) -> Played:
    """Run a playbook: the words are those of :func:`words_of`, and the rest is as for :func:`run`."""
    argv = words_of(playbook, *words, inventory=inventory, given=given)
    return run("ansible-playbook", *argv, env=env, cwd=cwd, timeout=timeout)


def start(
    playbook: str | Path, inventory: str | Path, given: t.Mapping[str, t.Any] | None = None, **env: str
) -> subprocess.Popen[str]:
    """Start a playbook in a session of its own, so that :func:`kill` ends all of its processes."""
    return subprocess.Popen(
        [PROGRAMS / "ansible-playbook", *words_of(playbook, inventory=inventory, given=given)],
        cwd=ROOT,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def kill(run: subprocess.Popen[str]) -> None:
    """Kill all processes of a started playbook at once, as a failure of the control node does."""
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
