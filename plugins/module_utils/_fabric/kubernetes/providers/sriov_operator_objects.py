# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Policies of the SR-IOV network operator: upstream's, or the fork in Spiderpool.

Railyard creates the VFs before the operator runs. Policies are ``externallyManaged``, so that the operator neither
creates nor removes VFs, changes no firmware and reboots no node.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    OF_VF,
    Network,
    Object,
    Port,
    View,
    made,
    pod_vfs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import UPSTREAM, facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

API = "sriovnetwork.openshift.io/v1"
COMPONENT = "sriov-operator"
PRIORITY = 90
# Suffix of the resource of VFs for DPDK.
DPDK = "_dpdk"
# The limit of mlx5, which the operator's webhook enforces.
MOST_VFS = 128


def policies(view: View, options: Options) -> t.Iterator[Object]:
    """Yield SriovNetworkNodePolicies: one per rail and variant, because port names and VF counts depend on profiles."""
    if not options.sriov_policies:
        return
    shape = options.sriov(view.provider)
    parted = dict.fromkeys(network.rail for network in view.of("sriov")) if shape else {}
    for rail in options.dpdk.get("rails", ()):
        if rail not in parted:
            raise RailyardError(
                "no SR-IOV operator allocates VFs of a rail %s%s" % (rail, did_you_mean(nearest(rail, parted))),
                "kubernetes.dpdk.rails",
                "use rails of %s" % ", ".join(parted) if parted else "remove kubernetes_options.dpdk",
            )
    if not shape:
        return
    namespace = options.sriov_place(view.provider)
    for network in view.of(*OF_VF):
        for variant in network.variants:
            for name, spec in _policies(view, options, network, variant):
                if not options.network_mtu:
                    spec.pop("mtu", None)
                yield made(API, "SriovNetworkNodePolicy", name, view.labels(COMPONENT, network.rail), spec, namespace)


def _policies(view: View, options: Options, network: Network, variant: str) -> t.Iterator[tuple[str, Object]]:
    netdevs: dict[str, None] = {}
    pcis: dict[str, None] = {}
    policy, place, count, ours = "", "", 0, range(0)
    for own, node, port in network.members:
        if own != variant:
            continue
        place = "profiles.%s" % node["profile"]
        # A variant by groups has its own policy in addition to that of the profile.
        policy = port["names"]["policy"] + variant[len(node["profile"]) :]
        for function in functions(port):
            for found, value in ((netdevs, function["netdev"]), (pcis, function["pci"])):
                if value is not None:
                    found[value] = None
        count, ours = (port["vfs"] or {}).get("count") or 0, pod_vfs(port)
        refuse_nameless_part([port])
    if not 1 <= count <= MOST_VFS:
        raise RailyardError(
            "%d VFs on each port of rail %s: the operator supports 1 to %d" % (count, network.rail, MOST_VFS),
            place,
            "set `vfs.count`",
        )
    taken = dpdk_vfs(view, options, network, len(ours), place)
    end = ours.stop - taken
    selector = _nic(list(netdevs), list(pcis), (ours.start, end - 1) if taken or len(ours) < count else None)
    yield policy, _spec(view, network, variant, network.resource, count, selector)
    if taken:
        kernel_driver = options.dpdk.get("driver", "vfio-pci") == "netdevice"
        spec = _spec(
            view,
            network,
            variant,
            network.resource + DPDK,
            count,
            _nic(list(netdevs), list(pcis), (end, ours.stop - 1)),
        )
        # mlx5 stays bound to its kernel driver under DPDK and needs RDMA; with vfio-pci the operator refuses isRdma.
        spec.update(deviceType="netdevice" if kernel_driver else "vfio-pci", isRdma=kernel_driver)
        yield policy + "-dpdk", spec


def _spec(view: View, network: Network, variant: str, resource: str, count: int, selector: Object) -> Object:
    spec: Object = {
        "resourceName": resource,
        "nodeSelector": view.selector(variant),
        "nicSelector": selector,
        "numVfs": count,
        "priority": PRIORITY,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "ib" if network.attachment == "ib-sriov" else "eth",
        "externallyManaged": True,
    }
    if network.mtu is not None and network.attachment == "sriov":
        spec["mtu"] = network.mtu
    return spec


def _nic(netdevs: t.Sequence[str], pcis: t.Sequence[str], vfs: tuple[int, int] | None) -> Object:
    if netdevs:
        suffix = "" if vfs is None else "#%d-%d" % vfs
        return {"pfNames": [netdev + suffix for netdev in netdevs]}
    if vfs is not None:
        raise RailyardError(
            "VFs for DPDK are selected by the netdev of their port, and the ports have none",
            "kubernetes.dpdk",
            "give the rail's ports a `netdev` in their profile",
        )
    return {"rootDevices": list(pcis)}


def part_of(port: Port) -> str:
    """Return the suffix of a netdev that selects the VFs for pods, such as ``#5-9``; empty if pods get all VFs."""
    ours, vfs = pod_vfs(port), port.get("vfs") or {}
    return "#%d-%d" % (ours.start, ours.stop - 1) if ours and len(ours) < vfs["count"] else ""


def refuse_nameless_part(ports: t.Iterable[Port]) -> None:
    """Refuse ports without a netdev if some of their VFs have another owner.

    :raises RailyardError: with the place of the first of them.
    """
    for port in ports:
        if part_of(port) and not port["netdev"]:
            raise RailyardError(
                "VFs %s are selected by the netdev of their port, and the port has none" % port["vfs"]["range"],
                "rails.%s.vfs.range" % port["rail"],
                "give the rail's ports a `netdev` in their profile",
            )


def dpdk_vfs(view: View, options: Options, network: Network, count: int, place: str) -> int:
    """Return how many of a port's ``count`` VFs are for DPDK, under a separate resource. They are the last ones.

    :param place: of the count in the fabric file.
    :raises RailyardError: if no VF, or no VF for DPDK, would remain.
    """
    if not options.sriov(view.provider) or network.attachment != "sriov":
        return 0
    if network.rail not in options.dpdk.get("rails", ()):
        return 0
    taken = int(options.dpdk.get("vfs", 1))
    if not 0 < taken < count:
        raise RailyardError(
            "%d of %d VFs of rail %s are for DPDK; DPDK and RDMA need one or more each" % (taken, count, network.rail),
            "kubernetes.dpdk.vfs",
            "set it to 1 to %d, or raise `vfs.count` in %s" % (count - 1, place),
        )
    return taken


def values(view: View, options: Options) -> Object:
    """Return values of upstream's chart ``sriov-network-operator``."""
    made_values: Object = {
        "operator": {"resourcePrefix": view.prefix, "admissionControllers": {"enabled": False}},
        "sriovOperatorConfig": {"deploy": True, "configDaemonNodeSelector": view.selector(), "disableDrain": False},
    }
    return made_values


def alone(view: View, options: Options) -> bool:
    """Return whether the operator is installed separately, and not by the provider's chart."""
    brought = facts_of(view.provider).brings_sriov_operator
    return bool(view.of(*OF_VF)) and options.sriov(view.provider) == UPSTREAM and not brought
