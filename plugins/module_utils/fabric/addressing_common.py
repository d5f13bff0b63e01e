# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The modes subnet and block of the address planner: all nodes in a rail's one subnet."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    IPV4,
    Range,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addressing_terms import (
    BLOCK,
    CHOICE,
    FIRST,
    FULL,
    GATEWAY_HELD,
    GROWTH,
    LAST,
    MISSING,
    NONE,
    OUTSIDE,
    OVERLAP,
    PODS,
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


class CommonPlanner(Planner):
    """The modes subnet and block: all nodes are in the rail's one subnet, whatever their units."""

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        self._low, self._high = usable(self.network.first, self.network.last, self.bits)
        gateway = {FIRST: self._low, LAST: self._high}.get(str(scheme.gateway), scheme.gateway)
        self.gateway = gateway if isinstance(gateway, int) else None
        self._step = (scheme.block or 0) if scheme.mode == BLOCK and scheme.pods else 0
        rooms = [scheme.hosts.size] if scheme.hosts else []
        if self._step and scheme.pods:
            rooms.append(scheme.pods.size // self._step)
        self.room = min(rooms) if rooms else None
        # What does not change from node to node is worked out once.
        self._host = scheme.hosts.first - 1 if scheme.hosts else None
        self._pods = scheme.pods.first if scheme.pods else None
        self._pods_last = scheme.pods.last if scheme.pods else None

    def share(self, unit: int, place: int, index: int) -> Share:
        address = None if self._host is None else self._host + index
        first, last = self._pods, self._pods_last
        if self._step and first is not None:
            first += (index - 1) * self._step
            last = first + self._step - 1
        return Share(address, self.network.prefix, self.gateway, self.network.first, first, last)

    def problems(self, demand: Demand) -> list[Problem]:
        self._wrong = []
        net, six = self.network, self._six
        if net.prefix > self.bits - 2:
            message = "%s has no room for hosts" % net
            self._add(SIZE, "subnet" + six, message, "take a /%d or larger" % (self.bits - 2))
            return self._wrong
        self._check_gateway()
        ranges = [("pods" + six, self.scheme.pods), ("hosts" + six, self.scheme.hosts)]
        for key, held in ranges:
            if held is not None:
                self._check_range(key, held)
        pods, hosts = self.scheme.pods, self.scheme.hosts
        both = pods and hosts and pods.overlap(hosts)
        if both:
            message = "%s is in pods (%s) and in hosts (%s)" % (both, pods, hosts)
            self._add(OVERLAP, "hosts" + six, message, "let one range end where the other begins")
        self._check_taken()
        for name, held in self.scheme.taken:
            for key, given in ranges:
                both = given and held.overlap(given)
                if both:
                    message = "%s is in %s (%s) and taken for %s" % (both, key, given, name)
                    self._add(TAKEN, "taken.%s" % name, message, "let one range end where the other begins")
            if self.gateway is not None and held.holds(self.gateway):
                message = "%s holds the gateway %s" % (held, self._show(self.gateway))
                self._add(GATEWAY_HELD, "taken.%s" % name, message, "end the range before it, or move the gateway")
        self._check_block(demand)
        self._check_room(demand)
        return self._wrong

    def beyond(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        if self.room is None or index <= self.room:
            return None
        key, held, what = self._tightest()
        message = "%s (%s) has room for %d%s, and %s has index %d" % (key, held, self.room, what, name, index)
        size = index * (self._step if key.startswith("pods") else 1)
        return Problem(FULL, key, message, "widen the range to %d addresses, or lower the index" % size)

    def capacity(self, demand: Demand) -> Capacity:
        pods, hosts = self.scheme.pods, self.scheme.hosts
        size = pods.size if pods else 0
        if self._step:
            size -= size % self._step
        each = demand.pods_per_node
        limits = [] if self.room is None else [self.room]
        if pods and each and not self._step:
            limits.append(size // each)
        elif self._step and each and each > self._step:
            limits.append(0)
        eaten = (
            1,
            int(self.bits == IPV4),
            int(self.gateway is not None and self.local is None),
            hosts.size if hosts else 0,
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

    def _tightest(self) -> tuple[str, Range | None, str]:
        """The range that limits the nodes: its key, itself, and a word on what it has room for."""
        hosts = self.scheme.hosts
        if hosts and hosts.size == self.room:
            return "hosts" + self._six, hosts, ""
        return "pods" + self._six, self.scheme.pods, " blocks of %d" % self._step

    def _check_gateway(self) -> None:
        gateway, net = self.gateway, self.network
        key, said = "gateway" + self._six, self.scheme.gateway
        if self.local is not None:
            return
        if gateway is None:
            if said not in (None, NONE):
                self._add(CHOICE, key, "%s is no gateway" % said, "write first, last, none or an address of %s" % net)
            return
        remedy = "take an address from %s to %s" % (self._show(self._low), self._show(self._high))
        if not net.holds(gateway):
            self._add(OUTSIDE, key, "%s is not in %s" % (self._show(gateway), net), remedy)
        elif not self._low <= gateway <= self._high:
            message = "%s is the %s of %s" % (self._show(gateway), self._edge(gateway), net)
            self._add(UNUSABLE, key, message, remedy)

    def _check_range(self, key: str, held: Range) -> None:
        net = self.network
        remedy = "take addresses from %s to %s" % (self._show(self._low), self._show(self._high))
        if not (net.holds(held.first) and net.holds(held.last)):
            self._add(OUTSIDE, key, "%s is not in %s" % (held, net), remedy)
        elif held.first < self._low or held.last > self._high:
            edge = self._edge(held.first if held.first < self._low else held.last)
            self._add(UNUSABLE, key, "%s holds the %s of %s" % (held, edge, net), remedy)
        elif self.gateway is not None and held.holds(self.gateway):
            message = "%s holds the gateway %s" % (held, self._show(self.gateway))
            self._add(GATEWAY_HELD, key, message, "end the range before it, or move the gateway")

    def _edge(self, address: int) -> str:
        if address != self.network.first:
            return "broadcast address"
        return "network address" if self.bits == IPV4 else "address of any router (RFC 4291)"

    def _check_block(self, demand: Demand) -> None:
        if self.scheme.mode != BLOCK:
            return
        pods, block, six = self.scheme.pods, self.scheme.block, self._six
        if pods is None:
            self._add(MISSING, "pods" + six, "pods%s is missing" % six, "say which addresses are cut into blocks")
        if block is None:
            remedy = "say how many addresses of pods%s each node has, such as 16" % six
            self._add(MISSING, "block" + six, "block%s is missing" % six, remedy)
        elif pods and block > pods.size:
            message = "a block of %d is more than all of pods%s (%s, %d addresses)" % (block, six, pods, pods.size)
            self._add(SMALL, "block" + six, message, "widen the range, or lower the block")
        elif demand.pods_per_node and demand.pods_per_node > block:
            message = "a node has %d addresses, and pods_per_node is %d" % (block, demand.pods_per_node)
            self._add(SMALL, "block" + six, message, "set it to %d or more" % demand.pods_per_node)

    def _check_room(self, demand: Demand) -> None:
        pods, each = self.scheme.pods, demand.pods_per_node
        if demand.max_nodes and self.room is not None and demand.max_nodes > self.room:
            key, held, what = self._tightest()
            message = "%s (%s) has room for %d%s, and max_nodes is %d" % (key, held, self.room, what, demand.max_nodes)
            size = demand.max_nodes * (self._step if key.startswith("pods") else 1)
            self._add(GROWTH, key, message, "widen the range to %d addresses, or lower max_nodes" % size)
        if pods and each and not self._step and demand.most * each > pods.size:
            message = "%d nodes with %d pods each need %d addresses, and %s has %d" % (
                demand.most,
                each,
                demand.most * each,
                pods,
                pods.size,
            )
            self._add(PODS, "pods" + self._six, message, "widen the range, or lower pods_per_node")
