# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's observed interfaces, and the routes and rules that its rail ports must have."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import rail_routes
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import InterfaceRoute
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IFA_F_DADFAILED,
    IFA_F_OPTIMISTIC,
    IFA_F_TENTATIVE,
    TABLE_MAIN,
    Address,
    Interface,
    Link,
    Network,
    Route,
    Rtnetlink,
    Rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port, Record
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.vf_holders import Moved

# Metrics of the routes that the kernel adds with an address, by IP version.
KERNEL_METRIC = {4: 0, 6: 256}

# IPv6 sysctls of a rail port: router advertisements must not add a default route to the main table, nor addresses
# that are not planned.
SYSCTL_6 = {"accept_ra": "0", "autoconf": "0"}

RuleKey = t.Tuple[int, int, t.Optional[Network], str, int]


class Seen(t.Dict[str, t.Any]):
    """The observed state in the shape of the module's options, with the kernel's tables as attributes."""

    record: Record
    links: dict[int, Link]
    addresses: list[Address]
    routes: list[Route]
    rules: list[Rule]
    interface_routes: list[InterfaceRoute]
    # PCI address of a port whose netdev is in another network namespace -> where it is
    held: dict[str, Moved]

    def named(self, netdev: str | None) -> Link | None:
        return next((link for link in self.links.values() if link.name == netdev), None)

    def of(self, link: Link) -> list[Address]:
        return [address for address in self.addresses if address.ifindex == link.ifindex]

    def is_unsettled(self, address: Address) -> bool:
        """Return whether duplicate address detection of an IPv6 address is running. It is not usable until then.

        It does not start without a carrier.
        """
        link = self.links.get(address.ifindex)
        state = address.flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC | IFA_F_DADFAILED)
        return state == IFA_F_TENTATIVE and link is not None and link.carrier


class Target(t.NamedTuple):
    """A port and its interface. ``name``: the netdev name after the changes."""

    port: Port
    link: Link
    name: str


def at(port: Port, key: str) -> str:
    """Return the place of a port's option, for errors."""
    return "%s.%s (%s)" % (port.place, key, port.label)


def find(system: System, port: Port, observed: Seen) -> tuple[Link | None, RailyardError | None]:
    """Return a port's interface, or the error if it is missing. The PCI address has priority over the name."""
    if not port.pci:
        link = observed.named(port.netdev)
        return link, None if link else _no_netdev(port, observed)
    try:
        port_reference.check_function(system, port.pci, at(port, "pci"))
    except RailyardError as error:
        return None, error
    links = [link for link in map(observed.named, pci_functions.netdevs(system, port.pci)) if link]
    if len(links) > 1:
        links = [link for link in links if port.netdev in (link.name,) + link.altnames] or links
    if len(links) == 1:
        return links[0], None
    if links:
        return None, port_reference.several_netdevs(port.pci, [link.name for link in links], at(port, "pci"))
    return None, port_reference.no_netdev_of(system, port.pci, at(port, "pci"))


def _no_netdev(port: Port, observed: Seen) -> RailyardError:
    for link in observed.links.values():
        if port.netdev in link.altnames:
            return RailyardError(
                "%s is only another name of %s" % (port.netdev, link.name),
                at(port, "netdev"),
                "say netdev %s, or give its PCI address too: then it is named %s" % (link.name, port.netdev),
            )
    return port_reference.missing_netdev(port.netdev, at(port, "netdev"))


def rule_keys(port: Port, netdev: str) -> list[RuleKey]:
    """Return the keys of a port's rules: per IP version one by source address, and one by outgoing interface for
    sockets that are bound to the interface but not to an address.
    """
    if port.table is None or port.priority is None:
        return []
    keys: list[RuleKey] = []
    for side in port.sides:
        keys.append((side.version, port.priority, side.source, "", port.table))
        keys.append((side.version, port.priority, None, netdev, port.table))
    return keys


def port_routes(port: Port, ifindex: int) -> list[Route]:
    """Return the routes of a port: those of its own table, then the additional ones of the plan, on-link ones first."""
    addresses = [side.address for side in port.sides]
    gateways = [side.gateway for side in port.sides if side.gateway]
    return rail_routes(ifindex, addresses, port.table, gateways, port.routes, by_interface=True)


def add_route(rtnl: Rtnetlink, target: Target, route: Route) -> None:
    """Add a route of a rail port. Raises :class:`NetlinkError`."""
    try:
        rtnl.add_route(route)
    except NetlinkError:
        # systemd-networkd removes the addresses of a renamed interface when it reads the new name
        for side in target.port.sides:
            rtnl.add_address(target.link.ifindex, side.address)
        rtnl.add_route(route)


def is_same_route(live: Route, wanted: Route) -> bool:
    """Return whether a live route is equivalent to the wanted one. Metric and protocol depend on the back-end."""
    if (live.table, live.destination, live.oif, live.gateway) != wanted[:4]:
        return False
    return wanted.source is None or live.source == wanted.source


def route_key(route: Route) -> tuple[int, Network, int]:
    """Return the key of a route: in a rail's own table by destination, in the main table also by interface."""
    return route.table, route.destination, route.oif if route.table == TABLE_MAIN else 0


def addresses_of(targets: t.Sequence[Target]) -> set[tuple[int, Interface]]:
    return {(target.link.ifindex, side.address) for target in targets for side in target.port.sides}


def rule_key(rule: Rule) -> RuleKey | None:
    """Return the key of a live rule; None if it has other selectors than a port's rules."""
    return (rule.version, rule.priority, rule.source, rule.oif, rule.table) if rule.plain else None


def route_name(route: Route) -> str:
    destination = str(route.destination) if route.destination.prefixlen else "default"
    return "route %s table %s" % (destination, "main" if route.table == TABLE_MAIN else route.table)


def duplicates(
    port: Port, link: Link, observed: Seen, tried: t.Container[tuple[int, Interface]]
) -> list[RailyardError]:
    """Return the errors of duplicate address detection of a port's IPv6 address.

    :param tried: the addresses that this run added, with their links' indices. Others are added again first, so a
        failed detection of these is not an error.
    """
    side = port.side(6)
    live = next((each for each in observed.of(link) if side and each.interface == side.address), None)
    if not side or not live:
        return []
    if live.flags & IFA_F_DADFAILED and (link.ifindex, side.address) in tried:
        message = "another host on the rail has %s, as the kernel's duplicate address detection found"
        remedy = "find who has it (a node with another plan, a cable in another rail's switch), and run again"
    elif observed.is_unsettled(live):
        message = "the kernel has not yet found out whether another host has %s"
        remedy = "give more timeout, or see net.ipv6.conf.%s.dad_transmits" % link.name
    else:
        return []
    return [RailyardError(message % side.address.ip, at(port, side.key), remedy)]
