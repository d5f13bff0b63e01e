# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the kernel by which interfaces packets leave: route lookups, and the routes that act as default routes.

Source: rtnetlink(7), and the kernel's ``include/uapi/linux/{rtnetlink,nexthop}.h``.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    AF_BRIDGE,
    IP,
    LINK_HEADER,
    NEIGHBOUR_HEADER,
    NLM_F_CREATE,
    NLM_F_EXCL,
    ROUTE_HEADER,
    RTA_DST,
    RTA_GATEWAY,
    RTA_OIF,
    RTA_TABLE,
    RTM_GETNEIGH,
    RTM_GETROUTE,
    RTM_NEWROUTE,
    TABLE_LOCAL,
    TABLE_MAIN,
    UNICAST,
    Network,
    Rtnetlink,
    family,
)

RTM_GETNEXTHOP = 106
RTM_F_CLONED, RTM_F_FIB_MATCH = 0x200, 0x2000
MULTICAST = 5
NUD_PERMANENT = 0x80
RTA_SRC, RTA_MULTIPATH, RTA_MARK = 2, 9, 16
RTA_IP_PROTO, RTA_SPORT, RTA_DPORT, RTA_NH_ID = 27, 28, 29, 30
NHA_ID, NHA_GROUP, NHA_OIF = 1, 2, 5
NDA_DST = 1
NEXT_HOP = struct.Struct("=HBBi")  # length, flags, weight, interface; attributes follow
NEXTHOP_HEADER = struct.Struct("=BBBBI")  # family, scope, protocol, reserved, flags
GROUP_MEMBER = struct.Struct("=IBBH")  # id, weight, reserved
# Longer prefixes do not act as default routes, even together.
PREFIX_MAX = 8
# The kernel answers with these to a destination or a source address that it has no route for.
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EINVAL, errno.EACCES, errno.ENODEV, errno.EADDRNOTAVAIL)


class InterfaceRoute(t.NamedTuple):
    """A route of interfaces. ``interfaces``: the indices of all its next hops; ``gateway``: of a single next hop.

    ``plain``: unicast, and not only for packets of a source or a type of service. ``raw``: the kernel's message, with
    which the route can be set again.
    """

    table: int
    destination: Network
    interfaces: frozenset[int]
    protocol: int
    gateway: IP | None = None
    plain: bool = True
    raw: bytes = b""

    def __str__(self) -> str:
        destination = str(self.destination) if self.destination.prefixlen else "default"
        via = " via %s" % self.gateway if self.gateway else ""
        table = "main" if self.table == TABLE_MAIN else str(self.table)
        return "route %s%s table %s%s" % (destination, via, table, "" if self.plain else ", for particular packets")


class RouteLookup(Rtnetlink):
    """The kernel's tables, and its decisions in the caller's network namespace."""

    def interfaces_to(
        self, peer: IP, source: IP | None = None, oif: int = 0, mark: int = 0, ports: tuple[int, int] | None = None
    ) -> set[int]:
        """Return the indices of the interfaces by which packets to ``peer`` leave; empty if there is no route, or if
        the address is one of the node's own. All next hops of the route are included.

        :param source: the local address. Without it, the kernel selects one.
        :param oif: the index of the interface or VRF that the socket is bound to; 0 for none.
        :param mark: the firewall mark of the packets.
        :param ports: local and remote TCP port of the connection.
        """
        found: set[int] = set()
        for flags in (0, RTM_F_FIB_MATCH):
            # the second answer is the route itself, which has all next hops; kernels before 4.13 ignore the flag
            request = _lookup(peer, source, oif, mark, ports, flags)
            try:
                answers = self._sock.request(RTM_GETROUTE, request)
            except codec.NetlinkError as error:
                if error.errno not in NO_ROUTE:
                    raise
                continue
            for answer in answers:
                if ROUTE_HEADER.unpack_from(answer)[7] == UNICAST:
                    found |= self._interfaces(codec.table(answer[ROUTE_HEADER.size :]))
        return found

    def wide_routes(self, version: int) -> list[InterfaceRoute]:
        """Return the plain routes with short prefixes in all tables, which may together be default routes.

        Raises :class:`NetlinkError`.
        """
        return [route for route in self.interface_routes(version, PREFIX_MAX) if route.plain]

    def interface_routes(self, version: int, longest: int = 128) -> list[InterfaceRoute]:
        """Return the unicast and multicast routes of IP ``version`` in all tables except the local one.

        :param longest: the longest prefix in bits.
        :raises NetlinkError: if the kernel refuses the dump.
        """
        request = ROUTE_HEADER.pack(family(version), 0, 0, 0, 0, 0, 0, 0, 0)
        found = []
        for payload in self._sock.dump(RTM_GETROUTE, request):
            kind, length, source, tos, table, protocol, _scope, route_type, flags = ROUTE_HEADER.unpack_from(payload)
            # the tables may have very many routes, of which only few are decoded
            if length > longest or route_type not in (UNICAST, MULTICAST) or kind != family(version):
                continue
            held = codec.table(payload[ROUTE_HEADER.size :])
            packed = held.get(RTA_DST) or bytes(16 if version == 6 else 4)
            number = codec.number(held[RTA_TABLE]) if RTA_TABLE in held else table
            if number == TABLE_LOCAL or flags & RTM_F_CLONED:
                continue
            network = ipaddress.ip_network("%s/%d" % (ipaddress.ip_address(packed), length))
            gateway = ipaddress.ip_address(held[RTA_GATEWAY]) if RTA_GATEWAY in held else None
            interfaces = frozenset(self._interfaces(held))
            plain = route_type == UNICAST and not source and not tos
            found.append(InterfaceRoute(number, network, interfaces, protocol, gateway, plain, payload))
        return found

    def restore_route(self, route: InterfaceRoute) -> None:
        """Set a route again as the kernel reported it, if it does not exist. Raises :class:`NetlinkError`."""
        # without the flags of its state, which the kernel does not accept
        header = ROUTE_HEADER.pack(*ROUTE_HEADER.unpack_from(route.raw)[:8], 0)
        payload = header + route.raw[ROUTE_HEADER.size :]
        self._request_idempotent(RTM_NEWROUTE, payload, errno.EEXIST, NLM_F_CREATE | NLM_F_EXCL)

    def permanent_neighbours(self, index: int) -> list[IP]:
        """Return the IP addresses of an interface's permanent neighbour entries. Raises :class:`NetlinkError`."""
        found = self._neighbours(0, index)
        return [address for state, address in found if state & NUD_PERMANENT and not address.is_multicast]

    def forwarding_remotes(self, index: int) -> set[IP]:
        """Return the remote addresses in the forwarding table of a VXLAN. Raises :class:`NetlinkError`."""
        return {address for _state, address in self._neighbours(AF_BRIDGE, index)}

    def _neighbours(self, address_family: int, index: int) -> t.Iterator[tuple[int, IP]]:
        """Yield state and address of an interface's neighbour entries that have an IP address."""
        for payload in self._sock.dump(RTM_GETNEIGH, LINK_HEADER.pack(address_family, 0, 0, 0, 0)):
            _family, interface, state, _flags, _type = NEIGHBOUR_HEADER.unpack_from(payload)
            packed = codec.table(payload[NEIGHBOUR_HEADER.size :]).get(NDA_DST, b"")
            if interface == index and len(packed) in (4, 16):
                yield state, ipaddress.ip_address(packed)

    def _interfaces(self, held: t.Mapping[int, bytes]) -> set[int]:
        """Return the interfaces of a route's attributes: of a next hop, of several, or of a next hop object."""
        found = {codec.number(held[RTA_OIF])} if RTA_OIF in held else set()
        rest = held.get(RTA_MULTIPATH, b"")
        while len(rest) >= NEXT_HOP.size:
            length, _flags, _weight, index = NEXT_HOP.unpack_from(rest)
            found.add(index)
            rest = rest[max(codec.align(length), NEXT_HOP.size) :]
        if not found and RTA_NH_ID in held:
            found = self._interfaces_of_nexthop(codec.number(held[RTA_NH_ID]))
        return found

    def _interfaces_of_nexthop(self, number: int) -> set[int]:
        request = NEXTHOP_HEADER.pack(0, 0, 0, 0, 0) + codec.u32(NHA_ID, number)
        found: set[int] = set()
        for answer in self._sock.request(RTM_GETNEXTHOP, request):
            held = codec.table(answer[NEXTHOP_HEADER.size :])
            found |= {codec.number(held[NHA_OIF])} if NHA_OIF in held else set()
            # the members of a group are not groups
            for member, _weight, _high, _reserved in GROUP_MEMBER.iter_unpack(held.get(NHA_GROUP, b"")):
                found |= self._interfaces_of_nexthop(member)
        return found


def _lookup(peer: IP, source: IP | None, oif: int, mark: int, ports: tuple[int, int] | None, flags: int) -> bytes:
    """Encode the question for the route to ``peer``."""
    bits = peer.max_prefixlen
    payload = ROUTE_HEADER.pack(family(peer.version), bits, bits if source else 0, 0, 0, 0, 0, 0, flags)
    payload += codec.attribute(RTA_DST, peer.packed)
    payload += codec.attribute(RTA_SRC, source.packed) if source else b""
    payload += codec.u32(RTA_OIF, oif) if oif else b""
    payload += codec.u32(RTA_MARK, mark) if mark else b""
    if ports:
        # kernels before 4.17 do not have rules that select by them
        payload += codec.u8(RTA_IP_PROTO, socket.IPPROTO_TCP)
        payload += codec.attribute(RTA_SPORT, struct.pack("!H", ports[0]))
        payload += codec.attribute(RTA_DPORT, struct.pack("!H", ports[1]))
    return payload


def acts_as_default(networks: t.Iterable[Network]) -> bool:
    """Return whether routes to these networks of one IP version reach at least a quarter of all addresses.

    For IPv6, a quarter of the global unicast addresses (2000::/3, RFC 4291) is enough.
    """
    collapsed = list(ipaddress.collapse_addresses(networks))  # type: ignore[type-var]
    for space in ("0.0.0.0/0",) if collapsed and collapsed[0].version == 4 else ("::/0", "2000::/3"):
        whole = ipaddress.ip_network(space)
        inside = [each for each in collapsed if each.overlaps(whole)]
        reached = sum(min(each.num_addresses, whole.num_addresses) for each in inside)
        if 4 * reached >= whole.num_addresses:
            return True
    return False
