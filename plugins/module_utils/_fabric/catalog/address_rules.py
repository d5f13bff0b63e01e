# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: addresses, networks, routing tables and MTU."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_SECOND = "  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n"

_GOOD = "rails:\n  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n" + _SECOND


def _rails(first: str) -> str:
    return "rails:\n  gpu01: {%s}\n%s" % (first, _SECOND)


def _from_supernet(supernet: str, prefix: int) -> str:
    """Return rails that are divided from a supernet, with a /27 for each node."""
    addresses = "addresses: {mode: prefix, node_prefix: 27, supernet: %s, rail_prefix: %d}\n" % (supernet, prefix)
    return addresses + "rails: {gpu01: {}, gpu02: {}}\n"


_UNITS = 'units:\n  su[1:2]: {nodes: 32}\nnodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "su[1:2]"}\n'


def _own_prefixes(more: str, fabric: str = "") -> str:
    """Return rails with a prefix for each node and rail."""
    return (
        _fabric(fabric)
        + "\naddresses: {mode: prefix, supernet: 172.16.0.0/12, rail_prefix: 16, %s}\n" % more
        + "rails: {gpu01: {}, gpu02: {}}"
    )


def _fabric(more: str) -> str:
    return "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200%s}" % more


ADDRESS = rule(
    "RY301 invalid-address: Invalid address",
    _rails("subnet: 172.16.11.0/24, gateway: 172.16.11.254/24, hosts: .201-.253"),
    _GOOD,
)

NETWORK = rule("RY302 invalid-network: Invalid network", _rails("subnet: 172.16.11.0, hosts: .201-.253"), _GOOD)

HOST_BITS = rule(
    "RY303 network-host-bits: Network with host bits set", _rails("subnet: 172.16.11.1/24, hosts: .201-.253"), _GOOD
)

SUBNET_SIZE = rule(
    "RY304 rail-subnet-too-small: Rail subnet too small",
    _rails("subnet: 172.16.11.0/32"),
    _rails("subnet: 172.16.11.0/31, hosts: .0-.1"),
    why="A cable between two nodes needs two addresses: a /31 of IPv4 (RFC 3021) and a /127 of IPv6 (RFC 6164) are"
    " enough, and both of their addresses are usable.",
)

FAMILY = rule(
    "RY305 wrong-address-family: Address of the wrong IP family",
    _rails("subnet: fd00:11::/64"),
    'rails: {count: 2, name: "gpu{n:02}", subnet6: "fd00:{n+10}::/64", hosts6: "::c9-::fd"}',
)

OUTSIDE = rule(
    "RY306 address-outside-subnet: Address outside its rail's subnet",
    _rails("subnet: 172.16.11.0/24, gateway: 172.16.13.254, hosts: .201-.253"),
    _GOOD,
    why="In `addresses` or in a generator, write a value for several rails as a short form, which replaces whole"
    " octets, or as an offset from the network address of each rail, which works with any prefix length: `+10-+73` is"
    " 172.16.4.10-172.16.4.73 in 172.16.4.0/22.",
)

UNUSABLE = rule(
    "RY307 network-or-broadcast-address: Network or broadcast address in use",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .0-.200, hosts: .201-.253"),
    _GOOD,
)

BACKWARDS = rule(
    "RY308 reversed-range: Range that ends before it begins",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .200-.1, hosts: .201-.253"),
    _GOOD,
)

GATEWAY_TAKEN = rule(
    "RY309 gateway-in-range: Range that contains the gateway",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.254"),
    _GOOD,
)

RANGES_OVERLAP = rule(
    "RY310 pods-hosts-overlap: Overlapping ranges for pods and hosts",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.210, hosts: .201-.253"),
    _GOOD,
)

RAILS_OVERLAP = rule(
    "RY311 rail-subnet-overlap: Overlapping rail subnets",
    _rails("subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"),
    _GOOD,
)

RESERVED_OVERLAP = rule(
    "RY312 reserved-network-overlap: Rail subnet that overlaps a reserved network",
    _fabric(", reserved: {pods: 172.16.12.0/22}"),
    _fabric(", reserved: {pods: 10.233.64.0/18}"),
)

HOSTS_FULL = rule(
    "RY313 too-few-host-addresses: Too few host addresses on a rail",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .253"),
    _GOOD,
)

UNUSED = rule(
    "RY321 key-without-effect: Key without effect in the address mode",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, node_prefix: 27"),
    _GOOD,
    why="Each mode has its own keys. A key of another mode has no effect, which is easy to overlook.",
)

TAKEN = rule(
    "RY322 no-addresses-left: All addresses taken",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.9, hosts: .201-.253, taken: {switches: .1-.9}"),
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, taken: {switches: .1-.9}"),
    why="Addresses in `taken` are excluded from `pods` and `hosts`, so these must have other addresses. In the modes"
    " `prefix` and `link`, taken addresses must come after the network of the last node.",
)

SHARE_SMALL = rule(
    "RY323 node-share-too-small: Too few addresses for the pods of a node",
    _own_prefixes("node_prefix: 30", ", pods_per_node: 8"),
    _own_prefixes("node_prefix: 28", ", pods_per_node: 8"),
    why="In a node's prefix, pods cannot have the network and broadcast addresses, the gateway, and the address of the"
    " port: a /27 has 28 addresses for pods, and a /30 has none.",
)

PODS_FULL = rule(
    "RY324 too-few-pod-addresses: Too few pod addresses on a rail",
    _fabric(", pods_per_node: 128"),
    _fabric(", pods_per_node: 64"),
)

GROWTH = rule(
    "RY325 no-room-for-max-nodes: Too few addresses on a rail for max_nodes",
    _fabric(", max_nodes: 100"),
    _fabric(", max_nodes: 50"),
    why="A larger subnet later means new addresses for its nodes and pods. A larger subnet now costs nothing.",
)

UNITS_FULL = rule(
    "RY326 no-room-for-units: Rail subnet too small for all units",
    _from_supernet("172.16.0.0/16", 22) + _UNITS,
    _from_supernet("172.16.0.0/16", 21) + _UNITS,
)

SUPERNET = rule(
    "RY327 supernet-too-small: Supernet too small for all rails",
    _from_supernet("172.16.0.0/16", 16),
    _from_supernet("172.16.0.0/15", 16),
)

GATEWAY_CHOICE = rule(
    "RY328 invalid-gateway: Invalid gateway for the address mode",
    _own_prefixes("node_prefix: 27, gateway: 172.16.0.1"),
    _own_prefixes("node_prefix: 27, gateway: first"),
)

ONE_FAMILY = rule(
    "RY331 partial-ipv6: IPv6 on some rails only",
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'}\n"
    + _SECOND,
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'}\n"
    "  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253, subnet6: fd00:12::/64, hosts6: '::c9-::fd'}",
    WARNING,
    why="A job uses one family on all its rails: NCCL_IB_ADDR_FAMILY applies to every device.",
)

REPEATED = rule(
    "RY335 overlapping-list-ranges: Overlapping ranges in one list",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.100, .90-.200], hosts: .201-.253"),
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.89, .100-.200], hosts: .201-.253"),
    why="Addresses of a list are counted range by range, so an address in two ranges would be assigned twice.",
)
