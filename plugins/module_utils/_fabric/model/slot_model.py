# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slots of rail ports, which the agent gives to pods: their number and their resources."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    DEVICE_PLUGIN,
    SLOT_KEYS,
    Fabric,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants

# The resource with a slot on every rail of a node as its unit. The resource of one rail has the name of the rail.
RAILS = "rails"
# Maximum number of devices of a ResourceClaim (types.go of k8s.io/api/resource/v1).
RESULTS_MAX = 32


@dataclass(frozen=True)
class Slots:
    """The slots of each rail port of a node.

    The first ``all_rails`` slots are units of the resource ``rails``, the other ``per_rail`` are units of the resource
    of the rail. ``path``: the place of their number.
    """

    all_rails: int
    per_rail: int
    path: Path

    @property
    def total(self) -> int:
        return self.all_rails + self.per_rail

    def resource(self, rail: str, number: int) -> str:
        """Return the resource of a slot. ``number``: the number of the slot, from 0."""
        return RAILS if number < self.all_rails else rail


def slots_of(fabric: Fabric, variant: Variant, rail: Rail | None = None) -> Slots | None:
    """Return the slots of each port of a variant's nodes; None if the provider has none, or if the number is unknown.

    A number that the file does not set is the rest of the pods per node. If it sets neither, each is half of them. All
    slots of a storage rail are units of its own resource.

    :param rail: the rail of the port; None: any compute rail.
    """
    if not facts_of(fabric.provider).slots or (rail and not rail.for_pods):
        return None
    compute = [each for each in fabric.compute_rails if each.for_pods]
    if rail is None or any(rail is each for each in compute):
        return _compute_slots(fabric, variant, compute)
    if variant.attachment_on(rail) == "host-device":
        return Slots(0, 1, variant.attachment_path_on(rail))
    slots = _compute_slots(fabric, variant, compute)
    if slots is None or not any(key in variant.slots for key in SLOT_KEYS):
        pods, path = _pods(fabric, variant, [rail])
        slots = Slots(0, pods, path) if pods else slots
    return slots and Slots(0, slots.total, slots.path)


def _compute_slots(fabric: Fabric, variant: Variant, rails: t.Sequence[Rail]) -> Slots | None:
    """Return the slots of a port on one of these rails."""
    stated = {key: variant.slots[key].value for key in SLOT_KEYS if key in variant.slots}
    if None in stated.values():
        return None
    pods, path = _pods(fabric, variant, rails)
    if not stated:
        return Slots(pods - pods // 2, pods // 2, path) if pods else None
    rest = max((pods or 0) - sum(stated.values()), 0)
    all_rails, per_rail = (stated.get(key, rest) for key in SLOT_KEYS)
    return Slots(all_rails, per_rail, next(iter(variant.slots.values())).path[:-1])


def kubelet_plugin(variant: Variant) -> str:
    """Return the plugin of a variant's nodes by which the kubelet gets slots: DEVICE_PLUGIN or DRA."""
    setting = variant.slots.get("kubelet_plugin")
    return str(setting.value) if setting and setting.value else DEVICE_PLUGIN


def kubeconfig(variant: Variant) -> str | None:
    """Return the kubeconfig of the agent's DRA driver; None: that of the kubelet."""
    setting = variant.slots.get("kubeconfig")
    return setting.value if setting else None


def most_slots(fabric: Fabric, variants: Variants, rail: Rail) -> int:
    """Return the maximum number of slots of a port. In the mode subnet, each node has as many addresses of the pool."""
    found = [slots_of(fabric, variant, rail) for variant in variants]
    return max((slots.total for slots in found if slots), default=0)


def _pods(fabric: Fabric, variant: Variant, rails: t.Sequence[Rail]) -> tuple[int | None, Path]:
    """Return how many pods of a node need an address on each of these rails, and the place of that number; None if it
    is unknown."""
    used = [rail for rail in rails if rail.name in variant.ports] or rails
    whole = next((rail for rail in used if variant.attachment_on(rail) == "host-device"), None)
    if whole or (not rails and variant.attachment == "host-device"):
        return 1, variant.attachment_path_on(whole) if whole else variant.attachment_path
    if fabric.pods_per_node is not None:
        return fabric.pods_per_node, ("fabric", "pods_per_node")
    if any(variant.has_vfs_on(rail) for rail in rails):
        counts = [
            variant.pod_vfs_on(fabric, rail)
            for rail in rails
            if rail.name in variant.ports and variant.has_vfs_on(rail)
        ]
        known = [count for count in counts if count and count.value]
        least = min(known, key=lambda count: t.cast(int, count.value), default=None)
        return (least.value, least.path) if least else (None, ())
    return None, ()
