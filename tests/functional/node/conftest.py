# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed rail agent, and a node that runs it."""

from __future__ import annotations

import shutil
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from tests.functional.node.agent_program import Node
from tests.unit.node.packed import reached

ENTRY = "_node.agent.agent_main"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    # The collection installs the agent with bytecode.
    path.write_bytes(packed_program.pack(sorted(reached(ENTRY)), ENTRY, compiled=True))
    return path


@pytest.fixture
def node(program: Path) -> t.Iterator[Node]:
    # not tmp_path: the path of a unix socket has at most 107 bytes
    root = Path(tempfile.mkdtemp(prefix="agent", dir="/tmp"))
    node = Node(root, program)
    try:
        yield node
    finally:
        for process in (node.agent, node.network):
            if process:
                process.kill()
                process.wait()
        shutil.rmtree(root)
