# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of one rail in one family, and which rails have a network or an aggregate per node in common."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BY_NODE,
    SUBNET,
    Part,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import most_common
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    covering,
    network,
)

# The widest subnet that is tried before indexes are counted in another way.
_WIDEST = {IPV4: 8, IPV6: 32}


@dataclass
class Track:
    """One rail in one family.

    :param size: addresses of a node's share: 1 in the mode subnet; with an aggregate per node, those of the aggregate.
    :param units: node -> place of its share, in units of ``size``, from any start.
    :param fitting: the units that agree with those of the other rails.
    :param most: the last place that a node has.
    :param base: the place of index 0.
    :param known: the rail's network, if a route shows it.
    :param numbering: how the rails of one network divide it; None: each has its own range.
    :param stride: with the numbering by node, addresses from a node to the next; else 1.
    :param phase: with the numbering by node, the address of the first rail at the place 0.
    :param own_size: addresses of a node's network on this rail, if all rails have an aggregate per node.
    :param common: the tracks that have the network or the aggregates in common, in rail order; empty for a rail that
        has none in common with others.
    """

    rail: str
    bits: int
    mode: str
    size: int
    addresses: dict[str, int]
    units: dict[str, int]
    nets: dict[str, Network]
    gateways: dict[str, int | None]
    known: Network | None = None
    fitting: dict[str, int] = field(default_factory=dict)
    most: int = 0
    base: int = 0
    numbering: str | None = None
    stride: int = 1
    phase: int = 0
    own_size: int | None = None
    common: list[Track] = field(default_factory=list, repr=False)

    @property
    def part(self) -> Part | None:
        """The part of the rail in what it has in common with others."""
        rails = [track.rail for track in self.common]
        return Part(rails.index(self.rail) + 1, len(rails)) if rails else None

    def hosts(self, first: int, last: int) -> Range:
        """Return the addresses of the ports from one place to another; by node, those of all rails."""
        return Range(first * self.stride + self.phase, last * self.stride + self.phase + self.stride - 1, self.bits)


def find_common(tracks: t.Sequence[Track], numbers: t.Mapping[str, int | None]) -> None:
    """Find the tracks that have a network or aggregates in common, and set how they divide them.

    :param numbers: node -> the number in its name.
    """
    nets: dict[Network, list[Track]] = {}
    shares: dict[tuple[int, str, int], list[Track]] = {}
    for track in tracks:
        if track.mode == SUBNET and track.known:
            nets.setdefault(track.known, []).append(track)
        else:
            shares.setdefault((track.bits, track.mode, track.size), []).append(track)
    for group in nets.values():
        if len(group) > 1 and _on_one_node(group):
            _number(group)
    for group in shares.values():
        if len(group) > 1:
            _aggregate(group, numbers)


def _on_one_node(group: t.Sequence[Track]) -> bool:
    """Return whether a node has ports of several rails in the network."""
    counts = Counter(node for track in group for node in track.addresses)
    return max(counts.values()) > 1


def _interleaved(group: t.Sequence[Track]) -> bool:
    """Return whether the rails do not have separate ranges of addresses."""
    ranges = sorted((min(track.units.values()), max(track.units.values())) for track in group)
    return any(before[1] >= after[0] for before, after in zip(ranges, ranges[1:]))


def _number(group: list[Track]) -> None:
    """Set how the rails of one network divide it."""
    for track in group:
        track.common = group
    # The address of the first rail, as each port shows it.
    firsts = [(node, address - at) for at, track in enumerate(group) for node, address in track.addresses.items()]
    agreeing = Counter(firsts)
    one_node = len({node for node, _first in firsts}) == 1
    if not (_interleaved(group) or (one_node and len(agreeing) == 1)):
        # Separate ranges; `rail_parts` compares their sizes after the indexes are set.
        return
    stride = len(group)
    # The lowest address of a node belongs to its first rail, also if the node has another order of rails.
    lowest = [min(track.addresses.get(node, first) for track in group) for node, first in firsts]
    phase = Counter(address % stride for address in lowest).most_common(1)[0][0]
    for at, track in enumerate(group):
        track.numbering, track.stride, track.phase = BY_NODE, stride, phase
        track.units = {node: (address - at - phase) // stride for node, address in track.addresses.items()}


def _aggregate(group: list[Track], numbers: t.Mapping[str, int | None]) -> None:
    """Set the aggregate per node of rails whose networks on a node follow each other."""
    first = group[0]
    if not _interleaved(group):
        return
    nodes = [node for node in first.units if any(node in track.units for track in group[1:])]
    following = [node for node in nodes if _follow_each_other(group, node)]
    if len(following) < 2 or 2 * len(following) <= len(nodes):
        return
    starts = sorted(first.units[node] for node in following)
    least = min(right - left for left, right in zip(starts, starts[1:]))
    strides = [1 << shift for shift in range((len(group) - 1).bit_length(), max(least, 1).bit_length())]
    strides = [each for each in strides if each <= least and not any(start % each for start in starts)]
    if not strides:
        return

    def by_names(stride: int) -> int:
        """Return how many nodes have the number in their name as their index, from any start."""
        shown = [first.units[node] // stride - (numbers.get(node) or 0) for node in following if numbers.get(node)]
        return Counter(shown).most_common(1)[0][1] if shown else 0

    stride = max(strides, key=lambda each: (by_names(each), each))
    for track in group:
        track.common, track.own_size = group, track.size
        track.size *= stride
        track.units = {node: address // track.size for node, address in track.addresses.items()}


def _follow_each_other(group: t.Sequence[Track], node: str) -> bool:
    """Return whether the networks of a node follow the order of the rails, without gaps."""
    start = group[0].units[node]
    return all(track.units.get(node, start + at) == start + at for at, track in enumerate(group))


def rail_parts(group: t.Sequence[Track], usable: Range, indexes: int) -> Range | None:
    """Return the range of ports that rails divide into equal parts, one after the other; None if they do not.

    :param indexes: the highest index of a node.
    """
    distances = {after.base - before.base for before, after in zip(group, group[1:])}
    part = distances.pop() if len(distances) == 1 else 0
    first = group[0].base + 1
    last = first + part * len(group) - 1
    gateways = [via for track in group for via in track.gateways.values() if via is not None]
    if part < max(indexes, 1) or last > usable.last or any(first <= via <= last for via in gateways):
        return None
    return Range(first, last, usable.bits)


def smallest_subnet(track: Track, start: int) -> Network | None:
    """Return the smallest network that begins with the place of index 1 and contains all nodes' places."""
    first = start * track.size
    last = (track.most + 1) * track.size - 1
    if track.known is not None:
        return track.known if track.known.first == first and track.known.last >= last else None
    for prefix in range(track.bits - (track.size.bit_length() - 1), _WIDEST[track.bits] - 1, -1):
        net = network(first, prefix, track.bits)
        if net.first != first:
            return None
        if net.last >= last:
            return net
    return None


def covering_network(units: t.Iterable[int], size: int, bits: int) -> Network:
    """Return the smallest network that contains the shares at these places."""
    places = list(units)
    return covering(min(places) * size, (max(places) + 1) * size - 1, bits)


def common_gateway(track: Track) -> int | None:
    """Return the gateway of most nodes, of the network if rails divide it; None without one."""
    tracks = track.common if track.mode == SUBNET and track.common else [track]
    return most_common(via for each in tracks for via in each.gateways.values())
