# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses for slots of the rail agent: a part of a rail's pools that no pod has.

The other part remains with the pools, for pods on nodes that the agent does not serve yet.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    layout_rules,
    name_counting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts, Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import common_subnets
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    BLOCK,
    SUBNET,
    Addressed,
    Addressing,
    exclude,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    common,
    longest,
    merged,
    without,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_UNKNOWN = "DECIDE: pods; the manifests do not show which of these addresses pods have"
_FULL = "DECIDE: pods; the pools have too few addresses that no pod has"
# Name of the addresses in ``taken`` that pods have in the pools of nodes.
_IN_USE = "in-use"

# Object of a pool, and the ranges that it must not allocate from then on.
Exclusion = t.Tuple[Pool, t.List[Range]]


def choose(drafts: t.Sequence[Draft], facts: Facts, layout: Addressing, slots: int, found: Found) -> list[Exclusion]:
    """Set ``pods`` of each rail to addresses that no pod has, and return what the pools must exclude for that.

    :param slots: slots of each node on each rail.
    """
    unknown = _report_unknown(drafts, facts, found)
    exclusions: list[Exclusion] = []
    for bits, rails in layout.rails.items():
        chosen: dict[t.Hashable, list[Range] | None] = {}
        for place, rail in rails.items():
            draft = drafts[place - 1]
            claims = (claim for claim in facts.claims if claim.allocated and claim.range.bits == bits)
            used = claimed_addresses.within(claims, rail.net)
            pools = [pool for pool in draft.pools if pool.net == rail.net]
            if layout.mode == SUBNET and rail.for_pods:
                # rails that divide one pool get the same ranges, of which each has a part
                sharing = common_subnets.count(layout, rail.net) if rail.numbering else 1
                key = (rail.net, tuple(rail.pods))
                if key not in chosen:
                    chosen[key] = _part(draft, rail, used, slots * _highest(facts, layout) * sharing, found)
                rail.pods = chosen[key] or []
                if not rail.pods:
                    rail.note = _FULL
            elif layout.mode == BLOCK:
                exclude(rail, _IN_USE, common(rail.pods, used))
            if place in unknown and rail.pods:
                rail.note = _UNKNOWN
            own = rail.for_pods if layout.mode in (SUBNET, BLOCK) else [rail.net.addresses]
            exclusions.extend((pool, without(common(pool.ranges, own), used)) for pool in pools)
    _report_used(drafts, facts, layout, found)
    return [(pool, ranges) for pool, ranges in exclusions if ranges]


def _highest(facts: Facts, layout: Addressing) -> int:
    """Return the highest index of a node, if a slot shows it: the number of nodes whose slots have addresses."""
    known = [index for index in (*facts.node_indexes.values(), *layout.indexes.values()) if index]
    return max([*known, len(facts.node_indexes), len(set(facts.nodes)), 1])


def _part(draft: Draft, rail: Addressed, used: t.Sequence[Range], needed: int, found: Found) -> list[Range] | None:
    """Return half of the addresses that no pod has, at least ``needed``, in few ranges; None if they are too few."""
    free = without(rail.for_pods, used)
    size = sum(each.size for each in free)
    if size < needed:
        message = "the pools of %s have %s that no pod has, and the slots need %d" % (
            shown(draft.label),
            count(size, "address", "addresses"),
            needed,
        )
        remedy = "delete pods, name fewer nodes, or write pods of the rail with addresses of %s outside of the pools"
        found.add(layout_rules.FULL, draft.place, message, remedy % rail.net, "no pods")
        return None
    widest = longest(free)
    missing = max(needed, min(size // 2, widest.size if widest else 0))
    parts: list[Range] = []
    for each in sorted(free, key=lambda part: (-part.size, -part.first)):
        if missing > 0:
            parts.append(Range(max(each.first, each.last - missing + 1), each.last, each.bits))
            missing -= parts[-1].size
    return merged(parts)


def _report_unknown(drafts: t.Sequence[Draft], facts: Facts, found: Found) -> set[int]:
    """Report pools whose allocations the manifests do not contain. Return the positions of their rails."""
    unknown = {
        place: [pool for pool in draft.pools if pool.net and not _is_live(pool, facts)]
        for place, draft in enumerate(drafts, 1)
    }
    rails = {place: pools for place, pools in unknown.items() if pools}
    if rails:
        pools = [pool for pools in rails.values() for pool in pools]
        message = "the manifests do not contain the addresses that pods have from %s" % name_counting.compact(
            list(dict.fromkeys(pool.label for pool in pools))
        )
        written = "a part of the addresses of the pools, which pods may have"
        found.add(layout_rules.UNKNOWN, pools[0].place, message, "import %s" % _command(pools[0]), written)
    return set(rails)


def _is_live(pool: Pool, facts: Facts) -> bool:
    if pool.node_prefix:
        return True  # the pods of a node have addresses of its own network
    return pool.live if pool.live is not None else pool.manager in facts.live_managers


def _command(pool: Pool) -> str:
    """Return how to get manifests with the allocations of a pool."""
    if pool.manager == "whereabouts":
        return "also the output of kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml"
    if pool.object is None:
        return "also the pods: the output of kubectl get pods -A -o yaml, and write pods of the rail yourself"
    return "the output of kubectl get %s%s -o yaml" % (pool.object.resource, " -A" if pool.object.namespace else "")


def _report_used(drafts: t.Sequence[Draft], facts: Facts, layout: Addressing, found: Found) -> None:
    """Report addresses that pods have in the networks and blocks of nodes, whose slots can have them."""
    if layout.mode == SUBNET:
        return
    places = []
    for rails in layout.rails.values():
        for place, rail in rails.items():
            claims = (claim for claim in facts.claims if claim.allocated and claim.range.bits == rail.net.bits)
            pods = without(claimed_addresses.within(claims, rail.net), rail.all_taken)
            if pods:
                places.append((drafts[place - 1], pods))
    if places:
        message = "pods have addresses of nodes on %s, such as %s" % (
            name_counting.compact([draft.label for draft, _pods in places]),
            places[0][1][0],
        )
        remedy = "drain each node before the agent serves it"
        found.add(layout_rules.DRAIN, places[0][0].place, message, remedy, "the networks of the nodes")
