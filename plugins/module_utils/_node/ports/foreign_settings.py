# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of rail ports that neither the plan nor an earlier run set, and users of the ports.

They are reported. A port with such settings or users is not set down.
"""

from __future__ import annotations

import contextlib
import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import (
    InterfaceRoute,
    RouteLookup,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IFA_F_MANAGETEMPADDR,
    IFA_F_PERMANENT,
    NARROW_SCOPES,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    PROTOCOL_REDIRECT,
    TABLE_MAIN,
    Address,
    Link,
    bare,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import (
    Seen,
    Target,
    addresses_of,
    port_routes,
    route_key,
    rule_key,
    rule_keys,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path

# Routes that the kernel makes from addresses and advertisements.
_AUTOMATIC = (PROTOCOL_KERNEL, PROTOCOL_RA, PROTOCOL_REDIRECT)
SHOWN_MAX = 8


class Foreign:
    """The settings of other programs on the interfaces of rail ports.

    :param wanted, former: the ports of the plan and of earlier runs, with their interfaces.
    """

    def __init__(
        self,
        system: System,
        rtnl: RouteLookup,
        observed: Seen,
        wanted: t.Sequence[Target],
        former: t.Sequence[Target],
    ) -> None:
        self._system = system
        self._rtnl = rtnl
        self._state = observed
        self._addresses = addresses_of([*wanted, *former])
        self._rules = {key for each in [*wanted, *former] for key in rule_keys(each.port, each.link.name)}
        planned, earlier = (
            [route for each in targets for route in port_routes(each.port, each.link.ifindex)]
            for targets in (wanted, former)
        )
        self._routes = {route[:4] for route in planned + earlier}
        # the plan replaces other prefix lengths of its addresses, rules with its priorities, and routes to its
        # destinations in the table of a rail
        self._planned_hosts = {(index, address.ip) for index, address in addresses_of(wanted)}
        self._priorities = {each.port.priority for each in wanted}
        self._replaced = {route_key(route) for route in planned}

    def addresses(self, link: Link) -> list[Address]:
        """Return the addresses of more than link scope, without those that a router advertisement made."""
        found = []
        for address in self._state.of(link):
            key = (address.ifindex, address.interface.ip)
            ours = (address.ifindex, address.interface) in self._addresses or key in self._planned_hosts
            advertised = address.interface.version == 6 and (
                not address.flags & IFA_F_PERMANENT or address.flags & IFA_F_MANAGETEMPADDR
            )
            if not ours and address.scope not in NARROW_SCOPES and not advertised:
                found.append(address)
        return found

    def routes(self, link: Link) -> list[InterfaceRoute]:
        """Return the routes of all tables, without those that the kernel makes from addresses and advertisements."""
        found = []
        for route in self._state.interface_routes:
            if link.ifindex not in route.interfaces or route.protocol in _AUTOMATIC:
                continue
            key = (route.table, route.destination, link.ifindex, route.gateway)
            replaced = (route.table, route.destination, link.ifindex if route.table == TABLE_MAIN else 0)
            if not (route.plain and (key in self._routes or replaced in self._replaced)):
                found.append(route)
        return found

    def settings(self, link: Link) -> list[str]:
        """Return the addresses, routes, rules and permanent neighbours of an interface, as texts."""
        found = [str(address.interface) for address in self.addresses(link)]
        found += [str(route) for route in self.routes(link)]
        for rule in self._state.rules:
            of_link = link.name in (rule.oif, rule.iif)
            if of_link and rule_key(rule) not in self._rules and rule.priority not in self._priorities:
                source = "from %s " % bare(rule.source) if rule.source else ""
                which = "iif" if rule.iif == link.name else "oif"
                found.append("rule %d (%s%s %s)" % (rule.priority, source, which, link.name))
        found += ["neighbour %s" % address for address in self._rtnl.permanent_neighbours(link.ifindex)]
        return found

    def warnings(self, target: Target) -> list[str]:
        """Return the warning about a port's settings of other programs; empty without such settings."""
        port, link, _name = target
        found = self.settings(link)
        text = (
            "%s (%s) also has settings that are not planned and that Railyard did not set: %s. They stay now. After the"
            " next boot it has only those that a file of this node gives to %s"
        )
        return [text % (link.name, port.label, _listed(found), port.netdev or link.name)] if found else []

    def why_not_down(self, link: Link, function: str | None, ours: t.Collection[str] = ()) -> str | None:
        """Return why a link must not be set down, which removes its routes and disconnects its users; None otherwise.

        :param function: the port's PCI function.
        :param ours: names of interfaces on it that do not count.
        """
        return self.why_in_use(link, [function] if function else [], ours) if link.up else None

    def why_in_use(self, link: Link, functions: t.Sequence[str], ours: t.Collection[str] = ()) -> str | None:
        """Return what uses a link in this network namespace, as :meth:`why_not_down`.

        :param functions: the PCI functions below it.
        """
        directory = "/sys/class/net/%s" % link.name
        uppers = [name[len("upper_") :] for name in self._system.listdir(directory) if name.startswith("upper_")]
        uppers = [name for name in uppers if name not in ours]
        reasons = ["%s is built on it" % ", ".join(uppers)] if uppers else []
        if self._system.read_int(directory + "/device/sriov_numvfs"):
            reasons.append("it has VFs")
        # a pod's macvlan is visible in this namespace only by its hardware address
        others = [mac for mac in self._rtnl.hardware_addresses(link.ifindex) if mac and not mac[0] & 1]
        if any(mac != link.address for mac in others):
            reasons.append("an interface in another network namespace is built on it")
        tunnels = self._tunnels.get(link.name)
        reasons += ["it carries the tunnel %s" % ", ".join(tunnels)] if tunnels else []
        settings = self.settings(link)
        reasons += ["it has settings that are not planned (%s)" % _listed(settings)] if settings else []
        users = self._rdma_users(link, functions)
        reasons += ["its RDMA device is in use (%s)" % _listed(users)] if users else []
        return "; ".join(reasons) or None

    @functools.cached_property
    def _tunnels(self) -> dict[str, list[str]]:
        return management_path.tunnels_over(self._system, self._rtnl)

    def _rdma_users(self, link: Link, functions: t.Sequence[str]) -> list[str]:
        """Return the users of the port's RDMA devices: those of its functions, and soft ones on its interface."""
        sock = rdma_netlink.connect(self._system)
        if not sock:
            return []
        names = [name for each in functions for name in pci_functions.rdma_devices(self._system, each)]
        with contextlib.closing(sock):
            rows = rdma_netlink.links(sock)
            used = {row["device_index"] for row in rows if row["device"] in names or row["netdev"] == link.name}
            return [str(each) for index in used for each in rdma_netlink.holders(sock, self._system, index, False)]


def _listed(texts: t.Sequence[str]) -> str:
    more = ["and %d more" % (len(texts) - SHOWN_MAX)] if len(texts) > SHOWN_MAX else []
    return ", ".join([*texts[:SHOWN_MAX], *more])
