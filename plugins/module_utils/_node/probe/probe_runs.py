# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The probers of all runs on this node: a directory each, and which of them test at the same time.

The directory of a run has the options and the results of its prober, and files with which the modules and the prober
report their progress to each other. It is removed with the results, by the prober at its deadline, and by the next
start if the prober was killed. Only root can read it.

Two runs at the same time measure less than a rail can carry, so each prober notes the other runs that test.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import started

RUNS_DIR = "/run/railyard/probe"
_LOCK = RUNS_DIR + "/lock"
# Files of a run: its options; the TCP port of the prober; an empty file while it tests; an empty file when all nodes of
# the run were started; the results.
SPEC, LISTENS, TESTS, ALL_STARTED, RESULT = "spec.json", "listens.json", "tests", "all_started", "result.json"
# The process of the prober.
_PROCESS = "process.json"
# Seconds to wait for another run that starts servers, and for a prober that ends.
PATIENCE, END_SECONDS = 60.0, 30.0
# The remedy for a process that ended without a result.
KILLED = "see whether it was killed ('journalctl -k'), and run again"

Row = t.Dict[str, t.Any]


class Prober(t.NamedTuple):
    """The prober of a run on this node.

    :param began: in seconds since 1970.
    :param pid, ticks: of the process that waits for its end, and the start time of that process.
    """

    directory: str
    run: str
    began: float
    pid: int
    ticks: str

    def is_running(self, system: System) -> bool:
        """Return whether the process still runs. A zombie does not."""
        state = (system.read("/proc/%d/stat" % self.pid) or "").rpartition(")")[2].split()
        return started(system, self.pid) == self.ticks and state[:1] != ["Z"]

    def end(self, system: System) -> None:
        """End the process with the prober and its servers, and remove its directory."""
        until = time.monotonic() + END_SECONDS
        for number, send in ((signal.SIGTERM, os.kill), (signal.SIGKILL, os.killpg)):
            with contextlib.suppress(ProcessLookupError):
                if self.is_running(system):
                    send(self.pid, number)
            while self.is_running(system) and time.monotonic() < until:
                time.sleep(0.05)
            until = time.monotonic() + 1
        remove(system, self.directory)


def directory(run: str, name: str) -> str:
    """Return the directory of a run for a node, whose last part is in the name of the transient unit too.

    The name of the node is part of it, because a machine may be several nodes of an inventory.
    """
    return "%s/%s" % (RUNS_DIR, hashlib.sha256(("%s\n%s" % (run, name)).encode()).hexdigest()[:16])


def in_turn(system: System, run: str) -> t.ContextManager[None]:
    """Return the lock under which probers and servers are started. The kernel releases it when its process ends.

    :raises RailyardError: if another run holds it for longer than :data:`PATIENCE`.
    """
    return boot_lock.turn(system, "the start of probes by %s" % run, PATIENCE, _LOCK)


def note_process(system: System, place: str, run: str) -> None:
    """Record this process as the one that waits for the end of the prober of a run."""
    row = {"run": run, "began": time.time(), "pid": os.getpid(), "ticks": started(system, os.getpid())}
    system.write_file("%s/%s" % (place, _PROCESS), json.dumps(row), 0o600)


def prober(system: System, place: str) -> Prober | None:
    """Return the prober of a directory; None if it was not started."""
    row = read(system, "%s/%s" % (place, _PROCESS))
    return Prober(place, *(row[key] for key in Prober._fields[1:])) if row else None


def places(system: System) -> list[str]:
    """Return the directories of all runs."""
    found = ("%s/%s" % (RUNS_DIR, name) for name in system.listdir(RUNS_DIR))
    return [place for place in found if os.path.isdir(system.path(place))]


def probers(system: System) -> list[Prober]:
    """Return the running probers of all runs."""
    found = (prober(system, place) for place in places(system))
    return [each for each in found if each and each.is_running(system)]


def testing(system: System, run: str) -> dict[str, float]:
    """Return the name of each other run that tests on this node now, and when it began, in seconds since 1970."""
    return {
        each.run: each.began
        for each in probers(system)
        if each.run != run and system.exists("%s/%s" % (each.directory, TESTS))
    }


def names(system: System, run: str) -> str:
    """Return the names of the other runs with a prober on this node as text; empty without one."""
    return " and ".join(sorted(each.run for each in probers(system) if each.run != run))


def remove(system: System, place: str) -> None:
    """Remove the directory of a run."""
    shutil.rmtree(system.path(place), ignore_errors=True)


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, in UTC as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def read(system: System, path: str) -> Row:
    """Return a JSON object of a file; empty without one."""
    try:
        row = json.loads(system.read_file(path) or "null")
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
