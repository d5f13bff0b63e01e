# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names with numbers as ranges: ``login, node-[1-3,7]``."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of

# Names and ranges that are printed. The number of others follows.
MOST = 8


def fold_names(names: t.Iterable[str], most: int = MOST) -> str:
    """Return names with their numbers as ranges, ``login, node-[1-3,7]``; ``and N more`` after ``most`` names."""
    sequences: dict[tuple[str, str], list[str]] = {}
    found: list[str] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(\d+)(\D*)", name)
        if match is None:
            found.append(name)
        else:
            sequences.setdefault((match[1], match[3]), []).append(match[2])
    for (prefix, suffix), numbers in sequences.items():
        runs = _runs(sorted(numbers, key=lambda digits: (int(digits), digits)))
        text = ",".join(runs[:most]) + (",..." if len(runs) > most else "")
        found.append(prefix + (text if len(numbers) == 1 else "[%s]" % text) + suffix)
    return first_of(sorted(found), most)


def _runs(numbers: t.Sequence[str]) -> list[str]:
    """Return numbers as ranges. All numbers of a range are padded in the same way: 009 to 010, and 9 to 10."""
    runs: list[list[str]] = []
    for digits in numbers:
        if runs and digits == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])):
            runs[-1].append(digits)
        else:
            runs.append([digits])
    return [run[0] if len(run) == 1 else "%s-%s" % (run[0], run[-1]) for run in runs]
