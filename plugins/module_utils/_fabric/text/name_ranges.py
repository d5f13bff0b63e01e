# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and texts that differ only in numbers, as one text with ranges: ``hgx-[1-32]``, ``172.20.[1-8].[193-224]``."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of

# Names, and ranges of one name, that are printed. The number of other names follows.
MOST = 8
# A range of values that is longer is replaced by the number of values.
_LONGEST = 40
# In a pattern, the place of a decimal number, and of a hexadecimal one.
DECIMAL, HEXADECIMAL = "\0", "\1"
_PLACE = re.compile("[%s%s]" % (DECIMAL, HEXADECIMAL))
_WORD = re.compile(r"[^\s,;]+")
_ADDRESS = re.compile("(%s[.]%s[.]%s[.]%s|[%s:.]+)(/.+)?$" % (*[DECIMAL] * 4, HEXADECIMAL))
_DIGITS = re.compile(r"\d+")
_HEX = re.compile(r"[0-9a-fA-F]+")
# What differs between ports and nodes: IPv4 addresses; MAC, PCI and IPv6 addresses and GUIDs; names with a number.
_FOLLOWS = (
    r"(?<![\w.])\d+\.\d+\.\d+\.\d+(?![\w.])"
    r"|(?P<hex>(?<![\w:.])[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F.]*(?![\w:]))"
    r"|(?<![\w.+])[A-Za-z][A-Za-z_-]+\d[\w-]*(?![\w.+])"
)
# Whether all numbers may differ -> what is replaced.
_REPLACED = {False: re.compile(_FOLLOWS), True: re.compile(_FOLLOWS + r"|\d+")}


class Pattern(t.NamedTuple):
    """A text whose numbers are replaced by :data:`DECIMAL` and :data:`HEXADECIMAL`, and these numbers in order."""

    text: str
    numbers: tuple[str, ...]


@functools.lru_cache(maxsize=1 << 16)
def pattern(text: str, all_numbers: bool = False) -> Pattern:
    """Return the pattern of a text.

    :param all_numbers: whether all of its numbers may differ between ports and nodes. By default, only those in
        addresses and names may: a value such as ``1500`` or ``24.10-0.7`` stays as it is.
    """
    numbers: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        digits, place = (_HEX, HEXADECIMAL) if match.lastgroup == "hex" else (_DIGITS, DECIMAL)
        numbers.extend(digits.findall(match[0]))
        return digits.sub(place, match[0])

    found = _REPLACED[all_numbers].sub(replaced, text)
    return Pattern(found, tuple(numbers))


def filled(text: str, numbers: t.Collection[tuple[str, ...]], longest: int = _LONGEST) -> str:
    """Return the text of a pattern with the ranges of its numbers.

    A word whose ranges have more than ``longest`` characters is replaced by the number of its values.

    :param numbers: those of each text that has the pattern.
    """
    at = 0

    def put(match: re.Match[str]) -> str:
        nonlocal at
        places = _PLACE.findall(match[0])
        if not places:
            return match[0]
        values = {each[at : at + len(places)] for each in numbers}
        at += len(places)
        columns = [
            in_brackets(set(column), 16 if place == HEXADECIMAL else 10) for column, place in zip(zip(*values), places)
        ]
        if len(values) > 1 and sum(map(len, columns)) > longest:
            noun = "address" if _ADDRESS.match(match[0]) else "value"
            return "<%s>" % count(len(values), noun, "addresses" if noun == "address" else "")
        left = iter(columns)
        return _PLACE.sub(lambda _place: next(left), match[0])

    return _WORD.sub(put, text)


def fold_names(names: t.Iterable[str], most: int = MOST) -> str:
    """Return names with their numbers as ranges, ``login, su[1-2]-[01-32]``; ``and N more`` after ``most`` names."""
    return first_of(sorted(_folded(names, most)), most)


def _folded(names: t.Iterable[str], most: int) -> list[str]:
    """Return names with ranges for their last numbers, and for earlier numbers before equal ranges."""
    found: list[str] = []
    sequences: dict[tuple[str, str], list[str]] = {}
    for name in set(names):
        match = re.fullmatch(r"(.*?)(\d+)(\D*)", name)
        if match is None:
            found.append(name)
        else:
            sequences.setdefault((match[1], match[3]), []).append(match[2])
    before: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (prefix, suffix), numbers in sequences.items():
        before.setdefault((tuple(sorted(numbers)), suffix), []).append(prefix)
    for (same, suffix), prefixes in before.items():
        rest = in_brackets(same, most=most) + suffix
        found += [each + rest for each in _folded(prefixes, most)]
    return found


def in_brackets(numbers: t.Collection[str], base: int = 10, most: int = 0) -> str:
    """Return different numbers as ranges in brackets, ``[1-3,7]``, with common zeros before them, ``0[1-8]``.

    :param most: how many ranges; 0: all.
    """
    numbers = list(numbers)
    if len(numbers) == 1:
        return numbers[0]
    zeros = min(len(number) - len(number.lstrip("0") or "0") for number in numbers)
    ranges = runs([number[zeros:] for number in numbers], base)
    if most and len(ranges) > most:
        ranges = [*ranges[:most], "..."]
    return "%s[%s]" % ("0" * zeros, ",".join(ranges))


def runs(numbers: t.Iterable[str], base: int = 10) -> list[str]:
    """Return numbers as ranges. All numbers of a range are padded in the same way: 009 to 010, and 9 to 10."""
    form = "%x" if base == 16 else "%d"
    found: list[list[str]] = []
    for digits in sorted(numbers, key=lambda digits: (int(digits, base), digits)):
        if found and digits == (form % (int(found[-1][-1], base) + 1)).zfill(len(found[-1][-1])):
            found[-1].append(digits)
        else:
            found.append([digits])
    return [run[0] if len(run) == 1 else "%s-%s" % (run[0], run[-1]) for run in found]
