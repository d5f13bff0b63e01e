# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Input and output of the address planner: schemes, demands, shares, problems and capacities."""

from __future__ import annotations

import abc
import itertools
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    SUFFIX,
    Network,
    Range,
    link_local,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, merged

SUBNET = "subnet"
BLOCK = "block"
PREFIX = "prefix"
LINK = "link"
# A rail with the mode none has no scheme.
MODES = (SUBNET, BLOCK, PREFIX, LINK, "none")

# How the rails of one network divide its ``hosts``: each rail has a range, or each node has consecutive addresses.
BY_RAIL = "rail"
BY_NODE = "node"
NUMBERINGS = (BY_RAIL, BY_NODE)

FIRST = "first"
LAST = "last"
SECOND = "second"
NONE = "none"

# Kinds of problems. Each is a different mistake.
MISSING = "missing"  # a key that the mode requires is missing
SIZE = "size"  # an impossible subnet or prefix length
CHOICE = "choice"  # a value that is invalid in the mode
UNUSED = "unused"  # a key without effect in the mode
OUTSIDE = "outside"  # an address is not in the rail's subnet
UNUSABLE = "unusable"  # the network address or the broadcast address
GATEWAY_HELD = "gateway-held"  # a range contains the gateway
OVERLAP = "overlap"  # two ranges share addresses
REPEATED = "repeated"  # two ranges of one list share addresses
TAKEN = "taken"  # no address remains, because all are in ``taken``
SMALL = "small"  # the addresses of a node are not enough for its gateway, its port and its pods
PODS = "pods"  # not enough addresses for the pods of a rail
GROWTH = "growth"  # not enough addresses for ``max_nodes``
UNITS = "units"  # not enough addresses for the units
FULL = "full"  # no address for a node of the file
RAILS = "rails"  # the supernet has not enough networks for the rails


@dataclass(frozen=True)
class Problem:
    """A problem of a rail's addresses.

    ``key``: the key of the file, such as ``pods6``, ``taken.switches`` or ``node_prefix``. ``message`` and ``remedy``:
    those of the finding. ``shared_remedy``: the remedy if the value applies to several rails; empty: ``remedy``.
    """

    kind: str
    key: str
    message: str
    remedy: str
    shared_remedy: str = ""


class Part(t.NamedTuple):
    """The part of a rail in a network that several rails have in common.

    ``number``: the number of the rail, from 1, of ``rails``. ``others``: how many addresses the other rails have in
    their own ranges. ``one_pool``: pods of all these rails get addresses from one pool.
    """

    number: int
    rails: int
    others: int = 0
    one_pool: bool = False


@dataclass(frozen=True)
class Scheme:
    """The address scheme of a rail in one family, that of ``network``. None: the file does not set the key.

    ``gateway``: an address in ``network``, a link-local address, ``first``, ``last`` or ``none``; default: ``none`` in
    the modes subnet and block, ``first`` in the mode prefix. ``host``: ``first`` (default), ``last`` or ``none``.
    ``leaf_end``: ``first`` or ``second`` (default). ``taken``: (name, range) of addresses that are not assigned; they
    are excluded from ``pods`` and ``hosts``. ``node_aggregate``: prefix length of the network that is divided into the
    networks of a node's rails. ``numbering``: one of NUMBERINGS; default: each rail has its own ``pods`` and ``hosts``.
    ``part``: None if no other rail has this network.
    """

    mode: str
    network: Network
    gateway: int | str | None = None
    pods: Ranges | None = None
    hosts: Ranges | None = None
    node_prefix: int | None = None
    block: int | None = None
    host: str | None = None
    leaf_end: str | None = None
    taken: tuple[tuple[str, Range], ...] = ()
    node_aggregate: int | None = None
    numbering: str | None = None
    part: Part | None = None

    @property
    def excluded(self) -> list[Range]:
        """The ranges in ``taken``, in ascending order and without overlaps."""
        return merged(taken for _name, taken in self.taken)

    @property
    def divided(self) -> Part | None:
        """The rail's part of ``pods`` and ``hosts``; None if the rail has all their addresses."""
        return self.part if self.numbering else None

    @property
    def own_pods(self) -> Ranges | None:
        """The rail's part of ``pods``, with taken addresses; None without such addresses."""
        return self.pods_of(self.divided)

    def pods_of(self, part: Part | None) -> Ranges | None:
        """Return the part of ``pods`` that a rail has, with taken addresses; None without such addresses."""
        return self.pods if part is None or part.one_pool else _equal_part(self.pods, part)

    def hosts_of(self, part: Part | None) -> Ranges | None:
        """Return the range of ``hosts`` for a rail, with taken addresses; None without such addresses.

        With the numbering by node, this is the range of all rails.
        """
        return self.hosts if part is None or self.numbering == BY_NODE else _equal_part(self.hosts, part)


def _equal_part(pool: Ranges | None, part: Part) -> Ranges | None:
    """Return the part of a rail, if all rails get equal parts of a pool. No part contains the rest at its end."""
    size = pool.size // part.rails if pool else 0
    return pool.cut((part.number - 1) * size, size) if pool else None


@dataclass(frozen=True)
class Units:
    """Scalable units. Each has ``places`` for nodes, a number that does not change."""

    places: int

    def index(self, unit: int, place: int) -> int:
        """Return the index of the node at a place of a unit, all numbers from 1."""
        return (unit - 1) * self.places + place


@dataclass(frozen=True)
class Demand:
    """The demand for addresses on a rail.

    ``nodes``: nodes of the file on the rail. ``max_nodes``: the planned maximum. ``pods_per_node``: pods of a node that
    need an address at the same time. ``slots``: that number is the number of slots of a port. ``pods_key``: the key of
    the file that determines it.
    """

    nodes: int = 0
    max_nodes: int | None = None
    pods_per_node: int | None = None
    slots: bool = False
    pods_key: str = "pods_per_node"

    @property
    def planned_nodes(self) -> int:
        """The number of nodes that need addresses."""
        return max(self.nodes, self.max_nodes or 0)

    @property
    def pods_text(self) -> str:
        """The number of pods as part of a message."""
        return ("a port has %d slots" if self.slots else "pods_per_node is %d") % (self.pods_per_node or 0)


class Share(t.NamedTuple):
    """The addresses of a node on a rail, as integers; None: the node has no such address.

    ``address``: the address of its port. ``gateway``: its router, which is the address of the leaf. ``subnet``: the
    address of the network that contains all its addresses; ``prefix``: the prefix length of that network.
    ``pods_first``, ``pods_last``: the lowest and the highest address for its pods; in the mode subnet, all nodes share
    them; in the mode link, it is the address of the port, which moves into the pod with the device. ``ranges``: the
    addresses for pods in ascending order, if they are several ranges; else None.
    """

    address: int | None
    prefix: int
    gateway: int | None
    subnet: int
    pods_first: int | None
    pods_last: int | None
    ranges: tuple[Range, ...] | None = None

    @property
    def leaf(self) -> int | None:
        return self.gateway


@dataclass(frozen=True)
class Capacity:
    """The use of all ``addresses`` of a rail that has the maximum number of nodes.

    ``network``, ``broadcast``: network addresses (IPv6: those of any router) and broadcast addresses. ``gateway``,
    ``hosts``, ``pods``: addresses of gateways, ports and pods. ``reserved``: addresses in ``taken``. ``idle``:
    addresses that cannot be assigned. ``rails``: addresses of other rails with the same network; None without such
    rails. These numbers add up to ``addresses``. ``nodes``: the maximum number of nodes; None: no limit. ``share``:
    addresses for the pods of a node; None: all nodes share them. ``needed``: addresses that pods need; None: unknown.
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
    rails: int | None = None

    def document(self) -> dict[str, t.Any]:
        """Return the form of the plan document."""
        return {
            "addresses": self.addresses,
            "taken": {
                "network": self.network,
                "broadcast": self.broadcast,
                "gateway": self.gateway,
                "hosts": self.hosts,
                "reserved": self.reserved,
                "idle": self.idle,
                **({} if self.rails is None else {"rails": self.rails}),
            },
            "pods": self.pods,
            "pods_per_node": self.share,
            "nodes": self.nodes,
            "needed": self.needed,
        }


class Planner(abc.ABC):
    """Calculates addresses of nodes from a scheme. ``room``: the highest index with addresses; None: no limit."""

    room: int | None

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        self.scheme = scheme
        self.network = scheme.network
        self.bits = scheme.network.bits
        # A link-local gateway does not use an address of the rail.
        gateway = scheme.gateway
        self.link_local_gateway = gateway if isinstance(gateway, int) and link_local(gateway, self.bits) else None
        self.units = units
        self._suffix = SUFFIX[self.bits]
        self._problems: list[Problem] = []

    @abc.abstractmethod
    def share(self, unit: int, place: int, index: int) -> Share:
        """Return the addresses of a node.

        The modes prefix and link with units use ``unit`` and ``place``, all others ``index``. All count from 1.
        """

    def aggregate(self, unit: int) -> Network:
        """Return the network that the leaf of a unit advertises: that of the rail, unless units divide it."""
        return self.network

    def slots(self, share: Share, index: int, count: int, step: int) -> list[int | None]:
        """Return the addresses of ``count`` slots of a node; None for slots beyond its addresses.

        :param step: addresses of each node in the pool, if all nodes share one pool.
        """
        if share.pods_first is None or share.pods_last is None:
            return [None] * count
        parts = share.ranges or (Range(share.pods_first, share.pods_last, self.bits),)
        addresses = itertools.chain.from_iterable(range(part.first, part.last + 1) for part in parts)
        found = list(itertools.islice(addresses, count))
        return [*found, *[None] * (count - len(found))]

    @abc.abstractmethod
    def problems(self, demand: Demand) -> list[Problem]:
        """Return the problems of the scheme, including demands that it does not meet."""

    @abc.abstractmethod
    def index_problem(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        """Return the problem of a node without addresses; None if it has some. Call it for the highest index."""

    @property
    def has_partial_blocks(self) -> bool:
        """Whether some nodes have fewer addresses for pods than others. Then call :meth:`block_problem` for each
        node."""
        return False

    def block_problem(self, name: str, index: int, demand: Demand) -> Problem | None:
        """Return the problem of a node with too few addresses for pods, because some are taken; None if it has
        enough."""
        return None

    @abc.abstractmethod
    def capacity(self, demand: Demand) -> Capacity:
        """Return the use of the rail's addresses."""

    def _add(self, kind: str, key: str, message: str, remedy: str) -> None:
        self._problems.append(Problem(kind, key, message, remedy))

    def _outside(self, key: str, part: Range, remedy: str) -> None:
        """Add the problem of a range outside the network."""
        message = "%s is not in %s" % (part, self.network)
        first, last = part.first & self.network.size - 1, part.last & self.network.size - 1
        shared = "write an offset from each rail's network address, such as +%d" % first
        if part.first != part.last:
            shared += "-+%d" % last if first < last else "-+%d" % (first + 1)
        self._problems.append(Problem(OUTSIDE, key, message, remedy, shared))

    def _show(self, address: int) -> str:
        return show(address, self.bits)

    def _taken_size(self, low: int, high: int) -> int:
        """Return how many addresses from ``low`` to ``high`` are taken. An address with several names counts once."""
        overlaps = (taken.overlap(Range(low, high, self.bits)) for taken in self.scheme.excluded)
        return sum(overlap.size for overlap in overlaps if overlap)

    def _check_taken(self) -> None:
        """Add the problems of taken ranges outside the subnet, and of those that overlap."""
        last: tuple[Range, str] | None = None
        for name, taken in sorted(self.scheme.taken, key=lambda named: (named[1].first, named[1].last)):
            key = "taken.%s" % name
            if not (self.network.holds(taken.first) and self.network.holds(taken.last)):
                self._outside(key, taken, "use addresses of the rail's subnet")
                continue
            overlap = last and taken.overlap(last[0])
            if overlap and last:
                message = "%s is taken for %s and for %s" % (overlap, last[1], name)
                if name == last[1]:
                    message = "%s is in two ranges of %s" % (overlap, key)
                kind = REPEATED if name == last[1] else OVERLAP
                self._add(kind, key, message, "end one range before the other begins")
            if not last or taken.last > last[0].last:
                last = (taken, name)
