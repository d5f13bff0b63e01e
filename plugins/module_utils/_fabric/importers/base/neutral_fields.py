# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fields of manifests that are ignored: fields of the API server, and values without an effect on the plan."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import Leaf

# Fields that identify an object or that the API server, controllers and clients write.
_SERVER = re.compile(
    r"(apiVersion|kind|status(\..*|\[.*)?|spec\.config(\[\])?\.(cniVersion|name)|metadata\.(name|namespace|uid|generation"
    r"|resourceVersion|creationTimestamp|deletionTimestamp|selfLink|generateName|(managedFields|ownerReferences|finalizers)"
    r"\[.*|annotations\[(kubectl\.kubernetes\.io/last-applied-configuration|meta\.helm\.sh/.*|helm\.sh/.*"
    r"|deprecated\.daemonset.*|operator\.sriovnetwork\.openshift\.io/.*|argocd\.argoproj\.io/.*)\]"
    r"|labels\[(app\.kubernetes\.io/.*|helm\.sh/.*|argocd\.argoproj\.io/.*|ipam\.spidernet\.io/.*)\]))\Z"
)


def _of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern + r"\Z", re.IGNORECASE)


# Kind -> path -> values without an effect on the plan: upstream defaults, and values of the rendered objects.
_COORDINATOR = {
    "mode": _of("auto"),
    "podCIDRType": _of("auto"),
    "podRPFilter": _of("0|2"),
    "tunePodRoutes": _of("true"),
    "hostRuleTable": _of("500"),
    "txQueueLen": _of("0"),
}
_PLUGIN = {"mode": _of("bridge|l2"), "ipam.poolType": _of("ippool|cidrpool"), "mtu": _of("0"), "vlan": _of("0")}
_SRIOV_NETWORK = {"logLevel": _of("info"), "vlan": _of("0"), "vlanQoS": _of("0"), "vlanProto": _of("802.1q")}
_METAPLUGIN = {"spec.metaPlugins[].type": _of("rdma")}
VALUES: dict[str, dict[str, re.Pattern[str]]] = {
    "SpiderIPPool": {
        "spec.default": _of("false"),
        "spec.disable": _of("false"),
        "spec.ipVersion": _of("4|6"),
        "spec.vlan": _of("0"),
    },
    "SpiderReservedIP": {"spec.ipVersion": _of("4|6")},
    "SpiderCoordinator": {"spec." + key: value for key, value in _COORDINATOR.items()},
    "SpiderMultusConfig": {
        "spec.enableCoordinator": _of("true"),
        "spec.disableIPAM": _of("false"),
        "spec.vlan.vlanMode": _of("manual"),
        "spec.ibsriov.linkState": _of("enable"),
        "spec.ibsriov.enableIbKubernetes": _of("false"),
        **{"spec.coordinator." + key: value for key, value in _COORDINATOR.items()},
        **{
            "spec.%s.%s" % (section, key): value
            for section in ("macvlan", "ipvlan", "sriov", "ibsriov", "ipoib")
            for key, value in (("ippools.matchMasterSubnet", _of("false")), ("vlanID", _of("0")))
        },
    },
    "SriovNetworkNodePolicy": {
        "spec.deviceType": _of("netdevice"),
        "spec.isRdma": _of("true"),
        "spec.eSwitchMode": _of("legacy"),
        "spec.excludeTopology": _of("false"),
        "spec.externallyManaged": _of("true"),
        "spec.needVhostNet": _of("false"),
        "spec.nicSelector.vendor": _of("15b3"),
    },
    "SriovNetwork": {**{"spec." + key: value for key, value in _SRIOV_NETWORK.items()}, **_METAPLUGIN},
    "SriovIBNetwork": {"spec.linkState": _of("enable"), **_METAPLUGIN},
    "MacvlanNetwork": {"spec.mode": _of("bridge")},
    "NetworkAttachmentDefinition": {
        "%s.%s" % (path, key): value
        for path in ("spec.config", "spec.config.plugins[]")
        for key, value in _PLUGIN.items()
    },
    "NicConfigurationTemplate": {"spec.resetToDefault": _of("false"), "spec.template.force": _of("false")},
    "IPPool": {"spec.defaultGateway": _of("false")},
    "CIDRPool": {"spec.defaultGateway": _of("false")},
}
for _kind in ("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork", "SriovNetwork", "SriovIBNetwork"):
    VALUES.setdefault(_kind, {})["spec.ipam.poolType"] = _of("ippool|cidrpool")
# Fields of device plugin configurations, in any kind that contains one.
_DEVICES = {
    "periodicUpdateInterval": _of("300"),
    "configList[].rdmaHcaMax": _of("100"),
    "configList[].selectors.vendors": _of("15b3"),
    "configList[].selectors.linkTypes": _of("ether|infiniband"),
    "configList[].selectors.drivers": _of("mlx5_core"),
    "resourceList[].deviceType": _of("netDevice"),
    "resourceList[].excludeTopology": _of("false"),
    "resourceList[].selectors.isRdma": _of("true"),
    "resourceList[].selectors.needVhostNet": _of("false"),
    "resourceList[].selectors.vendors": _of("15b3"),
    "resourceList[].selectors.drivers": _of("mlx5_core"),
    "resourceList[].selectors.linkTypes": _of("ether|infiniband"),
}
_NODES = {
    "spec.nodeSelector[kubernetes.io/os]": _of("linux"),
    "spec.nodeSelector[feature.node.kubernetes.io/network-sriov.capable]": _of("true"),
}

# Kinds that controllers write and users do not apply.
STATE = frozenset(
    (
        "SpiderEndpoint",
        "SriovNetworkNodeState",
        "NicDevice",
        "OverlappingRangeIPReservation",
        "NodeSlicePool",
        "Event",
        "Lease",
        "Endpoints",
        "EndpointSlice",
    )
)


def neutral(kind: str, path: str, leaf: Leaf) -> bool:
    """Return whether the value has no effect on the plan."""
    if _SERVER.match(path):
        return True
    text = leaf.text.strip()
    # a selector may be a mapping or a list of mappings
    plain = path.replace("selectors[]", "selectors").replace("config.json.", "").rpartition("deviceConfig.")[2]
    plain = plain[:-2] if plain.endswith("[]") else plain
    values = VALUES.get(kind, {})
    return any(
        pattern is not None and pattern.match(text) is not None
        for pattern in (values.get(path), _DEVICES.get(plain), _NODES.get(path))
    )
