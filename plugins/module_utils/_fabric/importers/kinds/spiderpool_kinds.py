# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of Spiderpool: SpiderIPPool, SpiderMultusConfig, SpiderReservedIP, SpiderCoordinator."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    node_selectors,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    SPIDERPOOL,
    Facts,
    HostInterface,
    PodNetwork,
    PoolObject,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import (
    network_vlans,
    object_shape,
    subnet_pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import (
    ANY,
    FAMILY,
    FLAG,
    ITEMS,
    NUMBER,
    TEXT,
    TEXTS,
    Fields,
    Removed,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.upstream_vf_fields import (
    NUMBERS,
    VF_FIELDS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Scalar, Value

GROUP = "spiderpool.spidernet.io"

# The field names are those of Spiderpool's CRDs, v2beta1.
_POOL: object_shape.Shape = {
    "subnet": TEXT,
    "ipVersion": FAMILY,
    "ips": TEXTS,
    "excludeIPs": TEXTS,
    "gateway": TEXT,
    "routes": ITEMS,
    "nodeName": TEXTS,
    "namespaceName": TEXTS,
    "multusName": TEXTS,
    "nodeAffinity": ANY,
    "namespaceAffinity": ANY,
    "podAffinity": ANY,
    "default": FLAG,
    "disable": FLAG,
}
_POOLS_OF: object_shape.Shape = {"ipv4": TEXTS, "ipv6": TEXTS, "matchMasterSubnet": FLAG}
_ON_MASTER: object_shape.Shape = {
    "master": TEXTS,
    "vlanID": NUMBER,
    "bond": ANY,
    "mtu": NUMBER,
    "rdmaResourceName": TEXT,
    "ippools": _POOLS_OF,
}
_SECTIONS: t.Mapping[str, object_shape.Shape] = {
    "macvlan": _ON_MASTER,
    "ipvlan": _ON_MASTER,
    "vlan": dict(_ON_MASTER, vlanMode=TEXT),
    "sriov": {
        "resourceName": TEXT,
        "rdmaIsolation": FLAG,
        "mtu": NUMBER,
        "vlanID": NUMBER,
        "minTxRateMbps": NUMBER,
        "maxTxRateMbps": NUMBER,
        "ippools": _POOLS_OF,
    },
    "ibsriov": {
        "resourceName": TEXT,
        "rdmaIsolation": FLAG,
        "pkey": ANY,
        "linkState": TEXT,
        "enableIbKubernetes": FLAG,
        "ippools": _POOLS_OF,
    },
    "ipoib": {"master": TEXT, "ippools": _POOLS_OF},
    "ovs": {"bridge": TEXT, "vlan": NUMBER, "trunk": ANY, "deviceID": TEXT, "ippools": _POOLS_OF},
}
# cniType -> section of the spec
_TYPES = {
    "macvlan": "macvlan",
    "ipvlan": "ipvlan",
    "sriov": "sriov",
    "ib-sriov": "ibsriov",
    "ipoib": "ipoib",
    "vlan": "vlan",
    "ovs": "ovs",
    "custom": "",
}
_ATTACHMENTS = ("macvlan", "ipvlan", "sriov", "ib-sriov", "ipoib")
_COORDINATOR: object_shape.Shape = {
    "mode": TEXT,
    "podCIDRType": TEXT,
    "hijackCIDR": TEXTS,
    "policyRoutes": ITEMS,
    "tunePodRoutes": FLAG,
    "podDefaultRouteNIC": TEXT,
    "podMACPrefix": TEXT,
    "podRPFilter": NUMBER,
    "hostRuleTable": NUMBER,
    "txQueueLen": NUMBER,
    "vethLinkAddress": TEXT,
    "vethMTU": NUMBER,
}
_PROBES = "set ipam.enableGatewayDetection and ipam.enableIPConflictDetection in the Helm values"
_COORDINATOR_REMOVED = {
    "detectGateway": Removed(
        "the address manager probes now", _PROBES, "nothing of it: the proof reaches every gateway"
    ),
    "detectIPConflict": Removed("the address manager probes now", _PROBES, "nothing"),
    "hostRPFilter": Removed("the agent sets the node's rp_filter", "remove it", "nothing: rail ports have rp_filter 2"),
}
_RDMA_REMOVED = {
    "enableRdma": Removed(
        "since Spiderpool 1.0 a network has RDMA when it names its resource",
        "remove it; with sriov and ib-sriov write rdmaIsolation: true",
        "the RDMA mode of the attachment",
    )
}


def pool(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SpiderIPPool."""
    _namespace, name = object_shape.name_of(manifest)
    fields = object_shape.read_spec(manifest, _POOL, found)
    facts.provider(SPIDERPOOL)
    facts.pools.append(subnet_pool.pool_of(fields, name, found))
    excluded = tuple(fields.texts("excludeIPs"))
    facts.pools[-1].object = PoolObject("spiderippools." + GROUP, "", name, "spec.excludeIPs", excluded=excluded)
    facts.pools[-1].live = _has_allocations(object_shape.entry(manifest.root, "status"))
    selector = node_selectors.read(fields.any("nodeAffinity"))
    # a pool with names of nodes ignores its affinity
    facts.pools[-1].selector = node_selectors.of_names(facts.pools[-1].nodes) if facts.pools[-1].nodes else selector
    subnet_pool.take_routes(facts.pools[-1], _routes(manifest, fields, found))
    for text in facts.pools[-1].routes:
        net = pool_ranges.exact(text)
        if net and net.bits == IPV4:
            facts.supernets.append(net)


def _has_allocations(status: Value | None) -> bool:
    """Return whether the status of a pool contains the addresses that pods have. Without such addresses, it has only
    counts. A list that is not valid JSON, such as a truncated one, is unknown."""
    text = object_shape.text_at(status, "allocatedIPs")
    if not text:
        allocated = object_shape.text_at(status, "allocatedIPCount") or "0"
        return bool(object_shape.text_at(status, "totalIPCount")) and allocated == "0"
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _routes(manifest: Manifest, fields: Fields, found: Found) -> list[Mapping]:
    written = []
    for item in fields.items("routes"):
        place = Place(manifest.file, item.line, item.column, "spec.routes")
        if not isinstance(item, Mapping):
            found.add(
                import_rules.KIND, place, "%s instead of a route" % item.kind, "write {dst: ..., gw: ...}", "nothing"
            )
            continue
        if "to" in item.entries or "via" in item.entries:
            message = "a route is written with to and via"
            found.add(import_rules.ROUTE_WORDS, place, message, "write dst and gw", "the routes of the plan")
        written.append(item)
    return written


def network(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SpiderMultusConfig."""
    namespace, name = object_shape.name_of(manifest)
    facts.provider(SPIDERPOOL)
    spec = object_shape.spec_of(manifest)
    kind = _type(manifest, spec, found)
    if kind is None:
        return
    section = _TYPES[kind]
    known: dict[str, t.Any] = {
        "cniType": TEXT,
        "enableCoordinator": FLAG,
        "disableIPAM": FLAG,
        "coordinator": ANY,
        "chainCNIJsonData": ANY,
        "customCNI": TEXT,
    }
    if section:
        known[section] = _SECTIONS[section]
    entries = {} if spec is None else spec.entries
    others = [other for other in _SECTIONS if other != section and other in entries]
    for other in others:
        key = entries[other][0]
        message = "cniType is %s, and there is a section %s" % (kind, other)
        written = "it as %s" % section if section and section not in entries else "the section %s alone" % section
        place = object_shape.place_at(manifest, key, "spec." + other)
        found.add(import_rules.SECTION, place, message, "keep only the section %s" % (section or "customCNI"), written)
    fields = object_shape.read(manifest, _without_sections(spec, others, section), known, found, removed=_RDMA_REMOVED)
    if kind not in _ATTACHMENTS:
        message = "%s is not an attachment for rails" % kind
        found.add(
            import_rules.ATTACHMENT,
            fields.place_of("cniType"),
            message,
            "use one of macvlan, sriov or ib-sriov",
            "nothing",
        )
        return
    facts.networks.append(_network(fields, manifest, (namespace, name), kind, section, facts, found))


def _network(
    fields: Fields, manifest: Manifest, name: tuple[str, str], kind: str, section: str, facts: Facts, found: Found
) -> PodNetwork:
    def path(key: str) -> str:
        return "%s.%s" % (section, key)

    masters = fields.texts(path("master")) if kind != "ipoib" else [fields.text(path("master")) or ""]
    result = PodNetwork(
        Place(manifest.file, manifest.line, 1, "spec"),
        "SpiderMultusConfig",
        name[0],
        name[1],
        kind,
        [master for master in masters if master],
        fields.text(path("rdmaResourceName")) or fields.text(path("resourceName")),
        fields.texts(path("ippools.ipv4")) + fields.texts(path("ippools.ipv6")),
        fields.number(path("mtu")) or None,
        fields.flag(path("rdmaIsolation")),
        bool(fields.flag(path("ippools.matchMasterSubnet"))),
    )
    if kind == "ipoib":
        network_vlans.take(result, fields.place_of(path("master")), found)
    elif kind in ("macvlan", "ipvlan"):
        _on_master(fields, result, section, facts, found)
    elif kind in ("sriov", "ib-sriov"):
        _on_vfs(fields, result, section, found)
    if result.match_master and kind != "sriov":
        message = "matchMasterSubnet is for sriov alone; the webhook refuses it with %s" % kind
        remedy = "remove it; give each node's pool its nodeName"
        found.add(
            import_rules.MATCH_MASTER, fields.place_of(path("ippools.matchMasterSubnet")), message, remedy, "nothing"
        )
        result.match_master = False
    return result


def _on_master(fields: Fields, network: PodNetwork, section: str, facts: Facts, found: Found) -> None:
    network_vlans.take(network, fields.place_of(section + ".master"), found)
    if not network.masters:
        message = "the network %s has no master" % shown(network.name)
        found.add(
            import_rules.NO_PORT, fields.place, message, "write the port's netdev as %s.master" % section, "no port"
        )
    if len(network.masters) > 1 or fields.has(section + ".bond"):
        _bond(fields, network, section, facts, found)
    vlan = fields.number(section + ".vlanID")
    if vlan:
        network.vlan = vlan
    if not network.resource:
        message = "the network %s has no rdmaResourceName: the webhook cannot add the RDMA resource" % shown(
            network.name
        )
        remedy = "set the resource of its master"
        found.add(import_rules.NO_RESOURCE, fields.place, message, remedy, "the resource of the rail")


# Number of a mode of the kernel's bonding driver -> mode of the fabric file.
_BOND_MODES = {"1": "active-backup", "2": "balance-xor", "4": "802.3ad"}


def _bond(fields: Fields, network: PodNetwork, section: str, facts: Facts, found: Found) -> None:
    """Read a bond of several masters, which Spiderpool makes before it attaches pods."""
    bond = fields.any(section + ".bond")
    name = object_shape.text_at(bond, "name")
    mode = object_shape.text_at(bond, "mode")
    if not name or len(network.masters) < 2 or mode not in _BOND_MODES:
        message = "the masters %s of %s are not a bond that a fabric file can have" % (
            " and ".join(network.masters),
            shown(network.name),
        )
        remedy = "write bond: {name: bond0, mode: 4}, with mode 1 (active-backup), 2 (balance-xor) or 4 (802.3ad)"
        place = fields.place_of(section + ".master")
        found.add(import_rules.ATTACHMENT, place, message, remedy, "the first of them")
        network.masters = network.masters[:1]
        return
    place = fields.place_of(section + ".bond")
    facts.interfaces.append(HostInterface(place, name, members=network.masters, bond={"mode": _BOND_MODES[mode]}))
    network.masters = [name]


def _on_vfs(fields: Fields, network: PodNetwork, section: str, found: Found) -> None:
    if not network.resource:
        message = "the network %s has no resourceName, which %s needs" % (shown(network.name), network.attachment)
        found.add(
            import_rules.NO_RESOURCE, fields.place, message, "set the resource of its VFs", "the resource of the rail"
        )
    isolated = network.isolated if network.isolated is not None else network.attachment == "ib-sriov"
    # enableRdma is already reported
    if not isolated and not any(path.endswith("enableRdma") for path in fields.removed):
        message = "rdmaIsolation is false: in exclusive mode the pod gets a port without its RDMA device"
        place = fields.place_of(section + ".rdmaIsolation")
        found.add(import_rules.ISOLATION, place, message, "write rdmaIsolation: true", "RDMA mode exclusive")
    for name in NUMBERS:
        key = VF_FIELDS[name].spiderpool
        value = fields.number("%s.%s" % (section, key)) if key else None
        if value:
            network.vfs[name] = value
    state = fields.text(section + ".linkState")
    if state and state != "enable":
        network.vfs["link_state"] = state
    partition = fields.any(section + ".pkey")
    if isinstance(partition, Scalar):
        network_vlans.report_partition(partition, fields.place_of(section + ".pkey"), found)


def _type(manifest: Manifest, spec: Mapping | None, found: Found) -> str | None:
    """Return the network's cniType, or the type of its only section if it is missing or wrong, or None."""
    value = object_shape.entry(spec, "cniType")
    text = object_shape.plain_text(value)
    place = Place(manifest.file, manifest.line, 1, "spec.cniType")
    sections = [kind for kind, name in _TYPES.items() if name and object_shape.entry(spec, name) is not None]
    if text in _TYPES:
        return text
    close = nearest(text, _TYPES) if text else None
    if text and isinstance(value, Scalar):
        place = object_shape.place_at(manifest, value, "spec.cniType")
    corrected = close or (sections[0] if len(sections) == 1 else None)
    message = "cniType %s is not one of %s%s" % (shown(text), ", ".join(_TYPES), did_you_mean(close))
    if not text:
        message = "the network has no cniType"
    written = corrected if corrected else "nothing of this network"
    remedy = "write cniType: %s" % corrected if corrected else "set cniType to the rail's attachment"
    found.add(import_rules.SECTION, place, message, remedy, written)
    return corrected


def _without_sections(spec: Mapping | None, others: t.Sequence[str], section: str) -> Mapping | None:
    """Return the spec without sections of other types. A single other section replaces a missing own section."""
    if spec is None or not others:
        return spec
    kept = Mapping(spec.line, spec.column)
    for key, (name, value) in spec.entries.items():
        if key not in others:
            kept.entries[key] = (name, value)
    if section and section not in kept.entries and len(others) == 1:
        kept.entries[section] = spec.entries[others[0]]
    return kept


def reserved(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SpiderReservedIP."""
    _namespace, name = object_shape.name_of(manifest)
    fields = object_shape.read_spec(manifest, {"ips": TEXTS, "ipVersion": FAMILY}, found)
    facts.provider(SPIDERPOOL)
    listed = pool_ranges.ranges(fields.texts("ips"), fields.place_of("ips"), found)
    facts.taken.setdefault(name or "reserved", []).extend(each for _text, each in listed)


def coordinator(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a SpiderCoordinator. Only ``hijackCIDR`` concerns the rails."""
    fields = object_shape.read_spec(manifest, _COORDINATOR, found, removed=_COORDINATOR_REMOVED)
    facts.provider(SPIDERPOOL)
    for text in fields.texts("hijackCIDR"):
        net = pool_ranges.exact(text)
        if net and net.bits == IPV4 and not text.startswith("169.254.") and text not in facts.reserved.values():
            facts.reserved["hijack-%d" % (len(facts.reserved) + 1)] = text
