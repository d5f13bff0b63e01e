# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY1xx: the file, its keys and the kinds of its values."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog.file_rules import LINT_IDLE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report


def check_lint(report: Report) -> None:
    """That everything which the file lets stand is there; asked when all else has been looked at."""
    for each in report.idle():
        message = "%s finds nothing at %s" % (each.code, each.place)
        report.add(LINT_IDLE, each.path, message, "take the entry out, or correct its place")
