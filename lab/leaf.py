# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leaf switches of a lab's rails: one small process between the guests' NICs.

Each rail port is a pair of unix datagram sockets, one frame a datagram: the guest sends to ``nNrR.leaf``, the leaf
sends to ``nNrR.nic``. Between them is a cable, which can be plugged elsewhere, cut, narrowed, made lossy, or made to
hear LLDP. Commands come as JSON lines on ``leaf.control``; each gets one JSON line back.

The layout decides which leaves act as one switch. Ports of a guest on one switch form one aggregate if its bond uses
LACP. With planes, the two leaves of a rail act as one switch for aggregates only, as two planes do for a NIC that
spreads its packets over both; other ports use the network of their plane.
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
import zlib
from collections import deque
from pathlib import Path
from typing import Any, Callable, Union

from lab import lacp

FRAME_MAX = 65536
HEADER = 14
VLAN_TAG = 4
BATCH = 64  # frames that are read from one port before the next port
BACKLOG = 512  # frames that are stored for a slow guest; a queue of a unix datagram socket has ten
LLDP_SECONDS = 30.0
LLDP_GROUP = bytes.fromhex("0180c200000e")
BRIDGE_GROUP = bytes.fromhex("0180c20000")  # bridges do not forward 01:80:c2:00:00:0x (802.1D)
VLAN_TYPES = (b"\x81\x00", b"\x88\xa8")
LACP_SECONDS = 0.5  # between two looks at the state of LACP, while a guest speaks it
# Which leaves act as one switch: each alone; pairs (leaf-1 and leaf-2, leaf-3 and leaf-4, ...); all; pairs for
# aggregates, and each alone for other ports.
RAILS, MLAG, FLAT, PLANES = LAYOUTS = ("rails", "mlag", "flat", "planes")

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
        # VLANs that the leaf's end of the cable does not pass
        self.vlans: list[int] = []
        self.lacp = lacp.Lacp()
        # The ports of its link, with this one. Empty: the port carries no frames yet.
        self.lag: list[Port] = [self]
        # The switch, and the leaf whose ports alone have the same network; 0: all ports of the switch.
        self.network = (rail, 0)
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

    def admits(self, frame: Frame) -> bool:
        """Return whether the cable passes a frame. With loss, the result is random."""
        if self.cut or (self.mtu is not None and len(frame) > self.mtu + HEADER + VLAN_TAG):
            return False
        if self.vlans and vlan_of(frame) in self.vlans:
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
            "vlans": list(self.vlans),
            "lacp": not self.lacp.silent,
            "aggregate": self.lacp.bundle is not None,
            "received": self.received,
            "sent": self.sent,
            "dropped": self.dropped,
        }


def vlan_of(frame: Frame) -> int | None:
    """Return the ID of a frame's outer VLAN tag; None without one."""
    if len(frame) < HEADER + VLAN_TAG or bytes(frame[12:14]) not in VLAN_TYPES:
        return None
    return int.from_bytes(frame[14:16], "big") & 0xFFF


def switches(layout: str, rails: int, leaves: int) -> dict[int, int]:
    """Return leaf -> the first leaf of its switch. Each leaf behind the rails, such as the pod network's, is a switch.

    :raises Fault: for an unknown layout.
    """
    if layout not in LAYOUTS:
        raise Fault("no such layout: %r" % (layout,))
    first: dict[str, Callable[[int], int]] = {
        RAILS: lambda leaf: leaf,
        **dict.fromkeys((MLAG, PLANES), lambda leaf: leaf - (leaf - 1) % 2),
        FLAT: lambda leaf: 1,
    }
    return {leaf: first[layout](leaf) if leaf <= rails else leaf for leaf in range(1, leaves + 1)}


def _bound(path: Path) -> socket.socket:
    """Return a datagram socket at ``path``. A socket of an earlier process is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    path.unlink(missing_ok=True)
    sock.bind(str(path))
    return sock


def own_address(leaf: int, place: int) -> bytes:
    """Return the MAC address of a leaf's socket ``place``; 0: that of the leaf itself."""
    return struct.pack("!BBHBB", 0x02, 0x1E, 0xAF00, leaf & 0xFF, place & 0xFF)


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
    return LLDP_GROUP + own_address(leaf, place) + b"\x88\xcc" + payload.ljust(46, b"\0")


class Switch:
    """All leaves of a lab.

    :param rails: the number of leaves.
    :param layout: one of :data:`LAYOUTS`, of the first ``members`` leaves; of all by default.

    ``links``: network -> its links, each the ports of one cable or of one aggregate. ``learned``: network -> source
    address -> port. :attr:`Port.network` names the network of a port.
    """

    def __init__(self, run: Path, nodes: int, rails: int, layout: str = RAILS, members: int | None = None) -> None:
        self.run = run
        self.rails = rails
        self.members = rails if members is None else members
        self.layout = layout
        self.switches = switches(layout, self.members, rails)
        self.ports = {
            (node, rail): Port(run, node, rail) for node in range(1, nodes + 1) for rail in range(1, rails + 1)
        }
        self.learned: dict[tuple[int, int], dict[bytes, Port]] = {}
        self.links: dict[tuple[int, int], list[list[Port]]] = {}
        self.next_lldp = 0.0
        self.next_lacp = float("inf")
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
        if not source.admits(frame):
            source.dropped += 1
            return
        target, sender = bytes(frame[:6]), bytes(frame[6:12])
        if target[:5] == BRIDGE_GROUP and target[5] < 0x10:
            if target == lacp.GROUP:
                self._hear_lacp(source, bytes(frame))
            return
        if not source.lag:
            source.dropped += 1
            return
        learned = self.learned[source.network]
        if not sender[0] & 1:
            learned[sender] = source
        known = learned.get(target)
        if known is not None:
            if known.lag is not source.lag:
                self.deliver(_member(known.lag, frame), frame)
            return
        for link in self.links[source.network]:
            if link is not source.lag:
                self.deliver(_member(link, frame), frame)

    def deliver(self, port: Port, frame: Frame) -> None:
        """Send a frame to a port, at once or when the guest's queue is not full."""
        if not port.admits(frame):
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
        return [
            (port, (port.leaf, port.socket, port.chassis or self._name(port.leaf), port.port))
            for port in self.ports.values()
            if port.lldp
        ]

    def _name(self, leaf: int) -> str | None:
        """Return the name of a leaf with planes, by rail and plane; None: :func:`lldp_frame` names it."""
        if self.layout != PLANES or leaf > self.members:
            return None
        return "leaf-%d-%d" % ((leaf + 1) // 2, (leaf + 1) % 2 + 1)

    # LACP

    def _hear_lacp(self, port: Port, frame: bytes) -> None:
        pair = lacp.read(frame)
        if pair is None or port.lacp.silent:
            return
        now = time.monotonic()
        before = port.lacp.bundle, port.lacp.partner is None
        if port.lacp.hear(pair, now):
            self._send_lacp(port, now)
        if before != (port.lacp.bundle, False):
            self._bundle(self.switches[port.leaf])
        self.next_lacp = min(self.next_lacp, now + LACP_SECONDS)

    def _send_lacp(self, port: Port, now: float) -> None:
        self.deliver(port, port.lacp.send(own_address(port.leaf, port.socket), now))

    def keep_lacp(self, now: float) -> None:
        """Send the LACPDUs that are due, and end aggregates whose guests send none any more."""
        for port in self.ports.values():
            if port.lacp.expire(now):
                self._bundle(self.switches[port.leaf])
            elif port.lacp.due(now):
                self._send_lacp(port, now)
        speaks = any(port.lacp.partner for port in self.ports.values())
        self.next_lacp = now + LACP_SECONDS if speaks else float("inf")

    def _bundle(self, switch: int) -> None:
        """Rebuild the links of a switch, and forget where addresses are."""
        bundles: dict[Any, list[Port]] = {}
        for network in [network for network in self.links if network[0] == switch]:
            del self.links[network], self.learned[network]
        for port in self.ports.values():
            if self.switches[port.leaf] != switch:
                continue
            alone = self.layout == PLANES and port.lacp.partner is None
            port.network = (switch, port.leaf if alone else 0)
            links = self.links.setdefault(port.network, [])
            self.learned.setdefault(port.network, {})
            # a port whose guest speaks LACP carries frames only in an aggregate
            key = port.lacp.bundle or (port if port.lacp.partner is None else None)
            if key is None:
                port.lag = []
            elif key in bundles:
                port.lag = bundles[key]
                port.lag.append(port)
            else:
                port.lag = bundles[key] = [port]
                links.append(port.lag)

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
        elif action == "lacp":
            self._port(command, "port").lacp.silent = not command.get("on")
        elif action == "vlan":
            port, number = self._port(command, "port"), _number(command, "id", 1, 4094, int)
            port.vlans = sorted({*port.vlans, number} - ({number} if command.get("on") else set()))
        elif action == "layout":
            self.switches = switches(str(command.get("layout")), self.members, self.rails)
            self.layout = str(command["layout"])
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
        port.cut, port.mtu, port.loss, port.vlans, port.lacp.silent = False, None, 0.0, [], False
        for other in self.ports.values():
            if (other.leaf, other.socket) == (port.rail, port.node):
                (other.leaf, other.socket), (port.leaf, port.socket) = (
                    (port.leaf, port.socket),
                    (other.leaf, other.socket),
                )

    @staticmethod
    def _restore(port: Port, state: dict[str, Any]) -> None:
        for name in ("leaf", "socket", "cut", "mtu", "loss", "lldp", "chassis", "port", "vlans"):
            setattr(port, name, state[name])
        port.lacp.silent = not state["lacp"]

    def _replug(self) -> None:
        """Rebuild the tables of links and of learned addresses after a change of cables."""
        self.links, self.learned = {}, {}
        for port in self.ports.values():
            number = port.leaf * 256 + port.socket
            port.lacp.plug(own_address(self.switches[port.leaf], 0), port.socket, number)
            if port.cut or port.lacp.silent:
                port.lacp.forget()
        for switch in set(self.switches.values()):
            self._bundle(switch)

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
        if now >= self.next_lacp:
            self.keep_lacp(now)
        due = min(self.next_lldp, self.next_lacp)
        for descriptor, event in self.poll.poll(max(0.0, min(patience, due - now))):
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


def _member(link: list[Port], frame: Frame) -> Port:
    """Return the port of a link that a frame takes. Frames between the same two addresses take the same one."""
    return link[0] if len(link) == 1 else link[zlib.crc32(frame[:12]) % len(link)]


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
    parser.add_argument("rails", type=int, help="the number of leaves")
    parser.add_argument("--layout", choices=LAYOUTS, default=RAILS, help="which leaves act as one switch")
    parser.add_argument("--members", type=int, help="the number of leaves that the layout is about")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))
    switch = Switch(arguments.run, arguments.nodes, arguments.rails, arguments.layout, arguments.members)
    while True:
        switch.turn(LLDP_SECONDS)


if __name__ == "__main__":
    main()
