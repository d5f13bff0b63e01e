# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The end of a run before its first task."""

from __future__ import annotations

import typing as t

from ansible import context
from ansible.utils.display import Display


def stop(lines: t.Sequence[str], error: type[Exception]) -> t.NoReturn:
    """End the run with these lines, printed once.

    Ansible wraps what a plugin raises in its own words and in an excerpt of the file, or makes a warning of it. So a
    command of Ansible's ends here; a program that uses Ansible as a library gets the exception.
    """
    text = "\n".join(lines)
    if not context.CLIARGS:
        raise error(text)
    Display().error(text, wrap_text=False)
    raise SystemExit(1)
