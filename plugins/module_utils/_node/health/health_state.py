# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node's rails as the health service keeps it: ``/run/railyard/health/state.json``.

Other programs read it without asking the service. Times are in seconds since 1970.
"""

from __future__ import annotations

import json
import os
import stat
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DIRECTORY = "/run/railyard/health"
FILE = DIRECTORY + "/state.json"
FORMAT = 1
# Most bytes of the file that are read: a node with 64 rails and many findings needs less.
SIZE_MAX = 4 << 20
# Seconds without an update after which the state of the rails is unknown. The watchdog is shorter.
STALE = 120.0
PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
STATES = (PASS, FAIL, UNKNOWN)
REMEDY = "run systemctl status railyard-health on the node"
Row = t.Dict[str, t.Any]


class Finding(t.NamedTuple):
    """One difference between a rail and the plan, or why its state is unknown.

    :param code, name, title: of the finding, as in the verdict of verify. :param what: the thing that was looked at.
    :param expected, found: as text. :param since: when it began. :param plane: the number of the plane.
    :param peer: the other node, if a probe found it. :param cause, remedy: for people.
    """

    code: str
    name: str
    title: str
    what: str
    expected: str
    found: str
    since: float
    plane: int | None
    peer: str | None
    cause: str
    remedy: str

    def __str__(self) -> str:
        text = "%s (%s): %s: expected %s, found %s" % (self.name, self.code, self.what, self.expected, self.found)
        return text + (", to %s" % self.peer if self.peer else "")


class PlaneState(t.NamedTuple):
    """The state of one plane of a rail."""

    plane: int
    state: str


class RailState(t.NamedTuple):
    """The state of one rail.

    :param state: one of :data:`STATES`. :param degraded: whether it carries traffic with less than planned, such as
        without one of its planes. :param since: when ``state`` began.
    :param findings: why it is not healthy; for UNKNOWN the reason with its remedy.
    :param probe: what the probes between nodes measured; None without probes.
    """

    rail: str
    state: str
    degraded: bool
    since: float
    findings: tuple[Finding, ...] = ()
    planes: tuple[PlaneState, ...] = ()
    probe: Row | None = None

    def as_dict(self) -> Row:
        row = dict(self._asdict())
        row["findings"] = [dict(each._asdict()) for each in self.findings]
        row["planes"] = [dict(each._asdict()) for each in self.planes]
        return row


class HealthState(t.NamedTuple):
    """The state of a node. ``ready``: whether every rail was judged at least once. ``problems``: of the service."""

    version: str
    fabric: str
    node: str
    boot_id: str
    began: float
    updated: float
    ready: bool
    rails: tuple[RailState, ...]
    problems: tuple[str, ...]

    def as_dict(self) -> Row:
        row = dict(self._asdict(), format=FORMAT)
        row["rails"] = [rail.as_dict() for rail in self.rails]
        row["problems"] = list(self.problems)
        return row

    def is_stale(self, now: float) -> bool:
        """Return whether the service has not updated the state for too long. ``now``: seconds since 1970."""
        return now - self.updated > STALE


def write_state(system: System, state: HealthState) -> None:
    """Replace the file atomically. Raises :class:`.RailyardError` if it cannot be written."""
    text = json.dumps(state.as_dict(), separators=(",", ":"), sort_keys=True)
    system.write_file(FILE, text + "\n", 0o644)


def read_state(system: System) -> HealthState:
    """Return the state that the service wrote since the last boot.

    :raises RailyardError: if the file is missing, damaged, or not root's.
    """
    data = _read(system)
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError("format %r" % document["format"])
        return HealthState(
            version=str(document["version"]),
            fabric=str(document["fabric"]),
            node=str(document["node"]),
            boot_id=str(document["boot_id"]),
            began=float(document["began"]),
            updated=float(document["updated"]),
            ready=bool(document["ready"]),
            rails=tuple(map(_rail, document["rails"])),
            problems=tuple(map(str, document["problems"])),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise RailyardError("is damaged (%r), so the state of the rails is unknown" % error, FILE, REMEDY) from None


def _read(system: System) -> bytes:
    """Return the content of a regular file of root, without waiting for a writer of another kind of file."""
    try:
        descriptor = os.open(system.path(FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        remedy = "run systemctl start railyard-health on the node"
        raise RailyardError("the health service has not written its state", FILE, remedy) from None
    except OSError as error:
        raise RailyardError("cannot be read: %s" % error.strerror, FILE, REMEDY) from None
    status = os.fstat(descriptor)
    # a test may run as another user, who owns its directories
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        os.close(descriptor)
        raise RailyardError("is not a file of root", FILE, "remove it, and restart railyard-health")
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(SIZE_MAX + 1)
    if len(data) > SIZE_MAX:
        raise RailyardError("is larger than %d bytes" % SIZE_MAX, FILE, "remove it, and restart railyard-health")
    return data


def _rail(row: Row) -> RailState:
    if row["state"] not in STATES:
        raise ValueError("state %r" % row["state"])
    return RailState(
        rail=str(row["rail"]),
        state=row["state"],
        degraded=bool(row["degraded"]),
        since=float(row["since"]),
        findings=tuple(Finding(**{key: each[key] for key in Finding._fields}) for each in row["findings"]),
        planes=tuple(PlaneState(int(each["plane"]), str(each["state"])) for each in row["planes"]),
        probe=row["probe"],
    )
