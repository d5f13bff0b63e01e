# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the output of ``all_reduce_perf`` and ``alltoall_perf``.

nccl-tests, rccl-tests and ``playbooks/files/mpi_collectives.py`` print the same tables. Lines of NCCL, MPI and the
launcher are between them, ``mpirun --tag-output`` and ``srun --label`` put the number of the rank before each line,
and versions before 2.13 have the largest error instead of the number of wrong values.
"""

from __future__ import annotations

import math
import re
import typing as t

# ``[1,0]<stdout>:``, ``[0]`` and ``0: `` before a line, by mpirun, nccl-tests of several ranks, and srun.
_TAG = re.compile(r"^(?:\[\d+(?:,\d+)?\](?:<std(?:out|err)>:)?|\d+: )")
# The same within a row, where several ranks write it in pieces.
_INSIDE = re.compile(r"\[\d{1,7}\]")
_RANK = re.compile(
    r"^#?\s*Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S{1,255})\s+device\s+(\d{1,4})\s+\[[^\]]{1,32}\]\s*(.{0,80})"
)
_SETTINGS = re.compile(r"^#?\s*nThread\s+\d+\s+nGpus\s+\d+\s.*\bvalidation:\s*(\d+)")
_BOUNDS = re.compile(r"^#?\s*Out of bounds values\s*:\s*(\d{1,12})")
_ENDED = re.compile(r"^#?\s*Avg bus bandwidth\s*:")
_ROW = re.compile(r"^\d{1,20}\s+\d{1,20}\s+[a-z]\w*\s")
# What the programs and NCCL print about errors: the first of these lines is shown.
_ERROR = re.compile(
    r"Test (?:NCCL|CUDA|HIP) failure|Test failure|NCCL WARN|\b[Ee]rror: |: not found|cannot open|[Cc]ould not"
    r"|[Ff]ailed to"
)
# The largest number of lines, and of characters of a line, that are read.
MOST_LINES, MOST_COLUMNS = 1 << 20, 1000


class Measure(t.NamedTuple):
    """One half of a row.

    :param time_us: microseconds.
    :param algbw: GB/s.
    :param busbw: GB/s.
    :param wrong: the number of wrong values; None if the values were not checked.
    """

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


class Row(t.NamedTuple):
    """The results for one size in bytes."""

    size: int
    out_of_place: Measure
    in_place: Measure

    @property
    def busbw(self) -> float:
        """Return the bus bandwidth in GB/s of the faster half. In place, alltoall moves no more than out of place."""
        return max(self.out_of_place.busbw, self.in_place.busbw)

    @property
    def wrong(self) -> int | None:
        """Return the number of wrong values; None if none were checked."""
        known = [each.wrong for each in (self.out_of_place, self.in_place) if each.wrong is not None]
        return sum(known) if known else None


class Rank(t.NamedTuple):
    """One process or GPU."""

    host: str
    device: str
    name: str


class Output(t.NamedTuple):
    """What a run printed.

    :param ranks: number -> rank. Empty if the program printed no list.
    :param rows: by size, ascending.
    :param out_of_bounds: the number of rows with wrong values; None if it is missing.
    :param ended: whether the last line was printed.
    :param checked: whether the program was asked to check values; None if it does not say.
    :param error: the first line about an error; empty if no line has one.
    :param damaged: lines that begin like a row, and are not one.
    """

    ranks: t.Mapping[int, Rank]
    rows: t.Sequence[Row]
    out_of_bounds: int | None
    ended: bool
    checked: bool | None
    error: str
    damaged: int

    @property
    def hosts(self) -> dict[str, int]:
        """Return host -> number of its ranks."""
        found: dict[str, int] = {}
        for rank in self.ranks.values():
            found[rank.host] = found.get(rank.host, 0) + 1
        return found


def parse(text: str) -> Output:
    """Read an output. Unknown lines are ignored; with several tables, the last row of a size counts."""
    ranks: dict[int, Rank] = {}
    rows: dict[int, Row] = {}
    bounds: int | None = None
    checked: bool | None = None
    ended, error, damaged = False, "", 0
    for line in text.splitlines()[:MOST_LINES]:
        line = _TAG.sub("", line[:MOST_COLUMNS]).strip()
        found = _RANK.match(line)
        if found:
            ranks[int(found[1])] = Rank(found[2], found[3], found[4].strip())
        elif _ROW.match(line):
            row = _row(line)
            damaged += row is None
            if row and row.size:
                rows[row.size] = row
        elif _BOUNDS.match(line):
            bounds = int(t.cast("re.Match[str]", _BOUNDS.match(line))[1])
        elif _ENDED.match(line):
            ended = True
        elif _SETTINGS.match(line):
            checked = t.cast("re.Match[str]", _SETTINGS.match(line))[1] != "0"
        elif not error and not line.startswith("#") and _ERROR.search(line):
            error = line[:300]
    return Output(ranks, [rows[size] for size in sorted(rows)], bounds, ended, checked, error, damaged)


def _row(line: str) -> Row | None:
    """Return the row of a line: size, count and type, up to two of redop and root, and twice four columns."""
    words = _INSIDE.sub(" ", line).split()
    if not 11 <= len(words) <= 13:
        return None
    size = int(words[0])
    halves = [_measure(words[-8:-4]), _measure(words[-4:])]
    if None in halves:
        return None
    return Row(size, *t.cast("list[Measure]", halves))


def _measure(words: t.Sequence[str]) -> Measure | None:
    try:
        time_us, algbw, busbw = (float(word) for word in words[:3])
        wrong = None if words[3] == "N/A" else _wrong(words[3])
    except ValueError:
        return None
    if not all(math.isfinite(each) and each >= 0 for each in (time_us, algbw, busbw)):
        return None
    return Measure(time_us, algbw, busbw, wrong)


def _wrong(word: str) -> int:
    """Return the number of wrong values. Before nccl-tests 2.13, the column is the largest error, such as ``2e-06``:
    the line ``Out of bounds values`` then has what is wrong."""
    if "e" in word.lower() or "." in word:
        float(word)
        return 0
    return int(word)
