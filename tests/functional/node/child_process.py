# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a part of a test in a child process, so that namespaces and roots that it enters end with it."""

from __future__ import annotations

import os
import traceback
import typing as t


def in_child(work: t.Callable[[], None]) -> None:
    """Run ``work`` in a child; what goes wrong there fails the test here, with the child's traceback."""
    come, go = os.pipe()
    child = os.fork()
    if not child:
        text = ""
        try:
            os.close(come)
            work()
        except BaseException:
            text = traceback.format_exc()
        finally:
            with os.fdopen(go, "w") as stream:
                stream.write(text)
            os._exit(bool(text))
    os.close(go)
    with os.fdopen(come) as stream:
        message = stream.read()
    os.waitpid(child, 0)
    assert not message, message
