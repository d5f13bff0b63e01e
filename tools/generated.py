# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of tools that generate files: write files that differ, or with ``--check`` only report them."""

from __future__ import annotations

import argparse
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(tool: str, description: str | None, texts: t.Callable[[], t.Mapping[Path, str]]) -> int:
    """Run the tool, and return the exit status: 1 if a file is not up to date with ``--check``.

    :param texts: returns path -> content of the generated files.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")
    check = parser.parse_args().check
    stale = 0
    for file, text in texts().items():
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        shown = file.relative_to(ROOT)
        if check:
            print("%s is not up to date. Remedy: run %s." % (shown, tool), file=sys.stderr)
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print("%s: written" % shown)
    return 1 if check and stale else 0
