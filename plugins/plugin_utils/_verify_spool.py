# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on the control node that hold what nodes report to verify and to check mode, until the verdict or preview.

Ansible keeps registered results in memory, and each of its workers is a copy of that process. The results of thousands
of nodes would slow down each task. The files are in Ansible's own temporary directory, which Ansible removes when it
ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ansible import constants

Row = t.Dict[str, t.Any]
_ROWS = "rows"
# A note of each node that was read: what its partners need of it (``probe_targets.probe_node``).
NODE = "node"
# The turns of a node's prober.
TURNS = "turns"
# Why a node could not be reached, and how the run ends on a host: a failed or unreachable result.
LOST, END = "lost", "end"
# Notes of the whole run: its nodes, its token, and its pairs.
ALL, NODES, RUN, PAIRS = "", "nodes", "run", "pairs"
# The run of check mode, and its note of each node: what the node would change.
PREVIEW = "preview"


class Spool:
    """The files of one run. ``run``: its name."""

    def __init__(self, run: str) -> None:
        settings: t.Any = constants
        name = "railyard-" + hashlib.sha256(run.encode()).hexdigest()[:16]
        self._directory = os.path.join(settings.DEFAULT_LOCAL_TMP, name)

    def add(self, node: str, row: t.Mapping[str, t.Any]) -> None:
        """Add variables of a node. If a variable is a list, its elements are added to the earlier ones."""
        self._write(node, _ROWS, json.dumps(row, default=str) + "\n", "a")

    def variables(self, node: str) -> Row:
        """Return the variables of a node; empty if nothing was added."""
        variables: Row = {}
        for line in self._read(node, _ROWS).splitlines():
            for key, value in json.loads(line).items():
                if isinstance(value, list):
                    variables.setdefault(key, []).extend(each for each in value if each not in variables[key])
                else:
                    variables[key] = value
        return variables

    def note(self, node: str, kind: str, value: t.Any) -> None:
        """Write a value for other nodes and for later tasks. Other processes read either the old or the new value."""
        self._write(node, kind + ".new", json.dumps(value), "w")
        os.replace(self._path(node, kind + ".new"), self._path(node, kind))

    def noted(self, node: str, kind: str) -> t.Any:
        """Return the value that was written; None without one."""
        text = self._read(node, kind)
        return json.loads(text) if text else None

    def nodes(self, kind: str) -> set[str]:
        """Return the nodes with a value of this kind."""
        end = ".%s" % kind
        names = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        return {name[: -len(end)] for name in names if name.endswith(end)}

    def _path(self, node: str, kind: str) -> str:
        return os.path.join(self._directory, "%s.%s" % (node.replace(os.sep, "_"), kind))

    def _write(self, node: str, kind: str, text: str, mode: str) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        with open(self._path(node, kind), mode, encoding="utf-8") as file:
            file.write(text)

    def _read(self, node: str, kind: str) -> str:
        try:
            with open(self._path(node, kind), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def of_check_mode() -> Spool:
    """Return the files of a run in check mode.

    Actions run in children of the process of the run, whose ID names it: runs that are forks of a process that has
    loaded Ansible have the same temporary directory.
    """
    return Spool("%s %d" % (PREVIEW, os.getppid()))


def plain(value: t.Any) -> t.Any:
    """Return a value of Ansible's templates as plain mappings and lists."""
    if isinstance(value, t.Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value
