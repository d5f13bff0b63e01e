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
    before = huge()
    moved = plan_memory.collapse()
    assert all(each == bytes([number % 251]) * 4096 for number, each in enumerate(held))
    # Linux before 6.1 moves nothing
    assert not moved or huge() > before
    assert plan_memory.collapse(str(tmp_path / "maps")) == 0


def test_only_private_memory_is_moved(tmp_path: Path) -> None:
    """The address of a file, of shared memory or of the stack is not passed to the kernel."""
    maps = tmp_path / "maps"
    maps.write_text(
        "7f0000000000-7f0000400000 rw-s 00000000 00:01 1\n"
        "7f0000400000-7f0000800000 rw-p 00000000 fe:00 7 /usr/lib/x.so\n"
        "7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0 [stack]\n"
    )
    assert plan_memory.collapse(str(maps)) == 0
