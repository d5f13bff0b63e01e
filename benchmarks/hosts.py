# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ratios of the host phase, measured alternately in one run: A, B, A, B, …, and the median of the pairs' ratios.

Two labs must be up: ``bench`` with eight rails and ``bench-one`` with one; `make bench` sees to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from benchmarks.figures import BIN, PAIRS, ROOT, ratio, say


class Run(t.NamedTuple):
    """One playbook run: wall seconds and its module executions."""

    seconds: float
    records: list[dict[str, t.Any]]

    def executions(self, host: str) -> int:
        return sum(int(record["executions"]) for record in self.records if record["host"] == host)

    def changed(self) -> bool:
        return any(record["changed"] for record in self.records)


def play(inventory: str, playbook: str) -> Run:
    lab = "bench-one" if inventory == "lab-one-rail" else "bench"
    with tempfile.TemporaryDirectory() as scratch:
        timeline = Path(scratch) / "timeline.json"
        env = dict(
            os.environ,
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
            ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "benchmarks/callback"),
            ANSIBLE_CALLBACKS_ENABLED="timeline",
            RAILYARD_LAB=lab,
            RAILYARD_TIMELINE=str(timeline),
        )
        start = time.monotonic()
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), "-i", "inventories/" + inventory, playbook],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - start
        if done.returncode:
            sys.exit("%s with %s failed:\n%s%s" % (playbook, inventory, done.stdout, done.stderr))
        return Run(seconds, json.loads(timeline.read_text()))


def forget_bytecode() -> None:
    """Remove the lab's cache of bytecode on the guests, so that their Python compiles modules as on a server."""
    for lab in ("bench", "bench-one"):
        for node in ("node-1", "node-2"):
            command = [str(ROOT / "lab/lab"), "ssh", "--name", lab, node]
            subprocess.run([*command, "sudo rm -f /usr/lib/python3/dist-packages/railyard-lab.pth"], check=True)


def main() -> int:
    forget_bytecode()
    print("Bringing the labs to the converged state", flush=True)
    play("lab", "playbooks/hosts.yml")
    play("lab-one-rail", "playbooks/hosts.yml")

    eight: list[Run] = []
    one: list[Run] = []
    for _pair in range(PAIRS):
        eight.append(play("lab", "playbooks/hosts.yml"))
        one.append(play("lab-one-rail", "playbooks/hosts.yml"))
    if any(run.changed() for run in eight + one):
        sys.exit("a converged run changed something: these would not be times of a converged phase")
    host = eight[0].records[0]["host"]
    say("module executions a node, 8 rails / 1 rail", "%d / %d" % (eight[0].executions(host), one[0].executions(host)))
    say(
        "converged host phase, 8 rails / 1 rail, wall",
        ratio([run.seconds for run in eight], [run.seconds for run in one]),
    )

    by_hand = [play("lab", "benchmarks/per_rail.yml") for _run in range(1)]
    say("module executions a node, a command a rail and step", str(by_hand[0].executions(host)))
    say(
        "a command a rail and step / this collection, 8 rails, wall",
        ratio([run.seconds for run in by_hand], [run.seconds for run in eight]),
    )

    times: dict[str, list[float]] = {}
    for _round in range(PAIRS):
        for record in play("lab", "benchmarks/modules.yml").records:
            times.setdefault(record["action"], []).append(record["seconds"])
    for action in times:
        if action != "ping":
            say("%s / ping, converged node" % action, ratio(times[action], times["ping"]))
    return 0
