# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pod in the shape of a node: the ports from which its partner is probed, and which are served."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    link_layer_of,
    own_values,
    pod_ports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_layer import own_devices
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_spec import (
    RailSpec,
    Row,
    of_share,
    pod_specs,
    transfers,
    view_of,
)

Mapping = t.Mapping[str, t.Any]


def pod_node(node: Row, fabric: t.Mapping[str, t.Any], inside: t.Mapping[str, t.Any]) -> Row:
    """Return a pod in the shape of ``railyard_node``, with the keys that :func:`.targets` and ``rail_probe`` read.

    :param node, fabric: ``railyard_node`` and ``railyard_fabric``.
    :param inside: a row of ``rail_pods``.
    :return: ``name``, ``pod`` (the uid) and ``ports``: the rails on which the pod has an interface that is up and a
        planned address. Their ``rdma.name`` is None if the device is found by the GID of the address;
        ``rdma.transfers`` is false if RDMA is not tested.
    """
    links = {row["netdev"]: row for row in inside["links"] if row["up"]}
    ports = []
    for port, spec in zip(pod_ports(node), pod_specs(view_of(fabric, [node]), node, inside)):
        link = links.get(spec.interface)
        if link is not None:
            ports.append(_port(port, fabric, inside, link, spec))
    return {"name": node["name"], "pod": inside["uid"], "ports": [port for port in ports if port["address"]]}


def _port(port: Mapping, fabric: Mapping, inside: Mapping, link: Mapping, spec: RailSpec) -> Row:
    """Return one rail of a pod in the shape of a node's port."""
    addresses = [row["address"] for row in inside["addresses"] if row["netdev"] == spec.interface]
    own = [address for address in addresses if of_share(address, spec.shares)]
    devices = own_devices(inside, link) if spec.isolated else []
    name = devices[0] if devices else None
    if name is None and spec.slot:
        # the port's device has the pod's GID too, and does not receive for the pod
        name = spec.slot["rdma"]
    elif not spec.isolated and link_layer_of(fabric, port) != ETHERNET:
        name = port["rdma"]["name"]  # GIDs do not contain addresses there
    return {
        "rail": port["rail"],
        "netdev": spec.interface,
        "mtu": link["mtu"],
        "address": next((address for address in own if ":" not in address), None),
        "address6": next((address for address in own if ":" in address), None),
        "rdma": {"name": name, "type": port["rdma"]["type"], "transfers": transfers(fabric, port)},
        **own_values(port),
    }
