# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import threading
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock, module_runner
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from tests.module_args import patch_module_args


class Lamps(Subsystem):
    """Lamps that can be lit; ``stuck`` ones stay as they are, ``broken`` ones fail."""

    live: t.ClassVar[dict[str, bool]] = {}
    stuck: t.ClassVar[set[str]] = set()
    broken: t.ClassVar[set[str]] = set()

    def __init__(self, options: t.Mapping[str, t.Any], _system: System) -> None:
        super().__init__()
        self.wanted = dict(options["lamps"])

    def observe(self) -> State:
        return {"lamps": dict(self.live)}

    def changes(self, state: State) -> list[Change]:
        raise_all(
            [
                RailyardError("there is no such lamp", name, "name another")
                for name in self.wanted
                if name not in state["lamps"]
            ]
        )
        return [
            Change(name, "lit", state["lamps"][name], lit, lambda name=name, lit=lit: self.light(name, lit))  # type: ignore[misc]
            for name, lit in self.wanted.items()
            if state["lamps"][name] != lit
        ]

    def light(self, name: str, lit: bool) -> None:
        if name in self.broken:
            raise RailyardError("does not answer", name, "replace it")
        if name not in self.stuck:
            self.live[name] = lit

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        return {"pending": len(pending)}


@pytest.fixture
def lamps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> t.Callable[..., dict[str, t.Any]]:
    monkeypatch.setattr(module_runner, "System", lambda: System(str(tmp_path)))
    Lamps.live, Lamps.stuck, Lamps.broken = {"a": False, "b": False}, set(), set()

    def run(wanted: dict[str, bool], check: bool = False, state: str = "present") -> dict[str, t.Any]:
        spec = {"lamps": {"type": "dict"}, "state": {"type": "str", "default": "present"}}
        arguments = {"lamps": wanted, "state": state, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module_runner.run(AnsibleModule(argument_spec=spec, supports_check_mode=True), Lamps)
        return t.cast("dict[str, t.Any]", json.loads(capsys.readouterr().out))

    return run


def test_check_mode_predicts_the_run_and_a_second_run_changes_nothing(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    predicted = lamps({"a": True}, check=True)
    assert Lamps.live == {"a": False, "b": False}
    assert predicted["pending"] == 1
    done = lamps({"a": True})
    assert (
        predicted["changes"]
        == done["changes"]
        == [{"subject": "a", "attribute": "lit", "before": False, "after": True}]
    )
    assert done["diff"] == {"before": {"a": {"lit": False}}, "after": {"a": {"lit": True}}}
    assert done["gathered"] == {"lamps": {"a": True, "b": False}}
    again = lamps({"a": True})
    assert (again["changed"], again["changes"]) == (False, [])


def test_gathered_only_reads(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    read = lamps({"a": True}, state="gathered")
    assert (read["changed"], read["gathered"]) == (False, {"lamps": {"a": False, "b": False}})


def test_every_refusal_is_reported_before_any_change(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    result = lamps({"a": True, "x": True, "y": True})
    assert result["failed"]
    assert result["msg"].splitlines() == [
        "x: there is no such lamp. Remedy: name another.",
        "y: there is no such lamp. Remedy: name another.",
    ]
    assert [error["place"] for error in result["errors"]] == ["x", "y"]
    assert Lamps.live["a"] is False


def test_changes_before_an_error_are_reported(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    Lamps.broken = {"b"}
    result = lamps({"a": True, "b": True})
    assert (result["failed"], result["changed"]) == (True, True)
    assert [change["subject"] for change in result["changes"]] == ["a"]


def test_a_change_without_effect_is_an_error(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    Lamps.stuck = {"a"}
    assert "reads back otherwise: lit is False, not True" in lamps({"a": True})["msg"]


def test_the_unforeseen_is_one_line_and_keeps_its_trace_aside(
    lamps: t.Callable[..., dict[str, t.Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lamps, "observe", lambda _self: 1 / 0)
    result = lamps({})
    assert result["msg"].startswith("unforeseen: ZeroDivisionError")
    assert "Traceback" not in result["msg"]


def test_no_password_of_a_url_is_reported(lamps: t.Callable[..., dict[str, t.Any]]) -> None:
    url = "https://me:hush@mirror.example/lamps"
    Lamps.live[url] = False
    for reported in (lamps({url: True}, check=True), lamps({url: True}), lamps({}, state="gathered")):
        assert "hush" not in json.dumps(reported) and "https://me:***@mirror.example/lamps" in json.dumps(reported)
        # ansible-core 2.21 returns the invocation only with INJECT_INVOCATION
        assert reported.get("invocation", {"module_args": {"state": "present"}})["module_args"]["state"]
    reported = lamps({url + "/gone": True})
    assert reported["failed"] and "hush" not in json.dumps(reported) and "me:***@" in reported["msg"]


def test_changes_take_the_lock_and_are_computed_under_it(
    lamps: t.Callable[..., dict[str, t.Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(str(tmp_path))
    monkeypatch.setattr(module_runner, "System", lambda: system)
    monkeypatch.setattr(Lamps, "light", _in_turn(system, Lamps.light))
    assert lamps({"a": True})["changed"] and not system.exists(boot_lock.FILE)
    seen, ready, go_on = Lamps.observe, threading.Event(), threading.Event()

    def another() -> None:
        with boot_lock.turn(system, "the boot's own run", 120):
            ready.set()
            assert go_on.wait(120)
            Lamps.live["b"] = True

    # it comes between the module's first look and its turn, and does the same
    def observe(self: Lamps) -> State:
        state = seen(self)
        if not ready.is_set():
            thread.start()
            assert ready.wait(120)
            threading.Timer(0.3, go_on.set).start()
        return state

    thread = threading.Thread(target=another)
    monkeypatch.setattr(Lamps, "observe", observe)
    reported = lamps({"b": True})
    thread.join()
    assert (reported["changed"], reported["changes"], reported["gathered"]["lamps"]["b"]) == (False, [], True)
    with boot_lock.turn(system, "the boot's own run", 0):
        monkeypatch.setattr(boot_lock, "SECONDS", 0.3)
        for check in (True, False):
            reported = lamps({"b": False}, check=check)
            assert reported["failed"] and "the boot's own run (pid" in reported["msg"] and not reported["changed"]
        assert lamps({}, state="gathered")["gathered"]["lamps"]["b"], "a read-only run does not wait"


def _in_turn(system: System, act: t.Callable[..., None]) -> t.Callable[..., None]:
    def light(self: Lamps, name: str, lit: bool) -> None:
        assert system.exists(boot_lock.FILE), "the lock is free"
        act(self, name, lit)

    return light
