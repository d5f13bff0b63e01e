# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons for which a test may be skipped: ``tests/skips.yml``. A skip that matches no entry there is a failure."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "skips.yml"


class Entry(t.NamedTuple):
    """One entry of the list. ``tests`` is a pattern of file names, ``reason`` a regular expression."""

    tests: str
    reason: str
    run_by: str
    #: The skip is accepted only while none of these paths exists: with the folder there, a missing file is a failure.
    only_without: tuple[str, ...] = ()

    def matches(self, file: str, reason: str) -> bool:
        if not fnmatch.fnmatch(file, self.tests) or not re.search(self.reason, reason):
            return False
        return not any((ROOT / os.path.expandvars(each)).exists() for each in self.only_without)


@functools.lru_cache(maxsize=None)
def entries() -> tuple[Entry, ...]:
    """The list. Raises TypeError for an entry with a missing or an unknown key."""
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return tuple(Entry(**{**each, "only_without": tuple(each.get("only_without", ()))}) for each in listed)


def accepted(file: str, reason: str) -> Entry | None:
    """The entry that allows a test of ``file`` to be skipped for ``reason``; None if no entry does."""
    return next((each for each in entries() if each.matches(file, reason)), None)


def refusal(file: str, reason: str) -> str:
    return (
        "%s was skipped for a reason that tests/skips.yml does not list, or with a file missing from a folder that is"
        " there: %s. Remedy: provide what the test needs, or add the reason to tests/skips.yml." % (file, reason)
    )
