# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The order in which devices can be renamed so that no name is ever held twice."""

from __future__ import annotations

import itertools
import typing as t

TEMPORARY = "railyard-%d"


def renames(names: t.Iterable[str], wanted: t.Mapping[str, str]) -> list[tuple[str, str]]:
    """The steps (name before, name after) that lead to the wanted names; a temporary name opens a ring of names.

    :param names: of all devices there are.
    :param wanted: name now -> name then. None of the latter may be held by a device that is not renamed itself.
    """
    taken = set(names)
    left = {now: then for now, then in wanted.items() if now != then}
    steps = []

    def step(now: str, then: str) -> None:
        steps.append((now, then))
        taken.remove(now)
        taken.add(then)

    while left:
        now = next((each for each, then in left.items() if then not in taken), None)
        if now is not None:
            step(now, left.pop(now))
            continue
        now = next(iter(left))
        aside = next(name for name in (TEMPORARY % number for number in itertools.count()) if name not in taken)
        then = left.pop(now)
        step(now, aside)
        left[aside] = then
    return steps
