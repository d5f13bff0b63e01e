# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print text for users unchanged.

Ansible's default callback prints a result as one line of JSON, which makes tables unreadable.
"""

from __future__ import annotations

import os
import shutil
import sys
import typing as t

from ansible import constants, context
from ansible.release import __version__
from ansible.utils.display import Display

# Characters of a line if the output is not a terminal: 120 without the indentation that Ansible adds.
_WIDTH = 112


def width() -> int:
    """Return the characters of a line: those of ``COLUMNS`` or the terminal, and else 112."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size((_WIDTH, 24)).columns
    return _WIDTH


def show(lines: t.Sequence[str]) -> bool:
    """Print the lines. Print nothing and return False if the output of the run is one JSON document."""
    if "json" in str(constants.config.get_config_value("DEFAULT_STDOUT_CALLBACK")):
        return False
    if lines:
        Display().display("\n".join(lines))
    return True


def show_error(message: str) -> None:
    """Print an error of several lines if Ansible itself prints it only as one line of JSON, as before 2.19."""
    if "\n" in message and tuple(map(int, __version__.split(".")[:2])) < (2, 19):
        show(message.splitlines())


def stop(lines: t.Sequence[str], error: type[Exception]) -> t.NoReturn:
    """Print these lines and end the run.

    Ansible would add its own text and an excerpt of the file to an exception of a plugin, or print it as a warning. So
    a command of Ansible exits here. A program that uses Ansible as a library gets the exception.
    """
    text = "\n".join(lines)
    if not context.CLIARGS:
        raise error(text)
    Display().error(text, wrap_text=False)
    raise SystemExit(1)
