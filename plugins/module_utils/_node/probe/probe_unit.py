# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a prober on this node, collect its results, and end it.

A process in a session of its own starts the prober, waits for its end, and removes its files. It ends the prober after
the deadline, also if the prober hangs. On nodes with systemd, it moves itself into a transient scope with a deadline
(``RuntimeMaxSec``, systemd 244), so that no process outlives the deadline, and all outlive the SSH session.

Both are forks of the module's process, which has loaded all code. Ansible removes the code when the module ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import port_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_runs, prober_process

UNIT = "railyard-probe-%s.scope"
_START_UNIT = (
    *("busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"),
    *("StartTransientUnit", "ssa(sv)a(sa(sv))"),
)
# Seconds after its own deadline in which a prober is ended from outside, and in which a new one must listen.
_SLACK, _START_SECONDS = 30, 300.0
_LOOK_SECONDS = 0.1

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]


def start(options: Options, system: System) -> Row:
    """Start the prober of a run, instead of an earlier one of the same run. Return the TCP port at which it listens.

    :param options: of the module rail_probe.
    :raises RailyardError: if it does not start.
    """
    run = str(options["run"])
    place = probe_runs.directory(run, str(options["name"]))
    remedy = "see whether the node is overloaded, and run again"
    try:
        with probe_runs.in_turn(system, run):
            _remove_ended(system, place)
            os.makedirs(system.path(place), mode=0o700)
            system.write_file("%s/%s" % (place, probe_runs.SPEC), json.dumps(dict(options)), 0o600)
            _launch(system, place, run, float(options["deadline"]))
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            listens = probe_runs.read(system, "%s/%s" % (place, probe_runs.LISTENS))
            if listens:
                return listens
            own = probe_runs.prober(system, place)
            if not system.exists(place) or (own and not own.is_running(system)):
                raise RailyardError("it ended while it was started", "prober", probe_runs.KILLED)
            time.sleep(_LOOK_SECONDS)
        raise RailyardError("it did not start within %.0f s" % _START_SECONDS, "prober", remedy)
    except RailyardError:
        stop_one(system, place)
        raise


def _remove_ended(system: System, own: str) -> None:
    """End the earlier prober of the run, and remove the files of killed probers of other runs."""
    for place in probe_runs.places(system):
        earlier = probe_runs.prober(system, place)
        if place == own:
            stop_one(system, place)
        elif earlier and not earlier.is_running(system):
            probe_runs.remove(system, place)


def _launch(system: System, place: str, run: str, deadline: float) -> None:
    """Start the prober of a directory, and the process that waits for its end. ``deadline``: in seconds."""
    if os.fork():
        return
    try:
        os.setsid()
        _close_files()
        _enter_unit(system, UNIT % os.path.basename(place), run, deadline + _SLACK)
        probe_runs.note_process(system, place, run)
        child = os.fork()
        if not child:
            prober_process.main(place)
        _wait(child, deadline + _SLACK)
        probe_runs.remove(system, place)
        # processes of the prober that still run, and this one
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(1)


def _close_files() -> None:
    """Close the files of the module's process, because Ansible waits until they are closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 65536))


def _enter_unit(system: System, unit: str, run: str, seconds: float) -> None:
    """Move this process into a scope of systemd. Without systemd, it stays where it is."""
    if not system.exists("/run/systemd/system"):
        return
    common = ["PIDs", "au", "1", str(os.getpid()), "Description", "s", "Proof of rails, by %s" % run]
    common += ["CollectMode", "s", "inactive-or-failed"]
    # older releases have no deadline of scopes
    for limit in (["RuntimeMaxUSec", "t", "%d" % (seconds * 1e6)], []):
        properties = [*common, *limit]
        argv = [*_START_UNIT, unit, "fail", str(4 if limit else 3), *properties, "0"]
        if system.run(argv, 30).rc == 0:
            until = time.monotonic() + _SLACK
            while unit not in (system.read("/proc/self/cgroup") or unit) and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
            return


def _wait(child: int, seconds: float) -> None:
    """Wait for the prober, at most ``seconds``. SIGTERM ends it earlier."""

    def end(number: int, _frame: t.Any) -> None:
        if number == signal.SIGALRM:
            raise SystemExit
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with contextlib.suppress(SystemExit):
        os.waitpid(child, 0)


def collect(options: Options, system: System) -> Row:
    """Wait until the prober of a run has ended its schedule. Return its results, and remove them from the node.

    Call it when all nodes of the run were started: the prober then gives up partners that it does not reach.

    :raises RailyardError: if the prober does not run any more.
    """
    run = str(options["run"])
    place = probe_runs.directory(run, str(options["name"]))
    own = probe_runs.prober(system, place)
    if own and own.is_running(system):
        system.write_file("%s/%s" % (place, probe_runs.ALL_STARTED), "", 0o600)
    while own:
        result = probe_runs.read(system, "%s/%s" % (place, probe_runs.RESULT))
        if result:
            own.end(system)
            names = options["counters"]
            found = {"counters": port_counters.look(system, names["netdevs"], names["devices"])} if names else {}
            return {**result, **found}
        if not own.is_running(system):
            break
        time.sleep(_LOOK_SECONDS)
    raise RailyardError("the prober of %s does not run on this node" % run, "prober", probe_runs.KILLED)


def stop(options: Options, system: System) -> Row:
    """End the prober of a run, or of all runs without a name."""
    run = str(options["run"] or "")
    for place in probe_runs.places(system):
        own = probe_runs.prober(system, place)
        if not run or (own and own.run == run):
            stop_one(system, place)
    return {}


def stop_one(system: System, place: str) -> None:
    """End the prober of a directory, and remove it."""
    own = probe_runs.prober(system, place)
    if own:
        own.end(system)
    probe_runs.remove(system, place)
