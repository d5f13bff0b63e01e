# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""From observations over time to the states of rails: pure, without clocks, files and the kernel.

A finding begins with the observation that shows it, or after as many in a row as its code needs. It ends when no
observation has shown it for the quiet time, so that a flapping link stays failed. A rail that cannot be read keeps its
state for two observations, and is unknown after the third.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_facts
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Observed, Unread
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rates import CounterHistory
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import RULES, Fact, thresholds
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    FAIL,
    PASS,
    UNKNOWN,
    Finding,
    PlaneState,
    RailState,
)

# Observations in a row without a result, until the state of a rail is unknown.
UNREAD_MAX = 3
# Seconds after the boot of the node in which a rail that was never healthy is unknown, because links are being trained.
BOOT_SECONDS = 120.0
UNREAD = "RV890"
# What was observed of a rail, and None if nothing was since the last call.
Observation = t.Union[Observed, Unread, None]


class _Active:
    """A difference that is a finding. ``clear``: since when no observation shows it; None: the last one did."""

    def __init__(self, fact: Fact, since: float) -> None:
        self.fact = fact
        self.since = since
        self.clear: float | None = None


class _RailJudge:
    """One rail over time."""

    def __init__(self, rail: Rail, spec: HealthSpec, history: CounterHistory) -> None:
        self._rail = rail
        self._quiet = spec.quiet
        self._history = history
        self._active: dict[t.Any, _Active] = {}
        # key of a difference -> observations in a row that show it
        self._pending: dict[t.Any, int] = {}
        self._unread: Unread | None = None
        self._unread_count = 0
        self._planes: tuple[PlaneState, ...] = ()
        self._state, self._since = UNKNOWN, float("-inf")
        self._was_healthy = False
        self.judged = False

    def resume(self, state: RailState, since: t.Callable[[float], float]) -> None:
        """Continue after a restart of the service. ``since``: converts times of the state to those of the judge."""
        self._state, self._since = state.state, since(state.since)
        self._was_healthy = state.state != UNKNOWN
        for each in state.findings:
            if each.code in RULES and each.code != UNREAD:
                fact = Fact(each.code, each.what, each.expected, each.found, each.plane, each.peer)
                fact = fact._replace(cause=each.cause, remedy=each.remedy)
                self._active[fact.key] = _Active(fact, since(each.since))

    def rebase(self) -> None:
        """Begin counters and quiet times again, because the rail was not observed for a while."""
        self._history.rebase()
        self._pending.clear()
        for active in self._active.values():
            active.clear = None

    def add(self, seen: Observation, more: t.Sequence[Fact], now: float) -> None:
        """Add an observation. ``more``: differences that other parts found, such as probes."""
        if isinstance(seen, Observed):
            facts, planes = health_facts.compare(self._rail, seen)
            facts += self._history.facts(seen, now)
            self._planes = tuple(planes)
            self._unread, self._unread_count, self.judged = None, 0, True
            self._apply([*facts, *more], now)
        elif seen is not None:
            self._unread, self._unread_count = seen, self._unread_count + 1
            if seen.held:
                self._unread_count, self.judged = UNREAD_MAX, True

    def _apply(self, facts: t.Sequence[Fact], now: float) -> None:
        shown = {fact.key: fact for fact in facts}
        self._pending = {key: self._pending.get(key, 0) + 1 for key in shown}
        for key, fact in shown.items():
            active = self._active.get(key)
            if active:
                active.fact, active.clear = fact, None
            elif self._pending[key] >= RULES[fact.code].confirm:
                self._active[key] = _Active(fact, now)
        for key, active in list(self._active.items()):
            if key not in shown:
                active.clear = now if active.clear is None else active.clear
                quiet = active.fact.quiet or self._quiet
                if now - active.clear >= quiet:
                    del self._active[key]

    def state(self, now: float, uptime: float) -> RailState:
        """Return the state of the rail, with times of the judge."""
        active = sorted(self._active.values(), key=lambda each: (each.fact.degrades, each.since))
        unproven = [each for each in active if RULES[each.fact.code].unknown]
        fails = any(not each.fact.degrades for each in active if each not in unproven)
        state = FAIL if fails else UNKNOWN if unproven else PASS
        if state == UNKNOWN:
            active = unproven + [each for each in active if each not in unproven]
        findings = [_finding(each.fact, each.since) for each in active]
        if not self.judged or self._unread_count >= UNREAD_MAX:
            state, findings = UNKNOWN, [_finding(self._why_unread(), now), *findings]
        elif state in (PASS, UNKNOWN):
            self._was_healthy |= state == PASS
        elif not self._was_healthy and uptime < BOOT_SECONDS:
            what = "rail %s" % self._rail.rail
            fact = Fact(UNREAD, what, "a healthy rail after the boot", "the node started %d s ago" % uptime)
            fact = fact._replace(cause="links are being trained", remedy="wait two minutes")
            state, findings = UNKNOWN, [_finding(fact, now), *findings]
        else:
            self._was_healthy = True
        if state != self._state or self._since == float("-inf"):
            self._state, self._since = state, now
        if state == UNKNOWN:
            # it began with the state
            findings[0] = findings[0]._replace(since=self._since)
        unread = self._unread_count >= UNREAD_MAX
        planes = tuple([each._replace(state=UNKNOWN) for each in self._planes] if unread else self._planes)
        degraded = state == PASS and bool(findings)
        return RailState(self._rail.rail, state, degraded, self._since, tuple(findings), planes)

    def _why_unread(self) -> Fact:
        what = "rail %s" % self._rail.rail
        if self._unread is None:
            return Fact(UNREAD, what, "an observation", "none yet", remedy="wait a few seconds")
        return Fact(UNREAD, what, "an observation", self._unread.reason, remedy=self._unread.remedy)


class Judge:
    """The rails of a spec over time. Times are in seconds of one clock that does not jump, except in the results."""

    def __init__(self, spec: HealthSpec) -> None:
        self._spec = spec
        rows = thresholds(spec.thresholds)
        self._rails = {rail.rail: _RailJudge(rail, spec, CounterHistory(rows)) for rail in spec.rails}
        self._last: float | None = None

    def resume(self, states: t.Iterable[RailState], offset: float) -> None:
        """Continue with the states that a service before this one wrote since the boot of the node."""
        for state in states:
            if state.rail in self._rails:
                self._rails[state.rail].resume(state, lambda since: since - offset)

    def add(
        self, observed: t.Mapping[str, Observation], now: float, more: t.Mapping[str, t.Sequence[Fact]] | None = None
    ) -> None:
        """Add the observations of rails. ``more``: rail -> differences that other parts found."""
        if self._last is not None and now - self._last > 3 * self._spec.interval + 10:
            # the service or the node was suspended
            for rail in self._rails.values():
                rail.rebase()
        self._last = now
        for name, rail in self._rails.items():
            rail.add(observed.get(name), (more or {}).get(name, ()), now)

    @property
    def ready(self) -> bool:
        """Whether each rail was judged at least once."""
        return all(rail.judged for rail in self._rails.values())

    def states(self, now: float, uptime: float, offset: float) -> list[RailState]:
        """Return the states of all rails, in the order of the spec.

        :param uptime: seconds since the boot of the node. :param offset: seconds that are added to all times.
        """
        return [_moved(rail.state(now, uptime), offset) for rail in self._rails.values()]


def _finding(fact: Fact, since: float) -> Finding:
    rule = RULES[fact.code]
    about = (fact.what, fact.expected, fact.found, since, fact.plane, fact.peer)
    return Finding(rule.code, rule.name, rule.title, *about, fact.cause or rule.cause, fact.remedy or rule.remedy)


def _moved(state: RailState, offset: float) -> RailState:
    findings = [each._replace(since=round(each.since + offset, 3)) for each in state.findings]
    return state._replace(since=round(state.since + offset, 3), findings=tuple(findings))
