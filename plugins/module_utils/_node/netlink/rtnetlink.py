# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Links with their VFs, addresses, routes and policy rules over rtnetlink: the only place that reads and sets them.

Only VF attributes need pyroute2, so a converged run costs three or four dumps and no import. Source: rtnetlink(7) and
the kernel's ``include/uapi/linux/{rtnetlink,if_addr,fib_rules,neighbour}.h``.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    IFF_KEPT,
    IFF_UP,
    IFLA_ALT_IFNAME,
    IFLA_EXT_MASK,
    IFLA_IFNAME,
    IFLA_LINK,
    IFLA_PROP_LIST,
    IFLA_TARGET_NETNSID,
    LINK_HEADER,
    XDP_MODES,
    Link,
    decode_known_link,
    decode_link,
    encode_kind,
    encode_link,
    encode_no_xdp,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.vf_setter import VfSetter

NETLINK_ROUTE = 0
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_GETNEIGH = 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWNSID, RTM_GETNSID = 88, 90
RTM_NEWLINKPROP, RTM_DELLINKPROP = 108, 109
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLA_F_NESTED = 0x8000
AF_BRIDGE = 7

RTEXT_FILTER_VF = 0x1
RTEXT_FILTER_SKIP_STATS = 0x8
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS = 1, 2, 4, 8
NETNSA_NSID, NETNSA_FD = 1, 3
IFA_F_SECONDARY = 0x01
# IPv6: the address is used at once, without duplicate address detection.
IFA_F_NODAD = 0x02
# IPv6: duplicate address detection failed; it is running, and the address is usable; it is not usable.
IFA_F_DADFAILED, IFA_F_OPTIMISTIC, IFA_F_TENTATIVE = 0x08, 0x04, 0x40
IFA_F_PERMANENT, IFA_F_MANAGETEMPADDR, IFA_F_NOPREFIXROUTE = 0x80, 0x100, 0x200
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_TABLE = 1, 4, 5, 6, 7, 15
FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_TABLE, FRA_OIFNAME, FRA_PROTOCOL = 2, 3, 6, 15, 17, 21
# Attributes of a plain rule, and those that select nothing: protocol, padding.
FRA_PLAIN = frozenset((FRA_SRC, FRA_PRIORITY, FRA_TABLE, FRA_OIFNAME, FRA_PROTOCOL, 18))
FRA_SUPPRESS = frozenset((13, 14))
FR_ACT_TO_TBL = 1
FIB_RULE_INVERT = 0x2
NDA_LLADDR = 2

TABLE_MAIN = 254
TABLE_LOCAL = 255
RESERVED_TABLES = frozenset((0, 253, TABLE_MAIN, TABLE_LOCAL))
# The protocol of routes and rules that systemd-networkd sets from its files, so that they are equal to ours.
PROTOCOL_STATIC = 4
PROTOCOL_REDIRECT, PROTOCOL_KERNEL, PROTOCOL_RA, PROTOCOL_DHCP = 1, 2, 9, 16
SCOPE_UNIVERSE, SCOPE_LINK = 0, 253
# Scopes of addresses that are valid only on the link or the host, or nowhere.
NARROW_SCOPES = (SCOPE_LINK, 254, 255)
UNICAST = 1

ADDRESS_HEADER = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
ROUTE_HEADER = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type, flags
RULE_HEADER = struct.Struct("=BBBBBxxBI")  # family, dst_len, src_len, tos, table, action, flags
NEIGHBOUR_HEADER = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type

Interface = t.Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
IP = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
# Destinations of default routes, by IP version.
ANYWHERE: dict[int, Network] = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("::/0")}


class Address(t.NamedTuple):
    """One IP address of an interface."""

    ifindex: int
    interface: Interface
    scope: int
    flags: int


class Route(t.NamedTuple):
    """One unicast route; ``oif`` is 0 if it has several next hops."""

    table: int
    destination: Network
    oif: int
    gateway: IP | None
    source: IP | None
    metric: int
    protocol: int
    scope: int

    def __str__(self) -> str:
        return " ".join(
            filter(
                None,
                (
                    "via %s" % self.gateway if self.gateway else "link",
                    "src %s" % self.source if self.source else "",
                    "metric %d" % self.metric if self.metric and self.destination.version == 4 else "",
                ),
            )
        )


def static_route(table: int, to: Network, ifindex: int, via: IP | None = None, source: IP | None = None) -> Route:
    """Return a planned route as the kernel reports it; without ``via``, on the link."""
    # IPv6 routes do not have a scope: the kernel reports universe
    scope = SCOPE_LINK if via is None and to.version == 4 else SCOPE_UNIVERSE
    return Route(table, to, ifindex, via, source, 0, PROTOCOL_STATIC, scope)


class Rule(t.NamedTuple):
    """One policy rule. ``plain``: it selects only by ``source`` and ``oif``, and looks up ``table``.

    ``raw``: the kernel's message, with which the rule can be removed. ``iif``: the interface of received packets.
    """

    version: int
    priority: int
    source: Network | None
    oif: str
    table: int
    plain: bool
    raw: bytes = b""
    iif: str = ""

    @property
    def restricted(self) -> bool:
        """Whether it selects only packets from a source, or of an interface."""
        return bool(self.source or self.oif or self.iif)

    @property
    def selector(self) -> str:
        """The selector, for a plain rule in the format of ``ip rule``."""
        parts = ["from %s" % bare(self.source)] if self.source else []
        parts += ["oif %s" % self.oif] if self.oif else []
        parts += [] if self.plain else ["other selectors"]
        return " ".join(parts) or "from all"

    @property
    def action(self) -> str:
        return "lookup %d" % self.table


def bare(network: Network) -> str:
    """Format a network as ``ip rule`` does: a single address has no prefix length."""
    return str(network.network_address if network.prefixlen == network.max_prefixlen else network)


def family(version: int) -> int:
    return int(socket.AF_INET6 if version == 6 else socket.AF_INET)


class Rtnetlink:
    """The kernel's tables of links, addresses, routes and rules in the caller's network namespace.

    :param sock: another socket, for tests. By default one is opened when it is first needed.
    :param ip: passed to :class:`.vf_setter.VfSetter`, for tests.
    """

    def __init__(self, sock: codec.NetlinkSocket | None = None, ip: t.Any = None) -> None:
        self._opened = sock
        self._vfs = VfSetter(ip)

    @property
    def _sock(self) -> codec.NetlinkSocket:
        if self._opened is None:
            self._opened = codec.NetlinkSocket(NETLINK_ROUTE, "rtnetlink")
        return self._opened

    def close(self) -> None:
        if self._opened:
            self._opened.close()
            self._opened = None
        self._vfs.close()

    def __enter__(self) -> Rtnetlink:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def links(self, vfs: bool = False, most: int | None = None) -> list[Link]:
        """Return all interfaces, sorted by index. Raises :class:`NetlinkError`.

        A dump of all interfaces may fail if a NIC has many VFs; call :meth:`link` per NIC then.

        :param most: see :meth:`.NetlinkSocket.dump`; also of the other methods that return tables.
        """
        request = LINK_HEADER.pack(0, 0, 0, 0, 0) + codec.u32(IFLA_EXT_MASK, _extension_filter(vfs))
        found = [decode_link(payload) for payload in self._dump(RTM_GETLINK, request, most)]
        return sorted(found, key=lambda link: link.ifindex)

    def link(self, which: int | str, vfs: bool = False, namespace: int | None = None) -> Link | None:
        """Return a link by index, name or alternative name; None if it does not exist. Raises :class:`NetlinkError`.

        With ``vfs`` the kernel may refuse with EMSGSIZE, if the NIC's VFs do not fit into a message.

        :param namespace: the number of another network namespace; EINVAL if no namespace has this number.
        """
        request = LINK_HEADER.pack(0, 0, which if isinstance(which, int) else 0, 0, 0)
        if isinstance(which, str):
            request += codec.string(IFLA_IFNAME if len(which) < 16 else IFLA_ALT_IFNAME, which)
        request += codec.u32(IFLA_EXT_MASK, _extension_filter(vfs)) + _namespace_attribute(namespace)
        try:
            (answer,) = self._sock.request(RTM_GETLINK, request)
        except codec.NetlinkError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return decode_link(answer) if vfs else decode_known_link(answer)

    def addresses(self, most: int | None = None, index: int = 0) -> list[Address]:
        """Return all IPv4 and IPv6 addresses, or those of the interface ``index``. Raises :class:`NetlinkError`."""
        request = ADDRESS_HEADER.pack(0, 0, 0, 0, index)
        if index:
            self._sock.check_strictly()
        found = map(decode_address, self._dump(RTM_GETADDR, request, most))
        return [address for address in found if address and index in (0, address.ifindex)]

    def routes(self, version: int, most: int | None = None) -> list[Route]:
        """Return the unicast routes of IP ``version`` except the local table. Raises :class:`NetlinkError`."""
        request = ROUTE_HEADER.pack(family(version), 0, 0, 0, 0, 0, 0, 0, 0)
        found = (decode_route(payload) for payload in self._dump(RTM_GETROUTE, request, most))
        return [route for route in found if route]

    def rules(self, version: int, most: int | None = None) -> list[Rule]:
        """Return the policy rules of IP ``version``. Raises :class:`NetlinkError`."""
        request = RULE_HEADER.pack(family(version), 0, 0, 0, 0, 0, 0)
        return [rule for rule in map(decode_rule, self._dump(RTM_GETRULE, request, most)) if rule]

    def hardware_addresses(self, index: int) -> list[bytes]:
        """Return the hardware addresses in an interface's receive filter, including those of interfaces built on it."""
        found: list[bytes] = []
        for payload in self._sock.dump(RTM_GETNEIGH, LINK_HEADER.pack(AF_BRIDGE, 0, 0, 0, 0)):
            if NEIGHBOUR_HEADER.unpack_from(payload)[1] == index:
                found.append(codec.table(payload[NEIGHBOUR_HEADER.size :]).get(NDA_LLADDR, b""))
        return found

    def set_link(self, index: int, up: bool | None = None, flags: int | None = None, **attributes: t.Any) -> None:
        """Change an interface, in one step of the kernel. Raises :class:`NetlinkError`.

        :param flags: the new flags of :data:`.IFF_KEPT`.
        :param attributes: of :func:`.encode_link`. ``address``: the new hardware address. ``namespace``: a file
            descriptor of the network namespace to move it to, with the index ``new_index`` (EBUSY if it is taken).
        """
        value, mask = (IFF_UP if up else 0), (0 if up is None else IFF_UP)
        if flags is not None:
            value, mask = value | flags, mask | IFF_KEPT
        self._sock.request(RTM_NEWLINK, LINK_HEADER.pack(0, 0, index, value, mask) + encode_link(**attributes))

    def detach_xdp(self, index: int, attached: int) -> None:
        """Detach the XDP programs of an interface. Raises :class:`NetlinkError`. ``attached``: :attr:`.Link.xdp`."""
        for mode in [attached] if attached in XDP_MODES else XDP_MODES:
            request = LINK_HEADER.pack(0, 0, index, 0, 0) + encode_no_xdp(mode)
            self._request_idempotent(RTM_NEWLINK, request, errno.EOPNOTSUPP)

    def new_link(
        self,
        kind: str | bytes,
        name: str,
        parent: int | None,
        namespace: int | None,
        mtu: int | None,
        address: bytes | None,
        index: int = 0,
    ) -> None:
        """Create an interface on ``parent``, directly in the network namespace of a file descriptor, if it is given.

        ``kind``: one of those of :func:`.encode_kind`, or encoded by :mod:`.link_kinds`. ``index``: of the interface;
        0: any.

        Raises :class:`NetlinkError`: EEXIST if the namespace has an interface of that name; EBUSY, of that index.
        """
        attributes = b"" if parent is None else codec.u32(IFLA_LINK, parent)
        attributes += encode_link(mtu, name, address, None, namespace)
        attributes += kind if isinstance(kind, bytes) else encode_kind(kind)
        self._sock.request(RTM_NEWLINK, LINK_HEADER.pack(0, 0, index, 0, 0) + attributes, NLM_F_CREATE | NLM_F_EXCL)

    def delete_link(self, index: int, namespace: int | None = None) -> None:
        """Remove a virtual interface, if it exists. Raises :class:`NetlinkError`.

        :param namespace: the number of another network namespace.
        """
        self._request_idempotent(
            RTM_DELLINK, LINK_HEADER.pack(0, 0, index, 0, 0) + _namespace_attribute(namespace), errno.ENODEV
        )

    def namespace_number(self, fd: int) -> int | None:
        """Return the number that the namespace of a file descriptor has in the present one; None if it has none."""
        request = struct.pack("=B3x", 0) + codec.u32(NETNSA_FD, fd)
        for answer in self._sock.request(RTM_GETNSID, request):
            value = codec.table(answer[4:]).get(NETNSA_NSID)
            number = struct.unpack("=i", value)[0] if value else -1
            return number if number >= 0 else None
        return None

    def number_namespace(self, fd: int) -> int:
        """Return the number of a network namespace; assign a free number, valid while it exists, if it has none."""
        request = struct.pack("=B3x", 0) + codec.u32(NETNSA_FD, fd) + codec.attribute(NETNSA_NSID, b"\xff" * 4)
        self._request_idempotent(RTM_NEWNSID, request, errno.EEXIST)
        number = self.namespace_number(fd)
        if number is None:
            raise codec.NetlinkError(errno.ENOENT, "the network namespace has no number", "rtnetlink")
        return number

    def add_altname(self, index: int, name: str) -> None:
        """Add an alternative name to an interface. Raises :class:`NetlinkError`."""
        self._sock.request(RTM_NEWLINKPROP, _altname(index, name), NLM_F_CREATE | NLM_F_EXCL)

    def delete_altname(self, index: int, name: str) -> None:
        """Remove an alternative name of an interface. Raises :class:`NetlinkError`."""
        self._sock.request(RTM_DELLINKPROP, _altname(index, name))

    def add_address(self, index: int, interface: Interface, flags: int = 0) -> None:
        """Add an address to an interface, if it does not have it. Raises :class:`NetlinkError`."""
        self._request_idempotent(
            RTM_NEWADDR, encode_address(index, interface, flags), errno.EEXIST, NLM_F_CREATE | NLM_F_EXCL
        )

    def delete_address(self, index: int, interface: Interface) -> None:
        """Remove an address of an interface, if it has it. Raises :class:`NetlinkError`."""
        self._request_idempotent(RTM_DELADDR, encode_address(index, interface), errno.EADDRNOTAVAIL)

    def add_route(self, route: Route) -> None:
        """Add a route, if it does not exist. Raises :class:`NetlinkError`."""
        self._request_idempotent(RTM_NEWROUTE, encode_route(route), errno.EEXIST, NLM_F_CREATE | NLM_F_EXCL)

    def delete_route(self, route: Route) -> None:
        """Remove a route, if it exists. Raises :class:`NetlinkError`."""
        self._request_idempotent(RTM_DELROUTE, encode_route(route), errno.ESRCH)

    def add_rule(self, rule: Rule) -> None:
        """Add a rule, if it does not exist. Raises :class:`NetlinkError`."""
        self._request_idempotent(RTM_NEWRULE, encode_rule(rule), errno.EEXIST, NLM_F_CREATE | NLM_F_EXCL)

    def delete_rule(self, rule: Rule) -> None:
        """Remove a rule, if it exists. Raises :class:`NetlinkError`."""
        self._request_idempotent(RTM_DELRULE, rule.raw or encode_rule(rule), errno.ENOENT)

    def set_vf(self, index: int, vf: int, **attributes: t.Any) -> None:
        """Set attributes of a PF's VF, named as in ``_common.vf_attributes``. Raises :class:`NetlinkError`.

        See :func:`.link_messages.encode_vf` for attributes that the kernel sets together. The kernel may have set some
        attributes when it refuses another.
        """
        self._vfs.set(index, vf, attributes)

    def _dump(self, kind: int, request: bytes, most: int | None) -> list[bytes]:
        try:
            return self._sock.dump(kind, request, most)
        except codec.NetlinkError as error:
            if error.errno == errno.E2BIG:
                # the rest of the table is not read
                self.close()
            raise

    def _request_idempotent(self, kind: int, payload: bytes, ignored_errno: int, flags: int = 0) -> None:
        try:
            self._sock.request(kind, payload, flags)
        except codec.NetlinkError as error:
            if error.errno != ignored_errno:
                raise


@functools.lru_cache(maxsize=256)
def decode_address(payload: bytes) -> Address | None:
    kind, prefix, short_flags, scope, index = ADDRESS_HEADER.unpack_from(payload)
    held = codec.table(payload[ADDRESS_HEADER.size :])
    # of a point-to-point link, IFA_ADDRESS is the peer's address
    packed = held.get(IFA_LOCAL) or held.get(IFA_ADDRESS)
    if kind not in (socket.AF_INET, socket.AF_INET6) or not packed:
        return None
    flags = codec.number(held[IFA_FLAGS]) if IFA_FLAGS in held else short_flags
    interface = ipaddress.ip_interface("%s/%d" % (ipaddress.ip_address(packed), prefix))
    return Address(index, interface, scope, flags)


def decode_route(payload: bytes) -> Route | None:
    kind, dst_len, src_len, tos, table, protocol, scope, route_type, _flags = ROUTE_HEADER.unpack_from(payload)
    # not needed, and the local table may have thousands of routes (one for each service address of a cluster)
    if table == TABLE_LOCAL or route_type != UNICAST or src_len or tos:
        return None
    held = codec.table(payload[ROUTE_HEADER.size :])
    packed = held.get(RTA_DST) or bytes(16 if kind == socket.AF_INET6 else 4)
    return Route(
        codec.number(held[RTA_TABLE]) if RTA_TABLE in held else table,
        ipaddress.ip_network("%s/%d" % (ipaddress.ip_address(packed), dst_len)),
        codec.number(held.get(RTA_OIF, bytes(4))),
        _ip(held.get(RTA_GATEWAY)),
        _ip(held.get(RTA_PREFSRC)),
        codec.number(held.get(RTA_PRIORITY, bytes(4))),
        protocol,
        scope,
    )


def decode_rule(payload: bytes) -> Rule | None:
    kind, dst_len, src_len, tos, table, action, flags = RULE_HEADER.unpack_from(payload)
    if kind not in (socket.AF_INET, socket.AF_INET6):
        return None
    held = codec.table(payload[RULE_HEADER.size :])
    source = held.get(FRA_SRC)
    selectors = set(held) - FRA_PLAIN
    # the kernel always reports suppressors; -1 means unset
    selectors -= {key for key in FRA_SUPPRESS if held.get(key) == b"\xff\xff\xff\xff"}
    plain = action == FR_ACT_TO_TBL and not (selectors or dst_len or tos or flags & FIB_RULE_INVERT)
    return Rule(
        6 if kind == socket.AF_INET6 else 4,
        codec.number(held.get(FRA_PRIORITY, bytes(4))),
        ipaddress.ip_network("%s/%d" % (ipaddress.ip_address(source), src_len)) if source else None,
        codec.text(held.get(FRA_OIFNAME, b"")),
        codec.number(held[FRA_TABLE]) if FRA_TABLE in held else table,
        plain,
        payload,
        codec.text(held.get(FRA_IIFNAME, b"")),
    )


def encode_address(index: int, interface: Interface, flags: int = 0) -> bytes:
    packed = interface.ip.packed
    prefix = interface.network.prefixlen
    payload = ADDRESS_HEADER.pack(family(interface.version), prefix, flags, SCOPE_UNIVERSE, index)
    payload += codec.attribute(IFA_LOCAL, packed) + codec.attribute(IFA_ADDRESS, packed)
    if interface.version == 4 and prefix < 31:
        payload += codec.attribute(IFA_BROADCAST, interface.network.broadcast_address.packed)
    return payload


def encode_route(route: Route) -> bytes:
    kind = family(route.destination.version)
    prefix = route.destination.prefixlen
    table = route.table if route.table < 256 else 0
    payload = ROUTE_HEADER.pack(kind, prefix, 0, 0, table, route.protocol, route.scope, UNICAST, 0)
    payload += codec.u32(RTA_TABLE, route.table)
    if prefix:
        payload += codec.attribute(RTA_DST, route.destination.network_address.packed)
    if route.oif:
        payload += codec.u32(RTA_OIF, route.oif)
    if route.gateway:
        payload += codec.attribute(RTA_GATEWAY, route.gateway.packed)
    if route.source:
        payload += codec.attribute(RTA_PREFSRC, route.source.packed)
    if route.metric:
        payload += codec.u32(RTA_PRIORITY, route.metric)
    return payload


def encode_rule(rule: Rule) -> bytes:
    table = rule.table if rule.table < 256 else 0
    prefix = rule.source.prefixlen if rule.source else 0
    payload = RULE_HEADER.pack(family(rule.version), 0, prefix, 0, table, FR_ACT_TO_TBL, 0)
    payload += codec.u32(FRA_TABLE, rule.table) + codec.u32(FRA_PRIORITY, rule.priority)
    payload += codec.u8(FRA_PROTOCOL, PROTOCOL_STATIC)
    if rule.source:
        payload += codec.attribute(FRA_SRC, rule.source.network_address.packed)
    if rule.oif:
        payload += codec.string(FRA_OIFNAME, rule.oif)
    return payload


def _extension_filter(vfs: bool) -> int:
    return RTEXT_FILTER_SKIP_STATS | (RTEXT_FILTER_VF if vfs else 0)


def _altname(index: int, name: str) -> bytes:
    names = codec.attribute(IFLA_PROP_LIST | NLA_F_NESTED, codec.string(IFLA_ALT_IFNAME, name))
    return LINK_HEADER.pack(0, 0, index, 0, 0) + names


def _namespace_attribute(namespace: int | None) -> bytes:
    return b"" if namespace is None else codec.u32(IFLA_TARGET_NETNSID, namespace)


def _ip(packed: bytes | None) -> IP | None:
    return ipaddress.ip_address(packed) if packed else None
