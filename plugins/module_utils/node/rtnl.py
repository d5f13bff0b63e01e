# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Rtnetlink for VFs: links with what there is to know of their VFs, their addresses, and VF attributes set.

What is read is read with the project's own codec, so that a run that changes nothing does not pay for a library's
import (more than a second on a slow machine); VF attributes are set through pyroute2, which is imported by the first of
them. Works with pyroute2 0.7.2 (Debian 12) up to 0.9. Rail ports' addresses, routes and rules are :mod:`.rtnetlink`'s.

Rows are plain dicts; what the kernel does not tell is None. MTU is in bytes, rates are in Mb/s.

Source: rtnetlink(7) and the kernel's ``include/uapi/linux/{if_link,if_addr}.h``.
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
    Row,
    address_row,
    link_row,
)

NETLINK_ROUTE = 0
RTM_GETLINK = 18
RTM_GETADDR = 22

RTEXT_FILTER_VF = 0x1
RTEXT_FILTER_SKIP_STATS = 0x8


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

    # -- changing --------------------------------------------------------------------------------------------------

    def set_up(self, index: int) -> None:
        """Set a link administratively up."""
        self._change("set", {"index": index, "state": "up"})

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
        self._change("set", {"index": index, "vf": spec})

    @property
    def _read(self) -> NetlinkSocket:
        if self._reader is None:
            self._reader = NetlinkSocket(NETLINK_ROUTE, "rtnetlink", self._given)
        return self._reader

    def _change(self, command: str, options: Row) -> None:
        if self._ip is None:
            self._ip = _iproute()
        try:
            self._ip.link(command, **options)
        except Exception as error:
            # pyroute2's own NetlinkError; its place differs between releases, its 'code' does not
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                raise
            raise NetlinkError(code, _said(error), "rtnetlink link %s" % command) from None


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
