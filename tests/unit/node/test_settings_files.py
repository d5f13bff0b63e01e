# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block of settings in NCCL's and UCX's files, beside what others write there."""

from __future__ import annotations

from pathlib import Path

import pytest

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
