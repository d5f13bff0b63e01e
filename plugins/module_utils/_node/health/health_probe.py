# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The probes of a node: on each rail, echo requests at a low rate to partners that change."""

from __future__ import annotations

import collections
import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import (
    HealthSpec,
    Partner,
    Probe,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_evidence import (
    Outcome,
    RailEvidence,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_judge import (
    ProbeJudge,
    ProbeVerdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_pace import Pace
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_socket import ProbeSocket

# Seconds after which a request without a reply is lost, and seconds until a socket is checked or opened again.
LOST_AFTER, OPEN_AGAIN = 1.0, 5.0


class _Waiting:
    """A request without outcome. ``left``: nanoseconds since 1970, by the clock of the kernel's arrival times."""

    __slots__ = ("batch", "burst", "full", "left", "marked", "partner", "round_trip", "sent", "sequence")

    def __init__(self, partner: int, full: bool, burst: bool, sequence: int, batch: int, sent: float) -> None:
        self.partner, self.full, self.burst = partner, full, burst
        self.sequence, self.batch, self.sent = sequence, batch, sent
        self.left = 0
        self.round_trip: float | None = None
        self.marked = False


class RailProber:
    """The probes of one rail.

    :param rate: bits per second that the rail may send.
    """

    def __init__(self, rail: Rail, partners: t.Sequence[Partner], rate: float) -> None:
        self._rail = rail
        version6 = bool(partners) and ":" in partners[0].address
        self._partners = [each for each in partners if (":" in each.address) == version6]
        self._source = next((each for each in rail.addresses if (":" in each) == version6), None)
        self.evidence = RailEvidence([each.node for each in self._partners])
        self.pace = Pace(self.evidence, rate, rail.mtu or 1500, version6, rail.vlan is not None)
        self._socket: ProbeSocket | None = None
        self._open_at = 0.0
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._by_sequence: dict[int, _Waiting] = {}
        self._sequence = 0
        self._carrier_changes: int | None = None
        self._dropped = 0
        # why there are no probes; empty if there are
        self.problem = ""

    def turn(self, now: float, wall: float, batch: int) -> None:
        """Read replies, and send the requests of this turn."""
        self._follow_link(now)
        self._read(now)
        sock = self._opened(now)
        if sock is None:
            return
        for request in self.pace.turn(now, wall):
            self._sequence = (self._sequence + 1) & 0xFFFF
            waiting = _Waiting(request.partner, request.full, request.burst, self._sequence, batch, now)
            try:
                left = sock.send(request.partner, self._sequence, request.full)
            except OSError as error:
                # the kernel has no path, as a lost packet; the finding is about the rail, not about the socket
                self.problem = os.strerror(error.errno or 0)
                left = 0
            if left is not None:
                waiting.left = left
                self._waiting.append(waiting)
                self._by_sequence[self._sequence] = waiting

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None
            self._dropped = 0

    def _opened(self, now: float) -> ProbeSocket | None:
        """Return the socket. It is opened again after the interface was created again."""
        if self._socket and (now >= self._open_at or self._carrier_changes is None):
            self._open_at = now + OPEN_AGAIN
            if self._socket.stale():
                self.close()
                self._open_at = now
        if self._socket is None and now >= self._open_at and self._partners:
            self._open_at = now + OPEN_AGAIN
            self.problem = ""
            if self._source is None or self._rail.netdev is None:
                self.problem = "the rail has no address or no name"
                return None
            addresses = [each.address for each in self._partners]
            try:
                self._socket = ProbeSocket(self._rail.netdev, self._source, addresses, self._rail.mtu or 1500)
            except OSError as error:
                self.problem = "no socket from %s on %s: %s" % (self._source, self._rail.netdev, error.strerror)
        return self._socket

    def _follow_link(self, now: float) -> None:
        changes = self._socket.carrier_changes() if self._socket else None
        if changes != self._carrier_changes:
            self.evidence.interrupt(now)
        self._carrier_changes = changes

    def _read(self, now: float) -> None:
        """Record the outcomes of requests that were answered, or not in time, in the order in which they left."""
        for reply in self._socket.receive() if self._socket else ():
            waiting = self._by_sequence.get(reply.sequence)
            if waiting and waiting.partner == reply.partner and waiting.round_trip is None:
                waiting.round_trip = (reply.arrived - waiting.left) / 1000
                waiting.marked = reply.marked
        if self._socket and self._socket.dropped != self._dropped:
            # the kernel of this node has dropped replies
            self._dropped = self._socket.dropped
            self.evidence.interrupt(now)
        while self._waiting:
            first = self._waiting[0]
            if first.round_trip is None and now - first.sent < LOST_AFTER:
                break
            self._waiting.popleft()
            self._by_sequence.pop(first.sequence, None)
            # a time that cannot be: the clock was set in between. The reply counts, its time does not.
            timed = first.round_trip is None or 0 <= first.round_trip <= 1000000 * LOST_AFTER
            self.evidence.record(
                Outcome(
                    *(first.partner, first.sent, first.batch, first.full),
                    burst=first.burst or not timed,
                    round_trip=first.round_trip,
                    marked=first.marked,
                )
            )


class Prober:
    """The probes of all rails that have partners.

    The service calls :meth:`turn` when it is :meth:`due`. Nothing here waits.
    """

    def __init__(self, spec: HealthSpec) -> None:
        probe = spec.probe or Probe(0, {})
        self._rails = {
            rail.rail: RailProber(rail, probe.partners[rail.rail], probe.rate_bits)
            for rail in spec.rails
            if probe.partners.get(rail.rail)
        }
        self._judge = ProbeJudge()
        self._batch = 0

    def due(self, now: float) -> float | None:
        """Return the time of the next turn; None without probes. Times are of ``time.monotonic()``."""
        return min((rail.pace.due(now) for rail in self._rails.values()), default=None)

    def turn(self, now: float, wall: float | None = None) -> None:
        """Read replies, and send requests on the rails that are due.

        :param wall: seconds since 1970.
        """
        self._batch += 1
        wall = time.time() if wall is None else wall
        for rail in self._rails.values():
            # rails whose turns are close to one another share a wake-up
            if rail.pace.due(now) <= now + 0.02:
                rail.turn(now, wall, self._batch)

    def verdicts(self, now: float) -> dict[str, ProbeVerdict]:
        """Return the verdict of each rail with partners."""
        return self._judge.judge({name: rail.evidence for name, rail in self._rails.items()}, now)

    def figures(self, now: float) -> dict[str, dict[str, t.Any]]:
        """Return what the probes of each rail measured, as ``probe`` of the state, and ``problem``: why there are
        none."""
        return {
            name: dict(rail.evidence.figures(now), bits=rail.pace.bits, problem=rail.problem)
            for name, rail in self._rails.items()
        }

    def close(self) -> None:
        for rail in self._rails.values():
            rail.close()
