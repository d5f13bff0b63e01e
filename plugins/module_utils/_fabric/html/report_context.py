# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a report is made of, and the few things that several of its sections say of it."""

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
    """``digest``: the plan's; ``findings``: those of lint, None if it did not run; ``runs``: the oldest first, those of
    the verdicts among them; ``notes``: what the reader should know of the documents; ``charts``: whether they can be
    drawn; ``inventory``: the path that commands name, where it is known."""

    plan: Document
    digest: str
    findings: t.Sequence[LintFinding] | None
    verdicts: t.Mapping[str, Verdict]
    runs: t.Sequence[Run]
    version: str
    notes: t.Sequence[str]
    charts: bool
    inventory: str = ""

    @property
    def judged(self) -> Verdict | None:
        """The verdict that the matrix shows."""
        return self.verdicts.get(VERIFY)

    @property
    def measured(self) -> tuple[str, t.Sequence[Measure]]:
        """The kind of the verdict that measured transfers, and these; empty if none was measured."""
        verdict = self.judged
        if verdict and any(each.gbits is not None or each.rtt_ms is not None for each in verdict.measures):
            return VERIFY, verdict.measures
        return "", ()


def took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return "%.1f s" % seconds if seconds < 90 else "%d min %d s" % divmod(int(round(seconds)), 60)
