# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module and the boot program never run at the same time: separate processes, with the lock of the kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot import boot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock, layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import NicDriver
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import Firmware
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_links import RdmaLink
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import RdmaMode
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import SriovVfs

ROOT = Path(__file__).resolve().parents[3]
# Takes its turn at argv[1], prints so, and goes on until its input ends.
HOLDER = """
import sys
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock as turn
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
with turn.turn(System(sys.argv[1]), "a test", 120):
    print("mine", flush=True)
    sys.stdin.read()
"""
# Takes its turn again and again, and each time reads a number and writes the next one.
COUNTER = """
import sys, time
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock as turn
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
turn._LOOK = 0.001
system = System(sys.argv[1])
for _time in range(100):
    with turn.turn(system, "a test", 600):
        number = system.read_int("/number") or 0
        time.sleep(0.0005)
        open(system.path("/number"), "w").write(str(number + 1))
"""


def start(program: str, root: Path) -> subprocess.Popen[str]:
    env = dict(os.environ, PYTHONPATH=str(ROOT / "collections"))
    return subprocess.Popen(
        [sys.executable, "-c", program, str(root)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def holder(tmp_path: Path) -> t.Iterator[subprocess.Popen[str]]:
    process = start(HOLDER, tmp_path)
    assert process.stdout and process.stdout.readline() == "mine\n"
    yield process
    process.kill()
    process.wait()


def test_without_contention_nothing_is_written(tmp_path: Path) -> None:
    boot_lock.wait(System(str(tmp_path)), 0)
    assert os.listdir(tmp_path) == []
    with boot_lock.turn(System(str(tmp_path)), "a test", 0):
        assert System(str(tmp_path)).exists(boot_lock.FILE)
    assert os.listdir(tmp_path / "run/railyard") == []


def test_the_holder_of_the_lock_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    system = System(str(tmp_path))
    for act in (lambda: boot_lock.wait(system, 0.3), lambda: boot_lock.turn(system, "another", 0.3).__enter__()):
        with pytest.raises(boot_lock.Busy) as caught:
            act()
        assert "a test (pid %d), since 20" % holder.pid in caught.value.message
        assert caught.value.place == boot_lock.FILE and caught.value.remedy


@pytest.mark.parametrize("killed", [False, True])
def test_the_end_of_the_holder_is_waited_for(tmp_path: Path, holder: subprocess.Popen[str], killed: bool) -> None:
    system = System(str(tmp_path))
    end = (lambda: holder.send_signal(signal.SIGKILL)) if killed else holder.stdin.close  # type: ignore[union-attr]
    threading.Timer(0.5, end).start()
    with boot_lock.turn(system, "another", 120):
        assert (system.read(boot_lock.FILE) or "").startswith("another (pid %d)" % os.getpid())
        holder.wait(120)
    boot_lock.wait(system, 0)
    assert not system.exists(boot_lock.FILE)


def test_a_surviving_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    """As one of ``apart`` does, which the kernel holds up."""
    system = System(str(tmp_path))
    come, go = os.pipe()
    with boot_lock.turn(system, "a test", 0):
        child = os.fork()
        if not child:
            os.close(go)
            os.read(come, 1)
            os._exit(0)
    with boot_lock.turn(system, "the next", 0):
        pass
    os.close(go)
    os.close(come)
    os.waitpid(child, 0)


def test_concurrent_runs_lose_no_change(tmp_path: Path) -> None:
    """The file comes and goes with each of them."""
    processes = [start(COUNTER, tmp_path) for _number in range(3)]
    for process in processes:
        process.communicate(timeout=600)
        assert process.returncode == 0
    assert (tmp_path / "number").read_text() == "300"


def test_a_lock_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(RailyardError, match="cannot be made: Not a directory") as caught:
        boot_lock.turn(System(str(tmp_path)), "a test", 0).__enter__()
    assert caught.value.place == boot_lock.FILE


# -- runs that change devices, and attaches of pods


class Taken(Subsystem):
    """A VF that the pod in the file /pod has."""

    changes_devices = True

    def __init__(self, _options: t.Any, system: System) -> None:
        super().__init__()
        self.system = system

    def observe(self) -> State:
        return {"pod": self.system.read("/pod"), "vf": not self.system.exists("/removed")}

    def changes(self, state: State) -> list[Change]:
        if state["pod"]:
            raise Refused("it is held by %s" % state["pod"], "vf", "stop it")
        remove = lambda: self.system.write_file("/removed", "")  # noqa: E731
        return [Change("vf", "present", True, False, remove)] if state["vf"] else []


def test_a_pod_that_is_attached_meanwhile_keeps_its_device(tmp_path: Path) -> None:
    """The run has looked for holders before the attach ends, and looks again."""
    system, attached, ready = System(str(tmp_path)), threading.Event(), threading.Event()

    def attach() -> None:
        with boot_lock.attaching(system, 0):
            ready.set()
            assert attached.wait(120)
            system.write_file("/pod", "default/a")

    def build(options: t.Any, system: System) -> Subsystem:
        threading.Timer(0.3, attached.set).start()
        return Taken(options, system)

    thread = threading.Thread(target=attach)
    thread.start()
    assert ready.wait(120)
    result = layer.run("taken", build, {}, system, False, [])
    thread.join()
    assert "it is held by default/a" in result["msg"] and not system.exists("/removed")


def test_no_pod_is_attached_while_devices_change(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    with boot_lock.changing(system, Taken({}, system).locks, "the module sriov_vfs", 0):
        with pytest.raises(boot_lock.Busy, match=r"the module sriov_vfs \(pid %d\), since 20" % os.getpid()) as caught:
            boot_lock.attaching(system, 0.3).__enter__()
        assert caught.value.place == boot_lock.DEVICES
        with pytest.raises(boot_lock.Busy):
            boot_lock.wait(system, 0, boot_lock.DEVICES)
    with boot_lock.attaching(system, 0), boot_lock.attaching(system, 0):
        boot_lock.wait(system, 0, boot_lock.DEVICES)
        with pytest.raises(boot_lock.Busy, match="an attach of a pod holds the lock of this node"):
            boot_lock.changing(system, Taken({}, system).locks, "the module sriov_vfs", 0.3).__enter__()
        with boot_lock.changing(system, Value(system, 1).locks, "the module of settings", 0):
            pass
    assert os.listdir(tmp_path / "run/railyard") == []
    with boot_lock.changing(system, Taken({}, system).locks, "the module sriov_vfs", 0):
        pass
    assert os.listdir(tmp_path / "run/railyard") == []


@pytest.mark.parametrize("next_holder", ["run", "attach"])
def test_a_killed_run_is_not_named_as_the_holder(tmp_path: Path, next_holder: str) -> None:
    system = System(str(tmp_path))
    long_name = "the module with a very long name, which was killed (pid 1), since 2026-01-01T00:00:00Z" + " " * 9
    for file in (boot_lock.FILE, boot_lock.DEVICES):
        system.write_file(file, long_name)
    if next_holder == "run":
        with boot_lock.turn(system, "x", 0):
            assert (system.read_file(boot_lock.FILE) or "").startswith("x (pid %d), since 20" % os.getpid())
            assert "killed" not in (system.read_file(boot_lock.FILE) or "")
    else:
        with boot_lock.attaching(system, 0), pytest.raises(boot_lock.Busy) as caught:
            boot_lock.turn(system, "x", 0, boot_lock.DEVICES).__enter__()
        assert "killed" not in caught.value.message


def test_modules_that_take_devices_hold_the_lock() -> None:
    for module in (SriovVfs, RailPorts, RdmaLink, IbPorts):
        assert module.changes_devices and module.lock == boot_lock.FILE
    # a reset and a restart take it themselves, and the kernel checks a change of the RDMA mode
    assert not (Firmware.changes_devices or NicDriver.changes_devices or RdmaMode.changes_devices)


# -- the two that take turns


class Value(Subsystem):
    """A file that holds a number."""

    def __init__(self, system: System, wanted: int) -> None:
        super().__init__()
        self.system, self.wanted = system, wanted

    def observe(self) -> State:
        return {"value": self.system.read_int("/value")}

    def changes(self, state: State) -> list[Change]:
        def act() -> None:
            assert self.system.exists(boot_lock.FILE), "no program holds the lock"
            self.system.write_file("/value", str(self.wanted))

        return [] if state["value"] == self.wanted else [Change("value", "number", state["value"], self.wanted, act)]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    system = System(str(tmp_path))
    for rank in (10, 20):
        text = json.dumps({"module": "value", "options": {"wanted": 5}})
        system.write_file("%s/%d-value.json" % (boot_state.BOOT_DIR, rank), text)
    layer = Layer({}, lambda options, system: Value(system, options["wanted"]))
    monkeypatch.setattr(boot_program, "layer", lambda module: layer)
    return system


def test_the_boot_program_waits_for_a_module(kept: System, holder: subprocess.Popen[str]) -> None:
    assert boot_program.main(["--check"], kept) == 0, "a run that only reads does not wait"
    threading.Timer(0.5, holder.kill).start()
    assert boot_program.main([], kept) == 0
    assert kept.read("/value") == "5" and not kept.exists(boot_lock.FILE)


def test_the_boot_program_names_the_holder_after_its_timeout(
    kept: System, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    assert boot_program.main([], kept, patience=0) == 1
    assert clock[0] < 1.5 * boot_lock.SECONDS, "all files together wait as long as one"
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 2 and all("a test (pid %d)" % holder.pid in line for line in reported)
    assert kept.read("/value") is None
