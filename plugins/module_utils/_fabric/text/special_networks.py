# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses with a special meaning in IP, in any spelling. Rail ports and nodes must not have them."""

from __future__ import annotations

import ipaddress
import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    network,
    network_of,
    parse_address,
)


def _nets(*described: tuple[str, str]) -> list[tuple[Network, str]]:
    """Return the networks of (network, meaning) pairs, with their meanings."""
    return [(net, meaning) for text, meaning in described for net in [network_of(text)] if net]


# Networks that every kernel uses itself, or refuses as addresses of hosts.
_NEVER = _nets(
    ("0.0.0.0/8", "the unspecified network"),
    ("127.0.0.0/8", "loopback, which is each machine itself"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "the broadcast address"),
    ("::1/128", "loopback, which is each machine itself"),
    ("::/128", "the unspecified address"),
    ("ff00::/8", "multicast"),
)
# Networks that are possible on a rail, but seldom intended.
_SELDOM = _nets(("169.254.0.0/16", "link-local"), ("240.0.0.0/4", "reserved for future use"))
_LINK_LOCAL6 = _nets(("fe80::/10", "link-local, which every interface has already"))
_MAPPED = network(0xFFFF << 32, 96, IPV6)
# Unique local and global unicast: the IPv6 addresses that interfaces can be assigned.
_UNICAST6 = _nets(("fc00::/7", ""), ("2000::/3", ""))
# Hosts that Ansible treats as the machine on which it runs, whatever their address is.
IMPLICIT = ("localhost", "127.0.0.1", "::1")
# Names that mean the machine itself on every machine.
_SELF = ("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "loopback")


def canonical(text: str) -> tuple[int, int] | None:
    """Return family and number of an address, the same for all spellings that a resolver accepts; None for a name.

    ``::ffff:10.1.16.1`` is the IPv4 address 10.1.16.1, and ``127.1`` is 127.0.0.1.
    """
    number = parse_address(text)
    if number is not None:
        return IPV4, number
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        try:
            return IPV4, int.from_bytes(socket.inet_aton(text), "big")
        except OSError:
            return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return IPV4, int(address.ipv4_mapped)
    return (IPV4 if address.version == 4 else IPV6), int(address)


def host_problem(text: str) -> str | None:
    """Return why this address or name cannot be that of a node, as the end of a sentence; None if it can."""
    address = canonical(text)
    if address is None:
        name = text.lower().rstrip(".")
        return "is the machine on which Ansible runs" if name in _SELF or name.endswith(".localhost") else None
    bits, number = address
    special = _NEVER + _SELDOM + ([] if "%" in text else _LINK_LOCAL6)
    for net, meaning in special:
        if net.bits == bits and net.holds(number):
            return "is %s" % meaning if net.size == 1 else "is in %s, %s" % (net, meaning)
    return None


def network_problem(net: Network) -> tuple[str, bool] | None:
    """Return why a rail cannot have this network, and whether the finding is suppressible; None if it can."""
    for nets, suppressible in ((_NEVER, False), (_LINK_LOCAL6, False), (_SELDOM, True)):
        for special, meaning in nets:
            if net.addresses.overlap(special):
                relation = "is in" if special.prefix <= net.prefix else "contains"
                return "%s %s %s, %s" % (net, relation, special, meaning), suppressible
    if net.bits == IPV6 and not any(other.holds(net.first) and other.holds(net.last) for other, _meaning in _UNICAST6):
        return "%s is neither in fc00::/7 (unique local) nor in 2000::/3 (global)" % net, False
    return None


def mapped(net: Network) -> Network | None:
    """Return the IPv4 network of an IPv4-mapped IPv6 network (``::ffff:10.1.0.0/112``); None for other networks."""
    if net.bits != IPV6 or net.prefix < _MAPPED.prefix or not _MAPPED.holds(net.first):
        return None
    return network(net.first & 0xFFFFFFFF, net.prefix - _MAPPED.prefix, IPV4)


def same_host(text: str) -> t.Hashable:
    """Return a key that is equal for all spellings of one address or name of a node."""
    address, scope = canonical(text), text.partition("%")[2]
    return (address, scope) if address else text.lower().rstrip(".")
