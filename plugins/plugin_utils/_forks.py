# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The number of nodes on which Ansible works at a time, and the recommended number."""

from __future__ import annotations

# A worker uses a processor for 0.06 s to 0.08 s per node (docs/benchmarks.md), and waits for the node for the rest of a
# module execution. If that takes 2 s, this many workers keep a processor busy.
PER_PROCESSOR = 32


def recommended(nodes: int, processors: int) -> int:
    """Return the recommended forks for a number of nodes, and of processors of the control node."""
    return max(1, min(nodes, PER_PROCESSOR * processors))


def advice(forks: int, nodes: int, processors: int) -> str:
    """Return a message if forks are fewer than recommended; else an empty text."""
    most = recommended(nodes, processors)
    if forks >= most:
        return ""
    return (
        "Ansible works on %d nodes at a time (forks). Recommended for %d nodes and %d processor%s: %d.\nRemedy: %s."
        % (
            forks,
            nodes,
            processors,
            "" if processors == 1 else "s",
            most,
            "set forks = %d in the section [defaults] of ansible.cfg, or add -f %d" % (most, most),
        )
    )
