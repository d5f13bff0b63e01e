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
BATCH = 64  # frames taken from one port before the others have their turn
BACKLOG = 512  # frames kept for a guest that is slow to read; a unix datagram queue itself holds ten
LLDP_SECONDS = 30.0
LLDP_GROUP = bytes.fromhex("0180c200000e")
BRIDGE_GROUP = bytes.fromhex("0180c20000")  # 01:80:c2:00:00:0x ends at the first bridge, as 802.1D has it

Frame = Union[bytes, memoryview]


class Fault(Exception):
    """A command that cannot be carried out."""


class Port:
    """The far end of one rail port's cable, and what is wrong with that cable."""

    def __init__(self, run: Path, node: int, rail: int) -> None:
        self.node = node
        self.rail = rail
        # Where the cable is plugged: the leaf of a rail, and the socket there (a leaf's socket N is meant for node N).
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
        """Whether a frame of this size gets through the cable, this time."""
        if self.cut or (self.mtu is not None and size > self.mtu + HEADER + VLAN_TAG):
            return False
        return not (self.loss and random.random() * 100 < self.loss)

    def transmit(self, frame: Frame) -> bool:
        """Hand one frame to the guest's NIC; False when its queue is full. A guest that is not there loses it."""
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
        """Find the guest's socket, which is a new one after each start of the guest."""
        with contextlib.suppress(OSError):
            self.outward.connect(self.nic)
            return True
        return False

    def describe(self) -> dict[str, Any]:
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
    """A datagram socket at ``path``, in place of any that an earlier process left there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    path.unlink(missing_ok=True)
    sock.bind(str(path))
    return sock


def lldp_frame(
    leaf: int, place: int, chassis: str | None = None, port: str | None = None, seconds: int = int(4 * LLDP_SECONDS)
) -> bytes:
    """The LLDP frame that a leaf sends out of its socket ``place``; valid for so many seconds, 0 to be forgotten."""
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
    """All leaves of a lab: who is plugged where, and which address was last heard from which port."""

    def __init__(self, run: Path, nodes: int, rails: int) -> None:
        self.run = run
        self.rails = rails
        self.ports = {
            (node, rail): Port(run, node, rail) for node in range(1, nodes + 1) for rail in range(1, rails + 1)
        }
        self.heard: dict[int, dict[bytes, Port]] = {}
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
        """Take one frame from a port and put it where a learning bridge would."""
        source.received += 1
        if not source.admits(len(frame)):
            source.dropped += 1
            return
        target, sender = bytes(frame[:6]), bytes(frame[6:12])
        heard = self.heard[source.leaf]
        if not sender[0] & 1:
            heard[sender] = source
        if target[:5] == BRIDGE_GROUP and target[5] < 0x10:
            return
        known = heard.get(target)
        if known is not None:
            if known is not source:
                self.deliver(known, frame)
            return
        for port in self.plugged[source.leaf]:
            if port is not source:
                self.deliver(port, frame)

    def deliver(self, port: Port, frame: Frame) -> None:
        """Send one frame down a cable, at once or when the guest has room for it."""
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
        for _turn in range(BATCH):
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

    def speak(self, now: float) -> None:
        """Send LLDP to the ports that are to hear it."""
        self.next_lldp = now + LLDP_SECONDS
        for port, names in self._speaking():
            self.deliver(port, lldp_frame(*names))

    def _speaking(self) -> list[tuple[Port, tuple[int, int, str | None, str | None]]]:
        """The ports that hear LLDP, each with what it hears."""
        return [(port, (port.leaf, port.socket, port.chassis, port.port)) for port in self.ports.values() if port.lldp]

    # commands

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command and describe the cables after it."""
        action = command.get("do")
        before = self._speaking()
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
            self.speak(time.monotonic())
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
            self._unsay(before)
        return {"ports": [port.describe() for port in self.ports.values()]}

    def _unsay(self, before: list[tuple[Port, tuple[int, int, str | None, str | None]]]) -> None:
        """Withdraw what is no longer announced, as a leaf does that shuts a port down: no link goes down here."""
        now = self._speaking()
        for each in before:
            if each not in now:
                self.deliver(each[0], lldp_frame(*each[1], seconds=0))

    def _port(self, command: dict[str, Any], key: str) -> Port:
        place = command.get(key)
        port = self.ports.get(tuple(place)) if isinstance(place, list) else None
        if port is None:
            raise Fault("no rail port %r" % (place,))
        return port

    def _repair(self, port: Port) -> None:
        """Repair a cable and plug it where it belongs; a cable that is plugged there gets the place of this one."""
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
        """Follow the cables; a leaf forgets what it heard when they change."""
        self.heard = {rail: {} for rail in range(1, self.rails + 1)}
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
            # An answer is a few kilobytes and its reader waits for it; one that does not read it, loses it.
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
            answer = {"ok": True, **self.obey(command)}
        except (ValueError, KeyError, TypeError, Fault) as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"

    def turn(self, patience: float) -> None:
        """Serve what is ready, waiting at most ``patience`` seconds for it."""
        now = time.monotonic()
        if now >= self.next_lldp:
            self.speak(now)
        for descriptor, event in self.poll.poll(max(0.0, min(patience, self.next_lldp - now))):
            handler = self.handlers.get(descriptor)
            if handler is not None:
                handler(event)

    def close(self) -> None:
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
