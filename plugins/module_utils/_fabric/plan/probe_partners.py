# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The partners that the health service of a node probes on each rail.

Each node has at most :data:`MOST` partners on a rail, and is the partner of as many nodes. So the traffic of a port
does not grow with the fabric, and no service has to coordinate the nodes.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import show

# Partners of a node on a rail. More partners take longer to probe in turn, and make the file of each node larger.
MOST = 8


class Member(t.NamedTuple):
    """A node with a port on the rail. ``place``: its place in its unit. Nodes of different sites are not partners."""

    node: str
    site: str | None
    unit: str | None
    place: int


def partners(members: t.Sequence[Member], most: int = MOST) -> dict[str, list[str]]:
    """Return node -> its partners on a rail. The result depends on the members only, not on their order.

    Half of the partners are in the unit of the node, and so on its leaf; the others are in other units. They take turns
    in the result: two successive partners are on different leaves if they can be. A node with fewer neighbours in one
    half has more in the other. A node without other nodes on the rail has no partners.

    Each step pairs every node with the node that is a fixed number of places further in a ring. A ring step is a
    permutation, so that each node is probed by as many nodes as it probes.
    """
    sites: dict[str | None, list[Member]] = {}
    for member in members:
        sites.setdefault(member.site, []).append(member)
    found: dict[str, list[str]] = {}
    for nodes in sites.values():
        found.update(_of_site(nodes, most))
    return found


def _of_site(members: t.Iterable[Member], most: int) -> dict[str, list[str]]:
    units: dict[str | None, list[Member]] = {}
    for member in sorted(members, key=lambda each: (each.unit or "", each.place, each.node)):
        units.setdefault(member.unit, []).append(member)
    # in the ring of the site, the next node has the same place in the next unit
    site = [member.node for column in _columns(list(units.values())) for member in column]
    unit_of = {member.node: name for name, nodes in units.items() for member in nodes}
    inside: dict[str, list[str]] = {}
    for nodes in units.values():
        total = len(nodes) - 1
        count = min(most, total)
        inside.update(_ring([each.node for each in nodes], [1 + turn * total // count for turn in range(count)]))
    # a step of k units, and of some places, so that different steps do not lead to the same place
    places = len(site) // len(units)
    steps = [step for step in range(1, 2 * most + 1) if step % len(units)]
    outside = _ring(site, [step + len(units) * (step * places // (2 * most)) for step in steps])
    return {
        node: _mixed(inside[node], [each for each in outside[node] if unit_of[each] != unit_of[node]], most)
        for node in site
    }


def _columns(units: t.Sequence[t.Sequence[Member]]) -> t.Iterator[list[Member]]:
    """Return the first node of each unit, then the second of each, and so on."""
    for row in range(max(map(len, units))):
        yield [nodes[row] for nodes in units if row < len(nodes)]


def _ring(nodes: t.Sequence[str], distances: t.Sequence[int]) -> dict[str, list[str]]:
    """Return node -> the nodes that are these distances further in the ring, each once."""
    return {
        node: list(dict.fromkeys(nodes[(place + distance) % len(nodes)] for distance in distances))
        for place, node in enumerate(nodes)
    }


def _mixed(inside: t.Sequence[str], outside: t.Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` partners, of both kinds in turn while both remain."""
    half = most // 2
    near = inside[: max(half, most - len(outside))]
    far = outside[: most - len(near)]
    mixed = [each for pair in zip(near, far) for each in pair]
    common = min(len(near), len(far))
    return [*mixed, *near[common:], *far[common:]]


class ProbePartners:
    """The partners of all nodes of a fabric, with their addresses.

    :param planners: rail -> family (32 or 128 bits) -> the planner of its addresses.
    """

    def __init__(self, fabric: Fabric, variants: Variants, planners: t.Mapping[str, t.Mapping[int, Planner]]) -> None:
        self._fabric = fabric
        self._planners = planners
        self._nodes = {node.name: node for node in fabric.nodes}
        health = fabric.health
        self._probed = health is not None and health.enabled and health.probe_rate is not None
        self._partners = self._of_rails(variants) if self._probed else {}

    def _of_rails(self, variants: Variants) -> dict[str, dict[str, list[str]]]:
        on_rail: dict[str, list[Member]] = {}
        for node in self._fabric.nodes:
            variant, unit = variants.of(node), self._fabric.units.get(node.unit or "")
            member = Member(node.name, unit.site if unit else None, node.unit, node.place or node.index or 0)
            for rail in ports_of(node, variant) if variant else ():
                on_rail.setdefault(rail, []).append(member)
        # most rails have the same nodes, and so the same partners
        found: dict[tuple[Member, ...], dict[str, list[str]]] = {}
        for members in map(tuple, on_rail.values()):
            if members not in found:
                found[members] = partners(members)
        return {rail: found[tuple(members)] for rail, members in on_rail.items()}

    def host_variable(self, node: Node) -> dict[str, t.Any]:
        """Return ``health`` of ``railyard_node``; empty without probes. Rails without addresses have no partners."""
        rows = {
            rail.name: [
                {"node": name, "address": self._address(self._nodes[name], rail)}
                for name in self._partners[rail.name][node.name]
            ]
            for rail in self._fabric.rails
            if self._partners.get(rail.name, {}).get(node.name) and self._address(node, rail)
        }
        return {"health": {"partners": rows}} if self._probed else {}

    def _address(self, node: Node, rail: Rail) -> str:
        """Return the address of a node on a rail, of IPv4 if it has one; empty without."""
        unit = self._fabric.units.get(node.unit or "")
        for bits, planner in sorted(self._planners[rail.name].items()):
            share = planner.share(unit.number if unit else 0, node.place or 0, node.index or 0)
            if share.address is not None:
                return show(share.address, bits)
        return ""
