# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: addresses, networks, routing tables and MTU."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import addressing
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    IPV6,
    Network,
    clashes,
    overlaps,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addressing import Demand, OwnPlanner, Planner
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, Rule, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Node, Rail
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.text import count
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import pools
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules.file import MISSING
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules.pools import named
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variant, Variants, ports_of

_SECOND = "  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n"
_GOOD = "rails:\n  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n" + _SECOND


def _rails(first: str) -> str:
    return "rails:\n  gpu01: {%s}\n%s" % (first, _SECOND)


def _cut(supernet: str, prefix: int) -> str:
    """Rails that are cut from a supernet, with a /27 for each node."""
    return "addresses: {mode: prefix, node_prefix: 27, supernet: %s, rail_prefix: %d}\n" % (supernet, prefix) + (
        "rails: {gpu01: {}, gpu02: {}}\n"
    )


_UNITS = 'units:\n  su[1:2]: {nodes: 32}\nnodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "su[1:2]"}\n'


def _own(more: str, fabric: str = "") -> str:
    """Rails with a prefix for each node and rail."""
    return (
        _fabric(fabric)
        + "\naddresses: {mode: prefix, supernet: 172.16.0.0/12, rail_prefix: 16, %s}\n" % more
        + ("rails: {gpu01: {}, gpu02: {}}")
    )


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
SUBNET_SIZE = rule(
    "RY304",
    "A rail's subnet is too small",
    _rails("subnet: 172.16.11.0/32"),
    _rails("subnet: 172.16.11.0/31, hosts: .0-.1"),
    why="A cable between two nodes needs two addresses: a /31 of IPv4 (RFC 3021) and a /127 of IPv6 (RFC 6164) are"
    " enough, and both of their addresses are usable.",
)
FAMILY = rule(
    "RY305",
    "An IPv6 address stands at a key for IPv4, or the other way round",
    _rails("subnet: fd00:11::/64"),
    'rails: {count: 2, name: "gpu{n:02}", subnet6: "fd00:{n+10}::/64", hosts6: "::c9-::fd"}',
)
OUTSIDE = rule(
    "RY306",
    "An address is not in its rail's subnet",
    _rails("subnet: 172.16.11.0/24, gateway: 172.16.13.254, hosts: .201-.253"),
    _GOOD,
    why="A value for several rails in `addresses` or in a generator is right for all of them as a short form, which"
    " replaces whole octets, or as an offset, which counts from each rail's network address whatever its size:"
    " `+10-+73` is 172.16.4.10-172.16.4.73 in 172.16.4.0/22.",
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

UNUSED = rule(
    "RY321",
    "A key says nothing in the rail's address mode",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, node_prefix: 27"),
    _GOOD,
    why="Each mode has keys of its own, and what another mode would make of one is easily taken for granted.",
)
TAKEN = rule(
    "RY322",
    "Addresses are set aside, and given out",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.9, hosts: .201-.253, taken: {switches: .1-.9}"),
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, taken: {switches: .1-.9}"),
    why="What `taken` holds of `pods` and `hosts` is excluded from them, so something must be left. In the modes"
    " `prefix` and `link` it must be behind the last node's network.",
)
SHARE_SMALL = rule(
    "RY323",
    "A node's part of a rail is too small for its pods",
    _own("node_prefix: 30", ", pods_per_node: 8"),
    _own("node_prefix: 28", ", pods_per_node: 8"),
    why="Of a node's prefix, the network's and the broadcast address, the gateway and the port's own address are no"
    " pod's: a /27 has 28 for pods, and a /30 none.",
)
PODS_FULL = rule(
    "RY324",
    "A rail has not enough addresses for the pods",
    _fabric(", pods_per_node: 128"),
    _fabric(", pods_per_node: 64"),
)
GROWTH = rule(
    "RY325",
    "A rail has no room for the declared number of nodes",
    _fabric(", max_nodes: 100"),
    _fabric(", max_nodes: 50"),
    why="Growing a subnet later renumbers what is in it, so the room is asked for while it costs nothing.",
)
UNITS_FULL = rule(
    "RY326",
    "A rail's subnet has no room for the units",
    _cut("172.16.0.0/16", 22) + _UNITS,
    _cut("172.16.0.0/16", 21) + _UNITS,
)
SUPERNET = rule(
    "RY327",
    "The supernet has no room for all rails",
    _cut("172.16.0.0/16", 16),
    _cut("172.16.0.0/15", 16),
)
GATEWAY_CHOICE = rule(
    "RY328",
    "A gateway cannot be what is written",
    _own("node_prefix: 27, gateway: 172.16.0.1"),
    _own("node_prefix: 27, gateway: first"),
)
ONE_FAMILY = rule(
    "RY331",
    "Some rails have IPv6 and others do not",
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'}\n"
    + _SECOND,
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'}\n"
    "  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253, subnet6: fd00:12::/64, hosts6: '::c9-::fd'}",
    WARNING,
    why="A job chooses one family for all of its rails: NCCL's NCCL_IB_ADDR_FAMILY holds for every device.",
)
REPEATED = rule(
    "RY335",
    "Overlapping ranges in one list",
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.100, .90-.200], hosts: .201-.253"),
    _rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.89, .100-.200], hosts: .201-.253"),
    why="Addresses of a list are counted range by range, so an address in two of them would be given out twice.",
)

# Kind of the planner's problem -> the rule that says it.
_RULES: dict[str, Rule] = {
    addressing.MISSING: MISSING,
    addressing.SIZE: SUBNET_SIZE,
    addressing.CHOICE: GATEWAY_CHOICE,
    addressing.UNUSED: UNUSED,
    addressing.OUTSIDE: OUTSIDE,
    addressing.UNUSABLE: UNUSABLE,
    addressing.GATEWAY_HELD: GATEWAY_TAKEN,
    addressing.OVERLAP: RANGES_OVERLAP,
    addressing.REPEATED: REPEATED,
    addressing.TAKEN: TAKEN,
    addressing.SMALL: SHARE_SMALL,
    addressing.PODS: PODS_FULL,
    addressing.GROWTH: GROWTH,
    addressing.UNITS: UNITS_FULL,
    addressing.FULL: HOSTS_FULL,
}
# Problems of what the file asks of all rails.
_ASKED = (addressing.GROWTH, addressing.PODS, addressing.SMALL)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    _subnets(fabric, report)
    planners = fabric.planners()
    demands = demands_of(fabric, variants)
    short: dict[str, list[tuple[Path, Rail, addressing.Problem]]] = {}
    plain: dict[tuple[str, Path], dict[str, tuple[Rail, addressing.Problem]]] = {}
    for rail in fabric.rails:
        demand, source = demands[rail.name]
        for each in list(planners[rail.name].values()) if rail.mode is not None else ():
            problems = each.problems(demand)
            kinds = {problem.kind for problem in problems}
            if kinds & {addressing.MISSING, addressing.SIZE, addressing.SMALL}:
                # What there is room for cannot be said of it.
                del planners[rail.name][each.bits]
            for problem in problems:
                path = source if problem.key == "pods_per_node" else rail.where(problem.key)
                if problem.kind == addressing.GROWTH and addressing.SMALL in kinds:
                    continue
                if problem.kind in _ASKED:
                    short.setdefault(problem.kind, []).append((path, rail, problem))
                # What could not be read has been reported, and looks like missing here.
                elif problem.kind != addressing.MISSING or not report.within(path):
                    plain.setdefault((problem.kind, path), {}).setdefault(rail.name, (rail, problem))
    for (kind, path), by_rail in plain.items():
        _plain(kind, path, list(by_rail.values()), fabric, report)
    pools.check(fabric, report)
    for kind, found in short.items():
        _short(kind, found, demands, report)
    _families(fabric, report)
    _capacity(fabric, variants, planners, report)
    _blocks(fabric, variants, planners, demands, report)


def _plain(
    kind: str, path: Path, found: t.Sequence[tuple[Rail, addressing.Problem]], fabric: Fabric, report: Report
) -> None:
    """One value that is wrong on one rail or on several, of which the first is named."""
    rail, problem = found[0]
    message, remedy = problem.message, problem.remedy
    if sum(each.where(problem.key) == path for each in fabric.rails) > 1:
        message = "on %s, %s" % (named([each for each, _problem in found]), message)
        remedy = problem.shared or remedy
    report.add(_RULES[kind], path, message, remedy)


def demands_of(fabric: Fabric, variants: Variants) -> dict[str, tuple[Demand, Path]]:
    """Rail -> what it must have addresses for, and where the pods of each node are said."""
    found: dict[str, tuple[Demand, Path]] = {}
    counts: dict[str, int] = {}
    pods: dict[str, tuple[int, Path]] = {}
    for variant in variants:
        nodes = variants.nodes_of(variant)
        plain = sum(1 for node in nodes if not node.ports)
        for name in variant.ports if plain else ():
            counts[name] = counts.get(name, 0) + plain
        for node in nodes:
            for name in ports_of(node, variant) if node.ports else ():
                counts[name] = counts.get(name, 0) + 1
        for rail in fabric.rails:
            each, path = _pods(fabric, rail, variant)
            if each is not None and each > pods.get(rail.name, (0, ()))[0]:
                pods[rail.name] = (each, path)
    for rail in fabric.rails:
        most = pods.get(rail.name)
        demand = Demand(counts.get(rail.name, 0), fabric.max_nodes, most[0] if most else None)
        found[rail.name] = (demand, most[1] if most else ())
    return found


def _pods(fabric: Fabric, rail: Rail, variant: Variant) -> tuple[int | None, Path]:
    """How many pods of a node need an address on a rail, and where that is said."""
    if fabric.pods_per_node is not None:
        return fabric.pods_per_node, ("fabric", "pods_per_node")
    if variant.has_vfs:
        count = variant.vfs_on(fabric, rail).get("count")
        return (count.value, count.path) if count and count.value else (None, ())
    return (1, variant.attachment_path) if variant.attachment == "host-device" else (None, ())


def _short(
    kind: str,
    found: list[tuple[Path, Rail, addressing.Problem]],
    demands: t.Mapping[str, tuple[Demand, Path]],
    report: Report,
) -> None:
    """What is asked of all rails at once, and more than one of them does not have, is one mistake: in the asking."""
    path, rail, problem = found[0]
    message = problem.message
    if len({each for each, _rail, _problem in found}) > 1:
        rails = list({each.name: each for _path, each, _problem in found}.values())
        path = ("fabric", "max_nodes") if kind == addressing.GROWTH else demands[rail.name][1] or path
        message = "on %s, %s" % (named(rails), message)
    report.add(_RULES[kind], path, message, problem.remedy)


def _subnets(fabric: Fabric, report: Report) -> None:
    placed = [(net, rail) for rail in fabric.rails for net in rail.networks]
    for first, one, second, other in overlaps(placed):
        # A network cut from the supernet is where it must be: the one that is written out gives way.
        blamed = _blamed((one, first), (other, second))
        rest = (one, first) if blamed == (other, second) else (other, second)
        report.add(
            RAILS_OVERLAP,
            _subnet_path(*blamed),
            "%s of %s overlaps %s of %s" % (blamed[1], blamed[0].name, rest[1], rest[0].name),
            "give every rail a subnet of its own",
        )
    hits: dict[str, list[tuple[Network, Rail]]] = {}
    for net, rail, _other, name in clashes(placed, [(net, name) for name, net in fabric.reserved.items()]):
        hits.setdefault(name, []).append((net, rail))
    for name, hit in hits.items():
        net, rail = hit[0]
        path: Path = ("fabric", "reserved", name) if len(hit) > 1 else _subnet_path(rail, net)
        more = " and of %s" % count(len(hit) - 1, "more rail", "more rails") if len(hit) > 1 else ""
        report.add(
            RESERVED_OVERLAP,
            path,
            "%s of %s%s overlaps %s, reserved for %s" % (net, rail.name, more, fabric.reserved[name], name),
            "move the rail or correct fabric.reserved.%s" % name,
        )


def _blamed(one: tuple[Rail, Network], other: tuple[Rail, Network]) -> tuple[Rail, Network]:
    """Which of two networks shall move: one that is written out before one that is cut, and the later rail's."""
    return max(one, other, key=lambda each: (_subnet_path(*each)[0] != "addresses", each[0].number))


def _subnet_path(rail: Rail, net: Network) -> Path:
    return rail.where("subnet6" if net.bits == IPV6 else "subnet")


def _families(fabric: Fabric, report: Report) -> None:
    planned = [rail for rail in fabric.rails if rail.schemes]
    families = {bits for rail in planned for bits in rail.schemes}
    if len(families) < 2:
        return
    for rail in planned:
        for bits in sorted(families - set(rail.schemes)):
            key = "subnet6" if bits == IPV6 else "subnet"
            if report.within(rail.where(key)):
                continue
            message = "%s has no %s, which other rails have" % (rail.name, "IPv6" if bits == IPV6 else "IPv4")
            report.add(ONE_FAMILY, rail.path, message, "say its %s" % key)


def _capacity(fabric: Fabric, variants: Variants, planners: dict[str, dict[int, Planner]], report: Report) -> None:
    """A place too high for one rail is mostly so for all of them: one mistake, not one a rail."""
    every = [each for rail in fabric.rails for each in planners[rail.name].values() if rail.mode is not None]
    tight = sorted((each for each in every if each.room is not None), key=lambda each: each.room or 0)
    rails = {id(each): rail for rail in fabric.rails for each in planners[rail.name].values()}
    beyond: list[tuple[int, Node, Planner]] = []
    for variant in variants:
        common = [each for each in tight if rails[id(each)].name in variant.ports]
        for node in variants.nodes_of(variant):
            found = common
            if node.ports:
                own = ports_of(node, variant)
                found = [each for each in tight if rails[id(each)].name in own]
            if node.index is None:
                continue
            # The tightest has the least room; but rails that are cut by units count a node's place, others its index.
            for by_place in (False, True):
                each = next((one for one in found if _by_place(one) == by_place), None)
                at = _position(fabric, node, each) if each else 0
                if each and at > (each.room or 0):
                    beyond.append((at - (each.room or 0), node, each))
    if not beyond:
        return
    _excess, node, most = max(beyond, key=lambda one: one[0])
    unit = fabric.units.get(node.unit or "")
    problem = most.beyond(node.name, unit.number if unit else 0, node.place or 0, node.index or 0)
    if problem is None:
        return
    rail = rails[id(most)]
    if (
        node.index_path
        and not _by_place(most)
        and all(other.index_path == node.index_path for _excess, other, _each in beyond)
    ):
        remedy = "lower the index, or widen the range"
        report.add(HOSTS_FULL, node.index_path, "on %s, %s" % (rail.name, problem.message), remedy)
    elif not report.has(rail.where(problem.key)):
        report.add(_RULES[problem.kind], rail.where(problem.key), problem.message, problem.remedy)


def _blocks(
    fabric: Fabric,
    variants: Variants,
    planners: dict[str, dict[int, Planner]],
    demands: t.Mapping[str, tuple[Demand, Path]],
    report: Report,
) -> None:
    """Nodes whose own addresses for pods are too few, because some of them are taken."""
    holed = [(rail, each) for rail in fabric.rails for each in planners[rail.name].values() if each.holed]
    for variant in variants if holed else ():
        for node in variants.nodes_of(variant):
            ports = ports_of(node, variant)
            for rail, each in holed:
                if rail.name in ports and node.index is not None:
                    problem = each.short(node.name, node.index, demands[rail.name][0])
                    if problem:
                        message = "on %s, %s" % (rail.name, problem.message)
                        report.add(_RULES[problem.kind], rail.where(problem.key), message, problem.remedy)


def _by_place(each: Planner) -> bool:
    return isinstance(each, OwnPlanner) and each.units is not None


def _position(fabric: Fabric, node: Node, each: Planner) -> int:
    unit = fabric.units.get(node.unit or "")
    if _by_place(each) and each.units and unit and node.place:
        return each.units.index(unit.number, node.place)
    return node.index or 0
