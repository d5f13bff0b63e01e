# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of cells as text: for a terminal, as Markdown, as CSV. The same rows give the same bytes."""

from __future__ import annotations

import csv
import io
import re
import textwrap
import typing as t

# Characters of a line if the output is not a terminal, such as a file, a pipe or a log of CI.
WIDTH = 120
GAP = 2
# Minimum width of a column that is narrowed.
_NARROW = 8
# Characters after which a line can be broken, the best first: between the ends of a range, not within one.
_BREAKS = (" ", ",-/", ":;_.")
_PARTS = re.compile("[^%s]*[%s]?" % (2 * (re.escape("".join(_BREAKS)),)))
_NUMBER = re.compile(r"((over )?[0-9][0-9,^]*)?\Z")

Row = t.Sequence[t.Any]


def cell(value: t.Any) -> str:
    """Return the text of a value: empty for None, items of lists separated by commas."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(cell(item) for item in value)
    return str(value)


def table(head: t.Sequence[str], rows: t.Iterable[Row], width: int = WIDTH, indent: str = "") -> list[str]:
    """Return the lines of a table that is at most ``width`` characters wide. Empty columns are omitted.

    A text that is wider than its column continues on the next line; it is not truncated. If the columns do not fit
    without a break in a word, each row is a paragraph.
    """
    cells = [[cell(value) for value in row] for row in rows]
    used = [at for at in range(len(head)) if any(row[at] for row in cells)]
    if not used:
        return []
    columns = [[head[at]] + [row[at] for row in cells] for at in used]
    widths = _fit(columns, width - len(indent))
    if sum(widths) + GAP * (len(widths) - 1) > width - len(indent):
        rows_as_text = ((" " * GAP).join(filter(None, row)) for row in zip(*columns))
        return [indent + line for text in rows_as_text for line in wrapped(text, width - len(indent), 2 * GAP * " ")]
    right = [all(_NUMBER.match(text) for text in column[1:]) for column in columns]
    lines: list[str] = []
    for row in zip(*columns):
        folded = [fold(text, size) for text, size in zip(row, widths)]
        for at in range(max(map(len, folded))):
            parts = [lines_of[at] if at < len(lines_of) else "" for lines_of in folded]
            texts = [
                part.rjust(size) if number else part.ljust(size) for part, size, number in zip(parts, widths, right)
            ]
            lines.append((indent + (" " * GAP).join(texts)).rstrip())
    return lines


def _fit(columns: t.Sequence[t.Sequence[str]], width: int) -> list[int]:
    """Return widths of columns that fit together, if possible. The widest columns are narrowed first.

    Words are broken last, and only at the signs of addresses and names. Words of headings are not broken.
    """
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for text in column for word in text.split(" ")) for column in columns]
    parts = [max(len(part) for text in column for part in _PARTS.findall(text)) for column in columns]
    heads = [max(map(len, column[0].split(" "))) for column in columns]
    heads = [max(head, part, min(_NARROW, size)) for head, part, size in zip(heads, parts, widths)]
    over = sum(widths) + GAP * (len(widths) - 1) - width
    for floor in (list(map(max, words, heads)), heads):
        while over > 0:
            narrowable = [at for at in range(len(widths)) if widths[at] > floor[at]]
            if not narrowable:
                break
            widths[max(narrowable, key=lambda at: (widths[at], at))] -= 1
            over -= 1
    return widths


def fold(text: str, size: int) -> list[str]:
    """Return a text as lines of at most ``size`` characters, broken after a space or a sign if possible."""
    lines = []
    while len(text) > size:
        cuts = [max(text.rfind(sign, 0, size + (sign == " ")) for sign in signs) + 1 for signs in _BREAKS]
        cut = next((cut for cut in cuts if cut > size // 3), max(cuts) or size)
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, text]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text as lines of at most ``width`` characters, broken at spaces. ``indent``: of lines after the first.

    A longer word has a line of its own.
    """
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def markdown(head: t.Sequence[str], rows: t.Iterable[Row]) -> list[str]:
    lines = ["| %s |" % " | ".join(head), "|%s" % ("---|" * len(head))]
    lines.extend("| %s |" % " | ".join(cell(value).replace("|", "\\|") for value in row) for row in rows)
    return lines


def as_csv(head: t.Sequence[str], rows: t.Iterable[Row]) -> bytes:
    """Return CSV as in RFC 4180, but with line feeds as line ends, as in other files of a repository."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8")


def count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``, ``4,096 nodes``."""
    return "{:,} {}".format(number, singular if number == 1 else plural or singular + "s")


def first_of(texts: t.Sequence[str], most: int) -> str:
    """Return the first texts, and how many more there are: ``a, b and 2 more``."""
    further = " and {:,} more".format(len(texts) - most) if len(texts) > most else ""
    return ", ".join(texts[:most]) + further
