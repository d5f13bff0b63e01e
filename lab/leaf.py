# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leaf switches of a lab's rails: one small process between the guests' NICs.

Each rail port is a pair of unix datagram sockets, one frame a datagram: the guest sends to ``nNrR.leaf``, the leaf
sends to ``nNrR.nic``. Between them is a cable, which can be plugged elsewhere, cut, narrowed, made lossy, or made to
hear LLDP. Commands come as JSON lines on ``leaf.control``; each gets one JSON line back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable, Union

FRAME_MAX = 65536
HEADER = 14
VLAN_TAG = 4
BATCH = 64  # frames that are read from one port before the next port
BACKLOG = 512  # frames that are stored for a slow guest; a queue of a unix datagram socket has ten
LLDP_SECONDS = 30.0
LLDP_GROUP = bytes.fromhex("0180c200000e")
BRIDGE_GROUP = bytes.fromhex("0180c20000")  # bridges do not forward 01:80:c2:00:00:0x (802.1D)

Frame = Union[bytes, memoryview]


class Fault(Exception):
    """The error of a wrong command."""


class Port:
    """The leaf's end of a rail port's cable, and the faults of the cable."""

    def __init__(self, run: Path, node: int, rail: int) -> None:
        self.node = node
        self.rail = rail
        # Where the cable is plugged: the leaf of a rail, and its socket (socket N is for node N).
        self.leaf = rail
        self.socket = node
        self.cut = False
        self.mtu: int | None = None
        self.loss = 0.0
        self.lldp = False
        self.chassis: str | None = None
        self.port: str | None = None
        self.received = self.sent = self.dropped = 0
        self.backlog: deque[bytes] = deque()
        self.nic = str(run / ("n%dr%d.nic" % (node, rail)))
        self.inward = _bound(run / ("n%dr%d.leaf" % (node, rail)))
        self.outward = self._fresh()

    @staticmethod
    def _fresh() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.setblocking(False)
        return sock

    def admits(self, size: int) -> bool:
        """Return whether the cable passes a frame of this size. With loss, the result is random."""
        if self.cut or (self.mtu is not None and size > self.mtu + HEADER + VLAN_TAG):
            return False
        return not (self.loss and random.random() * 100 < self.loss)

    def transmit(self, frame: Frame) -> bool:
        """Send a frame to the guest's NIC. Return False if its queue is full. Without a guest, the frame is dropped."""
        for last in (False, True):
            try:
                self.outward.send(frame)
                self.sent += 1
                return True
            except BlockingIOError:
                return False
            except OSError:
                if last or not self._connect():
                    break
        self.dropped += 1
        return True

    def _connect(self) -> bool:
        """Connect to the guest's socket, which changes with each start of the guest. Return whether this succeeded."""
        with contextlib.suppress(OSError):
            self.outward.connect(self.nic)
            return True
        return False

    def describe(self) -> dict[str, Any]:
        """Return the state of the cable, and the counters of frames."""
        return {
            "node": self.node,
            "rail": self.rail,
            "leaf": self.leaf,
            "socket": self.socket,
            "cut": self.cut,
            "mtu": self.mtu,
            "loss": self.loss,
            "lldp": self.lldp,
            "chassis": self.chassis,
            "port": self.port,
            "received": self.received,
            "sent": self.sent,
            "dropped": self.dropped,
        }


def _bound(path: Path) -> socket.socket:
    """Return a datagram socket at ``path``. A socket of an earlier process is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    path.unlink(missing_ok=True)
    sock.bind(str(path))
    return sock


def lldp_frame(
    leaf: int, place: int, chassis: str | None = None, port: str | None = None, seconds: int = int(4 * LLDP_SECONDS)
) -> bytes:
    """Return the LLDP frame of a leaf's socket ``place``. ``seconds``: time to live; 0 withdraws the neighbour."""
    chassis = chassis or "leaf-%d" % leaf
    port = port or "Ethernet%d" % place

    def tlv(kind: int, value: bytes) -> bytes:
        return struct.pack("!H", kind << 9 | len(value)) + value

    payload = b"".join(
        (
            tlv(1, b"\x07" + chassis.encode()),  # chassis id, locally assigned
            tlv(2, b"\x05" + port.encode()),  # port id, interface name
            tlv(3, struct.pack("!H", seconds)),  # time to live
            tlv(4, port.encode()),  # port description
            tlv(5, chassis.encode()),  # system name
            tlv(6, b"Railyard lab leaf"),  # system description
            tlv(0, b""),
        )
    )
    source = struct.pack("!BBHBB", 0x02, 0x1E, 0xAF00, leaf & 0xFF, place & 0xFF)
    return LLDP_GROUP + source + b"\x88\xcc" + payload.ljust(46, b"\0")


class Switch:
    """All leaves of a lab.

    ``plugged``: leaf -> ports. ``learned``: leaf -> source address -> port.
    """

    def __init__(self, run: Path, nodes: int, rails: int) -> None:
        self.run = run
        self.rails = rails
        self.ports = {
            (node, rail): Port(run, node, rail) for node in range(1, nodes + 1) for rail in range(1, rails + 1)
        }
        self.learned: dict[int, dict[bytes, Port]] = {}
        self.plugged: dict[int, list[Port]] = {}
        self.next_lldp = 0.0
        self.poll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._replug()
        for port in self.ports.values():
            self._watch(port.inward, select.EPOLLIN, lambda _event, port=port: self._receive(port))  # type: ignore[misc]
        self._listen()

    # frames

    def forward(self, source: Port, frame: Frame) -> None:
        """Forward a frame from a port, as a learning bridge does."""
        source.received += 1
        if not source.admits(len(frame)):
            source.dropped += 1
            return
        target, sender = bytes(frame[:6]), bytes(frame[6:12])
        learned = self.learned[source.leaf]
        if not sender[0] & 1:
            learned[sender] = source
        if target[:5] == BRIDGE_GROUP and target[5] < 0x10:
            return
        known = learned.get(target)
        if known is not None:
            if known is not source:
                self.deliver(known, frame)
            return
        for port in self.plugged[source.leaf]:
            if port is not source:
                self.deliver(port, frame)

    def deliver(self, port: Port, frame: Frame) -> None:
        """Send a frame to a port, at once or when the guest's queue is not full."""
        if not port.admits(len(frame)):
            port.dropped += 1
        elif port.backlog:
            if len(port.backlog) < BACKLOG:
                port.backlog.append(bytes(frame))
            else:
                port.dropped += 1
        elif not port.transmit(frame):
            port.backlog.append(bytes(frame))
            self._watch(port.outward, select.EPOLLOUT, lambda _event: self._drain(port))

    def _receive(self, port: Port) -> None:
        buffer = self._buffer
        view = memoryview(buffer)
        for _frame in range(BATCH):
            try:
                size = port.inward.recv_into(buffer)
            except OSError:
                return
            if size >= HEADER:
                self.forward(port, view[:size])

    _buffer = bytearray(FRAME_MAX)

    def _drain(self, port: Port) -> None:
        while port.backlog:
            if not port.transmit(port.backlog[0]):
                return
            port.backlog.popleft()
        self._forget(port.outward)

    def send_lldp(self, now: float) -> None:
        """Send LLDP to the ports that have it enabled."""
        self.next_lldp = now + LLDP_SECONDS
        for port, names in self._announcements():
            self.deliver(port, lldp_frame(*names))

    def _announcements(self) -> list[tuple[Port, tuple[int, int, str | None, str | None]]]:
        """Return the ports with LLDP, each with the arguments of :func:`lldp_frame`."""
        return [(port, (port.leaf, port.socket, port.chassis, port.port)) for port in self.ports.values() if port.lldp]

    # commands

    def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command, and return the description of all cables. Raises Fault for a wrong command."""
        action = command.get("do")
        before = self._announcements()
        if action == "show":
            pass
        elif action == "swap":
            first, second = self._port(command, "port"), self._port(command, "other")
            (first.leaf, first.socket), (second.leaf, second.socket) = (
                (second.leaf, second.socket),
                (first.leaf, first.socket),
            )
        elif action == "cut":
            self._port(command, "port").cut = True
        elif action == "mtu":
            self._port(command, "port").mtu = _number(command, "bytes", 68, 65535, int)
        elif action == "loss":
            self._port(command, "port").loss = _number(command, "percent", 0, 100, float)
        elif action == "lldp":
            port = self._port(command, "port")
            port.lldp = bool(command.get("on"))
            port.chassis, port.port = command.get("chassis"), command.get("port_name")
            self.send_lldp(time.monotonic())
        elif action == "repair":
            for port in [self._port(command, "port")] if command.get("port") else list(self.ports.values()):
                self._repair(port)
        elif action == "restore":
            for state in command.get("ports", []):
                self._restore(self._port({"port": [state["node"], state["rail"]]}, "port"), state)
        else:
            raise Fault("no such command: %r" % action)
        if action != "show":
            self._replug()
            self._withdraw(before)
        return {"ports": [port.describe() for port in self.ports.values()]}

    def _withdraw(self, before: list[tuple[Port, tuple[int, int, str | None, str | None]]]) -> None:
        """Withdraw neighbours that are no longer announced, because links do not go down when cables are changed."""
        now = self._announcements()
        for port, names in before:
            if (port, names) not in now:
                self.deliver(port, lldp_frame(*names, seconds=0))

    def _port(self, command: dict[str, Any], key: str) -> Port:
        place = command.get(key)
        port = self.ports.get(tuple(place)) if isinstance(place, list) else None
        if port is None:
            raise Fault("no rail port %r" % (place,))
        return port

    def _repair(self, port: Port) -> None:
        """Repair a cable and plug it into its planned socket. A cable in that socket gets the socket of this one."""
        port.cut, port.mtu, port.loss = False, None, 0.0
        for other in self.ports.values():
            if (other.leaf, other.socket) == (port.rail, port.node):
                (other.leaf, other.socket), (port.leaf, port.socket) = (
                    (port.leaf, port.socket),
                    (other.leaf, other.socket),
                )

    @staticmethod
    def _restore(port: Port, state: dict[str, Any]) -> None:
        for name in ("leaf", "socket", "cut", "mtu", "loss", "lldp", "chassis", "port"):
            setattr(port, name, state[name])

    def _replug(self) -> None:
        """Rebuild the table of plugged ports, and delete learned addresses."""
        self.learned = {rail: {} for rail in range(1, self.rails + 1)}
        self.plugged = {rail: [] for rail in range(1, self.rails + 1)}
        for port in self.ports.values():
            self.plugged[port.leaf].append(port)

    # the loop

    def _watch(self, sock: socket.socket, events: int, handler: Callable[[int], None]) -> None:
        self.handlers[sock.fileno()] = handler
        self.poll.register(sock.fileno(), events)

    def _forget(self, sock: socket.socket) -> None:
        del self.handlers[sock.fileno()]
        self.poll.unregister(sock.fileno())

    def _listen(self) -> None:
        place = self.run / "leaf.control"
        place.unlink(missing_ok=True)
        self.control.bind(str(place))
        self.control.listen(16)
        self.control.setblocking(False)
        self._watch(self.control, select.EPOLLIN, self._accept)

    def _accept(self, _event: int) -> None:
        with contextlib.suppress(OSError):
            client, _address = self.control.accept()
            client.setblocking(False)
            pending = bytearray()
            self._watch(client, select.EPOLLIN, lambda _event: self._converse(client, pending))

    def _converse(self, client: socket.socket, pending: bytearray) -> None:
        try:
            data = client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        pending += data
        while b"\n" in pending:
            line, _, rest = bytes(pending).partition(b"\n")
            pending[:] = rest
            # An answer is a few kilobytes. A client that does not read it within a second does not get it.
            with contextlib.suppress(OSError):
                client.setblocking(True)
                client.settimeout(1.0)
                client.sendall(self._answer(line))
                client.setblocking(False)
        if not data:
            self._forget(client)
            client.close()

    def _answer(self, line: bytes) -> bytes:
        try:
            command = json.loads(line)
            if not isinstance(command, dict):
                raise Fault("a command is a JSON object")
            answer = {"ok": True, **self.execute(command)}
        except (ValueError, KeyError, TypeError, Fault) as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"

    def turn(self, patience: float) -> None:
        """Serve all ready sockets, after waiting at most ``patience`` seconds."""
        now = time.monotonic()
        if now >= self.next_lldp:
            self.send_lldp(now)
        for descriptor, event in self.poll.poll(max(0.0, min(patience, self.next_lldp - now))):
            handler = self.handlers.get(descriptor)
            if handler is not None:
                handler(event)

    def close(self) -> None:
        """Close all sockets."""
        for port in self.ports.values():
            port.inward.close()
            port.outward.close()
        self.control.close()
        self.poll.close()


def _number(command: dict[str, Any], key: str, low: float, high: float, kind: Callable[[Any], Any]) -> Any:
    value = kind(command[key])
    if not low <= value <= high:
        raise Fault("%s must be between %g and %g" % (key, low, high))
    return value


def main() -> None:
    """Run the leaf process until it is ended."""
    parser = argparse.ArgumentParser(prog="leaf", description="The leaf switches of a lab (started by 'lab up').")
    parser.add_argument("run", type=Path)
    parser.add_argument("nodes", type=int)
    parser.add_argument("rails", type=int)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))
    switch = Switch(arguments.run, arguments.nodes, arguments.rails)
    while True:
        switch.turn(LLDP_SECONDS)


if __name__ == "__main__":
    main()
