# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress lines for long work: on standard error, each with the seconds since the command began."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Callable

from lab.errors import LabError

BEGIN = time.monotonic()


def say(text: str) -> None:
    """Print one progress line."""
    print("[%6.1fs] %s" % (time.monotonic() - BEGIN, text), file=sys.stderr, flush=True)


def run(
    argv: list[str],
    log: Path,
    doing: str,
    remedy: str,
    show: Callable[[str], str | None] = lambda line: None,
    env: dict[str, str] | None = None,
) -> None:
    """Run a long command, and write its output to ``log``.

    :param doing: names the step in the error.
    :param show: returns the text to print for a line of output, or None.
    :raises LabError: if the command fails, with its last lines and the path of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=4)
    with open(log, "a", encoding="utf-8") as out:
        out.write("$ %s\n" % " ".join(argv))
        out.flush()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=env,
            )
        except OSError as error:
            raise LabError("%s failed: %s: %s" % (doing, argv[0], error.strerror), remedy) from None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                out.write(line)
                if line.strip():
                    tail.append(line.strip())
                shown = show(line.rstrip())
                if shown:
                    say(shown)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        status = process.wait()
    if status != 0:
        raise LabError("%s failed with status %d: %s (log: %s)" % (doing, status, " | ".join(tail), log), remedy)
