# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback ``railyard.fabric.rails`` as a user sees it, at 2 and at 100 nodes."""

from __future__ import annotations

import collections
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from tests.playbook import PROGRAMS, ROOT, Played, environment, play
from tests.waiting import wait_for

MTU = {"subject": "enp1s0", "attribute": "mtu", "before": 1500, "after": 4200}
PREPARED = {
    "changed": True,
    "modules": {
        "sriov": {"changed": False, "changes": []},
        "rail_ports": {"changed": True, "changes": [MTU]},
    },
}


def task(name: str, result: t.Mapping[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "canned": {"result": result, "seconds": more.pop("seconds", 0)}, **more}


def run(
    tmp_path: Path, nodes: int, tasks: list[dict[str, t.Any]], *words: str, progress: int = 0, last: str = ""
) -> Played:
    """Run a play with these tasks, and a play ``last`` without hosts."""
    playbook = tmp_path / "play.yml"
    hosts = {"name": "Prepare the hosts", "hosts": "all", "gather_facts": False, "tasks": tasks}
    playbook.write_text(json.dumps([hosts, {"name": last, "hosts": "all:!all"}] if last else [hosts]))
    inventory = ",".join("node-%d" % number for number in range(1, nodes + 1)) + ","
    (tmp_path / "action_plugins").symlink_to(ROOT / "tests/plugins/action")
    env = {"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails", "RAILYARD_PROGRESS_SECONDS": str(progress)}
    return play(playbook, *words, inventory=inventory, env=env)


def test_a_play_that_ends_at_once_has_no_heading(tmp_path: Path) -> None:
    ended = {"name": "End the play", "ansible.builtin.meta": "end_play"}
    done = run(tmp_path, 2, [ended, task("Prepare the node", PREPARED)])
    assert done.returncode == 0 and "Prepare the hosts" not in done.stdout, done.text


def test_a_last_play_without_hosts_has_no_heading_after_the_recap(tmp_path: Path) -> None:
    done = run(tmp_path, 12, [task("Prepare the node", PREPARED)], last="Fail on nodes")
    assert done.returncode == 0 and "node-[1-12] : " in done.stdout and "Fail on nodes" not in done.stdout, done.text


@pytest.mark.parametrize("nodes", [2, 12])
def test_layers_and_failures_are_shown_and_nothing_else(tmp_path: Path, nodes: int) -> None:
    not_shown = [
        {"name": "Note", "ansible.builtin.set_fact": {"noted": True}},
        {"name": "Not here", "ansible.builtin.command": "true", "when": False},
        task("Read the node", {"changed": False, "nics": []}),
    ]
    done = run(
        tmp_path,
        nodes,
        [
            *(not_shown if nodes == 2 else []),
            task("Prepare the node", PREPARED),
            task("Check", {"failed": True, "msg": "enp1s0 is missing. Remedy: insert it"}),
        ],
    )
    assert done.returncode == 2, done.text
    before, _, recap = done.stdout.partition("PLAY RECAP")
    # in whichever order the nodes answer
    first = next(line for line in before.splitlines() if "FAILED" in line)
    rest = next(line for line in before.splitlines() if "the same on" in line)
    assert before.splitlines() == [
        "",
        "Prepare the hosts",
        "  sriov: %d nodes as planned" % nodes,
        "  rail_ports: %d nodes changed: node-[1-%d]" % (nodes, nodes),
        "    enp1s0 mtu: 1500 -> 4200 on %d nodes (node-[1-%d])" % (nodes, nodes),
        first,
        "    enp1s0 is missing. Remedy: insert it",
        rest,
        "",
    ]
    assert first.startswith("  FAILED: node-") and first.endswith(": Check")
    if nodes == 2:
        assert recap.count("changed=1") == 2 and recap.count("failed=1") == 2
    else:
        assert "node-[1-12] : changed=1 unreachable=0 failed=1 (12 nodes)" in recap


def test_the_verdict_is_last(tmp_path: Path) -> None:
    done = play("playbooks/validate.yml", inventory=ROOT / "inventories/macvlan-roce",
                env={"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"})  # fmt: skip
    assert done.returncode == 0 and "fabric.yml: no findings" in done.text and "TASK [" not in done.text


def test_progress_names_the_nodes_that_have_not_answered(tmp_path: Path) -> None:
    slow = {"seconds": "{{ 12 if inventory_hostname == 'node-2' else 0 }}"}
    done = run(tmp_path, 3, [task("Reboot", {"changed": False}, **slow)], progress=2)
    lines = [line for line in done.stdout.splitlines() if "waiting for" in line]
    assert lines and lines[-1].startswith("  Reboot: ") and lines[-1].endswith(", 2 of 3 nodes; waiting for node-2")


def test_verbose_output_is_the_default_callbacks(tmp_path: Path) -> None:
    done = run(tmp_path, 1, [task("Prepare the node", PREPARED)], "-v")
    assert "TASK [Prepare the node]" in done.stdout and "changed: [node-1]" in done.stdout


def test_ignored_errors_are_marked(tmp_path: Path) -> None:
    failed = {"failed": True, "msg": "no answer"}
    done = run(tmp_path, 1, [task("Ask", failed, ignore_errors=True)])
    assert done.returncode == 0 and "  ignored: node-1: Ask\n    no answer\n" in done.stdout


# -- the end of a run

KINDS = ("complete", "failed", "exception")
# The statuses of ansible-playbook: all done, an error, a failed task; 99 after Ctrl-C.
STATUS = {"complete": (0,), "failed": (2,), "exception": (1, 4), "SIGINT": (99,), "SIGTERM": (-signal.SIGTERM,)}


class Started:
    """A run of ``ansible-playbook`` with progress each second, whose outputs and signals the test controls."""

    def __init__(self, folder: Path, kind: str, seconds: float = 2.5) -> None:
        folder.mkdir(exist_ok=True)
        self.completed = folder / "completed"
        (folder / "action_plugins").symlink_to(ROOT / "tests/plugins/action")
        tasks = [
            task("Begin", {"changed": True}),
            task("Prepare the node", {"changed": True, "msg": "x" * 9000}, seconds=seconds),
            {"name": "Complete", "ansible.builtin.copy": {"content": "", "dest": str(self.completed)}},
            task("Check", {"failed": kind == "failed", "msg": "no link"}),
        ]
        plays: list[dict[str, t.Any]] = [{"name": "Prepare the hosts", "hosts": "all", "gather_facts": False}]
        plays[0].update(tasks=tasks, vars={"ansible_python_interpreter": "{{ ansible_playbook_python }}"})
        if kind == "exception":
            plays.append({"hosts": "{{ nowhere }}", "gather_facts": False, "tasks": []})
        (folder / "play.yml").write_text(json.dumps(plays))
        self._mark = str(folder)
        self.process = subprocess.Popen(
            [PROGRAMS / "ansible-playbook", "-i", "localhost,", "-c", "local", folder / "play.yml"],
            env=environment(
                ANSIBLE_STDOUT_CALLBACK="railyard.fabric.rails", RAILYARD_PROGRESS_SECONDS="1", RAILYARD_TEST=self._mark
            ),
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begun(self, line: str = "Begin") -> Started:
        assert self.process.stdout
        while line not in self.process.stdout.readline():
            assert self.process.poll() is None
        return self

    def end(self) -> tuple[int, str]:
        """Return the status and the rest of the output, without a traceback, after all processes have ended."""
        out, err = self.process.communicate(timeout=120)
        assert "Traceback" not in out + err and "Exception ignored" not in err, out + err
        wait_for(lambda: not self._processes(), "processes of the run have not ended")
        return self.process.returncode, out + err

    def _processes(self) -> list[str]:
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                variables = Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if b"RAILYARD_TEST=%s\0" % self._mark.encode() in variables:
                found.append(entry)
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_signal_is_armed_and_the_status_is_ansibles(tmp_path: Path, kind: str) -> None:
    started = Started(tmp_path, kind).begun()
    caught = Path("/proc/%d/status" % started.process.pid).read_text().partition("SigCgt:")[2].split()[0]
    assert not int(caught, 16) & 1 << signal.SIGALRM - 1, "a timer would end a run that an exception has ended"
    status, text = started.end()
    assert status in STATUS[kind] and started.completed.exists() and "Prepare the node: 1 s" in text, text


@pytest.mark.parametrize("kind", ["complete", "failed"])
@pytest.mark.parametrize("closed", ["stdout", "stdout and stderr"])
def test_a_run_whose_output_is_closed_is_completed(tmp_path: Path, kind: str, closed: str) -> None:
    started = Started(tmp_path, kind).begun()
    for name in closed.split(" and "):
        getattr(started.process, name).close()
    assert started.process.wait(120) in STATUS[kind] and started.completed.exists()


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_run_as_it_ends_ansible(tmp_path: Path, number: str) -> None:
    started = Started(tmp_path, "complete", 60).begun("Prepare the node: 1 s")
    started.process.send_signal(getattr(signal, number))
    assert started.end()[0] in STATUS[number] and not started.completed.exists()


@pytest.mark.long
def test_a_hundred_runs_under_load_end_as_ansible_ends(tmp_path: Path) -> None:
    """Six at once; interrupted, terminated and with closed outputs at random points."""
    chance = random.Random(1)

    def one(number: int) -> tuple[str, int]:
        kind = KINDS[number % 3]
        happens = ("nothing", "SIGINT", "SIGTERM", "stdout", "stdout and stderr")[number // 3 % 5]
        started = Started(tmp_path / str(number), kind).begun()
        time.sleep(chance.uniform(0, 2))
        if happens.startswith("SIG"):
            started.process.send_signal(getattr(signal, happens))
            status = started.end()[0]
        elif happens == "nothing":
            status = started.end()[0]
        else:
            for name in happens.split(" and "):
                getattr(started.process, name).close()
            status = started.process.wait(120)
        assert status in STATUS.get(happens, STATUS[kind]), (number, kind, happens, status)
        return "%s, %s" % (kind, happens), status

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for (case, status), times in sorted(collections.Counter(pool.map(one, range(100))).items()):
            print("%-40s %4d %3d times" % (case, status, times))
