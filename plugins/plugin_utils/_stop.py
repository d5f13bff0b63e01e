# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""End a run before its first task."""

from __future__ import annotations

import typing as t

from ansible import context
from ansible.utils.display import Display


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
