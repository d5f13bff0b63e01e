# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's processes, with real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lab import process
from tests.waiting import wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


def test_spawned_process_is_found_by_its_lab_and_part_and_ended(tmp_path: Path) -> None:
    one = process.spawn(SLEEP, tmp_path / "a", "node-1", tmp_path / "log", dict(os.environ))
    two = process.spawn(SLEEP, tmp_path / "b", "node-1", tmp_path / "log", dict(os.environ))
    try:
        assert process.members(tmp_path / "a") == {"node-1": one}
        assert os.getsid(one.pid) == one.pid
        assert 0 <= one.age() < 300
        process.stop(tmp_path / "a", [one])
        assert process.members(tmp_path / "a") == {}
        assert process.members(tmp_path / "b") == {"node-1": two}
    finally:
        process.stop(tmp_path / "b", [two])
    assert process.members(tmp_path / "b") == {}


def test_dead_process_that_was_not_waited_for_is_not_a_member(tmp_path: Path) -> None:
    member = process.spawn(["sleep", "0.3"], tmp_path, "node-1", tmp_path / "log", dict(os.environ))
    wait_for(lambda: Path("/proc/%d/stat" % member.pid).read_text().rpartition(")")[2].split()[0] == "Z")
    assert process.members(tmp_path) == {}
    process.stop(tmp_path, [member])
    os.waitpid(member.pid, 0)


def test_process_that_took_over_an_id_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:
        process.stop(tmp_path, [process.Member("node-1", stranger.pid)], patience=0.2)
        assert stranger.poll() is None
        stranger.kill()


def test_member_of_another_part_is_not_touched(tmp_path: Path) -> None:
    member = process.spawn(SLEEP, tmp_path, "node-2", tmp_path / "log", dict(os.environ))
    process.stop(tmp_path, [process.Member("node-1", member.pid)], patience=0.2)
    assert process.members(tmp_path) == {"node-2": member}
    process.stop(tmp_path, [member])


def test_process_that_ignores_the_polite_request_is_ended_all_the_same(tmp_path: Path) -> None:
    member = process.spawn(DEAF, tmp_path, "leaf", tmp_path / "log", dict(os.environ))
    wait_for(lambda: "deaf" in (tmp_path / "log").read_text())
    process.stop(tmp_path, [member], patience=0.3)
    assert process.members(tmp_path) == {}
    assert os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1]) == -signal.SIGKILL


def test_child_with_the_mark_of_its_parent_is_not_taken_for_it(tmp_path: Path) -> None:
    line = "import os, time; os.fork() and time.sleep(60); time.sleep(60)"
    member = process.spawn([sys.executable, "-c", line], tmp_path, "node-1", tmp_path / "log", dict(os.environ))
    children = Path("/proc/%d/task/%d/children" % (member.pid, member.pid))
    child = int(wait_for(lambda: children.read_text().split())[0])
    try:
        assert process.members(tmp_path) == {"node-1": member}
    finally:
        os.kill(child, 9)
        os.kill(member.pid, 9)
        os.waitpid(member.pid, 0)
