# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The address planner: what each node gets on a rail, from its own place alone; and whether a rail's words hold.

A :class:`Planner` serves one rail (or one plane of it) in one family. It is arithmetic on integers: an answer costs the
same whatever the number of nodes, and nothing is kept of a node. ``docs/addressing.md`` works the modes out by hand.

Ask :meth:`Planner.problems` first: the other answers mean something where there are none.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    CHOICE,
    FIRST,
    FULL,
    GATEWAY_HELD,
    GROWTH,
    LAST,
    LINK,
    MISSING,
    MODES,
    NONE,
    OUTSIDE,
    OVERLAP,
    PODS,
    PREFIX,
    RAILS,
    REPEATED,
    SECOND,
    SIZE,
    SMALL,
    SUBNET,
    TAKEN,
    UNITS,
    UNUSABLE,
    UNUSED,
    Capacity,
    Demand,
    Planner,
    Problem,
    Scheme,
    Share,
    Units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.network_per_node import OwnPlanner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.shared_subnet import CommonPlanner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV6, Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

__all__ = (
    "BLOCK",
    "CHOICE",
    "Capacity",
    "Demand",
    "FIRST",
    "FULL",
    "GATEWAY_HELD",
    "GROWTH",
    "LAST",
    "LINK",
    "MISSING",
    "MODES",
    "NONE",
    "OUTSIDE",
    "OVERLAP",
    "PODS",
    "PREFIX",
    "Planner",
    "Problem",
    "RAILS",
    "REPEATED",
    "SECOND",
    "SIZE",
    "SMALL",
    "SUBNET",
    "Scheme",
    "Share",
    "TAKEN",
    "UNITS",
    "UNUSABLE",
    "UNUSED",
    "Units",
    "planner",
    "supernet_problem",
)


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
        return Problem(SIZE, "rail_prefix" + six, "a /%d per rail does not fit into %s" % (prefix, supernet), remedy)
    slots = 1 << prefix - supernet.prefix
    if rails <= slots:
        return None
    message = "%s has room for %s, a /%d each, and there are %d" % (supernet, count(slots, "rail"), prefix, rails)
    wide = prefix - (rails - 1).bit_length()
    remedy = "use a /%d or larger" % wide if wide >= 0 else "use smaller networks for the rails"
    return Problem(RAILS, "supernet" + six, message, remedy)
