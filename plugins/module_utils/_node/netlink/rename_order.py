# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which devices are renamed so that no two have the same name at any time."""

from __future__ import annotations

import itertools
import typing as t

TEMPORARY = "railyard-%d"


def renames(names: t.Iterable[str], wanted: t.Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the steps (name before, name after) to the wanted names. A temporary name resolves a cycle of names.

    :param names: the names of all devices.
    :param wanted: present name -> wanted name, which only a device that is renamed itself may have.
    """
    taken = set(names)
    remaining = {before: after for before, after in wanted.items() if before != after}
    steps = []

    def step(before: str, after: str) -> None:
        steps.append((before, after))
        taken.remove(before)
        taken.add(after)

    while remaining:
        before = next((each for each, after in remaining.items() if after not in taken), None)
        if before is not None:
            step(before, remaining.pop(before))
            continue
        before = next(iter(remaining))
        temporary = next(name for name in (TEMPORARY % number for number in itertools.count()) if name not in taken)
        after = remaining.pop(before)
        step(before, temporary)
        remaining[temporary] = after
    return steps
