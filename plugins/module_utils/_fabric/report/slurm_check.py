# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of rails for Slurm: one script for ``Prolog`` and ``HealthCheckProgram``, which run as root on each node.

If a prolog fails, Slurm drains the node and requeues the job. A health check must drain and resume the node itself.
Sources, read on 2026-11-29: https://slurm.schedmd.com/prolog_epilog.html, and ``HealthCheckProgram`` in slurm.conf(5).
"""

from __future__ import annotations

import typing as t

FILE = "slurm/rail_check.sh"
# Prologs of Slurm must not call Slurm's commands, so scontrol is for the health check only. It asks slurmctld only when
# the node changes: the file keeps that the node is drained, also over a reboot.
_TEXT = """#!/bin/sh
# rail_check.sh of the fabric %s, written from its plan. Changes here are lost.
# Prolog: the exit status is 1 unless all rails of this node pass. Slurm then drains the node and requeues the job.
# HealthCheckProgram: drains the node unless its rails pass, and resumes it if its reason is still that of this script.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
drained=/var/lib/railyard/slurm-drained
found=$(/usr/local/bin/railyard-health check --wait 20 2>&1)
status=$?
if [ -n "${SLURM_JOB_ID:-}" ]; then
    [ "$status" = 0 ] && exit 0
    echo "$found"
    exit 1
fi
node=${SLURMD_NODENAME:-$(uname -n | cut -d . -f 1)}
if [ "$status" != 0 ]; then
    [ -e "$drained" ] && exit 0
    reason=$(echo "railyard: $found" | head -n 2 | tr '\\n' ' ' | cut -c 1-200)
    scontrol update "NodeName=$node" State=DRAIN "Reason=$reason" && mkdir -p "${drained%%/*}" && : >"$drained"
elif [ -e "$drained" ]; then
    shown=$(scontrol --oneliner show node "$node") || exit 0
    case "$shown" in
        *" Reason=railyard: "*) scontrol update "NodeName=$node" State=RESUME || exit 0 ;;
    esac
    rm -f "$drained"
fi
exit 0
"""


def files(document: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return file name -> text; empty if the plan has no health service."""
    if not document["fabric"].get("health"):
        return {}
    return {FILE: _TEXT % document["fabric"]["name"]}
