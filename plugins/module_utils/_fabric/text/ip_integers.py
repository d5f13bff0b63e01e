# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""IP addresses, networks and ranges as integers. An object per address would be too slow for thousands of nodes.

``bits`` is the length of a family's addresses: 32 (IPv4) or 128 (IPv6).
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
# Family -> its name, and the end of its keys in the fabric file and in the plan.
FAMILY = {IPV4: "IPv4", IPV6: "IPv6"}
SUFFIX = {IPV4: "", IPV6: "6"}
# IP version -> the destination of a default route.
ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}

_OCTETS = re.compile(r"(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\Z")
_SHORT = re.compile(r"(?:\.(?:0|[1-9][0-9]{0,2})){1,3}\Z")
_SHORT6 = re.compile(r":(?::[0-9A-Fa-f]{1,4}){1,7}\Z")
_OFFSET = re.compile(r"\+(0|[1-9][0-9]{0,38})\Z")
_PREFIX = re.compile(r"(?:0|[1-9][0-9]{0,2})\Z")


@dataclass(frozen=True)
class Range:
    """The addresses from ``first`` to ``last``, both included."""

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
        """Return the addresses that both contain; None without such addresses, or if the families differ."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Range(first, last, self.bits) if first <= last and self.bits == other.bits else None


@dataclass(frozen=True)
class Network:
    """``first`` is the network address, ``last`` the last address: with IPv4, the broadcast address."""

    first: int
    last: int
    prefix: int
    bits: int = IPV4

    def __str__(self) -> str:
        return "%s/%d" % (show(self.first, self.bits), self.prefix)

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def addresses(self) -> Range:
        return Range(self.first, self.last, self.bits)

    @property
    def usable(self) -> Range:
        """The addresses that an interface can have.

        In a network of two addresses, these are both (RFC 3021, RFC 6164). In others, the first address is that of the
        network or of any of its routers (RFC 4291), and the last IPv4 address is the broadcast address.
        """
        if self.size <= 2:
            return self.addresses
        return Range(self.first + 1, self.last - (self.bits == IPV4), self.bits)

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last


def bits_of(text: str) -> int:
    """Return the family (32 or 128) of a text that is an address, a network or a range."""
    return IPV6 if ":" in text else IPV4


def show(address: int, bits: int = IPV4) -> str:
    """Return the address as text; IPv6 in the form of RFC 5952."""
    if bits == IPV4:
        return "%d.%d.%d.%d" % (address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255)
    if address >> 32 in (0, 0xFFFF):
        # The C library ends the text of these addresses with an IPv4 address.
        return str(ipaddress.IPv6Address(address))
    # Eight times as fast as ipaddress and netaddr.
    return socket.inet_ntop(socket.AF_INET6, address.to_bytes(16, "big"))


def parse_address(text: str, within: Network | None = None, bits: int = IPV4) -> int | None:
    """Return an address as integer; None for an invalid text.

    With ``within``, short forms are valid: ``.254`` is the address of that network that ends with this octet, ``::fe``
    the IPv6 address that ends with this group, and ``+10`` the tenth address after the network address. Several octets
    or groups, such as ``.1.254``, may also be an offset.

    :param within: the network of the address, which determines the family.
    :param bits: the family, without ``within``.
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
    match = _OCTETS.match(text)
    if not match:
        return None
    address = 0
    for octet in match.groups():
        if int(octet) > 255:
            return None
        address = address << 8 | int(octet)
    return address


def is_offset(text: str) -> bool:
    """Return whether an address or a range is written as offsets from a network address, such as ``+10``."""
    return text.lstrip().startswith("+")


def link_local(address: int, bits: int) -> bool:
    """Return whether an address is an IPv6 link-local unicast address, as most IPv6 routers advertise."""
    return bits == IPV6 and address >> 64 == 0xFE80 << 48 and address & ((1 << 64) - 1) != 0


def _parse6(text: str, within: Network | None) -> int | None:
    if within and _SHORT6.match(text):
        return _replace(within, [int(group, 16) for group in text[2:].split(":")], 16)
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET6, text), "big")
    except (OSError, ValueError):
        return None


def _replace(within: Network, parts: t.Sequence[int], width: int) -> int:
    """Return the network's first address with its last octets or groups replaced; each is ``width`` bits wide.

    Several parts that are not in the network so, but fit into it, count from its first address: ``.0.1`` is the first
    address of a /20.
    """
    size, value = width * len(parts), sum(part << width * place for place, part in enumerate(reversed(parts)))
    address = (within.first >> size << size) + value
    if len(parts) > 1 and not within.holds(address) and value < within.size:
        return within.first + value
    return address


def parse_range(text: str, within: Network | None = None, bits: int = IPV4) -> tuple[int, int] | None:
    """Return first and last address of ``a-b`` or of one address, in the forms of :func:`parse_address`.

    The order is not checked. None for an invalid text.
    """
    first, dash, last = text.partition("-")
    start = parse_address(first.strip(), within, bits)
    end = parse_address(last.strip(), within, bits) if dash else start
    return None if start is None or end is None else (start, end)


def parse_network(text: str, bits: int = IPV4) -> tuple[int, int] | None:
    """Return address and prefix length of ``172.16.11.0/24``; None for an invalid text."""
    address, _slash, prefix = text.partition("/")
    number = parse_address(address, bits=bits)
    if number is None or not _PREFIX.match(prefix) or int(prefix) > bits:
        return None
    return number, int(prefix)


def network(address: int, prefix: int, bits: int = IPV4) -> Network:
    """Return the network of that prefix length that contains ``address``."""
    size = 1 << bits - prefix
    first = address & ~(size - 1)
    return Network(first, first + size - 1, prefix, bits)


def network_of(text: str, exact: bool = False) -> Network | None:
    """Return the network of either family that contains the address in ``172.16.11.1/24``; None for an invalid text.

    :param exact: also return None if host bits are set.
    """
    bits = bits_of(text)
    parsed = parse_network(text, bits)
    if parsed is None:
        return None
    found = network(*parsed, bits)
    return found if found.first == parsed[0] or not exact else None


def covering(first: int, last: int, bits: int) -> Network:
    """Return the smallest network that contains both addresses."""
    return network(first, bits - (first ^ last).bit_length(), bits)


def nth_subnet(supernet: Network, prefix: int, number: int) -> Network | None:
    """Return the ``number``-th network (from 1) of that prefix length in ``supernet``; None if there are fewer."""
    if not supernet.prefix <= prefix <= supernet.bits or not 1 <= number <= 1 << prefix - supernet.prefix:
        return None
    return network(supernet.first + (number - 1 << supernet.bits - prefix), prefix, supernet.bits)


Owner = t.TypeVar("Owner")
Other = t.TypeVar("Other")


def overlaps(networks: t.Iterable[tuple[Network, Owner]]) -> t.Iterator[tuple[Network, Owner, Network, Owner]]:
    """Yield pairs of overlapping networks with their owners: the outer one first. One of them contains the other."""
    outer: tuple[Network, Owner] | None = None
    for net, owner in sorted(networks, key=_order):
        if outer and net.first <= outer[0].last and net.bits == outer[0].bits:
            yield outer[0], outer[1], net, owner
        else:
            outer = (net, owner)


def _order(owned: tuple[Network, t.Any]) -> tuple[int, int, int]:
    """Return the sort key by family and address, outer networks before inner ones."""
    return owned[0].bits, owned[0].first, owned[0].prefix


class Outermost(t.Generic[Owner]):
    """Networks of both families without those inside another. Each method uses a binary search."""

    def __init__(self, networks: t.Iterable[tuple[Network, Owner]]) -> None:
        self._networks: dict[int, list[tuple[Network, Owner]]] = {IPV4: [], IPV6: []}
        for net, owner in sorted(networks, key=_order):
            placed = self._networks[net.bits]
            if not placed or net.first > placed[-1][0].last:
                placed.append((net, owner))
        self._firsts = {bits: [net.first for net, _owner in placed] for bits, placed in self._networks.items()}

    def find(self, address: int, bits: int = IPV4) -> tuple[Network, Owner] | None:
        """Return the network that contains the address, with its owner; None if no network does."""
        at = bisect.bisect_right(self._firsts[bits], address) - 1
        return self._networks[bits][at] if at >= 0 and self._networks[bits][at][0].holds(address) else None

    def overlapping(self, net: Network) -> list[tuple[Network, Owner]]:
        """Return the networks that overlap ``net``, with their owners."""
        firsts, placed = self._firsts[net.bits], self._networks[net.bits]
        start = max(bisect.bisect_right(firsts, net.first) - 1, 0)
        stop = bisect.bisect_right(firsts, net.last)
        return [owned for owned in placed[start:stop] if owned[0].last >= net.first]


def clashes(
    networks: t.Iterable[tuple[Network, Owner]], reserved: t.Iterable[tuple[Network, Other]]
) -> t.Iterator[tuple[Network, Owner, Network, Other]]:
    """Yield each network that overlaps a reserved one, with that one. Reserved networks may contain each other."""
    outermost = Outermost(reserved)
    for net, owner in networks:
        for other, name in outermost.overlapping(net):
            yield net, owner, other, name
