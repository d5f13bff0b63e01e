# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks: NetworkAttachmentDefinition, and kinds of NVIDIA's Network Operator."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    embedded_json,
    import_rules,
    manifest_texts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    CNI,
    NETWORK_OPERATOR,
    Facts,
    PodNetwork,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import (
    ipam_kinds,
    network_vlans,
    object_shape,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import NUMBER, TEXT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.upstream_vf_fields import (
    FLAGS,
    NUMBERS,
    SWITCH,
    VF_FIELDS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import pci
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

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
# kind -> (attachment, fields other than networkNamespace and ipam)
_OPERATORS = {
    "MacvlanNetwork": ("macvlan", {"master": TEXT, "mode": TEXT, "mtu": NUMBER, "metaPlugins": TEXT}),
    "HostDeviceNetwork": ("host-device", {"resourceName": TEXT, "metaPlugins": TEXT}),
    "IPoIBNetwork": ("ipoib", {"master": TEXT}),
}


def definition(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a NetworkAttachmentDefinition, whose configuration is JSON in a text."""
    namespace, name = object_shape.name_of(manifest)
    config = object_shape.entry(manifest.root, "spec", "config")
    if not isinstance(config, Scalar) or config.null:
        message = "the definition %s has no config" % shown(name)
        place = Place(manifest.file, manifest.line, 1, "spec.config")
        found.add(import_rules.JSON, place, message, "write the CNI configuration as JSON", "nothing")
        return
    place = object_shape.place_at(manifest, config, "spec.config")
    plugin = _main_plugin(
        embedded_json.of_scalar(config, Mapping, place, "the configuration of %s" % shown(name), found)
    )
    kind = object_shape.text_at(plugin, "type")
    if kind not in _PLUGINS:
        # calico, bridge and others do not concern rails
        return
    facts.provider(CNI)
    annotations = object_shape.entry(manifest.root, "metadata", "annotations")
    resource = object_shape.text_at(annotations, _RESOURCE)
    master = object_shape.text_at(plugin, "master")
    mtu = object_shape.text_at(plugin, "mtu")
    network = PodNetwork(
        place,
        "NetworkAttachmentDefinition",
        namespace,
        name,
        _PLUGINS[kind],
        [master] if master else [],
        resource or None,
        mtu=int(mtu) if mtu.isdecimal() and 0 < len(mtu) < 6 and int(mtu) else None,
    )
    network_vlans.take(network, place, found)
    if kind == "host-device":
        device = object_shape.text_at(plugin, "device")
        address = pci(object_shape.text_at(plugin, "pciBusID"))
        network.masters = [device or address or ""] if device or address else []
    _vf_attributes(plugin, network)
    key = object_shape.entry(plugin, "pkey")
    if network.attachment == "ib-sriov" and isinstance(key, Scalar) and key.text.strip() and not key.null:
        network_vlans.report_partition(key, object_shape.place_at(manifest, key, "spec.config"), found)
    source = ("spec.config", config.text)
    ipam_kinds.of_value(manifest, object_shape.entry(plugin, "ipam"), network, facts, found, source)
    facts.networks.append(network)


def _main_plugin(value: Value | None) -> Value | None:
    plugins = object_shape.entry(value, "plugins")
    if isinstance(plugins, Sequence):
        known = [each for each in plugins.items if object_shape.text_at(each, "type") in _PLUGINS]
        return known[0] if known else None
    return value


def _vf_attributes(plugin: Value | None, network: PodNetwork) -> None:
    """Read VF attributes. Values that a fabric file cannot contain stay unread and are reported."""

    def take(key: str, attribute: str, convert: t.Callable[[str], t.Any]) -> None:
        value = object_shape.entry(plugin, key)
        converted = convert(object_shape.peek(value).lower())
        if converted is not None:
            use(value)
            network.vfs[attribute] = converted

    if network.attachment in ("sriov", "ib-sriov"):
        states = ("auto", "disable", "enable") if network.attachment == "sriov" else ("auto", "disable")
        take("link_state", "link_state", lambda text: text if text in states else None)
    if network.attachment != "sriov":
        return
    for name in NUMBERS:
        take(VF_FIELDS[name].plugin, name, _number_or_none)
    for name in FLAGS:
        take(VF_FIELDS[name].plugin, name, SWITCH.get)


def operators(kind: str, manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a MacvlanNetwork, HostDeviceNetwork or IPoIBNetwork."""
    namespace, name = object_shape.name_of(manifest)
    attachment, own_fields = _OPERATORS[kind]
    spec = object_shape.spec_of(manifest)
    known = dict(own_fields, networkNamespace=TEXT, ipam=TEXT)
    fields = object_shape.read(manifest, spec, known, found)
    facts.provider(NETWORK_OPERATOR)
    master = fields.text("master")
    network = PodNetwork(
        fields.place,
        kind,
        fields.text("networkNamespace") or namespace,
        name,
        attachment,
        [master] if master else [],
        fields.text("resourceName"),
        mtu=fields.number("mtu") or None,
    )
    network_vlans.take(network, fields.place_of("master"), found)
    if "master" in own_fields and not master:
        message = "the network %s has no master" % shown(name)
        found.add(import_rules.NO_PORT, fields.place, message, "write the port's netdev as master", "no port")
    if "resourceName" in own_fields and not network.resource:
        message = "the network %s has no resourceName" % shown(name)
        found.add(
            import_rules.NO_RESOURCE, fields.place, message, "set the resource of its ports", "the resource of the rail"
        )
    ipam_kinds.of_text(manifest, object_shape.entry(spec, "ipam"), network, facts, found)
    facts.networks.append(network)


def _number_or_none(text: str) -> int | None:
    """Return the number; None for 0, which means no value, and for texts that are not numbers of a VF."""
    return (int(text) or None) if text.isdecimal() and len(text) < 7 else None
