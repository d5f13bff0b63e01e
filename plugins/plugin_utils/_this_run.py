# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of this run, and the command that follows a preview."""

from __future__ import annotations

import os
import re
import shlex
import typing as t

from ansible import constants, context

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

# Variables whose values are not printed.
_SECRET = re.compile(r"pass|secret|token|key|credential", re.IGNORECASE)
_NEXT = "next: %s"
# Options of Ansible: the key of the value, and the setting that is its default.
_OPTIONS = (
    ("--limit", "subset", "DEFAULT_SUBSET"),
    ("--tags", "tags", "TAGS_RUN"),
    ("--skip-tags", "skip_tags", "TAGS_SKIP"),
    ("--user", "remote_user", "DEFAULT_REMOTE_USER"),
    ("--private-key", "private_key_file", "DEFAULT_PRIVATE_KEY_FILE"),
    ("--forks", "forks", "DEFAULT_FORKS"),
)
# The same for options without a value, and for those that can be repeated.
_FLAGS = (("--ask-pass", "ask_pass"), ("--ask-become-pass", "become_ask_pass"), ("--ask-vault-pass", "ask_vault_pass"))
_REPEATED = (("--vault-id", "vault_ids"), ("--vault-password-file", "vault_password_files"))


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

    Options that an inventory usually has, such as ``--ssh-common-args``, are omitted. Values of variables whose names
    look like the names of secrets are replaced.
    """
    given: t.Mapping[str, t.Any] = context.CLIARGS or {}
    words = [
        shlex.quote(_fabric_files.shown_path(path) if os.path.exists(path) else path)
        for path in given.get("args") or ()
    ]
    for option, key, setting in _OPTIONS:
        text, default = _text(given.get(key)), _text(getattr(constants, setting, None))
        if text not in ("", default) and (key, text) != ("tags", "all"):
            words += [option, shlex.quote(text)]
    words += [option for option, key in _FLAGS if given.get(key)]
    for option, key in _REPEATED:
        words += [word for value in given.get(key) or () for word in (option, shlex.quote(str(value)))]
    for variable in given.get("extra_vars") or ():
        words += ["-e", "..." if _SECRET.search(str(variable)) else shlex.quote(str(variable))]
    return command(" ".join([*words, *more]), _fabric_files.inventory())


def _text(value: t.Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value or "")
