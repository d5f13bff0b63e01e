# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that are marked DECIDE: by a comment ``# DECIDE: QUESTION`` above or beside them, or as the value itself."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Finding,
    Path,
    Report,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Document,
    Mapping,
    Scalar,
    Sequence,
    Value,
)

WORD = "DECIDE"
_COMMENT = re.compile(r"(?:^|\s)#\s*%s\b:?\s*([^#\r\n]*)" % WORD)
_VALUE = re.compile(r"%s\b" % WORD)

UNDECIDED = rule(
    "RY120 undecided-value: Value that is marked DECIDE",
    """
fabric:
  name: ai
  attachment: macvlan
  provider: spiderpool
  # DECIDE: the MTU that every switch of the rails supports
  mtu: 4200
""",
    """
fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}
""",
    WARNING,
    why="Import and discovery mark a value that they could not find: it is missing, or a guess.",
)


def check(raw: bytes, document: Document, report: Report) -> None:
    """Report the marks in the bytes of a file, each at the key on its line or after it."""
    if WORD.encode() not in raw:
        return
    places = sorted(_places(document.root, ()), key=lambda place: place[:2])
    questions: dict[Path, list[str]] = {}
    for line, question in _comments(raw.decode("utf-8-sig")):
        path = next((path for at, _column, path, _value in places if at >= line), places[-1][2] if places else ())
        questions.setdefault(path, []).append(question)
    for _line, _column, path, value in places:
        if isinstance(value, Scalar) and _VALUE.match(value.text) and not report.within(path):
            questions.setdefault(path, []).append(value.text[len(WORD) :].lstrip(": "))
    for path, listed in questions.items():
        question = "; ".join(filter(None, listed))
        message = "this value is marked %s%s" % (WORD, question and ": %s" % shown(question, 200))
        report.add(UNDECIDED, path, message, "set the value, and remove the mark")


def without(findings: t.Iterable[Finding]) -> list[Finding]:
    """Return the findings other than those of marks, for the programs that write and count these marks."""
    return [each for each in findings if each.code != UNDECIDED.code]


def _comments(text: str) -> t.Iterator[tuple[int, str]]:
    """Yield line (from 1) and question of each marked comment. A hash within a text is not a comment."""
    import yaml  # here, because most files have no mark

    inside: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        start, end = event.start_mark, event.end_mark
        if isinstance(event, yaml.ScalarEvent) and start and end:
            inside.append(((start.line, start.column), (end.line, end.column)))
    for at, line in enumerate(text.splitlines()):
        found = _COMMENT.search(line)
        if found and not any(start <= (at, found.start()) < end for start, end in inside):
            yield at + 1, found.group(1).strip()


def _places(value: Value, path: Path) -> t.Iterator[tuple[int, int, Path, Value]]:
    """Yield line, column, path and value of each key and item."""
    if isinstance(value, Mapping):
        for key, (written, entry) in value.entries.items():
            yield written.line, written.column, path + (key,), entry
            yield from _places(entry, path + (key,))
    elif isinstance(value, Sequence):
        for at, item in enumerate(value.items):
            yield item.line, item.column, path + (at,), item
            yield from _places(item, path + (at,))
