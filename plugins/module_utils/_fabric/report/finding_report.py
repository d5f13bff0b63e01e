# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lint findings as a table, and as JSON, SARIF 2.1.0 and JUnit XML for programs.

``checked`` is a list of files, each with its findings in the order of their places.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from urllib.parse import quote

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    NOTE,
    RULES,
    WARNING,
    Finding,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.junit_xml import Case, junit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import WIDTH, count, table

Checked = t.Sequence[t.Tuple[str, t.Sequence[Finding]]]

SEVERITIES = (ERROR, WARNING, NOTE)
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
PAGE = "https://github.com/railyard/railyard.fabric/blob/main/docs/findings.md"


def counts(checked: Checked) -> dict[str, int]:
    """Return severity -> number of findings."""
    return {
        severity: sum(finding.severity == severity for _file, findings in checked for finding in findings)
        for severity in SEVERITIES
    }


def worst(checked: Checked) -> str | None:
    """Return the worst severity; None without findings."""
    return next((severity for severity, number in counts(checked).items() if number), None)


def summary(checked: Checked) -> str:
    """Return one line: the number of findings and files."""
    numbers = counts(checked)
    shown = [count(number, severity) for severity, number in numbers.items() if number]
    files = checked[0][0] if len(checked) == 1 else count(len(checked), "file")
    return "%s: %s" % (files, ", ".join(shown) if shown else "no findings")


def as_table(checked: Checked, width: int = WIDTH) -> str:
    """Return a table for each file, and the summary."""
    lines: list[str] = []
    for file, findings in checked:
        if not findings:
            continue
        lines.append(file)
        rows = [
            (each.line or None, each.label, each.severity, each.place, "%s. %s" % (each.message, each.advice))
            for each in findings
        ]
        lines.extend(table(("line", "rule", "severity", "place", "what is wrong"), rows, width, "  "))
        lines.append("")
    return "\n".join([*lines, summary(checked)])


def _data(finding: Finding) -> dict[str, t.Any]:
    data: dict[str, t.Any] = {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "place": finding.place,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "remedy": finding.remedy,
    }
    if finding.reason:
        data["reason"] = finding.reason
    return data


def as_data(checked: Checked) -> dict[str, t.Any]:
    """Return the findings as plain data, in the structure of the JSON file."""
    return {
        "format": 1,
        "worst": worst(checked),
        "counts": counts(checked),
        "files": [{"file": file, "findings": [_data(each) for each in findings]} for file, findings in checked],
    }


def as_json(checked: Checked) -> bytes:
    return _json(as_data(checked))


def _json(data: t.Any) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def as_sarif(checked: Checked, version: str) -> bytes:
    """Return the findings as SARIF 2.1.0, with all rules of lint, so that the rule of each result is described.

    A file in the working directory is named relative to ``%SRCROOT%``, as code hosts expect. ``version``: the
    collection's.
    """
    codes = sorted(RULES)
    at = {code: index for index, code in enumerate(codes)}
    driver = {
        "name": "railyard",
        "informationUri": PAGE,
        "version": version,
        "semanticVersion": version,
        "rules": [_sarif_rule(code) for code in codes],
    }
    results = [_sarif_result(file, finding, at) for file, findings in checked for finding in findings]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The directory in which the check was run"}}},
        "artifacts": [{"location": _sarif_location(file)} for file, _findings in checked],
        "results": results,
    }
    return _json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(code: str) -> dict[str, t.Any]:
    broken = RULES[code]
    return {
        "id": code,
        "name": broken.name,
        "shortDescription": {"text": broken.title + "."},
        "helpUri": "%s#%s" % (PAGE, code.lower()),
        "help": {"text": "Bad:\n\n%s\nGood:\n\n%s" % (_printable(broken.bad), _printable(broken.good))},
        "defaultConfiguration": {"level": broken.severity},
    }


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _sarif_location(file: str) -> dict[str, t.Any]:
    path = quote(file)
    return {"uri": "file://" + path} if path.startswith("/") else {"uri": path, "uriBaseId": "%SRCROOT%"}


def _sarif_result(file: str, finding: Finding, at: t.Mapping[str, int]) -> dict[str, t.Any]:
    physical: dict[str, t.Any] = {"artifactLocation": _sarif_location(file)}
    if finding.line:
        physical["region"] = {"startLine": finding.line}
        if finding.column:
            physical["region"]["startColumn"] = finding.column
    location: dict[str, t.Any] = {"physicalLocation": physical}
    if finding.place:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.place, "kind": "member"}]
    # By place and not by line: new lines above a finding must not make it a new finding.
    place = "%s\n%s\n%s" % (file, finding.code, finding.place)
    print_of = hashlib.sha256(place.encode("utf-8")).hexdigest()[:32]
    result: dict[str, t.Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": "%s. %s" % (finding.message, finding.advice)},
        "locations": [location],
        "partialFingerprints": {"railyardPlace/v1": print_of},
    }
    if finding.code in at:
        result["ruleIndex"] = at[finding.code]
    if finding.reason:
        result["suppressions"] = [{"kind": "inSource", "status": "accepted", "justification": finding.reason}]
    return result


def as_junit(checked: Checked, strict: bool = False) -> bytes:
    """Return JUnit XML with a suite per file and a case per rule, so that a CI server can compare runs.

    Errors are failures; with ``strict``, warnings are failures too. Other findings are in the output of the case.
    """
    failing = (ERROR, WARNING) if strict else (ERROR,)
    suites = []
    for file, findings in checked:
        by_code: dict[str, list[Finding]] = {code: [] for code in sorted(RULES)}
        for finding in findings:
            by_code.setdefault(finding.code, []).append(finding)
        suites.append((file, [_junit_case(file, code, found, failing) for code, found in by_code.items()]))
    return junit("railyard", suites)


def _junit_case(file: str, code: str, found: t.Sequence[Finding], failing: t.Sequence[str]) -> Case:
    known = RULES.get(code)
    failed = [finding for finding in found if finding.severity in failing]
    others = ["%s: %s" % (each.severity, each.text(file)) for each in found if each.severity not in failing]
    case = Case("%s %s: %s" % (code, known.name, known.title) if known else code, output="\n".join(others))
    if not failed:
        return case
    first = failed[0].message
    message = first if len(failed) == 1 else "%d findings; the first: %s" % (len(failed), first)
    return case._replace(failure=(code, message, "\n".join(each.text(file) for each in failed)))


def files(checked: Checked, version: str, strict: bool = False) -> dict[str, bytes]:
    """Return file name -> contents of the report's files."""
    return {
        "findings.json": as_json(checked),
        "findings.sarif": as_sarif(checked, version),
        "findings.junit.xml": as_junit(checked, strict),
    }
