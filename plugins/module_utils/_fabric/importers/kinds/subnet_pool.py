# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A pool of one subnet, from any kind of manifest."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import Fields


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
    members = [number for _text, _version, run in listed for number in run] + ([gateway[1]] if gateway else [])
    pool.net = pool_ranges.subnet(text, members, fields.place_of("subnet"), found)
    if pool.net is None:
        return pool
    version = fields.number("ipVersion")
    if version not in (None, pool.net.version):
        message = "ipVersion is %s, and %s is IPv%d" % (version, pool_ranges.shown_net(pool.net), pool.net.version)
        remedy = "remove ipVersion: the subnet determines it"
        found.add(import_rules.KIND, fields.place_of("ipVersion"), message, remedy, "the subnet's family")
    if gateway and (gateway[0] != pool.net.version or not pool.net.holds(gateway[1])):
        message = "the gateway %s is not in %s" % (shown(gateway_text or ""), pool_ranges.shown_net(pool.net))
        remedy = "write the leaf's address in the subnet"
        found.add(import_rules.GATEWAY, fields.place_of("gateway"), message, remedy, "no gateway")
        gateway = None
    runs = pool_ranges.cut_to(pool.net, listed, fields.place_of("ips"), found)
    if gateway:
        pool.gateway = gateway[1]
        if any(
            first <= gateway[1] <= last
            for first, last in pool_ranges.without(runs, [run for _t, _v, run in excluded_ranges])
        ):
            message = "the gateway %s is among the pod addresses" % shown(gateway_text or "")
            remedy = "remove it from ips, or add it to excludeIPs"
            found.add(import_rules.UNUSABLE, fields.place_of("ips"), message, remedy, "the addresses without it")
        runs = pool_ranges.without(runs, [(gateway[1], gateway[1])])
    pool.runs = pool_ranges.without(runs, [run for _text, _version, run in excluded_ranges])
    excluded = [
        run for _text, version, run in excluded_ranges if version == pool.net.version and run != (pool.gateway,) * 2
    ]
    pool.excluded = pool_ranges.both([(pool.net.first, pool.net.last)], excluded)
    return pool
