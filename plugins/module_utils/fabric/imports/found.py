# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the import finds: a finding as lint's, with the file that it is in and what was written instead."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import (
    ERROR,
    MAX_TEXT,
    Finding,
    Rule,
    shown,
)


class Place(t.NamedTuple):
    """A place in a file of manifests; ``path`` leads to it from the top of its document."""

    file: str
    line: int = 1
    column: int = 1
    path: str = ""


class Mended(t.NamedTuple):
    """``written`` says what stands in the fabric file instead."""

    file: str
    finding: Finding
    written: str

    def text(self) -> str:
        """The finding as one line."""
        return "%s Written: %s." % (self.finding.text(self.file), self.written)

    def as_dict(self) -> dict[str, t.Any]:
        found = self.finding
        return {
            "file": self.file,
            "line": found.line,
            "column": found.column,
            "place": found.place,
            "code": found.code,
            "severity": found.severity,
            "message": found.message,
            "remedy": found.remedy,
            "written": self.written,
        }


class Found:
    """Collects findings. The same rule says the same thing of one place once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Place, str], Mended] = {}

    def add(self, broken: Rule, place: Place, message: str, remedy: str, written: str) -> None:
        """All texts end without a full stop."""
        text, mend = shown(message, MAX_TEXT), shown(remedy, MAX_TEXT)
        finding = Finding(
            code=broken.code,
            severity=broken.severity,
            place=shown(place.path, 120),
            line=place.line,
            column=place.column,
            message=text,
            remedy=mend,
        )
        self._found.setdefault((broken.code, place, text), Mended(place.file, finding, shown(written, MAX_TEXT)))

    @property
    def all(self) -> list[Mended]:
        """In the order of files, and of lines in each."""
        files = {name: at for at, name in enumerate(dict.fromkeys(each.file for each in self._found.values()))}
        return sorted(
            self._found.values(),
            key=lambda each: (files[each.file], each.finding.line, each.finding.column, each.finding.code),
        )

    def said(self, broken: Rule) -> bool:
        """Whether the rule has found something."""
        return any(code == broken.code for code, _place, _text in self._found)

    @property
    def failed(self) -> bool:
        return any(each.finding.severity == ERROR for each in self._found.values())
