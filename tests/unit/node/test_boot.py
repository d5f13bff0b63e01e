# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot import boot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from tests.unit.node.packed import contents, reached, sent_with


def apply(changes: list[Change]) -> None:
    for change in changes:
        change.act()


def test_the_program_contains_exactly_the_modules_it_imports() -> None:
    assert sorted(contents(boot_state.pack())) == sorted(
        reached("_node.layers.boot_program")
        - {"_node.boot.boot_state", "_node.core.packed_program", "_node.core.root_owned", "_node.core.until_boot"}
    )


@pytest.mark.parametrize("module", ["ib_ports", "pci_tuning", "rdma_link", "roce_qos", "sriov_vfs"])
def test_ansible_sends_every_module_that_the_program_needs(module: str) -> None:
    """The program is packed on the node, from the sources that came with the module."""
    assert contents(boot_state.pack()) <= sent_with(module)


def test_the_same_sources_give_the_same_bytes() -> None:
    assert boot_state.pack.__wrapped__() == boot_state.pack()


def test_the_program_runs_from_the_archive_without_the_collection(tmp_path: Path) -> None:
    (tmp_path / "boot.pyz").write_bytes(boot_state.pack())
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "boot.pyz"), "--check"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_options_are_written_once_and_removed(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    state = boot_state.BootState(system, 10, "sriov_vfs")
    first = state.changes({"ports": [1]})
    assert [change.attribute for change in first] == ["program", "unit", "enabled", "options"]
    assert not system.exists("/etc")
    apply(first)
    assert state.changes({"ports": [1]}) == []
    assert state.read() == {"ports": [1]}
    assert boot_state.UNIT_WANTED and system.link_name(boot_state.UNIT_WANTED) == "railyard-boot.service"
    (second,) = state.changes({"ports": [2]})
    assert (second.before, second.after) == ({"ports": [1]}, {"ports": [2]})
    # another module's options need no second program
    assert [change.attribute for change in boot_state.BootState(system, 20, "rdma_link").changes({})] == ["options"]
    apply(state.changes(None))
    assert state.changes(None) == []
    assert state.read() is None


def test_a_returning_device_starts_its_module(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    state = boot_state.BootState(system, 15, "pci_tuning")
    match = 'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="0000:0b:00.0"'
    first = state.changes({}, [match])
    assert [change.attribute for change in first] == ["program", "unit", "enabled", "options", "unit", "rules"]
    apply(first)
    assert state.changes({}, [match]) == []
    assert (system.read(state.rules) or "").splitlines()[1:] == [
        match + ', RUN+="/usr/bin/systemctl --no-block start railyard-again@15-pci_tuning.service"'
    ]
    (other,) = state.changes({}, [match.replace("0b", "0c")])
    assert (other.subject, other.before) == ("/etc/udev/rules.d/90-railyard-pci_tuning.rules", "other")
    # no longer to be laid down again, and then not at boot either
    assert [(change.subject, change.after) for change in state.changes({})] == [(state.rules, None)]
    apply(state.changes(None, [match]))
    assert not system.exists(state.rules) and not system.exists(state.file)
    assert state.changes(None) == []


STAYS = Staying("qos", ("gpu01",))
OTHER = Staying("qos", ("gpu02",))
MATCH = 'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="0000:0b:00.0"'
DIRECTORIES = ["/etc/railyard/boot.d", "/etc/railyard", "/usr/local/lib/railyard"]
SHARED = [boot_state.UNIT_WANTED, boot_state.UNIT, boot_state.AGAIN, boot_state.PROGRAM]


def files(system: System) -> list[str]:
    return sorted("/" + str(each.relative_to(system.root)) for each in Path(system.root).rglob("*"))


def set_up(root: Path) -> tuple[System, boot_state.BootState, boot_state.BootState]:
    """A node on which two modules keep something, in directories that were there before."""
    for directory in ("etc/udev/rules.d", "etc/systemd/system/multi-user.target.wants", "usr/local/lib", "run"):
        (root / directory).mkdir(parents=True)
    system = System(str(root))
    first, second = boot_state.BootState(system, 10, "sriov_vfs"), boot_state.BootState(system, 40, "roce_qos")
    apply(first.changes({"ports": [{"pci": "0000:0b:00.0"}]}))
    apply(second.changes({"ports": []}, [MATCH]))
    return system, first, second


def test_shared_files_are_removed_with_the_last_options(tmp_path: Path) -> None:
    before = {"etc", "etc/udev", "etc/udev/rules.d", "etc/systemd", "etc/systemd/system", "usr", "usr/local", "run"}
    before |= {"usr/local/lib", "etc/systemd/system/multi-user.target.wants"}
    system, first, second = set_up(tmp_path)
    assert [(each.subject, each.after) for each in second.changes(None)] == [(second.rules, None), (second.file, None)]
    apply(second.changes(None))
    assert boot_program.main(["--check"], system) == 1, "the program is still there for the first one's options"
    last = first.changes(None)
    assert [each.subject for each in last] == [first.file, *SHARED, *DIRECTORIES]
    assert [each.after for each in last] == [None, False] + [None] * 6
    assert last[0].before == {"ports": [{"pci": "0000:0b:00.0"}]}
    assert system.exists(boot_state.UNIT), "check mode only reported it"
    apply(last)
    assert files(system) == sorted("/" + each for each in before)
    assert first.changes(None) == [] and second.changes(None) == []
    # and it is set up again as if it had never been
    apply(first.changes({"ports": []}))
    assert first.read() == {"ports": []} and first.changes({"ports": []}) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_interruption_at_any_point_is_completed_by_the_next_run(tmp_path: Path, order: tuple[int, int]) -> None:
    whole = 0
    for number in range(99):
        root = tmp_path / str(number)
        root.mkdir()
        system, *states = set_up(root)
        done = 0
        for at in order:
            wanted = states[at].changes(None, staying=states[at].staying([STAYS]))
            apply(wanted[: max(0, number - done)])
            done += len(wanted)
        for at in order:
            # a module whose options are gone knows no more than what it noted
            again = states[at]
            apply(again.changes(None, staying=again.staying([STAYS] if again.read() is not None else [])))
            assert again.changes(None, staying=again.staying([])) == []
            assert again.staying([]) == [STAYS]
        left = [each for each in files(system) if "railyard" in each]
        assert left == ["/run/railyard", "/run/railyard/until_boot"] + [
            "/run/railyard/until_boot/" + name for name in ("roce_qos", "sriov_vfs")
        ]
        whole = done
        if number > done:
            break
    assert number == whole + 1 and whole > 10


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    system, first, second = set_up(tmp_path)
    system.write_file("/etc/railyard/boot.d/README", "not ours")
    system.write_file("/usr/local/lib/railyard/more.py", "")
    apply(second.changes(None))
    assert [each.subject for each in first.changes(None)] == [first.file, *SHARED], "no directory is empty then"
    apply(first.changes(None))
    assert first.changes(None) == []
    assert system.read("/etc/railyard/boot.d/README") == "not ours" and system.exists("/usr/local/lib/railyard/more.py")
    system.remove_file("/etc/railyard/boot.d/README")
    assert [each.subject for each in first.changes(None)] == DIRECTORIES[:2]


def test_options_of_an_unknown_module_keep_the_program(tmp_path: Path) -> None:
    """The program applies or reports each file of options, of any module."""
    system, first, second = set_up(tmp_path)
    system.write_file("/etc/railyard/boot.d/50-other.json", "{}")
    for state in (first, second):
        apply(state.changes(None))
        assert state.changes(None) == []
    assert all(system.exists(path) for path in SHARED)


def test_a_temporary_file_of_an_interrupted_run_does_not_keep_the_directory(tmp_path: Path) -> None:
    system, first, second = set_up(tmp_path)
    (tmp_path / "etc/railyard/boot.d/.railyard-x1y2").write_text("{")
    for state in (first, second):
        apply(state.changes(None))
    assert not system.exists("/etc/railyard")


def test_until_boot_records_are_written_first_and_removed_last(tmp_path: Path) -> None:
    system, first, _second = set_up(tmp_path)
    marker = "/run/railyard/until_boot/sriov_vfs"
    assert first.staying([STAYS]) == [STAYS]
    changes = first.changes(None, staying=[STAYS])
    assert [each.subject for each in changes] == [marker, first.file]
    apply(changes)
    assert first.staying([OTHER, STAYS]) == [STAYS, OTHER] and first.staying([]) == [STAYS]
    # a part that stays kept does not mean that the other part is set up again
    apply(first.changes({"ports": []}, staying=[STAYS]))
    assert first.staying([]) == [STAYS] and first.changes({"ports": []}, staying=[STAYS]) == []
    # nothing to keep is not a reason to forget
    assert marker not in [each.subject for each in first.changes(None)]
    changes = first.changes({"ports": [1]})
    assert [each.subject for each in changes] == [first.file, marker]
    apply(changes)
    assert first.staying([]) == [] and first.changes({"ports": [1]}) == []


def test_damaged_options_are_removed_and_reported(tmp_path: Path) -> None:
    system, first, _second = set_up(tmp_path)
    system.write_file(first.file, "{")
    (why,) = first.staying([])
    assert why.text == "%s could not be read, and what was set by it stays until the next boot" % first.file
    assert first.ports() == []
    apply(first.changes(None, staying=[why]))
    assert first.staying([]) == [why] and not system.exists(first.file)


@pytest.mark.parametrize("held", ["[]", "5", '{"ports": 5}', '{"ports": [5, {"pci": "x"}]}'])
def test_options_of_another_shape_have_no_ports(tmp_path: Path, held: str) -> None:
    system, first, _second = set_up(tmp_path)
    system.write_file(first.file, '{"module": "sriov_vfs", "options": %s}' % held)
    assert first.ports() == ([{"pci": "x"}] if "pci" in held else [])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"module": "x"}', "null"])
def test_a_damaged_file_is_written_again(tmp_path: Path, text: str) -> None:
    system = System(str(tmp_path))
    state = boot_state.BootState(system, 10, "sriov_vfs")
    apply(state.changes({"a": 1}))
    system.write_file(state.file, text)
    assert state.read() is None
    apply(state.changes({"a": 1}))
    assert state.read() == {"a": 1}


class Counter(Subsystem):
    """A file that holds a number; it fails a given number of times before it comes up."""

    def __init__(self, system: System, wanted: int, failures: list[str]) -> None:
        super().__init__()
        self.system, self.wanted, self.failures = system, wanted, failures

    def observe(self) -> State:
        if self.failures:
            raise RailyardError(self.failures.pop(), "device", "wait")
        return {"value": self.system.read_int("/value")}

    def changes(self, state: State) -> list[Change]:
        if state["value"] == self.wanted:
            return []
        act: t.Callable[[], None] = lambda: self.system.write_file("/value", str(self.wanted))  # noqa: E731
        return [Change("value", "number", state["value"], self.wanted, act)]


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[System, list[str]]:
    """A system with one file of options whose device comes late."""
    system = System(str(tmp_path))
    failures: list[str] = []
    system.write_file(
        boot_state.BOOT_DIR + "/10-counter.json", json.dumps({"module": "counter", "options": {"wanted": 5}})
    )
    system.write_file(boot_state.BOOT_DIR + "/10-counter.json.dpkg-old", "not ours")
    monkeypatch.setattr(
        boot_program,
        "layer",
        lambda module: Layer({}, lambda options, system: Counter(system, options["wanted"], failures)),
    )
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return system, failures


def test_the_boot_program_applies_options_and_a_second_run_reports_nothing(
    late: tuple[System, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    system, _failures = late
    assert boot_program.main(["--check"], system) == 0
    assert system.read("/value") is None
    assert boot_program.main([], system) == 0
    assert system.read("/value") == "5"
    assert capsys.readouterr().out == "value number: None -> 5\n" * 2
    assert boot_program.main([], system) == 0
    assert capsys.readouterr().out == ""


def test_only_applies_one_file(late: tuple[System, list[str]]) -> None:
    system, _failures = late
    assert boot_program.main(["--only", "20-rdma_link"], system) == 0
    assert system.read("/value") is None
    assert boot_program.main(["--only", "10-counter"], system) == 0
    assert system.read("/value") == "5"


def test_the_program_waits_for_late_devices(late: tuple[System, list[str]]) -> None:
    system, failures = late
    failures.extend(["is not there"] * 3)
    assert boot_program.main([], system) == 0
    assert system.read("/value") == "5"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the program, which pass at once."""
    clock, found = [1000.0], []

    def sleep(seconds: float) -> None:
        found.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", sleep)
    return found


def test_attempts_become_rarer_while_devices_are_missing(late: tuple[System, list[str]], pauses: list[float]) -> None:
    system, failures = late
    failures.extend(["is not there"] * 200)
    assert boot_program.main([], system) == 1
    assert pauses[0] == 1 and pauses == sorted(pauses) and pauses[-1] == 5
    assert all(pause <= 1 + sum(pauses[:number]) / 4 for number, pause in enumerate(pauses))
    assert boot_program.PATIENCE <= sum(pauses) < boot_program.PATIENCE + 5 and len(pauses) < 35


def test_the_program_waits_longer_while_udev_handles_devices(
    late: tuple[System, list[str]], pauses: list[float]
) -> None:
    system, failures = late
    failures.extend(["is not there"] * 200)
    system.write_file(boot_program.UDEV_QUEUE, "")
    assert boot_program.main([], system) == 1
    assert boot_program.SLOW_PATIENCE <= sum(pauses) < boot_program.SLOW_PATIENCE + 5


def test_a_failed_module_is_reported_and_the_others_still_run(
    late: tuple[System, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    system, _failures = late
    system.write_file(boot_state.BOOT_DIR + "/05-damaged.json", "{")
    system.write_file(boot_state.BOOT_DIR + "/06-unforeseen.json", '{"module": "counter", "options": {}}')
    assert boot_program.main([], system, patience=0) == 1
    reported = capsys.readouterr().err.splitlines()
    assert "05-damaged.json" in reported[0] and reported[1:] == [
        boot_state.BOOT_DIR + "/06-unforeseen.json: KeyError: 'wanted'"
    ]
    assert system.read("/value") == "5"


def unit_python(system: System) -> str:
    (unit,) = (
        change
        for change in boot_state.BootState(system, 10, "sriov_vfs").changes({"ports": [1]})
        if change.attribute == "unit"
    )
    unit.act()
    lines = (system.read(boot_state.UNIT) or "").splitlines()
    return next(line for line in lines if line.startswith("ExecStart=")).split("=")[1].split()[0]


def root_python(system: System, path: str) -> str:
    system.write_file(path, "", 0o755)
    return path


def test_the_python_of_the_unit_changes_only_if_it_was_removed_or_can_be_changed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System(str(tmp_path))
    # programs of the distribution in place of two interpreters: they are not run
    first, second = (os.path.realpath("/usr/bin/" + name) for name in ("env", "id"))
    monkeypatch.setattr(sys, "executable", first)
    assert unit_python(system) == root_python(system, first)
    monkeypatch.setattr(sys, "executable", second)
    kept = boot_state.BootState(system, 10, "sriov_vfs").changes({"ports": [1]})
    assert "unit" not in [change.attribute for change in kept]
    os.chmod(system.path(first), 0o777)
    assert unit_python(system) == root_python(system, second)
    system.remove_file(second)
    monkeypatch.setattr(sys, "executable", first)
    assert unit_python(system) == first


def test_the_distributions_python_is_named_without_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_program, "GENERAL_PYTHON", "/usr/bin/python3")
    monkeypatch.setattr(sys, "executable", os.path.realpath("/usr/bin/python3"))
    assert unit_python(System(str(tmp_path))) == "/usr/bin/python3"


def test_boot_program_is_not_installed_where_a_user_can_replace_it(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    os.makedirs(system.path("/usr/local/lib"))
    os.chmod(system.path("/usr/local/lib"), 0o777)
    with pytest.raises(Refused, match="/usr/local/lib is writable by all users.*Remedy: run 'chown root:"):
        boot_state.BootState(system, 10, "sriov_vfs").changes({"ports": [1]})
    assert not system.exists(boot_state.UNIT)
