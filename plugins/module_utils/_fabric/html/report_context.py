# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input of a report, and helpers of several sections."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    VERIFY,
    LintFinding,
    Measure,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import Run

Document = t.Mapping[str, t.Any]


class Material(t.NamedTuple):
    """The input of a report.

    ``digest``: SHA-256 of the plan. ``findings``: findings of lint, None if it did not run. ``verdicts``: kind ->
    verdict. ``runs``: all runs including those of the verdicts, the oldest first. ``notes``: notes about the documents.
    ``inventory``: its path in commands; empty if unknown.
    """

    plan: Document
    digest: str
    findings: t.Sequence[LintFinding] | None
    verdicts: t.Mapping[str, Verdict]
    runs: t.Sequence[Run]
    version: str
    notes: t.Sequence[str]
    inventory: str = ""

    @property
    def judged(self) -> Verdict | None:
        """Return the verdict that the matrix shows; None without one."""
        return self.verdicts.get(VERIFY)

    @property
    def measured(self) -> tuple[str, t.Sequence[Measure]]:
        """Return the kind of the verdict that measured transfers, and the transfers; both empty without any."""
        verdict = self.judged
        if verdict and any(each.gbits is not None or each.rtt_ms is not None for each in verdict.measures):
            return VERIFY, verdict.measures
        return "", ()


def took(seconds: float | None) -> str:
    """Format a duration: ``12.5 s``, ``3 min 20 s``; empty if unknown."""
    if seconds is None:
        return ""
    return "%.1f s" % seconds if seconds < 90 else "%d min %d s" % divmod(int(round(seconds)), 60)
