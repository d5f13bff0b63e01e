# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modes subnet and block of the address planner: all nodes share the subnet of a rail."""

from __future__ import annotations

import bisect
import functools
import itertools

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    BY_NODE,
    CHOICE,
    FIRST,
    FULL,
    GATEWAY_HELD,
    GROWTH,
    LAST,
    MISSING,
    NONE,
    OVERLAP,
    PODS,
    REPEATED,
    SIZE,
    SMALL,
    TAKEN,
    UNUSABLE,
    Capacity,
    Demand,
    Planner,
    Problem,
    Scheme,
    Share,
    Units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, partial_blocks
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

# Family -> the prefix length of the largest private network, which several rails divide (RFC 1918, RFC 4193).
_LARGEST = {IPV4: 8, IPV6: 8}


class SharedSubnetPlanner(Planner):
    """The modes subnet and block: all nodes share the subnet of the rail; units do not matter.

    Each rail of a common network has its own planner, with its part of the ranges. ``pods`` and ``hosts``: ranges of
    the rail without taken addresses; None if no address remains.
    """

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        self._low, self._high = self.network.usable.first, self.network.usable.last
        gateway = {FIRST: self._low, LAST: self._high}.get(str(scheme.gateway), scheme.gateway)
        self.gateway = gateway if isinstance(gateway, int) else None
        taken, part = scheme.excluded, scheme.divided
        hosts, pods = scheme.hosts_of(part), scheme.pods_of(part)
        self.hosts = hosts.without(taken) if hosts else None
        self.pods = pods.without(taken) if pods else None
        # Distance in ``hosts`` between the addresses of two nodes, and of this rail from the first rail.
        self._stride, self._offset = 1, 0
        if part and scheme.numbering == BY_NODE:
            self._stride, self._offset = part.rails, part.number - 1
        # How many rails divide the ranges, and how many share the pool for pods.
        self._rails = part.rails if part else 1
        self._pooled = part.rails if part and part.one_pool else 1
        self._step = (scheme.block or 0) if scheme.mode == BLOCK and scheme.pods else 0
        self._ports = self.hosts.size // self._stride if self.hosts else 0
        rooms = [self._ports] if scheme.hosts else []
        self._blocks: Ranges | None = None
        self._holes: list[Range] = []
        if self._step and scheme.pods:
            self._blocks = _whole_blocks(pods, self._step) if pods else None
            rooms.append(self._blocks.size // self._step if self._blocks else 0)
            parts = self._blocks.parts if self._blocks else ()
            overlaps = (part.overlap(excluded) for part in parts for excluded in taken)
            self._holes = sorted((hole for hole in overlaps if hole), key=lambda hole: hole.first)
        self.room = min(rooms) if rooms else None
        # Values that are the same for all nodes.
        one_range = self.hosts if self.hosts and len(self.hosts.parts) == 1 else None
        self._host = one_range.first + self._offset - self._stride if one_range else None
        common = self.pods.merged() if self.pods and not self._step else None
        self._first = common.first if common else None
        self._last = common.last if common else None
        self._ranges = common.parts if common and len(common.parts) > 1 else None

    def share(self, unit: int, place: int, index: int) -> Share:
        if self._host is not None:
            address: int | None = self._host + index * self._stride
        else:
            address = self.hosts.at((index - 1) * self._stride + self._offset) if self.hosts else None
        first, last, ranges = self._first, self._last, self._ranges
        if self._step:
            first, last, ranges = self._block(index)
        return Share(address, self.network.prefix, self.gateway, self.network.first, first, last, ranges)

    def slots(self, share: Share, index: int, count: int, step: int) -> list[int | None]:
        if self._step or self.pods is None:
            return super().slots(share, index, count, step)
        # In the order of the file, so that a range that is added at the end renumbers no slot.
        first = (index - 1) * step
        return [self.pods.at(number) for number in range(first, first + count)]

    def _block(self, index: int) -> tuple[int | None, int | None, tuple[Range, ...] | None]:
        """Return the lowest and the highest address of a node's block, and its ranges if they are several."""
        blocks = self._blocks
        if blocks is None:
            return None, None, None
        number = (index - 1) * self._step
        first = blocks.first + number if len(blocks.parts) == 1 else blocks.at(number)
        if first is None:
            return None, None, None
        last = first + self._step - 1
        if not self._holes:
            return first, last, None
        rest = Ranges.of(Range(first, last, self.bits)).without(self._holes_in(first, last))
        if rest is None:
            return None, None, None
        return rest.first, rest.last, rest.parts if len(rest.parts) > 1 else None

    def _holes_in(self, first: int, last: int) -> list[Range]:
        start = bisect.bisect_left(self._ends, first)
        return list(itertools.takewhile(lambda hole: hole.first <= last, self._holes[start:]))

    @functools.cached_property
    def _ends(self) -> list[int]:
        return [hole.last for hole in self._holes]

    def _enough_blocks(self, needed: int) -> int:
        """Return how many blocks have at least ``needed`` addresses that are not taken."""
        if self._blocks is None:
            return 0
        runs = (run for part in self._blocks.parts for run in partial_blocks(part, self._step, self._holes))
        too_small = sum(blocks for _first, blocks, rest in runs if rest < needed)
        return self._blocks.size // self._step - too_small

    def problems(self, demand: Demand) -> list[Problem]:
        self._problems = []
        net, suffix = self.network, self._suffix
        if net.prefix > self.bits - 1:
            message = "%s is one address, which is not enough for two ports" % net
            self._add(SIZE, "subnet" + suffix, message, "use a /%d or larger" % (self.bits - 1))
            return self._problems
        self._check_gateway()
        pools = [("pods" + suffix, self.scheme.pods), ("hosts" + suffix, self.scheme.hosts)]
        for key, pool in pools:
            if pool is not None:
                self._check_pool(key, pool)
        overlap = self._common_addresses()
        if overlap:
            message = "%s is in pods (%s) and in hosts (%s)" % (overlap, self.scheme.pods, self.scheme.hosts)
            self._add(OVERLAP, "hosts" + suffix, message, "end one range before the other begins")
        self._check_taken()
        for (key, pool), rest in zip(pools, (self.pods, self.hosts)):
            if pool is not None and pool.size < self._rails and not (self._pooled > 1 and key.startswith("pods")):
                message = "%s (%s) has %s for %d rails" % (
                    key,
                    pool,
                    count(pool.size, "address", "addresses"),
                    self._rails,
                )
                self._add(FULL, key, message, "widen the range")
                return self._problems
            if pool is not None and rest is None:
                remedy = "add free addresses to %s, or correct taken" % key
                self._add(TAKEN, "taken", "all addresses of %s (%s) are taken" % (key, pool), remedy)
                return self._problems
        self._check_block(demand)
        self._check_room(demand)
        return self._problems

    def index_problem(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        if self.room is None or index <= self.room:
            return None
        return self._too_many(FULL, index, "%s has index %d" % (name, index), "lower the index")

    def block_problem(self, name: str, index: int, demand: Demand) -> Problem | None:
        needed = demand.pods_per_node or 1
        if not self._holes or (self.room is not None and index > self.room):
            return None
        first, last, ranges = self._block(index)
        available = 0
        if first is not None and last is not None:
            available = sum(part.size for part in ranges) if ranges else last - first + 1
        if available >= needed:
            return None
        message = "the block of %s (index %d) has %s that %s not taken, and a node needs %d" % (
            name,
            index,
            count(available, "address", "addresses"),
            "is" if available == 1 else "are",
            needed,
        )
        remedy = "give the node another index, or remove addresses of pods%s from taken" % self._suffix
        return Problem(SMALL, "taken", message, remedy)

    @property
    def has_partial_blocks(self) -> bool:
        return bool(self._holes)

    def capacity(self, demand: Demand) -> Capacity:
        size = self.pods.size if self.pods else 0
        if self._step:
            size = self._blocks.size - sum(hole.size for hole in self._holes) if self._blocks else 0
        pods_per_node = demand.pods_per_node
        limits = [] if self.room is None else [self.room]
        if self.pods and pods_per_node and not self._step:
            limits.append(size // (pods_per_node * self._pooled))
        elif self._step and pods_per_node and pods_per_node > self._step:
            limits.append(0)
        elif self._holes:
            limits.append(self._enough_blocks(pods_per_node or 1))
        used = (
            int(self._low > self.network.first),
            int(self._high < self.network.last),
            int(self.gateway is not None and self.link_local_gateway is None),
            self._ports,
        )
        reserved = self._taken_size(self._low, self._high)
        if self.gateway is not None and any(taken.holds(self.gateway) for taken in self.scheme.excluded):
            reserved -= 1
        rails = self._of_other_rails()
        idle = self.network.size - sum(used) - reserved - size - rails
        return Capacity(
            self.network.size,
            *used,
            reserved,
            idle,
            size,
            min(limits) if limits else None,
            self._step or None,
            demand.planned_nodes * pods_per_node * self._pooled if pods_per_node else None,
            rails if self.scheme.part else None,
        )

    def _of_other_rails(self) -> int:
        """Return how many addresses other rails of this network have."""
        scheme, part, taken = self.scheme, self.scheme.divided, self.scheme.excluded
        if part is None:
            return scheme.part.others if scheme.part else 0
        size = self._ports * (part.rails - 1) if scheme.numbering == BY_NODE else 0
        for number in range(1, part.rails + 1):
            other = part._replace(number=number)
            pools = [None if part.one_pool else scheme.pods_of(other)]
            pools += [] if scheme.numbering == BY_NODE else [scheme.hosts_of(other)]
            rest = [pool.without(taken) for pool in pools if pool and number != part.number]
            size += sum(pool.size for pool in rest if pool)
        return size

    def _common_addresses(self) -> Range | None:
        """Return the first addresses that both ``pods`` and ``hosts`` of these rails contain; None without such
        addresses."""
        pods, hosts = self.pods, self.hosts
        if self._rails > 1 and self.scheme.pods and self.scheme.hosts:
            taken = self.scheme.excluded
            pods, hosts = self.scheme.pods.without(taken), self.scheme.hosts.without(taken)
        return pods.overlap(hosts) if pods and hosts else None

    def _widened(self, size: int, instead: str) -> str:
        """Return how to get a range of ``size`` addresses, in a larger network if the rail's is too small, or what to
        do instead."""
        largest = self.network.usable.size
        # room for the ports and the gateway beside the range
        prefix = self.bits - (size + largest).bit_length()
        wider = "use a /%d for each rail, with supernet and rail_prefix%s: %d in addresses"
        wider %= (prefix, self._suffix, prefix)
        if size <= largest:
            wider = "widen the range to %s" % count(size, "address", "addresses")
        elif prefix <= _LARGEST[self.bits]:
            return instead
        elif self._rails > 1:
            wider = "use a /%d as the subnet of these rails" % prefix
        return "%s, or %s" % (wider, instead)

    def _too_many(self, kind: str, nodes: int, why: str, instead: str) -> Problem:
        """Return the problem of too many nodes, for the range that limits their number."""
        part = self.scheme.divided
        pool, whole, key, size = self.scheme.hosts_of(part), self.scheme.hosts, "hosts" + self._suffix, nodes
        what = count(self.room or 0, "node")
        if not (self.hosts and self._ports == self.room):
            pool, whole, key = self.scheme.pods_of(part), self.scheme.pods, "pods" + self._suffix
            size = nodes * self._step
            what = "%s of %d" % (count(self.room or 0, "block"), self._step)
        reduced = (self.hosts if key.startswith("hosts") else self.pods) != pool
        if part:
            what, size = "%s on %d rails" % (what, part.rails), size * part.rails
        note = ", without taken addresses" if reduced else ""
        message = "%s (%s%s) has room for %s, and %s" % (key, whole, note, what, why)
        return Problem(kind, key, message, self._widened(size, instead))

    def _check_gateway(self) -> None:
        gateway, net = self.gateway, self.network
        key, value = "gateway" + self._suffix, self.scheme.gateway
        if self.link_local_gateway is not None:
            return
        if gateway is None:
            if value not in (None, NONE):
                remedy = "write first, last, none or an address of %s" % net
                self._add(CHOICE, key, "%s is not a gateway" % value, remedy)
            return
        remedy = "use an address from %s to %s" % (self._show(self._low), self._show(self._high))
        if not net.holds(gateway):
            self._outside(key, Range(gateway, gateway, self.bits), remedy)
        elif not self._low <= gateway <= self._high:
            message = "%s is the %s of %s" % (self._show(gateway), self._edge(gateway), net)
            self._add(UNUSABLE, key, message, remedy)

    def _check_pool(self, key: str, pool: Ranges) -> None:
        for part in pool.parts:
            self._check_range(key, part)
        if pool.repeated:
            message = "%s is in two ranges of %s" % (pool.repeated, key)
            self._add(REPEATED, key, message, "end one range before the other begins")

    def _check_range(self, key: str, part: Range) -> None:
        net = self.network
        remedy = "use addresses from %s to %s" % (self._show(self._low), self._show(self._high))
        if not (net.holds(part.first) and net.holds(part.last)):
            self._outside(key, part, remedy)
            return
        # Taken addresses are not assigned.
        rest = Ranges.of(part).without(self.scheme.excluded)
        if rest is None:
            return
        if rest.first < self._low or rest.last > self._high:
            edge = self._edge(rest.first if rest.first < self._low else rest.last)
            self._add(UNUSABLE, key, "%s contains the %s of %s" % (part, edge, net), remedy)
        elif self.gateway is not None and any(each.holds(self.gateway) for each in rest.parts):
            message = "%s contains the gateway %s" % (part, self._show(self.gateway))
            remedy = "end the range before it, write a list of two ranges around it, or move the gateway"
            self._add(GATEWAY_HELD, key, message, remedy)

    def _edge(self, address: int) -> str:
        if address != self.network.first:
            return "broadcast address"
        return "network address" if self.bits == IPV4 else "address of any router (RFC 4291)"

    def _check_block(self, demand: Demand) -> None:
        if self.scheme.mode != BLOCK:
            return
        pods, block, suffix = self.scheme.own_pods, self.scheme.block, self._suffix
        if pods is None:
            self._add(
                MISSING, "pods" + suffix, "pods%s is missing" % suffix, "set the addresses that are divided into blocks"
            )
        if block is None:
            remedy = "set the number of addresses of pods%s for each node, such as 16" % suffix
            self._add(MISSING, "block" + suffix, "block%s is missing" % suffix, remedy)
        elif pods and self._blocks is None:
            largest = max(part.size for part in pods.parts)
            what = "pods%s (%s, %s)" if len(pods.parts) == 1 else "each range of pods%s (%s, at most %s)"
            message = "a block of %d addresses is larger than " % block
            message += what % (suffix, pods, count(largest, "address", "addresses"))
            self._add(SMALL, "block" + suffix, message, "widen the range, or lower the block")
        elif demand.pods_per_node and demand.pods_per_node > block:
            message = "a node has %s, and %s" % (count(block, "address", "addresses"), demand.pods_text)
            self._add(SMALL, "block" + suffix, message, "set it to %d or more" % demand.pods_per_node)

    def _check_room(self, demand: Demand) -> None:
        pods, most = self.pods, demand.max_nodes or 0
        pods_per_node = demand.pods_per_node and demand.pods_per_node * self._pooled
        if self.room is not None and most > self.room:
            self._problems.append(self._too_many(GROWTH, most, "max_nodes is %d" % most, "lower max_nodes"))
        elif most and self._holes:
            enough = self._enough_blocks(pods_per_node or 1)
            if most > enough:
                message = "%s of pods%s (%s) have %s each that are not taken, and max_nodes is %d" % (
                    count(enough, "block"),
                    self._suffix,
                    self.scheme.own_pods,
                    count(pods_per_node or 1, "address", "addresses"),
                    most,
                )
                self._add(GROWTH, "pods" + self._suffix, message, "widen the range, or lower max_nodes")
        if pods and pods_per_node and not self._step and demand.planned_nodes * pods_per_node > pods.size:
            message = "%s with %s each need %s, and %s has %d" % (
                count(demand.planned_nodes, "node"),
                count(pods_per_node, "pod"),
                count(demand.planned_nodes * pods_per_node, "address", "addresses"),
                pods,
                pods.size,
            )
            remedy = self._widened(demand.planned_nodes * pods_per_node, "lower %s" % demand.pods_key)
            self._add(PODS, "pods" + self._suffix, message, remedy)


def _whole_blocks(pods: Ranges, block: int) -> Ranges | None:
    """Return each range without the addresses after its last whole block; None if there is no block."""
    parts = [
        Range(part.first, part.first + part.size // block * block - 1, part.bits)
        for part in pods.parts
        if part.size >= block
    ]
    return Ranges(tuple(parts)) if parts else None
