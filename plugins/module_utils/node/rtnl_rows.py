# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What rtnetlink's messages say, as rows: pure functions of :mod:`.rtnl`.

Source: the kernel's ``include/uapi/linux/{if_link,if_addr}.h``.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.node import netlink

IFINFO = struct.Struct("=BxHiII")  # family, hardware type, index, flags, change mask
IFADDR = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index

ARPHRD_INFINIBAND = 32
IFF_UP = 0x1
IFF_LOWER_UP = 0x10000
# The kernel's "the driver does not say" for spoofchk and trust.
UNSAID = 0xFFFFFFFF

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_NUM_VF, IFLA_VFINFO_LIST, IFLA_EXT_MASK = 16, 18, 21, 22, 29
IFLA_CARRIER, IFLA_PHYS_PORT_NAME, IFLA_LINK_NETNSID, IFLA_MIN_MTU, IFLA_MAX_MTU = 33, 38, 37, 50, 51
IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PARENT_DEV_NAME = 52, 53, 56
IFLA_INFO_KIND = 1
IFLA_VF_INFO = 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE, IFLA_VF_TRUST = 1, 2, 4, 5, 6, 9
IFLA_VF_IB_NODE_GUID, IFLA_VF_IB_PORT_GUID = 10, 11
IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_FLAGS, IFA_PROTO = 1, 2, 3, 8, 11

OPERSTATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")
LINK_STATES = ("auto", "enable", "disable")
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}

Row = t.Dict[str, t.Any]


def link_row(payload: bytes, vfs: bool = False) -> Row:
    """A row of :meth:`Rtnl.links` from an RTM_NEWLINK message."""
    _family, kind, index, flags, _change = IFINFO.unpack_from(payload)
    table = netlink.table(payload[IFINFO.size :])
    mac = table.get(IFLA_ADDRESS)
    info = netlink.table(table.get(IFLA_LINKINFO, b""))
    operstate = _number(table, IFLA_OPERSTATE)
    carrier = _number(table, IFLA_CARRIER)
    return {
        "index": index,
        "name": netlink.text(table.get(IFLA_IFNAME, b"")),
        "altnames": [
            netlink.text(value)
            for each, value in netlink.attributes(table.get(IFLA_PROP_LIST, b""))
            if each == IFLA_ALT_IFNAME
        ],
        "type": kind,
        "address": None if mac is None else hardware_address(mac),
        "mtu": _number(table, IFLA_MTU),
        "min_mtu": _number(table, IFLA_MIN_MTU),
        # 0 is the kernel's "no limit known"
        "max_mtu": _number(table, IFLA_MAX_MTU) or None,
        "up": bool(flags & IFF_UP),
        "carrier": bool(flags & IFF_LOWER_UP) if carrier is None else bool(carrier),
        "operstate": OPERSTATES[operstate] if operstate is not None and operstate < len(OPERSTATES) else "UNKNOWN",
        "master": _number(table, IFLA_MASTER),
        "link": _number(table, IFLA_LINK),
        "link_netnsid": _number(table, IFLA_LINK_NETNSID),
        "kind": _text(info, IFLA_INFO_KIND),
        "parent": _text(table, IFLA_PARENT_DEV_NAME),
        "phys_port_name": _text(table, IFLA_PHYS_PORT_NAME),
        "num_vf": _number(table, IFLA_NUM_VF) or 0,
        "vfs": vf_rows(table.get(IFLA_VFINFO_LIST, b""), len(mac or b"")) if vfs else None,
    }


def vf_rows(listing: bytes, address_length: int) -> list[Row]:
    """The rows of an IFLA_VFINFO_LIST, in the order of their index. See :func:`vf_row`."""
    rows = [vf_row(value, address_length) for kind, value in netlink.attributes(listing) if kind == IFLA_VF_INFO]
    return sorted(rows, key=lambda row: int(row["index"]))


def vf_row(info: bytes, address_length: int) -> Row:
    """One VF: ``index``, ``mac``, ``vlan``, ``qos``, ``spoofchk``, ``trust``, ``link_state`` (``auto``, ``enable``,
    ``disable``), ``min_tx_rate``, ``max_tx_rate``, ``node_guid``, ``port_guid``.

    ``spoofchk`` and ``trust`` are None where the driver does not know them, ``mac`` and the GUIDs where they are not of
    the PF's link layer.

    :param address_length: bytes of the PF's own hardware address: 6 on Ethernet, 20 on InfiniBand.
    """
    table = netlink.table(info)
    mac = table.get(IFLA_VF_MAC, b"")
    link_state = _second(table, IFLA_VF_LINK_STATE)
    return {
        "index": struct.unpack_from("=I", mac)[0] if mac else _first(table),
        "mac": hardware_address(mac[4:10]) if mac and address_length == 6 else None,
        "vlan": _second(table, IFLA_VF_VLAN),
        "qos": _second(table, IFLA_VF_VLAN, 8),
        "spoofchk": _said_bool(_second(table, IFLA_VF_SPOOFCHK)),
        "trust": _said_bool(_second(table, IFLA_VF_TRUST)),
        "link_state": LINK_STATES[link_state] if link_state is not None and link_state < len(LINK_STATES) else None,
        "min_tx_rate": _second(table, IFLA_VF_RATE),
        "max_tx_rate": _second(table, IFLA_VF_RATE, 8),
        "node_guid": _guid(table.get(IFLA_VF_IB_NODE_GUID)),
        "port_guid": _guid(table.get(IFLA_VF_IB_PORT_GUID)),
    }


def address_row(payload: bytes) -> Row:
    """A row of :meth:`Rtnl.addresses` from an RTM_NEWADDR message."""
    family, prefix, flags, scope, index = IFADDR.unpack_from(payload)
    table = netlink.table(payload[IFADDR.size :])
    # of a point-to-point link IFA_ADDRESS is the other end
    packed = table.get(IFA_LOCAL) or table.get(IFA_ADDRESS) or b""
    return {
        "index": index,
        "family": _family(family),
        "address": "%s/%d" % (socket.inet_ntop(family, packed), prefix),
        "scope": SCOPES.get(scope, str(scope)),
        "label": _text(table, IFA_LABEL),
        "flags": _number(table, IFA_FLAGS) if IFA_FLAGS in table else flags,
        "protocol": _number(table, IFA_PROTO),
    }


def hardware_address(value: bytes) -> str:
    return ":".join("%02x" % each for each in bytearray(value))


def _guid(value: bytes | None) -> str | None:
    if value is None or len(value) < 16:
        return None
    # struct ifla_vf_guid: the VF's index, four bytes of padding, the GUID in the machine's byte order
    return hardware_address(struct.pack(">Q", struct.unpack_from("=Q", value, 8)[0]))


def _first(table: t.Mapping[int, bytes]) -> int:
    """The VF's index: each attribute but the nested ones begins with it."""
    value = table.get(IFLA_VF_VLAN) or table.get(IFLA_VF_LINK_STATE) or b""
    return int(struct.unpack_from("=I", value)[0]) if len(value) >= 4 else -1


def _second(table: t.Mapping[int, bytes], kind: int, offset: int = 4) -> int | None:
    value = table.get(kind, b"")
    return int(struct.unpack_from("=I", value, offset)[0]) if len(value) >= offset + 4 else None


def _said_bool(value: int | None) -> bool | None:
    return None if value in (None, UNSAID) else bool(value)


def _number(table: t.Mapping[int, bytes], kind: int) -> int | None:
    return netlink.number(table[kind]) if kind in table else None


def _text(table: t.Mapping[int, bytes], kind: int) -> str | None:
    return netlink.text(table[kind]) if kind in table else None


def _family(family: int) -> int:
    return 6 if family == socket.AF_INET6 else 4
