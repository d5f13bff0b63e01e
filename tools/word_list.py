#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/word_list.py [PATH...]: find words of the word list in code, messages, tests, documentation and file names.

``tools/word_list.yml`` has the terms with their replacements, the allowed uses, and the files that are not checked.
With PATHs, only files below them are checked. Exit status 1 if a use is found.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WORDS = Path("tools/word_list.yml")


class Use(t.NamedTuple):
    """A use of a term: the place (line 0: the file's name), the word as written, and the replacement."""

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
    """The list, and the entries of ``allow`` that were used."""

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
        for number, line in enumerate([Path(path).name, *text.splitlines()]):
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
    """Return the line with identifiers split: ``port_specs`` and ``PortSpecs`` are two words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", line)


def check(root: Path, below: t.Sequence[str] = ("",)) -> t.Iterator[str]:
    """Yield uses of words in files at or below the paths ``below``, and unused entries of ``allow``."""
    words = WordList(root)
    for path in words.files():
        if any(not each or path == each or path.startswith(each + "/") for each in below):
            yield from map(str, words.uses(path))
    if "" in below:
        yield from words.unused()


def main(arguments: list[str]) -> int:
    messages = list(check(ROOT, [path.rstrip("/") for path in arguments] or ("",)))
    print("\n".join(messages) or "words: clean")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
