# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of a node's rails from the state file: pass, fail or unknown, and never pass without a fresh state."""

from __future__ import annotations

import argparse
import json
import os
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_check, health_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_check import check
from tests.unit.node.health_states import BOOT, NOW, Row, finding, put, rail, state
from tests.unit.node.trees import Tree

BAD = rail(2, "fail", findings=[finding()])
SLOW = rail(3, degraded=True, findings=[finding("RV422", what="plane of rail3", plane=2, remedy="look at leaf2")])
UNREAD = rail(4, "unknown", findings=[finding("RV404", what="rail4 cannot be read", expected="", found="")])
PROBED = rail(5, probe={"sent": 9, "received": 9, "loss": 0.0, "rtt_us": 8, "tail_us": 20, "peers": {}})


@pytest.fixture
def system(tmp_path: Path) -> System:
    tree = Tree(tmp_path)
    tree.write(health_check.BOOT_ID, BOOT)
    return tree.system()


@pytest.mark.parametrize(
    "document, options, result",
    [
        (state(rail()), {}, "pass"),
        (state(rail(), SLOW), {}, "pass"),
        (state(rail(), BAD), {}, "fail"),
        (state(rail(), UNREAD), {}, "unknown"),
        (state(UNREAD, BAD), {}, "fail"),
        (state(rail(), BAD), {"rails": ["gpu01"]}, "pass"),
        (state(rail(), BAD), {"rails": ["gpu01", "gpu02"]}, "fail"),
        (state(rail()), {"rails": ["gpu09"]}, "unknown"),
        (state(), {}, "unknown"),
        (state(rail(), ready=False), {}, "unknown"),
        (state(BAD, ready=False), {}, "fail"),
        (state(rail(), updated=NOW - 31), {}, "unknown"),
        (state(rail(), updated=NOW + 31), {}, "unknown"),
        (state(BAD, updated=NOW - 31), {}, "unknown"),
        (state(rail(), updated=NOW - 31), {"max_age": 60}, "pass"),
        (state(rail(), boot_id="another"), {}, "unknown"),
        (state(rail()), {"probe": True}, "unknown"),
        (state(PROBED), {"probe": True}, "pass"),
        (state(dict(PROBED, probe=dict(PROBED["probe"], received=0))), {"probe": True}, "unknown"),
        (state(rail(), format=2), {}, "unknown"),
        (state(rail(1, "well")), {}, "unknown"),
        (state(rail(), updated="now"), {}, "unknown"),
        (state(rail(), updated=float("nan")), {}, "unknown"),
        (state({"rail": "gpu01"}), {}, "unknown"),
        ([], {}, "unknown"),
        ("{", {}, "unknown"),
        ("[" * 100000, {}, "unknown"),
    ],
)
def test_results(system: System, document: t.Any, options: Row, result: str) -> None:
    put(Path(system.root), document, NOW)
    found = check(system, NOW, **options)
    assert found.result == result
    assert found.error is None or (found.error.place == health_state.FILE and found.error.remedy)
    json.dumps(found.as_dict())


def test_a_state_that_others_can_change_is_not_used(system: System) -> None:
    target = put(Path(system.root), state(rail()), NOW)
    for path, mode in ((target, 0o666), (target.parent, 0o777), (target.parent, 0o1777)):
        before = path.stat().st_mode
        path.chmod(mode)
        found = check(system, NOW)
        assert found.result == "unknown" and found.error and "writable by all users" in str(found.error)
        path.chmod(before)
    assert check(system, NOW).result == "pass"
    if os.geteuid() == 0:
        os.chown(target, 1000, 0)
        assert "belongs to the user with ID 1000" in str(check(system, NOW).error)


@pytest.mark.parametrize("kind", ["absent", "pipe", "link", "directory", "large"])
def test_what_is_not_a_state_file_does_not_block(system: System, kind: str) -> None:
    target = put(Path(system.root), state(rail()), NOW)
    other = target.rename(target.parent / "other")
    if kind == "pipe":
        os.mkfifo(target, 0o600)
    elif kind == "link":
        target.symlink_to(other)
    elif kind == "directory":
        target.mkdir()
    elif kind == "large":
        target.write_text(" " * (health_state.SIZE_MAX + 1))
    found = check(system, NOW)
    assert found.result == "unknown" and found.error and found.error.remedy


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    health_check.add_command(parser.add_subparsers())
    return parser.parse_args(["check", *words])


def test_the_exit_status_and_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Tree(tmp_path).link(health_check.BOOT_ID, "/boot_id")
    (tmp_path / "boot_id").write_bytes(Path(health_check.BOOT_ID).read_bytes())
    system = System(str(tmp_path))
    assert health_check.run(system, arguments()) == 2
    assert "systemctl status railyard-health" in capsys.readouterr().out
    put(tmp_path, state(rail(), PROBED))
    assert health_check.run(system, arguments()) == 0
    assert capsys.readouterr().out == "pass: node hgx-1: 2 of 2 rails pass; 2 s old\n"
    put(tmp_path, state(rail(), dict(BAD, since=0.0), dict(SLOW, since=0.0)))
    assert health_check.run(system, arguments()) == 1
    assert capsys.readouterr().out == (
        "fail: node hgx-1: 2 of 3 rails pass, 1 of 3 rails fail; 2 s old\n"
        "gpu02: fail: RV402 rail1: expected carrier, found no carrier\n"
        "  Remedy: look at leaf1.\n"
        "gpu03: degraded: RV422 plane of rail3 (plane 2): expected carrier, found no carrier\n"
        "  Remedy: look at leaf2.\n"
    )
    assert health_check.run(system, arguments("--rails", "gpu01,gpu03", "--json")) == 0
    assert [row["rail"] for row in json.loads(capsys.readouterr().out)["rails"]] == ["gpu01", "gpu03"]
    put(tmp_path, state(rail(1, "fail", findings=[finding(found="leaf\x1b[2J\n9")])))
    assert health_check.run(system, arguments()) == 1
    assert "found leaf?[2J?9" in capsys.readouterr().out


def test_wait_ends_with_the_first_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tree(tmp_path).link(health_check.BOOT_ID, "/boot_id")
    (tmp_path / "boot_id").write_bytes(Path(health_check.BOOT_ID).read_bytes())
    monkeypatch.setattr(health_check, "PAUSE", 0.05)
    written = threading.Timer(0.2, lambda: put(tmp_path, state(rail())))
    written.start()
    assert health_check.run(System(str(tmp_path)), arguments("--wait", "60")) == 0
    written.join()
    # a rail that fails is a result, and ends the wait
    put(tmp_path, state(BAD))
    monkeypatch.setattr(health_check.time, "sleep", lambda _seconds: pytest.fail("waits"))
    assert health_check.run(System(str(tmp_path)), arguments("--wait", "60")) == 1


@pytest.mark.parametrize("words", [("--max-age", "-1"), ("--max-age", "nan"), ("--wait", "soon")])
def test_wrong_seconds_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        arguments(*words)
