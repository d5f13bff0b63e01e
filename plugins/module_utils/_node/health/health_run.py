# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health service: observes the rails of the spec every few seconds and after events, and writes their state."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import (
    Problems,
    log,
    notify,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_outputs, health_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_judge import Judge, Observation
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_neighbours import Neighbours
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Netdev, Observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_parts import HealthPart
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_readers import RailReaders
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import (
    FILE,
    HealthSpec,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import HealthState, RailState
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.probe_part import ProbePart
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.node_events import NodeEvents

LOCK = health_state.DIRECTORY + "/lock"
# Seconds for which a run of a module may change the node, which is not judged meanwhile.
CHANGING_SECONDS = 900.0
# A wall clock that differs by more from the clock of the service was set.
CLOCK_SECONDS = 1.0
# The parts of the service beside the observation of rails.
PARTS: t.Sequence[t.Callable[[System], HealthPart]] = (ProbePart, health_outputs.Metrics, health_outputs.Reports)


def run(system: System) -> int:
    """Run the service until SIGTERM or SIGINT, and return the exit status. Raises :class:`.RailyardError`."""
    lock = boot_lock.Lock(system, "railyard-health", LOCK)
    if not lock.take():
        remedy = "use it (railyard-health status), or end it first (systemctl stop railyard-health)"
        raise RailyardError("another health service runs on this node: %s" % lock.holder, lock.file, remedy)
    try:
        return Service(system, lock).run()
    finally:
        lock.release()


class Service:
    """One service. :meth:`run` raises :class:`.RailyardError` if it cannot start. Later problems are logged, and are in
    the state.
    """

    def __init__(self, system: System, lock: boot_lock.Lock) -> None:
        self._system = system
        self._lock = lock
        self._wake = threading.Event()
        self._ending = self._reload = False
        self._problems = Problems(log, lambda: notify("WATCHDOG=1"))
        self._neighbours = Neighbours()
        self._parts = [part(system) for part in PARTS]
        self._file_time = system.modified(FILE)
        self._spec = read_spec(system)
        self._readers = RailReaders(system, self._spec.rails)
        self._judge = Judge(self._spec)
        self._boot_id = system.read("/proc/sys/kernel/random/boot_id") or ""
        self._offset = time.time() - _now()
        self._began = time.time()
        self._states: dict[str, RailState] = {}
        # since when a run changes the node
        self._changing: float | None = None

    def run(self) -> int:
        """Observe until SIGTERM or SIGINT, and return the exit status. SIGHUP reads the spec again."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)
        self._resume()
        self._follow_parts()
        events = NodeEvents(self._wake.set)
        notify("READY=1")
        log("railyard-health %s observes the rails of node %s" % (VERSION, self._spec.node))
        try:
            while not self._ending:
                events.watch(self._system.path(FILE.rpartition("/")[0]))
                self._wake.clear()
                self._follow_lock()
                self._follow_file()
                self._look()
                self._wake.wait(self._spec.interval)
        finally:
            notify("STOPPING=1")
            self._readers.close()
            self._neighbours.close()
            for part in self._parts:
                part.close()
        return 0

    def _signalled(self, number: int, _frame: t.Any) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._ending = True
        self._wake.set()

    def _resume(self) -> None:
        """Continue with the state of a service before this one, so that a restart ends no finding."""
        with contextlib.suppress(RailyardError):
            before = health_state.read_state(self._system)
            if (before.boot_id, before.node) == (self._boot_id, self._spec.node):
                self._judge.resume(before.rails, self._offset)
                self._states = {state.rail: state for state in before.rails}

    def _follow_lock(self) -> None:
        """Create the lock again if another program removed it, such as a cleaner of /run."""
        if not self._lock.held and not self._lock.take():
            raise RailyardError("another health service runs on this node", LOCK, "end one of them")

    def _follow_file(self) -> None:
        changed = self._system.modified(FILE)
        if not self._reload and changed == self._file_time:
            self._problems.attempt(FILE, lambda: None)
            return

        def reload() -> None:
            spec = read_spec(self._system)
            if spec != self._spec:
                self._apply(spec)
            # not reached after an error, so that the next pass tries again
            self._reload, self._file_time = False, changed
            log("the spec was read again")

        self._problems.attempt(FILE, reload)

    def _apply(self, spec: HealthSpec) -> None:
        """Follow another spec. Rails that it has too keep their state."""
        self._readers.close()
        self._spec = spec
        self._readers = RailReaders(self._system, spec.rails)
        self._judge = Judge(spec)
        self._judge.resume(self._states.values(), self._offset)
        self._follow_parts()

    def _follow_parts(self) -> None:
        for part in self._parts:
            self._problems.attempt(part.name, lambda part=part: part.follow(self._spec))  # type: ignore[misc]

    def _look(self) -> None:
        """Observe the rails once, and write their state."""
        observed = self._readers.observe()
        now = _now()
        if not self._is_changing(now):
            more: dict[str, list[t.Any]] = {}

            def add(part: HealthPart) -> None:
                for rail, facts in part.facts(now).items():
                    more.setdefault(rail, []).extend(facts)

            for part in self._parts:
                self._problems.attempt(part.name, lambda part=part: add(part))  # type: ignore[misc]
            self._judge.add(self._with_neighbours(observed, now), now, more)
        offset = time.time() - now
        if abs(offset - self._offset) > CLOCK_SECONDS:
            self._offset = offset
        rows: dict[str, health_state.Row] = {}
        for part in self._parts:
            self._problems.attempt(part.name + " rows", lambda part=part: rows.update(part.rows()))  # type: ignore[misc]
        states = [state._replace(probe=rows.get(state.rail)) for state in self._judge.states(now, now, self._offset)]
        self._log_changes(states)
        self._states = {state.rail: state for state in states}
        state = HealthState(
            version=VERSION,
            fabric=self._spec.fabric,
            node=self._spec.node,
            boot_id=self._boot_id,
            began=round(self._began, 3),
            updated=round(time.time(), 3),
            ready=self._judge.ready,
            rails=tuple(states),
            problems=tuple(self._problems.messages),
        )
        self._problems.attempt(health_state.FILE, lambda: health_state.write_state(self._system, state))
        for part in self._parts:
            self._problems.attempt(part.name + " report", lambda part=part: part.publish(state))  # type: ignore[misc]

    def _is_changing(self, now: float) -> bool:
        """Return whether a module or the boot program changes the node. Its rails are not judged meanwhile."""
        if not self._judge.ready or boot_lock.Lock(self._system, "").free:
            self._changing = None
            return False
        self._changing = now if self._changing is None else self._changing
        return now - self._changing < CHANGING_SECONDS

    def _with_neighbours(self, observed: t.Mapping[str, Observation], now: float) -> dict[str, Observation]:
        """Return the observations with the LLDP neighbours of their cables."""
        netdevs: dict[str, Netdev] = {}
        for seen in observed.values():
            if isinstance(seen, Observed):
                netdevs.update(seen.netdevs)
        self._neighbours.follow({name: each.ifindex for name, each in netdevs.items() if each.up})
        self._neighbours.receive(now)
        for name, each in netdevs.items():
            if not each.carrier:
                self._neighbours.forget(name)
        return {
            rail: seen._replace(neighbours=self._neighbours.of(seen.netdevs, now))
            if isinstance(seen, Observed)
            else seen
            for rail, seen in observed.items()
        }

    def _log_changes(self, states: t.Iterable[RailState]) -> None:
        for state in states:
            before = self._states.get(state.rail)
            known = {(each.code, each.what) for each in before.findings} if before else set()
            found = {(each.code, each.what) for each in state.findings}
            if before is None or (before.state, before.degraded, known) != (state.state, state.degraded, found):
                texts = [str(each) for each in state.findings]
                log("rail %s: %s" % (state.rail, ": ".join(filter(None, [label(state), "; ".join(texts)]))))


def label(state: RailState) -> str:
    """Return the state of a rail in one word."""
    return "degraded" if state.degraded else state.state


def _now() -> float:
    """Return the seconds since the boot, which do not jump, and which continue while the node is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
