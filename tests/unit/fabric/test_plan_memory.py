# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that is moved to large pages keeps its content, and a system without them changes nothing."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import plan_memory


def huge() -> int:
    """Return the kB of this process on large pages."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))


def test_the_content_stays(tmp_path: Path) -> None:
    held = [bytes([number % 251]) * 4096 for number in range(4096)]
    moved = plan_memory.collapse()
    assert all(each == bytes([number % 251]) * 4096 for number, each in enumerate(held))
    # Linux before 6.1 moves nothing
    assert not moved or huge() > 0
    assert plan_memory.collapse(str(tmp_path / "maps")) == 0
