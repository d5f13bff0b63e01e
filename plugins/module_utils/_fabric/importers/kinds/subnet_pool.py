# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool of one subnet with its routes, from any kind of manifest. The plan has only the routes between rails."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import Fields
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, Network, network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import common, single, without
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Value


def pool_of(fields: Fields, name: str, found: Found) -> Pool:
    """Return a pool from the fields ``subnet``, ``ips``, ``excludeIPs`` and ``gateway``. Report wrong values."""
    pool = Pool(fields.place, name, None, found.kind, nodes=fields.texts("nodeName"), multus=fields.texts("multusName"))
    listed = pool_ranges.ranges(fields.texts("ips"), fields.place_of("ips"), found)
    excluded_ranges = pool_ranges.ranges(fields.texts("excludeIPs"), fields.place_of("excludeIPs"), found)
    gateway_text = fields.text("gateway")
    gateway = pool_ranges.address(gateway_text) if gateway_text else None
    if gateway_text and gateway is None:
        message = "%s is not an address" % shown(gateway_text)
        found.add(import_rules.GATEWAY, fields.place_of("gateway"), message, "write the rail's gateway", "no gateway")
    text = fields.text("subnet")
    if not text:
        message = "the pool %s has no subnet" % shown(name or "without a name")
        found.add(import_rules.SUBNET, fields.place, message, "write it, such as subnet: 172.16.11.0/24", "no subnet")
        return pool
    members = [number for _text, each in listed for number in (each.first, each.last)]
    members += [gateway[0]] if gateway else []
    pool.net = pool_ranges.subnet(text, members, fields.place_of("subnet"), found)
    if pool.net is None:
        return pool
    version = fields.number("ipVersion")
    family = 4 if pool.net.bits == IPV4 else 6
    if version not in (None, family):
        message = "ipVersion is %s, and %s is IPv%d" % (version, pool.net, family)
        remedy = "remove ipVersion: the subnet determines it"
        found.add(import_rules.KIND, fields.place_of("ipVersion"), message, remedy, "the subnet's family")
    if gateway and (gateway[1] != pool.net.bits or not pool.net.holds(gateway[0])):
        message = "the gateway %s is not in %s" % (shown(gateway_text or ""), pool.net)
        remedy = "write the leaf's address in the subnet"
        found.add(import_rules.GATEWAY, fields.place_of("gateway"), message, remedy, "no gateway")
        gateway = None
    ranges = pool_ranges.cut_to(pool.net, listed, fields.place_of("ips"), found)
    excluded = [each for _text, each in excluded_ranges if each.bits == pool.net.bits]
    if gateway:
        pool.gateway = gateway[0]
        if any(each.holds(gateway[0]) for each in without(ranges, excluded)):
            message = "the gateway %s is among the pod addresses" % shown(gateway_text or "")
            remedy = "remove it from ips, or add it to excludeIPs"
            found.add(import_rules.UNUSABLE, fields.place_of("ips"), message, remedy, "the addresses without it")
        ranges = without(ranges, [single(*gateway)])
    pool.ranges = without(ranges, excluded)
    excluded = [each for each in excluded if (each.first, each.last) != (pool.gateway,) * 2]
    pool.excluded = common([pool.net.addresses], excluded)
    return pool


def take_routes(pool: Pool, items: t.Iterable[Value]) -> None:
    """Add destinations and gateways of routes to a pool."""
    for item in items:
        destination = object_shape.text_at(item, "dst") or object_shape.text_at(item, "to")
        via = pool_ranges.address(object_shape.text_at(item, "gw") or object_shape.text_at(item, "via"))
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
