# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Several runs that prove rails on one node at the same time: who owns which server, and how the others are named.

A run ends only servers of its own, by the mark in their notes. Those of a run that was cut off end by themselves, with
``timeout``, and meanwhile are in no one's way: each server has a TCP port of its own. What two runs measure at the same
time is less than a rail can do, so each learns of the other from what they note on the node.

perftest closes its listening socket once its client has come (``ethernet_server_connect`` in its
``src/perftest_communication.c``): a server that lives and listens no more is at work.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import started

SERVER_DIR = "/run/railyard/probe"
RUNS_DIR = "/run/railyard/probe_runs"
_LOCK = RUNS_DIR + "/lock"
# The owner of servers that have no mark.
NAMELESS = "a run that gives no name"
# Seconds for which one waits for another's servers to be started, and for which is known who was here.
PATIENCE = 60.0
_KEPT = 86400.0

Row = t.Dict[str, t.Any]


class Server(t.NamedTuple):
    """A server that lives. ``port``: TCP; ``until``: when it ends by itself, in seconds since 1970."""

    pid: int
    port: int
    until: float
    run: str


def in_turn(system: System, run: str) -> t.ContextManager[None]:
    """Starts of servers, and looks at them, under a lock that a killed process does not keep.

    :raises RailyardError: where another one does not come to an end.
    """
    return boot_lock.turn(system, "the start of servers by %s" % (run or NAMELESS), PATIENCE, _LOCK)


def note(system: System, server: Server) -> None:
    """Note a server that was just started; its pid and its start name one process for good."""
    row = dict(server._asdict(), started=started(system, server.pid))
    system.write_file("%s/%d" % (SERVER_DIR, server.pid), json.dumps(row))


def servers(system: System) -> list[Server]:
    """All servers that live, from any run. The notes of ended servers are removed."""
    found = []
    for name in system.listdir(SERVER_DIR):
        path = "%s/%s" % (SERVER_DIR, name)
        row = _read(system, path)
        if row and _lives(system, row["pid"], row["started"]):
            found.append(Server(*(row[key] for key in Server._fields)))
        else:
            system.remove_file(path)
    return found


def stop(system: System, run: str | None = None) -> None:
    """End servers that still wait: those of a run, or where none is named all of them."""
    for each in servers(system):
        if run is None or each.run == run:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGTERM)
            system.remove_file("%s/%d" % (SERVER_DIR, each.pid))


def others(system: System, run: str, probing: bool = False) -> list[dict[str, str]]:
    """Note that a run is here, and say which others have been since it came; to be called in :func:`in_turn`.

    Servers that only wait are none of them: their run may have been cut off.

    :param probing: whether the run sends data from this process from now on.
    :return: for each its ``run`` and since when it is here, ``since`` (UTC, ISO 8601); none for a run without a name.
    """
    if not run:
        return []
    now = time.time()
    records = {str(row["run"]): row for row in _records(system, now)}
    own = records.pop(run, None) or {"run": run, "since": now, "waiting": {}, "met": {}}
    foreign = {str(each.pid): each for each in servers(system) if each.run != run}
    met = {name for name, row in records.items() if row["last"] >= own["since"] or _sends(system, row)}
    met |= {each.run for each in foreign.values() if _at_work(system, each)}
    # what waited and is gone before its time has been made use of
    met |= {name for pid, (name, until) in own["waiting"].items() if pid not in foreign and now < until}
    for name in met:
        own["met"].setdefault(name, records.get(name, {}).get("since", now))
    own["waiting"] = {pid: (each.run, each.until) for pid, each in foreign.items() if not _at_work(system, each)}
    own.update(last=now, sends=[os.getpid(), started(system, os.getpid())] if probing else None)
    system.write_file(_record(run), json.dumps(own))
    return [{"run": name or NAMELESS, "since": moment(since)} for name, since in sorted(own["met"].items())]


def waiting(system: System, run: str) -> str:
    """Whose servers besides the run's are on the node, in words; empty where there are none."""
    found: dict[str, list[Server]] = {}
    for each in servers(system):
        if each.run != run:
            found.setdefault(each.run, []).append(each)
    return " and ".join(
        "%d of %s, until %s" % (len(held), name or NAMELESS, moment(max(each.until for each in held)))
        for name, held in sorted(found.items())
    )


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def listening(system: System, place: str = "/proc/net") -> set[int]:
    """TCP ports in state LISTEN in a network namespace, from its ``tcp`` and ``tcp6``."""
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in (system.read("%s/%s" % (place, table)) or "").splitlines()[1:]:
            field = line.split()
            if field[3] == "0A":
                ports.add(int(field[1].rpartition(":")[2], 16))
    return ports


def _at_work(system: System, server: Server) -> bool:
    # a pod's server listens in the pod's own namespace
    return server.port not in listening(system, "/proc/%d/net" % server.pid)


def _sends(system: System, record: Row) -> bool:
    """Whether the process in which a run probes is still there."""
    return bool(record.get("sends")) and _lives(system, *record["sends"])


def _lives(system: System, pid: int, ticks: str | None) -> bool:
    """Whether it is the same process still, and has not ended; its parent may not have waited for it."""
    state = (system.read("/proc/%d/stat" % pid) or "").rpartition(")")[2].split()
    return bool(ticks) and started(system, pid) == ticks and state[:1] != ["Z"]


def _record(run: str) -> str:
    return "%s/%s.json" % (RUNS_DIR, hashlib.sha256(run.encode()).hexdigest()[:16])


def _records(system: System, now: float) -> t.Iterator[Row]:
    """Who has been here of late."""
    for name in system.listdir(RUNS_DIR):
        path = "%s/%s" % (RUNS_DIR, name)
        row = _read(system, path) if name.endswith(".json") else {}
        if row and row["last"] >= now - _KEPT:
            yield row
        elif row:
            system.remove_file(path)


def _read(system: System, path: str) -> Row:
    try:
        row = json.loads(system.read_file(path) or "null")
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
