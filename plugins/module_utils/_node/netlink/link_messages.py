# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decode and encode rtnetlink messages of links and their VFs: pure functions of :mod:`rtnetlink`.

VFs are dicts; a value that the kernel does not report is None. MTU is in bytes, rates are in Mb/s.

Source: the kernel's ``include/uapi/linux/if_link.h``.
"""

from __future__ import annotations

import functools
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import VfAttribute
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec

LINK_HEADER = struct.Struct("=BxHiII")  # family, hardware type, index, flags, which flags change

ARPHRD_INFINIBAND = 32
IFF_UP = 0x1
IFF_LOWER_UP = 0x10000
# Flags that a user sets and that stay when a link moves: NOARP, PROMISC, ALLMULTI, MULTICAST.
IFF_KEPT = 0x80 | 0x100 | 0x200 | 0x1000
# The kernel's value of spoofchk and trust if the driver does not report them.
UNSAID = 0xFFFFFFFF

IFLA_ADDRESS, IFLA_BROADCAST, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 2, 3, 4, 5, 10
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS, IFLA_VFINFO_LIST, IFLA_EXT_MASK = 16, 18, 20, 22, 29
IFLA_CARRIER, IFLA_LINK_NETNSID, IFLA_MIN_MTU, IFLA_MAX_MTU = 33, 37, 50, 51
IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS, IFLA_PARENT_DEV_NAME = 52, 53, 54, 56
IFLA_NET_NS_FD, IFLA_TARGET_NETNSID, IFLA_NEW_IFINDEX = 28, 46, 49
IFLA_XDP, IFLA_XDP_FD, IFLA_XDP_ATTACHED, IFLA_XDP_FLAGS = 43, 1, 2, 3
# Numbers that stay when a link moves to another network namespace. The kernel reports those that it has.
SETTINGS = {
    "txqlen": 13,
    "group": 27,
    "gso_max_segs": 40,
    "gso_max_size": 41,
    "gro_max_size": 58,
    "gso_ipv4_max_size": 63,
    "gro_ipv4_max_size": 64,
}
# IFLA_XDP_ATTACHED: in the driver, in the kernel, in the NIC -> the flag that selects this mode.
XDP_MODES = {1: 0x4, 2: 0x2, 3: 0x8}
IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_INFO_SLAVE_DATA = 1, 2, 5
IFLA_MACVLAN_MODE = IFLA_IPVLAN_MODE = 1
MACVLAN_BRIDGE, IPVLAN_L2 = 4, 0
IFLA_VF_INFO = 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE, IFLA_VF_TRUST = 1, 2, 4, 5, 6, 9
IFLA_VF_IB_NODE_GUID, IFLA_VF_IB_PORT_GUID = 10, 11

OPERSTATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")

Row = t.Dict[str, t.Any]


class VfCode(t.NamedTuple):
    """How netlink encodes one attribute of a VF.

    ``type``: the kernel's attribute, whose value begins with the VF's index. ``key``: the key in the options of
    pyroute2. ``offset``: of the number in the kernel's value, in bytes.
    """

    type: int
    key: str
    offset: int = 4


# The attributes of ``_common.vf_attributes``. They are set in this order, those of the VF's identity first.
VF_CODES = {
    "mac": VfCode(IFLA_VF_MAC, "mac"),
    "vlan": VfCode(IFLA_VF_VLAN, "vlan"),
    "qos": VfCode(IFLA_VF_VLAN, "vlan", 8),
    "spoofchk": VfCode(IFLA_VF_SPOOFCHK, "spoofchk"),
    "trust": VfCode(IFLA_VF_TRUST, "trust"),
    "link_state": VfCode(IFLA_VF_LINK_STATE, "link_state"),
    "min_tx_rate": VfCode(IFLA_VF_RATE, "rate"),
    "max_tx_rate": VfCode(IFLA_VF_RATE, "rate", 8),
    "node_guid": VfCode(IFLA_VF_IB_NODE_GUID, "ib_node_guid"),
    "port_guid": VfCode(IFLA_VF_IB_PORT_GUID, "ib_port_guid"),
}


class Link(t.NamedTuple):
    """One interface.

    ``min_mtu`` and ``max_mtu`` in bytes, 0 if the kernel reports none. ``broadcast``: the hardware address of all
    hosts; on InfiniBand it contains the partition key. ``permanent``: the permanent hardware address; empty if the NIC
    has none or the kernel (before 5.6) does not report it. ``type``: the ARPHRD number.
    ``operstate``: ``UP``, ``DOWN``... ``kind``: ``macvlan``, ``bond``...; None for hardware. ``parent``: PCI address
    (Linux 5.14 and later). ``below``: index of the link below a VLAN or macvlan; ``below_namespace`` is set if that
    link is in another network namespace. ``vfs``: rows of :func:`vf_row`, if requested. ``alias``: the ifalias, in
    which the plugin host-device keeps the previous name. ``flags``: those of :data:`IFF_KEPT`. ``settings``: numbers
    of :data:`SETTINGS`. ``xdp``: where an XDP program is attached, a key of :data:`XDP_MODES`, 4 for several modes, 0
    without one. ``master``: index of the bond, bridge or VRF that it is part of. ``data``: the attributes of its kind
    (IFLA_INFO_DATA). ``member``: those of a member of a bond, bridge or VRF (IFLA_INFO_SLAVE_DATA).
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
    broadcast: bytes = b""
    flags: int = 0
    settings: t.Mapping[str, int] = {}
    xdp: int = 0
    master: int | None = None
    data: bytes = b""
    member: bytes = b""


def decode_link(payload: bytes) -> Link:
    """Decode the payload of an RTM_NEWLINK message."""
    _family, kind, index, flags, _change = LINK_HEADER.unpack_from(payload)
    held = codec.table(payload[LINK_HEADER.size :])
    address = held.get(IFLA_ADDRESS, b"")
    operstate, carrier = codec.number_in(held, IFLA_OPERSTATE), codec.number_in(held, IFLA_CARRIER)
    information = codec.table(held.get(IFLA_LINKINFO, b""))
    altnames = [
        codec.text(value) for each, value in codec.attributes(held.get(IFLA_PROP_LIST, b"")) if each == IFLA_ALT_IFNAME
    ]
    return Link(
        ifindex=index,
        name=codec.text(held.get(IFLA_IFNAME, b"")),
        up=bool(flags & IFF_UP),
        mtu=codec.number_in(held, IFLA_MTU) or 0,
        min_mtu=codec.number_in(held, IFLA_MIN_MTU) or 0,
        max_mtu=codec.number_in(held, IFLA_MAX_MTU) or 0,
        address=address,
        altnames=tuple(altnames),
        type=kind,
        carrier=bool(flags & IFF_LOWER_UP) if carrier is None else bool(carrier),
        operstate=OPERSTATES[operstate] if operstate is not None and operstate < len(OPERSTATES) else "UNKNOWN",
        kind=_text(information, IFLA_INFO_KIND),
        parent=_text(held, IFLA_PARENT_DEV_NAME),
        permanent=held.get(IFLA_PERM_ADDRESS, b""),
        below=codec.number_in(held, IFLA_LINK),
        below_namespace=codec.number_in(held, IFLA_LINK_NETNSID),
        alias=_text(held, IFLA_IFALIAS),
        broadcast=held.get(IFLA_BROADCAST, b""),
        master=codec.number_in(held, IFLA_MASTER),
        data=information.get(IFLA_INFO_DATA, b""),
        member=information.get(IFLA_INFO_SLAVE_DATA, b""),
        vfs=tuple(vf_rows(held.get(IFLA_VFINFO_LIST, b""), len(address))),
        flags=flags & IFF_KEPT,
        settings={name: codec.number(held[code]) for name, code in SETTINGS.items() if code in held},
        xdp=codec.number_in(codec.table(held.get(IFLA_XDP, b"")), IFLA_XDP_ATTACHED) or 0,
    )


# For services, which read the same links every few seconds. Not for links with VFs, whose rows callers may change.
decode_known_link = functools.lru_cache(maxsize=64)(decode_link)


def identity(link: Link) -> Row:
    """Return what only the kernel writes of a link: a process with CAP_NET_ADMIN in its network namespace cannot change
    it. The numbers of namespaces are those of the reader's namespace.
    """
    return {
        "kind": link.kind,
        "parent": link.parent,
        "permanent": hardware_address(link.permanent),
        "below": link.below,
        "below_namespace": link.below_namespace,
    }


def has_identity(link: Link, wanted: t.Mapping[str, t.Any]) -> bool:
    """Return whether a link has an identity, or the part of it that is known.

    An identity without a parent, permanent address and link below matches no link, because many links would match it.
    """
    observed = identity(link)
    known = any(wanted.get(key) for key in ("parent", "permanent", "below"))
    return known and all(observed[key] == value for key, value in wanted.items())


def encode_link(
    mtu: int | None = None,
    name: str | None = None,
    address: bytes | None = None,
    alias: str | None = None,
    namespace: int | None = None,
    new_index: int | None = None,
    settings: t.Mapping[str, int] | None = None,
    master: int | None = None,
    kind: bytes = b"",
) -> bytes:
    """Return the attributes of a change of a link. The kernel moves it to ``namespace`` first.

    :param master: index of the bond or bridge that it becomes a member of; 0: of none.
    :param kind: the changed options of its kind, such as those of :func:`.link_kinds.encode_bond`.
    """
    found = b""
    if mtu is not None:
        found += codec.u32(IFLA_MTU, mtu)
    if name is not None:
        found += codec.string(IFLA_IFNAME, name)
    if address is not None:
        found += codec.attribute(IFLA_ADDRESS, address)
    if alias is not None:
        found += codec.attribute(IFLA_IFALIAS, alias.encode())
    if namespace is not None:
        found += codec.u32(IFLA_NET_NS_FD, namespace)
    if new_index is not None:
        found += codec.u32(IFLA_NEW_IFINDEX, new_index)
    for key, value in (settings or {}).items():
        found += codec.u32(SETTINGS[key], value)
    if master is not None:
        found += codec.u32(IFLA_MASTER, master)
    return found + kind


def encode_no_xdp(mode: int) -> bytes:
    """Return the attribute that detaches the XDP program of a mode, a key of :data:`XDP_MODES`."""
    values = codec.attribute(IFLA_XDP_FD, struct.pack("=i", -1)) + codec.u32(IFLA_XDP_FLAGS, XDP_MODES[mode])
    return codec.attribute(IFLA_XDP, values)


def encode_kind(kind: str) -> bytes:
    """Return the attribute of a new ``macvlan`` in mode bridge, ``ipvlan`` in mode l2, or ``ipoib`` with the partition
    key of its parent.
    """
    data = {
        "macvlan": codec.u32(IFLA_MACVLAN_MODE, MACVLAN_BRIDGE),
        "ipvlan": codec.attribute(IFLA_IPVLAN_MODE, struct.pack("=H", IPVLAN_L2)),
        "ipoib": b"",
    }
    return codec.attribute(
        IFLA_LINKINFO, codec.string(IFLA_INFO_KIND, kind) + codec.attribute(IFLA_INFO_DATA, data[kind])
    )


def vf_rows(listing: bytes, address_length: int) -> list[Row]:
    """Decode an IFLA_VFINFO_LIST: rows of :func:`vf_row`, sorted by index."""
    rows = [vf_row(value, address_length) for kind, value in codec.attributes(listing) if kind == IFLA_VF_INFO]
    return sorted(rows, key=lambda row: int(row["index"]))


def vf_row(info: bytes, address_length: int) -> Row:
    """Decode one VF: ``index``, and the attributes of ``VF_CODES``. Choices are texts.

    Flags are None if the driver does not report them; ``mac`` on InfiniBand, the GUIDs on Ethernet.

    :param address_length: length of the PF's hardware address in bytes: 6 on Ethernet, 20 on InfiniBand.
    """
    table = codec.table(info)
    row: Row = {"index": _vf_index(table)}
    for name, code in VF_CODES.items():
        attribute = vf_attributes.BY_NAME[name]
        row[name] = _vf_value(attribute, table.get(code.type, b""), code.offset, address_length)
    return row


def encode_vf(vf: int, attributes: t.Mapping[str, t.Any]) -> Row:
    """Return the option ``vf`` of pyroute2 that sets the attributes of the VF with this index.

    An attribute that the kernel sets together with a given one, and that is not given, becomes its default.
    """
    spec: Row = {"vf": vf}
    for name, code in VF_CODES.items():
        attribute = vf_attributes.BY_NAME[name]
        if name not in attributes and attribute.partner not in attributes:
            continue
        value = attributes.get(name, attribute.default)
        if attribute.kind == vf_attributes.CHOICE:
            value = attribute.choices.index(value)
        elif attribute.kind == vf_attributes.FLAG:
            value = int(value)
        if attribute.partner:
            spec.setdefault(code.key, {})[name] = value
        else:
            spec[code.key] = value
    return spec


def hardware_address(value: bytes) -> str:
    return ":".join("%02x" % each for each in bytearray(value))


def _vf_value(attribute: VfAttribute, value: bytes, offset: int, address_length: int) -> t.Any:
    if attribute.kind == vf_attributes.MAC:
        return hardware_address(value[4:10]) if value and address_length == 6 else None
    if attribute.kind == vf_attributes.GUID:
        return _guid(value)
    number = int(struct.unpack_from("=I", value, offset)[0]) if len(value) >= offset + 4 else None
    if attribute.kind == vf_attributes.FLAG:
        return None if number in (None, UNSAID) else bool(number)
    if attribute.kind == vf_attributes.CHOICE:
        return attribute.choices[number] if number is not None and number < len(attribute.choices) else None
    return number


def _guid(value: bytes) -> str | None:
    if len(value) < 16:
        return None
    # struct ifla_vf_guid: the VF's index, four bytes of padding, the GUID in the machine's byte order
    return hardware_address(struct.pack(">Q", struct.unpack_from("=Q", value, 8)[0]))


def _vf_index(table: t.Mapping[int, bytes]) -> int:
    """Return the VF's index, with which each attribute except the nested ones begins; -1 if it is missing."""
    value = table.get(IFLA_VF_MAC) or table.get(IFLA_VF_VLAN) or table.get(IFLA_VF_LINK_STATE) or b""
    return int(struct.unpack_from("=I", value)[0]) if len(value) >= 4 else -1


def _text(table: t.Mapping[int, bytes], kind: int) -> str | None:
    return codec.text(table[kind]) if kind in table else None
