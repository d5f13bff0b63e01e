# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Networks of other makers: NetworkAttachmentDefinition, and the Network Operator's own kinds."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports import ipam, rules, shape, texts, vlans
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.facts import (
    CNI,
    NETWORK_OPERATOR,
    Facts,
    Network,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.found import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.leaves import use
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.imports.shape import NUMBER, TEXT
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.names import pci
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.source import Mapping, Scalar, Sequence, Value

_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
# type of the CNI plugin -> attachment
_PLUGINS = {
    "macvlan": "macvlan",
    "ipvlan": "ipvlan",
    "sriov": "sriov",
    "ib-sriov": "ib-sriov",
    "ib-sriov-cni": "ib-sriov",
    "ipoib": "ipoib",
    "host-device": "host-device",
}
# kind -> (attachment, fields beside networkNamespace and ipam)
_OPERATORS = {
    "MacvlanNetwork": ("macvlan", {"master": TEXT, "mode": TEXT, "mtu": NUMBER, "metaPlugins": TEXT}),
    "HostDeviceNetwork": ("host-device", {"resourceName": TEXT, "metaPlugins": TEXT}),
    "IPoIBNetwork": ("ipoib", {"master": TEXT}),
}


def definition(manifest: texts.Manifest, facts: Facts, found: Found) -> None:
    """A NetworkAttachmentDefinition: its configuration is JSON in a text."""
    namespace, name = shape.name_of(manifest)
    config = shape.entry(manifest.root, "spec", "config")
    if not isinstance(config, Scalar) or config.null:
        message = "the definition %s has no config" % shown(name)
        place = Place(manifest.file, manifest.line, 1, "spec.config")
        found.add(rules.JSON, place, message, "write the CNI configuration as JSON", "nothing of it")
        return
    reading = texts.embedded(manifest.file, config, "spec.config", found)
    place = shape.place_at(manifest, config, "spec.config")
    if reading.value is None or not reading.whole:
        message = "the configuration of %s is no JSON object" % shown(name)
        found.add(rules.JSON, place, message, "close its braces and quotes", "what is there")
    plugin = _main_plugin(reading.value)
    kind = shape.plain_text(shape.entry(plugin, "type"))
    if kind not in _PLUGINS:
        # calico, bridge and the like concern no rail
        return
    facts.provider(CNI)
    annotations = shape.entry(manifest.root, "metadata", "annotations")
    resource = shape.plain_text(shape.entry(annotations, _RESOURCE))
    master = shape.plain_text(shape.entry(plugin, "master"))
    mtu = shape.plain_text(shape.entry(plugin, "mtu"))
    made = Network(
        place,
        "NetworkAttachmentDefinition",
        namespace,
        name,
        _PLUGINS[kind],
        [vlans.port_below(master, kind == "ipoib", place, found)] if master else [],
        resource or None,
        mtu=int(mtu) if mtu.isdecimal() and 0 < len(mtu) < 6 and int(mtu) else None,
    )
    if kind == "host-device":
        device = shape.plain_text(shape.entry(plugin, "device"))
        address = pci(shape.plain_text(shape.entry(plugin, "pciBusID")))
        made.masters = [device or address or ""] if device or address else []
    _vf_words(plugin, made)
    key = shape.entry(plugin, "pkey")
    if made.attachment == "ib-sriov" and isinstance(key, Scalar) and key.text.strip() and not key.null:
        vlans.say_partition(key, shape.place_at(manifest, key, "spec.config"), found)
    ipam.of_value(manifest, shape.entry(plugin, "ipam"), made, facts, found)
    facts.networks.append(made)


def _main_plugin(value: Value | None) -> Value | None:
    plugins = shape.entry(value, "plugins")
    if isinstance(plugins, Sequence):
        known = [each for each in plugins.items if shape.plain_text(shape.entry(each, "type")) in _PLUGINS]
        return known[0] if known else None
    return value


def _vf_words(plugin: Value | None, made: Network) -> None:
    """What a plugin of VFs sets; what the fabric file cannot have stays unread, and is reported as such."""

    def take(key: str, ours: str, kept: t.Callable[[str], t.Any]) -> None:
        value = shape.entry(plugin, key)
        word = kept(shape.peek(value).lower())
        if word is not None:
            use(value)
            made.vfs[ours] = word

    if made.attachment in ("sriov", "ib-sriov"):
        states = ("auto", "disable", "enable") if made.attachment == "sriov" else ("auto", "disable")
        take("link_state", "link_state", lambda text: text if text in states else None)
    if made.attachment != "sriov":
        return
    for key, ours in (("vlan", "vlan"), ("vlanQoS", "qos"), ("min_tx_rate",) * 2, ("max_tx_rate",) * 2):
        take(key, ours, lambda text: int(text) if text.isdecimal() and len(text) < 7 and int(text) else None)
    for key in ("trust", "spoofchk"):
        take(key, key, {"on": True, "off": False}.get)


def operators(kind: str, manifest: texts.Manifest, facts: Facts, found: Found) -> None:
    """A MacvlanNetwork, HostDeviceNetwork or IPoIBNetwork."""
    namespace, name = shape.name_of(manifest)
    attachment, own = _OPERATORS[kind]
    spec = shape.entry(manifest.root, "spec")
    known = dict(own, networkNamespace=TEXT, ipam=TEXT)
    fields = shape.read(manifest, spec if isinstance(spec, Mapping) else None, known, found)
    facts.provider(NETWORK_OPERATOR)
    master = fields.text("master")
    made = Network(
        fields.place,
        kind,
        fields.text("networkNamespace") or namespace,
        name,
        attachment,
        [vlans.port_below(master, attachment == "ipoib", fields.place_of("master"), found)] if master else [],
        fields.text("resourceName"),
        mtu=fields.number("mtu") or None,
    )
    if "master" in own and not master:
        message = "the network %s names no master" % shown(name)
        found.add(rules.NO_PORT, fields.place, message, "write the port's netdev as master", "no port")
    if "resourceName" in own and not made.resource:
        message = "the network %s names no resourceName" % shown(name)
        found.add(
            rules.NO_RESOURCE, fields.place, message, "name the resource of its ports", "the resource of the rail"
        )
    ipam.of_text(manifest, shape.entry(spec, "ipam"), made, facts, found)
    facts.networks.append(made)
