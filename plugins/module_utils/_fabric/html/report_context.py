# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a report is made of, and the few things that several of its sections say of it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import (
    PROOF,
    VERIFY,
    Measure,
    Said,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.run_history import Run

Document = t.Mapping[str, t.Any]


class Material(t.NamedTuple):
    """``digest``: the plan's; ``said``: the findings of lint, None if it did not run; ``runs``: the oldest first, those of
    the verdicts among them; ``notes``: what the reader should know of the documents; ``charts``: whether they can be
    drawn; ``inventory``: the path that commands name, where it is known."""

    plan: Document
    digest: str
    said: t.Sequence[Said] | None
    verdicts: t.Mapping[str, Verdict]
    runs: t.Sequence[Run]
    version: str
    notes: t.Sequence[str]
    charts: bool
    inventory: str = ""

    @property
    def judged(self) -> Verdict | None:
        """The verdict of which the matrix is: verify's, else the proof's."""
        return self.verdicts.get(VERIFY) or self.verdicts.get(PROOF)

    @property
    def measured(self) -> tuple[str, t.Sequence[Measure]]:
        """Whose transfers are shown, and they: verify's where it measured, else the proof's."""
        for kind in (VERIFY, PROOF):
            verdict = self.verdicts.get(kind)
            if verdict and any(each.gbits is not None or each.rtt_ms is not None for each in verdict.measures):
                return kind, verdict.measures
        return "", ()


def took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return "%.1f s" % seconds if seconds < 90 else "%d min %d s" % divmod(int(round(seconds)), 60)
