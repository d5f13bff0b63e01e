# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Several runs that prove rails on one node at the same time: their servers, and reports about each other.

A run ends only its own servers, which their records name. Servers of an interrupted run end by ``timeout``, and do not
disturb others until then, because each server has its own TCP port. Two runs at the same time measure less than a rail
can carry, so each run records itself on the node and reports the others.

perftest closes its listening socket when its client has connected (``ethernet_server_connect`` in its
``src/perftest_communication.c``). So a running server that does not listen is transferring.
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
# How messages name a run without a name.
NAMELESS = "a run without a name"
# Seconds to wait for another run that starts servers, and for which records of runs are kept.
PATIENCE = 60.0
_RECORD_SECONDS = 86400.0

Row = t.Dict[str, t.Any]


class Server(t.NamedTuple):
    """A running server of a run. ``port``: TCP. ``until``: when it ends by timeout, in seconds since 1970."""

    pid: int
    port: int
    until: float
    run: str


def in_turn(system: System, run: str) -> t.ContextManager[None]:
    """Return the lock under which servers are started and listed. The kernel releases it when its process ends.

    :raises RailyardError: if another run holds it for longer than :data:`PATIENCE`.
    """
    return boot_lock.turn(system, "the start of servers by %s" % (run or NAMELESS), PATIENCE, _LOCK)


def note(system: System, server: Server) -> None:
    """Record a server that was just started. Process ID and start time together identify it."""
    row = dict(server._asdict(), started=started(system, server.pid))
    system.write_file("%s/%d" % (SERVER_DIR, server.pid), json.dumps(row))


def servers(system: System) -> list[Server]:
    """Return the running servers of all runs. Records of other servers are removed."""
    running = []
    for name in system.listdir(SERVER_DIR):
        path = "%s/%s" % (SERVER_DIR, name)
        row = _read(system, path)
        if row and _is_running(system, row["pid"], row["started"]):
            running.append(Server(*(row[key] for key in Server._fields)))
        else:
            system.remove_file(path)
    return running


def stop(system: System, run: str | None = None) -> None:
    """End the running servers of a run; None: of all runs."""
    for server in servers(system):
        if run is None or server.run == run:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            system.remove_file("%s/%d" % (SERVER_DIR, server.pid))


def others(system: System, run: str, probing: bool = False) -> list[dict[str, str]]:
    """Record a run on this node, and return the other runs since its first call. Call it in :func:`in_turn`.

    Runs whose servers only wait are not returned, because they may have been interrupted.

    :param probing: the run sends data from this process from now on.
    :return: rows of ``run`` and ``since``, its first record (UTC, ISO 8601); empty for a run without a name.
    """
    if not run:
        return []
    now = time.time()
    records = {str(row["run"]): row for row in _records(system, now)}
    own = records.pop(run, None) or {"run": run, "since": now, "waiting": {}, "met": {}}
    foreign = {str(server.pid): server for server in servers(system) if server.run != run}
    active = {name for name, row in records.items() if row["last"] >= own["since"] or _sends(system, row)}
    active |= {server.run for server in foreign.values() if _is_transferring(system, server)}
    # a server that waited, and ended before its timeout, has served a transfer
    active |= {name for pid, (name, until) in own["waiting"].items() if pid not in foreign and now < until}
    for name in active:
        own["met"].setdefault(name, records.get(name, {}).get("since", now))
    own["waiting"] = {
        pid: (server.run, server.until) for pid, server in foreign.items() if not _is_transferring(system, server)
    }
    own.update(last=now, sends=[os.getpid(), started(system, os.getpid())] if probing else None)
    system.write_file(_record(run), json.dumps(own))
    return [{"run": name or NAMELESS, "since": moment(since)} for name, since in sorted(own["met"].items())]


def waiting(system: System, run: str) -> str:
    """Return a text about the servers of other runs on this node; empty without them."""
    by_run: dict[str, list[Server]] = {}
    for server in servers(system):
        if server.run != run:
            by_run.setdefault(server.run, []).append(server)
    return " and ".join(
        "%d of %s, until %s" % (len(group), name or NAMELESS, moment(max(server.until for server in group)))
        for name, group in sorted(by_run.items())
    )


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, in UTC as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def listening(system: System, directory: str = "/proc/net") -> set[int]:
    """Return the TCP ports in state LISTEN of a network namespace, from ``tcp`` and ``tcp6`` in its directory."""
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in (system.read("%s/%s" % (directory, table)) or "").splitlines()[1:]:
            field = line.split()
            if field[3] == "0A":
                ports.add(int(field[1].rpartition(":")[2], 16))
    return ports


def _is_transferring(system: System, server: Server) -> bool:
    # a pod's server listens in the pod's namespace
    return server.port not in listening(system, "/proc/%d/net" % server.pid)


def _sends(system: System, record: Row) -> bool:
    """Return whether the process in which a run probes still runs."""
    return bool(record.get("sends")) and _is_running(system, *record["sends"])


def _is_running(system: System, pid: int, ticks: str | None) -> bool:
    """Return whether the process with this start time still runs. A zombie does not."""
    state = (system.read("/proc/%d/stat" % pid) or "").rpartition(")")[2].split()
    return bool(ticks) and started(system, pid) == ticks and state[:1] != ["Z"]


def _record(run: str) -> str:
    return "%s/%s.json" % (RUNS_DIR, hashlib.sha256(run.encode()).hexdigest()[:16])


def _records(system: System, now: float) -> t.Iterator[Row]:
    """Yield the records of the last day. Older ones are removed."""
    for name in system.listdir(RUNS_DIR):
        path = "%s/%s" % (RUNS_DIR, name)
        row = _read(system, path) if name.endswith(".json") else {}
        if row and row["last"] >= now - _RECORD_SECONDS:
            yield row
        elif row:
            system.remove_file(path)


def _read(system: System, path: str) -> Row:
    try:
        row = json.loads(system.read_file(path) or "null")
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
