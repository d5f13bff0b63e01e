# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent while nothing happens: memory and processor time; with a kubelet's side of the protocol, no guests."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from benchmarks.figures import say
from tests.functional.node.agent_program import Node, node_file
from tests.functional.node.conftest import ENTRY
from tests.functional.node.fake_kubelet import Kubelet
from tests.unit.node.agent_files import rail, slot
from tests.unit.node.packed import reached

SECONDS = int(os.environ.get("RAILYARD_BENCH_IDLE", "60"))
RAILS, SLOTS = 8, 8


def main() -> int:
    root = Path(tempfile.mkdtemp(prefix="agent", dir="/tmp"))
    program = root / "agent.pyz"
    program.write_bytes(packed_program.pack(sorted(reached(ENTRY)), ENTRY))
    node = Node(root, program)
    kubelet = Kubelet(root)
    try:
        node.write(node_file(rails=[_rail(number) for number in range(1, RAILS + 1)]))
        agent = node.start()
        for name in ["rails", *("gpu%02d" % number for number in range(1, RAILS + 1))]:
            kubelet.devices("railyard.fabric/" + name)
        # the start is not part of the figures
        time.sleep(5)
        begun = processor_seconds(agent.pid)
        time.sleep(SECONDS)
        used = processor_seconds(agent.pid) - begun
        text = "%d rails of %d slots" % (RAILS, SLOTS)
        say("the agent with nothing to do, %s: resident memory (goal: at most 60 MB)" % text, resident(agent.pid))
        say("  processor time in %d s (goal: not measurable)" % SECONDS, "%.2f s" % used)
        node.stop()
    finally:
        if node.agent:
            node.agent.kill()
        kubelet.stop()
        shutil.rmtree(root)
    return 0


def _rail(number: int) -> dict[str, object]:
    name = "gpu%02d" % number
    slots = [slot(number, each, "rails" if each < SLOTS // 2 else name) for each in range(SLOTS)]
    return rail(number, pci="0000:%02x:00.0" % number, slots=slots)


def processor_seconds(pid: int) -> float:
    fields = Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
    # utime and stime: fields 14 and 15 of proc(5), the third of which is the first here
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> str:
    status = Path("/proc/%d/status" % pid).read_text()
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return "%.0f MB" % (kilobytes * 1024 / 1e6)
