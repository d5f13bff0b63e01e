# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY1xx: suppressions without a finding."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog.file_rules import (
    UNUSED_SUPPRESSION,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import RULES, Report


def check_lint(report: Report) -> None:
    """Report suppressions without a finding. Runs after all other checks."""
    for each in report.unused_suppressions():
        message = "no finding of %s at %s" % (RULES[each.code].label, each.place)
        report.add(UNUSED_SUPPRESSION, each.path, message, "remove the entry, or correct its place")
