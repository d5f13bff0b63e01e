# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Input and output of the address planner: schemes, demands, shares, problems and accounts."""

from __future__ import annotations

import abc
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
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
UNUSED = "unused"  # a key without effect in this mode
OUTSIDE = "outside"  # an address is not in the rail's subnet
UNUSABLE = "unusable"  # the network's own address or its broadcast address
GATEWAY_HELD = "gateway-held"  # a range holds the gateway
OVERLAP = "overlap"  # two ranges share addresses
REPEATED = "repeated"  # two ranges of one list share addresses
TAKEN = "taken"  # addresses are set aside, and none are left where some are needed
SMALL = "small"  # a node's share is too small for its gateway, its port and its pods
PODS = "pods"  # a rail's pods need more addresses than there are
GROWTH = "growth"  # not enough room for the declared number of nodes
UNITS = "units"  # not enough room for the units
FULL = "full"  # not enough room for a node of the file
RAILS = "rails"  # not enough room for the rails in their supernet


@dataclass(frozen=True)
class Problem:
    """What is wrong with a rail's addresses. ``key``: the key of the file that it is about, such as ``pods6``,
    ``taken.switches`` or ``node_prefix``; ``message`` and ``remedy`` are those of a finding. ``shared`` is the remedy
    instead where the value is written once for several rails."""

    kind: str
    key: str
    message: str
    remedy: str
    shared: str = ""


@dataclass(frozen=True)
class Scheme:
    """How one rail's addresses of one family are given out. The family is that of ``network``.

    ``gateway``: an address, ``first``, ``last`` or ``none``; None, for not stated, is ``none`` in the modes subnet and
    block and ``first`` in the mode prefix. An address is of ``network``, or link-local, which is outside the rail.
    ``host``: ``first``, ``last`` or ``none``; not stated, ``first``. ``leaf_end``: ``first`` or ``second``; not stated,
    ``second``. ``taken``: ranges that are not assigned, by name; a name may have several. Those in ``pods`` and
    ``hosts`` are excluded from them.
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

    @property
    def excluded(self) -> list[Range]:
        """Whatever is taken, in rising order."""
        return merged(held for _name, held in self.taken)


@dataclass(frozen=True)
class Units:
    """Scalable units, each with ``places`` for nodes, for good."""

    places: int

    def index(self, unit: int, place: int) -> int:
        """The index in the fabric of the node at a place (from 1) of a unit (from 1)."""
        return (unit - 1) * self.places + place


@dataclass(frozen=True)
class Demand:
    """What a rail must have addresses for: ``nodes`` that are on it now, the planned maximum, and the pods
    of each node that need an address at the same time. ``slots``: their number is that of the slots of a port."""

    nodes: int = 0
    max_nodes: int | None = None
    pods_per_node: int | None = None
    slots: bool = False

    @property
    def most(self) -> int:
        return max(self.nodes, self.max_nodes or 0)

    @property
    def key(self) -> str:
        """The key of the file that sets how many pods there are."""
        return "slots" if self.slots else "pods_per_node"

    @property
    def asked(self) -> str:
        return ("a port has %d slots" if self.slots else "pods_per_node is %d") % (self.pods_per_node or 0)


class Share(t.NamedTuple):
    """What one node has on a rail, as numbers; None where it has none.

    ``address``: its port's own. ``gateway``: its router, and so the leaf's address (``leaf``). ``prefix``: the prefix
    length of both, and of ``subnet``, the network's address that they and the pods' addresses are in. ``pods_first`` to
    ``pods_last``: its pods' own addresses; in the mode subnet those that the pods of all nodes share. In the mode link
    that is the port's one address: it is the pod's once the device is. ``ranges``: the same addresses in rising order,
    where they are several ranges; else None.
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


class Planner(abc.ABC):
    """What a scheme gives to each node. ``room``: the highest index it has addresses for; None: any."""

    room: int | None

    def __init__(self, scheme: Scheme, units: Units | None = None) -> None:
        self.scheme = scheme
        self.network = scheme.network
        self.bits = scheme.network.bits
        # A router that is known by its link-local address takes none of the rail's.
        stated = scheme.gateway
        self.local = stated if isinstance(stated, int) and link_local(stated, self.bits) else None
        self.units = units
        self._six = "6" if self.bits == IPV6 else ""
        self._wrong: list[Problem] = []

    @abc.abstractmethod
    def share(self, unit: int, place: int, index: int) -> Share:
        """A node's addresses. ``unit`` and ``place`` are looked at where there are units and the mode cuts by them,
        and otherwise ``index`` is; all count from 1."""

    def aggregate(self, unit: int) -> Network:
        """The one network that a unit's leaf on this rail advertises: the rail's own where units do not cut it."""
        return self.network

    def slots(self, share: Share, index: int, count: int, step: int) -> list[int | None]:
        """The pods' addresses of a node one by one, from the first on; None where there are no more.

        :param step: how many of the pool's addresses each node has, where all nodes share one pool.
        """
        if share.pods_first is None or share.pods_last is None:
            return [None] * count
        pool = Ranges(share.ranges or (Range(share.pods_first, share.pods_last, self.bits),))
        return [pool.at(number) for number in range(count)]

    @abc.abstractmethod
    def problems(self, demand: Demand) -> list[Problem]:
        """All that is wrong with the scheme, or falls short of what is asked for."""

    @abc.abstractmethod
    def beyond(self, name: str, unit: int, place: int, index: int) -> Problem | None:
        """The problem of a node without addresses. The highest index represents all nodes."""

    @property
    def holed(self) -> bool:
        """Whether some nodes have fewer addresses for pods than others: ask :meth:`short` of each."""
        return False

    def short(self, name: str, index: int, demand: Demand) -> Problem | None:
        """The problem of a node that has too few addresses for pods, because some of them are taken."""
        return None

    @abc.abstractmethod
    def capacity(self, demand: Demand) -> Capacity:
        """The account of the rail's addresses."""

    def _add(self, kind: str, key: str, message: str, remedy: str) -> None:
        self._wrong.append(Problem(kind, key, message, remedy))

    def _outside(self, key: str, held: Range, remedy: str) -> None:
        message = "%s is not in %s" % (held, self.network)
        first, last = held.first & self.network.size - 1, held.last & self.network.size - 1
        shared = "write an offset from each rail's network address, such as +%d" % first
        if held.first != held.last:
            shared += "-+%d" % last if first < last else "-+%d" % (first + 1)
        self._wrong.append(Problem(OUTSIDE, key, message, remedy, shared))

    def _show(self, address: int) -> str:
        return show(address, self.bits)

    def _taken_size(self, low: int, high: int) -> int:
        """Addresses from ``low`` to ``high`` that are taken, each counted once however many names it has."""
        whole = Range(low, high, self.bits)
        return sum(both.size for held in self.scheme.excluded for both in [held.overlap(whole)] if both)

    def _check_taken(self) -> None:
        """That what is taken is in the subnet, and under one name."""
        last: tuple[Range, str] | None = None
        for name, held in sorted(self.scheme.taken, key=lambda each: (each[1].first, each[1].last)):
            key = "taken.%s" % name
            if not (self.network.holds(held.first) and self.network.holds(held.last)):
                self._outside(key, held, "use addresses of the rail's subnet")
                continue
            both = last and held.overlap(last[0])
            if both and last:
                message = "%s is taken for %s and for %s" % (both, last[1], name)
                if name == last[1]:
                    message = "%s is in two ranges of %s" % (both, key)
                kind = REPEATED if name == last[1] else OVERLAP
                self._add(kind, key, message, "end one range before the other begins")
            if not last or held.last > last[0].last:
                last = (held, name)


def usable(first: int, last: int, bits: int) -> tuple[int, int]:
    """The addresses of a network that an interface may have. Both of a link's two are (RFC 3021, RFC 6164); else the
    first is the network's own or means any of its routers (RFC 4291), and IPv4's last is the broadcast address."""
    if last - first < 2:
        return first, last
    return first + 1, last - 1 if bits == IPV4 else last
