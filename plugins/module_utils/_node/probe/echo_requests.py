# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ICMP echo requests with Don't Fragment, sent to many targets in parallel."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.icmp import (
    IPV4,
    IPV6,
    IPV6_DONTFRAG,
    PMTUDISC_PROBE,
    checksum,
    payload_size,
)

Options = t.Mapping[str, t.Any]

Result = t.Dict[str, t.Any]

ICMP6_FILTER = 1

# Filter of ICMPv6 types, a bit per type that a socket does not receive (RFC 3542): all except echo replies.
_ONLY_ECHO_REPLIES = struct.pack(
    "=8I", *(0xFFFFFFFF & ~((1 << IPV6.reply % 32) * (word == IPV6.reply // 32)) for word in range(8))
)


def echo_request(identifier: int, sequence: int, size: int, kind: int = IPV4.request) -> bytes:
    """Return an ICMP echo request with ``size`` bytes of payload. For ICMPv6, the kernel computes the checksum."""
    payload = bytes(size)
    head = struct.pack("!BBHHH", kind, 0, 0, identifier, sequence)
    return struct.pack("!BBHHH", kind, 0, checksum(head + payload), identifier, sequence) + payload


class _Ping:
    """The socket and counters of one target. ``due``: sequence number of a request without answer -> its time."""

    def __init__(self, target: Options, identifier: int) -> None:
        self.target = target
        self.identifier = identifier
        self.sent = 0
        self.rtts: list[float] = []
        self.due: dict[int, float] = {}
        self.error = ""
        self.ip = IPV6 if ":" in str(target["address"]) else IPV4
        self.sock = socket.socket(self.ip.family, socket.SOCK_RAW, self.ip.protocol)
        try:
            self._configure(str(target["netdev"]), str(target["source"]))
        except OSError:
            self.sock.close()
            raise

    def _configure(self, netdev: str, source: str) -> None:
        self.sock.setblocking(False)
        self.sock.setsockopt(self.ip.level, self.ip.discover, PMTUDISC_PROBE)
        self.sock.setsockopt(self.ip.level, self.ip.receive_errors, 1)
        if self.ip is IPV6:
            # otherwise the sender fragments packets that are larger than the link's MTU
            self.sock.setsockopt(self.ip.level, IPV6_DONTFRAG, 1)
            self.sock.setsockopt(self.ip.protocol, ICMP6_FILTER, _ONLY_ECHO_REPLIES)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode() + b"\0")
        self.sock.bind((source, 0))

    def send(self) -> None:
        self.sent += 1
        self.due[self.sent] = time.monotonic()
        size = payload_size(int(self.target["mtu"]), self.ip.headers)
        try:
            request = echo_request(self.identifier, self.sent, size, self.ip.request)
            self.sock.sendto(request, (str(self.target["address"]), 0))
        except OSError as error:
            self._keep_error(error)

    def receive(self) -> None:
        """Read one packet, and count it if it answers a request."""
        try:
            packet = self.sock.recv(65535)
        except OSError as error:
            self._keep_error(error)
            return
        # a socket of IPv4 receives the IP header too
        header = 0 if self.ip is IPV6 else (packet[0] & 0x0F) * 4
        if len(packet) < header + 8:
            return
        kind, _code, _sum, identifier, sequence = struct.unpack_from("!BBHHH", packet, header)
        if kind == self.ip.reply and identifier == self.identifier and sequence in self.due:
            self.rtts.append((time.monotonic() - self.due.pop(sequence)) * 1000)

    def result(self) -> Result:
        rtt = round(min(self.rtts), 3) if self.rtts else None
        return {"sent": self.sent, "received": len(self.rtts), "rtt_ms": rtt, "error": self.error}

    def _keep_error(self, error: OSError) -> None:
        if not isinstance(error, BlockingIOError):
            self.error = os.strerror(error.errno or 0)
            # poll() returns at once while the error queue is not empty
            with contextlib.suppress(OSError):
                self.sock.recvmsg(512, 512, socket.MSG_ERRQUEUE)


def reach(targets: t.Sequence[Options], count: int, timeout: float) -> list[Result]:
    """Send ``count`` full-size echo requests to every target, in parallel.

    :param targets: each with ``netdev``, ``source`` and ``address`` (both IPv4, or both IPv6) and ``mtu`` in bytes.
    :param timeout: seconds to wait for the answers to one round of requests before the next. Targets that answered a
        request get the time of all rounds again at the end, because a busy node answers late.
    :return: for each target ``sent``, ``received``, ``rtt_ms`` (the least) and ``error`` (the kernel's, or "").
    :raises RailyardError: if the process may not open raw sockets.
    """
    pings: list[_Ping] = []
    # of targets without a socket, by index
    results: dict[int, Result] = {}
    try:
        for number, target in enumerate(targets):
            try:
                pings.append(_Ping(target, (os.getpid() + number) & 0xFFFF))
            except OSError as error:
                message = "no socket from %s on %s: %s" % (target["source"], target["netdev"], error.strerror)
                if isinstance(error, PermissionError):
                    raise RailyardError(message, str(target["rail"]), "run the task with become") from None
                # the port does not exist or does not have the address; the other rails are still probed
                results[number] = {"sent": count, "received": 0, "rtt_ms": None, "error": message}
        poller = select.poll()
        by_fd = {ping.sock.fileno(): ping for ping in pings}
        for fd in by_fd:
            poller.register(fd, select.POLLIN)
        for _round in range(count):
            for ping in pings:
                ping.send()
            for fd in ready(poller, timeout, lambda: any(ping.due for ping in pings)):
                by_fd[fd].receive()
        answering = [ping for ping in pings if ping.rtts]
        for fd in ready(poller, count * timeout, lambda: any(ping.due for ping in answering)):
            by_fd[fd].receive()
    finally:
        for ping in pings:
            ping.sock.close()
    remaining = iter(pings)
    return [results.get(number) or next(remaining).result() for number in range(len(targets))]
