# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The probes as a part of the health service: they run in a thread, because requests leave at exact times."""

from __future__ import annotations

import threading
import time
import traceback
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import log
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_parts import HealthPart
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_probe import Prober
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import Fact
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_judge import (
    LOSS,
    PATH_MTU,
    ProbeFinding,
    ProbeVerdict,
)

_UNANSWERED = "RV894"
# The share of the quiet time after which findings about lost packets end. The probes end them only after packets have
# passed for a while: small ones for seconds, or one of the planned MTU, which rarely leaves.
_SHARE = 1 / 6


class ProbePart(HealthPart):
    """The probes of the rails of a spec that have partners."""

    name = "probes"

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._spec: HealthSpec | None = None
        self._prober: Prober | None = None
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._error = ""

    def follow(self, spec: HealthSpec) -> None:
        before = self._spec
        if before is None or (before.probe, before.rails) != (spec.probe, spec.rails):
            self.close()
            self._spec = spec
            self._start(spec)

    def facts(self, now: float) -> t.Mapping[str, t.Sequence[Fact]]:
        if self._error:
            text, self._error = self._error, ""
            self.close()
            if self._spec:
                self._start(self._spec)
            remedy = "run 'journalctl -u railyard-health', and report the message"
            raise RailyardError("the probes ended, and were started again: %s" % text, self.name, remedy)
        if self._prober is None or self._spec is None:
            return {}
        with self._lock:
            verdicts = self._prober.verdicts(time.monotonic())
        return {rail: facts_of(rail, verdict, self._spec.quiet) for rail, verdict in verdicts.items()}

    def rows(self) -> t.Mapping[str, Row]:
        if self._prober is None:
            return {}
        with self._lock:
            return self._prober.figures(time.monotonic())

    def close(self) -> None:
        self._ends.set()
        if self._thread:
            self._thread.join()
        if self._prober:
            self._prober.close()
        self._prober = self._thread = None

    def _start(self, spec: HealthSpec) -> None:
        prober = Prober(spec)
        if prober.due(time.monotonic()) is None:
            return
        self._prober, self._ends = prober, threading.Event()
        self._thread = threading.Thread(target=self._run, args=(prober, self._ends), name=self.name, daemon=True)
        self._thread.start()

    def _run(self, prober: Prober, ends: threading.Event) -> None:
        try:
            while True:
                with self._lock:
                    due = prober.due(time.monotonic())
                if due is None or ends.wait(max(0.0, due - time.monotonic())):
                    return
                with self._lock:
                    prober.turn(time.monotonic())
        except Exception as error:
            log("probes: %s" % traceback.format_exc())
            self._error = repr(error)


def facts_of(rail: str, verdict: ProbeVerdict, quiet: float) -> list[Fact]:
    """Return the verdict of the probes of a rail as differences. ``quiet``: seconds, of the spec."""
    found = [_fact(rail, each, quiet) for each in verdict.findings]
    if verdict.unknown:
        found.insert(0, Fact(_UNANSWERED, _what(rail), "replies of partners", verdict.unknown))
    return found


def _what(rail: str) -> str:
    return "probes of %s" % rail


def _fact(rail: str, finding: ProbeFinding, quiet: float) -> Fact:
    fact = Fact(finding.code, _what(rail), finding.expected, finding.found, peer=finding.peer)
    if finding.code in (LOSS, PATH_MTU):
        fact = fact._replace(quiet=_SHARE * quiet)
    if finding.peer is None:
        return fact
    cause = "the port of %s, its cable or its leaf port: other partners are not affected" % finding.peer
    return fact._replace(cause=cause, remedy="run 'railyard-health status' on %s" % finding.peer)
