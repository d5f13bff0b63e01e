# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the planner scales: 4,096 nodes of 8 rails, every node written out, with a prefix per node and rail.

Each figure is of a process of its own, so that one's memory is not another's. The runs of a pair follow each other
directly, and a figure is the median. Seconds are the processor's: all of it runs on one, and what else the machine is
doing does not count. `docs/benchmarks.md` says what was seen and what costs most.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from benchmarks.figures import BIN, PAIRS, ROOT, ratio, say, spread

NODES, RAILS = 4096, 8

HEAD = """\
plugin: railyard.fabric.rails
fabric: {name: scale, attachment: %s, provider: spiderpool, mtu: 4200%s, pods_per_node: 8}
addresses: {mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 14, node_prefix: 27, gateway: first}
rails: {count: %d, name: "gpu{n:02}"}
profiles:
  hgx:
    ports:
"""
PORT = '      gpu%02d: {netdev: rail%d, pci: "0000:%02x:00.0", gpu: %d}\n'
NODE = "  ai-%04d: {profile: hgx, address: 172.20.%d.%d, index: %d}\n"
RECORD = '- {node: ai-%04d, rail: gpu%02d, netdev: rail%d, pci: "0000:%02x:00.0", gpu: %d, address: 10.%d.%d.%d/27}\n'


class Run(t.NamedTuple):
    """Processor seconds, without the start of the interpreter where it says so, and MB (10^6) of memory at the most."""

    seconds: float
    megabytes: float


def fabric(nodes: int, attachment: str = "macvlan") -> str:
    """A fabric file in which each node has a line of its own."""
    lines = [HEAD % (attachment, ", vfs: {count: 8}" if attachment == "sriov" else "", RAILS)]
    lines += [PORT % (rail + 1, rail, 16 * rail + 10, rail) for rail in range(RAILS)]
    lines.append("nodes:\n")
    lines += [NODE % (node + 1, node >> 8, node & 255, node + 1) for node in range(nodes)]
    return "".join(lines)


def records(nodes: int) -> str:
    """As many records as there are ports, of the values that a person would write for each."""
    lines = []
    for node in range(nodes):
        for rail in range(RAILS):
            port = (node + 1, rail + 1, rail, 16 * rail + 10, rail)
            lines.append(RECORD % (port + (rail * 4 + (node >> 11), node >> 3 & 255, (node & 7) * 32 + 2)))
    return "".join(lines)


def measured(arguments: t.Sequence[str], **environment: str) -> Run:
    """Run a command to its end. The seconds are what it prints as ``seconds=...``, else of all of it."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            arguments, cwd=ROOT, env=dict(os.environ, **environment), stdout=out, stdin=subprocess.DEVNULL
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        first = out.readline().decode()
        if process.returncode:
            sys.exit("%s failed:\n%s%s" % (" ".join(arguments), first, out.read().decode()))
    own = first.startswith("seconds=")
    seconds = float(first.partition("=")[2]) if own else usage.ru_utime + usage.ru_stime
    return Run(seconds, usage.ru_maxrss * 1024 / 1e6)


def child(what: str, path: Path) -> Run:
    return measured([sys.executable, "-m", "benchmarks.planner_child", what, str(path)])


def listed(path: Path) -> Run:
    return measured(
        [str(BIN / "ansible-inventory"), "-i", str(path), "--list"], ANSIBLE_CONFIG=str(ROOT / "ansible.cfg")
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        files = {}
        for name, text in (
            ("one", fabric(NODES)),
            ("two", fabric(2 * NODES)),
            ("sriov", fabric(NODES, "sriov")),
            ("records", records(NODES)),
        ):
            (here / name).mkdir()
            files[name] = here / name / "fabric.yml"
            files[name].write_text(text)
        return _figures(files)


def _figures(files: t.Mapping[str, Path]) -> int:
    one, two, sriov, plain, document, inventory = ([] for _each in range(6))  # type: tuple[list[Run], ...]
    for _pair in range(PAIRS):
        one.append(child("plan", files["one"]))
        plain.append(child("records", files["records"]))
        two.append(child("plan", files["two"]))
        sriov.append(child("plan", files["sriov"]))
        document.append(child("document", files["one"]))
        inventory.append(listed(files["one"]))

    what = "%d nodes x %d rails" % (NODES, RAILS)
    say("%s, file to linted plan (goal: at most 5 s)" % what, spread([run.seconds for run in one], "s"))
    say("  its memory at the most (goal: at most 600 MB)", spread([run.megabytes for run in one], "MB"))
    say("  the same with 8 VFs a port", spread([run.seconds for run in sriov], "s"))
    say("  its memory at the most", spread([run.megabytes for run in sriov], "MB"))
    say("%d nodes / %d nodes (goal: at most 2.1)" % (2 * NODES, NODES), _ratio(two, one))
    say("  memory of %d nodes at the most" % (2 * NODES), spread([run.megabytes for run in two], "MB"))
    say("linted plan / as many records read from YAML, written as JSON (goal: at most 3)", _ratio(one, plain))
    say("file to linted plan, and all host variables as JSON", spread([run.seconds for run in document], "s"))
    say("  / as many records read from YAML, written as JSON", _ratio(document, plain))
    say("ansible-inventory --list, all of it", spread([run.seconds for run in inventory], "s"))
    say("  its memory at the most", spread([run.megabytes for run in inventory], "MB"))
    say("  / file to linted plan", _ratio(inventory, one))
    return 0


def _ratio(numerators: t.Sequence[Run], denominators: t.Sequence[Run]) -> str:
    return ratio([run.seconds for run in numerators], [run.seconds for run in denominators])
