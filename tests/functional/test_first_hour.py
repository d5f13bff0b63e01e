# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of docs/guides/start.md to a plan and its objects: their commands as printed, and their processor time."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.playbook import PROGRAMS, ROOT, environment

PAGE = (ROOT / "docs/guides/start.md").read_text(encoding="utf-8")
# The limit of a way, in seconds of processor time, which does not depend on the load. A way needs about a tenth of it.
MACHINE_SECONDS = 60
COMMANDS = 5


def section(title: str) -> str:
    return PAGE.split("## %s\n" % title, 1)[1].split("\n## ", 1)[0]


def commands(text: str, *playbooks: str) -> list[str]:
    """Return the commands of a section that run these playbooks, each on one line."""
    lines = re.findall(r"^\$ (ansible-playbook (?:.*\\\n)*.*)$", text, re.M)
    found = [re.sub(r"\\\n\s*", "", line) for line in lines]
    return [line for line in found if any("playbooks/%s.yml" % name in line for name in playbooks)]


def processor_seconds(lines: list[str], home: Path) -> float:
    """Run the commands in a copy of the checkout's settings. Return what they and all their processes used."""
    used = 0.0
    for line in lines:
        words = shlex.split(line)
        with open(home / "output", "w+", encoding="utf-8") as output:
            started = subprocess.Popen(
                [str(PROGRAMS / words[0]), *words[1:]],
                cwd=home,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _pid, status, usage = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            assert started.returncode == 0, (line, output.read())
        used += usage.ru_utime + usage.ru_stime
    return used


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "playbooks").symlink_to(ROOT / "playbooks")
    (tmp_path / "inventories" / "prod").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("number", range(3), ids=["two nodes", "RoCE and Kubernetes", "InfiniBand and Slurm"])
def test_a_file_of_five_lines_is_planned_and_rendered_within_a_minute(number: int, home: Path) -> None:
    text = section("Five lines")
    file = re.findall(r"```yaml\n(plugin: .*?)```", text, re.S)[number]
    (home / "inventories" / "prod" / "fabric.yml").write_text(file, encoding="utf-8")
    lines = commands(text, "validate", "plan", "render")
    assert len(lines) == 3 and len(re.findall(r"^\$ ", text, re.M)) <= COMMANDS
    assert processor_seconds(lines, home) < MACHINE_SECONDS
    assert any((home / "rendered" / "prod").iterdir())


def test_a_cluster_is_imported_planned_and_rendered_within_a_minute(home: Path) -> None:
    text = section("A cluster with rails")
    (home / "manifests").mkdir()
    shutil.copy(ROOT / "tests" / "recordings" / "manifests" / "sriov-roce.md", home / "manifests")
    lines = commands(text, "import", "validate", "plan", "render")
    # and one command of kubectl, of two
    assert len(lines) == 4 and len(lines) + 1 <= COMMANDS
    assert processor_seconds(lines, home) < MACHINE_SECONDS
    assert any((home / "rendered" / "prod").iterdir())
