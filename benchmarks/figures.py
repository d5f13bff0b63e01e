# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths, numbers of runs and the format of figures, shared by all benchmarks."""

from __future__ import annotations

import os
import statistics
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PAIRS = int(os.environ.get("RAILYARD_BENCH_PAIRS", "3"))


def ratio(numerators: t.Sequence[float], denominators: t.Sequence[float]) -> str:
    """Return the median and the range of the pairs' ratios as text."""
    each = [a / b for a, b in zip(numerators, denominators)]
    return "%.2f (%.2f to %.2f, %d pairs)" % (statistics.median(each), min(each), max(each), len(each))


def spread(values: t.Sequence[float], unit: str) -> str:
    """Return the median and the range of values as text."""
    return "%.2f %s (%.2f to %.2f, %d runs)" % (statistics.median(values), unit, min(values), max(values), len(values))


def say(text: str, value: str) -> None:
    print("%-76s %s" % (text, value), flush=True)
