# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY3xx: addresses, networks, routing tables and MTU."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate import address_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    Demand,
    Planner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.network_per_node import (
    NetworkPerNodePlanner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_rails import SUBNET_SIZE, UNUSED_KEY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    Rule,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_rules import MISSING
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import FAMILY, SUFFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


def _from_supernet(supernet: str, prefix: int) -> str:
    """Return rails that are divided from a supernet, with a /27 for each node."""
    addresses = "addresses: {mode: prefix, node_prefix: 27, supernet: %s, rail_prefix: %d}\n" % (supernet, prefix)
    return addresses + "rails: {gpu01: {}, gpu02: {}}\n"


_PODS_PER_NODE = example_file.fabric(", pods_per_node: 8") + "\n"
_UNITS = 'units:\n  su[1:2]: {nodes: 32}\nnodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "su[1:2]"}\n'


OUTSIDE = rule(
    "RY306 address-outside-subnet: Address outside its rail's subnet",
    example_file.rails("subnet: 172.16.11.0/24, gateway: 172.16.13.254, hosts: .201-.253"),
    example_file.RAILS,
    why="In `addresses` or in a generator, write a value for several rails as a short form, which replaces whole"
    " octets, or as an offset from the network address of each rail, which works with any prefix length: `+10-+73` is"
    " 172.16.4.10-172.16.4.73 in 172.16.4.0/22.",
)

UNUSABLE = rule(
    "RY307 network-or-broadcast-address: Network or broadcast address in use",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .0-.200, hosts: .201-.253"),
    example_file.RAILS,
)

GATEWAY_TAKEN = rule(
    "RY309 gateway-in-range: Range that contains the gateway",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.254"),
    example_file.RAILS,
)

RANGES_OVERLAP = rule(
    "RY310 pods-hosts-overlap: Overlapping ranges for pods and hosts",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.210, hosts: .201-.253"),
    example_file.RAILS,
)

HOSTS_FULL = rule(
    "RY313 too-few-host-addresses: Too few host addresses on a rail",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .253"),
    example_file.RAILS,
)

TAKEN = rule(
    "RY322 no-addresses-left: All addresses taken",
    example_file.rails(
        "subnet: 172.16.11.0/24, gateway: .254, pods: .1-.9, hosts: .201-.253, taken: {switches: .1-.9}"
    ),
    example_file.rails(
        "subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, taken: {switches: .1-.9}"
    ),
    why="Addresses in `taken` are excluded from `pods` and `hosts`, so these must have other addresses. In the modes"
    " `prefix` and `link`, taken addresses must come after the network of the last node.",
)

SHARE_SMALL = rule(
    "RY323 node-share-too-small: Too few addresses for the pods of a node",
    example_file.node_prefixes("node_prefix: 30", ", pods_per_node: 8"),
    example_file.node_prefixes("node_prefix: 28", ", pods_per_node: 8"),
    why="In a node's prefix, pods cannot have the network and broadcast addresses, the gateway, and the address of the"
    " port: a /27 has 28 addresses for pods, and a /30 has none.",
)

PODS_FULL = rule(
    "RY324 too-few-pod-addresses: Too few pod addresses on a rail",
    example_file.fabric(", pods_per_node: 128"),
    example_file.fabric(", pods_per_node: 64"),
)

GROWTH = rule(
    "RY325 no-room-for-max-nodes: Too few addresses on a rail for max_nodes",
    example_file.fabric(", max_nodes: 100"),
    example_file.fabric(", max_nodes: 50"),
    why="A larger subnet later means new addresses for its nodes and pods. A larger subnet now costs nothing.",
)

UNITS_FULL = rule(
    "RY326 no-room-for-units: Rail subnet too small for all units",
    _from_supernet("172.16.0.0/16", 22) + _UNITS,
    _from_supernet("172.16.0.0/16", 21) + _UNITS,
)

GATEWAY_CHOICE = rule(
    "RY328 invalid-gateway: Invalid gateway for the address mode",
    example_file.node_prefixes("node_prefix: 27, gateway: 172.16.0.1"),
    example_file.node_prefixes("node_prefix: 27, gateway: first"),
)

REPEATED = rule(
    "RY335 overlapping-list-ranges: Overlapping ranges in one list",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.100, .90-.200], hosts: .201-.253"),
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: [.1-.89, .100-.200], hosts: .201-.253"),
    why="Addresses of a list are counted range by range, so an address in two ranges would be assigned twice.",
)

# Kind of the planner's problem -> its rule
_RULES: dict[str, Rule] = {
    address_schemes.MISSING: MISSING,
    address_schemes.SIZE: SUBNET_SIZE,
    address_schemes.CHOICE: GATEWAY_CHOICE,
    address_schemes.UNUSED: UNUSED_KEY,
    address_schemes.OUTSIDE: OUTSIDE,
    address_schemes.UNUSABLE: UNUSABLE,
    address_schemes.GATEWAY_HELD: GATEWAY_TAKEN,
    address_schemes.OVERLAP: RANGES_OVERLAP,
    address_schemes.REPEATED: REPEATED,
    address_schemes.TAKEN: TAKEN,
    address_schemes.SMALL: SHARE_SMALL,
    address_schemes.PODS: PODS_FULL,
    address_schemes.GROWTH: GROWTH,
    address_schemes.UNITS: UNITS_FULL,
    address_schemes.FULL: HOSTS_FULL,
}

# Kinds of problems with demands on all rails.
_DEMANDS = (address_schemes.GROWTH, address_schemes.PODS, address_schemes.SMALL)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    planners = fabric.planners()
    demands = demands_of(fabric, variants)
    short: dict[str, list[tuple[Path, Rail, address_schemes.Problem]]] = {}
    plain: dict[tuple[str, Path], dict[str, tuple[Rail, address_schemes.Problem]]] = {}
    for rail in fabric.rails:
        demand, source = demands[rail.name]
        for each in list(planners[rail.name].values()) if rail.mode is not None else ():
            problems = each.problems(demand)
            kinds = {problem.kind for problem in problems}
            if kinds & {address_schemes.MISSING, address_schemes.SIZE, address_schemes.SMALL, address_schemes.FULL}:
                # The capacity of this rail is unknown.
                del planners[rail.name][each.bits]
            for problem in problems:
                path = source if problem.key == "pods_per_node" else rail.where(problem.key)
                if problem.kind == address_schemes.GROWTH and address_schemes.SMALL in kinds:
                    continue
                if problem.kind in _DEMANDS:
                    short.setdefault(problem.kind, []).append((path, rail, problem))
                # Values that could not be read are reported already, and look missing here.
                elif problem.kind != address_schemes.MISSING or not report.within(path):
                    plain.setdefault((problem.kind, path), {}).setdefault(rail.name, (rail, problem))
    for (kind, path), by_rail in plain.items():
        _report_value(kind, path, list(by_rail.values()), fabric, report)
    _hosts(fabric, report)
    for rail in fabric.rails:
        _podless(fabric, rail, report)
    for kind, found in short.items():
        _report_demand(kind, found, demands, report)
    _families(fabric, report)
    _capacity(fabric, variants, planners, report)
    _blocks(fabric, variants, planners, demands, report)


def _report_value(
    kind: str, path: Path, found: t.Sequence[tuple[Rail, address_schemes.Problem]], fabric: Fabric, report: Report
) -> None:
    """Report one invalid value, which may apply to several rails. The message names the first."""
    rail, problem = found[0]
    message, remedy = problem.message, problem.remedy
    if sum(each.where(problem.key) == path for each in fabric.rails) > 1:
        message = "on %s, %s" % (named([each for each, _problem in found]), message)
        remedy = problem.shared_remedy or remedy
    report.add(_RULES[kind], path, message, remedy)


def _report_demand(
    kind: str,
    found: list[tuple[Path, Rail, address_schemes.Problem]],
    demands: t.Mapping[str, tuple[Demand, Path]],
    report: Report,
) -> None:
    """Report a demand that several rails do not meet as one finding, at the place of the demand."""
    path, rail, problem = found[0]
    message = problem.message
    if len({each for each, _rail, _problem in found}) > 1:
        rails = list({each.name: each for _path, each, _problem in found}.values())
        path = ("fabric", "max_nodes") if kind == address_schemes.GROWTH else demands[rail.name][1] or path
        message = "on %s, %s" % (named(rails), message)
    report.add(_RULES[kind], path, message, problem.remedy)


ONE_FAMILY = rule(
    "RY331 partial-ipv6: IPv6 on some rails only",
    example_file.rails("subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'"),
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, subnet6: fd00:11::/64, hosts6: '::c9-::fd'}\n"
    "  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253, subnet6: fd00:12::/64, hosts6: '::c9-::fd'}",
    WARNING,
    why="A job uses one family on all its rails: NCCL_IB_ADDR_FAMILY applies to every device.",
)


def _families(fabric: Fabric, report: Report) -> None:
    """Report rails without an address family that other rails have."""
    planned = [rail for rail in fabric.rails if rail.schemes]
    families = {bits for rail in planned for bits in rail.schemes}
    if len(families) < 2:
        return
    for rail in planned:
        for bits in sorted(families - set(rail.schemes)):
            key = "subnet" + SUFFIX[bits]
            if report.within(rail.where(key)):
                continue
            message = "%s has no %s, but other rails do" % (rail.name, FAMILY[bits])
            report.add(ONE_FAMILY, rail.path, message, "set its %s" % key)


def _capacity(fabric: Fabric, variants: Variants, planners: dict[str, dict[int, Planner]], report: Report) -> None:
    """Report the node that exceeds the capacity of a rail most.

    An index that is too high for one rail is usually too high for all rails, so there is only one finding.
    """
    planned = [each for rail in fabric.rails for each in planners[rail.name].values() if rail.mode is not None]
    tight = sorted((each for each in planned if each.room is not None), key=lambda each: each.room or 0)
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
            # The first rail has the least room. Rails divided by units use a node's place, others its index.
            for by_place in (False, True):
                each = next((one for one in found if _by_place(one) == by_place), None)
                position = _position(fabric, node, each) if each else 0
                if each and position > (each.room or 0):
                    beyond.append((position - (each.room or 0), node, each))
    if not beyond:
        return
    _excess, node, most = max(beyond, key=lambda one: one[0])
    unit = fabric.units.get(node.unit or "")
    problem = most.index_problem(node.name, unit.number if unit else 0, node.place or 0, node.index or 0)
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
    """Report nodes whose blocks have too few pod addresses, because some are taken."""
    holed = [(rail, each) for rail in fabric.rails for each in planners[rail.name].values() if each.has_partial_blocks]
    for variant in variants if holed else ():
        for node in variants.nodes_of(variant):
            ports = ports_of(node, variant)
            for rail, each in holed:
                if rail.name in ports and node.index is not None:
                    problem = each.block_problem(node.name, node.index, demands[rail.name][0])
                    if problem:
                        message = "on %s, %s" % (rail.name, problem.message)
                        report.add(_RULES[problem.kind], rail.where(problem.key), message, problem.remedy)


def _by_place(planner: Planner) -> bool:
    """Return whether the rail's addresses depend on unit and place of a node, and not on its index."""
    return isinstance(planner, NetworkPerNodePlanner) and planner.units is not None


def _position(fabric: Fabric, node: Node, planner: Planner) -> int:
    """Return the place or index of a node that selects its addresses on a rail."""
    unit = fabric.units.get(node.unit or "")
    if _by_place(planner) and planner.units and unit and node.place:
        return planner.units.index(unit.number, node.place)
    return node.index or 0


def named(rails: t.Sequence[Rail]) -> str:
    """Return the name of the first rail, and how many more there are."""
    more = " and %s" % count(len(rails) - 1, "more rail", "more rails") if len(rails) > 1 else ""
    return rails[0].name + more


NO_HOSTS = rule(
    "RY314 no-host-addresses: Rail without host addresses, which cannot be verified",
    example_file.RAILS.replace(", hosts: .201-.253", "", 1),
    example_file.RAILS,
    WARNING,
)


def _hosts(fabric: Fabric, report: Report) -> None:
    """Report rails whose ports have no addresses and cannot be verified: one finding per place in the file."""
    found: dict[Path, list[Rail]] = {}
    for rail in fabric.rails:
        if fabric.link_layer_on(rail) != ETHERNET or rail.mode is None or report.within(rail.path):
            continue
        if rail.mode in (address_schemes.PREFIX, address_schemes.LINK):
            if any(scheme.host == address_schemes.NONE for scheme in rail.schemes.values()):
                found.setdefault(rail.where("host"), []).append(rail)
        elif not any(scheme.hosts for scheme in rail.schemes.values()) and not any(
            report.within(rail.where(key)) for key in ("hosts", "hosts6")
        ):
            found.setdefault(rail.path, []).append(rail)
    for path, rails in found.items():
        one = len(rails) == 1
        if rails[0].mode in (address_schemes.PREFIX, address_schemes.LINK):
            message = "%s %s no address for ports (host: none), so %s cannot be verified"
            parts = (named(rails), "keeps" if one else "keep", "it" if one else "they")
            remedy = "remove host: each port then has the first address"
        else:
            message = "%s %s no hosts: %s ports get no address and cannot be verified"
            parts = (named(rails), "has" if one else "have", "its" if one else "their")
            small = any(net.size < 256 for rail in rails for net in rail.networks)
            remedy = "add a range, such as hosts: %s" % ("+0-+1" if small else ".201-.253")
        report.add(NO_HOSTS, path, message % parts, remedy)


NO_PODS = rule(
    "RY329 no-pod-addresses: Rail without pod addresses although pods need them",
    _PODS_PER_NODE + example_file.RAILS.replace(" pods: .1-.200,", "", 1),
    _PODS_PER_NODE + example_file.RAILS,
)


def _podless(fabric: Fabric, rail: Rail, report: Report) -> None:
    """Report a rail without a range for pods if ``pods_per_node`` is set."""
    if fabric.pods_per_node is None or not rail.for_pods or rail.mode != address_schemes.SUBNET:
        return
    for bits, scheme in rail.schemes.items():
        path = rail.where("pods" + SUFFIX[bits])
        if scheme.pods is None and not report.within(path) and not report.within(rail.path):
            message = "pods_per_node is %d, and %s has no pods in %s" % (
                fabric.pods_per_node,
                rail.name,
                scheme.network,
            )
            report.add(NO_PODS, path, message, "add a range for pods, or remove pods_per_node")
