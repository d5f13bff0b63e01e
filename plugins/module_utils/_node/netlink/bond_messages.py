# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of bonds and of their members in rtnetlink messages, and in procfs.

Source: the kernel's ``include/uapi/linux/{if_link,if_bonding}.h`` and ``drivers/net/bonding/bond_procfs.c``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, link_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import hardware_address

IFLA_BOND_ACTIVE_SLAVE, IFLA_BOND_AD_INFO = 2, 23
IFLA_BOND_AD_INFO_AGGREGATOR, IFLA_BOND_AD_INFO_PARTNER_MAC = 1, 5
IFLA_BOND_SLAVE_STATE, IFLA_BOND_SLAVE_MII_STATUS, IFLA_BOND_SLAVE_PERM_HWADDR = 1, 2, 4
IFLA_BOND_SLAVE_AD_AGGREGATOR_ID = 6

LACP = "802.3ad"
# Modes in which the hash policy selects the member of a packet.
HASHING = ("balance-xor", LACP, "balance-tlb")
STATES = ("active", "backup")
MII_STATUSES = ("up", "going down", "down", "going back")
NO_PARTNER = "00:00:00:00:00:00"

Row = t.Dict[str, t.Any]


def bond(data: bytes, names: t.Mapping[int, str]) -> Row:
    """Decode the IFLA_INFO_DATA of a bond. Values that its mode does not use are None.

    ``miimon``: milliseconds. ``aggregator``, ``partner_mac``: of the active aggregator.

    :param names: index of an interface -> its name.
    """
    options, held = link_kinds.decode_bond(data), codec.table(data)
    lacp = options.mode == LACP
    information = codec.table(held.get(IFLA_BOND_AD_INFO, b"")) if lacp else {}
    return {
        "mode": options.mode,
        "hash_policy": options.hash_policy if options.mode in HASHING else None,
        "lacp_rate": options.lacp_rate if lacp else None,
        "miimon": options.miimon,
        "min_links": options.min_links if lacp else None,
        "primary": names.get(options.primary or 0),
        "active": names.get(codec.number_in(held, IFLA_BOND_ACTIVE_SLAVE) or 0),
        "aggregator": codec.number_in(information, IFLA_BOND_AD_INFO_AGGREGATOR),
        "partner_mac": partner(hardware_address(information.get(IFLA_BOND_AD_INFO_PARTNER_MAC, b""))),
    }


def member(data: bytes) -> Row:
    """Decode the IFLA_INFO_SLAVE_DATA of a member of a bond. ``aggregator`` is None without LACP."""
    held = codec.table(data)
    return {
        "state": link_kinds.name_in(STATES, held, IFLA_BOND_SLAVE_STATE),
        "link": link_kinds.name_in(MII_STATUSES, held, IFLA_BOND_SLAVE_MII_STATUS),
        "aggregator": codec.number_in(held, IFLA_BOND_SLAVE_AD_AGGREGATOR_ID),
        "permanent_mac": hardware_address(held.get(IFLA_BOND_SLAVE_PERM_HWADDR, b"")) or None,
    }


def partner_macs(text: str) -> dict[str, str | None]:
    """Return the MAC address of the LACP partner of each member, by netdev; None without a partner.

    Netlink has only the partner of the active aggregator.

    :param text: the contents of ``/proc/net/bonding/NAME``, which shows partners only to root.
    """
    found: dict[str, str | None] = {}
    netdev, of_partner = None, False
    for line in text.splitlines():
        key, _colon, value = (part.strip() for part in line.partition(":"))
        if key == "Slave Interface":
            netdev, of_partner = value, False
        elif key.startswith("details ") and not value:
            of_partner = key == "details partner lacp pdu"
        elif netdev and of_partner and key == "system mac address":
            found[netdev] = partner(value)
    return found


def partner(mac: str) -> str | None:
    """Return the MAC address of an LACP partner; None if no partner has answered."""
    return None if mac in ("", NO_PARTNER) else mac
