# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Findings: what lint says, and the registry of the rules that say it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

ERROR = "error"
WARNING = "warning"

# Characters of a message and of a remedy at the most, however long the names in them are.
MAX_TEXT = 300

# The keys, and for lists the positions, that lead from the top of the file to a value.
Path = t.Tuple[t.Union[str, int], ...]


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong with a fabric file.

    ``bad`` and ``good`` are pieces of a fabric file: the sections they show replace those of ``rules.example.BASE``.
    The documentation and the tests take them from here.
    """

    code: str
    severity: str
    title: str
    bad: str
    good: str


RULES: dict[str, Rule] = {}


def rule(code: str, title: str, bad: str, good: str, severity: str = ERROR) -> Rule:
    """Register a rule. Codes are for good: a rule that goes leaves its number unused."""
    if code in RULES:
        raise ValueError("%s is there already" % code)
    RULES[code] = Rule(code, severity, title, bad.strip("\n") + "\n", good.strip("\n") + "\n")
    return RULES[code]


@dataclass(frozen=True)
class Finding:
    """``place`` is the dotted path of the value; ``line`` and ``column`` count from 1, and are 0 where there is none.

    ``message`` and ``remedy`` end without a full stop.
    """

    code: str
    severity: str
    place: str
    line: int
    column: int
    message: str
    remedy: str

    def text(self, file: str = "") -> str:
        """The finding as one line."""
        where = ("%s:%d: " % (file, self.line) if self.line else "%s: " % file) if file else ""
        place = "%s: " % self.place if self.place else ""
        return "%s%s %s%s. Remedy: %s." % (where, self.code, place, self.message, self.remedy)


class Report:
    """Collects what the rules find, until the places are known.

    One mistake is one finding: a second finding of the same rule at the same place is dropped, so a mistake in a
    pattern that stands for many rails or nodes is said once.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], tuple[Rule, str, str, tuple[int, int] | None]] = {}
        self._paths: set[Path] = set()

    def add(self, broken: Rule, path: Path, message: str, remedy: str, position: tuple[int, int] | None = None) -> None:
        """``position`` (line, column) is for what has no path, such as a syntax error."""
        self._found.setdefault((broken.code, path), (broken, message, remedy, position))
        self._paths.add(path)

    @property
    def failed(self) -> bool:
        return any(broken.severity == ERROR for broken, _message, _remedy, _position in self._found.values())

    def has(self, path: Path) -> bool:
        """Whether something is wrong at this very place."""
        return path in self._paths

    def within(self, path: Path) -> bool:
        """Whether something is wrong at this place or below it."""
        return any(found[: len(path)] == path for found in self._paths)

    def within_by(self, broken: Rule, path: Path) -> bool:
        """Whether this rule has found something right below this place."""
        return any(code == broken.code and found[:-1] == path for code, found in self._found)

    def findings(self, position: t.Callable[[Path], tuple[int, int]]) -> list[Finding]:
        """All findings, in the order of their places in the file."""
        found = []
        for (code, path), (broken, message, remedy, known) in self._found.items():
            line, column = known or position(path)
            text, mend = shown(message, MAX_TEXT), shown(remedy, MAX_TEXT)
            found.append(Finding(code, broken.severity, dotted(path), line, column, text, mend))
        return sorted(found, key=lambda each: (each.line, each.column, each.code, each.place))


def dotted(path: Path) -> str:
    """``("nodes", "ai-1", "gpus", 0)`` as ``nodes.ai-1.gpus[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += "[%d]" % part
        else:
            text += ("." if text else "") + shown(part)
    return shown(text, 120)


def shown(text: str, limit: int = 60) -> str:
    """A user's text fit for one line of a message: no control characters, and not endless."""
    clean = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text[:limit]
    )
    return clean + "..." if len(text) > limit else clean
