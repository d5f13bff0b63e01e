# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""``railyard-health``: the health service, and commands for administrators on the node."""

from __future__ import annotations

import argparse
import json
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import Table, columns
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_check
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_run import label, run
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    FILE,
    PASS,
    REMEDY,
    HealthState,
    read_state,
)


def main(argv: t.Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status.

    0: done. 1: an error, which is on standard error with its remedy, or ``status`` shows a rail that is not healthy.
    2: a wrong command. ``check`` has exit statuses of its own.
    """
    parser = argparse.ArgumentParser("railyard-health", description="Compares the rails of this node with the plan.")
    parser.add_argument("--root", default="/", help="prefix all paths with this directory; for tests")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("run", help="run the service")
    status = commands.add_parser("status", help="show the state of each rail")
    status.add_argument("--json", action="store_true", help="print the state as JSON")
    health_check.add_command(commands)
    commands.add_parser("version", help="show the version")
    arguments = parser.parse_args(argv)
    system = System(arguments.root)
    try:
        if arguments.command == "run":
            return run(system)
        if arguments.command == "check":
            return health_check.run(system, arguments)
        if arguments.command == "version":
            sys.stdout.write(VERSION + "\n")
            return 0
        state = read_state(system)
        text = json.dumps(state.as_dict(), indent=1) + "\n" if arguments.json else shown(state, time.time())
        sys.stdout.write(text)
        if state.is_stale(time.time()):
            raise RailyardError("the service has not updated it for %d s" % (time.time() - state.updated), FILE, REMEDY)
        healthy = all(rail.state == PASS and not rail.degraded for rail in state.rails)
        return 0 if healthy and not state.problems else 1
    except RailyardError as error:
        sys.stderr.write("railyard-health: %s\n" % error)
        return 1


def shown(state: HealthState, now: float) -> str:
    """Return the output of ``status``. ``now``: seconds since 1970."""
    rows: Table = [("RAIL", "STATE", "SINCE", "FINDING")]
    lines = []
    for rail in state.rails:
        since = "%d s" % max(0, now - rail.since)
        rows.append((rail.rail, label(rail), since, rail.findings[0].name if rail.findings else "-"))
        for each in rail.findings:
            lines += ["rail %s: %s" % (rail.rail, each), "  Cause: %s. Remedy: %s" % (each.cause, each.remedy)]
    head = "railyard-health %s, node %s, fabric %s\n" % (state.version, state.node, state.fabric)
    body = "".join(line + "\n" for line in [*lines, *state.problems])
    return "\n".join(filter(None, [head, columns(rows), body]))
