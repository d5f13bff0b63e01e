# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared RDMA devices: the configuration of k8s-rdma-shared-dev-plugin, in any kind that contains it."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    embedded_json,
    import_rules,
    manifest_texts,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    NETWORK_OPERATOR,
    Device,
    Facts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.node_selectors import ALL, Selector
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape, sriov_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.object_shape import (
    NUMBER,
    TEXT,
    TEXTS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

# The plugin's default prefix of resource names.
_PREFIX = "rdma"
_SELECTORS: object_shape.Shape = dict.fromkeys(("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"), TEXTS)
_ENTRY: object_shape.Shape = {
    "resourceName": TEXT,
    "resourcePrefix": TEXT,
    "rdmaHcaMax": NUMBER,
    "selectors": _SELECTORS,
    "devices": TEXTS,
}
# Valid names for the plugin, and for Kubernetes.
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_]{0,61}[A-Za-z0-9])?\Z")


def config_map(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a ConfigMap. Any of its texts may be the configuration of a device plugin."""
    data = object_shape.entry(manifest.root, "data")
    if not isinstance(data, Mapping):
        return
    before = len(facts.devices)
    for _key, value in data.entries.values():
        if isinstance(value, Scalar) and ("configList" in value.text or "resourceList" in value.text):
            _embedded(manifest, value, facts, found)
    for device in facts.devices[before:]:
        device.config_map = object_shape.name_of(manifest)[1]


def daemon_set(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read which nodes a DaemonSet selects, because the configuration of a device plugin may apply to them only."""
    spec = object_shape.entry(manifest.root, "spec", "template", "spec")
    names = [
        object_shape.peek(object_shape.entry(each, "configMap", "name"))
        for each in object_shape.items_at(spec, "volumes")
    ]
    selectors = [object_shape.entry(spec, "nodeSelector"), object_shape.entry(spec, "affinity", "nodeAffinity")]
    nodes = next((node_selectors.read(each) for each in selectors if each is not None), ALL)
    facts.config_nodes.update({name: nodes for name in names if name})


def _embedded(
    manifest: manifest_texts.Manifest,
    value: Scalar,
    facts: Facts,
    found: Found,
    prefix: str = "",
    nodes: Selector = ALL,
) -> None:
    place = Place(manifest.file, value.line, value.column, "config.json")
    root = embedded_json.of_scalar(value, Mapping, place, "the device plugin's configuration", found)
    configuration(manifest, root, facts, found, prefix, nodes)


def configuration(
    manifest: manifest_texts.Manifest,
    root: Value | None,
    facts: Facts,
    found: Found,
    prefix: str = "",
    nodes: Selector = ALL,
) -> None:
    """Read the configuration of a device plugin for shared devices or VFs.

    :param prefix: default prefix of resource names; empty for the plugin's own default.
    :param nodes: the nodes of the plugin.
    """
    if object_shape.entry(root, "resourceList") is not None:
        sriov_kinds.resource_list(manifest, root, facts, found, prefix or "intel.com", nodes)
    entries = object_shape.entry(root, "configList")
    if entries is None:
        return
    if not isinstance(entries, Sequence) or not entries.items:
        place = object_shape.place_at(manifest, entries, "configList")
        message = "configList is empty: the plugin ends with no resources configuration found"
        found.add(import_rules.NO_RESOURCES, place, message, "add an entry for each rail", "no shared devices")
        return
    names: dict[str, Place] = {}
    for number, item in enumerate(entries.items):
        path = "configList[%d]" % number
        if not isinstance(item, Mapping):
            place = object_shape.place_at(manifest, item, path)
            found.add(import_rules.KIND, place, "%s instead of a mapping" % item.kind, "write an object", "nothing")
            continue
        device = _device(manifest, item, path, prefix or _PREFIX, found)
        device.nodes = nodes
        bare = device.resource.partition("/")[2]
        if bare in names:
            message = "%s is registered twice: the plugin's socket has the name without the prefix" % shown(bare)
            found.add(
                import_rules.RESOURCE_TWICE,
                device.place,
                message,
                "give each rail a name of its own",
                "the first of them",
            )
            continue
        names[bare] = device.place
        facts.devices.append(device)


def _device(manifest: manifest_texts.Manifest, item: Mapping, path: str, prefix: str, found: Found) -> Device:
    fields = object_shape.read(manifest, item, _ENTRY, found, path=path)
    name = fields.text("resourceName") or ""
    if not _NAME.match(name) or not _QUALIFIED.match(name):
        valid_name = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:63]
        message = "the device plugin rejects the resource name %s, and with it every resource of the node" % shown(name)
        if _NAME.match(name):
            message = "Kubernetes refuses the resource name %s" % shown(name)
        elif not name:
            message = "an entry has no resourceName"
        remedy = "use letters, digits and underscores, a letter or digit first and last, at most 63"
        found.add(
            import_rules.RESOURCE_NAME, fields.place_of("resourceName"), message, remedy, valid_name or "no resource"
        )
        name = valid_name
    max_devices = fields.peek("rdmaHcaMax")
    if not max_devices or max_devices < 0:
        message = "rdmaHcaMax is %s: the resource %s has no units to give" % (max_devices or 0, shown(name))
        found.add(
            import_rules.NO_UNITS,
            fields.place_of("rdmaHcaMax"),
            message,
            "write rdmaHcaMax: 100",
            "as many as pods request",
        )
    netdevs = fields.texts("selectors.ifNames")
    if fields.has("devices") and netdevs:
        message = "devices and selectors.ifNames are both set, which the plugin rejects"
        found.add(
            import_rules.SELECTOR,
            fields.place_of("devices"),
            message,
            "keep selectors.ifNames",
            "only selectors.ifNames",
        )
    netdevs = netdevs or fields.texts("devices")
    if not netdevs:
        others = [key for key in _SELECTORS if fields.texts("selectors." + key)]
        message = "the resource %s selects no port by ifNames" % shown(name)
        if others:
            message += ", but every port by %s: its rails cannot be distinguished" % ", ".join(others)
        else:
            message += ", and the plugin refuses an entry without selectors"
        remedy = 'write selectors: {"ifNames": ["..."]}'
        found.add(import_rules.SELECTOR, fields.place_of("selectors"), message, remedy, "the resource without a port")
    full = "%s/%s" % (fields.text("resourcePrefix") or prefix, name)
    return Device(fields.place, full, True, netdevs, link=object_shape.link_type(fields.texts("selectors.linkTypes")))


def cluster_policy(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> None:
    """Read a NicClusterPolicy or NicNodePolicy of NVIDIA's Network Operator."""
    facts.provider(NETWORK_OPERATOR)
    if isinstance(object_shape.entry(manifest.root, "spec", "ofedDriver"), Mapping):
        facts.driver = "container"
    keys = ("nodeSelector", "nodeAffinity")
    selectors = [object_shape.entry(manifest.root, "spec", key) for key in keys]
    nodes = next((node_selectors.read(each) for each in selectors if each is not None), ALL)
    # the operator starts the SR-IOV device plugin with its own prefix, and the shared device plugin without one
    for key, prefix in (("rdmaSharedDevicePlugin", ""), ("sriovDevicePlugin", "nvidia.com")):
        value = object_shape.entry(manifest.root, "spec", key, "config")
        if isinstance(value, Scalar) and not value.null:
            _embedded(manifest, value, facts, found, prefix, nodes)
