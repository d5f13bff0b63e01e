# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several ranges of addresses as one pool.

A pool (``pods`` or ``hosts`` of a :class:`.Scheme`) is a :class:`Ranges`. Its ranges are in the order of the file, and
its addresses are counted in that order, so a range that is added at the end renumbers no address. A scheme has the
ranges of the file; the planner excludes those in ``taken``. In the file, one range is a text and several are a list:
:func:`.read_ranges` reads it, :func:`file_value` returns it.

The cost depends on the number of ranges, not on the number of addresses.
"""

from __future__ import annotations

import bisect
import functools
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, Range


@dataclass(frozen=True)
class Ranges:
    """``parts``: one or more ranges of one family. All but :attr:`repeated` require that they do not overlap."""

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
        return min(part.first for part in self.parts)

    @functools.cached_property
    def last(self) -> int:
        return max(part.last for part in self.parts)

    @functools.cached_property
    def repeated(self) -> Range | None:
        """The first addresses that are in two of the ranges; None without such addresses."""
        ordered = sorted(self.parts, key=_first)
        overlaps = (before.overlap(after) for before, after in zip(ordered, ordered[1:]))
        return next((overlap for overlap in overlaps if overlap), None)

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The number of addresses before each range; last, the number of all addresses."""
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + part.size)
        return starts

    def at(self, number: int) -> int | None:
        """Return the address with that number, from 0; None if there are fewer addresses."""
        if not 0 <= number < self.size:
            return None
        part = bisect.bisect_right(self._starts, number) - 1
        return self.parts[part].first + number - self._starts[part]

    def cut(self, number: int, count: int) -> Ranges | None:
        """Return ``count`` addresses from that number on, from 0, in the same order; None if ``count`` is 0."""
        parts = []
        for start, part in zip(self._starts, self.parts):
            low, high = max(number - start, 0), min(number + count - start, part.size) - 1
            if low <= high:
                parts.append(Range(part.first + low, part.first + high, part.bits))
        return Ranges(tuple(parts)) if parts else None

    def overlap(self, other: Ranges) -> Range | None:
        """Return the first addresses that both pools contain; None without such addresses."""
        left, right = sorted(self.parts, key=_first), sorted(other.parts, key=_first)
        at_left = at_right = 0
        while at_left < len(left) and at_right < len(right):
            overlap = left[at_left].overlap(right[at_right])
            if overlap:
                return overlap
            if left[at_left].last < right[at_right].last:
                at_left += 1
            else:
                at_right += 1
        return None

    def without(self, excluded: t.Iterable[Range]) -> Ranges | None:
        """Return the pool without the excluded addresses, in the same order; None if no address remains."""
        holes = merged(excluded)
        if not holes:
            return self
        ends = [hole.last for hole in holes]
        remaining: list[Range] = []
        for part in self.parts:
            start = part.first
            for hole in holes[bisect.bisect_left(ends, start) :]:
                if hole.first > part.last:
                    break
                if hole.first > start:
                    remaining.append(Range(start, hole.first - 1, part.bits))
                start = hole.last + 1
            if start <= part.last:
                remaining.append(Range(start, part.last, part.bits))
        return Ranges(tuple(remaining)) if remaining else None

    def merged(self) -> Ranges:
        """Return the same addresses in ascending order, in as few ranges as possible."""
        return self if len(self.parts) == 1 else Ranges(tuple(merged(self.parts)))


def merged(ranges: t.Iterable[Range]) -> list[Range]:
    """Return the addresses of all ranges in ascending order. Ranges that overlap or are adjacent become one."""
    result: list[Range] = []
    for part in sorted(ranges, key=_first):
        if result and part.first <= result[-1].last + 1:
            result[-1] = Range(result[-1].first, max(result[-1].last, part.last), part.bits)
        else:
            result.append(part)
    return result


def single(address: int, bits: int) -> Range:
    return Range(address, address, bits)


def without(ranges: t.Iterable[Range], taken: t.Iterable[Range]) -> list[Range]:
    """Return sorted, disjoint ranges of the addresses that are not in ``taken``."""
    free = Ranges(tuple(merged(ranges))).without(taken)
    return list(free.parts) if free else []


def common(ranges: t.Iterable[Range], others: t.Iterable[Range | Network]) -> list[Range]:
    """Return sorted, disjoint ranges of the addresses that are in both."""
    other_ranges = list(others)
    overlaps = (mine.overlap(theirs) for mine in ranges for theirs in other_ranges)
    return merged(overlap for overlap in overlaps if overlap)


def longest(ranges: t.Sequence[Range]) -> Range | None:
    """Return the longest range, the lowest one of equal length; None without ranges."""
    return max(ranges, key=lambda part: (part.size, -part.first)) if ranges else None


def partial_blocks(part: Range, block: int, holes: t.Iterable[Range]) -> t.Iterator[tuple[int, int, int]]:
    """Yield runs of blocks with excluded addresses: number of the run's first block (from 0), blocks in the run, and
    remaining addresses of each of its blocks.

    :param part: the range that is divided into blocks, from its first address.
    :param block: addresses of a block.
    :param holes: the excluded ranges, which do not overlap.
    """
    excluded: dict[int, int] = {}
    for hole in holes:
        overlap = part.overlap(hole)
        if overlap is None:
            continue
        low, high = (overlap.first - part.first) // block, (overlap.last - part.first) // block
        if high > low + 1:
            yield low + 1, high - low - 1, 0
        for number in (low, high) if low < high else (low,):
            start = part.first + number * block
            inside = overlap.overlap(Range(start, start + block - 1, part.bits))
            excluded[number] = excluded.get(number, 0) + (inside.size if inside else 0)
    for number, size in excluded.items():
        yield number, 1, block - size


def file_value(ranges: t.Sequence[Range]) -> str | list[str] | None:
    """Return ranges in the form of a fabric file: a text for one, a list for several; None without ranges."""
    texts = [str(part) for part in ranges]
    return texts if len(texts) > 1 else texts[0] if texts else None


def _first(part: Range) -> int:
    return part.first
