# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The socket from which a rail sends echo requests to its partners, and which receives only their replies.

The kernel of the partner replies, so that the partner needs no program. The kernel of this node records when a reply
arrived, so that a busy node does not make the round trip longer. A socket filter drops in the kernel what is not a
reply of a planned partner to a request of this socket: a flood of other packets does not wake this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import secrets
import socket
import struct
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.icmp import (
    IPV4,
    IPV6,
    IPV6_DONTFRAG,
    PMTUDISC_PROBE,
    checksum,
    payload_size,
)

# From linux/socket.h, linux/in.h and linux/in6.h.
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _SO_RXQ_OVFL = 26, 33, 35, 40
# Bytes of unread replies that the kernel keeps: those of a burst of several seconds.
_BUFFER = 1 << 20
_IP_RECVTOS, _IPV6_RECVTCLASS = 13, 66
# The bits of the traffic class that routers set to 3 under congestion, and the value that allows them to (RFC 3168).
_ECN, ECT0, _CE = 3, 2, 3
# Bytes of the payload by which a reply is recognized, and of the payload of a small request: with an Ethernet and an
# IPv4 header the smallest frame, of 64 bytes.
_TOKEN = 8
_SMALL = 18
# Bytes of a reply that the kernel keeps: the headers of IPv4 with all options, of ICMP, and the token.
_KEPT = 60 + 8 + _TOKEN
# Replies that one call reads at most.
_READ = 512

# Errors of sending that say nothing about the path: the queue is full, or the interface has a smaller MTU than planned,
# which the health service reports itself.
_NOT_SENT = (errno.EAGAIN, errno.ENOBUFS, errno.EMSGSIZE, errno.EINTR)
# Instructions of classic BPF (linux/bpf_common.h).
_LOAD_WORD, _LOAD_WORD_X, _LOAD_HALF_X = 0x20, 0x40, 0x48
_LOAD_HEADER_X, _SET_X = 0xB1, 0x01
_EQUAL, _RETURN = 0x15, 0x06
# An echo request or reply: type, code, checksum, identifier, sequence number. A time: seconds and nanoseconds.
_ECHO, _TIME = struct.Struct("!BBHHH"), struct.Struct("=qq")
# From here on, offsets count from the network header (SKF_NET_OFF).
_NETWORK = 0xFFF00000

_Instruction = t.Tuple[int, int, int, int]


class Reply(t.NamedTuple):
    """A reply. ``partner``: its number in the list of partners; ``sequence``: the sequence number of the request;
    ``arrived``: nanoseconds since 1970 at which the kernel received it; ``marked``: a router marked congestion.
    """

    partner: int
    sequence: int
    arrived: int
    marked: bool


class ProbeSocket:
    """A raw socket on one rail.

    :param netdev: the interface of the rail, from which packets leave and on which replies arrive.
    :param source: the address of the rail on this node, without prefix length.
    :param partners: addresses of partners, of the same version of IP.
    :param mtu: the planned MTU in bytes, the size of a full-size request.
    :param traffic_class: of the packets, 0 to 252: six bits of DSCP, and two zero bits.
    :raises OSError: if the kernel refuses the socket, the interface or the address.
    """

    def __init__(self, netdev: str, source: str, partners: t.Sequence[str], mtu: int, traffic_class: int = 0) -> None:
        self._ip = IPV6 if ":" in source else IPV4
        family = self._ip.family
        # as the kernel writes them
        self._addresses = [socket.inet_ntop(family, socket.inet_pton(family, address)) for address in partners]
        self._places = [(address, 0) for address in self._addresses]
        self._numbers = {address: number for number, address in enumerate(self._addresses)}
        self._identifier = secrets.randbelow(0x10000)
        self._token = secrets.token_bytes(_TOKEN)
        small = max(_SMALL - (self._ip.headers - IPV4.headers), _TOKEN)
        self._payloads = [self._token + bytes(size - _TOKEN) for size in (small, payload_size(mtu, self._ip.headers))]
        # the checksum of a request without its sequence number
        self._sums = [checksum(self._request(payload, 0, 0)) for payload in self._payloads]
        # unread replies that the kernel has dropped
        self.dropped = 0
        self._index = socket.if_nametoindex(netdev)
        self._netdev = netdev
        # read every second; the kernel returns ENODEV after the removal of the interface
        self._changes: io.FileIO | None = None
        with contextlib.suppress(OSError):
            self._changes = io.FileIO("/sys/class/net/%s/carrier_changes" % netdev)
        self._socket = socket.socket(self._ip.family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, self._ip.protocol)
        try:
            self._configure(netdev, source, traffic_class)
        except BaseException:
            self.close()
            raise

    def _configure(self, netdev: str, source: str, traffic_class: int) -> None:
        sock, level, marked = self._socket, self._ip.level, traffic_class | ECT0
        _attach(sock, _filter(self._ip is IPV6, self._identifier, self._token, self._addresses))
        sock.setblocking(False)
        sock.setsockopt(level, self._ip.discover, PMTUDISC_PROBE)
        if self._ip is IPV6:
            sock.setsockopt(level, IPV6_DONTFRAG, 1)
            sock.setsockopt(level, socket.IPV6_TCLASS, marked)
            sock.setsockopt(level, _IPV6_RECVTCLASS, 1)
        else:
            sock.setsockopt(level, socket.IP_TOS, marked)
            sock.setsockopt(level, _IP_RECVTOS, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode() + b"\0")
        sock.bind((source, 0))

    def close(self) -> None:
        self._socket.close()
        if self._changes:
            self._changes.close()

    def stale(self) -> bool:
        """Return whether the interface was removed, or another has its name now."""
        try:
            return socket.if_nametoindex(self._netdev) != self._index
        except OSError:
            return True

    def carrier_changes(self) -> int | None:
        """Return how often the link of the interface was lost or came back; None if the kernel does not show it."""
        try:
            return int(os.pread(self._changes.fileno(), 32, 0)) if self._changes else None
        except (OSError, ValueError):
            return None

    def send(self, partner: int, sequence: int, full: bool) -> int | None:
        """Send a request, and return the time: nanoseconds since 1970. None if the kernel did not accept the packet,
        which has nothing to do with the path.

        :param partner: the number of the partner.
        :param full: whether the packet has the planned MTU; otherwise it is as small as possible.
        :raises OSError: if the kernel has no path for the packet.
        """
        request = self._request(self._payloads[full], sequence, _with(self._sums[full], sequence))
        now = time.time_ns()
        try:
            self._socket.sendto(request, self._places[partner])
        except OSError as error:
            if error.errno in _NOT_SENT:
                return None
            raise
        return now

    def receive(self) -> list[Reply]:
        """Return the replies that arrived, at most some hundreds at a time. Never waits."""
        replies: list[Reply] = []
        for _packet in range(_READ):
            try:
                data, rows, _flags, sender = self._socket.recvmsg(_KEPT, 256)
            except OSError:
                break
            reply = self._reply(data, rows, sender[0])
            if reply:
                replies.append(reply)
        return replies

    def _request(self, payload: bytes, sequence: int, total: int) -> bytes:
        return _ECHO.pack(self._ip.request, 0, total, self._identifier, sequence) + payload

    def _reply(self, data: bytes, rows: t.Iterable[tuple[int, int, bytes]], sender: str) -> Reply | None:
        """Return the reply in a packet; None if no partner sent it. Packets from before the filter are here."""
        start = 0 if self._ip is IPV6 else (data[0] & 0x0F) * 4 if data else 0
        partner = self._numbers.get(sender)
        if partner is None:
            # the zone of a link-local address follows it
            partner = self._numbers.get(sender.partition("%")[0])
        end = start + _ECHO.size + _TOKEN
        if partner is None or len(data) < end or data[start + _ECHO.size : end] != self._token:
            return None
        kind, code, _sum, identifier, sequence = _ECHO.unpack_from(data, start)
        if (kind, code, identifier) != (self._ip.reply, 0, self._identifier):
            return None
        arrived, traffic_class = 0, 0
        for level, name, value in rows:
            if name == _SO_TIMESTAMPNS and level == socket.SOL_SOCKET and len(value) == 16:
                seconds, nanoseconds = _TIME.unpack(value)
                arrived = seconds * 1000000000 + nanoseconds
            elif name == _SO_RXQ_OVFL and level == socket.SOL_SOCKET:
                # counts from the start of the socket
                self.dropped = int.from_bytes(value, _ORDER)
            elif level == self._ip.level and name in (socket.IP_TOS, socket.IPV6_TCLASS) and value:
                # IPv4: one byte; IPv6: an integer in the order of this machine
                traffic_class = value[0] if len(value) == 1 else int.from_bytes(value, _ORDER)
        return Reply(partner, sequence, arrived or time.time_ns(), traffic_class & _ECN == _CE)


_ORDER: t.Any = "little" if struct.pack("=H", 1) == b"\1\0" else "big"


def _with(total: int, sequence: int) -> int:
    """Return the checksum of a request, from that without the sequence number (RFC 1624)."""
    added = (~total & 0xFFFF) + sequence
    return ~((added & 0xFFFF) + (added >> 16)) & 0xFFFF


def _filter(version6: bool, identifier: int, token: bytes, partners: t.Sequence[str]) -> list[_Instruction]:
    """Return a filter for echo replies with this identifier and token from these addresses."""
    reply = (IPV6 if version6 else IPV4).reply
    first, second = struct.unpack("!II", token)
    # the header of ICMP starts at X: packets start with the IPv4 header, or with the header of ICMPv6
    start: _Instruction = (_SET_X, 0, 0, 0) if version6 else (_LOAD_HEADER_X, 0, 0, 0)
    rows: list[_Instruction | None] = [start]
    for load, offset, value in (
        (_LOAD_HALF_X, 0, reply << 8),
        (_LOAD_HALF_X, 4, identifier),
        (_LOAD_WORD_X, 8, first),
        (_LOAD_WORD_X, 12, second),
    ):
        # skips the next instruction, which drops the packet
        rows += [(load, 0, 0, offset), (_EQUAL, 1, 0, value), (_RETURN, 0, 0, 0)]
    accept: _Instruction = (_RETURN, 0, 0, _KEPT)
    for partner in partners:
        words = struct.unpack(
            "!4I" if version6 else "!I", socket.inet_pton(IPV6.family if version6 else IPV4.family, partner)
        )
        source = 8 if version6 else 12
        for number, word in enumerate(words):
            # after a word that differs: over the rest of this address and its return
            rest = 2 * (len(words) - number - 1) + 1
            rows += [(_LOAD_WORD, 0, 0, _NETWORK + source + 4 * number), (_EQUAL, 0, rest, word)]
        rows.append(accept)
    return [row for row in rows if row] + [(_RETURN, 0, 0, 0)]


def _attach(sock: socket.socket, rows: t.Sequence[_Instruction]) -> None:
    """Let the kernel drop what the filter does not accept."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
    # struct sock_fprog
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(rows), ctypes.addressof(program)))
