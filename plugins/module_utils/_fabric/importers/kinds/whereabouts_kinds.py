# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Allocations of whereabouts: its IPPools and OverlappingRangeIPReservations. Networks contain its ranges."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    manifest_texts,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Claim, Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import single
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping

GROUP = "whereabouts.cni.cncf.io"
MANAGER = "whereabouts"


def ip_pool(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read an IPPool. The keys of its allocations are distances from the first address of its range."""
    spec = object_shape.spec_of(manifest)
    use(spec)
    facts.live_managers.add(MANAGER)
    start = pool_ranges.prefixed(object_shape.text_at(spec, "range"))
    allocations = object_shape.entry(spec, "allocations")
    for offset in allocations.entries if isinstance(allocations, Mapping) else ():
        if start and offset.isdecimal():
            _claim(start[0] + int(offset), start[2], facts, found)


def reservation(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read an OverlappingRangeIPReservation. Its name is the address, after the name of a network if it has one.

    Names of IPv6 addresses have hyphens in place of colons.
    """
    use(object_shape.spec_of(manifest))
    facts.live_managers.add(MANAGER)
    parts = object_shape.name_of(manifest)[1].split("-")
    for start in range(len(parts)):
        # the name of a network may look like the beginning of an address: both addresses count as used
        address = pool_ranges.address(":".join(parts[start:]))
        if address:
            _claim(*address, facts, found)


def _claim(address: int, bits: int, facts: Facts, found: Found) -> None:
    owner = claimed_addresses.owner_of(found.kind, found.name)
    facts.claims.append(Claim(single(address, bits), owner, allocated=True))
