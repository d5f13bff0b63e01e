# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of one pytest run as JSON, from which ``tools/parts`` makes its summary of all runs."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest


class Results:
    """A pytest plugin: seconds per file, outcomes, and the reason of each skipped or failed test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seconds: collections.defaultdict[str, float] = collections.defaultdict(float)
        self._outcomes: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._failures: dict[str, str] = {}

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.outcome == "skipped":
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._reasons[report.nodeid] = text.removeprefix("Skipped: ")
        elif report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failures[report.nodeid] = (crash.message if crash else report.longreprtext).partition("\n")[0]
        # a failure in any phase of a test counts, whatever the other phases end in
        if self._outcomes.get(report.nodeid) != "failed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            self._add(report)

    def pytest_sessionfinish(self) -> None:
        counted = collections.Counter(self._outcomes.values())
        found = {
            "files": dict(self._seconds),
            **{outcome: counted[outcome] for outcome in ("passed", "failed", "skipped")},
            "skips": [[nodeid.partition("::")[0], reason] for nodeid, reason in sorted(self._reasons.items())],
            "failures": sorted(self._failures.items()),
        }
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / ("%d.json" % os.getpid())).write_text(json.dumps(found), encoding="utf-8")
