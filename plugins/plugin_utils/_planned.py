# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The one plan that a run on the control node is about."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files


def document(file: str | None) -> dict[str, t.Any]:
    """``Plan.document()`` of a fabric file, or of the inventory's own.

    :raises RailyardError: where there is none, or several, or the file has errors: then all of them.
    """
    paths = _fabric_files.named([file] if file else [])
    if len(paths) > 1:
        raise RailyardError(
            "there are %d fabric files: %s" % (len(paths), ", ".join(paths)),
            "inventory",
            "name one, with -e fabric_file=PATH",
        )
    outcome = lint(_fabric_files.read(paths[0]))
    if outcome.plan is None:
        raise Wrong("\n".join(finding.text(paths[0]) for finding in outcome.errors), paths[0])
    made: dict[str, t.Any] = outcome.plan.document()
    return made


class Wrong(RailyardError):
    """A fabric file with errors; the findings are the message, each with its own place and remedy."""

    def __str__(self) -> str:
        return self.message
