# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a planned port (an entry of ``railyard_node.ports``) is: its interface, functions, RDMA device and rail.

A port without the key ``lower`` is the netdev of one PCI function. ``lower`` is the bond or VLAN, and the functions
below it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import COMPUTE

Values = t.Mapping[str, t.Any]


def functions(port: Values) -> t.Sequence[Values]:
    """Return the PCI functions below the interface, each with ``pci``, ``netdev`` and ``match``.

    It is the port itself, if the interface is neither a bond nor a VLAN.
    """
    lower = port.get("lower")
    return lower["functions"] if lower else (port,)


def rdma_netdev(port: Values) -> str | None:
    """Return the netdev that has the RDMA device: the interface, or the parent of a VLAN."""
    parent = (port.get("lower") or {}).get("parent")
    return parent or port.get("netdev")


def rdma_address(port: Values) -> str | None:
    """Return the planned RDMA device as NCCL and UCX write it: its name, and ``:PORT`` if the plan has the port."""
    name, number = port["rdma"]["name"], port["rdma"].get("port")
    return "%s:%d" % (name, number) if name and number else name


def is_managed(port: Values) -> bool:
    """Return whether Railyard configures the interface. If not, it only compares it."""
    return bool(port.get("managed", True))


def attachment_of(node: Values, port: Values) -> str:
    """Return the attachment of a port: that of its rail, or of the node. ``node``: ``railyard_node``."""
    return str(port.get("attachment") or node["attachment"])


def link_layer_of(fabric: Values, port: Values) -> str:
    """Return the link layer of a port: that of its rail, or of the fabric. ``fabric``: ``railyard_fabric``."""
    return str(port.get("link_layer") or fabric["link_layer"])


def role_of(port: Values) -> str:
    """Return the role of the rail of a port: compute, unless the file has another."""
    return str(port.get("role") or COMPUTE)


def qos_of(fabric: Values, port: Values) -> Values | None:
    """Return the QoS settings of a port; None if it has none, as on InfiniBand."""
    settings: Values | None = port["qos"] if "qos" in port else fabric["qos"]
    return settings


def compute_ports(ports: t.Sequence[Values]) -> t.Sequence[Values]:
    """Return the ports of compute rails; all ports if none is."""
    return [port for port in ports if role_of(port) == COMPUTE] or ports
