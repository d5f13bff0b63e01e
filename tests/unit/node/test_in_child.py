# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls made by a child process."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_child import apart
from tests.waiting import wait_for


def test_a_call_runs_in_a_child(tmp_path: Path) -> None:
    assert apart(lambda: (tmp_path / "pid").write_text(str(os.getpid())) and None, 120) is True
    assert int((tmp_path / "pid").read_text()) != os.getpid()


def test_an_error_of_the_child_is_raised_in_the_parent() -> None:
    def act() -> None:
        raise NetlinkError(errno.EBUSY, "in use", "rxe_gpu01")

    with pytest.raises(NetlinkError, match=r"^rxe_gpu01: .*\(EBUSY\): in use") as caught:
        apart(act, 120)
    assert caught.value.errno == errno.EBUSY


def test_a_call_that_blocks_in_the_child_times_out_in_the_parent(tmp_path: Path) -> None:
    gate, done = tmp_path / "gate", tmp_path / "done"

    def act() -> None:
        while not gate.exists():
            time.sleep(0.01)
        done.touch()

    assert apart(act, 0.05) is False
    assert not done.exists()
    gate.touch()
    wait_for(done.exists)


def test_a_child_that_dies_is_reported() -> None:
    with pytest.raises(ChildProcessError):
        apart(lambda: os._exit(1), 120)
