# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Plain CNI plugins, no operator: empty NetworkAttachmentDefinitions, and each node's own configuration beside Multus.

For a NetworkAttachmentDefinition with an empty ``spec`` Multus takes the configuration on the node whose ``name`` is
the definition's, from its ``confDir`` (``/etc/cni/multus/net.d`` by default). So the cluster knows a rail's
name, and each node its own netdev, addresses and table.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import device_plugins
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import (
    EVERYTHING,
    OwnTables,
    rdma_plugin,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    OF_FUNCTION,
    Network,
    Node,
    Object,
    Port,
    Share,
    View,
    made,
    stated,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import CNI
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare

API = "k8s.cni.cncf.io/v1"
DEFINITION = "NetworkAttachmentDefinition"
COMPONENT = CNI.name
RAIL = "railyard-rail"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
CONF_DIR = "/etc/cni/multus/net.d"
# Which addresses are given out. Gone at a reboot, as the pods are that have them: on disk, where the plugin would keep
# them, those of pods that went without a word stay taken for good.
LEASES = "/run/railyard/cni"


def objects(view: View, options: Options) -> t.Iterator[Object]:
    yield from device_plugins.daemon_sets(view, options)
    yield from networks(view, options)


def networks(view: View, options: Options) -> t.Iterator[Object]:
    """NetworkAttachmentDefinitions. ``spec`` is there and empty: Multus then reads the node's own file."""
    for network in view.networks:
        annotations = None
        if network.attachment in OF_FUNCTION and options.device_plugins:
            # Multus asks the kubelet which function of this resource the pod got, and passes it to the plugins.
            annotations = {RESOURCE: view.qualified(network.resource)}
        yield made(
            API,
            DEFINITION,
            network.name,
            view.labels(COMPONENT, network.rail),
            {},
            view.namespace,
            annotations,
        )


def of_node(fabric: t.Mapping[str, t.Any], node: Node, given: t.Mapping[str, t.Any] | None = None) -> list[Object]:
    """A node's networks, from what the plan hands over to it: ``railyard_fabric`` and ``railyard_node``.

    :raises RailyardError: for an option, or a port that the plugins cannot describe.
    """
    rails = [dict(values, name=name) for name, values in fabric["subnets"].items()]
    view, options = View({"fabric": fabric, "rails": rails, "nodes": [node]}), Options.of(given)
    return [conf for _network, conf in _networks_of(view, options, node)]


def configurations(view: View, options: Options, node: Node) -> dict[str, str]:
    """A node's CNI configuration: file name in Multus's ``confDir`` -> text.

    :raises RailyardError: for a port that the plugins cannot describe.
    """
    return {
        "railyard-%s.conflist" % name: json.dumps(conf, indent=2) + "\n"
        for name, conf in _networks_of(view, options, node)
    }


def _networks_of(view: View, options: Options, node: Node) -> t.Iterator[tuple[str, Object]]:
    for port in node["ports"]:
        network = view.network_of(node, port)
        yield network.name, configuration(view, options, node, network, port)


def configuration(view: View, options: Options, node: Node, network: Network, port: Port) -> Object:
    """A network's chain of plugins on one node."""
    shares = view.shares(port)
    place = "nodes.%s.ports.%s" % (node["name"], port["rail"])
    why = CNI.mode_refused(network.mode) if shares else None
    if why:
        raise RailyardError(
            "%s cannot give pods addresses in the mode %s: %s" % (view.provider, network.mode, why),
            "rails.%s" % network.rail,
            "take the mode block or prefix, or another provider",
        )
    first: Object = {"type": network.attachment}
    mtu = None
    function = None
    if network.attachment in ("macvlan", "ipvlan"):
        if port["netdev"] is None:
            raise RailyardError(
                "%s needs the name of the port's netdev" % network.attachment, place, "give the port a `netdev`"
            )
        first.update(master=port["netdev"], mode="bridge" if network.attachment == "macvlan" else "l2")
        if port.get("mtu"):
            first["mtu"] = port["mtu"]
    elif network.attachment == "host-device":
        if port["pci"] is not None:
            first["pciBusID"] = function = port["pci"]
        else:
            first["device"] = port["netdev"]
    else:
        # sriov-cni has no word for the MTU, and the VF does not follow its port.
        mtu = port.get("mtu")
    manager = _manager(shares, port)
    if manager:
        first["ipam"] = manager
    rest = rdma_plugin(network, None if options.device_plugins else function) + _rail(shares, port, mtu)
    return {"cniVersion": options.cni_version, "name": network.name, "plugins": [first] + rest}


def _rail(shares: t.Sequence[Share], port: Port, mtu: int | None) -> list[Object]:
    """The pod's interface as the node's port is; the rail's table too, where the plan has tables.

    :param mtu: for interfaces whose first plugin cannot set it.
    """
    sysctl = (port.get("sysctl") or {}) if any(share.version == 4 for share in shares) else {}
    conf = stated({"type": RAIL, "mtu": mtu, "sysctl": dict(sorted(sysctl.items()))})
    if shares and port["table"] is not None:
        conf.update(table=port["table"], priority=port["rule_priority"])
        conf["routes"] = [
            {"dst": to, "gw": share.gateway}
            for share in shares
            for to in ((EVERYTHING[share.version],) if share.default else share.routes)
        ]
    return [conf] if len(conf) > 1 else []


def _manager(shares: t.Sequence[Share], port: Port) -> Object:
    """host-local with this node's addresses; where they are one address, ``static``: host-local refuses a /31."""
    if not shares:
        return {}
    routes = [{"dst": route, "gw": share.gateway} for share in shares for route in share.routes]
    if all(share.first == share.last for share in shares):
        conf: Object = {
            "type": "static",
            "addresses": [
                stated({"address": "%s/%d" % (share.first, share.prefix), "gateway": share.gateway}) for share in shares
            ],
        }
    else:
        conf = {"type": "host-local", "dataDir": LEASES, "ranges": [_ranges(share, port) for share in shares]}
    if routes:
        conf["routes"] = routes
    return conf


def _ranges(share: Share, port: Port) -> list[Object]:
    """A set of ranges, of which host-local gives a pod one address."""
    gateway = share.gateway
    if gateway is None:
        # host-local would take the subnet's first address for the gateway and keep it from pods; the port's
        # own is not theirs anyway.
        own = port.get("address" if share.version == 4 else "address6")
        gateway = bare(own) if own else None
    ends = [each.partition("-") for each in share.ips]
    return [
        stated({"subnet": share.subnet, "rangeStart": first, "rangeEnd": last or first, "gateway": gateway})
        for first, _dash, last in ends
    ]


class PlainCni(OwnTables):
    """CNI plugins and files on each node; ``railyard-rail`` sets the plan's table and priority in pods."""

    facts = CNI
    software = ("multus",)

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        return objects(view, options)

    def node_files(self, view: View, options: Options, node: Node) -> dict[str, str]:
        return {"%s/%s" % (CONF_DIR, name): text for name, text in configurations(view, options, node).items()}
