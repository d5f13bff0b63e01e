# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System, run_command
from tests.unit.node.trees import no_file_left


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(str(tmp_path))


def test_a_missing_file_reads_as_none(system: System, tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/count").write_text("0x10\n")
    assert system.read("/sys/count") == "0x10"
    assert system.read_file("/sys/count") == "0x10\n"
    assert system.read_int("/sys/count") == 16
    assert system.read("/sys/nothing") is None
    assert system.read("/sys/count/below") is None
    assert system.read_int("/sys/nothing") is None
    assert system.listdir("/nowhere") == []


def test_a_file_that_cannot_be_read_is_an_error_with_a_remedy(system: System, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    with pytest.raises(RailyardError) as error:
        system.read("/dir")
    assert error.value.place == "/dir"
    assert error.value.remedy == "move the directory away"


def test_links_are_followed_inside_the_root(system: System, tmp_path: Path) -> None:
    (tmp_path / "sys/devices/pci0000:00/0000:00:01.0").mkdir(parents=True)
    (tmp_path / "sys/class").mkdir()
    os.symlink("../devices/pci0000:00/0000:00:01.0", tmp_path / "sys/class/card")
    assert system.link_name("/sys/class/card") == "0000:00:01.0"
    assert system.real_path("/sys/class/card") == "/sys/devices/pci0000:00/0000:00:01.0"
    assert system.link_name("/sys/class") is None


def test_a_written_file_is_complete_and_leaves_no_temporary_file(system: System, tmp_path: Path) -> None:
    system.write_file("/etc/railyard/file", "text\n", 0o600)
    system.write_file("/etc/railyard/file", "other\n", 0o640)
    assert (tmp_path / "etc/railyard/file").read_text() == "other\n"
    assert (tmp_path / "etc/railyard/file").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "etc/railyard") == ["file"]
    system.remove_file("/etc/railyard/file")
    system.remove_file("/etc/railyard/file")
    assert not system.exists("/etc/railyard/file")


def test_a_failed_write_keeps_the_old_file(system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system.write_file("/etc/file", "old\n")

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RailyardError, match="No space left"):
        system.write_file("/etc/file", "new\n")
    assert (tmp_path / "etc/file").read_text() == "old\n"
    assert os.listdir(tmp_path / "etc") == ["file"]


def test_a_file_of_others_is_edited_byte_for_byte(system: System, tmp_path: Path) -> None:
    path = tmp_path / "etc/others"
    path.parent.mkdir()
    path.write_bytes(b"a\xff\xc3\xa4\n")
    path.chmod(0o640)
    system.edit_file("/etc/others", (system.read_exact("/etc/others") or "") + "b\n")
    assert path.read_bytes() == b"a\xff\xc3\xa4\nb\n" and path.stat().st_mode & 0o777 == 0o640
    assert system.read_exact("/etc/none") is None
    system.edit_file("/etc/none", "new\n")
    assert (tmp_path / "etc/none").stat().st_mode & 0o777 == 0o644


def test_an_edited_file_keeps_links_owner_and_attributes(system: System, tmp_path: Path) -> None:
    kept = tmp_path / "repository/nccl.conf"
    kept.parent.mkdir()
    kept.write_text("old\n")
    kept.chmod(0o640)
    owner = (12345, 12346) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(kept, *owner)
    labelled = True
    try:
        os.setxattr(kept, "user.label", b"nccl_t")
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
        labelled = False
    (tmp_path / "etc").mkdir()
    (tmp_path / "alternatives").symlink_to("repository")
    (tmp_path / "etc/nccl.conf").symlink_to("../alternatives/nccl.conf")
    for text in ("new\n", "newer\n"):
        system.edit_file("/etc/nccl.conf", text)
    assert kept.read_text() == "newer\n" and os.listdir(kept.parent) == ["nccl.conf"]
    assert os.readlink(tmp_path / "etc/nccl.conf") == "../alternatives/nccl.conf" and os.listdir(tmp_path / "etc")
    found = kept.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (*owner, 0o640)
    assert not labelled or os.getxattr(kept, "user.label") == b"nccl_t"
    system.edit_file("/etc/nccl.conf", "newer\n", 0o644)
    assert kept.stat().st_mode & 0o7777 == 0o644 and kept.stat().st_uid == owner[0]


def test_a_link_in_place_of_our_file_is_replaced(system: System, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("secret\n")
    (tmp_path / "railyard.conf").symlink_to("shadow")
    system.write_file("/railyard.conf", "ours\n")
    assert (tmp_path / "shadow").read_text() == "secret\n" and not (tmp_path / "railyard.conf").is_symlink()
    (tmp_path / "railyard.conf").unlink()
    (tmp_path / "railyard.conf").symlink_to("shadow")
    system.remove_file("/railyard.conf")
    assert (tmp_path / "shadow").exists() and not system.exists("/railyard.conf")


@pytest.mark.parametrize("place", ["dangling", "loop", "directory", "below", "pipe"])
def test_what_cannot_be_edited_is_refused_before_it_is_changed(system: System, tmp_path: Path, place: str) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "directory").mkdir()
    (tmp_path / "below").symlink_to("directory")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    for act in (lambda: system.read_exact("/" + place), lambda: system.edit_file("/" + place, "text\n")):
        with pytest.raises(RailyardError) as error:
            act()
        assert error.value.place == "/" + place and error.value.remedy
    assert sorted(os.listdir(tmp_path)) == before


def test_a_directory_in_place_of_our_file_is_named(system: System, tmp_path: Path) -> None:
    (tmp_path / "railyard.conf").mkdir()
    with pytest.raises(RailyardError, match="cannot be written: Is a directory") as error:
        system.write_file("/railyard.conf", "text\n")
    assert error.value.remedy == "move the directory away"


def test_an_error_is_not_an_absent_file(system: System, tmp_path: Path) -> None:
    """A process that has too many open files must not find that no other program uses a device."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with no_file_left():
        for read in (system.listdir, system.read):
            with pytest.raises(RailyardError, match="cannot be read: Too many open files") as error:
                read("/directory")
            assert "ulimit" in error.value.remedy
    for ask in (system.mode, system.modified):
        with pytest.raises(RailyardError, match="cannot be read: Too many levels"):
            ask("/loop")


def test_a_failed_removal_or_link_is_an_error_with_a_remedy(system: System, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    for place, act in (
        ("/directory", lambda: system.remove_file("/directory")),
        ("/directory", lambda: system.symlink("/file", "/directory")),
        ("/file/link", lambda: system.symlink("/file", "/file/link")),
    ):
        with pytest.raises(RailyardError) as error:
            act()
        assert error.value.place == place and error.value.remedy
    # what is below a file is not there
    system.remove_file("/file/below")


def test_commands_report_how_they_ended() -> None:
    assert run_command([sys.executable, "-c", "print('x'); raise SystemExit(3)"], 120) == (3, "x\n", "")
    assert run_command(["/no/such/program"], 30).rc == 127
    assert run_command([sys.executable, "-c", "import time; time.sleep(600)"], 0.2).rc == 124


def test_a_program_that_cannot_be_killed_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvidia-smi while it waits in the kernel for a GPU that does not answer."""
    left: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: left.append(process))
    assert run_command([sys.executable, "-c", "import time; time.sleep(600)"], 0.2).rc == 124
    monkeypatch.undo()
    assert [process.poll() for process in left] == [None]
    left[0].kill()
    left[0].wait()


def test_a_failed_required_command_is_an_error_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(RailyardError, match="exit status 1: it is broken") as error:
        System(str(tmp_path)).check([sys.executable, "-c", "raise SystemExit('it is broken')"], "repair it")
    assert str(error.value).endswith("Remedy: repair it.")


def test_all_errors_are_reported_together() -> None:
    first = RailyardError("is too large", "ports[0].mtu", "lower it")
    second = RailyardError("is missing", "ports[1].pci")
    raise_all([])
    with pytest.raises(RailyardError) as one:
        raise_all([first])
    assert one.value is first
    with pytest.raises(Errors) as both:
        raise_all([first, second])
    assert str(both.value) == "ports[0].mtu: is too large. Remedy: lower it.\nports[1].pci: is missing."
