# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Parse addresses, ranges and subnets of pools. Recognizable mistakes are corrected and reported as findings.

A run is a pair of numbers, the first and the last address.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Net
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place

Run = t.Tuple[int, int]

_FOUR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\Z")


def address(text: str) -> tuple[int, int] | None:
    """Return IP version and number, or None. Octets above 255 carry over: .256 is the address after .255."""
    four = _FOUR.match(text)
    if four:
        number = sum(int(octet) << shift for octet, shift in zip(four.groups(), (24, 16, 8, 0)))
        return (4, number) if number < 1 << 32 else None
    try:
        return 6, int(ipaddress.IPv6Address(text.partition("%")[0]))
    except ValueError:
        return None


def show(version: int, number: int) -> str:
    """Format an address. A number outside of IPv4 is shown as IPv6."""
    four = version == 4 and 0 <= number < 1 << 32
    return str(ipaddress.IPv4Address(number) if four else ipaddress.IPv6Address(max(0, min(number, (1 << 128) - 1))))


def shown_net(net: Net) -> str:
    """Format a network as ``address/length``."""
    return "%s/%d" % (show(net.version, net.first), net.prefix)


def shown_run(net: Net, run: Run) -> str:
    """Format a run as ``first-last`` or as a single address."""
    first, last = show(net.version, run[0]), show(net.version, run[1])
    return first if first == last else "%s-%s" % (first, last)


def around(version: int, number: int, prefix: int) -> Net:
    """Return the network of this prefix length that contains the address."""
    size = 1 << (32 if version == 4 else 128) - prefix
    return Net(version, number - number % size, prefix)


def prefixed(text: str) -> tuple[int, int, int] | None:
    """Return version, number and prefix length of ``address/length``, or None."""
    host, slash, length = text.partition("/")
    parsed = address(host.strip())
    if parsed is None or not slash or not re.match(r"[0-9]{1,3}\Z", length.strip()):
        return None
    version, number = parsed
    return (version, number, int(length)) if int(length) <= (32 if version == 4 else 128) else None


def exact(text: str) -> Net | None:
    """Return the network, or None if the text is invalid or has host bits."""
    parsed = prefixed(text)
    if parsed is None:
        return None
    net = around(*parsed)
    return net if net.first == parsed[1] else None


def ranges(texts: t.Sequence[str], place: Place, found: Found) -> list[tuple[str, int, Run]]:
    """Return ranges as (text, version, run). Other notations than first-last are reported."""
    result: list[tuple[str, int, Run]] = []
    for text in texts:
        run = _range(text, place, found)
        if run is None:
            message = "%s is not a range of addresses" % shown(text)
            found.add(
                import_rules.RANGE,
                place,
                message,
                "write first-last, such as 172.16.11.1-172.16.11.200",
                "nothing",
            )
        else:
            result.append((text,) + run)
    return result


def _range(text: str, place: Place, found: Found) -> tuple[int, Run] | None:
    if "/" in text:
        parsed = prefixed(text)
        if parsed is None:
            return None
        net = around(*parsed)
        message = "%s is a prefix, and the field takes first-last" % shown(text)
        found.add(import_rules.RANGE, place, message, "write %s" % shown_run(net, net.usable), "that")
        return net.version, net.usable
    low, dash, high = text.partition("-")
    first = address(low.strip())
    last = address(high.strip()) if dash else first
    if first is not None and last is None and re.match(r"[0-9]{1,3}\Z", high.strip()) and first[0] == 4:
        number = first[1] - first[1] % 256 + int(high)
        message = "%s has an end without its network" % shown(text)
        found.add(import_rules.RANGE, place, message, "write the whole address, %s" % show(4, number), "that")
        last = 4, number
    if first is None or last is None or first[0] != last[0]:
        return None
    if first[1] > last[1]:
        message = "%s goes backwards" % shown(text)
        found.add(import_rules.RANGE, place, message, "write the lower address first", "the two in their order")
        return first[0], (last[1], first[1])
    return first[0], (first[1], last[1])


def subnet(text: str, members: t.Sequence[int], place: Place, found: Found) -> Net | None:
    """Return the network of a text, None if invalid. With host bits, choose a network that contains ``members``."""
    parsed = prefixed(text)
    if parsed is None:
        message = "%s is not a network" % shown(text)
        found.add(
            import_rules.SUBNET, place, message, "write it as address/prefix, such as 172.16.11.0/24", "no subnet"
        )
        return None
    version, number, prefix = parsed
    canonical = around(version, number, prefix)
    if canonical.first == number:
        return canonical
    chosen = next((net for net in _without_host_bits(version, number, prefix) if _all_in(net, members)), canonical)
    message = "%s has host bits: the address is not the first of a /%d" % (shown(text), prefix)
    remedy = "write %s" % shown_net(chosen)
    if chosen is not canonical:
        remedy += ", in which the ranges and the gateway are; a /%d is %s" % (prefix, shown_net(canonical))
    found.add(import_rules.HOST_BITS, place, message, remedy, shown_net(chosen))
    return chosen


def _without_host_bits(version: int, number: int, prefix: int) -> t.Iterator[Net]:
    """Return networks with a longer prefix that begin at the address: a /24, then the shortest prefix."""
    bits = 32 if version == 4 else 128
    shortest = next((length for length in range(prefix, bits + 1) if number % (1 << bits - length) == 0), bits)
    if version == 4 and prefix < 24 and shortest <= 24:
        yield Net(version, number, 24)
    if shortest < bits - 1:
        yield Net(version, number, shortest)


def _all_in(net: Net, members: t.Sequence[int]) -> bool:
    # the address after the last one is a different mistake and does not exclude the network
    return bool(members) and all(net.first <= member <= net.last + 1 for member in members)


def cut_to(net: Net, listed: t.Sequence[tuple[str, int, Run]], place: Place, found: Found) -> list[Run]:
    """Return the parts of ranges that are in the network, without addresses that pods cannot have. Report the rest."""
    runs: list[Run] = []
    low, high = net.usable
    for text, version, (first, last) in listed:
        if version != net.version:
            message = "%s is not of the family of %s" % (shown(text), shown_net(net))
            found.add(import_rules.RANGE, place, message, "make a pool of its own for it", "nothing")
            continue
        inside = max(first, net.first), min(last, net.last)
        if inside[0] > inside[1]:
            message = "%s is not in %s" % (shown(text), shown_net(net))
            found.add(import_rules.OUTSIDE, place, message, "write addresses of the subnet", "nothing")
            continue
        usable = max(first, low), min(last, high)
        if inside != (first, last):
            message = "%s leaves %s" % (shown(text), shown_net(net))
            remedy = "end it at %s" % show(net.version, usable[1]) if last > net.last else "begin it within the subnet"
            found.add(import_rules.OUTSIDE, place, message, remedy, shown_run(net, usable))
        elif usable != inside:
            message = "%s holds the network's own address or its broadcast address" % shown(text)
            remedy = "write %s" % shown_run(net, usable)
            found.add(import_rules.UNUSABLE, place, message, remedy, shown_run(net, usable))
        if usable[0] <= usable[1]:
            runs.append(usable)
    return merged(runs)


def merged(runs: t.Iterable[Run]) -> list[Run]:
    """Return sorted, disjoint runs; adjacent runs are merged."""
    result: list[Run] = []
    for first, last in sorted(runs):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def without(runs: t.Sequence[Run], taken: t.Iterable[Run]) -> list[Run]:
    """Return the runs without the addresses in ``taken``."""
    left = merged(runs)
    for low, high in taken:
        parts = []
        for first, last in left:
            if high < first or last < low:
                parts.append((first, last))
                continue
            if first < low:
                parts.append((first, low - 1))
            if high < last:
                parts.append((high + 1, last))
        left = parts
    return left


def both(runs: t.Iterable[Run], others: t.Iterable[Run]) -> list[Run]:
    """Return the addresses that are in both."""
    other_runs = list(others)
    return merged(
        (max(first, low), min(last, high))
        for first, last in runs
        for low, high in other_runs
        if first <= high and low <= last
    )


def size(runs: t.Iterable[Run]) -> int:
    """Return the number of addresses in disjoint runs."""
    return sum(last - first + 1 for first, last in runs)


def longest(runs: t.Sequence[Run]) -> Run | None:
    """Return the longest run, the first one of equal length; None if there is none."""
    return max(runs, key=lambda run: (run[1] - run[0], -run[0])) if runs else None
