# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the rails of this node can carry a job: pass, fail or unknown, from the state that the health service writes.

Jobs, schedulers and ``status.yml`` ask before they use a node. A check reads one file of at most :data:`MOST` bytes, so
it neither waits for a device nor for the network. A state that is absent, stale, of another boot, or that a user other
than root could have written, is ``unknown`` with a remedy, and never ``pass``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_spec, health_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    FAIL,
    PASS,
    UNKNOWN,
    Finding,
    HealthState,
    RailState,
)

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Exit status of each result.
EXIT = {PASS: 0, FAIL: 1, UNKNOWN: 2}
# Seconds after which a state is stale. The service writes it at each observation, every few seconds.
MAX_AGE = 30.0
# Seconds between two looks of ``--wait``, and its maximum.
PAUSE, WAIT_MAX = 1.0, 600.0


class RailResult(t.NamedTuple):
    """A rail. ``reason`` and ``remedy`` are empty if it passes and is not degraded. ``since``: seconds since 1970."""

    rail: str
    state: str
    degraded: bool = False
    since: float | None = None
    reason: str = ""
    remedy: str = ""


class Result(t.NamedTuple):
    """A check. ``age``: of the state in seconds; None without it. ``error``: why the state cannot be used."""

    result: str
    node: str
    fabric: str
    age: float | None
    rails: tuple[RailResult, ...]
    problems: tuple[str, ...]
    error: RailyardError | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Return what ``--json`` prints."""
        row = self._asdict()
        return {**row, "rails": [rail._asdict() for rail in self.rails], "error": self.error and self.error.as_dict()}


def read(system: System) -> HealthState:
    """Return the state of the health service. Raises :class:`RailyardError` if it cannot be used."""
    if not system.exists(health_state.FILE):
        raise RailyardError("the health service has not written its state", health_state.FILE, health_state.REMEDY)
    why = root_owned.why_not(system, health_state.FILE)
    if why:
        remedy = "remove the file, and run systemctl restart railyard-health"
        message = "is not used, because a user other than root can change it: %s" % why
        raise RailyardError(message, health_state.FILE, remedy)
    return health_state.read_state(system)


def look(system: System) -> dict[str, t.Any] | None:
    """Return part ``health`` of ``rail_info``; None without an installed health service."""
    return (
        check(system, time.time()).as_dict()
        if system.exists(health_spec.FILE) or system.exists(health_state.FILE)
        else None
    )


def check(
    system: System, now: float, rails: t.Sequence[str] = (), max_age: float = MAX_AGE, probe: bool = False
) -> Result:
    """Return the result of this node.

    :param now: seconds since 1970.
    :param rails: rails that a job uses; empty: all of the state.
    :param max_age: seconds after which a state is stale.
    :param probe: whether a rail without replies to the probes of the service is ``unknown``.
    """
    try:
        return judge(read(system), now, system.read(BOOT_ID) or "", rails, max_age, probe)
    except RailyardError as error:
        return Result(UNKNOWN, "", "", None, (), (), error)


def judge(
    state: HealthState, now: float, boot: str, rails: t.Sequence[str], max_age: float, probe: bool = False
) -> Result:
    """As :func:`check`, for a state. ``boot``: the kernel's boot ID.

    :raises RailyardError: if the state is stale, of another boot, or does not have one of the rails.
    """
    age = now - state.updated
    if boot and state.boot_id != boot:
        raise RailyardError("was written before the last boot", health_state.FILE, health_state.REMEDY)
    # false also for a time that is not a number
    if not abs(age) <= max_age:
        words = "is %.0f s old" % age if age > 0 else "is %.0f s in the future" % -age
        message = "%s, and at most %g s are accepted" % (words, max_age)
        raise RailyardError(message, health_state.FILE, health_state.REMEDY)
    found = {rail.rail: _rail(rail, probe) for rail in state.rails}
    unknown = [rail for rail in rails if rail not in found]
    if unknown:
        remedy = "name some of %s" % (", ".join(found) or "no rail: the state has none")
        raise RailyardError("has no rail %s" % ", ".join(unknown), health_state.FILE, remedy)
    chosen = tuple(found[rail] for rail in rails or found)
    states = {rail.state for rail in chosen}
    problems = state.problems
    if not state.ready:
        # a rail that fails already is a fact
        states.add(UNKNOWN)
        problems = ("the health service has not yet read all rails", *problems)
    result = FAIL if FAIL in states else PASS if states == {PASS} else UNKNOWN
    return Result(result, state.node, state.fabric, max(age, 0.0), chosen, problems)


def _rail(rail: RailState, probe: bool) -> RailResult:
    state = rail.state
    reason = "; ".join(map(_reason, rail.findings))
    remedy = next((finding.remedy for finding in rail.findings if finding.remedy), "")
    if probe and state == PASS and not (rail.probe and rail.probe.get("received")):
        state, reason = UNKNOWN, "no reply to a probe of the health service yet"
        remedy = "set health.probe of the fabric file, and wait for its first replies"
    return RailResult(rail.rail, state, rail.degraded, rail.since, reason, remedy)


def _reason(finding: Finding) -> str:
    """Return a finding in one line: ``RV402 rail1: expected carrier, found no carrier``."""
    text = "%s %s" % (finding.code, finding.what or finding.title)
    if finding.plane is not None:
        text += " (plane %d)" % finding.plane
    if finding.expected and finding.found:
        text += ": expected %s, found %s" % (finding.expected, finding.found)
    return text


# -- command ----------------------------------------------------------------------------------------------------------


def add_command(commands: t.Any) -> None:
    """Add the command ``check`` to the subparsers of a program."""
    parser = commands.add_parser(
        "check",
        help="exit status 0 if the rails of this node pass, 1 if one fails, 2 if their state is unknown",
        description="Reads the state of the health service. Exit status: 0 pass, 1 fail, 2 unknown.",
    )
    parser.add_argument("--rails", default="", metavar="RAIL,...", help="only these rails (default: all)")
    parser.add_argument(
        "--max-age",
        type=_seconds,
        default=MAX_AGE,
        metavar="SECONDS",
        help="an older state is unknown (default: %g)" % MAX_AGE,
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="repeat the check for at most this time while the state is unknown (default: 0, at most %g)" % WAIT_MAX,
    )
    parser.add_argument("--probe", action="store_true", help="a rail without replies to probes is unknown")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError("%s is not between 0 and 86400" % text)
    return seconds


def run(system: System, arguments: argparse.Namespace) -> int:
    """Run the command ``check``, and return the exit status."""
    rails = [rail for rail in arguments.rails.split(",") if rail]
    deadline = time.monotonic() + min(arguments.wait, WAIT_MAX)
    while True:
        found = check(system, time.time(), rails, arguments.max_age, arguments.probe)
        left = deadline - time.monotonic()
        if found.result != UNKNOWN or left <= 0:
            break
        time.sleep(min(PAUSE, left))
    if arguments.json:
        sys.stdout.write(json.dumps(found.as_dict(), indent=1) + "\n")
    else:
        sys.stdout.write(text(found, time.time()))
    return EXIT[found.result]


def text(found: Result, now: float) -> str:
    """Return a check as lines: the result, then what does not pass, or passes with less than planned."""
    if found.error:
        return "%s: %s\n" % (found.result, found.error)
    numbers = {state: sum(rail.state == state for rail in found.rails) for state in EXIT}
    parts = ["%d of %d rails %s" % (number, len(found.rails), state) for state, number in numbers.items() if number]
    lines = ["%s: node %s: %s; %d s old" % (found.result, found.node, ", ".join(parts) or "no rail", found.age or 0)]
    for rail in found.rails:
        if rail.state != PASS or rail.degraded:
            state = "degraded" if rail.state == PASS else rail.state
            since = " for %d s" % max(now - rail.since, 0) if rail.since else ""
            lines.append("%s: %s%s: %s" % (rail.rail, state, since, rail.reason or "without a reason"))
            if rail.remedy:
                lines.append("  Remedy: %s." % rail.remedy.rstrip("."))
    # names from the network, such as those of neighbours, must not control a terminal
    return "".join(_printable(line) + "\n" for line in [*lines, *found.problems])


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in line)
