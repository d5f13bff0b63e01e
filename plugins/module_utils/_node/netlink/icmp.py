# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Echo messages of ICMP and ICMPv6: numbers, checksum and sizes."""

from __future__ import annotations

import socket
import struct
import typing as t

# From linux/in.h and linux/in6.h.
PMTUDISC_PROBE = 3
IPV6_DONTFRAG = 62


class IpVersion(t.NamedTuple):
    """A version of IP: socket constants, types of echo messages, and the bytes of the IP and ICMP headers together."""

    family: int
    protocol: int
    level: int
    discover: int
    receive_errors: int
    request: int
    reply: int
    headers: int


IPV4 = IpVersion(socket.AF_INET, socket.IPPROTO_ICMP, socket.IPPROTO_IP, 10, 11, 8, 0, 28)

IPV6 = IpVersion(socket.AF_INET6, socket.IPPROTO_ICMPV6, socket.IPPROTO_IPV6, 23, 25, 128, 129, 48)


def payload_size(mtu: int, headers: int = IPV4.headers) -> int:
    """Return the bytes of echo payload in a packet of exactly ``mtu`` bytes."""
    return mtu - headers


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
