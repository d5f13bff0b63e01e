# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address planner: the addresses of each node on a rail, and the problems of a rail's address scheme.

A :class:`Planner` is for one family of one rail or plane. It calculates the addresses of a node from the node's index,
or unit and place, so the cost does not depend on the number of nodes. ``docs/addressing.md`` shows the arithmetic of
each mode. Call :meth:`Planner.problems` first: the other methods require a scheme without problems.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    LINK,
    PREFIX,
    RAILS,
    SIZE,
    SUBNET,
    Planner,
    Problem,
    Scheme,
    Units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.network_per_node import (
    NetworkPerNodePlanner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.shared_subnet import SharedSubnetPlanner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX, Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


def planner(scheme: Scheme, units: Units | None = None) -> Planner:
    """Return the planner for the mode of a scheme.

    :raises ValueError: for a mode without addresses.
    """
    if scheme.mode in (SUBNET, BLOCK):
        return SharedSubnetPlanner(scheme, units)
    if scheme.mode in (PREFIX, LINK):
        return NetworkPerNodePlanner(scheme, units)
    raise ValueError("the mode %s has no addresses" % scheme.mode)


def supernet_problem(supernet: Network, prefix: int, rails: int) -> Problem | None:
    """Return the problem of a supernet that is divided into a network of this prefix length per rail, or None.

    :param rails: the highest number of a rail with such a network.
    """
    suffix = SUFFIX[supernet.bits]
    if not supernet.prefix <= prefix <= supernet.bits:
        remedy = "write a number from %d to %d" % (supernet.prefix, supernet.bits)
        return Problem(SIZE, "rail_prefix" + suffix, "a /%d per rail does not fit into %s" % (prefix, supernet), remedy)
    room = 1 << prefix - supernet.prefix
    if rails <= room:
        return None
    message = "%s has room for %s, a /%d each, and there are %d" % (supernet, count(room, "rail"), prefix, rails)
    needed = prefix - (rails - 1).bit_length()
    remedy = "use a /%d or larger" % needed if needed >= 0 else "use smaller networks for the rails"
    return Problem(RAILS, "supernet" + suffix, message, remedy)
