# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a run on the control node."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

# Variables of the inventory that contain the plan.
VARIABLES = ("railyard_fabric", "railyard_node")


def document(file: str | None) -> dict[str, t.Any]:
    """Return ``Plan.document()`` of a fabric file; without ``file``, of that of the inventory.

    :raises RailyardError: if there is no fabric file, or several; for all errors of the file.
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


def variable(name: str, variables: t.Mapping[str, t.Any], templar: t.Any) -> t.Any:
    """Return the value of a variable of a task; None if it is not set."""
    value = variables.get(name)
    # the inventory's plan has no templates, and a search for them takes longer than all else in an action
    return value if name in VARIABLES and isinstance(value, dict) else templar.template(value)


class Wrong(RailyardError):
    """A fabric file has errors. The message contains the findings, each with place and remedy."""

    def __str__(self) -> str:
        return self.message
