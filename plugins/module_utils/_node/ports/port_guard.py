# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Refuse rail ports on the management path, and routes of rails that would cut off the connection."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IP,
    SCOPE_UNIVERSE,
    Network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen, Target, at, find
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    connection,
)


class Guard:
    """``errors``: the refusals."""

    def __init__(self, system: System, observed: Seen, management: ManagementPath) -> None:
        self._system = system
        self._state = observed
        self._management = management
        self.errors: list[RailyardError] = []

    def check(self, targets: t.Sequence[Target], former: t.Sequence[Port]) -> None:
        """Refuse changes of the management path, and routes that would cut off the connection.

        :param former: the ports of earlier runs, whose settings are removed.
        """
        management = self._management
        for target in targets:
            why = management.why_netdev(target.link.name)
            if why:
                self._refuse(target.port, "%s %s" % (target.link.name, why))
            elif target.port.pci and management.why_function(target.port.pci):
                self._refuse(target.port, str(management.why_function(target.port.pci)))
            else:
                self._check_routes(target.port)
        target_indices = {target.link.ifindex for target in targets}
        for port in former:
            link, _problem = find(self._system, port, self._state)
            why = management.why_netdev(link.name) if link and link.ifindex not in target_indices else None
            if link and why:
                self._refuse(port, "%s %s, and was set up as a rail port before" % (link.name, why))

    def _refuse(self, port: Port, message: str) -> None:
        remedy = "leave it out: a rail port must not be an interface that the node is reached by"
        self.errors.append(Refused(message, at(port, "pci" if port.pci else "netdev"), remedy))

    def _check_routes(self, port: Port) -> None:
        session = connection(self._system)
        peer = session.peer if session else None
        for side in port.sides:
            self._check_network(port, side.key, side.address.network, peer)
        for number, route in enumerate(port.routes):
            if route.table is None:
                self._check_network(port, "routes[%d].to" % number, route.to, peer)

    def _check_network(self, port: Port, key: str, network: Network, peer: IP | None) -> None:
        """Refuse a route of the main table that would move traffic from the management path to a rail."""
        remedy = "plan another subnet for the rail: its route would cut off this connection"
        safe = False
        for netdev, why in self._management.netdevs.items():
            link = self._state.named(netdev)
            for other in self._state.of(link) if link else []:
                theirs = other.interface.network
                if other.scope != SCOPE_UNIVERSE or not theirs.overlaps(network):
                    continue
                if key.startswith("routes") and theirs.prefixlen > network.prefixlen:
                    # the longer prefix of the management path wins
                    safe = safe or (peer is not None and peer in theirs)
                    continue
                message = "%s overlaps %s of %s, which %s" % (network, other.interface, netdev, why)
                self.errors.append(Refused(message, at(port, key), remedy))
        if peer and peer in network and not safe:
            message = "%s contains %s, the peer of this connection" % (network, peer)
            self.errors.append(Refused(message, at(port, key), remedy))
