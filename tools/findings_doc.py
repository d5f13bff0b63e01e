#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/findings.md from the rules. With --check, only report whether the page is up to date."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "findings.md"
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (  # noqa: E402
    RULES,
    Rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint  # noqa: E402
from tools import generated  # noqa: E402

FAMILIES = {
    "RY1": "The file",
    "RY2": "Names",
    "RY3": "Addresses, routing and MTU",
    "RY4": "Rails, profiles and nodes",
    "RY5": "Attachment, RDMA mode and firmware",
    "RY6": "SR-IOV and InfiniBand",
    "RY7": "QoS",
    "RY8": "Kubernetes and providers",
    "RY90": "GPUs and their rails",
    "RY91": "The health service",
    "RY95": "Scale",
    "RY96": "PCI and limits of nodes",
    "RY97": "GPUDirect",
}

HEAD = """\
<!-- Written by tools/findings_doc.py from the rules. Change a rule and run it; do not change this file. -->
# Findings

Every finding about a [fabric file](fabric-file.md) has a permanent name and code, a place, and a remedy. An **error**
stops a playbook before any host is contacted; a **warning** is only shown. Findings marked "can be suppressed" are
suppressed by the file's section [lint](fabric-file.md#lint-suppressed-findings), which takes the name or the code,
with a reason; they are then shown as a **note**. All findings are reported at once, in the order of the file, and one
mistake gives one finding. The format is

    FILE:LINE: NAME (CODE) PLACE: what is wrong. Remedy: what to do.

Each rule has a bad example, its finding, and a good example, which shows only sections that differ from the bad one.
The sections of an example replace those of the same name in this file:

```yaml
%s```
"""

# The entries of more than four lines that differ in their numbers: the first, the indentation, and the last.
_NUMBERED = re.compile(r"(^( +)([a-z]+)\d+: .*\n)(?:\2\3\d+: .*\n){3,}(\2\3\d+: .*\n)", re.MULTILINE)


def page() -> str:
    """Return the page."""
    parts = [HEAD % example_file.BASE]
    for prefix, family in FAMILIES.items():
        rules = [rule for code, rule in sorted(RULES.items()) if code.startswith(prefix)]
        parts.append(
            "## %s: %s\n\n| name | code | severity | title |\n|---|---|---|---|" % (prefix.ljust(5, "x"), family)
        )
        parts[-1] += "".join(
            "\n| [%s](#%s) | %s | %s | %s |" % (rule.name, rule.code.lower(), rule.code, rule.severity, rule.title)
            for rule in rules
        )
        parts[-1] += "\n"
        parts.extend(_entry(rule) for rule in rules)
    return "\n".join(parts)


def _entry(rule: Rule) -> str:
    (finding,) = lint(example_file.whole(rule.bad).encode("utf-8")).findings
    severity = rule.severity + (", can be suppressed" if rule.suppressible else "")
    return '<a id="%s"></a>\n\n### %s\n\n%s (%s).%sBad:\n\n%s\n    %s\n\n%s' % (
        rule.code.lower(),
        rule.label,
        rule.title,
        severity,
        "\n\n%s\n\n" % textwrap.fill(rule.why, 120) if rule.why else " ",
        _yaml(rule.bad),
        finding.text(),
        _good(rule),
    )


def _good(rule: Rule) -> str:
    """Return the good example: the sections that differ from the bad one, and the names of missing ones."""
    bad, good = example_file.all_sections(rule.bad), example_file.all_sections(rule.good)
    if "" in bad or rule.good.startswith("plugin:"):
        return "Good:\n\n%s" % _yaml(rule.good)
    gone = ["`%s`" % name for name in bad if name not in good]
    without = "Good, without %s" % " and ".join(gone) if gone else "Good"
    changed = "".join(text.rstrip() + "\n" for name, text in good.items() if text != bad.get(name))
    return "%s:\n\n%s" % (without, _yaml(changed)) if changed else "%s.\n" % without


def _yaml(text: str) -> str:
    # Control characters are written as YAML escapes, so that the page is plain text.
    clean = "".join(char if char.isprintable() or char == "\n" else "\\x%02x" % ord(char) for char in text)
    return "```yaml\n%s```\n" % _NUMBERED.sub(r"\1\2# ...\n\4", clean)


if __name__ == "__main__":
    sys.exit(generated.main("tools/findings_doc.py", __doc__, lambda: {DOC: page()}))
