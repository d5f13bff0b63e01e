# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of a parameter in modprobe.d, by the rules of modprobe.d(5) and of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.modprobe import (
    Parameter,
    boolean,
    config_files,
)

MODE = Parameter("ib_core", "netns_mode")


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("options ib_core netns_mode=0\n", [False]),
        ("options ib_core netns_mode=1", [True]),
        ("options ib-core netns_mode=N\n", [False]),
        ("options ib_core netns-mode=y\n", [True]),
        ("options ib_core netns_mode=off\n", [False]),
        ('options ib_core netns_mode="0"\n', [False]),
        ("options ib_core netns_mode\n", [True]),
        ("  options\tib_core   send_queue_size=4  netns_mode=0\n", [False]),
        ("options ib_core netns_mode=0 netns_mode=1\n", [False, True]),
        ("options ib_core netns_mode=0 # why\n", [False]),
        ("options ib_core \\\n  netns_mode=0\n", [False]),
        ("options ib_core netns_mode=maybe\n", [None]),
        ("# options ib_core netns_mode=0\n", []),
        ("#options ib_core netns_mode=0\n", []),
        ("# goes on \\\noptions ib_core netns_mode=0\n", []),
        ("options mlx5_core netns_mode=0\n", []),
        ("options ib_core netns_mode2=0\n", []),
        ("options ib_core\n", []),
        ("install ib_core netns_mode=0\n", []),
        ("", []),
    ],
)
def test_all_settings_of_a_parameter_are_found(text: str, values: list[bool | None]) -> None:
    assert [setting.value for setting in MODE.settings("x", text)] == values


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("options ib_core netns_mode=0\n", "# options ib_core netns_mode=0\n"),
        ("options ib_core a=1 netns_mode=0\n", "options ib_core a=1\n"),
        ("options ib_core netns-mode=0 a=1\n", "options ib_core a=1\n"),
        ("options ib_core netns_mode=0 a=1 netns_mode=1\n", "options ib_core a=1\n"),
        ("# kept\noptions ib_core netns_mode=0 a=1\nblacklist b\n", "# kept\noptions ib_core a=1\nblacklist b\n"),
        ("options ib_core \\\nnetns_mode=0 a=1\n", "options ib_core \\\n a=1\n"),
        ("options ib_core netns_mode=0\\\n a=1\n", "options ib_core\\\n a=1\n"),
        ("options ib_core \\\n  netns_mode=0\noptions x y=1\n", "# options ib_core netns_mode=0\noptions x y=1\n"),
        ("options ib_core netns_mode2=0\n", "options ib_core netns_mode2=0\n"),
        ("# options ib_core netns_mode=0 \\\n kept\n", "# options ib_core netns_mode=0 \\\n kept\n"),
    ],
)
def test_a_setting_is_removed_and_other_text_stays(text: str, after: str) -> None:
    assert MODE.removed(text) == after
    assert MODE.settings("x", MODE.removed(text)) == []


def test_files_are_read_by_name_and_hide_those_of_later_directories(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/modprobe.d/b.conf", "options ib_core netns_mode=0\n")
    put(tmp_path, "etc/modprobe.d/b.conf", "# nothing\n")
    put(tmp_path, "lib/modprobe.d/a.conf", "options ib_core netns_mode=0\n")
    put(tmp_path, "run/modprobe.d/c.conf", "options ib_core netns_mode=1\n")
    put(tmp_path, "etc/modprobe.d/d.conf.bak", "options ib_core netns_mode=0\n")
    system = System(str(tmp_path))
    assert config_files(system) == ["/lib/modprobe.d/a.conf", "/etc/modprobe.d/b.conf", "/run/modprobe.d/c.conf"]
    assert {path: [s.value for s in settings] for path, settings in MODE.files(system).items()} == {
        "/lib/modprobe.d/a.conf": [False],
        "/run/modprobe.d/c.conf": [True],
    }


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("root=/dev/vda ib_core.netns_mode=0 quiet", False),
        ("ib-core.netns-mode=1", True),
        ("ib_core.netns_mode=0 ib_core.netns_mode=1", True),
        ("ib_core.netns_mode", True),
        ("mlx5_core.netns_mode=0 -- ib_core.netns_mode=0", "absent"),
    ],
)
def test_a_setting_on_the_kernel_command_line_is_found(tmp_path: Path, line: str, value: object) -> None:
    put(tmp_path, "proc/cmdline", line + "\n")
    found = MODE.on_command_line(System(str(tmp_path)))
    assert (found.value if found else "absent") == value


@pytest.mark.parametrize(
    ("word", "value"), [("a=T", True), ("a=f", False), ("a=on", True), ("a=", None), ("a=2", None)]
)
def test_words_are_parsed_as_the_kernels_booleans(word: str, value: bool | None) -> None:
    assert boolean(word) is value
