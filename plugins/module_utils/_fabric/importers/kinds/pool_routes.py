# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Routes of pools. The plan creates the routes between rails and no others."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.correlate import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Value


def take(pool: Pool, items: t.Iterable[Value]) -> None:
    """Add destinations and gateways of routes to a pool."""
    for item in items:
        destination = object_shape.plain_text(object_shape.entry(item, "dst")) or object_shape.plain_text(
            object_shape.entry(item, "to")
        )
        via = pool_ranges.address(
            object_shape.plain_text(object_shape.entry(item, "gw"))
            or object_shape.plain_text(object_shape.entry(item, "via"))
        )
        if destination:
            pool.routes.append(destination)
        if via and pool.net and via[1] == pool.net.bits and pool.net.holds(via[0]) and via[0] != pool.gateway:
            pool.routers.append(via[0])


def report_unsupported(drafts: t.Sequence[Draft], rails: t.Sequence[Network], found: Found) -> None:
    """Report routes that do not lead to a rail, each destination once."""
    unsupported: dict[str, list[Pool]] = {}
    for draft in drafts:
        for pool in draft.pools:
            for destination in pool.routes:
                if not _to_rails(destination, rails):
                    unsupported.setdefault(destination, []).append(pool)
    for destination, pools in unsupported.items():
        names = list(dict.fromkeys(pool.label for pool in pools))
        more = " and of %d more pools" % (len(names) - 1) if len(names) > 2 else ""
        more = " and of %s" % shown(names[1]) if len(names) == 2 else more
        message = "the route to %s of %s%s does not lead to a rail" % (shown(destination), shown(names[0]), more)
        remedy = "add the route on the leaves, or give pods another network for it"
        found.add(import_rules.NOT_KNOWN, pools[0].place, message, remedy, "only the routes between the rails")


def _to_rails(destination: str, rails: t.Sequence[Network]) -> bool:
    parsed = pool_ranges.prefixed(destination)
    if parsed is None or not parsed[1]:
        return False
    addresses = network(*parsed).addresses
    return any(addresses.overlap(rail) for rail in rails)
