# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a running lab: memory, disks and cables of all guests at one moment."""

from __future__ import annotations

import contextlib
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from lab import access, cable, qmp, state
from lab.errors import LabError
from lab.state import Lab, node_name


def _place(lab: Lab, tag: str) -> Path:
    """Return the file of a snapshot. Raises LabError for an invalid name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,31}", tag):
        raise LabError(
            "'%s' is not a valid name of a snapshot" % tag, "use up to 32 letters, digits, - and _, a letter first"
        )
    return lab.directory / ("snapshot-%s.json" % tag)


def tags(lab: Lab) -> list[str]:
    """Return the names of the lab's snapshots."""
    return sorted(place.stem.partition("-")[2] for place in lab.directory.glob("snapshot-*.json"))


def _everywhere(lab: Lab, act: Callable[[qmp.Monitor], None]) -> None:
    """Stop all guests, call ``act`` for their monitors in parallel, and continue them, so that their states match."""
    with contextlib.ExitStack() as stack:
        monitors = [stack.enter_context(qmp.Monitor(lab.run, node)) for node in range(1, lab.nodes + 1)]
        for monitor in monitors:
            monitor.execute("stop")
        try:
            with ThreadPoolExecutor(max_workers=lab.nodes) as pool:
                list(pool.map(act, monitors))
        finally:
            for monitor in monitors:
                monitor.execute("cont")


def _human(monitor: qmp.Monitor, line: str) -> None:
    output = monitor.human(line)
    if output:
        raise LabError("%s: %s: %s" % (node_name(monitor.node), line, output), "lab up --fresh starts over")


def save(lab: Lab, tag: str) -> None:
    """Save the state of the lab as ``tag``. An earlier snapshot of this name is replaced."""
    place = _place(lab, tag)
    with state.changing(lab.name):
        _refuse_vfs(lab)
        place.unlink(missing_ok=True)
        ports = cable.command(lab.run, {"do": "show"})
        _everywhere(lab, lambda monitor: _human(monitor, "savevm %s" % tag))
        state.write_file(place, json.dumps({"ports": ports, "saved": time.time()}, indent=2))


def _refuse_vfs(lab: Lab) -> None:
    """Raise LabError if a node has VFs: after a restore, VFs exist but do not carry frames."""
    line = "cat /sys/bus/pci/devices/*/sriov_numvfs"
    with ThreadPoolExecutor(max_workers=lab.nodes) as pool:
        answers = list(pool.map(lambda node: access.run(lab, node, line), range(1, lab.nodes + 1)))
    for node, answer in enumerate(answers, 1):
        if answer is None:
            raise LabError("%s does not answer on SSH" % node_name(node), "lab up --name %s" % lab.name)
        if any(count != "0" for count in answer.split()):
            raise LabError(
                "%s has VFs, which would not carry frames after a restore" % node_name(node),
                "set its sriov_numvfs to 0, save, and create VFs after each restore",
            )


def restore(lab: Lab, tag: str) -> None:
    """Restore guests, cables and faults of the snapshot ``tag``, and set the guests' clocks to the current time."""
    place = _place(lab, tag)
    with state.changing(lab.name):
        if not place.exists():
            raise LabError(
                "lab '%s' has no snapshot '%s' (snapshots: %s)" % (lab.name, tag, ", ".join(tags(lab)) or "none"),
                "lab snapshot save %s" % tag,
            )
        ports = json.loads(place.read_text(encoding="utf-8"))["ports"]
        _everywhere(lab, lambda monitor: _human(monitor, "loadvm %s" % tag))
        cable.change(lab, {"do": "restore", "ports": ports})
        access.set_clocks(lab, range(1, lab.nodes + 1))


def delete(lab: Lab, tag: str) -> None:
    """Delete a snapshot. Raises LabError if it does not exist."""
    place = _place(lab, tag)
    with state.changing(lab.name):
        if not place.exists():
            raise LabError("lab '%s' has no snapshot '%s'" % (lab.name, tag), "lab snapshot list")
        _everywhere(lab, lambda monitor: _human(monitor, "delvm %s" % tag))
        place.unlink()
