# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""verify.yml as a user sees it: healthy, broken and half-dead nodes, and a first run, in 80, 120 and 200 columns.

The files are written by ``python -m tests.terminal_states``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import terminal_states
from tests.terminal_states import DIRECTORY, LINES_MAX, SIZES, STATES, WIDTHS

# the cheapest size of each state; the others are compared in the long run
CASES = [
    pytest.param(state, nodes, marks=[pytest.mark.long] if nodes > 2 else [])
    for state in STATES
    for nodes in SIZES
    if (DIRECTORY / ("%s-%d-80.txt" % (state, nodes))).exists()
]


@pytest.mark.parametrize(("state", "nodes"), CASES)
def test_a_run_prints_what_was_reviewed(tmp_path: Path, state: str, nodes: int) -> None:
    terminal_states.prepare(tmp_path, state, nodes)
    for width in WIDTHS if nodes > 2 else WIDTHS[:1]:
        path = DIRECTORY / ("%s-%d-%d.txt" % (state, nodes, width))
        found = terminal_states.output(tmp_path, width, terminal_states.forks(state, nodes))
        assert found.splitlines() == path.read_text().splitlines(), "run python -m tests.terminal_states"


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.txt")), ids=lambda path: path.stem)
def test_the_output_fits_a_screen(path: Path) -> None:
    width = int(path.stem.rpartition("-")[2])
    lines = path.read_text().splitlines()
    assert len(lines) <= LINES_MAX
    # commands are copied, so they are not broken; Ansible formats its recap itself
    text = [line for line in lines[: lines.index("PLAY RECAP " + "*" * 69)] if "ansible-playbook" not in line]
    assert not [line for line in text if len(line) > width]
    assert "\033" not in path.read_text() and "changed:" not in path.read_text()
