# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns of many-to-one rounds: on each rail, all clients of a group write to one server at the same time.

The server starts a server of ``ib_write_bw`` for each client, and then sends each client its port, so that the
transfers begin together. They last for a time, not for a number of writes. Both ends read the counters of the rail
before and after the transfers. A client that is lost is left out of the later rails of its group.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import device_counters, port_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import rail_probe
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.perftest_servers import SLACK, Servers
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_channel import (
    Channel,
    Message,
    PartnerLost,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters

GATHER, WRITE = "gather", "write"
# The least number of clients that can congest a port.
CLIENTS_MIN = 2

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]
# Returns the servers of a partner's message for these rails, or raises PartnerLost.
Checked = t.Callable[[t.Any, t.Sequence[str]], t.List[Row]]


def group_options(options: Options) -> Row:
    """Return the options of the transfers of a group: they last ``group_seconds``, and no latency is measured."""
    return {**options, "latency": False, "seconds": int(options["group_seconds"])}


class Group:
    """The clients of a turn, at their server.

    :param turn: with ``clients``: rows with ``partner`` and ``rails``.
    :param channels: client -> its connection. Clients without one are in ``lost`` with the reason.
    :param options: of the module rail_probe.
    :param until: time of the monotonic clock after which no server may run.
    """

    def __init__(
        self,
        turn: Options,
        channels: dict[str, Channel],
        lost: dict[str, str],
        options: Options,
        system: System,
        until: float,
    ) -> None:
        self._turn, self._channels, self._lost = turn, channels, lost
        self._options, self._system = options, system
        self.servers = Servers(group_options(options), system, until)

    def serve(self, ports: t.Sequence[Options]) -> list[Row]:
        """Serve the clients on each rail that at least two of them have.

        :return: for each of these rails ``turn``, ``rail``, ``clients`` (those that have written), ``lost`` (client ->
            why it did not), ``error`` and ``counters`` (:func:`increases`).
        """
        rows = []
        for port in ports:
            planned = [row["partner"] for row in self._turn["clients"] if port["rail"] in row["rails"]]
            if len(planned) >= CLIENTS_MIN:
                rows.append(self._rail(port, planned))
        for channel in self._channels.values():
            with contextlib.suppress(PartnerLost):
                channel.send({"end": True})
        return rows

    def _rail(self, port: Options, planned: t.Sequence[str]) -> Row:
        rail = port["rail"]
        names = [name for name in planned if name in self._channels]
        row: Row = {"turn": self._turn["turn"], "rail": rail, "clients": [], "error": "", "counters": {}}
        row["lost"] = {name: self._lost[name] for name in planned if name not in names}
        if len(names) < CLIENTS_MIN:
            return dict(row, error="%d of %d clients were met" % (len(names), len(planned)))
        try:
            started = self.servers.start([port] * len(names))
            failed = next((each["error"] for each in started if each["error"]), "")
            if failed:
                return dict(row, error=failed)
            before = read(self._system, self._options, rail)
            asked = [name for name, server in zip(names, started) if self._send(name, {"write": server})]
            row["clients"] = [name for name in asked if self._has_written(name, rail)]
            row["lost"].update({name: self._lost[name] for name in names if name in self._lost})
            row["counters"] = increases(before, read(self._system, self._options, rail))
        except RailyardError as error:
            row["error"] = str(error)
        finally:
            self.servers.stop()
        return row

    def _send(self, name: str, message: Message) -> bool:
        try:
            self._channels[name].send(message)
        except PartnerLost as lost:
            self._lose(name, lost)
            return False
        return True

    def _has_written(self, name: str, rail: str) -> bool:
        try:
            message = answer(self._channels[name], float(self._options["lifetime"]) + SLACK)
            if message.get("wrote") != rail:
                raise PartnerLost("has sent an answer that was not asked for")
        except PartnerLost as lost:
            self._lose(name, lost)
            return False
        return True

    def _lose(self, name: str, lost: PartnerLost) -> None:
        self._lost[name] = "%s %s" % (name, lost)
        self._channels.pop(name).close()


def write(turn: Options, channel: Channel, options: Options, system: System, checked: Checked) -> list[Row]:
    """Write to the server of a group on each rail that it asks for.

    :return: for each rail ``turn``, ``rail``, ``peer``, ``gbits`` (None without a result), ``error``, ``remedy``,
        ``unmeasured`` (:func:`.rail_probe.transfer`) and ``counters`` (:func:`increases`).
    """
    targets = {target["rail"]: target for target in turn["targets"]}
    own, rows = group_options(options), []
    try:
        while targets:
            message = answer(channel, float(options["test_seconds"]))
            if message.get("end"):
                break
            (server,) = checked([message.get("write")], list(targets))
            target = {**targets.pop(server["rail"]), "peer": turn["partner"]}
            if not server["port"]:
                raise PartnerLost("has sent a server without a port")
            target.update({key: server[key] for key in ("port", "meet")})
            target["gpu"] = target.get("gpu") if server["gpu"] else None
            before = read(system, options, target["rail"])
            done = rail_probe.transfer(target, own, system)
            row: Row = {"turn": turn["turn"], "rail": target["rail"], "peer": turn["partner"]}
            row.update({key: done[key] for key in ("gbits", "error", "remedy", "unmeasured")})
            row["counters"] = increases(before, read(system, options, target["rail"]))
            rows.append(row)
            channel.send({"wrote": target["rail"]})
    except PartnerLost as lost:
        rows.append(unwritten(turn, "%s %s" % (turn["partner"], lost)))
    return rows


def unwritten(turn: Options, why: str) -> Row:
    """Return the row of a client that has lost its server, without a rail."""
    row: Row = {"turn": turn["turn"], "rail": None, "peer": turn["partner"], "gbits": None, "error": why}
    return dict(row, remedy="see whether %s answers and is not overloaded" % turn["partner"], counters={})


def answer(channel: Channel, seconds: float) -> Message:
    """Return the next message of a partner that is not a keepalive.

    :raises PartnerLost: also if the partner only sends keepalives for longer than ``seconds``.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        message = channel.receive()
        if not message.get("alive"):
            return message
    raise PartnerLost("did not answer within %.0f s" % seconds)


def read(system: System, options: Options, rail: str) -> dict[str, int]:
    """Return the counters of a rail's netdevs and RDMA device, with the pause frames of each priority.

    :param options: with ``watched``: rail -> ``netdevs`` and ``devices``.
    """
    names = (options.get("watched") or {}).get(rail) or {"netdevs": [], "devices": []}
    found: dict[str, int] = {}
    looked = port_counters.look(system, names["netdevs"], names["devices"])
    for values in (*looked["netdevs"].values(), *looked["devices"].values()):
        for name, value in values.items():
            found[name] = found.get(name, 0) + value
    for rows in device_counters.netdev_statistics(names["netdevs"]).values():
        # without statistics of traffic
        for row in (row for row in rows if "pause" in row.name):
            name = row.name if row.priority is None else "%s_%s" % (row.name, row.priority)
            found[name] = found.get(name, 0) + row.value
    return found


def increases(before: t.Mapping[str, int], after: t.Mapping[str, int]) -> dict[str, int]:
    """Return by how much counters have increased. Counters of congestion are in it with 0 too: they exist."""
    found = {name: value - before[name] for name, value in after.items() if name in before}
    return {name: each for name, each in found.items() if each or counters.CONGESTION.search(name.lower())}
