# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The routes through the gateway of a rail: a default route, or routes to the rail's networks.

Host variables, specs of agents, Kubernetes objects and verify take them from here.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.network_per_node import (
    NetworkPerNodePlanner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Routing
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE, IPV4


def gateway_routes(routing: Routing, planner: Planner) -> list[str]:
    """Return the networks that a node's port and its pods on a rail reach through the gateway."""
    network = planner.network
    if routing.mode == "source" and routing.cross_rail:
        return [ANYWHERE[4 if planner.bits == IPV4 else 6]]
    # An address has a route to the network of its node. Only the leaf has routes to the networks of other nodes.
    several = isinstance(planner, NetworkPerNodePlanner) and planner.length > network.prefix
    return [str(network)] if several else []
