# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print text for users unchanged.

Ansible's default callback prints a result as one line of JSON, which makes tables unreadable.
"""

from __future__ import annotations

import os
import re
import sys
import typing as t

from ansible import constants, context
from ansible.release import __version__
from ansible.utils.color import stringc
from ansible.utils.display import Display

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import WIDTH

# The callback of this collection prints the lines of results itself, below the heading of their play.
CALLBACK = "railyard.fabric.rails"
# The minimum number of characters of a line.
_NARROWEST = 40
_SETTINGS: t.Any = constants  # made from the configuration, without declarations
_FAILED, _CODE = re.compile(r"\bFAILED\b"), re.compile(r"\b(R[VY]\d{3})\b")


def _terminal_columns() -> int:
    """Return the characters of a line of the terminal; 0 if standard output is not a terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return 0


# of the main process, which imports this for the first play: the workers of ansible-core 2.19 have no terminal
_COLUMNS = _terminal_columns()


def width() -> int:
    """Return the characters of a line: the variable ``COLUMNS``, else those of the terminal, else :data:`WIDTH`."""
    given = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(given) if given.isdecimal() else _COLUMNS or WIDTH)


def painted(lines: t.Sequence[str], ok: bool | None = None) -> str:
    """Return lines as text, with colours for failed cells and codes if Ansible prints colours.

    :param ok: of a verdict, whose headline, up to the first empty line, has the colour of its result.
    """
    color = {True: _SETTINGS.COLOR_OK, False: _SETTINGS.COLOR_ERROR}.get(ok) if ok is not None else None
    texts = []
    for line in lines:
        color = color if line else None
        if color:
            texts.append(stringc(line, color))
            continue
        line = _FAILED.sub(lambda found: stringc(found[0], _SETTINGS.COLOR_ERROR), line)
        texts.append(_CODE.sub(lambda found: stringc(found[0], _SETTINGS.COLOR_WARN), line))
    return "\n".join(texts)


def show(lines: t.Sequence[str], ok: bool | None = None) -> None:
    """Print the lines, unless the callback prints results: ours, or one JSON document.

    :param ok: see :func:`painted`.
    """
    callback = str(constants.config.get_config_value("DEFAULT_STDOUT_CALLBACK"))
    if "json" not in callback and callback != CALLBACK:
        print_lines(lines, ok)


def print_lines(lines: t.Sequence[str], ok: bool | None = None) -> None:
    """Print the lines, whatever the callback prints."""
    if lines:
        Display().display(painted(lines, ok))


def show_error(message: str) -> None:
    """Print an error of several lines if Ansible itself prints it only as one line of JSON, as before 2.19."""
    if "\n" in message and tuple(map(int, __version__.split(".")[:2])) < (2, 19):
        print_lines(message.splitlines())


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
