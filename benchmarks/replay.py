# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of the playbooks on the control node, with many recorded nodes: ``python -m benchmarks replay``.

A connection plugin answers module executions from `benchmarks/recordings`, so that only the control node works. The
cost of SSH processes is not included. `docs/benchmarks.md` has the figures.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

from benchmarks import recordings
from benchmarks.figures import BIN, ROOT, say

PLAYBOOKS = ("hosts", "verify", "drift", "discover", "site", "status")
# Seconds between two samples of the memory of all processes.
_SAMPLE = 2.0


class Replayed(t.NamedTuple):
    """A run: wall and processor seconds, bytes of memory, seconds per task, and executions per module."""

    seconds: float
    processor: float
    memory: int
    tasks: list[dict[str, t.Any]]
    executions: dict[str, int]
    output: str
    status: int

    @property
    def results(self) -> int:
        return sum(task["results"] for task in self.tasks)


def prepare(directory: Path, nodes: int) -> None:
    """Write the fabric file, the values of each node, and the recordings to a directory for the connection plugin."""
    from benchmarks import replay_fabric

    text = replay_fabric.fabric(nodes)
    (directory / "fabric.yml").write_text(text)
    shutil.copytree(recordings.DIRECTORY, directory / "recordings", dirs_exist_ok=True)
    (directory / "values").mkdir(exist_ok=True)
    used = recordings.places()
    made = replay_fabric.plan(text)
    for planned in made.nodes:
        known = recordings.values(made.node_vars(planned))
        held = {place: known.get(place, "") for place in used}
        (directory / "values" / str(planned.node.address)).write_text(json.dumps(held))
    # a plain inventory, without a fabric file
    hosts = {planned.node.name: {"ansible_host": str(planned.node.address)} for planned in made.nodes}
    (directory / "plain.json").write_text(json.dumps({"all": {"hosts": hosts}}))


class Ended(t.NamedTuple):
    """The exit status and output of a command, its elapsed and processor seconds, and its peak memory in bytes."""

    status: int
    output: str
    seconds: float = 0
    processor: float = 0
    memory: int = 0


def _measured(command: list[str], env: t.Mapping[str, str]) -> Ended:
    """Run a command as a separate process, and measure it."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **env},
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        with _Memory(process.pid) as memory:
            _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0)
        output = out.read().decode()
    peak = max(memory.peak, usage.ru_maxrss * 1024)
    return Ended(process.returncode, output, seconds, usage.ru_utime + usage.ru_stime, peak)


def play(
    directory: Path,
    playbook: str,
    *words: str,
    delay: float = 0.0,
    run: t.Callable[[list[str], t.Mapping[str, str]], Ended] = _measured,
) -> Replayed:
    """Run a playbook against the nodes of the directory."""
    (directory / "executions").write_text("")
    inventory = "plain.json" if playbook == "discover" else "fabric.yml"
    given = {"ansible_connection": "replay", "verify_report_dir": str(directory / "reports")}
    env = dict(
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "benchmarks/callback"),
        ANSIBLE_CALLBACKS_ENABLED="replayed",
        ANSIBLE_CONNECTION_PLUGINS=str(ROOT / "benchmarks/connection"),
        RAILYARD_REPLAY=str(directory),
        RAILYARD_REPLAY_DELAY=str(delay),
        RAILYARD_REPLAYED=str(directory / "tasks.json"),
    )
    if playbook == "discover":
        env["ANSIBLE_INVENTORY_ENABLED"] = "ansible.builtin.yaml"
        given["fabric_file"] = str(directory / "discovered.yml")
        with contextlib.suppress(FileNotFoundError):
            (directory / "discovered.yml").unlink()
    command = [str(BIN / "ansible-playbook"), "-i", str(directory / inventory), "playbooks/%s.yml" % playbook]
    ended = run([*command, "-e", json.dumps(given), *words], env)
    tasks = json.loads((directory / "tasks.json").read_text()) if ended.status in (0, 2) else []
    executed = collections.Counter(line.split()[0] for line in (directory / "executions").read_text().splitlines())
    return Replayed(ended.seconds, ended.processor, ended.memory, tasks, dict(executed), ended.output, ended.status)


class _Memory:
    """Peak memory of a process and its children together, in bytes. Shared pages count once."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak = 0

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_SAMPLE):
            pids = [self._pid]
            with contextlib.suppress(OSError):
                pids += map(int, Path("/proc/%d/task/%d/children" % (self._pid, self._pid)).read_text().split())
            self.peak = max(self.peak, sum(map(_proportional, pids)))


def _proportional(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it has ended."""
    try:
        lines = Path("/proc/%d/smaps_rollup" % pid).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def main(arguments: t.Sequence[str] = ()) -> int:
    from benchmarks import replay_pods

    options = _parser().parse_args(arguments)
    before: dict[tuple[str, float], tuple[int, Replayed]] = {}
    for nodes in map(int, options.nodes.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch)
            prepare(directory, nodes)
            delays = map(float, options.delay.split(","))
            for playbook, delay in itertools.product(options.playbook.split(","), delays):
                with contextlib.ExitStack() as stack:
                    words = stack.enter_context(replay_pods.cluster(directory, options.pods)) if options.pods else []
                    run = play(directory, playbook, *words, *options.words, delay=delay)
                _figures(playbook, nodes, delay, run, before.get((playbook, delay)), options.tasks)
                before[playbook, delay] = (nodes, run)
                if options.parts:
                    _parts(directory, playbook, options, delay, run)
    return 0


def _parser() -> t.Any:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m benchmarks replay", description=__doc__)
    parser.add_argument("--nodes", default="64,512,4096", help="numbers of nodes")
    parser.add_argument("--delay", default="0", help="seconds that a module execution takes")
    parser.add_argument("--playbook", default=",".join(PLAYBOOKS), help="names of playbooks")
    parser.add_argument("--parts", type=int, default=0, help="run verify or drift in so many parts too")
    parser.add_argument("--pods", type=int, default=0, help="give each N-th node a test pod, for verify")
    parser.add_argument("--tasks", action="store_true", help="print each task")
    parser.add_argument("words", nargs="*", help="further options of ansible-playbook, after --")
    return parser


def _parts(directory: Path, playbook: str, options: t.Any, delay: float, whole: Replayed) -> None:
    """Run the parts one after the other and then the verdict, and compare them with a run of all nodes."""
    names = ["%d/%d" % (number + 1, options.parts) for number in range(options.parts)]
    runs = [
        play(directory, playbook, "-e", "railyard_part=" + name, *options.words, delay=delay)
        for name in [*names, "judge"]
    ]
    for run in runs:
        if run.status:
            sys.exit(run.output)
    costs = [run.processor for run in runs]
    say(
        "  in %d parts / all nodes: processor time of the largest part; of the verdict; of all" % len(names),
        "%.2f; %.2f; %.2f" % tuple(cost / whole.processor for cost in (max(costs[:-1]), costs[-1], sum(costs))),
    )
    say("  module executions of the verdict", "%d" % sum(runs[-1].executions.values()))


def _figures(
    playbook: str, nodes: int, delay: float, run: Replayed, before: tuple[int, Replayed] | None, tasks: bool
) -> None:
    head = "%s.yml, %d nodes, %g s per module execution" % (playbook, nodes, delay)
    if run.status not in (0, 2) or not run.executions:
        sys.exit("%s ended with %d:\n%s" % (head, run.status, run.output))
    if run.status:
        print(run.output[-20000:])
    say(head, "%.1f s, processor time %.1f s, %d MB" % (run.seconds, run.processor, run.memory / 1e6))
    executions = ", ".join("%s %.2f" % (name, count / nodes) for name, count in sorted(run.executions.items()))
    say("  per node: processor time; results; module executions", "%.3f s; %.2f; %s" % (
        run.processor / nodes, run.results / nodes, executions
    ))  # fmt: skip
    if before:
        fewer, other = before
        say(
            "  / %d nodes: time, processor time, memory" % fewer,
            "%.2f, %.2f, %.2f"
            % (run.seconds / other.seconds, run.processor / other.processor, run.memory / other.memory),
        )
    say("  load average of the machine", "%.1f" % os.getloadavg()[0])
    for task in run.tasks if tasks else ():
        say(
            "    " + task["task"],
            "%(results)d results, %(seconds).2f s, processor time %(processor).2f s, "
            "main process %(main).2f s, which grows by %(grown).0f MB" % task,
        )
