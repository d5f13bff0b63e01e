# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What IP is set on a node's NICs: addresses, routes and the policy rules that lead to their tables. Read only."""

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
    """Whether it is there for a time alone, as a lease is, or what a router advertised. The kernel marks those of its
    own even where the router gave no time.
    """
    return not address.flags & IFA_F_PERMANENT or bool(address.flags & IFA_F_MANAGETEMPADDR)


def look(table: Rtnetlink, netdevs: t.Mapping[int, str]) -> Row:
    """``addresses`` that reach further than their link, ``routes`` but the kernel's own, and plain ``rules``.

    :param netdevs: index of an interface -> its name; only what is about these is reported.
    :raises NetlinkError: where the kernel refuses a dump.
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
    own = {str(each["address"]).partition("/")[0] for each in addresses}
    rules = [
        {
            "from": str(each.source) if each.source else None,
            "oif": each.oif or None,
            "table": each.table,
            "priority": each.priority,
        }
        for version in (4, 6)
        for each in table.rules(version)
        if each.plain and (each.oif in netdevs.values() or (each.source and str(each.source.network_address) in own))
    ]
    return {"addresses": addresses, "routes": routes, "rules": rules}
