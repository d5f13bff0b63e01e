# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of this run, and the command that follows a preview."""

from __future__ import annotations

import os
import re
import shlex
import typing as t

from ansible import context

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

# Variables whose values are not printed.
_SECRET = re.compile(r"pass|secret|token|key|credential", re.IGNORECASE)
_NEXT = "next: %s"


def next_command(counts: t.Mapping[str, int], reboots_allowed: bool) -> str:
    """Return what to do after a preview, as one line.

    :param counts: those of ``_fabric.report.host_preview``.
    :param reboots_allowed: whether the run would reboot nodes.
    """
    if counts["refusals"]:
        again = "check again" if in_awx() else "check again: %s" % this_command("--check")
        return _NEXT % "apply the remedies, then %s" % again
    if in_awx():
        return _NEXT % "launch the job again with the job type Run"
    changes = counts["changes"] or counts["nodes"] > counts["as_planned"] + counts["not_answering"]
    if not changes:
        return _NEXT % command(playbook("verify"), _fabric_files.inventory())
    reboots = counts["reboots"] and not reboots_allowed
    return _NEXT % this_command(*(["-e", "reboot_allowed=true"] if reboots else []))


def in_awx() -> bool:
    """Return whether this run is a job of AWX, whose command line has temporary paths."""
    return bool(os.environ.get("AWX_PRIVATE_DATA_DIR"))


def this_command(*more: str) -> str:
    """Return the command that runs the same playbooks with the same options, without ``--check`` and ``--diff``.

    Values of variables whose names look like those of secrets are replaced.
    """
    given: t.Mapping[str, t.Any] = context.CLIARGS or {}
    words = [
        shlex.quote(_fabric_files.shown_path(path) if os.path.exists(path) else path)
        for path in given.get("args") or ()
    ]
    for option, key in (("--limit", "subset"), ("--tags", "tags"), ("--skip-tags", "skip_tags")):
        value = given.get(key)
        text = ",".join(value) if isinstance(value, (list, tuple)) else str(value or "")
        if text and not (key == "tags" and text == "all"):
            words += [option, shlex.quote(text)]
    for variable in given.get("extra_vars") or ():
        words += ["-e", "..." if _SECRET.search(str(variable)) else shlex.quote(str(variable))]
    return command(" ".join([*words, *more]), _fabric_files.inventory())
