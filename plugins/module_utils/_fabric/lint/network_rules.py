# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY3xx: networks of rails that overlap, and networks that several rails have in common."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import NONE, Scheme
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_rails import UNUSED_KEY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.address_rules import named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.common_networks import (
    CommonNetwork,
    common_networks,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    SUFFIX,
    Network,
    Range,
    clashes,
    overlaps,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import single
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_ONE_NETWORK = "rails:\n  gpu[01:02]: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.252%s}\n"
_DIVIDED = _ONE_NETWORK % ", numbering: node"


def check(fabric: Fabric, _variants: Variants, report: Report) -> None:
    common = common_networks(fabric.rails)
    _subnets(fabric, common, report)
    for network in common:
        if any(scheme.numbering or scheme.node_aggregate is not None for scheme in network.schemes):
            _settings(network, report)
        elif not any(report.has(rail.where("numbering")) for rail in network.rails):
            _ranges(network, report)
    _numbering(fabric, report)
    _destination(fabric, common, report)
    _sources(fabric, common, report)


RAILS_OVERLAP = rule(
    "RY311 rail-subnet-overlap: Overlapping rail subnets",
    example_file.rails("subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"),
    _DIVIDED,
    why="Rails may have one subnet, if no two of their ranges have an address in common. With numbering: node or"
    " numbering: rail, the rails divide the same ranges.",
)

RESERVED_OVERLAP = rule(
    "RY312 reserved-network-overlap: Rail subnet that overlaps a reserved network",
    example_file.fabric(", reserved: {pods: 172.16.12.0/22}"),
    example_file.fabric(", reserved: {pods: 10.233.64.0/18}"),
)


def _subnets(fabric: Fabric, common: t.Sequence[CommonNetwork], report: Report) -> None:
    """Report networks of rails that overlap each other or a reserved network."""
    placed = [(net, rail) for rail in fabric.rails for net in rail.networks]
    repeated = {(each.network, rail.name) for each in common for rail in each.rails[1:]}
    distinct = [(net, rail) for net, rail in placed if (net, rail.name) not in repeated]
    for first, one, second, other in overlaps(distinct):
        # A network cut from the supernet is fixed: the explicit network must change.
        blamed = _to_move((one, first), (other, second))
        unchanged = (one, first) if blamed == (other, second) else (other, second)
        report.add(
            RAILS_OVERLAP,
            _subnet_path(*blamed),
            "%s of %s overlaps %s of %s" % (blamed[1], blamed[0].name, unchanged[1], unchanged[0].name),
            "give every rail its own subnet, or all of them exactly the same one",
        )
    clashing: dict[str, list[tuple[Network, Rail]]] = {}
    for net, rail, _other, name in clashes(placed, [(net, name) for name, net in fabric.reserved.items()]):
        clashing.setdefault(name, []).append((net, rail))
    for name, found in clashing.items():
        net, rail = found[0]
        path: Path = ("fabric", "reserved", name) if len(found) > 1 else _subnet_path(rail, net)
        more = " and of %s" % count(len(found) - 1, "more rail", "more rails") if len(found) > 1 else ""
        report.add(
            RESERVED_OVERLAP,
            path,
            "%s of %s%s overlaps %s, reserved for %s" % (net, rail.name, more, fabric.reserved[name], name),
            "move the rail or correct fabric.reserved.%s" % name,
        )


def _to_move(first: tuple[Rail, Network], second: tuple[Rail, Network]) -> tuple[Rail, Network]:
    """Return which of two networks must move: an explicit one before one from a supernet, else the later rail's."""
    return max(first, second, key=lambda each: (_subnet_path(*each)[0] != "addresses", each[0].number))


def _subnet_path(rail: Rail, net: Network) -> Path:
    return rail.where("subnet" + SUFFIX[net.bits])


class _Use(t.NamedTuple):
    """A range of a network, with the rail and the key that set it."""

    part: Range
    rail: Rail
    key: str


def _uses(rail: Rail, scheme: Scheme) -> t.Iterator[_Use]:
    """Yield the addresses of a rail in one family."""
    for key, pool in (("hosts", scheme.hosts), ("pods", scheme.pods)):
        rest = pool.without(scheme.excluded) if pool else None
        for part in rest.parts if rest else ():
            yield _Use(part, rail, key)
    if isinstance(scheme.gateway, int):
        yield _Use(single(scheme.gateway, scheme.network.bits), rail, "gateway")
    for name, part in scheme.taken:
        yield _Use(part, rail, "taken.%s" % name)


def _ranges(common: CommonNetwork, report: Report) -> None:
    """Report the first addresses that two rails of one network have."""
    uses = [use for rail, scheme in zip(common.rails, common.schemes) for use in _uses(rail, scheme)]
    uses.sort(key=lambda use: use.part.first)
    highest: list[_Use] = []
    for use in uses:
        highest = [each for each in highest if each.part.last >= use.part.first]
        for other in highest:
            if other.rail is not use.rail and (use.key in _ASSIGNED or other.key in _ASSIGNED):
                first, second = sorted((other, use), key=lambda each: each.rail.number)
                message = "%s of %s and %s of %s both have %s, and both rails have the subnet %s" % (
                    *(first.key, first.rail.name, second.key, second.rail.name),
                    *(first.part.overlap(second.part), common.network),
                )
                remedy = "give each rail its own ranges, or write numbering: node or numbering: rail, which divide them"
                report.add(RAILS_OVERLAP, _subnet_path(second.rail, common.network), message, remedy)
                return
        highest.append(use)


_ASSIGNED = ("hosts", "pods")

SETTINGS = rule(
    "RY338 different-settings-on-one-network: Different settings of rails that divide one network",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, hosts: .201-.253, numbering: node}
  gpu02: {subnet: 172.16.11.0/24, gateway: .254, hosts: .201-.230, numbering: node}
""",
    _DIVIDED,
    why="The rails divide the same ranges, or the same aggregate of each node, so all of them need the same settings."
    " One entry for all rails, such as gpu[01:08], has them once.",
)

# Settings that rails which divide a network must have in common.
_COMMON = ("mode", "numbering", "node_aggregate", "node_prefix", "hosts", "pods", "block", "gateway", "taken")


def _settings(common: CommonNetwork, report: Report) -> None:
    """Report the first setting by which two rails that divide a network differ."""
    first = common.schemes[0]
    for rail, scheme in zip(common.rails[1:], common.schemes[1:]):
        for key in _COMMON:
            if getattr(scheme, key) == getattr(first, key):
                continue
            own_key = key if key in ("mode", "numbering", "taken") else key + SUFFIX[common.network.bits]
            path = rail.where(own_key)
            if not report.within(path):
                message = "%s and %s divide %s, but differ in %s" % (
                    common.rails[0].name,
                    rail.name,
                    common.network,
                    own_key,
                )
                report.add(SETTINGS, path, message, "write the same %s at all rails with this subnet" % own_key)
            return


def _numbering(fabric: Fabric, report: Report) -> None:
    """Report ``numbering`` of rails that have their networks alone."""
    for rail in fabric.rails:
        schemes = list(rail.schemes.values())
        if any(scheme.numbering for scheme in schemes) and not any(scheme.part for scheme in schemes):
            path = rail.where("numbering")
            message = "numbering has no effect: no other rail has %s" % schemes[0].network
            if not report.within(path[:-1] + ("subnet",)):
                report.add(UNUSED_KEY, path, message, "remove it, or give the rails one subnet")


DESTINATION = rule(
    "RY339 destination-routing-on-one-network: Destination routing of rails in one network",
    example_file.fabric(", routing: {mode: destination}") + "\n" + _DIVIDED,
    _DIVIDED,
    why="Routes by destination send all traffic to a network through one port. The mode source creates rules by source,"
    " which select the port of the source address.",
)


def _destination(fabric: Fabric, common: t.Sequence[CommonNetwork], report: Report) -> None:
    """Report destination routing if a destination does not determine the rail."""
    if common and fabric.routing.mode == "destination":
        message = "%s have the network %s, so a destination does not determine the rail" % (
            named(common[0].rails),
            common[0].network,
        )
        remedy = "write mode: source, or give every rail its own subnet"
        report.add(DESTINATION, ("fabric", "routing", "mode"), message, remedy)


SOURCES = rule(
    "RY340 pods-without-source-rules: Pods with several interfaces in one network and no rules by source",
    _DIVIDED.replace("gateway: .254, ", ""),
    _DIVIDED,
    WARNING,
    why="The provider creates rules by source only for interfaces with a default route. Without them, a pod sends TCP"
    " and UDP from all its rails through one interface. RDMA selects the interface by its GID.",
)


def _sources(fabric: Fabric, common: t.Sequence[CommonNetwork], report: Report) -> None:
    """Report pods with several interfaces in one network, if the provider does not create rules by source."""
    facts = facts_of(fabric.provider)
    if not facts.kubernetes or facts.own_tables:
        return
    for network in common:
        routed = fabric.routing.cross_rail and all(scheme.gateway not in (None, NONE) for scheme in network.schemes)
        if network.one_subnet and not routed and all(scheme.pods for scheme in network.schemes):
            rail = network.rails[0]
            message = "%s have pods in %s without a default route, and %s creates no rules by source for them" % (
                named(network.rails),
                network.network,
                fabric.provider,
            )
            remedy = "set a gateway of the rails, with routing.cross_rail: true; or use provider: agent or cni"
            path = rail.where("gateway" + SUFFIX[network.network.bits])
            if not fabric.routing.cross_rail:
                path = ("fabric", "routing", "cross_rail")
            report.add(SOURCES, path, message, remedy)
