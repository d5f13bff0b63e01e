# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Address management of pods: the ``ipam`` section of a CNI configuration, and pools of nv-ipam."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    embedded_json,
    import_rules,
    manifest_texts,
    node_selectors,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    NETWORK_OPERATOR,
    SPIDERPOOL,
    Facts,
    PodNetwork,
    Pool,
    PoolObject,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape, subnet_pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import (
    ANY,
    FLAG,
    ITEMS,
    NUMBER,
    TEXT,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import network, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

GROUP = "nv-ipam.nvidia.com"

# Kind of a network -> its resource, as kubectl names it.
_RESOURCES = {
    "NetworkAttachmentDefinition": "network-attachment-definitions.k8s.cni.cncf.io",
    "MacvlanNetwork": "macvlannetworks.mellanox.com",
    "HostDeviceNetwork": "hostdevicenetworks.mellanox.com",
    "IPoIBNetwork": "ipoibnetworks.mellanox.com",
    "SriovNetwork": "sriovnetworks.sriovnetwork.openshift.io",
    "SriovIBNetwork": "sriovibnetworks.sriovnetwork.openshift.io",
}
_IPPOOL: object_shape.Shape = {
    "subnet": TEXT,
    "perNodeBlockSize": NUMBER,
    "gateway": TEXT,
    "exclusions": ITEMS,
    "perNodeExclusions": ITEMS,
    "nodeSelector": ANY,
    "defaultGateway": FLAG,
    "routes": ITEMS,
}
_CIDRPOOL: object_shape.Shape = {
    "cidr": TEXT,
    "gatewayIndex": NUMBER,
    "perNodeNetworkPrefix": NUMBER,
    "exclusions": ITEMS,
    "perNodeExclusions": ITEMS,
    "staticAllocations": ITEMS,
    "nodeSelector": ANY,
    "defaultGateway": FLAG,
    "routes": ITEMS,
}


def of_text(
    manifest: manifest_texts.Manifest, value: Value | None, network: PodNetwork, facts: Facts, found: Found
) -> None:
    """Read an ``ipam`` section that is JSON in a text."""
    if not isinstance(value, Scalar) or not value.text.strip():
        return
    place = object_shape.place_at(manifest, value, "spec.ipam")
    section = embedded_json.of_scalar(value, Mapping, place, "the text of ipam", found)
    of_value(manifest, section, network, facts, found, ("spec.ipam", value.text))


def of_value(
    manifest: manifest_texts.Manifest,
    value: Value | None,
    network: PodNetwork,
    facts: Facts,
    found: Found,
    source: tuple[str, str],
) -> None:
    """Read an ``ipam`` section, which names pools or contains ranges.

    :param source: path and JSON text of the field that contains it.
    """
    kind = object_shape.text_at(value, "type")
    if not isinstance(value, Mapping) or not kind:
        return
    place = object_shape.place_at(manifest, value, "ipam")
    facts.managers.add(kind)
    if kind == "spiderpool":
        facts.provider(SPIDERPOOL)
        for key in ("default_ipv4_ippool", "default_ipv6_ippool"):
            items = object_shape.items_at(value, key)
            network.pools.extend(filter(None, map(object_shape.plain_text, items)))
    elif kind == "nv-ipam":
        facts.provider(NETWORK_OPERATOR)
        name = object_shape.text_at(value, "poolName")
        network.pools.extend([name] if name else [])
    elif kind in ("whereabouts", "host-local"):
        if kind == "host-local":
            message = "host-local counts on each node by itself: two nodes give the same address"
            remedy = "use a cluster-wide address manager, or a block of addresses per node"
            found.add(import_rules.IPAM, place, message, remedy, "its range for the pods of all nodes")
        before = len(facts.pools)
        _inline_pools(value, place, network, facts, found)
        for pool in facts.pools[before:]:
            pool.manager = kind
            if kind == "whereabouts" and found.kind in _RESOURCES:
                pool.object = PoolObject(_RESOURCES[found.kind], *object_shape.name_of(manifest), *source)
    else:
        message = "addresses come from %s, which the plan knows nothing of" % shown(kind)
        found.add(import_rules.IPAM, place, message, "set the rail's subnet and pods in the fabric file", "no pods")


def _inline_pools(value: Mapping, place: Place, network: PodNetwork, facts: Facts, found: Found) -> None:
    blocks: list[Value] = [value]
    for key in ("ipRanges", "ranges"):
        for item in object_shape.items_at(value, key):
            blocks.extend(getattr(item, "items", None) or [item])
    for block in blocks:
        pool = _inline_pool(block, value, place, "%s#%d" % (network.name, len(network.pools) + 1), found)
        if pool:
            facts.pools.append(pool)
            network.pools.append(pool.name)
            subnet_pool.take_routes(pool, object_shape.items_at(value, "routes"))


def _inline_pool(block: Value, value: Mapping, place: Place, name: str, found: Found) -> Pool | None:
    def text_of(*keys: str) -> str:
        return next(filter(None, (object_shape.text_at(block, key) for key in keys)), "")

    subnet = text_of("range", "subnet")
    if not subnet:
        return None
    first, last = text_of("range_start", "rangeStart"), text_of("range_end", "rangeEnd")
    head, dash, tail = subnet.partition("-")
    if dash:  # whereabouts also accepts first-last/prefix
        first, (last, slash, prefix) = first or head, tail.partition("/")
        subnet = "%s%s%s" % (last, slash, prefix)
    fields = object_shape.Fields(place)
    net = pool_ranges.prefixed(subnet)
    if net:
        around = network(*net)
        subnet, inside = str(around), around.usable
        ends = (first or show(inside.first, inside.bits), last or show(inside.last, inside.bits))
        fields.put("ips", ["%s-%s" % ends], place)
    fields.put("subnet", subnet, place)
    gateway = text_of("gateway") or object_shape.text_at(value, "gateway")
    # a range without ends includes the gateway, which the plugin excludes itself
    excluded = [object_shape.plain_text(item) for item in object_shape.items_at(block, "exclude")]
    excluded = [_as_range(text) for text in excluded if text]
    if gateway:
        fields.put("gateway", gateway, place)
        excluded.append(gateway)
    fields.put("excludeIPs", excluded, place)
    return subnet_pool.pool_of(fields, name, found)


def _as_range(text: str) -> str:
    parsed = pool_ranges.prefixed(text)
    if not parsed:
        return text
    return str(network(*parsed).addresses)


def ip_pool(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read an IPPool: one subnet of which nv-ipam assigns blocks to nodes."""
    namespace, name = object_shape.name_of(manifest)
    fields = object_shape.read_spec(manifest, _IPPOOL, found)
    facts.provider(NETWORK_OPERATOR)
    inner = object_shape.Fields(fields.place)
    for key in ("subnet", "gateway"):
        if fields.text(key):
            inner.put(key, fields.text(key), fields.place_of(key))
    net = pool_ranges.prefixed(fields.text("subnet") or "")
    if net:
        inner.put("ips", [str(network(*net).usable)], fields.place_of("subnet"))
    excluded = [_exclusion(item) for item in fields.items("exclusions")]
    gateway = fields.text("gateway")
    inner.put("excludeIPs", [text for text in excluded + [gateway or ""] if text], fields.place_of("exclusions"))
    facts.pools.append(subnet_pool.pool_of(inner, name, found))
    written = tuple(
        {key: object_shape.peek(object_shape.entry(item, key)) for key in ("startIP", "endIP")}
        for item in fields.items("exclusions")
    )
    facts.pools[-1].object = PoolObject("ippools." + GROUP, namespace, name, "spec.exclusions", excluded=written)
    facts.pools[-1].live = object_shape.entry(manifest.root, "status", "allocations") is not None
    subnet_pool.take_routes(facts.pools[-1], fields.items("routes"))
    facts.pools[-1].selector = node_selectors.read(fields.any("nodeSelector"))
    facts.pools[-1].block = fields.number("perNodeBlockSize")
    if facts.pools[-1].block:
        message = "nv-ipam divides the pool %s into blocks, and decides itself which node gets which block" % shown(
            name
        )
        pool = facts.pools[-1]
        if pool.net and pool.gateway == pool.net.usable.first:
            message += "; the first block begins with the gateway"
        remedy = "use a prefix per node (a CIDRPool), or a gateway at the end of the subnet"
        found.add(import_rules.BLOCKS, fields.place_of("perNodeBlockSize"), message, remedy, "one range for all nodes")


def _exclusion(item: Value) -> str:
    first, last = (object_shape.text_at(item, key) for key in ("startIP", "endIP"))
    return "%s-%s" % (first, last) if first and last else ""


def _indexes(item: Value) -> tuple[int, int] | None:
    texts_ = [object_shape.text_at(item, key) for key in ("startIndex", "endIndex")]
    first, last = (int(text) if re.match(r"[0-9]{1,18}\Z", text) else -1 for text in texts_)
    return (first, last) if 0 <= first <= last else None


def cidr_pool(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a CIDRPool: a network that is divided into one prefix per node."""
    _namespace, name = object_shape.name_of(manifest)
    fields = object_shape.read_spec(manifest, _CIDRPOOL, found)
    facts.provider(NETWORK_OPERATOR)
    pool = Pool(fields.place, name, None, found.kind, selector=node_selectors.read(fields.any("nodeSelector")))
    facts.pools.append(pool)
    text = fields.text("cidr") or ""
    pool.net = pool_ranges.subnet(text, [], fields.place_of("cidr"), found)
    length = fields.number("perNodeNetworkPrefix")
    if pool.net is None or length is None or not pool.net.prefix <= length <= pool.net.bits:
        message = "perNodeNetworkPrefix %s does not cut %s into networks of nodes" % (length, shown(text))
        remedy = "write the length of one node's network, such as 27"
        found.add(import_rules.SUBNET, fields.place_of("perNodeNetworkPrefix"), message, remedy, "no networks of nodes")
        return
    pool.node_prefix = length
    index = fields.number("gatewayIndex")
    if index is not None:
        pool.gateway = pool.net.first + index
    subnet_pool.take_routes(pool, fields.items("routes"))
    pool.left_out = [run for run in map(_indexes, fields.items("perNodeExclusions")) if run]
    excluded = [text for text in map(_exclusion, fields.items("exclusions")) if text]
    for _text, each in pool_ranges.ranges(excluded, fields.place_of("exclusions"), found):
        facts.taken.setdefault(name or "excluded", []).append(each)
    for item in fields.items("staticAllocations"):
        node = object_shape.text_at(item, "nodeName")
        if node:
            facts.nodes.append(node)
            pool.static[node] = object_shape.text_at(item, "prefix")
            _own_gateway(item, pool.static[node], index)
    # nodes keep the networks that nv-ipam has allocated to them
    allocations = object_shape.entry(manifest.root, "status", "allocations")
    for item in allocations.items if isinstance(allocations, Sequence) else ():
        node, prefix = (object_shape.text_at(item, key) for key in ("nodeName", "prefix"))
        if node and prefix and pool.static.setdefault(node, prefix) == prefix:
            facts.nodes.append(node)


def _own_gateway(item: Value, prefix: str, index: int | None) -> None:
    """Mark a node's gateway as read if it is the one at the pool's gateway index. Another one is not imported."""
    net, gateway = pool_ranges.exact(prefix), object_shape.entry(item, "gateway")
    if net and index is not None and pool_ranges.address(object_shape.peek(gateway)) == (net.first + index, net.bits):
        object_shape.plain_text(gateway)
