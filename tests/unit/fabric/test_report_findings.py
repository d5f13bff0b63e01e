# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings as a table, JSON, SARIF and JUnit XML: each contains all findings, in a valid format."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import replace
from xml.etree import ElementTree as xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    RULES,
    WARNING,
    Finding,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import finding_report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import text_table

GOOD = example_file.BASE.encode("utf-8")
BAD = GOOD.replace(b"mtu: 4200", b"mtu: jumbo").replace(b"172.16.12.0/24", b"172.16.11.0/24")
WARNED = Finding("RY112", "wrong-type", WARNING, "fabric.mtu", 7, 3, "a <warning> & more", "none")


def _checked() -> list[tuple[str, list[Finding]]]:
    found = lint(BAD).findings
    assert len(found) >= 2
    return [("inventories/a b/fabric.yml", found), ("/srv/good.yml", lint(GOOD).findings), ("w.yml", [WARNED])]


def test_the_table_contains_every_word_and_fits_a_terminal() -> None:
    checked = _checked()
    table = finding_report.as_table(checked)
    assert max(map(len, table.splitlines())) <= text_table.WIDTH
    words = re.sub(r"\s+", " ", table)
    for _file, found in checked:
        for finding in found:
            assert finding.label in words and finding.place in words
            assert "Remedy: " in words
            for word in (finding.message + " " + finding.remedy).split():
                assert word in words
    assert table.splitlines()[-1] == "3 files: %d errors, 1 warning" % len(checked[0][1])


def test_a_file_without_findings() -> None:
    checked = [("fabric.yml", lint(GOOD).findings)]
    assert finding_report.as_table(checked) == "fabric.yml: no findings"
    assert finding_report.worst(checked) is None


@pytest.mark.parametrize(
    ("severities", "worst"), [((), None), (("note",), "note"), (("note", WARNING), WARNING), ((WARNING, ERROR), ERROR)]
)
def test_the_worst_severity_is_returned(severities: tuple[str, ...], worst: str | None) -> None:
    found = [replace(WARNED, severity=severity) for severity in severities]
    assert finding_report.worst([("a", []), ("b", found)]) == worst


def test_json_holds_each_finding_whole() -> None:
    checked = _checked()
    data = json.loads(finding_report.as_json(checked))
    assert data["counts"] == {"error": len(checked[0][1]), "warning": 1, "note": 0} and data["worst"] == "error"
    assert [each["file"] for each in data["files"]] == [file for file, _found in checked]
    for (_file, found), shown in zip(checked, data["files"]):
        assert [(each["code"], each["name"], each["line"], each["message"]) for each in shown["findings"]] == [
            (each.code, each.name, each.line, each.message) for each in found
        ]


def test_sarif_names_every_rule_and_places_every_result() -> None:
    checked = _checked()
    log = json.loads(finding_report.as_sarif(checked, "1.2.3"))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [(rule["id"], rule["name"]) for rule in rules] == [(code, RULES[code].name) for code in sorted(RULES)]
    assert run["tool"]["driver"]["version"] == "1.2.3"
    results = run["results"]
    assert len(results) == sum(len(found) for _file, found in checked)
    for result in results:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        physical = result["locations"][0]["physicalLocation"]
        assert physical["region"]["startLine"] >= 1
    locations = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in results]
    assert locations[0] == {"uri": "inventories/a%20b/fabric.yml", "uriBaseId": "%SRCROOT%"}
    artifacts = [artifact["location"]["uri"] for artifact in run["artifacts"]]
    assert artifacts == ["inventories/a%20b/fabric.yml", "file:///srv/good.yml", "w.yml"]
    prints = [result["partialFingerprints"]["railyardPlace/v1"] for result in results]
    assert len(set(prints)) == len(prints)


def test_a_sarif_fingerprint_stays_when_lines_are_added_above() -> None:
    def prints(raw: bytes) -> list[str]:
        log = json.loads(finding_report.as_sarif([("f", lint(raw).findings)], "1"))
        return [result["partialFingerprints"]["railyardPlace/v1"] for result in log["runs"][0]["results"]]

    assert prints(BAD) == prints(b"# a line more\n" + BAD)


@pytest.mark.parametrize("strict", [False, True])
def test_junit_fails_what_fails(strict: bool) -> None:
    checked = _checked()
    root = xml.fromstring(finding_report.as_junit(checked, strict))
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [file for file, _found in checked]
    failed = {case.get("name", "")[:5] for case in suites[0].iter("testcase") if case.find("failure") is not None}
    assert failed == {finding.code for finding in checked[0][1] if finding.severity == ERROR}
    names = [case.get("name", "") for case in suites[0].iter("testcase")]
    assert names == ["%s %s: %s" % (code, RULES[code].name, RULES[code].title) for code in sorted(RULES)]
    assert not suites[1].findall(".//failure") and len(suites[1].findall("testcase")) == len(RULES)
    (case,) = [case for case in suites[2].iter("testcase") if len(case)]
    out = case.find("failure" if strict else "system-out")
    assert out is not None and "a <warning> & more" in (out.text or "")
    for suite in suites:
        assert int(suite.get("failures", "")) == len(suite.findall(".//failure"))
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert int(root.get("tests", "")) == sum(int(suite.get("tests", "")) for suite in suites)


def test_the_same_findings_give_the_same_bytes() -> None:
    assert finding_report.files(_checked(), "1") == finding_report.files(_checked(), "1")


# -- tables of text

CELLS = st.one_of(st.none(), st.integers(), st.text("abc ,:/.-", max_size=60), st.lists(st.integers(), max_size=3))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=5))
def test_a_table_fits_and_loses_nothing(rows: list[tuple[t.Any, ...]]) -> None:
    lines = text_table.table(("one", "two", "three", "four"), rows, 60)
    assert all(len(line) <= 60 for line in lines)
    shown = "".join(sorted("".join(lines).replace(" ", "")))
    used = [at for at in range(4) if any(text_table.cell(row[at]) for row in rows)]
    head = "".join(("one", "two", "three", "four")[at] for at in used)
    wanted = head + "".join(text_table.cell(value) for row in rows for value in row).replace(" ", "")
    assert shown == "".join(sorted(wanted))


def test_markdown_and_csv_keep_their_cells_apart() -> None:
    assert text_table.markdown(("a",), [("x|y",)])[-1] == "| x\\|y |"
    assert text_table.as_csv(("a", "b"), [("x,y", None), (True, [1, 2])]) == b'a,b\n"x,y",\ntrue,"1,2"\n'
