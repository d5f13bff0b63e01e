# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the planner scales: 4,096 nodes of 8 rails, every port written out, with a prefix per node and rail.

Each figure is of a separate process, so that runs do not share memory. The runs of a pair follow each other
directly, and a figure is the median. Seconds are the processor's: all of it runs on one, and what else the machine is
doing does not count. `docs/benchmarks.md` has the figures and what costs most.
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
fabric: {name: scale, attachment: %s, provider: network-operator, mtu: 4200%s, pods_per_node: 8}
addresses: {mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 14, node_prefix: 27, gateway: first}
rails: {count: %d, name: "gpu{n:02}"}
profiles:
  hgx:
    ports:
"""
PORT = '      gpu%02d: {netdev: rail%d, pci: "0000:%02x:00.0", gpu: %d}\n'
NODE = "  ai-%04d: {profile: hgx, address: 172.20.%d.%d, index: %d%s}\n"
RECORD = '- {node: ai-%04d, rail: gpu%02d, netdev: rail%d, pci: "0000:%02x:00.0", gpu: %d, address: 10.%d.%d.%d/27}\n'


class Run(t.NamedTuple):
    """Processor seconds, without the start of the interpreter if noted, and peak memory in MB (10^6)."""

    seconds: float
    megabytes: float


def fabric(nodes: int, attachment: str = "macvlan", ports: bool = True) -> str:
    """Return a fabric file with an entry per node, and with ``ports`` an entry per port."""
    lines = [HEAD % (attachment, ", vfs: {count: 8}" if attachment == "sriov" else "", RAILS)]
    profile = [PORT % (rail + 1, rail, 16 * rail + 10, rail) for rail in range(RAILS)]
    own = ",\n    ports: {%s}" % ", ".join(port.strip() for port in profile) if ports else ""
    lines += profile + ["nodes:\n"]
    lines += [NODE % (node + 1, node >> 8, node & 255, node + 1, own) for node in range(nodes)]
    return "".join(lines)


def records(nodes: int) -> str:
    """Return a YAML file with a record per port, with the values that a user would write for each."""
    lines = []
    for node in range(nodes):
        for rail in range(RAILS):
            port = (node + 1, rail + 1, rail, 16 * rail + 10, rail)
            lines.append(RECORD % (port + (rail * 4 + (node >> 11), node >> 3 & 255, (node & 7) * 32 + 2)))
    return "".join(lines)


def measured(arguments: t.Sequence[str], **environment: str) -> Run:
    """Run a command. The seconds are those that it prints as ``seconds=...``, else of the whole process."""
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


def started(path: Path) -> Run:
    """Measure a playbook until the end of its first task, on one node."""
    playbook = ROOT / "benchmarks/first_task.yml"
    return measured(
        [str(BIN / "ansible-playbook"), "-i", str(path), str(playbook)], ANSIBLE_CONFIG=str(ROOT / "ansible.cfg")
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        files = {}
        for name, text in (
            ("one", fabric(NODES)),
            ("records", records(NODES)),
            ("two", fabric(2 * NODES)),
            ("lines", fabric(NODES, ports=False)),
            ("sriov", fabric(NODES, "sriov", ports=False)),
        ):
            (here / name).mkdir()
            files[name] = here / name / "fabric.yml"
            files[name].write_text(text)
        return _figures(files)


def _figures(files: t.Mapping[str, Path]) -> int:
    runs: dict[str, list[Run]] = {}
    for _pair in range(PAIRS):
        for name, each in files.items():
            runs.setdefault(name, []).append(child("records" if name == "records" else "plan", each))
        runs.setdefault("document", []).append(child("document", files["one"]))
        runs.setdefault("inventory", []).append(listed(files["one"]))
        runs.setdefault("start", []).append(started(files["one"]))

    def seconds(text: str, name: str) -> None:
        say(text, spread([run.seconds for run in runs[name]], "s"))

    def memory(text: str, name: str) -> None:
        say(text, spread([run.megabytes for run in runs[name]], "MB"))

    def against(text: str, name: str, other: str) -> None:
        say(text, ratio([run.seconds for run in runs[name]], [run.seconds for run in runs[other]]))

    seconds("%d nodes x %d rails, file to linted plan (goal: at most 5 s)" % (NODES, RAILS), "one")
    memory("  memory at the most (goal: at most 600 MB)", "one")
    against("  / as many records read from YAML, written as JSON (goal: at most 3)", "one", "records")
    against("  %d nodes / %d nodes (goal: at most 2.1)" % (2 * NODES, NODES), "two", "one")
    memory("  memory of %d nodes at the most" % (2 * NODES), "two")
    seconds("a line per node, and ports only in the profile", "lines")
    seconds("the same with 8 VFs per port", "sriov")
    memory("  memory at the most", "sriov")
    seconds("file to linted plan, and all host variables as JSON", "document")
    against("  / as many records read from YAML, written as JSON", "document", "records")
    seconds("ansible-playbook, to the end of the first task (goal: at most 10 s)", "start")
    memory("  memory at the most", "start")
    seconds("ansible-inventory --list", "inventory")
    memory("  memory at the most", "inventory")
    against("  / file to linted plan, and all host variables as JSON", "inventory", "document")
    return 0
