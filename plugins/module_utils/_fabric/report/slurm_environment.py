# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of Slurm's tasks: a script for ``TaskProlog`` with the settings of NCCL, UCX and Open MPI of each
node.

Slurm starts it on the node before each task, with the environment of the task, and adds what it prints. Source:
https://slurm.schedmd.com/prolog_epilog.html, section on TaskProlog, read on 2026-11-29.
"""

from __future__ import annotations

import shlex
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import nccl_settings

FILE = "slurm/task_prolog.sh"
_HEAD = """#!/bin/sh
# task_prolog.sh of the fabric %s, written from its plan. Changes here are lost.
# Variables that the job has set are not changed.
add() {
    eval "test -n \\"\\${$1+set}\\"" || echo "export $1=$2"
}
case "$SLURMD_NODENAME" in
"""
_TAIL = """esac
exit 0
"""
_NODES_PER_LINE = 8


def files(document: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return file name -> text; empty if no node has the version of NCCL in the plan."""
    nodes: dict[str, list[str]] = {}
    for node in document["nodes"]:
        if (node["nccl"] or {}).get("version"):
            settings = _settings(document["fabric"], node)
            lines = ["    add %s %s\n" % (name, shlex.quote(value)) for name, value in sorted(settings.items())]
            nodes.setdefault("".join(lines), []).append(node["name"])
    if not nodes:
        return {}
    cases = ["%s)\n%s    ;;\n" % (_pattern(names), lines) for lines, names in nodes.items()]
    return {FILE: _HEAD % document["fabric"]["name"] + "".join(cases) + _TAIL}


def _settings(fabric: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any]) -> dict[str, str]:
    devices = nccl_settings.planned_devices(node)
    settings = nccl_settings.nccl(fabric, node, devices)
    return dict(settings, **nccl_settings.ucx(fabric, node, devices), **nccl_settings.open_mpi(node))


def _pattern(names: t.Sequence[str]) -> str:
    """Return a pattern of the shell that matches exactly these names, some on each line."""
    quoted = [shlex.quote(name) for name in names]
    rows = [quoted[at : at + _NODES_PER_LINE] for at in range(0, len(quoted), _NODES_PER_LINE)]
    return " | \\\n".join(" | ".join(row) for row in rows)
