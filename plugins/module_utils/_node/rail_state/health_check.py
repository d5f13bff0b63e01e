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
import math
import os
import stat
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

STATE = "/run/railyard/health/state.json"
SPEC = "/etc/railyard/health.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
FORMAT = 1
PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
# Exit status of each result.
EXIT = {PASS: 0, FAIL: 1, UNKNOWN: 2}
# Seconds after which a state is stale. The service writes it at each observation, every few seconds.
MAX_AGE = 30.0
# Longest state file in bytes: that of a node with 16 rails has less than a tenth.
MOST = 4 << 20
# Seconds between two looks of ``--wait``, and its maximum.
PAUSE, WAIT_MAX = 1.0, 600.0
_START = "run systemctl status railyard-health on the node"
Document = t.Mapping[str, t.Any]


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


def read(system: System) -> Document:
    """Return the state of the health service. Raises :class:`RailyardError` if it cannot be used."""
    if not system.exists(STATE):
        raise RailyardError("the health service has written no state", STATE, _START)
    why = root_owned.why_not(system, STATE)
    if why:
        remedy = "remove the file, and run systemctl restart railyard-health"
        raise RailyardError("is not used, because a user other than root can change it: %s" % why, STATE, remedy)
    try:
        # a named pipe would block, and a link would lead to another file
        fd = os.open(system.path(STATE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError("not a regular file")
            raw = stream.read(MOST + 1)
        if len(raw) > MOST:
            raise ValueError("more than %d bytes" % MOST)
        document = json.loads(raw)
        if document["format"] != FORMAT:
            raise ValueError("format %r" % document["format"])
    except PermissionError:
        raise RailyardError("cannot be read by this user", STATE, "run the check as root") from None
    except OSError as error:
        raise RailyardError("cannot be read: %s" % error.strerror, STATE, _START) from None
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise _damaged(error) from None
    return t.cast(Document, document)


def _damaged(error: Exception) -> RailyardError:
    return RailyardError("is damaged (%r)" % error, STATE, "run systemctl restart railyard-health on the node")


def look(system: System) -> dict[str, t.Any] | None:
    """Return part ``health`` of ``rail_info``; None without an installed health service."""
    return check(system, time.time()).as_dict() if system.exists(SPEC) or system.exists(STATE) else None


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
        document = read(system)
        try:
            return judge(document, now, system.read(BOOT_ID) or "", rails, max_age, probe)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(error) from None
    except RailyardError as error:
        return Result(UNKNOWN, "", "", None, (), (), error)


def judge(
    document: Document, now: float, boot: str, rails: t.Sequence[str], max_age: float, probe: bool = False
) -> Result:
    """As :func:`check`, for a document with format 1. ``boot``: the kernel's boot ID.

    :raises RailyardError: if the state is stale, of another boot, or does not have one of the rails.
    :raises AttributeError, KeyError, TypeError, ValueError: if the document is damaged.
    """
    age = now - float(document["updated"])
    if not math.isfinite(age):
        raise ValueError("updated %r" % document["updated"])
    if boot and document["boot_id"] != boot:
        raise RailyardError("is of another boot", STATE, _START)
    if abs(age) > max_age:
        words = "is %d s old" % age if age > 0 else "is %d s in the future" % -age
        raise RailyardError("%s, and at most %g s are accepted" % (words, max_age), STATE, _START)
    found = {str(row["rail"]): _rail(row, probe) for row in document["rails"]}
    unknown = [rail for rail in rails if rail not in found]
    if unknown:
        message = "has no rail %s" % ", ".join(unknown)
        raise RailyardError(message, STATE, "name some of %s" % (", ".join(found) or "none: the state has no rail"))
    chosen = tuple(found[rail] for rail in rails or found)
    problems = tuple(str(text) for text in document["problems"])
    states = {rail.state for rail in chosen}
    if not document["ready"]:
        # a rail that fails already is a fact
        states.add(UNKNOWN)
        problems = ("the service has not yet read all rails", *problems)
    result = FAIL if FAIL in states else PASS if states == {PASS} else UNKNOWN
    return Result(result, str(document["node"]), str(document["fabric"]), max(age, 0.0), chosen, problems)


def _rail(row: t.Mapping[str, t.Any], probe: bool) -> RailResult:
    state, findings = row["state"], row["findings"]
    if state not in EXIT:
        raise ValueError("state %r" % state)
    degraded = bool(row["degraded"])
    reason = "; ".join(_reason(finding) for finding in findings)
    remedy = next((str(finding["remedy"]) for finding in findings if finding.get("remedy")), "")
    if probe and state == PASS:
        seen = row.get("probe")
        if not seen or not seen["received"]:
            state, reason = UNKNOWN, "no reply to a probe of the health service yet"
            remedy = "set health.probe of the fabric file, and wait for its first replies"
    return RailResult(str(row["rail"]), state, degraded, float(row["since"]), reason, remedy)


def _reason(finding: t.Mapping[str, t.Any]) -> str:
    """Return a finding in one line: ``RV402 rail1: expected carrier, found no carrier``."""
    text = "%s %s" % (finding["code"], finding["what"] or finding["title"])
    if finding.get("plane") is not None:
        text += " (plane %s)" % finding["plane"]
    if finding.get("expected") is not None and finding.get("found") is not None:
        text += ": expected %s, found %s" % (finding["expected"], finding["found"])
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
