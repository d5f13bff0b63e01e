# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Several ranges of addresses as one pool.

A pool (``pods`` or ``hosts`` of a :class:`.Scheme`) is a :class:`Ranges`: its parts are in the order of the file, and
addresses are counted in that order, so that a range at the end renumbers nothing. What ``taken`` holds of a pool is
excluded by the planner; a scheme has both as the file has them. In the file, one range is a text and several are a
list; :func:`written` gives that form, and :func:`.read_ranges` reads it.

The cost depends on the number of ranges, never on the number of addresses.
"""

from __future__ import annotations

import bisect
import functools
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range


@dataclass(frozen=True)
class Ranges:
    """``parts``: one or more ranges of one family. Read :attr:`double` before the rest is of use."""

    parts: tuple[Range, ...]

    @classmethod
    def of(cls, *parts: Range) -> Ranges:
        return cls(parts)

    def __str__(self) -> str:
        return ", ".join(str(part) for part in self.parts)

    @functools.cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @functools.cached_property
    def first(self) -> int:
        """The lowest address."""
        return min(part.first for part in self.parts)

    @functools.cached_property
    def last(self) -> int:
        """The highest address."""
        return max(part.last for part in self.parts)

    @functools.cached_property
    def double(self) -> Range | None:
        """Addresses that two of the ranges share."""
        ordered = sorted(self.parts, key=_first)
        return next((both for one, other in zip(ordered, ordered[1:]) for both in [one.overlap(other)] if both), None)

    @functools.cached_property
    def _starts(self) -> list[int]:
        """How many addresses come before each part."""
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + part.size)
        return starts

    def at(self, number: int) -> int | None:
        """The address of that number, from 0; None where there are not so many."""
        if not 0 <= number < self.size:
            return None
        part = bisect.bisect_right(self._starts, number) - 1
        return self.parts[part].first + number - self._starts[part]

    def overlap(self, other: Ranges) -> Range | None:
        """The first addresses that both have."""
        mine, theirs = sorted(self.parts, key=_first), sorted(other.parts, key=_first)
        one = two = 0
        while one < len(mine) and two < len(theirs):
            both = mine[one].overlap(theirs[two])
            if both:
                return both
            if mine[one].last < theirs[two].last:
                one += 1
            else:
                two += 1
        return None

    def less(self, taken: t.Iterable[Range]) -> Ranges | None:
        """What is left without those addresses, in the same order; None where nothing is."""
        held = merged(taken)
        if not held:
            return self
        ends = [each.last for each in held]
        left: list[Range] = []
        for part in self.parts:
            start = part.first
            for each in held[bisect.bisect_left(ends, start) :]:
                if each.first > part.last:
                    break
                if each.first > start:
                    left.append(Range(start, each.first - 1, part.bits))
                start = each.last + 1
            if start <= part.last:
                left.append(Range(start, part.last, part.bits))
        return Ranges(tuple(left)) if left else None

    def merged(self) -> Ranges:
        """The same addresses in rising order, in as few ranges as possible."""
        return self if len(self.parts) == 1 else Ranges(tuple(merged(self.parts)))


def merged(ranges: t.Iterable[Range]) -> list[Range]:
    """The addresses of all ranges in rising order; ranges that overlap or touch are one."""
    found: list[Range] = []
    for each in sorted(ranges, key=_first):
        if found and each.first <= found[-1].last + 1:
            found[-1] = Range(found[-1].first, max(found[-1].last, each.last), each.bits)
        else:
            found.append(each)
    return found


def fewer(part: Range, block: int, held: t.Iterable[Range]) -> t.Iterator[tuple[int, int, int]]:
    """The blocks, cut from the first address of ``part`` on, of which some addresses are held: (number of the first of
    them, from 0, how many they are, addresses left in each).

    :param held: ranges that do not overlap.
    """
    gone: dict[int, int] = {}
    for each in held:
        both = part.overlap(each)
        if both is None:
            continue
        low, high = (both.first - part.first) // block, (both.last - part.first) // block
        if high > low + 1:
            yield low + 1, high - low - 1, 0
        for at in (low, high) if low < high else (low,):
            start = part.first + at * block
            inside = both.overlap(Range(start, start + block - 1, part.bits))
            gone[at] = gone.get(at, 0) + (inside.size if inside else 0)
    for at, size in gone.items():
        yield at, 1, block - size


def written(ranges: t.Sequence[Range]) -> str | list[str] | None:
    """As a fabric file has them: one range is a text, several are a list."""
    texts = [str(each) for each in ranges]
    return texts if len(texts) > 1 else texts[0] if texts else None


def _first(each: Range) -> int:
    return each.first
