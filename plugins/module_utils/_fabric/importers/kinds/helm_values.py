# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Helm values, recognized by their chart: those of Spiderpool and the Network Operator describe shared devices and VFs.

Sources: ``values.yaml`` of the charts spiderpool (0.9 to 1.1), network-operator (1.0 to 25.x),
sriov-network-operator (1.2 to 1.6) and gpu-operator (23.x to 25.x). A key that several charts have is not a sign.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    manifest_texts,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    NETWORK_OPERATOR,
    SPIDERPOOL,
    Facts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import (
    device_plugin_kinds,
    object_shape,
    sriov_kinds,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

SRIOV_OPERATOR, GPU_OPERATOR = "sriov-network-operator", "gpu-operator"
_CHARTS = (SPIDERPOOL, NETWORK_OPERATOR, SRIOV_OPERATOR, GPU_OPERATOR)
# Chart -> paths of keys that only this chart has, in any of its releases.
_SIGNS: dict[str, tuple[str, ...]] = {
    SPIDERPOOL: (
        "rdma.rdmaSharedDevicePlugin",
        "rdmaSharedDevicePlugin.deviceConfig",
        "rdmaSharedDevicePlugin.install",
        "sriov.install",
        "sriov.resourcePrefix",
        "spiderpoolController",
        "spiderpoolAgent",
        "spiderpoolInit",
        "clusterDefaultPool",
        "ipam.enableIPv4",
        "ipam.enableStatefulSet",
        "ipam.enableGatewayDetection",
        "ipam.spidersubnet",
        "ipam.spiderSubnet",
        "feature.enableIPv4",
        "multus.multusCNI",
        "coordinator.podCIDRType",
        "coordinator.hijackCIDR",
        "coordinator.detectGateway",
        "coordinator.detectIPConflict",
        "plugins.installRdmaCNI",
    ),
    NETWORK_OPERATOR: (
        "deployCR",
        "ofedDriver",
        "nvPeerDriver",
        "rdmaSharedDevicePlugin.deploy",
        "rdmaSharedDevicePlugin.resources",
        "sriovDevicePlugin.deploy",
        "sriovDevicePlugin.resources",
        "devicePlugin.deploy",
        "devicePlugin.resources",
        "ibKubernetes",
        "secondaryNetwork",
        "nvIpam",
        "sriovNetworkOperator",
        "nicFeatureDiscovery",
        "docaTelemetryService",
        "nicConfigurationOperator",
        "maintenanceOperator",
        "spectrumXOperator",
    ),
    SRIOV_OPERATOR: (
        "sriovOperatorConfig",
        "operator.resourcePrefix",
        "operator.admissionControllers",
        "operator.cniBinPath",
        "supportedExtraNICs",
        "images.sriovConfigDaemon",
        "images.sriovDevicePlugin",
    ),
    GPU_OPERATOR: (
        "dcgmExporter",
        "dcgm",
        "migManager",
        "mig",
        "toolkit",
        "gfd",
        "gdrcopy",
        "gds",
        "driver.rdma",
        "driver.kernelModuleType",
        "driver.licensingConfig",
        "devicePlugin.enabled",
        "devicePlugin.config",
        "validator",
        "vgpuManager",
        "sandboxWorkloads",
        "vfioManager",
        "kataManager",
        "ccManager",
    ),
}
# Keys that make a document Helm values, although their chart is not certain.
_HINTS = ("rdma", "rdmaSharedDevicePlugin", "sriovDevicePlugin", "sriov")
_RESOURCES = "resources"


def read(manifest: manifest_texts.Manifest, facts: Facts, found: Found) -> bool:
    """Read Helm values. Return False for a document that is not recognized as Helm values."""
    nested = [name for name in _CHARTS if isinstance(object_shape.entry(manifest.root, name), Mapping)]
    for name in nested:
        # values of a chart that contains others
        section = object_shape.entry(manifest.root, name)
        if isinstance(section, Mapping):
            _READERS[name](manifest, section, facts, found)
    chart = chart_of(manifest.root)
    if chart:
        _READERS[chart](manifest, manifest.root, facts, found)
    elif not nested and any(isinstance(object_shape.entry(manifest.root, key), Mapping) for key in _HINTS):
        keys = [key for key in manifest.root.entries if key in _HINTS]
        message = "the Helm values with %s belong to an unknown chart" % ", ".join(map(shown, keys))
        remedy = "give the whole values file, and check fabric.provider"
        found.add(import_rules.CHART, Place(manifest.file, manifest.line, 1, keys[0]), message, remedy, "nothing of it")
        facts.unknown_charts = True
    return bool(chart or nested or facts.unknown_charts)


def chart_of(root: Value) -> str | None:
    """Return the chart with the most signs; None without a sign, or if two charts have as many."""
    counts = {
        chart: sum(object_shape.entry(root, *path.split(".")) is not None for path in paths)
        for chart, paths in _SIGNS.items()
    }
    best = max(counts.values())
    charts = [chart for chart, number in counts.items() if number == best]
    return charts[0] if best and len(charts) == 1 else None


def _spiderpool(manifest: manifest_texts.Manifest, root: Mapping, facts: Facts, found: Found) -> None:
    found.kind = "the Helm values"
    facts.provider(SPIDERPOOL)
    plugin = object_shape.entry(root, "rdma", "rdmaSharedDevicePlugin") or object_shape.entry(
        root, "rdmaSharedDevicePlugin"
    )
    setup = object_shape.entry(plugin, "deviceConfig")
    install = object_shape.text_at(plugin, "install").lower() == "true"
    if isinstance(setup, Mapping):
        device_plugin_kinds.configuration(manifest, setup, facts, found)
    elif install and isinstance(plugin, Mapping):
        place = object_shape.place_at(manifest, plugin, "rdma.rdmaSharedDevicePlugin")
        message = "the shared device plugin is installed without deviceConfig.configList, whose default is empty"
        found.add(import_rules.NO_RESOURCES, place, message, "add an entry for each rail", "no shared devices")
    settings = object_shape.entry(root, "coordinator")
    if not isinstance(settings, Mapping):
        return
    for key, ours in (("detectGateway", "enableGatewayDetection"), ("detectIPConflict", "enableIPConflictDetection")):
        if key in settings.entries:
            use(settings.entries[key][1])
            place = object_shape.place_at(manifest, settings.entries[key][0], "coordinator." + key)
            message = "the setting %s was removed and has no effect" % key
            found.add(
                import_rules.REMOVED, place, message, "write ipam.%s" % ours, "nothing: the proof reaches every gateway"
            )


def _network_operator(manifest: manifest_texts.Manifest, root: Mapping, facts: Facts, found: Found) -> None:
    """Read the resources of the device plugins, from which the chart makes the NicClusterPolicy."""
    found.kind = "the Helm values"
    facts.provider(NETWORK_OPERATOR)
    object_shape.text_at(root, "deployCR")
    if object_shape.text_at(root, "ofedDriver", "deploy").lower() == "true":
        facts.driver = "container"
    nodes = node_selectors.read(object_shape.entry(root, "nodeAffinity"))
    for key in ("rdmaSharedDevicePlugin", "devicePlugin", "sriovDevicePlugin"):
        plugin = object_shape.entry(root, key)
        deployed = object_shape.text_at(plugin, "deploy").lower()
        listed = object_shape.entry(plugin, _RESOURCES)
        if deployed == "false" or not isinstance(listed, Sequence):
            continue
        entries = Sequence(listed.line, listed.column)
        shared = key != "sriovDevicePlugin"
        entries.items = [_as_configuration(each, shared) for each in listed.items if isinstance(each, Mapping)]
        config = Mapping(listed.line, listed.column)
        name = "configList" if shared else "resourceList"
        config.entries[name] = (Scalar(name, True, listed.line, listed.column), entries)
        # the operator starts the SR-IOV device plugin with its own prefix, and the shared device plugin without one
        device_plugin_kinds.configuration(manifest, config, facts, found, "" if shared else "nvidia.com", nodes)


def _as_configuration(resource: Mapping, shared: bool) -> Mapping:
    """Return an entry of the device plugin's configuration, as the chart writes it from an entry of ``resources``."""
    made = Mapping(resource.line, resource.column)
    selectors = Mapping(resource.line, resource.column)
    for key, pair in resource.entries.items():
        if key == "name":
            made.entries["resourceName"] = pair
        elif key in ("resourcePrefix", "rdmaHcaMax", "deviceType"):
            made.entries[key] = pair
        else:
            selectors.entries[key] = pair
    name = Scalar("selectors", True, resource.line, resource.column)
    made.entries["selectors"] = (name, selectors)
    if shared and "rdmaHcaMax" not in made.entries:
        # the chart's template has this number
        number = Scalar("63", True, resource.line, resource.column)
        made.entries["rdmaHcaMax"] = (Scalar("rdmaHcaMax", True, resource.line, resource.column), number)
    return made


def _sriov_operator(manifest: manifest_texts.Manifest, root: Mapping, facts: Facts, found: Found) -> None:
    """Read the prefix that the operator gives to the resources of policies."""
    found.kind = "the Helm values"
    prefix = object_shape.text_at(root, "operator", "resourcePrefix")
    if prefix:
        facts.resource_prefix = prefix
    if object_shape.entry(root, "resourceList") is not None:
        sriov_kinds.resource_list(manifest, root, facts, found, prefix or "openshift.io")


def _gpu_operator(manifest: manifest_texts.Manifest, root: Mapping, facts: Facts, found: Found) -> None:
    """Values of the GPU Operator do not describe rails: their fields are reported as not imported."""
    found.kind = "the Helm values of the GPU Operator"


_READERS: dict[str, t.Callable[[manifest_texts.Manifest, Mapping, Facts, Found], None]] = {
    SPIDERPOOL: _spiderpool,
    NETWORK_OPERATOR: _network_operator,
    SRIOV_OPERATOR: _sriov_operator,
    GPU_OPERATOR: _gpu_operator,
}
