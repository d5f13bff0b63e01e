# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Findings of the import as text: one table per file, and a summary."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, WARNING
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import (
    ImportFinding,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import Outcome
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, table

_MARK = re.compile(r"^ *# (?:DECIDE|CHECK): ", re.MULTILINE)
_HEAD = ("line", "rule", "severity", "what is wrong", "remedy", "written")


def as_table(findings: t.Sequence[ImportFinding]) -> str:
    """Return one table per file, in the order of lines."""
    lines: list[str] = []
    for file in dict.fromkeys(each.file for each in findings):
        of_file = [each for each in findings if each.file == file]
        rows = [
            (
                each.finding.line,
                each.finding.label,
                each.finding.severity,
                each.finding.message,
                each.finding.remedy,
                each.written,
            )
            for each in of_file
        ]
        lines.extend([file, *table(_HEAD, rows, indent="  "), ""])
    return "\n".join(lines).rstrip("\n")


def counts(findings: t.Sequence[ImportFinding]) -> dict[str, int]:
    """Return the number of findings per severity."""
    return {severity: sum(each.finding.severity == severity for each in findings) for severity in (ERROR, WARNING)}


def summary(outcome: Outcome) -> str:
    """Return the result on one line."""
    numbers = counts(outcome.findings)
    return "%s read, %s made; to decide: %d (DECIDE and CHECK in the file); findings: %s, %s" % (
        count(outcome.manifests, "manifest"),
        count(outcome.rails, "rail"),
        len(_MARK.findall(outcome.text)),
        count(numbers[ERROR], "error"),
        count(numbers[WARNING], "warning"),
    )
