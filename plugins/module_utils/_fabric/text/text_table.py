# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Rows of cells as text: for a terminal, as Markdown, as CSV. The same rows give the same bytes."""

from __future__ import annotations

import csv
import io
import re
import typing as t

# Characters of a line: 120, less what Ansible puts before the lines of a message.
WIDTH = 112
GAP = 2
# A column that has to give way keeps so many characters at least.
_NARROW = 8
# Where a line is broken, the best first: between the ends of a range rather than within one.
_BREAKS = (" ", ",-/", ":;_.")
_NUMBER = re.compile(r"((over )?[0-9][0-9,^]*)?\Z")

Row = t.Sequence[t.Any]


def cell(value: t.Any) -> str:
    """A value as a cell: nothing for None, lists with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(cell(each) for each in value)
    return str(value)


def table(head: t.Sequence[str], rows: t.Iterable[Row], width: int = WIDTH, indent: str = "") -> list[str]:
    """The lines of a table at most ``width`` characters wide. Columns in which no row has anything are left out.

    What does not fit goes on in the next line of its own column: nothing is cut off.
    """
    cells = [[cell(value) for value in row] for row in rows]
    used = [at for at in range(len(head)) if any(row[at] for row in cells)]
    if not used:
        return []
    columns = [[head[at]] + [row[at] for row in cells] for at in used]
    widths = _fit(columns, width - len(indent))
    right = [all(_NUMBER.match(text) for text in column[1:]) for column in columns]
    lines: list[str] = []
    for row in zip(*columns):
        folded = [fold(text, size) for text, size in zip(row, widths)]
        for at in range(max(map(len, folded))):
            parts = [each[at] if at < len(each) else "" for each in folded]
            texts = [
                part.rjust(size) if number else part.ljust(size) for part, size, number in zip(parts, widths, right)
            ]
            lines.append((indent + (" " * GAP).join(texts)).rstrip())
    return lines


def _fit(columns: t.Sequence[t.Sequence[str]], width: int) -> list[int]:
    """Widths of columns that together fit: the widest give way first, and words are broken last."""
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for text in column for word in text.split(" ")) for column in columns]
    heads = [max(len(column[0]), min(_NARROW, size)) for column, size in zip(columns, widths)]
    over = sum(widths) + GAP * (len(widths) - 1) - width
    for floor in (list(map(max, words, heads)), heads):
        while over > 0:
            can = [at for at in range(len(widths)) if widths[at] > floor[at]]
            if not can:
                break
            widths[max(can, key=lambda at: (widths[at], at))] -= 1
            over -= 1
    return widths


def fold(text: str, size: int) -> list[str]:
    """A text in lines of at most ``size`` characters, broken after a space or a sign where there is one."""
    lines = []
    while len(text) > size:
        cuts = [max(text.rfind(sign, 0, size + (sign == " ")) for sign in signs) + 1 for signs in _BREAKS]
        cut = next((cut for cut in cuts if cut > size // 3), size)
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, text]


def markdown(head: t.Sequence[str], rows: t.Iterable[Row]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| %s |" % " | ".join(head), "|%s" % ("---|" * len(head))]
    lines.extend("| %s |" % " | ".join(cell(value).replace("|", "\\|") for value in row) for row in rows)
    return lines


def as_csv(head: t.Sequence[str], rows: t.Iterable[Row]) -> bytes:
    """RFC 4180, except that lines end with a line feed only, as in other files of a repository."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8")


def count(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``2 nodes``, ``4,096 nodes``."""
    return "{:,} {}".format(number, one if number == 1 else many or one + "s")
