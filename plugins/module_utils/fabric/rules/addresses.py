# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: addresses, networks, routing tables and MTU."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    Range,
    overlaps,
    parse_address,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import (
    ETHERNET,
    Fabric,
    Node,
    Port,
    Rail,
    ports_of,
)

_SECOND = "  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n"
_GOOD = "rails:\n  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n" + _SECOND


def _rails(first: str) -> str:
    return "rails:\n  gpu01: {%s}\n%s" % (first, _SECOND)


def _fabric(more: str, mtu: int = 4200) -> str:
    return "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: %d%s}" % (mtu, more)


ADDRESS = rule(
    "RY301",
    "An address is none",
    _rails("subnet: 172.16.11.0/24, gateway: 172.16.11.254/24, hosts: .201-.253"),
    _GOOD,
)
NETWORK = rule("RY302", "A network is none", _rails("subnet: 172.16.11.0, hosts: .201-.253"), _GOOD)
HOST_BITS = rule(
    "RY303", "A network is written as an address in it", _rails("subnet: 172.16.11.1/24, hosts: .201-.253"), _GOOD
)
SUBNET_SIZE = rule("RY304", "A rail's subnet is too small", _rails("subnet: 172.16.11.0/31"), _GOOD)
IPV6 = rule("RY305", "IPv6 is not yet supported", _rails("subnet: fd00:11::/64"), _GOOD)
OUTSIDE = rule(
    "RY306",
    "An address is not in its rail's subnet",
    _rails("subnet: 172.16.11.0/24, gateway: 172.16.13.254, hosts: .201-.253"),
    _GOOD,
)
UNUSABLE = rule(
    "RY307",
    "An address is the network's own or its broadcast address",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .0-.200, hosts: .201-.253"),
    _GOOD,
)
BACKWARDS = rule(
    "RY308",
    "A range ends before it begins",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .200-.1, hosts: .201-.253"),
    _GOOD,
)
GATEWAY_TAKEN = rule(
    "RY309",
    "A range holds the gateway",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.254"),
    _GOOD,
)
RANGES_OVERLAP = rule(
    "RY310",
    "A rail's ranges for pods and hosts overlap",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.210, hosts: .201-.253"),
    _GOOD,
)
RAILS_OVERLAP = rule(
    "RY311",
    "Two rails' subnets overlap",
    _rails("subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"),
    _GOOD,
)
RESERVED_OVERLAP = rule(
    "RY312",
    "A rail's subnet overlaps a reserved network",
    _fabric(", reserved: {pods: 172.16.12.0/22}"),
    _fabric(", reserved: {pods: 10.233.64.0/18}"),
)
HOSTS_FULL = rule(
    "RY313",
    "A rail has not enough host addresses",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .253"),
    _GOOD,
)
NO_HOSTS = rule(
    "RY314",
    "A rail has no host addresses, so it cannot be proven",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200"),
    _GOOD,
    WARNING,
)
NODE_ADDRESS = rule(
    "RY315",
    "A node's address is neither an IP address nor a host name",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1:22}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
)
NODE_ADDRESS_TWICE = rule(
    "RY316",
    "Two nodes have one address",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}\n  ai-2: {profile: hgx, address: 10.1.16.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}\n  ai-2: {profile: hgx, address: 10.1.16.2}",
)
NODE_ADDRESS_ON_RAIL = rule(
    "RY317",
    "A node is managed through a rail",
    "nodes:\n  ai-1: {profile: hgx, address: 172.16.11.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
)
TABLE = rule(
    "RY318",
    "A rail's routing table is one of the kernel's own",
    _fabric(", routing: {first_table: 252}"),
    _fabric(", routing: {first_table: 101}"),
)
PRIORITY = rule(
    "RY319",
    "A rail's rule would come after the kernel's own",
    _fabric(", routing: {first_priority: 32765}"),
    _fabric(", routing: {first_priority: 10001}"),
)
MTU_STEP = rule(
    "RY320",
    "The MTU misses a step of RoCE's by little",
    _fabric("", 4096),
    _fabric("", 4200),
    WARNING,
)

# Tables 0, 253, 254 and 255 are unspec, default, main and local; priorities 32766 and 32767 look up main and default.
_KERNEL_TABLES = (0, 253, 254, 255)
_KERNEL_PRIORITY = 32766
# What the kernel takes off a netdev's MTU for RoCE's headers before it chooses the RDMA MTU (its ib_addr.h).
_ROCE_HEADERS = 96
_ROCE_MTUS = (1024, 2048, 4096)


def check(fabric: Fabric, report: Report) -> None:
    _subnets(fabric, report)
    for rail in fabric.rails:
        _inside(rail, report)
    _capacity(fabric, report)
    _management(fabric, report)
    _routing(fabric, report)
    _mtu(fabric, report)


def _subnets(fabric: Fabric, report: Report) -> None:
    placed = [(rail.subnet, rail) for rail in fabric.rails if rail.subnet]
    for _outer, first, _inner, rail in overlaps(placed):
        late = max(first, rail, key=lambda each: each.number)
        early = min(first, rail, key=lambda each: each.number)
        report.add(
            RAILS_OVERLAP,
            late.path + ("subnet",),
            "%s of %s overlaps %s of %s" % (late.subnet, late.name, early.subnet, early.name),
            "give every rail a subnet of its own",
        )
    for name, reserved in fabric.reserved.items():
        hit = [rail for rail in fabric.rails if rail.subnet and _meet(rail.subnet, reserved)]
        if not hit:
            continue
        path: Path = ("fabric", "reserved", name) if len(hit) > 1 else hit[0].path + ("subnet",)
        more = " and of %d more rails" % (len(hit) - 1) if len(hit) > 1 else ""
        report.add(
            RESERVED_OVERLAP,
            path,
            "%s of %s%s overlaps %s, reserved for %s" % (hit[0].subnet, hit[0].name, more, reserved, name),
            "move the rail or correct fabric.reserved.%s" % name,
        )


def _meet(one: t.Any, other: t.Any) -> bool:
    return bool(one.first <= other.last and other.first <= one.last)


def _inside(rail: Rail, report: Report) -> None:
    subnet = rail.subnet
    if subnet is None:
        return
    own = (subnet.first, subnet.last)
    usable = "%s to %s" % (show(subnet.first + 1), show(subnet.last - 1))
    gateway = rail.gateway
    if gateway is not None and not subnet.holds(gateway):
        message = "%s is not in %s" % (show(gateway), subnet)
        report.add(OUTSIDE, rail.path + ("gateway",), message, "take an address from %s" % usable)
    elif gateway in own:
        message = "%s is the %s address of %s" % (show(gateway), ("network", "broadcast")[own.index(gateway)], subnet)
        report.add(UNUSABLE, rail.path + ("gateway",), message, "take an address from %s" % usable)
    for key, held in (("pods", rail.pods), ("hosts", rail.hosts)):
        if held is None:
            continue
        path = rail.path + (key,)
        if not (subnet.holds(held.first) and subnet.holds(held.last)):
            report.add(OUTSIDE, path, "%s is not in %s" % (held, subnet), "take addresses from %s" % usable)
        elif held.first in own or held.last in own:
            which = "network" if held.first == subnet.first else "broadcast"
            message = "%s holds the %s address of %s" % (held, which, subnet)
            report.add(UNUSABLE, path, message, "take addresses from %s" % usable)
        elif gateway is not None and held.holds(gateway):
            message = "%s holds the gateway %s" % (held, show(gateway))
            report.add(GATEWAY_TAKEN, path, message, "end the range before it, or move the gateway")
    both = rail.pods and rail.hosts and rail.pods.overlap(rail.hosts)
    if both:
        message = "%s is in pods (%s) and in hosts (%s)" % (both, rail.pods, rail.hosts)
        report.add(RANGES_OVERLAP, rail.path + ("hosts",), message, "let one range end where the other begins")


def _capacity(fabric: Fabric, report: Report) -> None:
    """An index is a place in the hosts of each of the node's rails: too high a one is one mistake, not one a rail."""
    narrowest: dict[str | None, tuple[Range, Rail] | None] = {}
    beyond: list[tuple[int, Node, Range, Rail]] = []
    for node in fabric.nodes:
        profile = fabric.profiles.get(node.profile or "")
        if profile and node.ports:
            found = _narrowest(fabric, ports_of(node, profile))
        else:
            if node.profile not in narrowest:
                narrowest[node.profile] = _narrowest(fabric, profile.ports if profile else {})
            found = narrowest[node.profile]
        if found and node.index is not None and node.index > found[0].size:
            beyond.append((node.index, node) + found)
    if not beyond:
        return
    index, node, hosts, rail = max(beyond, key=lambda each: each[0] - each[2].size)
    said = "hosts of %s (%s) has room for %d, and %s has index %d" % (rail.name, hosts, hosts.size, node.name, index)
    if node.index_path and all(other.index_path == node.index_path for _index, other, _hosts, _rail in beyond):
        report.add(HOSTS_FULL, node.index_path, said, "lower the index, or widen the range")
    else:
        remedy = "widen the range to %d addresses, on every rail as short, or say lower indexes with index" % index
        report.add(HOSTS_FULL, rail.path + ("hosts",), said, remedy)


def _narrowest(fabric: Fabric, ports: t.Mapping[str, Port]) -> tuple[Range, Rail] | None:
    """The fewest host addresses among the rails of these ports."""
    ranges = [(rail.hosts, rail) for rail in fabric.rails if rail.hosts and rail.name in ports]
    return min(ranges, key=lambda each: each[0].size) if ranges else None


def _management(fabric: Fabric, report: Report) -> None:
    known: dict[str, Node] = {}
    for node in fabric.nodes:
        if node.address is None:
            continue
        path = node.path + ("address",)
        first = known.setdefault(node.address, node)
        if first is not node:
            message = "%s is the address of %s too" % (node.address, first.name)
            report.add(NODE_ADDRESS_TWICE, path, message, "give %s its own" % node.name)
        number = parse_address(node.address)
        rail = None if number is None else next((r for r in fabric.rails if r.subnet and r.subnet.holds(number)), None)
        if rail:
            message = "%s of %s is in %s of %s" % (node.address, node.name, rail.subnet, rail.name)
            report.add(NODE_ADDRESS_ON_RAIL, path, message, "give the node's address outside of the rails")


def _routing(fabric: Fabric, report: Report) -> None:
    for rail in fabric.rails:
        table = fabric.first_table + rail.number - 1
        if table in _KERNEL_TABLES:
            report.add(
                TABLE,
                ("fabric", "routing", "first_table"),
                "%s, rail %d, would have table %d" % (rail.name, rail.number, table),
                "begin above 255, or at %d or less" % (253 - len(fabric.rails)),
            )
        priority = fabric.first_priority + rail.number - 1
        if priority >= _KERNEL_PRIORITY:
            report.add(
                PRIORITY,
                ("fabric", "routing", "first_priority"),
                "%s, rail %d, would have priority %d; main is looked up at %d"
                % (rail.name, rail.number, priority, _KERNEL_PRIORITY),
                "begin at %d or less" % (_KERNEL_PRIORITY - len(fabric.rails)),
            )


def _mtu(fabric: Fabric, report: Report) -> None:
    for rail in fabric.rails:
        if not rail.hosts and rail.subnet and fabric.link_layer == ETHERNET and not report.within(rail.path):
            message = "%s has no hosts: its ports get no address and cannot be proven" % rail.name
            report.add(NO_HOSTS, rail.path, message, "set aside a range, such as hosts: .201-.253")
    if fabric.link_layer != ETHERNET:
        return
    for mtu, path in [(fabric.mtu, ("fabric", "mtu"))] + [(rail.mtu, rail.path + ("mtu",)) for rail in fabric.rails]:
        for step in _ROCE_MTUS:
            if mtu is not None and step <= mtu < step + _ROCE_HEADERS:
                report.add(
                    MTU_STEP,
                    path,
                    "with %d, RDMA transfers have an MTU of %d: %d needs %d"
                    % (mtu, step // 2, step, step + _ROCE_HEADERS),
                    "set it to %d where the switches carry that" % (4200 if step == 4096 else step + _ROCE_HEADERS),
                )
