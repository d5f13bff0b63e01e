# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The modes subnet and block of the address planner: all nodes in a rail's one subnet."""

from __future__ import annotations

import bisect
import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
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
    usable,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, fewer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


class CommonPlanner(Planner):
    """The modes subnet and block: all nodes are in the rail's one subnet, whatever their units.

    ``pods`` and ``hosts``: those of the scheme less what is taken, and in the mode subnet pods in rising order; None
    where nothing is left.
    """

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        self._low, self._high = usable(self.network.first, self.network.last, self.bits)
        gateway = {FIRST: self._low, LAST: self._high}.get(str(scheme.gateway), scheme.gateway)
        self.gateway = gateway if isinstance(gateway, int) else None
        taken = scheme.excluded
        self.hosts = scheme.hosts.less(taken) if scheme.hosts else None
        self.pods = scheme.pods.less(taken) if scheme.pods else None
        self._step = (scheme.block or 0) if scheme.mode == BLOCK and scheme.pods else 0
        rooms = [self.hosts.size if self.hosts else 0] if scheme.hosts else []
        self._blocks: Ranges | None = None
        self._holes: list[Range] = []
        if self._step and scheme.pods:
            self._blocks = _whole(scheme.pods, self._step)
            rooms.append(self._blocks.size // self._step if self._blocks else 0)
            held = [both for part in (self._blocks.parts if self._blocks else ()) for both in _inside(part, taken)]
            self._holes = sorted(held, key=lambda each: each.first)
        self.room = min(rooms) if rooms else None
        # What does not change from node to node is worked out once.
        one = self.hosts and len(self.hosts.parts) == 1
        self._host = self.hosts.first - 1 if self.hosts and one else None
        common = self.pods.merged() if self.pods and not self._step else None
        self._first = common.first if common else None
        self._last = common.last if common else None
        self._ranges = common.parts if common and len(common.parts) > 1 else None

    def share(self, unit: int, place: int, index: int) -> Share:
        if self._host is not None:
            address: int | None = self._host + index
        else:
            address = self.hosts.at(index - 1) if self.hosts else None
        first, last, ranges = self._first, self._last, self._ranges
        if self._step:
            first, last, ranges = self._block(index)
        return Share(address, self.network.prefix, self.gateway, self.network.first, first, last, ranges)

    def slots(self, share: Share, index: int, count: int, step: int) -> list[int | None]:
        if self._step or self.pods is None:
            return super().slots(share, index, count, step)
        # In the order of the file: a range at the end of the list renumbers nothing.
        first = (index - 1) * step
        return [self.pods.at(number) for number in range(first, first + count)]

    def _block(self, index: int) -> tuple[int | None, int | None, tuple[Range, ...] | None]:
        """A node's block: its lowest and its highest address, and its ranges where they are several."""
        blocks = self._blocks
        if blocks is None:
            return None, None, None
        at = (index - 1) * self._step
        first = blocks.first + at if len(blocks.parts) == 1 else blocks.at(at)
        if first is None:
            return None, None, None
        last = first + self._step - 1
        if not self._holes:
            return first, last, None
        left = Ranges.of(Range(first, last, self.bits)).less(self._holes_in(first, last))
        if left is None:
            return None, None, None
        return left.first, left.last, left.parts if len(left.parts) > 1 else None

    def _holes_in(self, first: int, last: int) -> list[Range]:
        start = bisect.bisect_left(self._ends, first)
        found = []
        for each in self._holes[start:]:
            if each.first > last:
                break
            found.append(each)
        return found

    @functools.cached_property
    def _ends(self) -> list[int]:
        return [each.last for each in self._holes]

    def _short_blocks(self, need: int) -> int:
        """How many blocks have fewer addresses than ``need``, because some of theirs are taken."""
        parts = self._blocks.parts if self._blocks else ()
        found = (each for part in parts for each in fewer(part, self._step, self._holes))
        return sum(blocks for _first, blocks, left in found if left < need)

    def problems(self, demand: Demand) -> list[Problem]:
        self._wrong = []
        net, six = self.network, self._six
        if net.prefix > self.bits - 1:
            message = "%s is one address, which has no room for two ports" % net
            self._add(SIZE, "subnet" + six, message, "use a /%d or larger" % (self.bits - 1))
            return self._wrong
        self._check_gateway()
        given = [("pods" + six, self.scheme.pods), ("hosts" + six, self.scheme.hosts)]
        for key, pool in given:
            if pool is not None:
                self._check_pool(key, pool)
        both = self.pods and self.hosts and self.pods.overlap(self.hosts)
        if both:
            message = "%s is in pods (%s) and in hosts (%s)" % (both, self.scheme.pods, self.scheme.hosts)
            self._add(OVERLAP, "hosts" + six, message, "end one range before the other begins")
        self._check_taken()
        for name, held in self.scheme.taken:
            if self.gateway is not None and held.holds(self.gateway):
                message = "%s contains the gateway %s" % (held, self._show(self.gateway))
                self._add(GATEWAY_HELD, "taken.%s" % name, message, "end the range before it, or move the gateway")
        for (key, pool), left in zip(given, (self.pods, self.hosts)):
            if pool is not None and left is None:
                remedy = "add free addresses to %s, or correct taken" % key
                self._add(TAKEN, "taken", "all addresses of %s (%s) are taken" % (key, pool), remedy)
                return self._wrong
        self._check_block(demand)
        self._check_room(demand)
        return self._wrong

    def beyond(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        if self.room is None or index <= self.room:
            return None
        return self._no_room(FULL, index, "%s has index %d" % (name, index), "lower the index")

    def short(self, name: str, index: int, demand: Demand) -> Problem | None:
        need = demand.pods_per_node or 1
        if not self._holes or (self.room is not None and index > self.room):
            return None
        first, last, ranges = self._block(index)
        have = 0
        if first is not None and last is not None:
            have = sum(each.size for each in ranges) if ranges else last - first + 1
        if have >= need:
            return None
        message = "the block of %s (index %d) has %s that %s not taken, and a node needs %d" % (
            name,
            index,
            count(have, "address", "addresses"),
            "is" if have == 1 else "are",
            need,
        )
        remedy = "give the node another index, or remove addresses of pods%s from taken" % self._six
        return Problem(SMALL, "taken", message, remedy)

    @property
    def holed(self) -> bool:
        return bool(self._holes)

    def capacity(self, demand: Demand) -> Capacity:
        size = self.pods.size if self.pods else 0
        if self._step:
            size = self._blocks.size - sum(each.size for each in self._holes) if self._blocks else 0
        each = demand.pods_per_node
        limits = [] if self.room is None else [self.room]
        if self.pods and each and not self._step:
            limits.append(size // each)
        elif self._step and each and each > self._step:
            limits.append(0)
        elif self._holes and self._blocks:
            limits.append(self._blocks.size // self._step - self._short_blocks(each or 1))
        eaten = (
            int(self._low > self.network.first),
            int(self._high < self.network.last),
            int(self.gateway is not None and self.local is None),
            self.hosts.size if self.hosts else 0,
        )
        reserved = self._taken_size(self._low, self._high)
        idle = self.network.size - sum(eaten) - reserved - size
        return Capacity(
            self.network.size,
            *eaten,
            reserved,
            idle,
            size,
            min(limits) if limits else None,
            self._step or None,
            demand.most * each if each else None,
        )

    def _no_room(self, kind: str, nodes: int, why: str, instead: str) -> Problem:
        """That the range which limits the nodes has no room for so many."""
        pool, key, size = self.scheme.hosts, "hosts" + self._six, nodes
        what = count(self.room or 0, "node")
        if not (self.hosts and self.hosts.size == self.room):
            pool, key, size = self.scheme.pods, "pods" + self._six, nodes * self._step
            what = "%s of %d" % (count(self.room or 0, "block"), self._step)
        taken = (self.hosts if key.startswith("hosts") else self.pods) != pool
        message = "%s (%s%s) has room for %s, and %s" % (key, pool, ", less what is taken" if taken else "", what, why)
        remedy = "widen the range to %s, or %s" % (count(size, "address", "addresses"), instead)
        return Problem(kind, key, message, remedy)

    def _check_gateway(self) -> None:
        gateway, net = self.gateway, self.network
        key, stated = "gateway" + self._six, self.scheme.gateway
        if self.local is not None:
            return
        if gateway is None:
            if stated not in (None, NONE):
                self._add(
                    CHOICE, key, "%s is not a gateway" % stated, "write first, last, none or an address of %s" % net
                )
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
        if pool.double:
            message = "%s is in two ranges of %s" % (pool.double, key)
            self._add(REPEATED, key, message, "end one range before the other begins")

    def _check_range(self, key: str, held: Range) -> None:
        net = self.network
        remedy = "use addresses from %s to %s" % (self._show(self._low), self._show(self._high))
        if not (net.holds(held.first) and net.holds(held.last)):
            self._outside(key, held, remedy)
        elif held.first < self._low or held.last > self._high:
            edge = self._edge(held.first if held.first < self._low else held.last)
            self._add(UNUSABLE, key, "%s contains the %s of %s" % (held, edge, net), remedy)
        elif self.gateway is not None and held.holds(self.gateway):
            message = "%s contains the gateway %s" % (held, self._show(self.gateway))
            remedy = "end the range before it, write a list of two ranges around it, or move the gateway"
            self._add(GATEWAY_HELD, key, message, remedy)

    def _edge(self, address: int) -> str:
        if address != self.network.first:
            return "broadcast address"
        return "network address" if self.bits == IPV4 else "address of any router (RFC 4291)"

    def _check_block(self, demand: Demand) -> None:
        if self.scheme.mode != BLOCK:
            return
        pods, block, six = self.scheme.pods, self.scheme.block, self._six
        if pods is None:
            self._add(
                MISSING, "pods" + six, "pods%s is missing" % six, "set the addresses that are divided into blocks"
            )
        if block is None:
            remedy = "set the number of addresses of pods%s for each node, such as 16" % six
            self._add(MISSING, "block" + six, "block%s is missing" % six, remedy)
        elif pods and self._blocks is None:
            largest = max(part.size for part in pods.parts)
            what = "all of pods%s (%s, %s)" if len(pods.parts) == 1 else "any range of pods%s (%s: at most %s)"
            message = "a block of %d addresses is larger than " % block
            message += what % (six, pods, count(largest, "address", "addresses"))
            self._add(SMALL, "block" + six, message, "widen the range, or lower the block")
        elif demand.pods_per_node and demand.pods_per_node > block:
            message = "a node has %s, and %s" % (count(block, "address", "addresses"), demand.asked)
            self._add(SMALL, "block" + six, message, "set it to %d or more" % demand.pods_per_node)

    def _check_room(self, demand: Demand) -> None:
        pods, each, most = self.pods, demand.pods_per_node, demand.max_nodes or 0
        if self.room is not None and most > self.room:
            self._wrong.append(self._no_room(GROWTH, most, "max_nodes is %d" % most, "lower max_nodes"))
        elif most and self._holes and self._blocks:
            enough = self._blocks.size // self._step - self._short_blocks(each or 1)
            if most > enough:
                message = "%s of pods%s (%s) have %s each that are not taken, and max_nodes is %d" % (
                    count(enough, "block"),
                    self._six,
                    self.scheme.pods,
                    count(each or 1, "address", "addresses"),
                    most,
                )
                self._add(GROWTH, "pods" + self._six, message, "widen the range, or lower max_nodes")
        if pods and each and not self._step and demand.most * each > pods.size:
            message = "%s with %s each need %s, and %s has %d" % (
                count(demand.most, "node"),
                count(each, "pod"),
                count(demand.most * each, "address", "addresses"),
                pods,
                pods.size,
            )
            self._add(PODS, "pods" + self._six, message, "widen the range, or lower %s" % demand.key)


def _whole(pods: Ranges, block: int) -> Ranges | None:
    """The whole blocks of each range: no block is of two ranges."""
    parts = [
        Range(part.first, part.first + part.size // block * block - 1, part.bits)
        for part in pods.parts
        if part.size >= block
    ]
    return Ranges(tuple(parts)) if parts else None


def _inside(part: Range, ranges: t.Iterable[Range]) -> t.Iterator[Range]:
    """What a range has of others."""
    for each in ranges:
        both = part.overlap(each)
        if both:
            yield both
