# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a planned port (an entry of ``railyard_node.ports``) is: its interface, functions, RDMA device and rail.

A port without the key ``lower`` is the netdev of one PCI function. ``lower`` is the bond or VLAN, and the functions
below it.
"""

from __future__ import annotations

import typing as t

COMPUTE = "compute"

Values = t.Mapping[str, t.Any]


def functions(port: Values) -> t.Sequence[Values]:
    """Return the PCI functions below the interface, each with ``pci``, ``netdev`` and ``match``.

    It is the port itself, if the interface is neither a bond nor a VLAN.
    """
    lower = port.get("lower")
    return lower["functions"] if lower else (port,)


def each_function(port: Values) -> t.Sequence[Values]:
    """Return the port once for each of its functions, with ``pci`` and ``netdev`` of the function."""
    lower = port.get("lower")
    return [dict(port, pci=each["pci"], netdev=each["netdev"]) for each in lower["functions"]] if lower else (port,)


def each_netdev(port: Values) -> t.Sequence[Values]:
    """Return the port once for each of its netdevs: those of the functions, the bond, and the VLAN."""
    if not port.get("lower"):
        return (port,)
    above = dict.fromkeys((rdma_netdev(port), port["netdev"]))
    known = [each["netdev"] for each in functions(port)]
    return [*each_function(port), *(dict(port, pci=None, netdev=name) for name in above if name not in known)]


def rdma_netdev(port: Values) -> str | None:
    """Return the netdev that has the RDMA device: the interface, or the parent of a VLAN."""
    parent = (port.get("lower") or {}).get("parent")
    return parent or port.get("netdev")


def rdma_ports(ports: t.Iterable[Values]) -> list[tuple[str, int | None]]:
    """Return name and port number of the RDMA devices of ports, each once.

    The number is 1 unless the plan has another. It is None for a device of several ports without planned numbers: then
    it is the number of the port with the port's netdev, which only the node knows.
    """
    netdevs: dict[tuple[str, int | None], set[str | None]] = {}
    for port in ports:
        rdma = port["rdma"]
        if rdma["name"]:
            netdevs.setdefault((rdma["name"], rdma.get("port")), set()).add(rdma_netdev(port))
    return [(name, number or (1 if len(below) == 1 else None)) for (name, number), below in netdevs.items()]


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


def agent_lower(port: Values) -> dict[str, t.Any]:
    """Return ``lower`` of a rail in the agent's spec: the bond or VLAN, and the PCI functions below it.

    :param port: an entry of ``railyard_node.ports`` with ``lower``.
    """
    lower, bond = port["lower"], port["lower"]["bond"]
    return {
        "vlan": lower["vlan"],
        "parent": lower["parent"],
        "bond": bond["name"] if bond else None,
        "functions": [function["pci"] for function in lower["functions"]],
    }
