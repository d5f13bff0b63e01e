# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ends of tunnels: the addresses between which the packets of a tunnel's interface travel.

Source: the kernel's ``include/uapi/linux/{if_link,if_tunnel,wireguard,genetlink,neighbour}.h``.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import IP

NETLINK_GENERIC = 16
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
GENL_HEADER = struct.Struct("=BBxx")  # command, version
WG_CMD_GET_DEVICE = 0
WGDEVICE_A_IFINDEX, WGDEVICE_A_FWMARK, WGDEVICE_A_PEERS = 1, 7, 8
WGPEER_A_ENDPOINT = 4


class Attributes(t.NamedTuple):
    """The attributes in IFLA_INFO_DATA of a kind of tunnel: of the remote and the local address, the interface that it
    is bound to, and the firewall mark of its packets."""

    remote: tuple[int, ...]
    local: tuple[int, ...] = ()
    link: int = 0
    mark: int = 0


_GRE = Attributes((7,), (6,), 1, 20)
_IP = Attributes((3,), (2,), 1, 20)
_VTI = Attributes((5,), (4,), 1, 6)
KINDS = {
    "vxlan": Attributes((2, 16), (4, 17), 3),
    "geneve": Attributes((2, 7)),
    **dict.fromkeys(("gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ip6erspan"), _GRE),
    **dict.fromkeys(("ipip", "sit", "ip6tnl"), _IP),
    **dict.fromkeys(("vti", "vti6"), _VTI),
}
WIREGUARD = "wireguard"
# Interfaces whose packets another interface carries, which the kernel may not name.
TUNNELS = frozenset(KINDS) | {WIREGUARD, "tun", "xfrm", "l2tpeth", "bareudp", "gtp", "ppp", "ovpn"}


class End(t.NamedTuple):
    """One tunnel: ``interface`` is the index of the interface that it is bound to, or 0; ``mark`` the firewall mark."""

    remote: IP | None
    local: IP | None = None
    interface: int = 0
    mark: int = 0


def ends(link: Link) -> list[End]:
    """Return the tunnels of an interface, from its own attributes; empty if it is not a tunnel."""
    if link.kind not in KINDS:
        return []
    names, held = KINDS[link.kind], codec.table(link.data)
    interface = codec.number(held[names.link]) if names.link in held else 0
    mark = codec.number(held[names.mark]) if names.mark in held else 0
    local = next(iter(_addresses(held, names.local)), None)
    remotes: t.Sequence[IP | None] = _addresses(held, names.remote)
    # a VXLAN may have its remote ends only in its forwarding table
    return [End(remote, local, interface, mark) for remote in remotes or [None]]


def _addresses(held: t.Mapping[int, bytes], kinds: t.Sequence[int]) -> list[IP]:
    found = [ipaddress.ip_address(held[kind]) for kind in kinds if len(held.get(kind, b"")) in (4, 16)]
    return [each for each in found if not each.is_unspecified]


def wireguard_ends(index: int, sock: codec.NetlinkSocket | None = None) -> list[End]:
    """Return the peers' endpoints of a WireGuard interface. Raises :class:`NetlinkError`.

    :param sock: another socket, for tests.
    """
    generic = sock or codec.NetlinkSocket(NETLINK_GENERIC, "generic netlink")
    try:
        request = GENL_HEADER.pack(CTRL_CMD_GETFAMILY, 1) + codec.string(CTRL_ATTR_FAMILY_NAME, WIREGUARD)
        (answer,) = generic.request(GENL_ID_CTRL, request)
        number = codec.number(codec.table(answer[GENL_HEADER.size :])[CTRL_ATTR_FAMILY_ID])
        request = GENL_HEADER.pack(WG_CMD_GET_DEVICE, 1) + codec.u32(WGDEVICE_A_IFINDEX, index)
        return [end for payload in generic.dump(number, request) for end in _endpoints(payload[GENL_HEADER.size :])]
    except codec.NetlinkError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return []
        raise
    finally:
        if sock is None:
            generic.close()


def _endpoints(payload: bytes) -> t.Iterator[End]:
    held = codec.table(payload)
    mark = codec.number(held[WGDEVICE_A_FWMARK]) if WGDEVICE_A_FWMARK in held else 0
    for _number, peer in codec.attributes(held.get(WGDEVICE_A_PEERS, b"")):
        # struct sockaddr_in: family, port, address; sockaddr_in6: family, port, flow, address, interface
        endpoint = codec.table(peer).get(WGPEER_A_ENDPOINT, b"")
        kind = struct.unpack_from("=H", endpoint)[0] if len(endpoint) >= 16 else 0
        if kind == socket.AF_INET:
            yield End(ipaddress.ip_address(endpoint[4:8]), mark=mark)
        elif kind == socket.AF_INET6 and len(endpoint) >= 28:
            scope = struct.unpack_from("=I", endpoint, 24)[0]
            yield End(ipaddress.ip_address(endpoint[8:24]), interface=scope, mark=mark)
