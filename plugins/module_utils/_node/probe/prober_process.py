# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process of a prober: the schedules of the node and of its pod, and their results.

Test pods have a separate schedule. A child process enters the network of the pod, and probes after the node.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, unforeseen
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import namespace_entry
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import perftest, probe_runs
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.perftest_servers import port_range
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.prober import Options, Prober, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pod_processes

# Seconds between two looks at the files of the run.
_LOOK_SECONDS = 0.5


def _listening(spec: Options, part: Options, system: System, place: str, began: float) -> tuple[Prober | None, str]:
    """Return the prober of a node or pod, or None and why it does not listen."""
    try:
        if spec.get("tcp_ports"):
            port_range(str(spec["tcp_ports"]))
        return Prober(spec, part, system, place, began), ""
    except (RailyardError, OSError) as error:
        return None, str(error)


def _work(own: Prober, system: System, place: str, parent: int | None = None, wait: int | None = None) -> None:
    """Run a prober, beside a thread that watches the files of the run.

    :param parent: of the process of a pod, which ends with it.
    :param wait: a file descriptor; the schedule begins when its other end is closed.
    """

    def look() -> None:
        while True:
            if system.exists("%s/%s" % (place, probe_runs.ALL_STARTED)):
                own.progress.note_all_started()
            if not system.exists(place) or (parent and os.getppid() != parent):
                os.kill(os.getpid(), signal.SIGTERM)
            own.note_others()
            time.sleep(_LOOK_SECONDS)

    threading.Thread(target=look, daemon=True).start()
    if wait is not None:
        os.read(wait, 1)
    own.run()


def _pod(spec: Options, system: System, place: str, began: float, node: int) -> t.NoReturn:
    """Probe from the pod when the node has ended its own turns, which closes ``node``. Write the results, and exit."""
    parent, row = os.getppid(), t.cast("Row", {"results": [], "refused": ""})
    try:
        namespace_entry.move(system, pod_processes.namespace(system, spec["pod"]["uid"]))
        own, row["refused"] = _listening(spec, spec["pod"], system, place, began)
        if own:
            _work(own, system, place, parent, node)
            # the node itself reports a missing program
            row.update(results=own.results, refused="" if _missing_program(spec, system) else own.refused)
    except RailyardError as error:
        row["refused"] = str(error)
    except Exception as error:  # only the node's process writes the results of the run
        row["refused"] = str(unforeseen(error))
    with contextlib.suppress(RailyardError):
        system.write_file("%s/pod.json" % place, json.dumps(row), 0o600)
    os._exit(0)


def probe_all(spec: Options, system: System, place: str, began: float) -> Row:
    """Return the results of the schedules of a node and of its pod: ``results``, ``groups``, ``soak``, ``refused``,
    ``pod_results``, ``pod_refused`` and ``others``, as module rail_probe returns them.
    """
    row: Row = {"results": [], "groups": [], "refused": "", "pod_results": [], "pod_refused": "", "others": []}
    row["soak"] = None
    child, read_end, write_end = 0, *os.pipe()
    own: Prober | None = None
    try:
        if spec.get("pod"):
            child = os.fork()
            if not child:
                os.close(write_end)
                _pod(spec, system, place, began, read_end)
        if spec["turns"]:
            own, row["refused"] = _listening(spec, spec, system, place, began)
        port = own.listener.port if own else None
        system.write_file("%s/%s" % (place, probe_runs.LISTENS), json.dumps({"port": port}), 0o600)
        if own:
            _work(own, system, place)
            row.update(results=own.results, groups=own.groups, refused=_missing_program(spec, system) or own.refused)
        os.close(write_end)
        if child:
            os.waitpid(child, 0)
            child = 0
            ended = RailyardError("its process ended without a result", "pod", probe_runs.KILLED)
            found = probe_runs.read(system, "%s/pod.json" % place) or {"results": [], "refused": str(ended)}
            row.update(pod_results=found["results"], pod_refused=found["refused"])
    except SystemExit:
        # the servers of the pod have process groups of their own, and only its process ends them
        if child:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
        raise
    system.remove_file("%s/%s" % (place, probe_runs.TESTS))
    if own:
        # its thread notes them during the turns of the pod too
        others = sorted(own.other_runs.items())
        row["soak"] = own.soak.row() if own.soak.seconds else None
        row["others"] = [{"run": name, "since": probe_runs.moment(since)} for name, since in others]
    return row


def _missing_program(spec: Options, system: System) -> str:
    """Return the error of a program of perftest that is not installed; empty without one."""
    try:
        for name in [perftest.PROGRAM, *([perftest.LATENCY] if spec.get("latency") else [])]:
            perftest.program_path(system, name)
    except RailyardError as error:
        return str(error)
    return ""


def main(place: str) -> t.NoReturn:
    """Run the schedule in a directory of :mod:`probe_runs`, and keep the results there until they are collected. Exit.

    This process ends, with its servers, at its deadline, and when it gets SIGTERM.
    """
    began, system = time.monotonic(), System()

    def ended(_number: int, _frame: t.Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGALRM, ended)
    try:
        spec = probe_runs.read(system, "%s/%s" % (place, probe_runs.SPEC))
        signal.setitimer(signal.ITIMER_REAL, float(spec["deadline"]))
        row: Row = {"results": [], "groups": [], "soak": None, "pod_results": [], "pod_refused": "", "others": []}
        try:
            row = probe_all(spec, system, place, began)
        except Exception as error:  # its output is not read
            row["refused"] = str(unforeseen(error))
        system.write_file("%s/%s" % (place, probe_runs.RESULT), json.dumps(row), 0o600)
        while system.exists(place):
            time.sleep(_LOOK_SECONDS)
    finally:
        # the handlers of the module's process for its end are not those of this process
        os._exit(0)
