# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbered names: the number of a rail in names of its objects, and names derived from a numbered series."""

from __future__ import annotations

import os.path
import re
import typing as t

_COUNTED = re.compile(r"(?:gpu|rail|hca|nic|port|rdma|net|ib|mlx5_)[-_]?([0-9]{1,3})(?![0-9])", re.IGNORECASE)
_BEST = re.compile(r"(?:gpu|rail)[-_]?([0-9]{1,3})(?![0-9])", re.IGNORECASE)
_DIGITS = re.compile(r"([0-9]+)")


def ordinal(name: str) -> int | None:
    """Return the rail's number in a name, such as ``gpu1-macvlan`` or ``eno3np2-rail2*``; None without one."""
    found = _BEST.search(name) or _COUNTED.search(name)
    return int(found.group(1)) if found else None


def lettered(names: t.Sequence[str]) -> bool:
    """Return whether names are distinct and differ only in one number or one letter, such as device_a to device_h."""
    if len(set(names)) < len(names) or len(names) < 2:
        return False
    start = os.path.commonprefix(list(names))
    start = start.rstrip("0123456789")
    end = os.path.commonprefix([name[len(start) :][::-1] for name in names])[::-1].lstrip("0123456789")
    middles = [name[len(start) : len(name) - len(end)] for name in names]
    return all(map(str.isdecimal, middles)) or all(re.match(r"[A-Za-z]\Z", middle) for middle in middles)


class Series:
    """Texts whose numerals grow linearly with the rail's number."""

    def __init__(self, parts: list[str], steps: list[tuple[int, int, int] | None]) -> None:
        self._parts = parts
        # per part: None for text; for a numeral, its value at rail 0, its growth per rail, and its zero-padded width
        self._steps = steps

    def at(self, number: int) -> str | None:
        """Return the text of a rail, or None if a numeral would be negative."""
        text = []
        for part, step in zip(self._parts, self._steps):
            if step is None:
                text.append(part)
                continue
            value = step[0] + step[1] * number
            if value < 0:
                return None
            text.append("%0*d" % (step[2], value))
        return "".join(text)

    def template(self, offset: int = 0) -> str:
        """Return the text as a template of the fabric file.

        :param offset: added to the number of a rail in the template.
        """
        text = []
        for part, step in zip(self._parts, self._steps):
            if step is None or not step[1]:
                text.append(part)
                continue
            start = step[0] + offset
            field = "n%s" % ("%+d" % start if start else "")
            text.append("{%s%s}" % (field, ":0%d" % step[2] if step[2] > 1 else ""))
        return "".join(text)

    @property
    def by_one(self) -> bool:
        """Return whether every numeral is constant or grows by one per rail, as templates require."""
        return all(step is None or step[1] in (0, 1) for step in self._steps)

    @property
    def counts(self) -> bool:
        """Return whether any numeral changes with the rail's number."""
        return any(step is not None and step[1] for step in self._steps)


def series(known: t.Mapping[int, str]) -> Series | None:
    """Return the series that contains all texts, or None.

    For a single text, it is the series in which its rail number is counted.

    :param known: rail number -> text.
    """
    if not known:
        return None
    numbers = sorted(known)
    split = {number: _DIGITS.split(known[number]) for number in numbers}
    first = split[numbers[0]]
    if any(len(split[number]) != len(first) for number in numbers):
        return None
    steps: list[tuple[int, int, int] | None] = []
    for at in range(len(first)):
        column = {number: split[number][at] for number in numbers}
        if at % 2 == 0:
            if len(set(column.values())) > 1:
                return None
            steps.append(None)
            continue
        step = _step(column, at == _last_numeral(first, numbers[0]))
        if step is None:
            return None
        steps.append(step)
    result = Series(first, steps)
    return result if all(result.at(number) == known[number] for number in numbers) else None


def _last_numeral(parts: t.Sequence[str], number: int) -> int:
    """Return the index of the last numeral that equals the rail's number; -1 if no numeral does."""
    indexes = [at for at in range(1, len(parts), 2) if int(parts[at]) == number]
    return indexes[-1] if indexes else -1


def _step(column: t.Mapping[int, str], is_rail_number: bool) -> tuple[int, int, int] | None:
    numbers = sorted(column)
    low, high = numbers[0], numbers[-1]
    texts = list(column.values())
    width = len(texts[0]) if any(text.startswith("0") and len(text) > 1 for text in texts) else 0
    if any(len(text) > 9 for text in texts):
        return (int(texts[0]), 0, len(texts[0])) if len(set(texts)) == 1 else None
    if low == high:
        return (int(texts[0]) - low, 1, width) if is_rail_number else (int(texts[0]), 0, width)
    growth, rest = divmod(int(column[high]) - int(column[low]), high - low)
    return None if rest else (int(column[low]) - growth * low, growth, width)


def compact(names: t.Sequence[str]) -> str:
    """Return a short list of names. A series is shown as ``first to last``."""
    if len(names) < 3:
        return " and ".join(names)
    numbered = {ordinal(name): name for name in names}
    if None not in numbered and len(numbered) == len(names):
        numbers = sorted(number for number in numbered if number is not None)
        if numbers == list(range(numbers[0], numbers[-1] + 1)) and series(
            {number: name for number, name in numbered.items() if number is not None}
        ):
            return "%s to %s" % (numbered[numbers[0]], numbered[numbers[-1]])
    row = series(dict(enumerate(names)))
    if row and row.counts and row.by_one:
        return "%s to %s" % (names[0], names[-1])
    return ", ".join(names[:4]) + (" and %d more" % (len(names) - 4) if len(names) > 4 else "")


def ranged(names: t.Sequence[str]) -> list[str]:
    """Return names of nodes, with consecutive final numerals as ranges such as ``ai-[01:16]``."""
    ranges: list[str] = []
    run: list[tuple[str, str]] = []

    def close() -> None:
        if len(run) > 1:
            ranges.append("%s[%s:%s]" % (run[0][0], run[0][1], run[-1][1]))
        else:
            ranges.extend(stem + digits for stem, digits in run)
        run.clear()

    for name in names:
        found = re.match(r"(.*?)([0-9]{1,9})\Z", name)
        stem, digits = found.groups() if found else (name, "")
        follows = run and digits and stem == run[-1][0] and int(digits) == int(run[-1][1] or -9) + 1
        # a range is zero-padded if its first numeral is, and then both ends have the same length
        same_width = run and (len(digits) == len(run[0][1]) or not run[0][1].startswith("0"))
        if not (follows and same_width and not (digits.startswith("0") and len(digits) != len(run[0][1]))):
            close()
        run.append((stem, digits))
    close()
    return ranges
