# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's network operator: its policies, pools of nv-ipam, and a network of the matching kind for each rail."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import (
    device_plugins,
    partition_keys,
    plain_cni,
    sriov_operator_objects,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import (
    PodRoutes,
    Provider,
    rdma_plugin,
    tuning,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    OF_FUNCTION,
    OF_VF,
    Network,
    Object,
    Port,
    Share,
    View,
    compact,
    made,
    pod_vfs,
    stated,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import OPERATOR
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import without

API = "mellanox.com/v1alpha1"
IPAM_API = "nv-ipam.nvidia.com/v1alpha1"
COMPONENT = OPERATOR.name
# The operator accepts one cluster policy, with this name.
CLUSTER_POLICY = "nic-cluster-policy"
# Timeout of the driver container in seconds, as in the operator's example.
_PROBES = {"startupProbe": (10, 20), "livenessProbe": (30, 30), "readinessProbe": (10, 30)}


# -- policies


def policies(view: View, options: Options) -> t.Iterator[Object]:
    """Yield NicClusterPolicy, and a NicNodePolicy per variant if variants differ. A section is in one of them, never in
    both."""
    if not options.cluster_policy:
        return
    variants = view.variants
    plugins = {variant: _device_plugins(view, options, variant) for variant in variants}
    one = len({compact(each) for each in plugins.values()}) == 1
    spec = _cluster(view, options)
    if one and variants:
        spec.update(plugins[variants[0]])
    yield made(API, "NicClusterPolicy", CLUSTER_POLICY, view.labels(COMPONENT), spec)
    if one:
        return
    for variant in variants:
        if plugins[variant]:
            yield made(
                API,
                "NicNodePolicy",
                "%s-%s" % (view.name, variant),
                view.labels(COMPONENT),
                dict({"nodeSelector": view.selector(variant)}, **plugins[variant]),
            )


def _image(options: Options, name: str) -> Object:
    repository, image, version = options.image(name)
    return {"image": image, "repository": repository, "version": version}


def _cluster(view: View, options: Options) -> Object:
    attachments = {network.attachment for network in view.networks}
    secondary = {"cniPlugins": _image(options, "cni-plugins"), "multus": _image(options, "multus")}
    if "ipoib" in attachments:
        secondary["ipoib"] = _image(options, "ipoib")
    spec: Object = {
        # The operator's agents are not needed on nodes without rails.
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _selector(view)},
        "secondaryNetwork": secondary,
    }
    if gpu_spec.nic_container(view, options):
        spec["ofedDriver"] = dict(
            _image(options, "driver"),
            upgradePolicy={
                "autoUpgrade": True,
                "maxParallelUpgrades": 1,
                "safeLoad": True,
                "drain": {"enable": True, "force": False, "deleteEmptyDir": True, "timeoutSeconds": 300},
            },
            **{
                probe: {"initialDelaySeconds": delay, "periodSeconds": period}
                for probe, (delay, period) in _PROBES.items()
            },
        )
    if any(network.pools[4] or network.pools[6] for network in view.networks):
        spec["nvIpam"] = dict(_image(options, "nv-ipam"), enableWebhook=False)
    if options.ufm_secret and "ib-sriov" in attachments:
        spec["ibKubernetes"] = dict(
            _image(options, "ib-kubernetes"),
            periodicUpdateSeconds=5,
            pKeyGUIDPoolRangeStart="02:00:00:00:00:00:00:00",
            pKeyGUIDPoolRangeEnd="02:FF:FF:FF:FF:FF:FF:FF",
            ufmSecret=options.ufm_secret,
        )
    return spec


def _device_plugins(view: View, options: Options, variant: str) -> Object:
    """Return the device plugins of a policy. VFs are left out: the SR-IOV operator's device plugin registers them."""
    made_plugins: Object = {}
    shared = device_plugins.shared(view, options, variant)
    if shared:
        config = {"periodicUpdateInterval": device_plugins.RESCAN, "configList": shared}
        made_plugins["rdmaSharedDevicePlugin"] = dict(
            _image(options, "rdma-shared-device-plugin"), config=compact(config)
        )
    functions = [
        entry
        for entry in device_plugins.functions(view, variant)
        if not _of_vf(view, t.cast(str, entry["resourceName"]))
    ]
    if functions:
        made_plugins["sriovDevicePlugin"] = dict(
            _image(options, "sriov-device-plugin"), config=compact({"resourceList": functions})
        )
    return made_plugins


def _of_vf(view: View, resource: str) -> bool:
    return any(network.resource == resource for network in view.of(*OF_VF))


# -- addresses


def pools(view: View, options: Options) -> t.Iterator[Object]:
    """Yield nv-ipam's pools, one per rail and family: CIDRPool if each node has a prefix, IPPool for one subnet."""
    namespace = options.operator(view.provider)
    done = set()
    for network in view.networks:
        for version in (4, 6):
            shares = [
                (node["name"], share)
                for _variant, node, port in network.members
                for share in view.shares(port)
                if share.version == version
            ]
            name = view.rail_pool(network.rail, version)
            if not shares or name in done:
                continue
            done.add(name)
            kind, spec = (
                ("IPPool", _ip_pool(view, network, shares[0][1], _rails_of(view, name, version)))
                if network.mode == "subnet"
                else ("CIDRPool", _cidr_pool(view, network, version, _of_rail(view, network, version)))
            )
            yield made(IPAM_API, kind, name, view.labels(COMPONENT, network.rail), spec, namespace)


def _of_rail(view: View, network: Network, version: int) -> list[tuple[str, Share]]:
    """Return the shares of all networks of the rail, because groups with another attachment use the same pool."""
    return [
        (node["name"], share)
        for node in view.nodes
        for port in node["ports"]
        if port["rail"] == network.rail
        for share in view.shares(port)
        if share.version == version
    ]


def _selector(view: View) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": FABRIC, "operator": "In", "values": [view.name]}]}]}


def _rails_of(view: View, pool: str, version: int) -> int:
    """Return how many rails have this pool."""
    return sum(view.rail_pool(rail, version) == pool for rail in view.rails)


def _ip_pool(view: View, network: Network, share: Share, rails: int) -> Object:
    """Return an IPPool of one or several rails.

    Blocks are allocated from the first address of the subnet on, in the order in which nodes appear. Addresses that
    pods must not have are excluded. If the gateway is in the first block, that block has one address less.
    """
    subnet, first, last = _numbers(share)
    begin = subnet.usable.first
    place = "rails.%s.pods" % network.rail
    size = _block(view, network) * rails
    nodes = max(view.fabric["max_nodes"] or 0, len(view.nodes))
    if first >= begin + size:
        raise RailyardError(
            "nv-ipam allocates blocks from the first address of the subnet on, but pods begin at %s" % share.first,
            place,
            "begin pods at %s, or use the mode prefix" % ip_integers.show(begin, subnet.bits),
        )
    if last - begin + 1 < nodes * size:
        raise RailyardError(
            "{:,} nodes with {} pods need {:,} addresses, and pods have {:,}".format(
                nodes, size, nodes * size, last - begin + 1
            ),
            place,
            "widen the range, or use the mode prefix",
        )
    spec: Object = {"subnet": share.subnet, "perNodeBlockSize": size}
    if share.gateway is not None:
        spec["gateway"] = share.gateway
        spec["defaultGateway"] = False
    excluded = without([subnet.usable], _ranges(share))
    if excluded:
        spec["exclusions"] = [
            {"startIP": ip_integers.show(each.first, each.bits), "endIP": ip_integers.show(each.last, each.bits)}
            for each in excluded
        ]
    if share.networks:
        spec["routes"] = [{"dst": route} for route in share.networks]
    spec["nodeSelector"] = _selector(view)
    return spec


def _block(view: View, network: Network) -> int:
    """Return the addresses per node: as many as pods can be attached, but at least two, which nv-ipam requires."""
    planned: int | None = view.fabric["pods_per_node"]
    if planned is None and network.attachment in OF_FUNCTION:
        planned = max(len(pod_vfs(port)) or 1 for _variant, _node, port in network.members)
    if planned is None:
        raise RailyardError(
            "nv-ipam gives each node a block of addresses, and the number is not set",
            "fabric.pods_per_node",
            "set it to the maximum number of pods of a node that need an address on every rail, or use the mode prefix",
        )
    return max(2, planned)


# Indexes are 32 bits wide in a CIDRPool's schema.
_MOST = (1 << 31) - 1


def _cidr_pool(view: View, network: Network, version: int, shares: t.Sequence[tuple[str, Share]]) -> Object:
    rail = view.rails[network.rail]
    share = shares[0][1]
    subnet, first, last = _numbers(share)
    spec: Object = {"cidr": rail["subnet" if version == 4 else "subnet6"], "perNodeNetworkPrefix": share.prefix}
    if share.gateway is not None:
        spec["gatewayIndex"] = _number(share.gateway) - subnet.first
        spec["defaultGateway"] = False
    excluded = _excluded(subnet, first, last)
    if excluded:
        spec["perNodeExclusions"] = excluded
    highest = max(spec.get("gatewayIndex", 0), *(each["endIndex"] for each in excluded), 0)
    if highest > _MOST:
        six = "6" if version == 6 else ""
        raise RailyardError(
            "nv-ipam counts the addresses of a node's prefix up to %d, and the gateway or the port has number %d"
            % (_MOST, highest),
            "addresses.node_prefix%s" % six,
            "write a longer prefix, such as node_prefix%s: 112, or gateway%s: first and host: first" % (six, six),
        )
    spec["staticAllocations"] = [
        stated({"nodeName": node, "prefix": each.subnet, "gateway": each.gateway}) for node, each in shares
    ]
    if share.networks:
        spec["routes"] = [{"dst": route} for route in share.networks]
    spec["nodeSelector"] = _selector(view)
    return spec


def _excluded(subnet: ip_integers.Network, first: int, last: int) -> list[Object]:
    """Return the indexes in a node's prefix that pods must not have. nv-ipam leaves out network and broadcast addresses
    itself."""
    excluded = without([subnet.usable], [ip_integers.Range(first, last, subnet.bits)])
    return [{"startIndex": each.first - subnet.first, "endIndex": each.last - subnet.first} for each in excluded]


def _number(text: str) -> int:
    number = ip_integers.parse_address(text, bits=ip_integers.bits_of(text))
    if number is None:
        raise ValueError("%r is not an address" % text)
    return number


def _ranges(share: Share) -> list[ip_integers.Range]:
    found = []
    for ips in share.ips:
        first, _dash, last = ips.partition("-")
        found.append(ip_integers.Range(_number(first), _number(last or first), ip_integers.bits_of(first)))
    return found


def _numbers(share: Share) -> tuple[ip_integers.Network, int, int]:
    found = ip_integers.network_of(share.subnet)
    if found is None:
        raise ValueError("%r is not a network" % share.subnet)
    return found, _number(share.first), _number(share.last)


# -- networks


def ipam(view: View, network: Network) -> str:
    """Return a network's address management as JSON text: a pool per family; empty if pods get no addresses."""
    versions = [version for version in (4, 6) if network.pools[version]]
    if not versions:
        return ""
    conf = {"type": "nv-ipam", "poolName": ",".join(view.rail_pool(network.rail, version) for version in versions)}
    if network.mode != "subnet":
        conf["poolType"] = "cidrpool"
    return compact(conf)


def networks(view: View, options: Options) -> t.Iterator[Object]:
    """Yield a network of the kind of its attachment for each network of the plan."""
    for network in view.networks:
        labels = view.labels(COMPONENT, network.rail)
        meta = ",".join(map(compact, _chain(view, network)))
        spec: Object = {"networkNamespace": view.namespace, "ipam": ipam(view, network)}
        if network.attachment == "macvlan":
            mtu = network.mtu if options.network_mtu else None
            spec.update(master=network.master(), mode="bridge", mtu=mtu, metaPlugins=meta or None)
            yield made(API, "MacvlanNetwork", network.name, labels, stated(spec))
        elif network.attachment == "ipoib":
            spec["master"] = network.master()
            yield made(API, "IPoIBNetwork", network.name, labels, stated(spec))
        elif network.attachment == "host-device":
            spec.update(resourceName=network.resource, metaPlugins=meta or None)
            yield made(API, "HostDeviceNetwork", network.name, labels, stated(spec))
        else:
            yield _of_vf_network(view, options, network, dict(spec, metaPlugins=meta or None))


def _of_vf_network(view: View, options: Options, network: Network, spec: Object) -> Object:
    """Return SriovNetwork or SriovIBNetwork. The SR-IOV operator reads them only in its own namespace."""
    labels = view.labels(COMPONENT, network.rail)
    kind = "SriovNetwork"
    if network.attachment == "ib-sriov":
        if network.isolated or options.ufm_secret:
            return _definition(view, options, network, labels)
        kind = "SriovIBNetwork"
        spec["linkState"] = "enable"
    spec["resourceName"] = network.resource
    return made(
        sriov_operator_objects.API, kind, network.name, labels, stated(spec), options.sriov_place(view.provider)
    )


def _definition(view: View, options: Options, network: Network, labels: dict[str, str]) -> Object:
    """Return a definition in place of a SriovIBNetwork, with settings for which that kind has no field.

    These are ``rdmaIsolation``, without which the VF's RDMA device stays on the node, and ``pkey`` of ib-kubernetes.
    """
    plugin: Object = {"type": "ib-sriov", "link_state": "enable"}
    if network.isolated:
        plugin["rdmaIsolation"] = True
    if options.ufm_secret:
        plugin.update(ibKubernetesEnabled=True, capabilities={"infinibandGUID": True})
        key = partition_keys.of_pods(view, options)
        if key:
            plugin["pkey"] = key
    manager = ipam(view, network)
    if manager:
        plugin["ipam"] = json.loads(manager)
    conf = {"cniVersion": options.cni_version, "name": network.name, "plugins": [plugin, *_chain(view, network)]}
    annotations = {plain_cni.RESOURCE: view.qualified(network.resource)}
    spec = {"config": compact(conf)}
    return made(plain_cni.API, plain_cni.DEFINITION, network.name, labels, spec, view.namespace, annotations)


def _chain(view: View, network: Network) -> list[Object]:
    """Return the plugins after the first, in order."""
    chain = rdma_plugin(network)
    shares = view.shares(network.sample)
    chain += tuning(network.sample, shares)
    if any(share.default for share in shares):
        # Without `table`: plugins up to 1.5 do not know the key, and from 1.6 on they then only add rules for a table
        # that stays empty. By default sbr takes the first free table from 100 on and fills it.
        chain.append({"type": "sbr"})
    return chain


def values(view: View, options: Options) -> Object:
    """Return values of the chart ``network-operator``: only keys that the chart reads and the plan determines."""
    vfs = bool(view.of(*OF_VF))
    made_values: Object = {
        "nfd": {"enabled": True, "deployNodeFeatureRules": True},
        # The playbook applies them first, so that the chart needs no job with all rights for it.
        "upgradeCRDs": False,
        "sriovNetworkOperator": {"enabled": vfs},
    }
    if vfs:
        selector = view.selector()
        if gpu_spec.nic_container(view, options):
            selector["network.nvidia.com/operator.mofed.wait"] = "false"
        made_values["sriov-network-operator"] = {
            "operator": {"resourcePrefix": view.prefix},
            "sriovOperatorConfig": {"deploy": True, "configDaemonNodeSelector": selector, "disableDrain": False},
        }
    return made_values


class NetworkOperator(Provider):
    """NVIDIA's network operator with nv-ipam. The plugin ``sbr`` sets the routes of pods."""

    facts = OPERATOR
    software = (OPERATOR.name,)
    charts = {OPERATOR.name: values}

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        yield from policies(view, options)
        yield from pools(view, options)
        yield from networks(view, options)

    def secrets(self, view: View, options: Options) -> list[partition_keys.Secret]:
        return partition_keys.secrets(view, options)

    def pod_routes(self, attachment: str, port: Port, shares: t.Sequence[Share]) -> PodRoutes:
        """``sbr`` moves all routes of an interface to its table. An IPoIBNetwork does not support plugins."""
        routes = super().pod_routes(attachment, port, shares)
        if attachment == "ipoib":
            return routes._replace(sourced=(), in_table=())
        return routes._replace(in_table=routes.in_table + routes.in_main, in_main=()) if routes.sourced else routes
