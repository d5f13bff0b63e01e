# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec of a node's health service, ``/etc/railyard/health.json``, from the host variables of the node."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import EXCLUSIVE, HOST
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import METRICS_HOSTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.health_model import (
    KUBERNETES_FLAGS,
    HealthSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_view

# Version of the file's format. It changes when an older service would misread the file.
FORMAT = 1
Values = t.Mapping[str, t.Any]


def settings(health: HealthSettings) -> dict[str, t.Any]:
    """Return ``health`` of ``railyard_fabric``."""
    host = METRICS_HOSTS[health.metrics]
    kubernetes = None
    if health.kubernetes is not None:
        kubernetes = {"kubeconfig": health.kubeconfig, **{key: health.output(key) for key in KUBERNETES_FLAGS}}
    return {
        "interval": health.interval,
        "quiet": health.quiet,
        "thresholds": dict(health.thresholds),
        "metrics": "%s:%d" % (host, health.metrics_port) if host else None,
        "probe": {"rate_bits": health.probe_rate} if health.probe_rate else None,
        "kubernetes": kubernetes,
    }


def spec(node: Values, fabric: Values) -> dict[str, t.Any]:
    """Return the spec of a node's health service.

    :param node: ``railyard_node``, whose ports are identified. :param fabric: ``railyard_fabric`` with ``health``.
    """
    health = fabric["health"]
    probe = health["probe"] and dict(health["probe"], partners=(node.get("health") or {}).get("partners", {}))
    return {
        "format": FORMAT,
        "fabric": fabric["name"],
        "node": node["name"],
        **health,
        "probe": probe,
        "rails": [_rail(node, fabric, port) for port in node["ports"]],
    }


def _rail(node: Values, fabric: Values, port: Values) -> dict[str, t.Any]:
    lower = port.get("lower") or {}
    bond = port_view.bond_of(port)
    attachment = port_view.attachment_of(node, port)
    has_interface = port_view.has_interface(port)
    exclusive = node["rdma_mode"] == EXCLUSIVE and attachment != HOST
    return {
        "rail": port["rail"],
        # a port of InfiniBand without IPoIB has an RDMA device only
        "netdev": port["netdev"] if has_interface else None,
        "pci": port["pci"],
        "rdma": port["rdma"]["name"],
        "rdma_type": port["rdma"]["type"],
        "rdma_port": port["rdma"].get("port"),
        "link_layer": port_view.link_layer_of(fabric, port),
        "mtu": port["mtu"] if has_interface else None,
        "speed": port["expect"]["speed"],
        "address": port["address"],
        "address6": port["address6"],
        "leaf": _leaf(port.get("leaf")),
        "planes": [
            dict({key: plane[key] for key in ("plane", "rdma_port", "pci", "netdev")}, leaf=_leaf(plane.get("leaf")))
            for plane in port_view.planes_of(port)
        ],
        "functions": [
            {"pci": each["pci"], "netdev": each["netdev"], "leaf": _leaf(each.get("leaf"))}
            for each in lower.get("functions") or ()
        ],
        "bond": bond["name"] if bond else None,
        "bond_mode": bond["mode"] if bond else None,
        "vlan": lower.get("vlan"),
        "parent": lower.get("parent"),
        "family": node.get("nic_family") or "mlx5",
        "managed": port_view.is_managed(port),
        "movable": attachment == "host-device" or exclusive,
    }


def _leaf(leaf: Values | None) -> dict[str, t.Any] | None:
    return {"name": leaf["name"], "port": leaf.get("port")} if leaf and leaf.get("name") else None
