# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modes prefix and link of the address planner: each node has its own network."""

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
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    Network,
    Range,
    network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


class NetworkPerNodePlanner(Planner):
    """The modes prefix and link: each node has its own network, by its place in the aggregate of its unit, or its
    index.

    With ``node_aggregate``, a node has one aggregate, which is divided into the networks of its rails.

    ``length``: prefix length of a node's network. ``span_prefix``: prefix length of a unit's aggregate. ``pods_each``:
    addresses for the pods of a node.
    """

    room: int

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        net, link = self.network, scheme.mode == LINK
        length = self.bits - 1 if link else scheme.node_prefix
        aggregate = scheme.node_aggregate
        self._fits = length is not None and net.prefix <= length <= self.bits
        if self._fits and length is not None and aggregate is not None:
            self._fits = net.prefix <= aggregate <= length
        # With an impossible prefix length, which is a problem, the first node has the whole subnet.
        self.length = length if self._fits and length is not None else net.prefix
        # Addresses of a node, and of a unit, whose places are rounded up to a power of two.
        self._size = 1 << self.bits - self.length
        # Prefix length and size of the part of a node, which contains the networks of all its rails.
        self._each = self.length if aggregate is None or not self._fits else aggregate
        self._stride = 1 << self.bits - self._each
        part = scheme.part if aggregate is not None else None
        self._rails = part.rails if part else 1
        self._first = net.first + (part.number - 1) * self._size if part else net.first
        self._span = self._stride << (units.places - 1).bit_length() if units else net.size
        self.span_prefix = self.bits - (self._span.bit_length() - 1)
        # The taken range, with its name, before which the nodes end.
        self._stop: tuple[str, Range] | None = None
        self.room = self._room()
        # Offsets from the first address of a node's network.
        usable = network(0, self.length, self.bits).usable
        low, high = usable.first, usable.last
        self._usable = usable.size
        self._gateway: int | None = None
        self._host: int | None = None
        if link:
            self._gateway = int(scheme.leaf_end != FIRST)
            low = high = 1 - self._gateway
            self._host = None if scheme.host == NONE else low
        else:
            router = FIRST if scheme.gateway is None else scheme.gateway
            self._gateway, low, high = _split_end(router if self.link_local_gateway is None else NONE, low, high)
            self._host, low, high = _split_end(scheme.host or FIRST, low, high)
        self._low: int | None = low if low <= high else None
        self._high: int | None = high if low <= high else None
        self.pods_each = max(high - low + 1, 0)

    def share(self, unit: int, place: int, index: int) -> Share:
        first = self._first
        first += (unit - 1) * self._span + (place - 1) * self._stride if self.units else (index - 1) * self._stride
        gateway, host, low, high = self._gateway, self._host, self._low, self._high
        return Share(
            None if host is None else first + host,
            self.length,
            self.link_local_gateway if gateway is None else first + gateway,
            first,
            None if low is None else first + low,
            None if high is None else first + high,
        )

    def aggregate(self, unit: int) -> Network:
        if not self.units:
            return self.network
        return network(self.network.first + (unit - 1) * self._span, self.span_prefix, self.bits)

    def problems(self, demand: Demand) -> list[Problem]:
        self._problems = []
        scheme, suffix = self.scheme, self._suffix
        for key, pool in (("pods", scheme.pods), ("hosts", scheme.hosts)):
            if pool is not None:
                message = "%s%s has no effect in the mode %s" % (key, suffix, scheme.mode)
                self._add(UNUSED, key + suffix, message, "remove it, or use the mode subnet or block")
        if not self._fits:
            self._check_length()
            return self._problems
        if self._rails * self._size > self._stride:
            message = "a /%d per node has room for %s, a /%d each, and there are %d" % (
                self._each,
                count(self._stride // self._size, "rail"),
                self.length,
                self._rails,
            )
            remedy = "write %d or less" % (self.length - (self._rails - 1).bit_length())
            self._add(SIZE, "node_aggregate" + suffix, message, remedy)
            return self._problems
        if scheme.mode == PREFIX:
            self._check_share(demand)
        elif demand.pods_per_node and demand.pods_per_node > 1:
            message = "a link has one address, but %s" % demand.pods_text
            self._add(SMALL, "pods_per_node", message, "lower it to 1, or use the mode prefix")
        self._check_taken()
        if self.units and self._span > self.network.size:
            self._add(
                UNITS,
                "subnet" + suffix,
                "%s is smaller than one unit of %s with a /%d each, a /%d"
                % (self.network, count(self.units.places, "node"), self._each, self.span_prefix),
                "use a /%d or larger" % self.span_prefix,
            )
        elif not self.room and self._stop:
            name, taken = self._stop
            message = "%s, taken for %s, is in the addresses of the first node" % (taken, name)
            self._add(TAKEN, "taken.%s" % name, message, "use addresses at the end of %s" % self.network)
        elif demand.max_nodes and demand.max_nodes > self.room:
            self._problems.append(self._too_many(GROWTH, demand.max_nodes, "max_nodes is %d" % demand.max_nodes))
        return self._problems

    def index_problem(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        if (self.units.index(unit, place) if self.units else index) <= self.room:
            return None
        if self.units:
            return self._too_many(UNITS, unit * self.units.places, "%s is in unit %d" % (name, unit))
        return self._too_many(FULL, index, "%s has index %d" % (name, index))

    def capacity(self, demand: Demand) -> Capacity:
        pods_per_node, nodes = demand.pods_per_node, self.room
        network_addresses = nodes if self._size > 2 else 0
        link = self.scheme.mode == LINK
        used = (
            network_addresses,
            network_addresses if self.bits == IPV4 else 0,
            nodes if self._gateway is not None else 0,
            # The only address of a link counts as that of a pod.
            nodes if self._host is not None and not link else 0,
        )
        reserved, pods = self._taken_size(self.network.first, self.network.last), nodes * self.pods_each
        rails = nodes * (self._rails - 1) * self._size
        idle = self.network.size - sum(used) - reserved - pods - rails
        return Capacity(
            self.network.size,
            *used,
            reserved,
            idle,
            pods,
            0 if pods_per_node and pods_per_node > self.pods_each else nodes,
            self.pods_each,
            demand.planned_nodes * pods_per_node if pods_per_node else None,
            rails if self.scheme.node_aggregate is not None and self.scheme.part else None,
        )

    def _room(self) -> int:
        """Return the highest index whose network is in the subnet, and before the first node with a taken address."""
        places = self.units.places if self.units else 1
        span = self._span if self.units else self._stride
        spans = self.network.size // span
        for name, taken in self.scheme.taken:
            start, end = taken.first - self.network.first, taken.last - self.network.first
            if end < 0:
                continue
            number, offset = divmod(max(start, 0), span)
            if offset >= places * self._stride:
                # It begins after the last place of a unit, in addresses that are left by the rounding.
                number += 1
                if end < number * span:
                    continue
            if number < spans:
                spans, self._stop = number, (name, taken)
        return spans * places

    def _too_many(self, kind: str, nodes: int, why: str) -> Problem:
        """Return the problem of too many nodes. The remedy has the size of a subnet for ``nodes``."""
        places = self.units.places if self.units else 1
        span = self._span if self.units else self._stride
        room = count(self.room // places, "unit" if self.units else "node")
        if self.units:
            what = "%s of %s, a /%d each" % (room, count(places, "node"), self.span_prefix)
        else:
            what = "%s, a /%d each" % (room, self._each)
        if self._stop:
            name, taken = self._stop
            message = "%s, taken for %s, leaves room for %s, and %s" % (taken, name, what, why)
            return Problem(kind, "taken.%s" % name, message, "move it to the end of the subnet")
        message = "%s has room for %s, and %s" % (self.network, what, why)
        prefix = self.bits - (-(-nodes // places) * span - 1).bit_length()
        remedy = "use a /%d or larger" % prefix if prefix >= 0 else "use smaller networks for the nodes"
        return Problem(kind, "subnet" + self._suffix, message, remedy)

    def _check_length(self) -> None:
        """Add the problem of an impossible prefix length of a node, or of a subnet that is too small for a link."""
        net, suffix, aggregate = self.network, self._suffix, self.scheme.node_aggregate
        length = self.bits - 1 if self.scheme.mode == LINK else self.scheme.node_prefix
        if aggregate is not None and length is not None and net.prefix <= length <= self.bits:
            message = "a /%d per node does not fit into %s with a /%d per rail" % (aggregate, net, length)
            remedy = "write a number from %d to %d" % (net.prefix, length)
            self._add(SIZE, "node_aggregate" + suffix, message, remedy)
        elif self.scheme.mode == LINK:
            message = "%s is smaller than a /%d" % (net, self.bits - 1)
            self._add(SIZE, "subnet" + suffix, message, "use a /%d or larger" % (self.bits - 1))
        elif length is None:
            remedy = "set the prefix length of each node's network, such as %d" % (112 if suffix else 27)
            self._add(MISSING, "node_prefix" + suffix, "node_prefix%s is missing" % suffix, remedy)
        else:
            message = "a /%d per node does not fit into %s" % (length, net)
            self._add(SIZE, "node_prefix" + suffix, message, "write a number from %d to %d" % (net.prefix, self.bits))

    def _check_share(self, demand: Demand) -> None:
        """Add the problem of a prefix that is too small for the gateway, the port and the pods of a node."""
        scheme, suffix = self.scheme, self._suffix
        if scheme.gateway not in (None, FIRST, LAST, NONE) and self.link_local_gateway is None:
            gateway = scheme.gateway
            text = self._show(gateway) if isinstance(gateway, int) else gateway
            message = "%s cannot be the gateway of every node" % text
            self._add(
                CHOICE, "gateway" + suffix, message, "write first, last or none, which apply to each node's prefix"
            )
        pods = demand.pods_per_node or 1
        has_gateway = scheme.gateway != NONE and self.link_local_gateway is None
        needed = pods + has_gateway + (scheme.host != NONE)
        if self._usable >= needed:
            return
        parts = ["%d for pods" % pods]
        parts += ["1 for its port"] * (scheme.host != NONE) + ["1 for the gateway"] * has_gateway
        message = "a /%d has %d usable addresses, and a node needs %s" % (self.length, self._usable, ", ".join(parts))
        longest = next(
            length for length in range(self.bits, -1, -1) if network(0, length, self.bits).usable.size >= needed
        )
        self._add(SMALL, "node_prefix" + suffix, message, "write %d or less" % longest)


def _split_end(word: int | str, low: int, high: int) -> tuple[int | None, int, int]:
    """Return the first or the last of ``low`` to ``high``, None for another word; and the ends of the rest."""
    if low > high or word not in (FIRST, LAST):
        return None, low, high
    return (low, low + 1, high) if word == FIRST else (high, low, high - 1)
