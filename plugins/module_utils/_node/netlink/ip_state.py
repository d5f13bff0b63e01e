# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the IP settings of a node's NICs: addresses, routes, and policy rules that look up their tables."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IFA_F_MANAGETEMPADDR,
    IFA_F_PERMANENT,
    IFA_F_SECONDARY,
    NARROW_SCOPES,
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    PROTOCOL_REDIRECT,
    TABLE_MAIN,
    Address,
    Rtnetlink,
)

Row = t.Dict[str, t.Any]
# Routes learned from another host.
_LEARNED = (PROTOCOL_RA, PROTOCOL_DHCP, PROTOCOL_REDIRECT)


def _dynamic(address: Address) -> bool:
    """Return whether an address has a lifetime, such as a lease, or was advertised by a router.

    The kernel marks addresses of router advertisements even if they have no lifetime.
    """
    return not address.flags & IFA_F_PERMANENT or bool(address.flags & IFA_F_MANAGETEMPADDR)


def look(table: Rtnetlink, netdevs: t.Mapping[int, str]) -> Row:
    """Return ``addresses`` of global scope, ``routes`` except those of the kernel, and plain ``rules``.

    :param netdevs: index of an interface -> its name; only settings of these are returned.
    :raises NetlinkError: if the kernel refuses a dump.
    """
    addresses = [
        {
            "netdev": netdevs[each.ifindex],
            "address": str(each.interface),
            "secondary": bool(each.interface.version == 4 and each.flags & IFA_F_SECONDARY),
            "dynamic": _dynamic(each),
        }
        for each in table.addresses()
        if each.ifindex in netdevs and each.scope not in NARROW_SCOPES
    ]
    routes = [
        {
            "netdev": netdevs[each.oif],
            "to": str(each.destination),
            "via": str(each.gateway) if each.gateway else None,
            "table": None if each.table == TABLE_MAIN else each.table,
            "dynamic": each.protocol in _LEARNED,
        }
        for version in (4, 6)
        for each in table.routes(version)
        if each.oif in netdevs and each.protocol != PROTOCOL_KERNEL
    ]
    node_addresses = {str(each["address"]).partition("/")[0] for each in addresses}
    rules = [
        {
            "from": str(each.source) if each.source else None,
            "oif": each.oif or None,
            "table": each.table,
            "priority": each.priority,
        }
        for version in (4, 6)
        for each in table.rules(version)
        if each.plain
        and (each.oif in netdevs.values() or (each.source and str(each.source.network_address) in node_addresses))
    ]
    return {"addresses": addresses, "routes": routes, "rules": rules}
