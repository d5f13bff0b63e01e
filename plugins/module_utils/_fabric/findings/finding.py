# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Findings: what lint says, and the registry of the rules that say it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

ERROR = "error"
WARNING = "warning"
# What somebody has looked at, and let stand for a reason that the file gives.
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)

# Characters of a message and of a remedy at the most, however long the names in them are.
MAX_TEXT = 300

# The keys, and for lists the positions, that lead from the top of the file to a value.
Path = t.Tuple[t.Union[str, int], ...]


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong with a fabric file.

    ``bad`` and ``good`` are pieces of a fabric file: the sections they show replace those of ``rules.example.BASE``.
    The documentation and the tests take them from here. ``why``: the reason, where it is not evident. ``lowers``:
    whether the file may let such a finding stand: all warnings, and the errors that do not make a plan impossible.
    """

    code: str
    severity: str
    title: str
    bad: str
    good: str
    why: str = ""
    lowers: bool = False


RULES: dict[str, Rule] = {}


def rule(
    code: str,
    title: str,
    bad: str,
    good: str,
    severity: str = ERROR,
    why: str = "",
    lowers: bool = False,
) -> Rule:
    """Register a rule. Codes are for good: a rule that goes leaves its number unused."""
    if code in RULES:
        raise ValueError("%s is there already" % code)
    lowers = lowers or severity == WARNING
    RULES[code] = Rule(code, severity, title, bad.strip("\n") + "\n", good.strip("\n") + "\n", why, lowers)
    return RULES[code]


@dataclass(frozen=True)
class Finding:
    """``place`` is the dotted path of the value; ``line`` and ``column`` count from 1, and are 0 where there is none.

    ``message`` and ``remedy`` end without a full stop. ``reason``: why the file lets it stand, for a note.
    """

    code: str
    severity: str
    place: str
    line: int
    column: int
    message: str
    remedy: str
    reason: str = ""

    def text(self, file: str = "") -> str:
        """The finding as one line."""
        where = ("%s:%d: " % (file, self.line) if self.line else "%s: " % file) if file else ""
        place = "%s: " % self.place if self.place else ""
        if self.reason:
            return "%s%s %s%s. It stands because: %s." % (where, self.code, place, self.message, self.reason)
        return "%s%s %s%s. Remedy: %s." % (where, self.code, place, self.message, self.remedy)


class Lowered(t.NamedTuple):
    """What the file lets stand: findings of the rule ``code`` at ``place`` (dotted) or below it."""

    code: str
    place: str
    reason: str
    path: Path

    def holds(self, code: str, place: str) -> bool:
        below = place.startswith(self.place) and place[len(self.place) : len(self.place) + 1] in ("", ".", "[")
        return code == self.code and below


class Report:
    """Collects what the rules find, until the places are known.

    One mistake is one finding: a second finding of the same rule at the same place is dropped, so a mistake in a
    pattern that stands for many rails or nodes is said once.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], tuple[Rule, str, str, tuple[int, int] | None]] = {}
        # Every place with something wrong at it or below it, and every rule's own places.
        self._above: set[Path] = set()
        self._paths: set[Path] = set()
        self._below: set[tuple[str, Path]] = set()
        self._lowered: list[Lowered] = []

    def add(self, broken: Rule, path: Path, message: str, remedy: str, position: tuple[int, int] | None = None) -> None:
        """``position`` (line, column) is for what has no path, such as a syntax error."""
        self._found.setdefault((broken.code, path), (broken, message, remedy, position))
        self._paths.add(path)
        self._above.update(path[:size] for size in range(len(path) + 1))
        self._below.add((broken.code, path[:-1]))

    def lower(self, lowered: Lowered) -> None:
        """Let what a rule that allows it finds at a place stand, as a note."""
        self._lowered.append(lowered)

    @property
    def failed(self) -> bool:
        return any(
            broken.severity == ERROR and not self._reason(broken, path)
            for (_code, path), (broken, _message, _remedy, _position) in self._found.items()
        )

    def idle(self) -> list[Lowered]:
        """What the file lets stand, and nothing is there."""
        places = [(code, dotted(path)) for code, path in self._found]
        return [each for each in self._lowered if not any(each.holds(code, place) for code, place in places)]

    def has(self, path: Path) -> bool:
        """Whether something is wrong at this very place."""
        return path in self._paths

    def within(self, path: Path) -> bool:
        """Whether something is wrong at this place or below it."""
        return path in self._above

    def within_by(self, broken: Rule, path: Path) -> bool:
        """Whether this rule has found something right below this place."""
        return (broken.code, path) in self._below

    def findings(self, position: t.Callable[[Path], tuple[int, int]]) -> list[Finding]:
        """All findings, in the order of their places in the file."""
        found = []
        for (code, path), (broken, message, remedy, known) in self._found.items():
            line, column = known or position(path)
            text, mend = shown(message, MAX_TEXT), shown(remedy, MAX_TEXT)
            reason = self._reason(broken, path)
            severity = NOTE if reason else broken.severity
            found.append(Finding(code, severity, dotted(path), line, column, text, mend, shown(reason, MAX_TEXT)))
        return sorted(found, key=lambda each: (each.line, each.column, each.code, each.place))

    def _reason(self, broken: Rule, path: Path) -> str:
        if not self._lowered or not broken.lowers:
            return ""
        place = dotted(path)
        return next((each.reason for each in self._lowered if each.holds(broken.code, place)), "")


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
