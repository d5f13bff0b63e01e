# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Addresses that IP itself gives a meaning, however they are written: no port of a rail and no node may have them."""

from __future__ import annotations

import ipaddress
import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    network,
    parse_network,
)


def _nets(*known: tuple[str, str]) -> list[tuple[Network, str]]:
    found = []
    for text, what in known:
        bits = IPV6 if ":" in text else IPV4
        parsed = parse_network(text, bits)
        if parsed:
            found.append((network(*parsed, bits), what))
    return found


# What the kernel of every machine keeps for itself, or never takes as a host's address.
_NEVER = _nets(
    ("0.0.0.0/8", "the unspecified network"),
    ("127.0.0.0/8", "loopback, which is each machine itself"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "the broadcast address"),
    ("::1/128", "loopback, which is each machine itself"),
    ("::/128", "the unspecified address"),
    ("ff00::/8", "multicast"),
)
# What a rail could have, although it is seldom meant.
_SELDOM = _nets(("169.254.0.0/16", "link-local"), ("240.0.0.0/4", "reserved for future use"))
_LINK_LOCAL6 = _nets(("fe80::/10", "link-local, which every interface has already"))
_MAPPED = network(0xFFFF << 32, 96, IPV6)
# Unique local and global unicast: of all IPv6, what interfaces are given.
_UNICAST6 = _nets(("fc00::/7", ""), ("2000::/3", ""))
# Hosts that Ansible takes for the machine on which it runs, whatever their address is.
IMPLICIT = ("localhost", "127.0.0.1", "::1")
# Names that mean the machine itself everywhere.
_SELF = ("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "loopback")


def canonical(text: str) -> tuple[int, int] | None:
    """An address as its family and number, for every spelling that a resolver takes for the same; None for a name.

    An IPv4 address within IPv6 (``::ffff:10.1.16.1``) is the IPv4 address, and ``127.1`` is ``127.0.0.1``.
    """
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        try:
            return IPV4, int.from_bytes(socket.inet_aton(text), "big")
        except OSError:
            return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        return IPV4, int(found.ipv4_mapped)
    return (IPV4 if found.version == 4 else IPV6), int(found)


def host_problem(text: str) -> str | None:
    """Why Ansible cannot reach a node, and no other machine, by this address or name; None where it may."""
    found = canonical(text)
    if found is None:
        name = text.lower().rstrip(".")
        return "is the machine on which Ansible runs" if name in _SELF or name.endswith(".localhost") else None
    bits, number = found
    known = _NEVER + _SELDOM + ([] if "%" in text else _LINK_LOCAL6)
    for net, what in known:
        if net.bits == bits and net.holds(number):
            return "is %s" % what if net.size == 1 else "is in %s, %s" % (net, what)
    return None


def network_problem(net: Network) -> tuple[str, bool] | None:
    """Why a rail cannot have this network, and whether that finding can be suppressed; None if it can."""
    for known, seldom in ((_NEVER, False), (_LINK_LOCAL6, False), (_SELDOM, True)):
        for other, what in known:
            if other.bits == net.bits and Range(net.first, net.last, net.bits).overlap(other):
                return "%s %s %s, %s" % (net, "is in" if other.prefix <= net.prefix else "has", other, what), seldom
    if net.bits == IPV6 and not any(other.holds(net.first) and other.holds(net.last) for other, _what in _UNICAST6):
        return "%s is neither in fc00::/7 (unique local) nor in 2000::/3 (global)" % net, False
    return None


def mapped(net: Network) -> Network | None:
    """The IPv4 network that an IPv6 network spells (``::ffff:10.1.0.0/112``)."""
    if net.bits != IPV6 or net.prefix < _MAPPED.prefix or not _MAPPED.holds(net.first):
        return None
    return network(net.first & 0xFFFFFFFF, net.prefix - _MAPPED.prefix, IPV4)


def same_host(text: str) -> t.Hashable:
    """What two spellings of one node's address have in common."""
    scope = text.partition("%")[2]
    return (canonical(text), scope) if canonical(text) else text.lower().rstrip(".")
