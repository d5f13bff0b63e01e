# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decode the rtnetlink attributes of bonds, of their members, and of VLANs: pure functions.

Names of modes, policies and rates are those of the kernel's ``Documentation/networking/bonding.rst``. Source of the
numbers: the kernel's ``include/uapi/linux/if_link.h`` and ``if_bonding.h``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import hardware_address

IFLA_BOND_MODE, IFLA_BOND_ACTIVE_SLAVE, IFLA_BOND_MIIMON, IFLA_BOND_PRIMARY = 1, 2, 3, 11
IFLA_BOND_XMIT_HASH_POLICY, IFLA_BOND_MIN_LINKS, IFLA_BOND_AD_LACP_RATE, IFLA_BOND_AD_INFO = 14, 18, 21, 23
IFLA_BOND_AD_INFO_AGGREGATOR, IFLA_BOND_AD_INFO_PARTNER_MAC = 1, 5
IFLA_BOND_SLAVE_STATE, IFLA_BOND_SLAVE_MII_STATUS, IFLA_BOND_SLAVE_PERM_HWADDR = 1, 2, 4
IFLA_BOND_SLAVE_AD_AGGREGATOR_ID = 6
IFLA_VLAN_ID = 1

MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
LACP = "802.3ad"
# Modes in which the hash policy selects the member of a packet.
HASHING = ("balance-xor", LACP, "balance-tlb")
HASH_POLICIES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac")
LACP_RATES = ("slow", "fast")
STATES = ("active", "backup")
MII_STATUSES = ("up", "going down", "down", "going back")
NO_PARTNER = "00:00:00:00:00:00"

Row = t.Dict[str, t.Any]


def vlan_id(data: bytes) -> int | None:
    """Return the ID of a VLAN interface from its IFLA_INFO_DATA."""
    return _number(codec.table(data), IFLA_VLAN_ID)


def bond(data: bytes, names: t.Mapping[int, str]) -> Row:
    """Decode the IFLA_INFO_DATA of a bond. Values that its mode does not use are None.

    ``miimon`` is in milliseconds. ``aggregator`` and ``partner_mac`` are those of the active aggregator.

    :param names: index of an interface -> its name.
    """
    held = codec.table(data)
    mode = _name(MODES, _number(held, IFLA_BOND_MODE))
    lacp = mode == LACP
    information = codec.table(held.get(IFLA_BOND_AD_INFO, b"")) if lacp else {}
    return {
        "mode": mode,
        "hash_policy": _name(HASH_POLICIES, _number(held, IFLA_BOND_XMIT_HASH_POLICY)) if mode in HASHING else None,
        "lacp_rate": _name(LACP_RATES, _number(held, IFLA_BOND_AD_LACP_RATE)) if lacp else None,
        "miimon": _number(held, IFLA_BOND_MIIMON),
        "min_links": _number(held, IFLA_BOND_MIN_LINKS) if lacp else None,
        "primary": names.get(_number(held, IFLA_BOND_PRIMARY) or 0),
        "active": names.get(_number(held, IFLA_BOND_ACTIVE_SLAVE) or 0),
        "aggregator": _number(information, IFLA_BOND_AD_INFO_AGGREGATOR),
        "partner_mac": partner(hardware_address(information.get(IFLA_BOND_AD_INFO_PARTNER_MAC, b""))),
    }


def member(data: bytes) -> Row:
    """Decode the IFLA_INFO_SLAVE_DATA of a member of a bond. ``aggregator`` is None without LACP."""
    held = codec.table(data)
    return {
        "state": _name(STATES, _number(held, IFLA_BOND_SLAVE_STATE)),
        "link": _name(MII_STATUSES, _number(held, IFLA_BOND_SLAVE_MII_STATUS)),
        "aggregator": _number(held, IFLA_BOND_SLAVE_AD_AGGREGATOR_ID),
        "permanent_mac": hardware_address(held.get(IFLA_BOND_SLAVE_PERM_HWADDR, b"")) or None,
    }


def partner_macs(text: str) -> dict[str, str | None]:
    """Return the MAC address of the LACP partner of each member, by netdev; None without a partner.

    Netlink has only that of the active aggregator.

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


def _number(held: t.Mapping[int, bytes], kind: int) -> int | None:
    return codec.number(held[kind]) if kind in held else None


def _name(names: t.Sequence[str], value: int | None) -> str | None:
    return names[value] if value is not None and value < len(names) else None
