# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The address planner: what each node gets on a rail, from its own place alone; and whether a rail's words hold.

A :class:`Planner` serves one rail (or one plane of it) in one family. It is arithmetic on integers: an answer costs the
same whatever the number of nodes, and nothing is kept of a node. ``docs/addressing.md`` works the modes out by hand.

Ask :meth:`Planner.problems` first: the other answers mean something where there are none.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    IPV4,
    IPV6,
    Network,
    Range,
    network,
    show,
)

SUBNET = "subnet"
BLOCK = "block"
PREFIX = "prefix"
LINK = "link"
# A rail of the mode none has no scheme.
MODES = (SUBNET, BLOCK, PREFIX, LINK, "none")

FIRST = "first"
LAST = "last"
SECOND = "second"
NONE = "none"

# Kinds of problems, each a mistake of its own.
MISSING = "missing"  # a key that the mode needs is not given
SIZE = "size"  # a subnet or a prefix length that cannot be
CHOICE = "choice"  # a word or an address that the mode has no meaning for
UNUSED = "unused"  # a key that says nothing in this mode
OUTSIDE = "outside"  # an address is not in the rail's subnet
UNUSABLE = "unusable"  # the network's own address or its broadcast address
GATEWAY_HELD = "gateway-held"  # a range holds the gateway
OVERLAP = "overlap"  # two ranges share addresses
TAKEN = "taken"  # addresses are set aside among those of nodes
SMALL = "small"  # a node's share is too small for its gateway, its port and its pods
PODS = "pods"  # a rail's pods need more addresses than there are
GROWTH = "growth"  # there is no room for the declared number of nodes
UNITS = "units"  # there is no room for the units
FULL = "full"  # there is no room for a node that is in the file
RAILS = "rails"  # there is no room for the rails in their supernet


@dataclass(frozen=True)
class Problem:
    """What is wrong with a rail's addresses. ``key``: the key of the file that it is about, such as ``pods6``,
    ``taken.switches`` or ``node_prefix``; ``message`` and ``remedy`` are those of a finding."""

    kind: str
    key: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Scheme:
    """How one rail's addresses of one family are given out. The family is that of ``network``.

    ``gateway``: an address, ``first``, ``last`` or ``none``; None, for not said, is ``none`` in the modes subnet and
    block and ``first`` in the mode prefix. ``host``: ``first``, ``last`` or ``none``; not said, ``first``.
    ``leaf_end``: ``first`` or ``second``; not said, ``second``. ``taken``: ranges that nobody gets, with their names.
    """

    mode: str
    network: Network
    gateway: int | str | None = None
    pods: Range | None = None
    hosts: Range | None = None
    node_prefix: int | None = None
    block: int | None = None
    host: str | None = None
    leaf_end: str | None = None
    taken: tuple[tuple[str, Range], ...] = ()


@dataclass(frozen=True)
class Units:
    """Scalable units, each with ``places`` for nodes, for good."""

    places: int

    def index(self, unit: int, place: int) -> int:
        """The index in the fabric of the node at a place (from 1) of a unit (from 1)."""
        return (unit - 1) * self.places + place


@dataclass(frozen=True)
class Demand:
    """What a rail must have addresses for: ``nodes`` that are on it now, the nodes it shall have one day, and the pods
    of each node that need an address at the same time."""

    nodes: int = 0
    max_nodes: int | None = None
    pods_per_node: int | None = None

    @property
    def most(self) -> int:
        return max(self.nodes, self.max_nodes or 0)


class Share(t.NamedTuple):
    """What one node has on a rail, as numbers; None where it has none.

    ``address``: its port's own. ``gateway``: its router, and so the leaf's address (``leaf``). ``prefix``: the prefix
    length of both, and of ``subnet``, the network's address that they and the pods' addresses are in. ``pods_first`` to
    ``pods_last``: its pods' own addresses; in the mode subnet those that the pods of all nodes share. In the mode link
    that is the port's one address: it is the pod's once the device is.
    """

    address: int | None
    prefix: int
    gateway: int | None
    subnet: int
    pods_first: int | None
    pods_last: int | None

    @property
    def leaf(self) -> int | None:
        return self.gateway


@dataclass(frozen=True)
class Capacity:
    """Where each of a rail's ``addresses`` goes when it is as full as its words let it be.

    ``network``: networks' own addresses (IPv6: those that mean any router), ``hosts``: the ports' own, ``reserved``:
    those taken, ``idle``: those that nothing can be given; with ``broadcast``, ``gateway`` and ``pods`` they add up to
    ``addresses``. ``nodes``: the most nodes it can hold, None where it does not limit them; ``share``: each one's pod
    addresses, None where all share them. ``needed``: the pod addresses that are asked for, None where nothing is.
    """

    addresses: int
    network: int
    broadcast: int
    gateway: int
    hosts: int
    reserved: int
    idle: int
    pods: int
    nodes: int | None
    share: int | None
    needed: int | None

    def document(self) -> dict[str, t.Any]:
        """As the plan's document has it."""
        return {
            "addresses": self.addresses,
            "taken": {
                "network": self.network,
                "broadcast": self.broadcast,
                "gateway": self.gateway,
                "hosts": self.hosts,
                "reserved": self.reserved,
                "idle": self.idle,
            },
            "pods": self.pods,
            "pods_per_node": self.share,
            "nodes": self.nodes,
            "needed": self.needed,
        }


class Planner:
    """What a scheme gives to each node. ``room``: the highest index it has addresses for; None: any."""

    room: int | None

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        self.scheme = scheme
        self.network = scheme.network
        self.bits = scheme.network.bits
        self.units = units
        self._six = "6" if self.bits == IPV6 else ""
        self._wrong: list[Problem] = []

    def share(self, unit: int, place: int, index: int) -> Share:
        """A node's addresses. ``unit`` and ``place`` are looked at where there are units and the mode cuts by them,
        and otherwise ``index`` is; all count from 1."""
        raise NotImplementedError

    def aggregate(self, unit: int) -> Network:
        """The one network that a unit's leaf on this rail advertises: the rail's own where units do not cut it."""
        return self.network

    def problems(self, demand: Demand) -> list[Problem]:
        """All that is wrong with the scheme, or falls short of what is asked for."""
        raise NotImplementedError

    def beyond(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        """The problem of a node that there are no addresses for; asked of the highest index, it speaks for all."""
        raise NotImplementedError

    def capacity(self, demand: Demand) -> Capacity:
        """The account of the rail's addresses."""
        raise NotImplementedError

    def _add(self, kind: str, key: str, message: str, remedy: str) -> None:
        self._wrong.append(Problem(kind, key, message, remedy))

    def _show(self, address: int) -> str:
        return show(address, self.bits)

    def _taken_size(self, low: int, high: int) -> int:
        """Addresses from ``low`` to ``high`` that are taken, each counted once however many names it has."""
        size, end = 0, low - 1
        for held in sorted((held for _name, held in self.scheme.taken), key=lambda each: each.first):
            first, last = max(held.first, end + 1), min(held.last, high)
            if first <= last:
                size, end = size + last - first + 1, last
        return size

    def _check_taken(self) -> None:
        """That what is taken is in the subnet, and under one name."""
        last: tuple[Range, str] | None = None
        for name, held in sorted(self.scheme.taken, key=lambda each: (each[1].first, each[1].last)):
            key = "taken.%s" % name
            if not (self.network.holds(held.first) and self.network.holds(held.last)):
                self._add(OUTSIDE, key, "%s is not in %s" % (held, self.network), "take addresses of the rail's subnet")
                continue
            both = last and held.overlap(last[0])
            if both and last:
                message = "%s is taken for %s and for %s" % (both, last[1], name)
                self._add(OVERLAP, key, message, "let one range end where the other begins")
            if not last or held.last > last[0].last:
                last = (held, name)


def planner(scheme: Scheme, units: Units | None = None) -> Planner:
    """The planner of a scheme's mode.

    :raises ValueError: for a mode without addresses, or none.
    """
    if scheme.mode in (SUBNET, BLOCK):
        return CommonPlanner(scheme, units)
    if scheme.mode in (PREFIX, LINK):
        return OwnPlanner(scheme, units)
    raise ValueError("the mode %s has no addresses" % scheme.mode)


def supernet_problem(supernet: Network, prefix: int, rails: int) -> Problem | None:
    """What is wrong with a supernet out of which each rail, by its number, is cut a network of that prefix length."""
    six = "6" if supernet.bits == IPV6 else ""
    if not supernet.prefix <= prefix <= supernet.bits:
        remedy = "write a number from %d to %d" % (supernet.prefix, supernet.bits)
        return Problem(SIZE, "rail_prefix" + six, "a /%d a rail is not in %s" % (prefix, supernet), remedy)
    slots = 1 << prefix - supernet.prefix
    if rails <= slots:
        return None
    message = "%s has room for %d rails, a /%d each, and there are %d" % (supernet, slots, prefix, rails)
    wide = prefix - (rails - 1).bit_length()
    remedy = "take a /%d or larger" % wide if wide >= 0 else "take smaller networks a rail"
    return Problem(RAILS, "supernet" + six, message, remedy)


def usable(first: int, last: int, bits: int) -> tuple[int, int]:
    """The addresses of a network that an interface may have. Both of a link's two are (RFC 3021, RFC 6164); else the
    first is the network's own or means any of its routers (RFC 4291), and IPv4's last is the broadcast address."""
    if last - first < 2:
        return first, last
    return first + 1, last - 1 if bits == IPV4 else last


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
        eaten = (1, int(self.bits == IPV4), int(self.gateway is not None), hosts.size if hosts else 0)
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


class OwnPlanner(Planner):
    """The modes prefix and link: each node has a network of its own, at its place in its unit's aggregate."""

    room: int

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        super().__init__(scheme, units)
        net, link = self.network, scheme.mode == LINK
        said = self.bits - 1 if link else scheme.node_prefix
        self._fits = said is not None and net.prefix <= said <= self.bits
        # A prefix that cannot be is a problem; until it is mended, the whole subnet is the first node's.
        self.length = said if self._fits and said is not None else net.prefix
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
            self._gateway, low, high = _end(FIRST if scheme.gateway is None else scheme.gateway, low, high)
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
            None if gateway is None else first + gateway,
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
        for key, held in (("pods", scheme.pods), ("hosts", scheme.hosts)):
            if held is not None:
                message = "%s%s says nothing where each node has a network of its own" % (key, six)
                self._add(UNUSED, key + six, message, "take it out, or take the mode subnet or block")
        if not self._fits:
            self._check_length()
            return self._wrong
        if scheme.mode == PREFIX:
            self._check_share(demand)
        elif demand.pods_per_node and demand.pods_per_node > 1:
            message = "a link has one address, and pods_per_node is %d" % demand.pods_per_node
            self._add(SMALL, "pods_per_node", message, "lower it to 1, or take the mode prefix")
        self._check_taken()
        if self.units and self._span > self.network.size:
            self._add(
                UNITS,
                "subnet" + six,
                "%s is smaller than one unit of %d nodes with a /%d each, a /%d"
                % (self.network, self.units.places, self.length, self.span_prefix),
                "take a /%d or larger" % self.span_prefix,
            )
        elif not self.room and self._stop:
            name, held = self._stop
            message = "%s, taken for %s, is in the addresses of the first node" % (held, name)
            self._add(TAKEN, "taken.%s" % name, message, "take addresses at the end of %s" % self.network)
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
        """That there is no room for so many nodes, and how large a subnet would have it."""
        places = self.units.places if self.units else 1
        span = self._span if self.units else self._size
        what = "units of %d nodes, a /%d each" % (places, self.span_prefix) if self.units else "nodes, a /%d each"
        what = what if self.units else what % self.length
        count = self.room // places
        if self._stop:
            name, held = self._stop
            message = "%s, taken for %s, leaves room for %d %s, and %s" % (held, name, count, what, why)
            return Problem(kind, "taken.%s" % name, message, "move it to the end of the subnet")
        message = "%s has room for %d %s, and %s" % (self.network, count, what, why)
        prefix = self.bits - (-(-nodes // places) * span - 1).bit_length()
        remedy = "take a /%d or larger" % prefix if prefix >= 0 else "take smaller networks a node"
        return Problem(kind, "subnet" + self._six, message, remedy)

    def _check_length(self) -> None:
        """For a node's prefix length that cannot be, or a subnet that is no link."""
        net, said, six = self.network, self.scheme.node_prefix, self._six
        if self.scheme.mode == LINK:
            message = "%s is no /%d, and smaller than one" % (net, self.bits - 1)
            self._add(SIZE, "subnet" + six, message, "take a /%d or larger" % (self.bits - 1))
        elif said is None:
            remedy = "say how long each node's prefix is, such as %d" % (80 if six else 27)
            self._add(MISSING, "node_prefix" + six, "node_prefix%s is missing" % six, remedy)
        else:
            message = "a /%d a node is not in %s" % (said, net)
            self._add(SIZE, "node_prefix" + six, message, "write a number from %d to %d" % (net.prefix, self.bits))

    def _check_share(self, demand: Demand) -> None:
        """That a node's prefix is enough for its gateway, its port and its pods."""
        scheme, six = self.scheme, self._six
        if scheme.gateway not in (None, FIRST, LAST, NONE):
            said = scheme.gateway
            message = "%s cannot be the gateway of every node" % (self._show(said) if isinstance(said, int) else said)
            self._add(CHOICE, "gateway" + six, message, "write first, last or none: of each node's prefix")
        need = demand.pods_per_node or 1
        own = (scheme.gateway != NONE) + (scheme.host != NONE)
        if self._usable >= own + need:
            return
        parts = ["%d for pods" % need]
        parts += ["1 for its port"] * (scheme.host != NONE) + ["1 for the gateway"] * (scheme.gateway != NONE)
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
