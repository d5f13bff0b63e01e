# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that several processes change at the same time, and the locks of modules."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_main import main
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import FILE, Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import rail_cordons
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock, layer, record_file
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon
from tests.unit.node.agent_files import document, rail

RAILS = ["gpu%02d" % number for number in range(1, 9)]
TIMES = 3


@pytest.fixture
def system(tmp_path: Path) -> System:
    made = System(str(tmp_path))
    made.write_file(agent_spec.FILE, json.dumps(document(*(rail(number) for number in range(1, 9)))))
    return made


def in_processes(*works: t.Callable[[], t.Any]) -> None:
    """Run all in processes of their own at the same time. They begin together."""
    wait, go = os.pipe()
    children = []
    for work in works:
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(go)
                os.read(wait, 1)
                status = int(bool(work()))
            finally:
                os._exit(status)
        children.append(child)
    os.close(wait)
    os.close(go)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def holder(device: str) -> Holder:
    return Holder(device, "uid", "pod", "default", "main", "a" * 64, 10, 1, "attached", 0.0)


def test_no_cordon_is_lost(system: System) -> None:
    def command(*words: str) -> t.Callable[[], int]:
        return lambda: main(["--root", system.root, *words])

    for _time in range(TIMES):
        in_processes(*(command("cordon", name, "--reason", "cable") for name in RAILS))
        assert sorted(cordon_file.cordons(system).all()) == RAILS
        # and no removal of another cordon
        in_processes(*(command("uncordon", name) for name in RAILS[2:]))
        assert sorted(cordon_file.cordons(system).all()) == RAILS[:2]
    assert not system.exists(cordon_file.CORDONS + ".lock")


def test_no_holder_and_no_claim_is_lost(system: System) -> None:
    slots, claims = SlotState(system), ClaimState(system)
    names = ["rails-%d" % number for number in range(8)]
    in_processes(*(lambda name=name: slots.take(holder(name)) for name in names))  # type: ignore[misc]
    assert sorted(SlotState(system).holders()) == names
    in_processes(*(lambda name=name: slots.release(name) for name in names[1:]))  # type: ignore[misc]
    assert sorted(SlotState(system).holders()) == names[:1]
    in_processes(*(lambda uid=uid: claims.put(Claim(uid, "", "", "", "", ())) for uid in names))  # type: ignore[misc]
    assert sorted(ClaimState(system).claims()) == names


def test_a_file_that_is_damaged_in_between_is_not_replaced(system: System) -> None:
    cordons, slots = cordon_file.cordons(system), SlotState(system)
    slots.take(holder("rails-0"))
    for path, act in (
        (cordon_file.CORDONS, lambda: cordons.put(Cordon("gpu01", "cable"))),
        (cordon_file.CORDONS, lambda: cordons.remove("gpu01")),
        (FILE, lambda: slots.take(holder("rails-1"))),
        (FILE, lambda: slots.release("rails-0")),
    ):
        system.write_file(path, "{")
        with pytest.raises(RailyardError, match="is damaged"):
            act()
        assert system.read(path) == "{"
    assert list(slots.holders()) == ["rails-0"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        json.dumps({"format": 1, "cordons": [{"rail": ["gpu01"], "reason": ""}]}),
        json.dumps({"format": 1, "cordons": ["gpu01"]}),
        json.dumps({"format": 1, "cordons": [{"rail": "gpu01", "reason": ""}] * 2}),
        json.dumps([1]),
        json.dumps({"format": 1, "cordons": 7}),
    ],
)
def test_a_damaged_file_is_an_error(system: System, text: str) -> None:
    system.write_file(cordon_file.CORDONS, text)
    with pytest.raises(RailyardError, match="is damaged .* Remedy: remove the file"):
        cordon_file.cordons(system)


def test_a_file_that_cannot_be_read_is_not_an_empty_record(system: System) -> None:
    """The kernel reports EIO for this file, as for a damaged block of a disk."""
    Path(system.path(FILE)).parent.mkdir(parents=True)
    system.symlink("/proc/self/mem", FILE)
    with pytest.raises(RailyardError, match="slots.json: cannot be read. Remedy: "):
        SlotState(system)


def test_the_record_of_a_running_agent_survives_the_removal_of_its_file(system: System) -> None:
    slots = SlotState(system)
    slots.take(holder("rails-0"))
    system.remove_file(FILE)
    slots.take(holder("rails-1"))
    assert sorted(SlotState(system).holders()) == ["rails-0", "rails-1"]


def test_the_file_is_read_again_only_after_changes_of_others(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    slots, others = SlotState(system), SlotState(system)
    slots.take(holder("rails-0"))
    reads = []
    read = System.read_file
    monkeypatch.setattr(System, "read_file", lambda each, path: reads.append(path) or read(each, path))
    slots.take(holder("rails-1"))
    slots.release("rails-1")
    assert slots.holders() and reads == []
    others.take(holder("rails-2"))
    slots.take(holder("rails-3"))
    assert reads == [FILE, FILE]
    assert sorted(slots.holders()) == ["rails-0", "rails-2", "rails-3"]


def test_a_writer_that_does_not_end_is_named(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "SECONDS", 0.2)
    cordons = cordon_file.cordons(system)
    lock = boot_lock.turn(system, "a test", 0, cordon_file.CORDONS + ".lock")
    with lock, pytest.raises(boot_lock.Busy, match=r"a test \(pid %d\)" % os.getpid()):
        cordons.put(Cordon("gpu01", "cable"))
    cordons.put(Cordon("gpu01", "cable"))


def test_a_newer_cordon_of_an_administrator_stays(system: System) -> None:
    """The module computed its changes before."""
    own = Cordon("gpu01", "a new cable"), Cordon("gpu02", "a new leaf")
    cordon_file.cordons(system).put(Cordon("gpu02", "RV601", rail_cordons.BY))
    module = rail_cordons.RailCordons({"rails": {"gpu01": "RV601"}}, system)
    changes = module.changes(module.observe())
    for cordon in own:
        cordon_file.cordons(system).put(cordon)
    for change in changes:
        change.act()
    assert tuple(cordon_file.cordons(system).all().values()) == own


class Counter(Subsystem):
    """A record that each run of a module reads and replaces."""

    def __init__(self, system: System, key: str) -> None:
        super().__init__()
        self.system, self.key = system, key

    def observe(self) -> State:
        return dict(json.loads(self.system.read("/record") or "{}"))

    def changes(self, state: State) -> list[Change]:
        text = json.dumps({**state, self.key: 1})
        act = lambda: self.system.write_file("/record", text)  # noqa: E731
        return [] if self.key in state else [Change("record", self.key, None, 1, act)]


def test_two_runs_of_a_module_lose_no_record(system: System) -> None:
    def run(key: str) -> bool:
        result = layer.run("counter", lambda _options, node: Counter(node, key), {}, system, False, [])
        return bool(result.get("failed"))

    in_processes(*(lambda name=name: run(name) for name in RAILS))  # type: ignore[misc]
    assert sorted(json.loads(system.read("/record") or "")) == RAILS
    assert not system.exists(boot_lock.FILE)


def test_other_users_cannot_open_a_lock(system: System) -> None:
    for file in (boot_lock.FILE, cordon_file.CORDONS + ".lock"):
        with boot_lock.turn(system, "a test", 0, file):
            assert system.mode(file) == 0o600


def test_a_lock_whose_file_was_replaced_is_not_held(system: System) -> None:
    first, second = boot_lock.Lock(system, "first"), boot_lock.Lock(system, "second")
    assert first.take() and first.held and not second.take()
    system.remove_file(boot_lock.FILE)
    assert not first.held and second.take()
    first.release()
    assert second.held and "second (pid " in second.holder
    second.release()
    assert not system.exists(boot_lock.FILE)
