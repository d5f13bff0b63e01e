# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse addresses, ranges and subnets of pools. Recognizable mistakes are corrected and reported as findings."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    network,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import merged

_FOUR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\Z")


def address(text: str) -> tuple[int, int] | None:
    """Return number and bits, or None. Octets above 255 carry over: .256 is the address after .255."""
    four = _FOUR.match(text)
    if four:
        number = sum(int(octet) << shift for octet, shift in zip(four.groups(), (24, 16, 8, 0)))
        return (number, IPV4) if number < 1 << IPV4 else None
    try:
        return int(ipaddress.IPv6Address(text.partition("%")[0])), IPV6
    except ValueError:
        return None


def prefixed(text: str) -> tuple[int, int, int] | None:
    """Return number, prefix length and bits of ``address/length``, or None."""
    host, slash, length = text.partition("/")
    parsed = address(host.strip())
    if parsed is None or not slash or not re.match(r"[0-9]{1,3}\Z", length.strip()):
        return None
    number, bits = parsed
    return (number, int(length), bits) if int(length) <= bits else None


def exact(text: str) -> Network | None:
    """Return the network, or None if the text is invalid or has host bits."""
    parsed = prefixed(text)
    if parsed is None:
        return None
    net = network(*parsed)
    return net if net.first == parsed[0] else None


def ranges(texts: t.Sequence[str], place: Place, found: Found) -> list[tuple[str, Range]]:
    """Return texts with their ranges. Other notations than first-last are reported."""
    result: list[tuple[str, Range]] = []
    for text in texts:
        parsed = _range(text, place, found)
        if parsed is None:
            message = "%s is not a range of addresses" % shown(text)
            found.add(
                import_rules.RANGE, place, message, "write first-last, such as 172.16.11.1-172.16.11.200", "nothing"
            )
        else:
            result.append((text, parsed))
    return result


def _range(text: str, place: Place, found: Found) -> Range | None:
    if "/" in text:
        parsed = prefixed(text)
        if parsed is None:
            return None
        inside = network(*parsed).usable
        message = "%s is a prefix, and the field takes first-last" % shown(text)
        found.add(import_rules.RANGE, place, message, "write %s" % inside, "that")
        return inside
    low, dash, high = text.partition("-")
    first = address(low.strip())
    last = address(high.strip()) if dash else first
    if first is not None and last is None and re.match(r"[0-9]{1,3}\Z", high.strip()) and first[1] == IPV4:
        number = first[0] - first[0] % 256 + int(high)
        message = "%s has an end without its network" % shown(text)
        found.add(import_rules.RANGE, place, message, "write the whole address, %s" % show(number), "that")
        last = number, IPV4
    if first is None or last is None or first[1] != last[1]:
        return None
    if first[0] > last[0]:
        message = "%s goes backwards" % shown(text)
        found.add(import_rules.RANGE, place, message, "write the lower address first", "the two in their order")
        return Range(last[0], *first)
    return Range(first[0], *last)


def subnet(text: str, members: t.Sequence[int], place: Place, found: Found) -> Network | None:
    """Return the network of a text, None if invalid. With host bits, choose a network that contains ``members``."""
    parsed = prefixed(text)
    if parsed is None:
        message = "%s is not a network" % shown(text)
        found.add(
            import_rules.SUBNET, place, message, "write it as address/prefix, such as 172.16.11.0/24", "no subnet"
        )
        return None
    number, prefix, bits = parsed
    canonical = network(number, prefix, bits)
    if canonical.first == number:
        return canonical
    chosen = next((net for net in _without_host_bits(number, prefix, bits) if _all_in(net, members)), canonical)
    message = "%s has host bits: the address is not the first of a /%d" % (shown(text), prefix)
    remedy = "write %s" % chosen
    if chosen is not canonical:
        remedy += ", in which the ranges and the gateway are; a /%d is %s" % (prefix, canonical)
    found.add(import_rules.HOST_BITS, place, message, remedy, str(chosen))
    return chosen


def _without_host_bits(number: int, prefix: int, bits: int) -> t.Iterator[Network]:
    """Return networks with a longer prefix that begin at the address: a /24, then the shortest prefix."""
    shortest = next((length for length in range(prefix, bits + 1) if number % (1 << bits - length) == 0), bits)
    if bits == IPV4 and prefix < 24 and shortest <= 24:
        yield network(number, 24)
    if shortest < bits - 1:
        yield network(number, shortest, bits)


def _all_in(net: Network, members: t.Sequence[int]) -> bool:
    # the address after the last one is a different mistake and does not exclude the network
    return bool(members) and all(net.first <= member <= net.last + 1 for member in members)


def cut_to(net: Network, listed: t.Sequence[tuple[str, Range]], place: Place, found: Found) -> list[Range]:
    """Return the parts of ranges that are in the network, without addresses that pods cannot have. Report the rest."""
    parts: list[Range] = []
    for text, given in listed:
        if given.bits != net.bits:
            message = "%s is not of the family of %s" % (shown(text), net)
            found.add(import_rules.RANGE, place, message, "make a pool of its own for it", "nothing")
            continue
        inside, usable = given.overlap(net), given.overlap(net.usable)
        if inside is None:
            message = "%s is not in %s" % (shown(text), net)
            found.add(import_rules.OUTSIDE, place, message, "write addresses of the subnet", "nothing")
            continue
        if inside != given:
            message = "%s leaves %s" % (shown(text), net)
            remedy = "begin it within the subnet"
            if given.last > net.last:
                remedy = "end it at %s" % show(net.usable.last, net.bits)
            found.add(import_rules.OUTSIDE, place, message, remedy, str(usable or "nothing"))
        elif usable != inside:
            message = "%s holds the network's own address or its broadcast address" % shown(text)
            remedy = "write %s" % usable if usable else "remove it"
            found.add(import_rules.UNUSABLE, place, message, remedy, str(usable or "nothing"))
        if usable:
            parts.append(usable)
    return merged(parts)
