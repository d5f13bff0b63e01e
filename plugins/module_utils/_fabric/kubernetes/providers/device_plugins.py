# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of device plugins: the resource of each netdev or PCI function.

Each network has its own resource; rails never share one.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import sriov_operator_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    LABEL,
    OF_FUNCTION,
    OF_NETDEV,
    Network,
    Object,
    View,
    compact,
    label_value,
    made,
    pod_vfs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions as functions_of

# Seconds between searches for devices, so that a reloaded driver needs no restart.
RESCAN = 300
# The annotation of a device plugin's pods with the digest of their configuration.
CONFIG = LABEL + "config"
SHARED_PLUGIN = "rdma-shared-device-plugin"
SRIOV_PLUGIN = "sriov-device-plugin"


def shared(view: View, options: Options, variant: str | None = None) -> list[Object]:
    """Return ``configList`` of k8s-rdma-shared-dev-plugin: an entry for each network whose pods share the port's RDMA
    device.

    With ``variant``, it has only the networks of that variant's nodes; otherwise those of the cluster, for one
    DaemonSet on all nodes.

    :raises RailyardError: if one netdev is on different rails on different nodes.
    """
    entries: list[Object] = []
    for network in _served(view, OF_NETDEV, variant):
        entries.append(
            {
                "resourcePrefix": view.prefix,
                "resourceName": network.resource,
                "rdmaHcaMax": options.rdma_hca_max,
                "selectors": {"ifNames": _netdevs(network, variant)},
            }
        )
    _one_rail_each(view, {entry["resourceName"]: entry["selectors"]["ifNames"] for entry in entries}, variant)
    return entries


def functions(view: View, variant: str | None = None) -> list[Object]:
    """Return ``resourceList`` of sriov-network-device-plugin: an entry per network whose pods get a PCI function."""
    entries = []
    for network in _served(view, OF_FUNCTION, variant):
        entries.append(
            {
                "resourcePrefix": view.prefix,
                "resourceName": network.resource,
                "selectors": _function_selectors(network, variant),
            }
        )
    return entries


def digest(config: t.Any) -> str:
    """Return the digest of a configuration.

    The template of a DaemonSet contains it, so that pods restart when the configuration changes: plugins read it once.
    """
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def allocatable(view: View, options: Options) -> dict[str, dict[str, int]]:
    """Return node -> resource with its prefix -> the units that the node must report."""
    wanted: dict[str, dict[str, int]] = {}
    for node in view.nodes:
        resources = wanted[node["name"]] = {}
        for port in node["ports"]:
            network = view.network_of(node, port)
            resource = view.qualified(network.resource)
            if network.attachment in OF_NETDEV:
                resources[resource] = options.rdma_hca_max
            elif network.attachment == "host-device":
                resources[resource] = 1
            else:
                count = len(pod_vfs(port))
                place = "profiles.%s" % node["profile"]
                taken = sriov_operator_objects.dpdk_vfs(view, options, network, count, place)
                resources[resource] = count - taken
                if taken:
                    resources[resource + sriov_operator_objects.DPDK] = taken
    return wanted


def daemon_sets(view: View, options: Options) -> t.Iterator[Object]:
    """Yield the device plugins for the provider without an operator: per variant, since netdev names depend on
    profiles."""
    if not options.device_plugins:
        return
    namespace = options.operator(view.provider)
    for variant in view.variants:
        for plugin, key, config, wraps in (
            (SHARED_PLUGIN, "configList", shared(view, options, variant), {"periodicUpdateInterval": RESCAN}),
            (SRIOV_PLUGIN, "resourceList", functions(view, variant), {}),
        ):
            if config:
                yield from _plugin(view, options, plugin, variant, namespace, dict(wraps, **{key: config}))


def _served(view: View, attachments: t.Sequence[str], variant: str | None) -> list[Network]:
    return [network for network in view.of(*attachments) if variant is None or variant in network.variants]


def _of_variant(network: Network, variant: str | None, key: str) -> list[str]:
    """Return the distinct values of ``key`` of the functions of a network's ports on the nodes of a variant.

    Device plugins find PCI functions, and neither bonds nor VLANs.
    """
    found: dict[str, None] = {}
    for own, _node, port in network.members:
        for function in functions_of(port) if variant in (None, own) else ():
            if function[key] is not None:
                found[function[key]] = None
    return list(found)


def _netdevs(network: Network, variant: str | None) -> list[str]:
    netdevs = _of_variant(network, variant, "netdev")
    if network.nameless and not netdevs:
        network.master()
    return netdevs


def _function_selectors(network: Network, variant: str | None) -> Object:
    """Return selectors by netdev if all ports have one name, since PCI addresses depend on the server model.

    VFs are selected by their port, and by their numbers if some of the port's VFs have another owner.

    :raises RailyardError: for such ports without a netdev, because PCI addresses of ports select all VFs.
    """
    netdevs = _of_variant(network, variant, "netdev")
    pcis = _of_variant(network, variant, "pci")
    if network.attachment == "host-device":
        return {"pciAddresses": pcis, "isRdma": True} if pcis else {"pfNames": netdevs, "isRdma": True}
    ports = [port for own, _node, port in network.members if variant in (None, own)]
    parts = {(port["netdev"], sriov_operator_objects.part_of(port)) for port in ports if port["netdev"]}
    if any(part for _netdev, part in parts):
        return {"pfNames": sorted(netdev + part for netdev, part in parts), "isRdma": True}
    sriov_operator_objects.refuse_nameless_part(ports)
    return {"pfNames": netdevs, "isRdma": True} if netdevs else {"rootDevices": pcis, "isRdma": True}


def _one_rail_each(view: View, wanted: t.Mapping[str, t.Sequence[str]], variant: str | None) -> None:
    """Check that a netdev serves the same rail on all nodes. Several VLANs of a netdev are rails that share its device.

    The plugin mounts all devices that match an entry, so otherwise pods would get the device of another rail too.

    :raises RailyardError: for a netdev on several rails.
    """
    seen = set()
    for node in view.nodes:
        if variant is not None and view.variant(node) != variant:
            continue
        pairs = [(function["netdev"], port) for port in node["ports"] for function in functions_of(port)]
        key = tuple((netdev, port["names"]["network"]) for netdev, port in pairs)
        if key in seen:
            continue
        seen.add(key)
        owners = [(netdev, port, view.network_of(node, port).resource) for netdev, port in pairs]
        here = {(netdev, resource) for netdev, _port, resource in owners}
        for netdev, port, own in owners:
            for resource, netdevs in wanted.items():
                if (netdev, resource) not in here and netdev in netdevs:
                    raise RailyardError(
                        "%s is a netdev of the resource %s on node %s, and of the resource %s on others"
                        % (netdev, own, node["name"], resource),
                        "profiles.%s.ports.%s" % (node["profile"], port["rail"]),
                        "give each resource netdevs of its own: other names in one of the profiles, with pci beside"
                        " them, or one attachment for all",
                    )


_MOUNTS = {
    SHARED_PLUGIN: (
        ("plugins", "/var/lib/kubelet/device-plugins"),
        ("registry", "/var/lib/kubelet/plugins_registry"),
        ("devices", "/dev"),
    ),
    SRIOV_PLUGIN: (
        ("plugins", "/var/lib/kubelet/device-plugins"),
        ("registry", "/var/lib/kubelet/plugins_registry"),
        ("device-info", "/var/run/k8s.cni.cncf.io/devinfo/dp"),
    ),
}
# Where each plugin reads its configuration: directory, file, and the argument that names the file.
_CONFIG = {
    SHARED_PLUGIN: ("/k8s-rdma-shared-dev-plugin", "config.json", "--config-file=%s"),
    SRIOV_PLUGIN: ("/etc/pcidp", "config.json", "--config-file=%s"),
}


def _plugin(
    view: View, options: Options, plugin: str, variant: str, namespace: str, config: Object
) -> t.Iterator[Object]:
    name = "%s-%s-%s" % (view.name, plugin, variant)
    labels = view.labels("cni", **{"app.kubernetes.io/name": plugin})
    directory, file, argument = _CONFIG[plugin]
    yield made("v1", "ConfigMap", name, labels, namespace=namespace, data={file: compact(config) + "\n"})
    match = {"app.kubernetes.io/name": plugin, "app.kubernetes.io/instance": label_value(name)}
    container = {
        "name": plugin,
        "image": options.reference("plain-" + plugin),
        "args": [argument % ("%s/%s" % (directory, file))],
        "securityContext": {"privileged": True},
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}, "limits": {"cpu": "300m", "memory": "300Mi"}},
        "volumeMounts": [{"name": mount, "mountPath": path} for mount, path in _MOUNTS[plugin]]
        + [{"name": "config", "mountPath": directory, "readOnly": True}],
    }
    template = {
        "metadata": {"labels": match, "annotations": {CONFIG: digest(config)}},
        "spec": {
            "hostNetwork": True,
            "nodeSelector": view.selector(variant),
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": mount, "hostPath": {"path": path}} for mount, path in _MOUNTS[plugin]]
            + [{"name": "config", "configMap": {"name": name}}],
        },
    }
    yield made(
        "apps/v1",
        "DaemonSet",
        name,
        labels,
        {"selector": {"matchLabels": match}, "template": template},
        namespace=namespace,
    )
