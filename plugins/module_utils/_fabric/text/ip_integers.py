# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""IP addresses, networks and ranges as integers: at thousands of nodes, objects for each address cost too much.

``bits`` is the length of a family's addresses: 32 (IPv4) or 128 (IPv6). One code serves both.
"""

from __future__ import annotations

import bisect
import ipaddress
import re
import socket
import typing as t
from dataclasses import dataclass

IPV4 = 32
IPV6 = 128

_OCTETS = re.compile(r"(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\Z")
_SHORT = re.compile(r"(?:\.(?:0|[1-9][0-9]{0,2})){1,3}\Z")
_SHORT6 = re.compile(r":(?::[0-9A-Fa-f]{1,4}){1,7}\Z")
_OFFSET = re.compile(r"\+(0|[1-9][0-9]{0,38})\Z")
_PREFIX = re.compile(r"(?:0|[1-9][0-9]{0,2})\Z")


@dataclass(frozen=True)
class Range:
    """``first`` to ``last``, both in it."""

    first: int
    last: int
    bits: int = IPV4

    def __str__(self) -> str:
        first = show(self.first, self.bits)
        return "%s-%s" % (first, show(self.last, self.bits)) if self.first != self.last else first

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last

    def overlap(self, other: Range | Network) -> Range | None:
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Range(first, last, self.bits) if first <= last and self.bits == other.bits else None


@dataclass(frozen=True)
class Network:
    """``first`` is the network's address, ``last`` its last: with IPv4, the broadcast address."""

    first: int
    last: int
    prefix: int
    bits: int = IPV4

    def __str__(self) -> str:
        return "%s/%d" % (show(self.first, self.bits), self.prefix)

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last


def bits_of(text: str) -> int:
    """The family that a text of an address, a network or a range is meant for."""
    return IPV6 if ":" in text else IPV4


def show(address: int, bits: int = IPV4) -> str:
    """The address as text; IPv6 as RFC 5952 writes it."""
    if bits == IPV4:
        return "%d.%d.%d.%d" % (address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255)
    if address >> 32 in (0, 0xFFFF):
        # The C library writes these with an IPv4 address at their end.
        return str(ipaddress.IPv6Address(address))
    # Eight times as fast as ipaddress and netaddr are.
    return socket.inet_ntop(socket.AF_INET6, address.to_bytes(16, "big"))


def parse_address(text: str, within: Network | None = None, bits: int = IPV4) -> int | None:
    """``172.16.11.254``, or ``.254`` for the address with these last octets in ``within``; None for anything else.

    In an IPv6 network, ``::fe`` is the address with these last groups. In both, ``+10`` is the tenth address
    after the network's own. The family is that of ``within``, and without it that of ``bits``.
    """
    offset = _OFFSET.match(text) if within else None
    if within and offset:
        address = within.first + int(offset.group(1))
        return address if address < 1 << within.bits else None
    if (within.bits if within else bits) == IPV6:
        return _parse6(text, within)
    if within and _SHORT.match(text):
        octets = [int(octet) for octet in text[1:].split(".")]
        return None if max(octets) > 255 else _replace(within, octets, 8)
    found = _OCTETS.match(text)
    if not found:
        return None
    address = 0
    for octet in found.groups():
        if int(octet) > 255:
            return None
        address = address << 8 | int(octet)
    return address


def is_offset(text: str) -> bool:
    """Whether an address or a range is written as offsets from a network's address, which both families have."""
    return text.lstrip().startswith("+")


def link_local(address: int, bits: int) -> bool:
    """Whether an address is a link's own, as that of most IPv6 routers: the same on every link, whatever its subnet."""
    return bits == IPV6 and address >> 64 == 0xFE80 << 48 and address & ((1 << 64) - 1) != 0


def _parse6(text: str, within: Network | None) -> int | None:
    if within and _SHORT6.match(text):
        return _replace(within, [int(group, 16) for group in text[2:].split(":")], 16)
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET6, text), "big")
    except (OSError, ValueError):
        return None


def _replace(within: Network, parts: t.Sequence[int], width: int) -> int:
    """The network's first address with these last parts, each ``width`` bits wide."""
    size = width * len(parts)
    return (within.first >> size << size) + sum(part << width * place for place, part in enumerate(reversed(parts)))


def parse_range(text: str, within: Network | None = None, bits: int = IPV4) -> tuple[int, int] | None:
    """``a-b`` or one address, each as :func:`parse_address` takes it. The order is not looked at."""
    first, dash, last = text.partition("-")
    start = parse_address(first.strip(), within, bits)
    end = parse_address(last.strip(), within, bits) if dash else start
    return None if start is None or end is None else (start, end)


def parse_network(text: str, bits: int = IPV4) -> tuple[int, int] | None:
    """``172.16.11.0/24`` as address and prefix length."""
    address, _slash, prefix = text.partition("/")
    number = parse_address(address, bits=bits)
    if number is None or not _PREFIX.match(prefix) or int(prefix) > bits:
        return None
    return number, int(prefix)


def network(address: int, prefix: int, bits: int = IPV4) -> Network:
    """The network of that prefix length that holds ``address``."""
    size = 1 << bits - prefix
    first = address & ~(size - 1)
    return Network(first, first + size - 1, prefix, bits)


def cut(supernet: Network, prefix: int, number: int) -> Network | None:
    """The ``number``-th network (from 1) of that prefix length in ``supernet``; None where there are not so many."""
    if not supernet.prefix <= prefix <= supernet.bits or not 1 <= number <= 1 << prefix - supernet.prefix:
        return None
    return network(supernet.first + (number - 1 << supernet.bits - prefix), prefix, supernet.bits)


Owner = t.TypeVar("Owner")
Other = t.TypeVar("Other")


def overlaps(networks: t.Iterable[tuple[Network, Owner]]) -> t.Iterator[tuple[Network, Owner, Network, Owner]]:
    """Each network that overlaps one before it, with that one. CIDR networks overlap only by one holding the other."""
    outer: tuple[Network, Owner] | None = None
    for net, owner in sorted(networks, key=_order):
        if outer and net.first <= outer[0].last and net.bits == outer[0].bits:
            yield outer[0], outer[1], net, owner
        else:
            outer = (net, owner)


def _order(each: tuple[Network, t.Any]) -> tuple[int, int, int]:
    return each[0].bits, each[0].first, each[0].prefix


class Outermost(t.Generic[Owner]):
    """Networks of both families, less those that lie in another of them: a question costs a binary search."""

    def __init__(self, networks: t.Iterable[tuple[Network, Owner]]) -> None:
        self._of: dict[int, list[tuple[Network, Owner]]] = {IPV4: [], IPV6: []}
        for net, owner in sorted(networks, key=_order):
            placed = self._of[net.bits]
            if not placed or net.first > placed[-1][0].last:
                placed.append((net, owner))
        self._firsts = {bits: [net.first for net, _owner in placed] for bits, placed in self._of.items()}

    def find(self, address: int, bits: int = IPV4) -> tuple[Network, Owner] | None:
        """The network that holds the address."""
        at = bisect.bisect_right(self._firsts[bits], address) - 1
        return self._of[bits][at] if at >= 0 and self._of[bits][at][0].holds(address) else None

    def meeting(self, net: Network) -> list[tuple[Network, Owner]]:
        """Every network that overlaps ``net``."""
        firsts, placed = self._firsts[net.bits], self._of[net.bits]
        start = max(bisect.bisect_right(firsts, net.first) - 1, 0)
        stop = bisect.bisect_right(firsts, net.last)
        return [each for each in placed[start:stop] if each[0].last >= net.first]


def clashes(
    networks: t.Iterable[tuple[Network, Owner]], reserved: t.Iterable[tuple[Network, Other]]
) -> t.Iterator[tuple[Network, Owner, Network, Other]]:
    """Each network that overlaps a reserved one, with that one. Reserved networks may lie in one another."""
    outermost = Outermost(reserved)
    for net, owner in networks:
        for other, name in outermost.meeting(net):
            yield net, owner, other, name
