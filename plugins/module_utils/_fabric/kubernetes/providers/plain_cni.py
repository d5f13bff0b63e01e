# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plain CNI plugins without an operator: empty NetworkAttachmentDefinitions, and a configuration on each node for
Multus.

For a NetworkAttachmentDefinition with an empty ``spec``, Multus uses the configuration of the same ``name`` in its
``confDir`` on the node (default ``/etc/cni/multus/net.d``). So the cluster has the name of a rail's network, and each
node its own netdev, addresses and table.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import device_plugins
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import (
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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import pod_ports

API = "k8s.cni.cncf.io/v1"
DEFINITION = "NetworkAttachmentDefinition"
COMPONENT = CNI.name
RAIL = "railyard-rail"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
CONF_DIR = "/etc/cni/multus/net.d"
# Directory of allocated addresses. Like pods, it does not survive a reboot: on disk, the plugin's default, addresses of
# pods that ended without a DEL would stay allocated.
LEASES = "/run/railyard/cni"


def networks(view: View, options: Options) -> t.Iterator[Object]:
    """Yield NetworkAttachmentDefinitions. ``spec`` exists and is empty, so that Multus reads the file of the node."""
    for network in view.networks:
        annotations = None
        if network.attachment in OF_FUNCTION and options.device_plugins:
            # Multus asks the kubelet for the pod's function of this resource, and passes it to the plugins.
            annotations = {RESOURCE: view.qualified(network.resource)}
        yield made(API, DEFINITION, network.name, view.labels(COMPONENT, network.rail), {}, view.namespace, annotations)


def of_node(fabric: t.Mapping[str, t.Any], node: Node, given: t.Mapping[str, t.Any] | None = None) -> list[Object]:
    """Return the networks of a node.

    :param fabric: ``railyard_fabric``.
    :param node: ``railyard_node``.
    :param given: options, see :class:`Options`.
    :raises RailyardError: for an option, or for a port that the plugins do not support.
    """
    rails = [dict(values, name=name) for name, values in fabric["subnets"].items()]
    view, options = View({"fabric": fabric, "rails": rails, "nodes": [node]}), Options.of(given, fabric)
    return [conf for _network, conf in _networks_of(view, options, node)]


def configurations(view: View, options: Options, node: Node) -> dict[str, str]:
    """Return file name in Multus's ``confDir`` -> CNI configuration of a node.

    :raises RailyardError: for a port that the plugins do not support.
    """
    return {
        "railyard-%s.conflist" % name: json.dumps(conf, indent=2) + "\n"
        for name, conf in _networks_of(view, options, node)
    }


def _networks_of(view: View, options: Options, node: Node) -> t.Iterator[tuple[str, Object]]:
    for port in pod_ports(node):
        network = view.network_of(node, port)
        yield network.name, configuration(view, options, node, network, port)


def configuration(view: View, options: Options, node: Node, network: Network, port: Port) -> Object:
    """Return a network's chain of plugins on one node."""
    shares = view.shares(port)
    place = "nodes.%s.ports.%s" % (node["name"], port["rail"])
    why = CNI.mode_refused(network.mode) if shares else None
    if why:
        raise RailyardError(
            "%s cannot give pods addresses in the mode %s: %s" % (view.provider, network.mode, why),
            "rails.%s" % network.rail,
            "use the mode block or prefix, or another provider",
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
        # sriov-cni cannot set the MTU, and a VF does not inherit that of its port.
        mtu = port.get("mtu")
    manager = _manager(shares, port)
    if manager:
        first["ipam"] = manager
    rest = rdma_plugin(network, None if options.device_plugins else function) + _rail(shares, port, mtu)
    return {"cniVersion": options.cni_version, "name": network.name, "plugins": [first] + rest}


def _rail(shares: t.Sequence[Share], port: Port, mtu: int | None) -> list[Object]:
    """Return the plugin that configures the pod's interface like the node's port, with the table of the rail if it has
    one.

    :param mtu: for interfaces whose first plugin cannot set it; else None.
    """
    sysctl = (port.get("sysctl") or {}) if any(share.version == 4 for share in shares) else {}
    conf = stated({"type": RAIL, "mtu": mtu, "sysctl": dict(sorted(sysctl.items()))})
    if shares and port["table"] is not None:
        conf.update(table=port["table"], priority=port["rule_priority"])
        conf["routes"] = [{"dst": to, "gw": share.gateway} for share in shares for to in share.routes]
    return [conf] if len(conf) > 1 else []


def _manager(shares: t.Sequence[Share], port: Port) -> Object:
    """Return host-local with the node's addresses; ``static`` for one address, because host-local refuses a /31."""
    if not shares:
        return {}
    routes = [{"dst": route, "gw": share.gateway} for share in shares for route in share.networks]
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
    """Return one set of ranges, from which host-local gives each pod one address."""
    gateway = share.gateway
    if gateway is None:
        # Without a gateway, host-local would reserve the subnet's first address for it. The port's own address is
        # never given to pods.
        own = port.get("address" if share.version == 4 else "address6")
        gateway = bare(own) if own else None
    ends = [each.partition("-") for each in share.ips]
    return [
        stated({"subnet": share.subnet, "rangeStart": first, "rangeEnd": last or first, "gateway": gateway})
        for first, _dash, last in ends
    ]


class PlainCni(OwnTables):
    """CNI plugins and files on each node. ``railyard-rail`` sets the planned table and priority in pods."""

    facts = CNI
    software = ("multus",)

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        yield from device_plugins.daemon_sets(view, options)
        yield from networks(view, options)

    def node_files(self, view: View, options: Options, node: Node) -> dict[str, str]:
        return {"%s/%s" % (CONF_DIR, name): text for name, text in configurations(view, options, node).items()}
