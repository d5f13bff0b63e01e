# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""IPv4 addresses, networks and ranges as integers: at thousands of nodes, objects for each address cost too much."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

_OCTETS = re.compile(r"(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\Z")
_SHORT = re.compile(r"(?:\.(?:0|[1-9][0-9]{0,2})){1,3}\Z")


@dataclass(frozen=True)
class Range:
    """``first`` to ``last``, both in it."""

    first: int
    last: int

    def __str__(self) -> str:
        return "%s-%s" % (show(self.first), show(self.last)) if self.first != self.last else show(self.first)

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last

    def overlap(self, other: Range | Network) -> Range | None:
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Range(first, last) if first <= last else None


@dataclass(frozen=True)
class Network:
    """``first`` is the network's address, ``last`` its broadcast address."""

    first: int
    last: int
    prefix: int

    def __str__(self) -> str:
        return "%s/%d" % (show(self.first), self.prefix)

    def holds(self, address: int) -> bool:
        return self.first <= address <= self.last


def show(address: int) -> str:
    return "%d.%d.%d.%d" % (address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255)


def parse_address(text: str, within: Network | None = None) -> int | None:
    """``172.16.11.254``, or ``.254`` for the address with these last octets in ``within``; None for anything else."""
    if within and _SHORT.match(text):
        octets = [int(octet) for octet in text[1:].split(".")]
        if max(octets) > 255:
            return None
        size = 8 * len(octets)
        return (within.first >> size << size) + sum(octet << 8 * place for place, octet in enumerate(reversed(octets)))
    found = _OCTETS.match(text)
    if not found:
        return None
    address = 0
    for octet in found.groups():
        if int(octet) > 255:
            return None
        address = address << 8 | int(octet)
    return address


def parse_range(text: str, within: Network | None = None) -> tuple[int, int] | None:
    """``a-b`` or one address, each as :func:`parse_address` takes it. The order is not looked at."""
    first, dash, last = text.partition("-")
    start = parse_address(first.strip(), within)
    end = parse_address(last.strip(), within) if dash else start
    return None if start is None or end is None else (start, end)


def parse_network(text: str) -> tuple[int, int] | None:
    """``172.16.11.0/24`` as address and prefix length."""
    address, _slash, prefix = text.partition("/")
    number = parse_address(address)
    if number is None or not re.match(r"(?:0|[1-9][0-9]?)\Z", prefix) or int(prefix) > 32:
        return None
    return number, int(prefix)


def network(address: int, prefix: int) -> Network:
    """The network of that prefix length that holds ``address``."""
    size = 1 << 32 - prefix
    first = address & ~(size - 1)
    return Network(first, first + size - 1, prefix)


Owner = t.TypeVar("Owner")


def overlaps(networks: t.Iterable[tuple[Network, Owner]]) -> t.Iterator[tuple[Network, Owner, Network, Owner]]:
    """Each network that overlaps one before it, with that one. CIDR networks overlap only by one holding the other."""
    outer: tuple[Network, Owner] | None = None
    for net, owner in sorted(networks, key=lambda each: (each[0].first, each[0].prefix)):
        if outer and net.first <= outer[0].last:
            yield outer[0], outer[1], net, owner
        else:
            outer = (net, owner)
