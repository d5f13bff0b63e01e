# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Decode and encode rtnetlink messages of links and their VFs: pure functions of :mod:`rtnetlink`.

VFs are dicts; a value that the kernel does not report is None. MTU is in bytes, rates are in Mb/s.

Source: the kernel's ``include/uapi/linux/if_link.h``.
"""

from __future__ import annotations

import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec

LINK_HEADER = struct.Struct("=BxHiII")  # family, hardware type, index, flags, which flags change

ARPHRD_INFINIBAND = 32
IFF_UP = 0x1
IFF_LOWER_UP = 0x10000
# The kernel's value of spoofchk and trust if the driver does not report them.
UNSAID = 0xFFFFFFFF

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK = 1, 3, 4, 5
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS, IFLA_NUM_VF, IFLA_VFINFO_LIST, IFLA_EXT_MASK = 16, 18, 20, 21, 22, 29
IFLA_CARRIER, IFLA_LINK_NETNSID, IFLA_MIN_MTU, IFLA_MAX_MTU = 33, 37, 50, 51
IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS, IFLA_PARENT_DEV_NAME = 52, 53, 54, 56
IFLA_NET_NS_FD, IFLA_TARGET_NETNSID = 28, 46
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
IFLA_MACVLAN_MODE = IFLA_IPVLAN_MODE = 1
MACVLAN_BRIDGE, IPVLAN_L2 = 4, 0
IFLA_VF_INFO = 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE, IFLA_VF_TRUST = 1, 2, 4, 5, 6, 9
IFLA_VF_IB_NODE_GUID, IFLA_VF_IB_PORT_GUID = 10, 11

OPERSTATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")
LINK_STATES = ("auto", "enable", "disable")

Row = t.Dict[str, t.Any]


class Link(t.NamedTuple):
    """One interface.

    ``min_mtu`` and ``max_mtu`` in bytes, 0 if the kernel reports none. ``permanent``: the permanent hardware address;
    empty if the NIC has none or the kernel (before 5.6) does not report it. ``type``: the ARPHRD number.
    ``operstate``: ``UP``, ``DOWN``... ``kind``: ``macvlan``, ``bond``...; None for hardware. ``parent``: PCI address
    (Linux 5.14 and later). ``below``: index of the link below a VLAN or macvlan; ``below_namespace`` is set if that
    link is in another network namespace. ``vfs``: rows of :func:`vf_row`, if requested. ``alias``: the ifalias, in
    which the plugin host-device keeps the previous name.
    """

    ifindex: int
    name: str
    up: bool
    mtu: int
    min_mtu: int
    max_mtu: int
    address: bytes
    altnames: tuple[str, ...]
    type: int = 1
    carrier: bool = False
    operstate: str = "UNKNOWN"
    kind: str | None = None
    parent: str | None = None
    permanent: bytes = b""
    below: int | None = None
    below_namespace: int | None = None
    vfs: tuple[Row, ...] = ()
    alias: str | None = None


def decode_link(payload: bytes) -> Link:
    """Decode the payload of an RTM_NEWLINK message."""
    _family, kind, index, flags, _change = LINK_HEADER.unpack_from(payload)
    held = codec.table(payload[LINK_HEADER.size :])
    address = held.get(IFLA_ADDRESS, b"")
    operstate, carrier = _number(held, IFLA_OPERSTATE), _number(held, IFLA_CARRIER)
    altnames = [
        codec.text(value) for each, value in codec.attributes(held.get(IFLA_PROP_LIST, b"")) if each == IFLA_ALT_IFNAME
    ]
    return Link(
        ifindex=index,
        name=codec.text(held.get(IFLA_IFNAME, b"")),
        up=bool(flags & IFF_UP),
        mtu=_number(held, IFLA_MTU) or 0,
        min_mtu=_number(held, IFLA_MIN_MTU) or 0,
        max_mtu=_number(held, IFLA_MAX_MTU) or 0,
        address=address,
        altnames=tuple(altnames),
        type=kind,
        carrier=bool(flags & IFF_LOWER_UP) if carrier is None else bool(carrier),
        operstate=OPERSTATES[operstate] if operstate is not None and operstate < len(OPERSTATES) else "UNKNOWN",
        kind=_text(codec.table(held.get(IFLA_LINKINFO, b"")), IFLA_INFO_KIND),
        parent=_text(held, IFLA_PARENT_DEV_NAME),
        permanent=held.get(IFLA_PERM_ADDRESS, b""),
        below=_number(held, IFLA_LINK),
        below_namespace=_number(held, IFLA_LINK_NETNSID),
        alias=_text(held, IFLA_IFALIAS),
        vfs=tuple(vf_rows(held.get(IFLA_VFINFO_LIST, b""), len(address))),
    )


def encode_kind(kind: str) -> bytes:
    """Return the attribute of a new ``macvlan`` in mode bridge, or ``ipvlan`` in mode l2."""
    data = {
        "macvlan": codec.u32(IFLA_MACVLAN_MODE, MACVLAN_BRIDGE),
        "ipvlan": codec.attribute(IFLA_IPVLAN_MODE, struct.pack("=H", IPVLAN_L2)),
    }
    return codec.attribute(
        IFLA_LINKINFO, codec.string(IFLA_INFO_KIND, kind) + codec.attribute(IFLA_INFO_DATA, data[kind])
    )


def vf_rows(listing: bytes, address_length: int) -> list[Row]:
    """Decode an IFLA_VFINFO_LIST: rows of :func:`vf_row`, sorted by index."""
    rows = [vf_row(value, address_length) for kind, value in codec.attributes(listing) if kind == IFLA_VF_INFO]
    return sorted(rows, key=lambda row: int(row["index"]))


def vf_row(info: bytes, address_length: int) -> Row:
    """Decode one VF: ``index``, ``mac``, ``vlan``, ``qos``, ``spoofchk``, ``trust``, ``link_state`` (``auto``,
    ``enable``, ``disable``), ``min_tx_rate``, ``max_tx_rate``, ``node_guid``, ``port_guid``.

    ``spoofchk`` and ``trust`` are None if the driver does not report them; ``mac`` on InfiniBand, the GUIDs on
    Ethernet.

    :param address_length: length of the PF's hardware address in bytes: 6 on Ethernet, 20 on InfiniBand.
    """
    table = codec.table(info)
    mac = table.get(IFLA_VF_MAC, b"")
    link_state = _vf_value(table, IFLA_VF_LINK_STATE)
    return {
        "index": struct.unpack_from("=I", mac)[0] if mac else _vf_index(table),
        "mac": hardware_address(mac[4:10]) if mac and address_length == 6 else None,
        "vlan": _vf_value(table, IFLA_VF_VLAN),
        "qos": _vf_value(table, IFLA_VF_VLAN, 8),
        "spoofchk": _bool_or_none(_vf_value(table, IFLA_VF_SPOOFCHK)),
        "trust": _bool_or_none(_vf_value(table, IFLA_VF_TRUST)),
        "link_state": LINK_STATES[link_state] if link_state is not None and link_state < len(LINK_STATES) else None,
        "min_tx_rate": _vf_value(table, IFLA_VF_RATE),
        "max_tx_rate": _vf_value(table, IFLA_VF_RATE, 8),
        "node_guid": _guid(table.get(IFLA_VF_IB_NODE_GUID)),
        "port_guid": _guid(table.get(IFLA_VF_IB_PORT_GUID)),
    }


def hardware_address(value: bytes) -> str:
    return ":".join("%02x" % each for each in bytearray(value))


def _guid(value: bytes | None) -> str | None:
    if value is None or len(value) < 16:
        return None
    # struct ifla_vf_guid: the VF's index, four bytes of padding, the GUID in the machine's byte order
    return hardware_address(struct.pack(">Q", struct.unpack_from("=Q", value, 8)[0]))


def _vf_index(table: t.Mapping[int, bytes]) -> int:
    """Return the VF's index, with which each attribute except the nested ones begins; -1 if there is none."""
    value = table.get(IFLA_VF_VLAN) or table.get(IFLA_VF_LINK_STATE) or b""
    return int(struct.unpack_from("=I", value)[0]) if len(value) >= 4 else -1


def _vf_value(table: t.Mapping[int, bytes], kind: int, offset: int = 4) -> int | None:
    value = table.get(kind, b"")
    return int(struct.unpack_from("=I", value, offset)[0]) if len(value) >= offset + 4 else None


def _bool_or_none(value: int | None) -> bool | None:
    return None if value in (None, UNSAID) else bool(value)


def _number(table: t.Mapping[int, bytes], kind: int) -> int | None:
    return codec.number(table[kind]) if kind in table else None


def _text(table: t.Mapping[int, bytes], kind: int) -> str | None:
    return codec.text(table[kind]) if kind in table else None
