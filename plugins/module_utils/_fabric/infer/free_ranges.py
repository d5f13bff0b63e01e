# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Networks and free ranges that follow from known addresses, for the import and the discovery."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import usable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, Range, network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, merged


def covering(first: int, last: int, bits: int) -> Network:
    """Return the smallest network that contains both addresses."""
    return network(first, bits - (first ^ last).bit_length(), bits)


def usable_range(net: Network) -> Range:
    """Return the addresses of a network that an interface can have."""
    return Range(*usable(net.first, net.last, net.bits), net.bits)


def whole_range(net: Network) -> Range:
    """Return all addresses of a network."""
    return Range(net.first, net.last, net.bits)


def single(address: int, bits: int) -> Range:
    """Return the range of one address."""
    return Range(address, address, bits)


def without(ranges: t.Iterable[Range], taken: t.Iterable[Range]) -> list[Range]:
    """Return sorted, disjoint ranges of the addresses that are not in ``taken``."""
    free = Ranges(tuple(merged(ranges))).without(taken)
    return list(free.parts) if free else []


def common(ranges: t.Iterable[Range], others: t.Iterable[Range]) -> list[Range]:
    """Return sorted, disjoint ranges of the addresses that are in both."""
    other_ranges = list(others)
    overlaps = (mine.overlap(theirs) for mine in ranges for theirs in other_ranges)
    return merged(overlap for overlap in overlaps if overlap)


def longest(ranges: t.Sequence[Range]) -> Range | None:
    """Return the longest range, the lowest one of equal length; None without ranges."""
    return max(ranges, key=lambda each: (each.size, -each.first)) if ranges else None
