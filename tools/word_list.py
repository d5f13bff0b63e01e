#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/word_list.py [--write] [PATH...]: find words of the word list in code, messages, tests and documentation.

``tools/word_list.yml`` holds the terms with their replacements, the right uses, and the files that are not checked.
``tools/word_list_allowed.yml`` holds how many uses each directory may still have. The check fails where a directory has
more, and where it has fewer than written down: ``--write`` then lowers the number. It never raises one.

With PATHs, every use below them is printed, and the exit status is 1 where there is one.
"""

from __future__ import annotations

import collections
import fnmatch
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WORDS = Path("tools/word_list.yml")
ALLOWED = Path("tools/word_list_allowed.yml")
DEEP = ("plugins/module_utils/", "tests/unit/")
HEADER = "# Uses of words of tools/word_list.yml by directory; tools/word_list.py --write lowers the numbers.\n"


class Use(t.NamedTuple):
    """One use of a term: the place, the word as it is written, and what to write instead."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return "%s:%d: %s. Write instead: %s" % (self.path, self.line, self.word, self.instead)


class Right(t.NamedTuple):
    """An entry of ``allow``."""

    path: str
    line: str
    reason: str

    def covers(self, path: str, line: str) -> bool:
        return fnmatch.fnmatch(path, self.path) and bool(re.search(self.line, line))


class WordList:
    """The list, and the entries of ``allow`` that were of use."""

    def __init__(self, root: Path) -> None:
        data = yaml.safe_load((root / WORDS).read_text())
        self.root = root
        self.instead = list(data["terms"].values())
        terms = ("(?P<t%d>%s)" % (number, term) for number, term in enumerate(data["terms"]))
        self.pattern = re.compile(r"\b(?:%s)\b" % "|".join(terms), re.IGNORECASE)
        self.rights = [Right(**entry) for entry in data.get("allow") or []]
        self.used: set[Right] = set()
        self.exclude = list(data.get("exclude") or {})

    def files(self) -> list[str]:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout
        return [
            path
            for path in sorted(set(listed.split("\0")) - {""})
            if (self.root / path).is_file() and not any(fnmatch.fnmatch(path, each) for each in self.exclude)
        ]

    def uses(self, path: str) -> t.Iterator[Use]:
        try:
            text = (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture
            return
        for number, line in enumerate(text.splitlines(), 1):
            for found in self.pattern.finditer(words_of(line)):
                rights = [right for right in self.rights if right.covers(path, line)]
                self.used.update(rights)
                if not rights:
                    term = next(name for name, value in found.groupdict().items() if value is not None)
                    yield Use(path, number, found.group(), self.instead[int(term[1:])])

    def unused(self) -> t.Iterator[str]:
        for right in self.rights:
            if right not in self.used:
                yield "%s: allow: %s, %r: no use is left. Remove the entry." % (WORDS, right.path, right.line)


def words_of(line: str) -> str:
    """The line with identifiers taken apart: ``port_specs`` and ``PortSpecs`` are two words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", line)


def directory(path: str) -> str:
    """The directory under which a file is counted."""
    depth = 3 if path.startswith(DEEP) else 2
    return "/".join(path.split("/")[:-1][:depth]) or "."


def allowed(root: Path) -> dict[str, int]:
    """The numbers by directory. Where a merge left two numbers of one directory, the lower one counts."""
    path = root / ALLOWED
    numbers: dict[str, int] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        place, colon, number = line.rpartition(": ")
        if colon and number.isdigit():
            numbers[place] = min(int(number), numbers.get(place, int(number)))
    return numbers


def _written(numbers: t.Mapping[str, int]) -> str:
    return HEADER + "".join("%s: %d\n" % each for each in sorted(numbers.items()))


def check(root: Path) -> t.Iterator[str]:
    """What is wrong: more uses than allowed, fewer than written down, entries that allow nothing."""
    words = WordList(root)
    uses: dict[str, list[Use]] = collections.defaultdict(list)
    for path in words.files():
        uses[directory(path)] += words.uses(path)
    limits = allowed(root)
    for place in sorted({*uses, *limits}):
        count, limit = len(uses[place]), limits.get(place, 0)
        if count > limit:
            yield from map(str, uses[place])
            yield "%s: %d uses of words of %s, allowed are %d." % (place, count, WORDS, limit)
        elif count < limit:
            yield "%s: %s allows %d, found are %d. Run tools/word_list.py --write." % (place, ALLOWED, limit, count)
    if limits and (root / ALLOWED).read_text() != _written(limits):
        yield "%s is not as --write leaves it. Run tools/word_list.py --write." % ALLOWED
    yield from words.unused()


def write(root: Path) -> None:
    """Lower the numbers to what is found; remove the file when none is left."""
    words = WordList(root)
    counts = collections.Counter(directory(path) for path in words.files() for _ in words.uses(path))
    lowered = {place: min(limit, counts[place]) for place, limit in allowed(root).items() if counts[place]}
    if lowered:
        (root / ALLOWED).write_text(_written(lowered))
    else:
        (root / ALLOWED).unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        write(ROOT)
        arguments = []
    if arguments:
        words = WordList(ROOT)
        below = tuple(path.rstrip("/") for path in arguments)
        messages = [
            str(use)
            for path in words.files()
            if any(path == each or path.startswith(each + "/") for each in below)
            for use in words.uses(path)
        ]
    else:
        messages = list(check(ROOT))
    for message in messages:
        print(message)
    if not messages:
        print("words: clean")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
