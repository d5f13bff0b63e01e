# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interpreters and places of programs that root executes: only those that no other user can replace."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program, root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

PYTHON = "/opt/railyard/bin/python3"


@pytest.fixture
def system(tmp_path: Path) -> System:
    system = System(str(tmp_path))
    system.write_file("/opt/railyard/bin/python3.11", "", 0o755)
    system.symlink("python3.11", PYTHON)
    os.makedirs(system.path("/opt/railyard/lib/python3.11/site-packages"))
    assert root_owned.why_not_python(system, PYTHON) == ""
    return system


@pytest.mark.parametrize(
    "path",
    [
        "/opt/railyard/bin/python3.11",
        "/opt/railyard/bin",
        "/opt",
        "/opt/railyard/lib/python3.11",
        "/opt/railyard/lib/python3.11/site-packages",
    ],
)
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_an_interpreter_is_not_used_if_a_part_of_it_is_writable_by_others(system: System, path: str, mode: int) -> None:
    os.chmod(system.path(path), mode)
    writers = "the group with ID %d" % os.stat(system.path(path)).st_gid if mode == 0o775 else "all users"
    assert root_owned.why_not_python(system, PYTHON) == "%s is writable by %s" % (path, writers)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("path", ["/opt/railyard/bin/python3", "/opt/railyard/bin/python3.11", "/opt/railyard", "/opt"])
def test_an_interpreter_is_not_used_if_a_part_of_it_belongs_to_a_user(system: System, path: str) -> None:
    os.chown(system.path(path), 65534, 0, follow_symlinks=False)
    assert root_owned.why_not_python(system, PYTHON) == "%s belongs to the user with ID 65534" % path


def test_links_are_followed_to_their_end(system: System) -> None:
    system.write_file("/home/user/bin/python3", "", 0o755)
    os.chmod(system.path("/home/user"), 0o777)
    wrong = "/home/user is writable by all users"
    system.symlink("/home/user/bin/python3", "/usr/bin/direct")
    system.symlink("../../home/user/bin", "/usr/local/through")
    for path in ("/usr/bin/direct", "/usr/local/through/python3", "/opt/../home/user/bin/python3"):
        assert root_owned.why_not(system, path) == wrong
    system.symlink("loop", "/usr/bin/loop")
    assert "too many symbolic links" in root_owned.why_not(system, "/usr/bin/loop")
    assert root_owned.why_not(system, "/usr/bin/none") == "/usr/bin/none: no such file or directory"


def test_a_virtual_environment_of_root_with_the_libraries_of_a_user_is_not_used(system: System) -> None:
    """``python -m venv --copies`` copies the interpreter, and not its libraries."""
    system.write_file("/home/user/bin/python3.11", "", 0o755)
    os.makedirs(system.path("/home/user/lib/python3.11"))
    system.write_file("/opt/railyard/pyvenv.cfg", "home = /home/user/bin\nversion = 3.11.7\n")
    assert root_owned.why_not_python(system, PYTHON) == ""
    os.chmod(system.path("/home/user/lib"), 0o777)
    assert root_owned.why_not_python(system, PYTHON) == "/home/user/lib is writable by all users"
    os.chmod(system.path("/home/user"), 0o777)
    assert root_owned.why_not_python(system, PYTHON) == "/home/user is writable by all users"
    os.chmod(system.path("/opt/railyard/pyvenv.cfg"), 0o666)
    assert root_owned.why_not_python(system, PYTHON) == "/opt/railyard/pyvenv.cfg is writable by all users"
    # a user can write such a line into it later
    Path(system.path("/opt/railyard/pyvenv.cfg")).write_text("")
    assert root_owned.why_not_python(system, PYTHON) == "/opt/railyard/pyvenv.cfg is writable by all users"


def test_a_path_that_the_first_line_of_a_program_cannot_have_is_not_used(system: System) -> None:
    system.write_file("/opt/my python/python3", "", 0o755)
    assert "cannot have" in root_owned.why_not_python(system, "/opt/my python/python3")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_debians_group_of_usr_local_is_accepted_there_only(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {50: "staff", 60: "operators"}
    monkeypatch.setattr(root_owned.grp, "getgrgid", lambda gid: types.SimpleNamespace(gr_name=names[gid]))
    for path in ("/usr/local/lib", "/usr/lib"):
        os.makedirs(system.path(path))
    found = {}
    for gid in names:
        for path in ("/usr/local/lib", "/usr/lib"):
            os.chown(system.path(path), 0, gid)
            os.chmod(system.path(path), 0o2775)
            found[path, gid] = root_owned.why_not(system, path)
    wrong = {key: "%s is writable by the group with ID %d" % key for key in found if key != ("/usr/local/lib", 50)}
    assert found == {**wrong, ("/usr/local/lib", 50): ""}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_users_interpreter_is_replaced_or_refused(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "venv/bin/python"
    users.parent.mkdir(parents=True)
    users.symlink_to(os.path.realpath("/usr/bin/env"))
    os.chown(users, 65534, 65534, follow_symlinks=False)
    monkeypatch.setattr(sys, "executable", str(users))
    monkeypatch.setattr(packed_program, "GENERAL_PYTHON", os.path.realpath("/usr/bin/id"))
    assert packed_program.interpreter(system, None) == os.path.realpath("/usr/bin/id")
    assert packed_program.interpreter(system, PYTHON) == PYTHON
    # a service with ProtectHome cannot execute it
    assert packed_program.interpreter(system, PYTHON, ("/opt/",)) == os.path.realpath("/usr/bin/id")
    # an interpreter that an earlier run installed is checked again
    os.chown(system.path("/opt/railyard/bin/python3.11"), 65534, 0)
    assert packed_program.interpreter(system, PYTHON) == os.path.realpath("/usr/bin/id")
    monkeypatch.setattr(packed_program, "GENERAL_PYTHON", "/usr/bin/none")
    with pytest.raises(Refused) as caught:
        packed_program.interpreter(system, PYTHON)
    assert str(users) in str(caught.value) and "/usr/bin/none (" in str(caught.value)
    assert "Remedy: install python3 of the distribution" in str(caught.value)
