# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of the import: like findings of lint, with the manifest's file and what the fabric file contains instead."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    MAX_TEXT,
    Finding,
    Rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import name_counting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Value

_NUMBER = re.compile(r"[0-9]+")
# Minimum number of findings, equal except for names and numbers, that are merged into one.
_ALIKE = 3


class Place(t.NamedTuple):
    """A place in a file of manifests. ``path``: path of the value in its document."""

    file: str
    line: int = 1
    column: int = 1
    path: str = ""


class ImportFinding(t.NamedTuple):
    """A finding. ``written``: what the fabric file contains instead. ``also``: places of merged findings."""

    file: str
    finding: Finding
    written: str
    also: tuple[Place, ...] = ()

    def text(self) -> str:
        return "%s Written: %s." % (self.finding.text(self.file), self.written)

    def as_dict(self) -> dict[str, t.Any]:
        found = self.finding
        return {
            "file": self.file,
            "line": found.line,
            "column": found.column,
            "place": found.place,
            "code": found.code,
            "name": found.name,
            "severity": found.severity,
            "message": found.message,
            "remedy": found.remedy,
            "written": self.written,
            "also": [{"file": place.file, "line": place.line, "place": place.path} for place in self.also],
        }


class _Entry(t.NamedTuple):
    broken: Rule
    place: Place
    message: str
    remedy: str
    written: str
    # name of the object
    name: str


class _NotImported(t.NamedTuple):
    broken: Rule
    remedy: str
    place: Place
    name: str
    text: str


class Found:
    """Collects findings. A rule reports the same message at the same place once."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, Place, str], _Entry] = {}
        # (code, kind, path) -> values that are not imported
        self._not_imported: dict[tuple[str, str, str], list[_NotImported]] = {}
        self._rules: dict[str, Rule] = {}
        # the current object, and JSON values embedded in its texts, each with its path
        self.kind = ""
        self.name = ""
        self.trees: list[tuple[str, Value]] = []

    def begin(self, kind: str, name: str) -> None:
        """Set the object of the following findings."""
        self.kind, self.name, self.trees = kind, name, []

    def add(self, broken: Rule, place: Place, message: str, remedy: str, written: str) -> None:
        """Add a finding. Texts end without a full stop."""
        self._rules[broken.code] = broken
        entry = _Entry(broken, place, message, remedy, written, self.name)
        self._entries.setdefault((broken.code, place, message), entry)

    def add_not_imported(self, broken: Rule, place: Place, path: str, text: str, remedy: str) -> None:
        """Report that the value at ``path`` of the current object, or the whole object if empty, is not imported."""
        self._rules[broken.code] = broken
        lost = self._not_imported.setdefault((broken.code, self.kind, path), [])
        lost.append(_NotImported(broken, remedy, place, self.name, text))

    @property
    def all(self) -> list[ImportFinding]:
        """Return all findings in the order of files and lines."""
        findings = [*self._grouped(), *self._of_not_imported()]
        files = {name: at for at, name in enumerate(dict.fromkeys(each.file for each in findings))}
        return sorted(
            findings, key=lambda each: (files[each.file], each.finding.line, each.finding.column, each.finding.code)
        )

    def has(self, broken: Rule) -> bool:
        return broken.code in self._rules

    @property
    def failed(self) -> bool:
        return any(rule.severity == ERROR for rule in self._rules.values())

    def _grouped(self) -> t.Iterator[ImportFinding]:
        groups: dict[tuple[str, ...], list[_Entry]] = {}
        for each in self._entries.values():
            masked = tuple(_masked(text, each.name) for text in (each.message, each.remedy, each.written))
            groups.setdefault((each.broken.code, *masked), []).append(each)
        for group in groups.values():
            if len(group) >= _ALIKE:
                yield _finding(group[0], group[1:])
            else:
                yield from (_finding(each, []) for each in group)

    def _of_not_imported(self) -> t.Iterator[ImportFinding]:
        for (_code, kind, path), lost in self._not_imported.items():
            by_text: dict[str, list[_NotImported]] = {}
            for each in lost:
                by_text.setdefault(each.text, []).append(each)
            start = "%s of %s" % (path, kind) if path else kind
            parts: list[str] = []
            members: list[_NotImported] = []
            for text, equal in by_text.items():
                names = _names(equal)
                part = " ".join(filter(None, (text, names and path and "(%s)" % names or names)))
                if parts and len(start) + sum(map(len, parts)) + len(part) > MAX_TEXT - 40:
                    yield _one_not_imported(start, parts, members)
                    parts, members = [], []
                parts.append(part)
                members.extend(equal)
            yield _one_not_imported(start, parts, members)


def _one_not_imported(start: str, parts: t.Sequence[str], members: t.Sequence[_NotImported]) -> ImportFinding:
    first = members[0]
    message = "%s is not imported: %s" % (start, ", ".join(parts))
    entry = _Entry(first.broken, first.place, message.rstrip(": "), first.remedy, "nothing", "")
    return _finding(entry, [], tuple(each.place for each in members[1:]))


def _names(members: t.Sequence[_NotImported]) -> str:
    return name_counting.compact([shown(name) for name in dict.fromkeys(each.name for each in members) if name])


def _masked(text: str, name: str) -> str:
    return _NUMBER.sub("#", text.replace(name, "@") if name else text)


def _finding(entry: _Entry, similar: t.Sequence[_Entry], also: tuple[Place, ...] = ()) -> ImportFinding:
    place, broken = entry.place, entry.broken
    message = entry.message
    if similar:
        also = tuple(each.place for each in similar)
        names = [name for name in dict.fromkeys(each.name for each in similar) if name and name != entry.name]
        if len(names) == len(similar) and entry.name:
            more = name_counting.compact([shown(name) for name in names])
        else:
            more = "at line%s %s" % ("s" if len(also) > 1 else "", _lines(entry.place, also))
        message = "%s; likewise %s" % (shown(message, MAX_TEXT - 100), more)
    finding = Finding(
        code=broken.code,
        name=broken.name,
        severity=broken.severity,
        place=shown(place.path, 120),
        line=place.line,
        column=place.column,
        message=shown(message, MAX_TEXT),
        remedy=shown(entry.remedy, MAX_TEXT),
    )
    return ImportFinding(place.file, finding, shown(entry.written, MAX_TEXT), also)


def _lines(first: Place, places: t.Sequence[Place]) -> str:
    texts = ["%s%d" % ("" if place.file == first.file else place.file + ":", place.line) for place in places]
    texts = list(dict.fromkeys(texts))
    return ", ".join(texts[:6]) + (" and %d more" % (len(texts) - 6) if len(texts) > 6 else "")
