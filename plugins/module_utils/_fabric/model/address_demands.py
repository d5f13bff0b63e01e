# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses that each rail needs, for nodes and for pods."""

from __future__ import annotations

import collections

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Demand
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    STORAGE,
    Fabric,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import slots_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants, ports_of


def demands_of(fabric: Fabric, variants: Variants) -> dict[str, tuple[Demand, Path]]:
    """Return rail -> (its demand, the place of the number of pods per node; empty if it is missing)."""
    demands: dict[str, tuple[Demand, Path]] = {}
    node_counts: collections.Counter[str] = collections.Counter()
    pods: dict[str, tuple[int, Path]] = {}
    for variant in variants:
        nodes = variants.nodes_of(variant)
        plain = sum(1 for node in nodes if not node.ports)
        node_counts.update(dict.fromkeys(variant.ports, plain))
        for node in nodes:
            if node.ports:
                node_counts.update(ports_of(node, variant).keys())
        for rail in fabric.rails:
            number, path = _pods(fabric, rail, variant)
            if number is not None and number > pods.get(rail.name, (0, ()))[0]:
                pods[rail.name] = (number, path)
    slots = facts_of(fabric.provider).slots
    for rail in fabric.rails:
        most, place = pods.get(rail.name, (None, ()))
        key = "slots" if slots and place[-1:] != ("pods_per_node",) else "pods_per_node"
        demands[rail.name] = (Demand(node_counts[rail.name], fabric.max_nodes, most, slots, key), place)
    return demands


def _pods(fabric: Fabric, rail: Rail, variant: Variant) -> tuple[int | None, Path]:
    """Return how many pods of a node need an address on a rail, and the place of that number; None if it is unknown."""
    if not facts_of(fabric.provider).kubernetes or not rail.for_pods:
        return None, ()
    whole = variant.attachment_on(rail) == "host-device"
    if facts_of(fabric.provider).slots:
        slots = slots_of(fabric, variant, rail)
        return (slots.total, slots.path) if slots else (None, ())
    if fabric.pods_per_node is not None and not (whole and rail.role == STORAGE):
        return fabric.pods_per_node, ("fabric", "pods_per_node")
    if variant.has_vfs_on(rail):
        count = variant.pod_vfs_on(fabric, rail)
        return (count.value, count.path) if count and count.value else (None, ())
    return (1, variant.attachment_path_on(rail)) if whole else (None, ())
