#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the findings of docs/import.md from the import rules. With --check, only compare."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "import.md"
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Rule  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (  # noqa: E402
    example_manifests,
    layout_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_rules import IMPORT_RULES  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import run  # noqa: E402
from tools import generated  # noqa: E402

FAMILIES = {
    "IM1": "Reading",
    "IM2": "Fields",
    "IM3": "Addresses",
    "IM4": "Resources and names",
    "IM5": "Rails and the fabric",
}

_HUNK = re.compile(r"(---|\+\+\+|@@) ")
ONE_RAIL = """\
<a id="manifests-of-one-rail"></a>

Several examples use these manifests of one rail:

```
%s```
"""
MARK = "<!-- Below this line: written by tools/import_doc.py from the rules. Change a rule and run it. -->\n"


def page() -> str:
    """Return the page: the text above the mark unchanged, and the rules below it."""
    head, mark, _old = DOC.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        sys.exit("docs/import.md has no mark. Remedy: put this line above the findings: %s" % MARK.strip())
    parts = [head + mark, ONE_RAIL % example_manifests.BOTH.lstrip("\n")]
    for prefix, family in FAMILIES.items():
        rules = [rule for code, rule in sorted(IMPORT_RULES.items()) if code.startswith(prefix)]
        table = "## %sxx: %s\n\n| name | code | severity | title |\n|---|---|---|---|" % (prefix, family)
        rows = (
            "\n| [%s](#%s) | %s | %s | %s |" % (rule.name, rule.code.lower(), rule.code, rule.severity, rule.title)
            for rule in rules
        )
        parts.append(table + "".join(rows) + "\n")
        parts.extend(_entry(rule) for rule in rules)
    return "\n".join(parts)


def _entry(rule: Rule) -> str:
    options = Options(provider="agent" if rule in layout_rules.OF_SLOTS else None)
    outcome = run([("example", rule.bad.encode("utf-8", "surrogateescape"))], options)
    given = next(found for found in outcome.findings if found.finding.code == rule.code)
    lines = (_shown(rule.bad).splitlines(), _shown(rule.good).splitlines())
    if difflib.SequenceMatcher(None, *lines).ratio() > 0.4:
        fixed = [line for line in difflib.unified_diff(*lines, n=1, lineterm="") if not _HUNK.match(line)]
        shown = "Fixed:\n\n```diff\n%s\n```\n" % "\n".join(fixed)
    else:
        shown = "Bad%s\nGood%s" % (_example(rule.bad), _example(rule.good))
    text = '<a id="%s"></a>\n\n### %s\n\n%s (%s):\n\n    %s\n\n%s'
    return text % (rule.code.lower(), rule.label, rule.title, rule.severity, given.text(), shown)


def _example(text: str) -> str:
    if text == example_manifests.BOTH.lstrip("\n"):
        return ": the [manifests of one rail](#manifests-of-one-rail).\n"
    return ":\n\n```\n%s```\n" % _shown(text)


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "\\x%02x" % (ord(char) & 255) for char in text)


if __name__ == "__main__":
    sys.exit(generated.main("tools/import_doc.py", __doc__, lambda: {DOC: page()}))
