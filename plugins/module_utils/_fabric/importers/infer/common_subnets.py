# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rails of one subnet: each has ranges of its own, or the rails divide the addresses of one pool."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import BY_NODE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, name_counting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    Addressed,
    Addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, overlaps
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, common

Drafts = t.Sequence[Draft]


def count(result: Addressing, net: Network) -> int:
    """Return how many rails have this network."""
    return sum(rail.net == net for rail in result.rails[net.bits].values())


def in_common(result: Addressing) -> t.Iterator[dict[int, Addressed]]:
    """Yield position -> addresses of the rails of each subnet that several rails have."""
    for rails in result.rails.values():
        for net in dict.fromkeys(rail.net for rail in rails.values()):
            found = {place: rail for place, rail in rails.items() if rail.net == net}
            if len(found) > 1:
                yield found


def divide_pools(drafts: Drafts, result: Addressing, found: Found) -> None:
    """Let rails whose pods get addresses from the same pools divide these addresses."""
    for rails in in_common(result):
        pools = [
            [pool for pool in drafts[place - 1].pools if pool.net == rail.net and pool.ranges]
            for place, rail in rails.items()
        ]
        first = {_identity(pool) for pool in pools[0]}
        if not first or any({_identity(pool) for pool in some} != first for some in pools):
            continue
        for rail in rails.values():
            rail.numbering = BY_NODE
        pool = pools[0][0]
        # nv-ipam keeps the one pool, whose blocks of nodes then serve all their rails.
        if not pool.block:
            source = ", ".join(map(str, pool.ranges[:4])) if pool.inline else shown(pool.label)
            message = "%s take addresses from %s" % (_labels(drafts, rails), source)
            remedy = "move pods out of the way before you apply the plan, in which each rail has a pool of its own"
            written = "numbering: node, and an equal part of its addresses for each rail"
            found.add(import_rules.ONE_POOL, pool.place, message, remedy, written)


def _identity(pool: Pool) -> t.Hashable:
    """Return what makes two pools one: the object or, in the configurations of networks, the addresses.

    whereabouts allocates from one record of a range, in whatever network the range is written.
    """
    return (str(pool.net), tuple(pool.ranges), tuple(pool.excluded)) if pool.inline else id(pool)


def report_overlaps(drafts: Drafts, result: Addressing, found: Found) -> None:
    """Report subnets that overlap but are not the same, and addresses in pools of two rails."""
    for bits in result.rails:
        first: dict[Network, Draft] = {}
        for place, rail in result.rails[bits].items():
            first.setdefault(rail.net, drafts[place - 1])
        for outer, one, inner, other in overlaps(first.items()):
            message = "%s of %s overlaps %s of %s" % (inner, shown(other.label), outer, shown(one.label))
            remedy = "give each rail its own subnet, or all of them exactly the same one"
            found.add(import_rules.RAILS_OVERLAP, other.place, message, remedy, "both unchanged")
    for rails in in_common(result):
        placed = [(drafts[place - 1], rail) for place, rail in rails.items() if not rail.numbering]
        for at, (draft, rail) in enumerate(placed):
            for other, before in placed[:at]:
                twice = common(rail.for_pods, before.for_pods)
                if twice:
                    message = "the pools of %s and of %s both contain %s" % (
                        shown(other.label),
                        shown(draft.label),
                        twice[0],
                    )
                    remedy = "use each address in the pool of one rail only"
                    found.add(import_rules.RAILS_OVERLAP, draft.place, message, remedy, "both unchanged")
                    break


def divide_hosts(result: Addressing) -> None:
    """Give each rail of one subnet an equal part of the addresses that all of them have for ports."""
    for rails in in_common(result):
        hosts = [rail.hosts for rail in rails.values()]
        if not hosts[0] or any(each != hosts[0] for each in hosts) or any(rail.numbering for rail in rails.values()):
            continue
        whole = Ranges(tuple(hosts[0]))
        size = whole.size // len(rails)
        for at, rail in enumerate(rails.values()):
            part = whole.cut(at * size, size)
            rail.hosts = list(part.parts) if part else []


def _labels(drafts: Drafts, rails: t.Iterable[int]) -> str:
    return name_counting.compact([drafts[place - 1].label for place in rails])
