# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bonds and VLANs in rtnetlink messages: the attributes of their kinds (IFLA_INFO_DATA).

Source: the kernel's ``include/uapi/linux/{if_link,if_bonding}.h`` and ``Documentation/networking/bonding.rst``.
"""

from __future__ import annotations

import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
)

BOND, VLAN = "bond", "vlan"
IFLA_BOND_MODE, IFLA_BOND_MIIMON, IFLA_BOND_PRIMARY, IFLA_BOND_XMIT_HASH_POLICY = 1, 3, 11, 14
IFLA_BOND_MIN_LINKS, IFLA_BOND_AD_LACP_RATE = 18, 21
IFLA_VLAN_ID = 1

# The names of the kernel's sysfs, in the order of its numbers.
MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
HASH_POLICIES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac")
LACP_RATES = ("slow", "fast")


class BondOptions(t.NamedTuple):
    """Options of a bond; None: not set.

    ``miimon``: milliseconds between two looks at the carrier of the members. ``primary``: the index of a member.
    """

    mode: str | None = None
    hash_policy: str | None = None
    lacp_rate: str | None = None
    min_links: int | None = None
    miimon: int | None = None
    primary: int | None = None


def decode_bond(data: bytes) -> BondOptions:
    """Decode the attributes of a bond. A value that this table does not have is None."""
    held = codec.table(data)
    return BondOptions(
        name_in(MODES, held, IFLA_BOND_MODE),
        name_in(HASH_POLICIES, held, IFLA_BOND_XMIT_HASH_POLICY),
        name_in(LACP_RATES, held, IFLA_BOND_AD_LACP_RATE),
        codec.number_in(held, IFLA_BOND_MIN_LINKS),
        codec.number_in(held, IFLA_BOND_MIIMON),
        codec.number_in(held, IFLA_BOND_PRIMARY) or None,
    )


def encode_bond(options: BondOptions) -> bytes:
    """Return the attribute of a new bond, or of a change of its options. The kernel sets the mode first."""
    data = b""
    if options.mode is not None:
        data += codec.u8(IFLA_BOND_MODE, MODES.index(options.mode))
    if options.miimon is not None:
        data += codec.u32(IFLA_BOND_MIIMON, options.miimon)
    if options.hash_policy is not None:
        data += codec.u8(IFLA_BOND_XMIT_HASH_POLICY, HASH_POLICIES.index(options.hash_policy))
    if options.lacp_rate is not None:
        data += codec.u8(IFLA_BOND_AD_LACP_RATE, LACP_RATES.index(options.lacp_rate))
    if options.min_links is not None:
        data += codec.u32(IFLA_BOND_MIN_LINKS, options.min_links)
    if options.primary is not None:
        data += codec.u32(IFLA_BOND_PRIMARY, options.primary)
    return _of_kind(BOND, data)


def decode_vlan(data: bytes) -> int | None:
    """Return the id of a VLAN from the attributes of its kind."""
    return codec.number_in(codec.table(data), IFLA_VLAN_ID)


def encode_vlan(number: int) -> bytes:
    """Return the attribute of a new VLAN (802.1Q)."""
    return _of_kind(VLAN, codec.attribute(IFLA_VLAN_ID, struct.pack("=H", number)))


def _of_kind(kind: str, data: bytes) -> bytes:
    return codec.attribute(IFLA_LINKINFO, codec.string(IFLA_INFO_KIND, kind) + codec.attribute(IFLA_INFO_DATA, data))


def name_in(names: t.Sequence[str], held: t.Mapping[int, bytes], kind: int) -> str | None:
    """Return the name of an attribute's number; None without the attribute, and for a number without a name."""
    number = codec.number_in(held, kind)
    return names[number] if number is not None and number < len(names) else None
