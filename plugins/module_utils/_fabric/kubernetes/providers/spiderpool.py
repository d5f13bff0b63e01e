# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Spiderpool: address pools, a SpiderMultusConfig per network, groups for injection, and values of its chart.

Pools of one node have an affinity to its name, so that pods get addresses of their node's prefix only.
``matchMasterSubnet`` is not used: upstream refuses it for macvlan, and it needs an address on the host's port.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import (
    device_plugins,
    partition_keys,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import (
    Provider,
    tuning,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    OF_NETDEV,
    OF_VF,
    Network,
    Object,
    RailSet,
    Share,
    View,
    compact,
    label_value,
    made,
    stated,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import BUNDLED, SPIDERPOOL
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Range,
    parse_range,
)

API = "spiderpool.spidernet.io/v2beta1"
COMPONENT = SPIDERPOOL.name
INJECT_RDMA = "cni.spidernet.io/rdma-resource-inject"
INJECT_NETWORK = "cni.spidernet.io/network-resource-inject"
DEVICE_PLUGIN = "spiderpool-rdma-shared-device-plugin"
# The section of a SpiderMultusConfig, where it is not the attachment's own name.
SECTION = {"ib-sriov": "ibsriov"}


def pools(view: View) -> t.Iterator[Object]:
    """Yield SpiderIPPools: one per rail and family if all pods share a range, else one per node, rail and family."""
    common = set()
    for node in view.nodes:
        for port in node["ports"]:
            own = view.rails[port["rail"]]["mode"] != "subnet"
            for share in view.shares(port):
                name = view.pool(port, share.version)
                if not own:
                    if name in common:
                        continue
                    common.add(name)
                labels = view.labels(COMPONENT, port["rail"])
                yield made(API, "SpiderIPPool", name, labels, _pool(share, node["name"] if own else None))


def _pool(share: Share, node: str | None) -> Object:
    spec: Object = {"ipVersion": share.version, "subnet": share.subnet, "ips": list(share.ips)}
    if share.default:
        spec["gateway"] = share.gateway
    if share.networks:
        spec["routes"] = [{"dst": route, "gw": share.gateway} for route in share.networks]
    if node is not None:
        spec["nodeName"] = [node]
    return spec


def reserved(view: View) -> t.Iterator[Object]:
    """Yield SpiderReservedIPs: addresses that no pod gets, not even from other pools in the same subnets.

    Only families with pools have one: the values disable others, and the webhook refuses these. Rails of one network
    share one.
    """
    listed: list[tuple[t.Any, list[str]]] = []
    for name, rail in view.rails.items():
        taken = [each for ranges in (rail.get("taken") or {}).values() for each in ranges.split(", ")]
        for version in families(view):
            ips = merged(taken, IPV6 if version == 6 else IPV4)
            reservation = (rail.get("subnet6" if version == 6 else "subnet"), ips)
            if ips and reservation not in listed:
                listed.append(reservation)
                yield made(
                    API,
                    "SpiderReservedIP",
                    "%s-taken" % view.rail_pool(name, version),
                    view.labels(COMPONENT, name),
                    {"ipVersion": version, "ips": ips},
                )


def merged(ranges: t.Iterable[str], bits: int) -> list[str]:
    """Return the ranges of one family in order, joined where they touch or overlap, as the webhook stores them."""
    parsed = filter(None, (parse_range(each, bits=bits) for each in ranges))
    return [str(each) for each in ip_ranges.merged(Range(first, last, bits) for first, last in parsed)]


def families(view: View) -> list[int]:
    """Return the IP versions that have pools."""
    return [version for version in (4, 6) if any(network.pools[version] for network in view.networks)]


def networks(view: View, options: Options) -> t.Iterator[Object]:
    """Yield SpiderMultusConfigs: one per network, and a copy for each additional group of injection."""
    pools_of = {network.name: _pools_of(view, network) for network in view.networks}
    groups = injection(view, options, pools_of)
    own = {network.name: _spec(view, options, network, pools_of[network.name]) for network in view.networks}
    for network in view.networks:
        for name, group in groups.get(network.name, [(network.name, None)]):
            annotations = {_inject_key(network): group} if group is not None else None
            yield made(
                API,
                "SpiderMultusConfig",
                name,
                view.labels(COMPONENT, network.rail),
                own[network.name],
                view.namespace,
                annotations,
            )


def _spec(view: View, options: Options, network: Network, pools_of: Object) -> Object:
    section = SECTION.get(network.attachment, network.attachment)
    spec: Object = {"cniType": network.attachment}
    if not pools_of:
        # A pod without an address on the rail has no routes to coordinate.
        spec.update(enableCoordinator=False, disableIPAM=True)
    resource = view.qualified(network.resource)
    ippools = pools_of or None
    mtu = network.mtu if options.network_mtu else None
    if network.attachment in ("macvlan", "ipvlan"):
        values: Object = {
            "master": [network.master()],
            "mtu": mtu,
            "rdmaResourceName": resource,
            "ippools": ippools,
        }
    elif network.attachment == "ipoib":
        values = {"master": network.master(), "ippools": ippools}
    elif network.attachment == "ib-sriov":
        values = {
            "resourceName": resource,
            "rdmaIsolation": network.isolated,
            "linkState": "enable",
            "pkey": partition_keys.of_pods(view, options),
            "enableIbKubernetes": True if options.ufm_secret else None,
            "ippools": ippools,
        }
    else:
        values = {"resourceName": resource, "rdmaIsolation": network.isolated, "mtu": mtu, "ippools": ippools}
    spec[section] = stated(values)
    if "arp_filter" in (network.sample.get("sysctl") or {}):
        # Otherwise, if a pod has several interfaces in one subnet, each of them answers ARP requests for all.
        spec["chainCNIJsonData"] = [compact(each) for each in tuning(network.sample, view.shares(network.sample))]
    return spec


def _pools_of(view: View, network: Network) -> Object:
    """Return ``ippools``: names, or one pattern that matches the pools of this network and no other planned pool."""
    found: Object = {}
    for version, key in ((4, "ipv4"), (6, "ipv6")):
        names = network.pools[version]
        if not names:
            continue
        patterns = {name.replace(node, "*") for name, node in names.items()} if network.mode != "subnet" else set()
        pattern = patterns.pop() if len(patterns) == 1 else ""
        found[key] = [pattern] if pattern.count("*") == 1 and _ours(view, network, version, pattern) else list(names)
    return found


def _ours(view: View, network: Network, version: int, pattern: str) -> bool:
    head, _star, tail = pattern.partition("*")
    return not any(
        name.startswith(head) and name.endswith(tail)
        for other in view.networks
        for family, names in other.pools.items()
        if (other.rail, family) != (network.rail, version)
        for name in names
    )


def _inject_key(network: Network) -> str:
    return INJECT_NETWORK if network.attachment == "ipoib" else INJECT_RDMA


def injection(
    view: View, options: Options, pools_of: t.Mapping[str, Object]
) -> dict[str, list[tuple[str, str | None]]]:
    """Return network -> the SpiderMultusConfigs that attach it, each with its group (None without one).

    A SpiderMultusConfig has one group only. The network itself belongs to the group of all compute rails or of all
    storage rails; groups of fewer rails have their own copies. Groups of k rails are consecutive: 1 to k, k+1 to 2k,
    and so on.

    :param pools_of: network -> its ``ippools``.
    """
    made_of: dict[str, list[tuple[str, str | None]]] = {}
    if not options.injection:
        return made_of
    for rails in view.whole_sets:
        for group, suffix, names in _groups(view, options, rails):
            if not all(pools_of[name] for name in (rails.storage if names[0] in rails.storage else rails.compute)):
                # The webhook refuses a group with a network without pools.
                continue
            for name in names:
                copies = made_of.setdefault(name, [])
                # The webhook uses the group as a label's value.
                copies.append((name if not copies else "%s-%s" % (name, suffix), label_value(group)))
    return made_of


def _groups(view: View, options: Options, rails: RailSet) -> t.Iterator[tuple[str, str, list[str]]]:
    """Yield group, suffix of its copies, and networks."""
    only = len(view.whole_sets) == 1
    kind = "" if only else "-" + rails.name
    yield "%s%s" % (view.name, kind), "all" + kind, list(rails.compute)
    if rails.storage:
        yield "%s-storage%s" % (view.name, kind), "storage" + kind, list(rails.storage)
    bases = list(dict.fromkeys(view.network(name).base for name in rails.compute))
    width = len(str(len(bases)))
    for size in sorted(set(options.injection_groups)):
        if not 1 <= size < len(bases):
            continue
        for at in range(0, len(bases) - size + 1, size):
            chosen = bases[at : at + size]
            number = "%0*d" % (width, at // size + 1)
            names = [name for name in rails.compute if view.network(name).base in chosen]
            yield "%s%s-%dx%s" % (view.name, kind, size, number), "%dx%s%s" % (size, number, kind), names


def values(view: View, options: Options) -> Object:
    """Return values of the chart ``spiderpool``: only keys that the chart reads and the plan determines."""
    config = device_plugins.shared(view, options)
    pooled = families(view)
    gateways = any(share.default for network in view.networks for share in view.shares(network.sample))
    bundled = options.sriov(view.provider) == BUNDLED and bool(view.of(*OF_VF))
    plugin: Object = {"install": bool(config), "name": DEVICE_PLUGIN}
    if config:
        # An empty list ends the plugin with a fatal error, so it is never written.
        plugin["deviceConfig"] = {"periodicUpdateInterval": device_plugins.RESCAN, "configList": config}
        # The plugin reads its list once. A changed list changes the template, so the DaemonSet restarts.
        plugin["podAnnotations"] = {device_plugins.CONFIG: device_plugins.digest(plugin["deviceConfig"])}
    attachments = {network.attachment for network in view.networks}
    made_values: Object = {
        "ipam": {
            # With both disabled, the chart's first pod may not make the coordinator, and the installation fails.
            "enableIPv4": 4 in pooled or not pooled,
            "enableIPv6": 6 in pooled,
            "enableIPConflictDetection": bool(pooled),
            "enableGatewayDetection": gateways,
            # Pools come from the plan. SpiderSubnets would create and own pools.
            "spiderSubnet": {"enable": False, "autoPool": {"enable": False}},
        },
        "coordinator": {
            "enabled": True,
            "name": "default",
            "mode": "auto",
            "podCIDRType": "auto",
            "tunePodRoutes": True,
        },
        "rdma": {"rdmaSharedDevicePlugin": plugin},
        "sriov": _sriov_values(view, bundled),
        "plugins": {
            "installCNI": bool(attachments & set(OF_NETDEV)) or bool(attachments & set(OF_VF)),
            "installRdmaCNI": any(network.isolated and network.attachment == "sriov" for network in view.networks),
            "installSriovCNI": "sriov" in attachments,
            "installibSriovCNI": "ib-sriov" in attachments,
            "installIpoibCNI": "ipoib" in attachments,
            "installOvsCNI": False,
            "installVlanCNI": False,
        },
        "spiderpoolAgent": {
            "prometheus": {"enabled": options.metrics, "enabledRdmaMetric": options.metrics, "port": 5711}
        },
        "spiderpoolController": {
            # The injecting webhook fails closed: with one replica, its restart would stop all pods.
            "replicas": 2 if options.injection else 1,
            "podResourceInject": {"enabled": options.injection},
        },
    }
    if options.registry:
        made_values["global"] = {"imageRegistryOverride": options.registry.rstrip("/")}
    if options.grafana_labels:
        made_values["grafanaDashboard"] = {
            "install": True,
            "instanceSelector": {"matchLabels": dict(options.grafana_labels)},
        }
    return made_values


def _sriov_values(view: View, bundled: bool) -> Object:
    if not bundled:
        return {"install": False}
    return {
        "install": True,
        "resourcePrefix": view.prefix,
        "operatorConfig": {
            # The chart's default reboots nodes without draining them.
            "disableDrain": False,
            "enableOperatorWebhook": True,
            "enableInjector": False,
            "configDaemonNodeSelector": view.selector(),
        },
    }


class Spiderpool(Provider):
    """Spiderpool. Its coordinator adds a rule in pods and moves the rail's default route to its own table."""

    facts = SPIDERPOOL
    software = (SPIDERPOOL.name,)
    charts = {SPIDERPOOL.name: values}

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        """Yield pools first: a SpiderMultusConfig with a missing pool is accepted, but its pods fail."""
        yield from pools(view)
        yield from reserved(view)
        yield from networks(view, options)
