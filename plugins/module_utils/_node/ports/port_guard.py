# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse rail ports on the management path, and routes of rails that would cut off the connection."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import SCOPE_UNIVERSE, Network
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen, Target, at, find
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    Connection,
    ManagementPath,
    connection,
)


def refusals(
    system: System, observed: Seen, targets: t.Sequence[Target], former: t.Sequence[Port]
) -> t.Iterator[Refused]:
    """Yield the refusals to change the management path, and of routes that would cut off the connection.

    :param former: the ports of earlier runs, whose settings are removed.
    """
    management = ManagementPath.observe(system)
    session = connection(system)
    for port, link, _name in targets:
        why = management.why_netdev(link.name)
        text = "%s %s" % (link.name, why) if why else management.why_function(port.pci) if port.pci else None
        if text:
            yield _refused(port, text)
            continue
        for side in port.sides:
            yield from _of_network(port, side.key, side.address.network, observed, management, session)
        for number, route in enumerate(port.routes):
            if route.table is None:
                key = "routes[%d].to" % number
                yield from _of_network(port, key, route.to, observed, management, session)
    target_indices = {target.link.ifindex for target in targets}
    for port in former:
        found, _problem = find(system, port, observed)
        why = management.why_netdev(found.name) if found and found.ifindex not in target_indices else None
        if found and why:
            yield _refused(port, "%s %s, and was set up as a rail port before" % (found.name, why))


def _refused(port: Port, message: str) -> Refused:
    remedy = "leave it out: a rail port must not be an interface that the node is reached by"
    return Refused(message, at(port, "pci" if port.pci else "netdev"), remedy)


def _of_network(
    port: Port,
    key: str,
    network: Network,
    observed: Seen,
    management: ManagementPath,
    session: Connection | None,
) -> t.Iterator[Refused]:
    """Yield the refusals of a route of the main table that would move traffic from the management path to a rail."""
    remedy = "plan another subnet for the rail: its route would cut off this connection"
    safe = False
    for netdev, why in management.netdevs.items():
        link = observed.named(netdev)
        for other in observed.of(link) if link else []:
            theirs = other.interface.network
            if other.scope != SCOPE_UNIVERSE or not theirs.overlaps(network):
                continue
            if key.startswith("routes") and theirs.prefixlen > network.prefixlen:
                # the longer prefix of the management path wins
                safe = safe or (session is not None and session.peer in theirs)
                continue
            message = "%s overlaps %s of %s, which %s" % (network, other.interface, netdev, why)
            yield Refused(message, at(port, key), remedy)
    if session and session.peer in network and not safe:
        message = "%s contains %s, the peer of this connection" % (network, session.peer)
        yield Refused(message, at(port, key), remedy)
