# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The routes and rules of a rail in one network namespace: those of a node's port, and those of a pod's interface."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    ANYWHERE,
    IP,
    TABLE_MAIN,
    Interface,
    Network,
    Route,
    Rule,
    static_route,
)

LINK_LOCAL = ipaddress.ip_network("fe80::/64")


class RouteSpec(t.NamedTuple):
    """A planned route. ``table`` None: the main table; ``via`` None: on link."""

    to: Network
    via: IP | None
    table: int | None

    def as_options(self) -> dict[str, t.Any]:
        """Return the route as JSON values."""
        return {"to": str(self.to), "via": str(self.via) if self.via else None, "table": self.table}


def has_subnet(address: Interface) -> bool:
    """Return whether the address's subnet has other addresses, so that the kernel adds a route to it."""
    return address.network.prefixlen < address.network.max_prefixlen


def rail_routes(
    index: int,
    addresses: t.Sequence[Interface],
    table: int | None,
    gateways: t.Sequence[IP] = (),
    planned: t.Iterable[RouteSpec] = (),
    by_interface: bool = False,
) -> list[Route]:
    """Return the routes of an interface on a rail: by address, those of the rail's table (its network, and the default
    route); then the planned routes of the addresses' families, on-link ones first.

    The kernel makes the networks' routes in the main table.

    :param index: index of the interface.
    :param table: the rail's own; None without one.
    :param gateways: next hops of the default routes in the table.
    :param by_interface: whether a rule by outgoing interface selects the table too, as on nodes. Then packets without
        a source address, and to link-local addresses, use it.
    """
    routes: list[RouteSpec] = []
    for address in addresses if table is not None else ():
        if has_subnet(address) or not by_interface:
            routes.append(RouteSpec(address.network, None, table))
        if by_interface and address.version == 6:
            # without it, the rule by outgoing interface would send link-local traffic to the gateway
            routes.append(RouteSpec(LINK_LOCAL, None, table))
        own = [gateway for gateway in gateways if gateway.version == address.version]
        routes += [RouteSpec(ANYWHERE[address.version], gateway, table) for gateway in own]
    routes += sorted(planned, key=lambda route: route.via is not None)
    by_version = {address.version: address for address in reversed(addresses)}
    found = [
        make_route(route, index, by_version[route.to.version] if by_interface else None)
        for route in routes
        if route.to.version in by_version
    ]
    return list(dict.fromkeys(found))


def make_route(route: RouteSpec, index: int, address: Interface | None = None) -> Route:
    """Return a planned route as the kernel reports it. ``address``: which on-link routes of IPv4 prefer as source."""
    # an IPv6 address cannot be the preferred source before duplicate address detection has ended
    source = address.ip if address and not route.via and address.version == 4 else None
    return static_route(TABLE_MAIN if route.table is None else route.table, route.to, index, route.via, source)


def source_rules(addresses: t.Iterable[Interface], table: int, priority: int) -> list[Rule]:
    """Return a rule per address that selects the table."""
    return [Rule(address.version, priority, ipaddress.ip_network(address.ip), "", table, True) for address in addresses]
