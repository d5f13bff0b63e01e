# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Rtnetlink: links with their VFs, addresses, routes and rules.

Tables are read with the project's own codec, so that a run that changes nothing does not pay for a library's import
(more than a second on a slow machine); requests that change something go through pyroute2, which is imported by the
first of them. Works with pyroute2 0.7.2 (Debian 12) up to 0.9.

Rows are plain dicts; what the kernel does not tell is None. Addresses of networks are text as ``ip`` writes them
(``172.16.11.201/24``, ``default``), MTU is in bytes, rates are in Mb/s.

Source: rtnetlink(7) and the kernel's ``include/uapi/linux/{rtnetlink,if_link,if_addr,fib_rules}.h``.
"""

from __future__ import annotations

import errno
import os
import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.node import netlink
from ansible_collections.railyard.fabric.plugins.module_utils.node.netlink import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils.node.rtnl_rows import (
    IFADDR,
    IFINFO,
    IFLA_ALT_IFNAME,
    IFLA_EXT_MASK,
    IFLA_IFNAME,
    LINK_STATES,
    RTMSG,
    SCOPES,
    Row,
    address_row,
    link_row,
    route_row,
    rule_row,
)

NETLINK_ROUTE = 0
RTM_GETLINK = 18
RTM_GETADDR = 22
RTM_GETROUTE = 26
RTM_GETRULE = 34

RTEXT_FILTER_VF = 0x1
RTEXT_FILTER_SKIP_STATS = 0x8
RT_TABLE_MAIN = 254
# What we make ourselves carries 'static', as a person's own settings do.
PROTOCOL_STATIC = 4


class Rtnl:
    """Rtnetlink in the caller's network namespace. Raises :class:`NetlinkError` where the kernel refuses.

    :param sock: a datagram socket that answers as the kernel does, for tests; it serves what is read.
    :param ip: a pyroute2 ``IPRoute`` or what stands for it in tests; it serves what is changed.
    """

    def __init__(self, sock: socket.socket | None = None, ip: t.Any = None) -> None:
        self._given = sock
        self._reader: NetlinkSocket | None = None
        self._ip = ip

    def close(self) -> None:
        if self._reader:
            self._reader.close()
            self._reader = None
        if self._ip is not None:
            self._ip.close()
            self._ip = None

    def __enter__(self) -> Rtnl:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def links(self, vfs: bool = False) -> list[Row]:
        """All links, in the order of their index.

        Each: ``index``, ``name``, ``altnames``, ``type`` (ARPHRD number), ``address``, ``mtu``, ``min_mtu``,
        ``max_mtu``, ``up`` (administratively), ``carrier``, ``operstate`` (``UP``, ``DOWN``...), ``master`` and
        ``link`` (indices; the latter is the link below a VLAN or macvlan), ``link_netnsid`` (set where ``link`` is in
        another network namespace), ``kind`` (``macvlan``, ``bond``...), ``parent`` (PCI address, kernels from 5.14),
        ``phys_port_name``, ``num_vf``, and ``vfs`` (of :func:`.rtnl_rows.vf_row`; None where not asked for).

        One dump for all may be too much for the kernel where a NIC has many VFs: ask :meth:`link` per NIC then.
        """
        payload = IFINFO.pack(0, 0, 0, 0, 0) + netlink.u32(IFLA_EXT_MASK, _mask(vfs))
        answers = self._read.dump(RTM_GETLINK, payload)
        return sorted((link_row(each, vfs) for each in answers), key=lambda row: int(row["index"]))

    def link(self, which: int | str, vfs: bool = False) -> Row | None:
        """One link by index or name (or alternative name); None where there is none. See :meth:`links`.

        With ``vfs`` the kernel may refuse with EMSGSIZE, where a NIC's VFs are more than a message can hold.
        """
        payload = IFINFO.pack(0, 0, which if isinstance(which, int) else 0, 0, 0)
        if isinstance(which, str):
            kind = IFLA_IFNAME if len(which) < 16 else IFLA_ALT_IFNAME
            payload += netlink.string(kind, which)
        payload += netlink.u32(IFLA_EXT_MASK, _mask(vfs))
        try:
            (answer,) = self._read.request(RTM_GETLINK, payload)
        except NetlinkError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return link_row(answer, vfs)

    def addresses(self, index: int | None = None) -> list[Row]:
        """IPv4 and IPv6 addresses (of one link).

        Each: ``index`` (the link's), ``family`` (4 or 6), ``address`` with prefix, ``scope`` (``global``, ``link``...),
        ``label``, ``flags`` and ``protocol`` (IFA_F_ and IFAPROT_ numbers).
        """
        found = [address_row(each) for each in self._read.dump(RTM_GETADDR, IFADDR.pack(0, 0, 0, 0, 0))]
        return [row for row in found if index in (None, row["index"])]

    def routes(self, table: int | None = None) -> list[Row]:
        """Routes (of one table), IPv4 and IPv6, without cached ones.

        Each: ``family``, ``table``, ``destination`` (``default`` or with prefix), ``gateway``, ``index`` (of the link),
        ``source`` (preferred source address), ``priority`` (metric), ``protocol`` (number), ``scope``, ``type``,
        ``nexthops`` (of a multipath route: list of ``gateway`` and ``index``).
        """
        found = []
        for family in (socket.AF_INET, socket.AF_INET6):
            for answer in self._read.dump(RTM_GETROUTE, RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
                row = route_row(answer)
                if row and table in (None, row["table"]):
                    found.append(row)
        return found

    def rules(self) -> list[Row]:
        """Rules, IPv4 and IPv6, in the kernel's order.

        Each: ``family``, ``priority``, ``source`` and ``destination`` (with prefix; None: all), ``input`` and
        ``output`` (netdev names), ``mark``, ``table``, ``action`` (``lookup``...), ``protocol`` (number).
        """
        found = []
        for family in (socket.AF_INET, socket.AF_INET6):
            for answer in self._read.dump(RTM_GETRULE, RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
                found.append(rule_row(answer))
        return found

    # -- changing --------------------------------------------------------------------------------------------------

    def set_link(self, index: int, up: bool | None = None, mtu: int | None = None, name: str | None = None) -> None:
        """Set a link's administrative state, MTU or name. A name can be set only while older kernels have it down."""
        options: Row = {"index": index}
        if up is not None:
            options["state"] = "up" if up else "down"
        if mtu is not None:
            options["mtu"] = mtu
        if name is not None:
            options["ifname"] = name
        self._change("link", "set", options)

    def set_vf(self, index: int, vf: int, **attributes: t.Any) -> None:
        """Set attributes of a PF's VF; the names are those of :func:`.rtnl_rows.vf_row`.

        ``vlan`` and ``qos`` are one setting of the kernel, as are ``min_tx_rate`` and ``max_tx_rate``: give both,
        what is left out is 0. Where several are given the kernel may do some before it refuses another.
        """
        spec: Row = {"vf": vf}
        for name in ("mac", "trust", "spoofchk"):
            if name in attributes:
                value = attributes[name]
                spec[name] = int(value) if isinstance(value, bool) else value
        if "link_state" in attributes:
            spec["link_state"] = LINK_STATES.index(attributes["link_state"])
        if "vlan" in attributes or "qos" in attributes:
            spec["vlan"] = {"vlan": attributes.get("vlan", 0), "qos": attributes.get("qos", 0)}
        if "min_tx_rate" in attributes or "max_tx_rate" in attributes:
            spec["rate"] = {name: attributes.get(name, 0) for name in ("min_tx_rate", "max_tx_rate")}
        for name in ("node_guid", "port_guid"):
            if name in attributes:
                spec["ib_" + name] = attributes[name]
        self._change("link", "set", {"index": index, "vf": spec})

    def add_address(self, index: int, address: str) -> None:
        """Add an address with its prefix, ``172.16.11.201/24``. EEXIST where it is there."""
        self._change("addr", "add", _address(index, address))

    def delete_address(self, index: int, address: str) -> None:
        """Take an address away. EADDRNOTAVAIL where it is not there."""
        self._change("addr", "del", _address(index, address))

    def add_route(
        self,
        index: int,
        destination: str,
        table: int = RT_TABLE_MAIN,
        gateway: str | None = None,
        source: str | None = None,
        scope: str | None = None,
        priority: int | None = None,
        family: int = 4,
    ) -> None:
        """Add a route, or replace the one with the same destination and metric in the table.

        :param destination: ``default`` or with prefix.
        :param family: 4 or 6, where no address tells it.
        """
        self._change("route", "replace", _route(index, destination, table, gateway, source, scope, priority, family))

    def delete_route(
        self,
        index: int,
        destination: str,
        table: int = RT_TABLE_MAIN,
        gateway: str | None = None,
        source: str | None = None,
        scope: str | None = None,
        priority: int | None = None,
        family: int = 4,
    ) -> None:
        """Take a route away. ESRCH where it is not there."""
        self._change("route", "del", _route(index, destination, table, gateway, source, scope, priority, family))

    def add_rule(
        self,
        priority: int,
        table: int,
        source: str | None = None,
        destination: str | None = None,
        input: str | None = None,  # noqa: A002 - the rows' own word
        output: str | None = None,
        family: int = 4,
    ) -> None:
        """Add a rule: what comes from ``source`` (``172.16.11.201/32``) looks up ``table``."""
        self._change("rule", "add", _rule(priority, table, source, destination, input, output, family))

    def delete_rule(
        self,
        priority: int,
        table: int,
        source: str | None = None,
        destination: str | None = None,
        input: str | None = None,  # noqa: A002
        output: str | None = None,
        family: int = 4,
    ) -> None:
        """Take away the first rule that is so. ENOENT where there is none."""
        self._change("rule", "del", _rule(priority, table, source, destination, input, output, family))

    @property
    def _read(self) -> NetlinkSocket:
        if self._reader is None:
            self._reader = NetlinkSocket(NETLINK_ROUTE, "rtnetlink", self._given)
        return self._reader

    def _change(self, what: str, command: str, options: Row) -> None:
        if self._ip is None:
            self._ip = _iproute()
        try:
            getattr(self._ip, what)(command, **options)
        except RailyardError:
            raise
        except Exception as error:
            # pyroute2's own NetlinkError; its place differs between releases, its 'code' does not
            code = getattr(error, "code", None) or getattr(error, "errno", None)
            if not isinstance(code, int):
                raise
            raise NetlinkError(code, _said(error), "rtnetlink %s %s" % (what, command)) from None


def _iproute() -> t.Any:
    try:
        from pyroute2 import IPRoute
    except ImportError as error:
        raise RailyardError(
            "the Python library pyroute2 cannot be imported: %s" % error,
            "pyroute2",
            "install the package python3-pyroute2 on the node (or 'pip install pyroute2' for the interpreter "
            "that Ansible uses there)",
        ) from None
    return IPRoute()


def _said(error: Exception) -> str:
    """The kernel's own words, where pyroute2 hands them on."""
    words = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], str) else ""
    # most often it is only the number's own text
    return "" if words == os.strerror(getattr(error, "code", 0) or 0) else words


def _mask(vfs: bool) -> int:
    return RTEXT_FILTER_SKIP_STATS | (RTEXT_FILTER_VF if vfs else 0)


def _address(index: int, address: str) -> Row:
    host, _slash, prefix = address.partition("/")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return {"index": index, "address": host, "prefixlen": int(prefix), "family": family}


def _route(
    index: int,
    destination: str,
    table: int,
    gateway: str | None,
    source: str | None,
    scope: str | None,
    priority: int | None,
    family: int,
) -> Row:
    six = any(":" in (each or "") for each in (destination, gateway, source)) or family == 6
    if destination == "default":
        destination = "::/0" if six else "0.0.0.0/0"
    options: Row = {
        "family": socket.AF_INET6 if six else socket.AF_INET,
        "dst": destination,
        "oif": index,
        "table": table,
        "proto": PROTOCOL_STATIC,
    }
    if gateway is not None:
        options["gateway"] = gateway
    if source is not None:
        options["prefsrc"] = source
    if priority is not None:
        options["priority"] = priority
    if scope is None:
        scope = "global" if gateway or six else "link"
    options["scope"] = next(number for number, name in SCOPES.items() if name == scope)
    return options


def _rule(
    priority: int,
    table: int,
    source: str | None,
    destination: str | None,
    incoming: str | None,
    outgoing: str | None,
    family: int,
) -> Row:
    six = family == 6 or ":" in (source or "") or ":" in (destination or "")
    options: Row = {
        "family": socket.AF_INET6 if six else socket.AF_INET,
        "priority": priority,
        "table": table,
        "action": "to_tbl",
    }
    for prefix, network in (("src", source), ("dst", destination)):
        if network is not None:
            host, slash, length = network.partition("/")
            options[prefix] = host
            options[prefix + "_len"] = int(length) if slash else (128 if six else 32)
    if incoming is not None:
        options["iifname"] = incoming
    if outgoing is not None:
        options["oifname"] = outgoing
    return options
