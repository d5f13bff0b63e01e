# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings, and the registry of the rules that lint checks."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

ERROR = "error"
WARNING = "warning"
# A finding that the fabric file suppresses, with a reason.
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)

# The longest message and remedy, in characters.
MAX_TEXT = 300

# The keys and list positions that lead from the top of the file to a value.
Path = t.Tuple[t.Union[str, int], ...]


@dataclass(frozen=True)
class Rule:
    """One kind of mistake in a fabric file.

    ``bad`` and ``good`` are parts of a fabric file: their sections replace those of ``example_file.BASE``. The
    documentation and the tests use them. ``why``: the reason, where it is not evident. ``suppressible``: whether the
    fabric file can suppress its findings: true for all warnings, and for errors that do not make a plan impossible.
    """

    code: str
    name: str
    severity: str
    title: str
    bad: str
    good: str
    why: str = ""
    suppressible: bool = False

    @property
    def label(self) -> str:
        return label(self.name, self.code)


RULES: dict[str, Rule] = {}
# Codes of removed rules. They are never used again, because fabric files and pages may still name them.
RETIRED = ("IM106", "IM111", "IM307", "IM322", "IM323", "RY501", "RY967", "RY968", "RY969", "RY970")


def rule(header: str, bad: str, good: str, severity: str = ERROR, why: str = "", suppressible: bool = False) -> Rule:
    """Register a lint rule and return it."""
    return register(RULES, header, bad, good, severity, why, suppressible or severity == WARNING)


def register(
    rules: dict[str, Rule],
    header: str,
    bad: str,
    good: str,
    severity: str,
    why: str = "",
    suppressible: bool = False,
) -> Rule:
    """Add a rule to ``rules`` and return it.

    :param header: ``CODE NAME: TITLE``. Codes and names are permanent and unique.
    :raises ValueError: if the header has no name, or its code or name is registered already, or its code is retired.
    """
    identity, _colon, title = header.partition(": ")
    code, _space, name = identity.partition(" ")
    if not name or code in rules or code in RETIRED or rule_of(rules, name):
        raise ValueError("%s has no name, its code is retired, or its code or name is registered already" % header)
    bad, good = (text.strip("\n") + "\n" for text in (bad, good))
    rules[code] = Rule(code, name, severity, title, bad, good, why, suppressible)
    return rules[code]


def rule_of(rules: t.Mapping[str, Rule], text: str) -> Rule | None:
    """Return the rule with this code or name; None if no rule has it."""
    return rules.get(text) or next((each for each in rules.values() if each.name == text), None)


def label(name: str, code: str) -> str:
    """Return the label of a finding, such as ``rail-subnet-overlap (RY311)``."""
    return "%s (%s)" % (name, code) if name else code


@dataclass(frozen=True)
class Finding:
    """``place`` is the dotted path of the value; ``line`` and ``column`` count from 1, and are 0 if unknown.

    ``message`` and ``remedy`` have no full stop at the end. ``reason``: why the fabric file suppresses the finding;
    empty if it is not suppressed.
    """

    code: str
    name: str
    severity: str
    place: str
    line: int
    column: int
    message: str
    remedy: str
    reason: str = ""

    @property
    def label(self) -> str:
        return label(self.name, self.code)

    @property
    def advice(self) -> str:
        """The remedy, or the reason for the suppression, as a sentence."""
        return "Suppressed: %s." % self.reason if self.reason else "Remedy: %s." % self.remedy

    def text(self, file: str = "") -> str:
        """Return the finding as one line."""
        position = ("%s:%d: " % (file, self.line) if self.line else "%s: " % file) if file else ""
        place = "%s: " % self.place if self.place else ""
        return "%s%s %s%s. %s" % (position, self.label, place, self.message, self.advice)


class Suppression(t.NamedTuple):
    """An entry of the section ``lint``: findings of the rule ``code`` at ``place`` (dotted) or below are suppressed."""

    code: str
    place: str
    reason: str
    path: Path

    def covers(self, code: str, place: str) -> bool:
        """Return whether a finding of this rule at this place is suppressed."""
        below = place.startswith(self.place) and place[len(self.place) : len(self.place) + 1] in ("", ".", "[")
        return code == self.code and below


class Report:
    """Collects findings until the line numbers of their places are known.

    One mistake is one finding: a second finding of the same rule at the same place is dropped. So a mistake in a
    pattern for many rails or nodes is reported once.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], tuple[Rule, str, str, tuple[int, int] | None]] = {}
        # Places with a finding at or below them; places of findings; (code, parent place) of each finding.
        self._above: set[Path] = set()
        self._paths: set[Path] = set()
        self._below: set[tuple[str, Path]] = set()
        self._suppressions: list[Suppression] = []

    def add(self, broken: Rule, path: Path, message: str, remedy: str, position: tuple[int, int] | None = None) -> None:
        """Add a finding. ``position`` (line, column) is for findings without a path, such as syntax errors."""
        self._found.setdefault((broken.code, path), (broken, message, remedy, position))
        self._paths.add(path)
        self._above.update(path[:size] for size in range(len(path) + 1))
        self._below.add((broken.code, path[:-1]))

    def suppress(self, suppression: Suppression) -> None:
        """Report the findings that the suppression covers as notes, if their rule is suppressible."""
        self._suppressions.append(suppression)

    @property
    def failed(self) -> bool:
        """Whether there is an error that is not suppressed."""
        return any(
            broken.severity == ERROR and not self._reason(broken, path)
            for (_code, path), (broken, _message, _remedy, _position) in self._found.items()
        )

    def unused_suppressions(self) -> list[Suppression]:
        """Return the suppressions that cover no finding."""
        places = [(code, dotted(path)) for code, path in self._found]
        return [each for each in self._suppressions if not any(each.covers(code, place) for code, place in places)]

    def has(self, path: Path) -> bool:
        """Return whether there is a finding at exactly this place."""
        return path in self._paths

    def within(self, path: Path) -> bool:
        """Return whether there is a finding at this place or below it."""
        return path in self._above

    def within_by(self, broken: Rule, path: Path) -> bool:
        """Return whether this rule has a finding directly below this place."""
        return (broken.code, path) in self._below

    def findings(
        self, position: t.Callable[[Path], tuple[int, int]], written: t.Callable[[Path], Path] = lambda path: path
    ) -> list[Finding]:
        """Return all findings, in the order of their places in the file.

        :param position: path -> (line, column).
        :param written: path -> the path without the parts that the file cannot have.
        """
        found = []
        for (code, path), (broken, message, remedy, known) in self._found.items():
            line, column = known or position(path)
            reason = self._reason(broken, path)
            severity = NOTE if reason else broken.severity
            texts = [shown(text, MAX_TEXT) for text in (message, remedy, reason)]
            found.append(Finding(code, broken.name, severity, dotted(written(path)), line, column, *texts))
        return sorted(found, key=lambda each: (each.line, each.column, each.code, each.place))

    def _reason(self, broken: Rule, path: Path) -> str:
        if not self._suppressions or not broken.suppressible:
            return ""
        place = dotted(path)
        return next((each.reason for each in self._suppressions if each.covers(broken.code, place)), "")


def dotted(path: Path) -> str:
    """Return a path as text: ``("nodes", "ai-1", "gpus", 0)`` is ``nodes.ai-1.gpus[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += "[%d]" % part
        else:
            text += ("." if text else "") + shown(part)
    return shown(text, 120)


def shown(text: str, limit: int = 60) -> str:
    """Return a user's text for a message: one line, control characters escaped, at most ``limit`` characters."""
    clean = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text[:limit]
    )
    return clean + "..." if len(text) > limit else clean
