# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The modes prefix and link of the address planner: each node in a network of its own."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    CHOICE,
    FIRST,
    FULL,
    GROWTH,
    LAST,
    LINK,
    MISSING,
    NONE,
    PREFIX,
    SIZE,
    SMALL,
    TAKEN,
    UNITS,
    UNUSED,
    Capacity,
    Demand,
    Planner,
    Problem,
    Scheme,
    Share,
    Units,
    usable,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    Network,
    Range,
    network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


class OwnPlanner(Planner):
    """The modes prefix and link: each node has a network of its own, at its place in its unit's aggregate."""

    room: int

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        net, link = self.network, scheme.mode == LINK
        given = self.bits - 1 if link else scheme.node_prefix
        self._fits = given is not None and net.prefix <= given <= self.bits
        # An impossible prefix is a problem; until it is corrected, the first node has the whole subnet.
        self.length = given if self._fits and given is not None else net.prefix
        self._size = 1 << self.bits - self.length
        self._span = self._size << (units.places - 1).bit_length() if units else net.size
        self.span_prefix = self.bits - (self._span.bit_length() - 1)
        self._stop: tuple[str, Range] | None = None
        self.room = self._room()
        low, high = usable(0, self._size - 1, self.bits)
        self._usable = high - low + 1
        self._gateway: int | None = None
        self._host: int | None = None
        if link:
            self._gateway = int(scheme.leaf_end != FIRST)
            low = high = 1 - self._gateway
            self._host = None if scheme.host == NONE else low
        else:
            router = FIRST if scheme.gateway is None else scheme.gateway
            self._gateway, low, high = _end(router if self.local is None else NONE, low, high)
            self._host, low, high = _end(scheme.host or FIRST, low, high)
        self._low: int | None = low if low <= high else None
        self._high: int | None = high if low <= high else None
        self.each = max(high - low + 1, 0)

    def share(self, unit: int, place: int, index: int) -> Share:
        first = self.network.first
        first += (unit - 1) * self._span + (place - 1) * self._size if self.units else (index - 1) * self._size
        gateway, host, low, high = self._gateway, self._host, self._low, self._high
        return Share(
            None if host is None else first + host,
            self.length,
            self.local if gateway is None else first + gateway,
            first,
            None if low is None else first + low,
            None if high is None else first + high,
        )

    def aggregate(self, unit: int) -> Network:
        if not self.units:
            return self.network
        return network(self.network.first + (unit - 1) * self._span, self.span_prefix, self.bits)

    def problems(self, demand: Demand) -> list[Problem]:
        self._wrong = []
        scheme, six = self.scheme, self._six
        for key, pool in (("pods", scheme.pods), ("hosts", scheme.hosts)):
            if pool is not None:
                message = "%s%s has no effect where each node has its own network" % (key, six)
                self._add(UNUSED, key + six, message, "remove it, or use the mode subnet or block")
        if not self._fits:
            self._check_length()
            return self._wrong
        if scheme.mode == PREFIX:
            self._check_share(demand)
        elif demand.pods_per_node and demand.pods_per_node > 1:
            message = "a link has one address, but %s" % demand.asked
            self._add(SMALL, "pods_per_node", message, "lower it to 1, or use the mode prefix")
        self._check_taken()
        if self.units and self._span > self.network.size:
            self._add(
                UNITS,
                "subnet" + six,
                "%s is smaller than one unit of %s with a /%d each, a /%d"
                % (self.network, count(self.units.places, "node"), self.length, self.span_prefix),
                "use a /%d or larger" % self.span_prefix,
            )
        elif not self.room and self._stop:
            name, held = self._stop
            message = "%s, taken for %s, is in the addresses of the first node" % (held, name)
            self._add(TAKEN, "taken.%s" % name, message, "use addresses at the end of %s" % self.network)
        elif demand.max_nodes and demand.max_nodes > self.room:
            self._wrong.append(self._short(GROWTH, demand.max_nodes, "max_nodes is %d" % demand.max_nodes))
        return self._wrong

    def beyond(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        if (self.units.index(unit, place) if self.units else index) <= self.room:
            return None
        if self.units:
            return self._short(UNITS, unit * self.units.places, "%s is in unit %d" % (name, unit))
        return self._short(FULL, index, "%s has index %d" % (name, index))

    def capacity(self, demand: Demand) -> Capacity:
        each, nodes = demand.pods_per_node, self.room
        network_own = nodes if self._size > 2 else 0
        link = self.scheme.mode == LINK
        eaten = (
            network_own,
            network_own if self.bits == IPV4 else 0,
            nodes if self._gateway is not None else 0,
            # A link's one address is counted as the pod's.
            nodes if self._host is not None and not link else 0,
        )
        reserved, pods = self._taken_size(self.network.first, self.network.last), nodes * self.each
        idle = self.network.size - sum(eaten) - reserved - pods
        return Capacity(
            self.network.size,
            *eaten,
            reserved,
            idle,
            pods,
            0 if each and each > self.each else nodes,
            self.each,
            demand.most * each if each else None,
        )

    def _room(self) -> int:
        """The highest index before the subnet ends, or before an address is taken that a node would have."""
        places = self.units.places if self.units else 1
        span = self._span if self.units else self._size
        whole = self.network.size // span
        for name, held in self.scheme.taken:
            start, end = held.first - self.network.first, held.last - self.network.first
            if end < 0:
                continue
            at, within = divmod(max(start, 0), span)
            if within >= places * self._size:
                # It begins in the places that the rounding up to a power of two leaves over in a unit.
                at += 1
                if end < at * span:
                    continue
            if at < whole:
                whole, self._stop = at, (name, held)
        return whole * places

    def _short(self, kind: str, nodes: int, why: str) -> Problem:
        """The problem of too many nodes, with the size of a subnet that is large enough."""
        places = self.units.places if self.units else 1
        span = self._span if self.units else self._size
        room = count(self.room // places, "unit" if self.units else "node")
        if self.units:
            what = "%s of %s, a /%d each" % (room, count(places, "node"), self.span_prefix)
        else:
            what = "%s, a /%d each" % (room, self.length)
        if self._stop:
            name, held = self._stop
            message = "%s, taken for %s, leaves room for %s, and %s" % (held, name, what, why)
            return Problem(kind, "taken.%s" % name, message, "move it to the end of the subnet")
        message = "%s has room for %s, and %s" % (self.network, what, why)
        prefix = self.bits - (-(-nodes // places) * span - 1).bit_length()
        remedy = "use a /%d or larger" % prefix if prefix >= 0 else "use smaller networks for the nodes"
        return Problem(kind, "subnet" + self._six, message, remedy)

    def _check_length(self) -> None:
        """An impossible prefix length of a node, or a subnet that is not a link."""
        net, given, six = self.network, self.scheme.node_prefix, self._six
        if self.scheme.mode == LINK:
            message = "%s is smaller than a /%d" % (net, self.bits - 1)
            self._add(SIZE, "subnet" + six, message, "use a /%d or larger" % (self.bits - 1))
        elif given is None:
            remedy = "set the prefix length of each node's network, such as %d" % (112 if six else 27)
            self._add(MISSING, "node_prefix" + six, "node_prefix%s is missing" % six, remedy)
        else:
            message = "a /%d per node does not fit into %s" % (given, net)
            self._add(SIZE, "node_prefix" + six, message, "write a number from %d to %d" % (net.prefix, self.bits))

    def _check_share(self, demand: Demand) -> None:
        """That a node's prefix is enough for its gateway, its port and its pods."""
        scheme, six = self.scheme, self._six
        if scheme.gateway not in (None, FIRST, LAST, NONE) and self.local is None:
            given = scheme.gateway
            text = self._show(given) if isinstance(given, int) else given
            message = "%s cannot be the gateway of every node" % text
            self._add(CHOICE, "gateway" + six, message, "write first, last or none, which apply to each node's prefix")
        need = demand.pods_per_node or 1
        router = scheme.gateway != NONE and self.local is None
        own = router + (scheme.host != NONE)
        if self._usable >= own + need:
            return
        parts = ["%d for pods" % need]
        parts += ["1 for its port"] * (scheme.host != NONE) + ["1 for the gateway"] * router
        message = "a /%d has %d usable addresses, and a node needs %s" % (self.length, self._usable, ", ".join(parts))
        wide = next(
            length
            for length in range(self.bits, -1, -1)
            if _usable_size(1 << self.bits - length, self.bits) >= own + need
        )
        self._add(SMALL, "node_prefix" + six, message, "write %d or less" % wide)


def _usable_size(size: int, bits: int) -> int:
    low, high = usable(0, size - 1, bits)
    return high - low + 1


def _end(word: int | str, low: int, high: int) -> tuple[int | None, int, int]:
    """The first or the last of ``low`` to ``high``, and what is left."""
    if low > high or word not in (FIRST, LAST):
        return None, low, high
    return (low, low + 1, high) if word == FIRST else (high, low, high - 1)
