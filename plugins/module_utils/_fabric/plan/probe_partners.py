# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The partners that the health service of a node probes on each rail.

Each node has at most :data:`MOST` partners on a rail, and is the partner of as many nodes. So the traffic of a port
does not grow with the fabric, and no service has to coordinate the nodes.
"""

from __future__ import annotations

import typing as t

# Partners of a node on a rail. More partners take longer to probe in turn, and make the file of each node larger.
MOST = 8


class Member(t.NamedTuple):
    """A node with a port on the rail. ``place``: its place in its unit. Nodes of different sites are no partners."""

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
