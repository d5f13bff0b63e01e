# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block of settings in NCCL's and UCX's files, beside what others write there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.settings_files import SettingsFiles

FILE = "/etc/nccl.conf"
BLOCK = "# BEGIN railyard.fabric\nNCCL_IB_HCA==mlx5_gpu01:1\n# END railyard.fabric\n"
OTHERS = b"NCCL_DEBUG=INFO\n# caf\xe9\n"


@pytest.fixture
def node(tmp_path: Path) -> System:
    return System(str(tmp_path))


def run(node: System, state: str = "present") -> int:
    """How many changes it makes."""
    one = SettingsFiles({"files": [{"path": FILE, "settings": {"NCCL_IB_HCA": "=mlx5_gpu01:1"}}], "state": state}, node)
    seen = one.observe()
    changes = one.changes(seen)
    converge(one, seen, changes, [])
    return len(changes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, BLOCK.encode()),
        (OTHERS, BLOCK.encode() + OTHERS),
        (OTHERS + BLOCK.replace("gpu01", "gpu09").encode() + OTHERS, OTHERS + BLOCK.encode() + OTHERS),
    ],
)
def test_the_block_is_first_or_where_it_was(node: System, before: bytes | None, after: bytes) -> None:
    if before is not None:
        node.write_file(FILE, before)
    assert run(node) == 1 and node.read_bytes(FILE) == after
    assert run(node) == 0


def test_lines_of_others_stay_when_the_block_is_removed(node: System) -> None:
    node.write_file(FILE, OTHERS, 0o600)
    assert run(node, "absent") == 0
    run(node)
    assert node.mode(FILE) == 0o644
    assert run(node, "absent") == 1 and node.read_bytes(FILE) == OTHERS
    node.write_file(FILE, BLOCK)
    assert run(node, "absent") == 1 and not node.exists(FILE)
    assert run(node, "absent") == 0


def test_all_users_can_read_it(node: System) -> None:
    node.write_file(FILE, BLOCK, 0o600)
    assert run(node) == 1 and node.mode(FILE) == 0o644


def test_a_link_to_the_file_stays(node: System, tmp_path: Path) -> None:
    kept = tmp_path / "repository.conf"
    kept.write_bytes(OTHERS)
    link = tmp_path / FILE.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to(kept)
    assert run(node) == 1 and kept.read_bytes() == BLOCK.encode() + OTHERS
    assert run(node, "absent") == 1 and kept.read_bytes() == OTHERS
    kept.write_bytes(b"")
    assert run(node) == 1 and run(node) == 0
    assert run(node, "absent") == 1 and run(node, "absent") == 0
    assert link.is_symlink() and kept.read_bytes() == b""


def test_a_link_to_nothing_is_refused_in_check_mode_too(node: System, tmp_path: Path) -> None:
    link = tmp_path / FILE.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to("nowhere")
    with pytest.raises(RailyardError, match="is a symbolic link to nowhere, which does not exist") as error:
        run(node)
    assert error.value.place == FILE and error.value.remedy
