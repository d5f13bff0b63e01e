# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that probes the partners of a node in all rounds, without the control node.

Its schedule has a turn per round, with one partner. In a turn, the client connects to the server's prober, which
answers when its own schedule reaches this turn. So two nodes agree on the start of each test, and a node never has two
tests at a time. The client sends packets, requests servers of perftest for the rails that answer, and transfers data.
In a turn of a many-to-one round, a server has several clients (:mod:`group_turns`). Rounds have one order for all
nodes, so the pair or group of the lowest round never waits for another one.

Waiting nodes exchange keepalives. A prober gives up a partner after ``silence`` seconds without one, so a partner that
hangs or ends does not delay other pairs by more. A partner that does not listen may still be started by the control
node: the prober tries again until the control node reports that all nodes were started, or until ``patience`` ends.
Nodes pass this report on to their partners.

With a soak, the turns are repeated (:mod:`soak_record`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, unforeseen
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import (
    group_turns,
    partner_servers,
    probe_runs,
    rail_probe,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.perftest_servers import (
    SLACK,
    Servers,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_channel import (
    CLIENT,
    Channel,
    Hello,
    PartnerLost,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_listener import (
    ENDED,
    Listener,
    Progress,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.soak_record import Soak

PROBE, SERVE = "probe", "serve"
# The part of the longest silence in which a connection must be accepted, and seconds between two attempts.
_CONNECT_SHARE, _RETRY_SECONDS = 1 / 12.0, 0.5
# Connections of a client that are accepted in a turn, if it loses them before it requests servers.
_ATTEMPTS = 3
# Seconds in which a partner must have started its servers: its wait for other runs, and until they listen.
_SERVED_SECONDS = probe_runs.PATIENCE + SLACK

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]


class Prober:
    """The turns of a node, or of its pod.

    :param spec: the options of the module rail_probe.
    :param part: ``spec`` itself or, for a pod, its ``pod``: with ``turns`` and ``ports``.
    :param began: time of the monotonic clock when the prober began.
    """

    def __init__(self, spec: Options, part: Options, system: System, place: str, began: float) -> None:
        self._spec, self._part, self._system, self._place, self._began = spec, part, system, place, began
        self._turns: list[Options] = part["turns"]
        partners = {turn["turn"]: [row["partner"] for row in turn.get("clients") or (turn,)] for turn in self._turns}
        self.soak = Soak(spec, system, began)
        self._patience = float(spec["patience"]) + self.soak.seconds
        self.progress = Progress(partners, float(spec["test_seconds"]), self.soak.stride)
        self._until = began + float(spec["deadline"])
        self._servers = Servers(spec, system, self._until)
        self.results: list[Row] = []
        self.groups: list[Row] = []
        self.refused = ""
        self._silence = float(spec["silence"])
        # other runs that have tested on this node at the same time, and when they began
        self.other_runs: dict[str, float] = {}
        self._modes: t.Mapping[str, t.Callable[[Options], None]] = {
            PROBE: self._probe,
            SERVE: self._serve,
            group_turns.GATHER: self._gather,
            group_turns.WRITE: self._write,
        }
        self.listener = Listener(part["addresses"], spec, self.progress)

    def run(self) -> None:
        """Probe and serve all partners, and keep the results. Repeat it until the end of a soak."""
        for turn in self._turns:
            if self._is_over():
                break
            self._turn(turn)
        # the turns of a pod are not repeated
        while self._turns and self._part is self._spec and not self._is_over() and not self.soak.is_over():
            for turn in self.soak.repeated(self._turns):
                # the partner may still need this node as its server
                if self.soak.is_over() and turn["mode"] in (PROBE, group_turns.WRITE):
                    continue
                results, groups = len(self.results), len(self.groups)
                self._turn(turn)
                self.soak.note(self.results[results:], self.groups[groups:])
                del self.results[results:], self.groups[groups:]
        self.progress.enter(ENDED)
        # partners in a soak learn from it that this node has ended
        if not self.soak.seconds:
            self.listener.close()

    def _turn(self, turn: Options) -> None:
        self.progress.enter(turn["turn"])
        try:
            self._modes[turn["mode"]](turn)
        except RailyardError as error:
            self.refused = self.refused or str(error)
        except OSError as error:
            self.refused = self.refused or str(unforeseen(error))
        finally:
            self._servers.stop()
            self.note_others()

    def _needs_no_result(self, turn: Options, why: str) -> bool:
        """Return whether a partner that was not met is usual: time is over, or the partner has ended its soak."""
        return self._is_over() or (self.soak.is_repeated(turn) and (not why or self.soak.is_over()))

    def _is_over(self) -> bool:
        """Return whether no further round may begin."""
        budget = float(self._spec["begin_seconds"] or 0)
        return bool(budget) and time.monotonic() >= self._began + budget

    # -- the probing end -----------------------------------------------------------------------------------------------

    def _probe(self, turn: Options) -> None:
        """Probe the partner of a turn. Without its prober, only packets are sent."""
        channel, why = self._ready(turn)
        if channel is None and self._needs_no_result(turn, why):
            return

        def served(rails: t.Sequence[str]) -> list[Row]:
            nonlocal why
            if channel is not None:
                try:
                    channel.send({"serve": list(rails)})
                    return partner_servers.checked(group_turns.answer(channel, _SERVED_SECONDS).get("served"), rails)
                except PartnerLost as lost:
                    why = "%s %s" % (turn["partner"], lost)
            remedy = "see whether %s answers and is not overloaded" % turn["partner"]
            return [{"rail": rail, "error": why, "remedy": remedy} for rail in rails]

        others = turn["others"]
        targets = [
            {
                **target,
                "peer": turn["partner"],
                "others": [each for each in others if each["rail"] != target["rail"]],
            }
            for target in turn["targets"]
        ]
        self._test_begins()
        with contextlib.ExitStack() as stack:
            if channel is not None:
                stack.callback(channel.close)
                stack.enter_context(channel.alive())
            self.results += rail_probe.probe(dict(self._spec, targets=targets), self._system, served)
            if channel is not None:
                with contextlib.suppress(PartnerLost):
                    channel.send({"end": True})

    def _ready(self, turn: Options, is_over: t.Callable[[], bool] | None = None) -> tuple[Channel | None, str]:
        """Return the connection to a partner that is ready for the turn, or None and the reason.

        :param is_over: of a serving node, which only checks that its client is alive, until this returns True.
        """
        began, why = time.monotonic(), ""
        latest = self._began + self._patience + (turn["turn"] + 1) * float(self._spec["test_seconds"])
        while not (is_over or self._is_over)():
            channel, why = self._connected(turn, is_over is not None)
            if channel is not None:
                try:
                    return self._waited(channel, turn, latest, is_over or self._is_over)
                except PartnerLost as lost:
                    why = "%s %s" % (turn["partner"], lost)
                    channel.close()
                except TooLate as late:
                    channel.close()
                    return None, str(late)
            now, started = time.monotonic(), self.progress.all_started
            if now > self._began + self._patience:
                return None, why
            if started is not None and now > max(began, started) + self._silence:
                return None, why
            time.sleep(_RETRY_SECONDS)
        return None, why or "the time was over"

    def _waited(
        self, channel: Channel, turn: Options, latest: float, is_over: t.Callable[[], bool]
    ) -> tuple[Channel, str]:
        """Return the connection when the partner is ready. Raises :class:`PartnerLost` or :class:`TooLate`."""
        while True:
            message = channel.receive()
            if message.get("ready"):
                return channel, ""
            if message.get("past"):
                if message.get("ended") and self.soak.is_repeated(turn):
                    raise TooLate("")
                raise TooLate("%s has given up this node" % turn["partner"])
            if message.get("all_started"):
                self.progress.note_all_started()
            if is_over() or time.monotonic() > latest:
                raise TooLate("%s was not ready in time" % turn["partner"])

    def _connected(self, turn: Options, watch: bool) -> tuple[Channel | None, str]:
        """Return an authenticated connection to the partner's prober, or None and the reason."""
        why = "%s has no address at which its prober can be reached" % turn["partner"]
        hello = Hello(self._spec["name"], turn["partner"], turn["turn"], watch, self.progress.all_started is not None)
        for way in turn["ways"]:
            for port in turn["listen"]:
                source = (way["source"], 0) if way.get("source") else None
                text = "%s could not be met at %s, TCP port %d: %%s" % (turn["partner"], way["address"], port)
                try:
                    sock = socket.create_connection((way["address"], port), self._silence * _CONNECT_SHARE, source)
                except ConnectionRefusedError as error:
                    why = text % error.strerror
                    continue
                except OSError as error:
                    why = text % (error.strerror or error)
                    break
                channel = Channel(sock, CLIENT, self._silence)
                try:
                    channel.connect(self._spec["token"], hello)
                    return channel, ""
                except PartnerLost as lost:
                    why = text % ("it %s" % lost)
                    channel.close()
        return None, why

    def _test_begins(self) -> None:
        self.progress.begin_test()
        with contextlib.suppress(RailyardError):
            self._system.write_file("%s/%s" % (self._place, probe_runs.TESTS), "", 0o600)
        self.note_others()

    def note_others(self) -> None:
        """Note the other runs that test on this node while this one does."""
        if self._system.exists("%s/%s" % (self._place, probe_runs.TESTS)):
            self.other_runs.update(probe_runs.testing(self._system, self._spec["run"]))

    # -- the serving end -----------------------------------------------------------------------------------------------

    def _serve(self, turn: Options) -> None:
        """Serve the partner of a turn."""
        ports = {port["rail"]: port for port in self._part["ports"]}
        for _attempt in range(_ATTEMPTS):
            channel = self._client(turn)
            if channel is None:
                return
            self._test_begins()
            until = time.monotonic() + float(self._spec["test_seconds"])
            requested = False
            try:
                with channel.alive():
                    channel.send({"ready": True})
                    while time.monotonic() < until:
                        message = channel.receive()
                        if message.get("end"):
                            return
                        rails = message.get("serve")
                        if isinstance(rails, list) and not requested:
                            requested = True
                            # the ports are those of this node's own schedule
                            channel.send({"served": self._started([ports[rail] for rail in ports if rail in rails])})
                    return
            except PartnerLost:
                # the client has its own results, unless it lost the connection before its request: it connects again
                if requested:
                    return
            finally:
                channel.close()

    def _started(self, ports: t.Sequence[Options]) -> list[Row]:
        try:
            return self._servers.start(ports)
        except RailyardError as error:
            self.refused = self.refused or str(error)
            return [{"rail": port["rail"], "error": error.message, "remedy": error.remedy} for port in ports]

    def _client(self, turn: Options) -> Channel | None:
        """Return the connection of the client of a turn; None if it does not connect."""
        given_up = threading.Event()
        taken = threading.Event()

        def watch() -> None:
            try:
                self._ready(turn, taken.is_set)
            finally:
                given_up.set()

        watched = False
        try:
            while True:
                channel = self.progress.taken(turn["turn"], turn["partner"], 2 * _RETRY_SECONDS)
                if channel is not None or given_up.is_set() or self._is_over():
                    return channel
                if not watched:
                    watched = True
                    threading.Thread(target=watch, daemon=True).start()
        finally:
            taken.set()

    # -- many-to-one rounds --------------------------------------------------------------------------------------------

    def _gather(self, turn: Options) -> None:
        """Serve the clients of a group, when all of them have connected or were given up."""
        channels: dict[str, Channel] = {}
        lost: dict[str, str] = {}
        with contextlib.ExitStack() as stack:

            def meet(client: Options) -> None:
                channel = self._client({**client, "turn": turn["turn"]})
                if channel is None:
                    lost[client["partner"]] = "%s did not connect" % client["partner"]
                    return
                # others are waited for meanwhile
                stack.callback(channel.close)
                stack.enter_context(channel.alive())
                channels[client["partner"]] = channel

            # daemons, so that a signal ends the prober while they wait
            threads = [threading.Thread(target=meet, args=(client,), daemon=True) for client in turn["clients"]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if not channels and self._needs_no_result(turn, ""):
                return
            self._test_begins()
            for name, channel in list(channels.items()):
                try:
                    channel.send({"ready": True})
                except PartnerLost as error:
                    del channels[name]
                    lost[name] = "%s %s" % (name, error)
            group = group_turns.Group(turn, channels, lost, self._spec, self._system, self._until)
            self.groups += group.serve(self._part["ports"])

    def _write(self, turn: Options) -> None:
        """Write to the server of a group."""
        channel, why = self._ready(turn)
        if channel is None:
            self.groups += [] if self._needs_no_result(turn, why) else [group_turns.unwritten(turn, why)]
            return
        self._test_begins()
        with contextlib.ExitStack() as stack:
            stack.callback(channel.close)
            stack.enter_context(channel.alive())
            self.groups += group_turns.write(turn, channel, self._spec, self._system, partner_servers.checked)


class TooLate(Exception):
    """The partner runs, but this turn is over for one of the two nodes. The text is the reason."""
