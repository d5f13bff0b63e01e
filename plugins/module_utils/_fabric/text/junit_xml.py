# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""JUnit XML for CI servers."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml


class Case(t.NamedTuple):
    """One test case. ``failure``: type, message and text; ``skipped``: the reason; ``output``: further text."""

    name: str
    failure: tuple[str, str, str] | None = None
    skipped: str | None = None
    output: str = ""


def junit(title: str, suites: t.Iterable[tuple[str, t.Sequence[Case]]]) -> bytes:
    """Return a JUnit document with a suite for each pair of name and cases."""
    root = xml.Element("testsuites", name=title)
    all_cases: list[Case] = []
    for name, cases in suites:
        suite = xml.SubElement(root, "testsuite", name=name)
        for case in cases:
            _case(suite, name, case)
        _totals(suite, cases)
        all_cases += cases
    _totals(root, all_cases)
    for element in root.iter():
        element.tail = "\n"
        if not element.text and len(element):
            element.text = "\n"
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True))


def _case(suite: xml.Element, classname: str, case: Case) -> None:
    element = xml.SubElement(suite, "testcase", classname=classname, name=_clean(case.name), time="0")
    if case.failure:
        kind, message, text = case.failure
        xml.SubElement(element, "failure", type=kind, message=_clean(message)).text = _clean(text)
    elif case.skipped is not None:
        xml.SubElement(element, "skipped", message=_clean(case.skipped))
    if case.output:
        xml.SubElement(element, "system-out").text = _clean(case.output)


def _totals(element: xml.Element, cases: t.Sequence[Case]) -> None:
    failed = sum(case.failure is not None for case in cases)
    skipped = sum(case.failure is None and case.skipped is not None for case in cases)
    for key, value in (("tests", len(cases)), ("failures", failed), ("errors", 0), ("skipped", skipped)):
        element.set(key, str(value))


def _clean(text: str) -> str:
    """Return the text without characters that XML cannot contain."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())
