# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a planned port (an entry of ``railyard_node.ports``) is: its interface, functions, RDMA device and rail.

A port without the key ``lower`` is the netdev of one PCI function. ``lower`` is the bond or VLAN, and the functions
below it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.nccl_hca import HcaPort
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import HOST
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import COMPUTE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import NO_IPOIB

Values = t.Mapping[str, t.Any]


def functions(port: Values) -> t.Sequence[Values]:
    """Return the PCI functions below the interface, each with ``pci``, ``netdev`` and ``match``.

    It is the port itself, if the interface is neither a bond nor a VLAN, and no functions carry its planes.
    """
    lower = port.get("lower")
    if lower:
        found: t.Sequence[Values] = lower["functions"]
        return found
    if not port.get("planes"):
        return (port,)
    return [plane for plane in planes_of(port) if plane["pci"] or plane["netdev"] or plane["match"]] or (port,)


def planes_of(port: Values) -> t.Sequence[Values]:
    """Return the planes over which the NIC distributes the packets of a port; empty without such planes.

    Each has ``plane`` (its number, from 1), ``rdma_port``, and ``pci``, ``netdev`` and ``match`` of its function; all
    are None if the file does not set them. With a unit, each has a ``leaf``, unless one cable carries all planes.
    """
    found: t.Sequence[Values] = port["planes"]["ports"] if port.get("planes") else ()
    return found


def cables(port: Values) -> t.Sequence[Values]:
    """Return the ends of cables at a port: each plane with a leaf of its own, or each function."""
    planes = planes_of(port)
    return planes if planes and planes[0].get("leaf") else functions(port)


def each_function(port: Values) -> t.Sequence[Values]:
    """Return the port once for each of its functions, with ``pci`` and ``netdev`` of the function."""
    found = functions(port)
    return found if found == (port,) else [dict(port, pci=each["pci"], netdev=each["netdev"]) for each in found]


def each_netdev(port: Values) -> t.Sequence[Values]:
    """Return the port once for each of its netdevs: each function, the bond, and the VLAN."""
    if not port.get("lower"):
        return each_function(port)
    above = dict.fromkeys((rdma_netdev(port), port["netdev"]))
    known = [each["netdev"] for each in functions(port)]
    return [*each_function(port), *(dict(port, pci=None, netdev=name) for name in above if name not in known)]


def bond_of(port: Values) -> Values | None:
    """Return the bond of a port, also below a VLAN, as in the plan; None without one."""
    bond: Values | None = (port.get("lower") or {}).get("bond")
    return bond


def leaf_of(port: Values, function: Values) -> dict[str, t.Any]:
    """Return the leaf of a function of a port: its own, as members of bonds have, or the port's; empty without.

    :param function: one of :func:`cables`.
    """
    return dict(port.get("leaf") or {}, **(function.get("leaf") or {}))


def rdma_netdev(port: Values) -> str | None:
    """Return the netdev that has the RDMA device: the interface, or the parent of a VLAN."""
    parent = (port.get("lower") or {}).get("parent")
    return parent or port.get("netdev")


def hca_ports(ports: t.Iterable[Values]) -> list[HcaPort]:
    """Return the ports of RDMA devices below ports, each once, in the order of rails, NICs and planes.

    The number is 1 unless the plan has another. It is None for a device of several ports without planned numbers: only
    the node shows which of them has which netdev. Rail or plane is None if ports with different ones share it.
    """
    below: dict[tuple[str, int | None], list[Values]] = {}
    for port in ports:
        name = port["rdma"]["name"]
        for number in rdma_numbers(port) if name else ():
            below.setdefault((name, number), []).append(port)
    return [
        HcaPort(
            name,
            number or (1 if len({rdma_netdev(port) for port in sharing}) == 1 else None),
            _common(map(rail_index, sharing)),
            _common(map(plane_index, sharing)),
        )
        for (name, number), sharing in below.items()
    ]


def rdma_numbers(port: Values) -> t.Sequence[int | None]:
    """Return the planned numbers of the ports of the RDMA device that a port uses: one for each plane, if the NIC
    balances them; [None] without a number."""
    planned = port["rdma"].get("port")
    planes = [each["rdma_port"] for each in (port.get("planes") or {}).get("ports") or () if each.get("rdma_port")]
    # a number beside the numbers of the planes belongs to a port above them
    return planes if planes and planned in (None, *planes) else [planned]


def _common(values: t.Iterable[int | None]) -> int | None:
    """Return the value if all are the same, else None."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def rail_index(port: Values) -> int | None:
    """Return the number of a port's rail for NCCL, from 0, the same on all nodes; None if NCCL gets none."""
    return (port.get("nccl") or {}).get("rail")


def plane_index(port: Values) -> int | None:
    """Return the number of a port's plane for NCCL, from 0; None if it has one plane, or NCCL gets none."""
    return (port.get("nccl") or {}).get("plane")


def rails_by_name(ports: t.Iterable[Values]) -> dict[str, str]:
    """Return name by which modules know a rail port or an interface below it, as the plan has it -> its rail."""
    rails: dict[str, str] = {}
    for port in ports:
        names = [
            port["rail"],
            port["netdev"],
            port["rdma"]["name"],
            rdma_netdev(port),
            (bond_of(port) or {}).get("name"),
        ]
        names += [each[key] for each in functions(port) for key in ("netdev", "pci")]
        rails.update({str(name): str(port["rail"]) for name in names if name})
    return rails


def is_managed(port: Values) -> bool:
    """Return whether Railyard configures the interface. If not, it only compares it."""
    return bool(port.get("managed", True))


def attachment_of(node: Values, port: Values) -> str:
    """Return the attachment of a port: its rail takes precedence over ``node`` (``railyard_node``)."""
    return str(port.get("attachment") or node["attachment"])


def link_layer_of(fabric: Values, port: Values) -> str:
    """Return the link layer of a port: its rail takes precedence over ``fabric`` (``railyard_fabric``)."""
    return str(port.get("link_layer") or fabric["link_layer"])


def role_of(port: Values) -> str:
    """Return the role of the rail of a port: compute, unless the file has another."""
    return str(port.get("role") or COMPUTE)


def own_values(port: Values) -> dict[str, t.Any]:
    """Return role and link layer of a port, if its rail has its own: what :func:`role_of` and :func:`link_layer_of`
    need of a part of a port."""
    return {key: port[key] for key in ("role", "link_layer") if key in port}


def qos_of(fabric: Values, port: Values) -> Values | None:
    """Return the QoS settings of a port; None if it has none, as on InfiniBand."""
    settings: Values | None = port["qos"] if "qos" in port else fabric["qos"]
    return settings


def has_interface(port: Values) -> bool:
    """Return whether a port has a netdev. InfiniBand ports without IPoIB have an RDMA device only."""
    return (port.get("ipoib") or {}).get("mode") != NO_IPOIB


def pod_ports(node: Values) -> list[Values]:
    """Return the ports of a node to which pods are attached. ``node``: ``railyard_node``."""
    return [port for port in node["ports"] if attachment_of(node, port) != HOST]


def compute_ports(ports: t.Sequence[Values]) -> t.Sequence[Values]:
    """Return the ports of compute rails; all ports if none is."""
    return [port for port in ports if role_of(port) == COMPUTE] or ports


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


def agent_planes(port: Values) -> list[dict[str, t.Any]]:
    """Return ``planes`` of a rail in the agent's spec: what carries each plane. It is empty if the file lists none, or
    if the planes are members of a bond.

    :param port: an entry of ``railyard_node.ports``.
    """
    planes = () if bond_of(port) else planes_of(port)
    if not all(plane["pci"] or (plane["rdma_port"] and port["rdma"]["name"]) for plane in planes):
        return []
    return [{key: plane[key] for key in ("plane", "rdma_port", "pci")} for plane in planes]


def rails_of_network(fabric: Values) -> dict[str, list[str]]:
    """Return rail -> the other rails of the same network, for rails that share their network.

    :param fabric: ``railyard_fabric``.
    """
    groups: dict[str, list[str]] = {}
    for rail, subnets in fabric["subnets"].items():
        if subnets["mode"] in ("subnet", "block"):
            for key in ("subnet", "subnet6"):
                if subnets[key]:
                    groups.setdefault(subnets[key], []).append(rail)
    others: dict[str, list[str]] = {}
    for rails in groups.values():
        for rail in rails if len(rails) > 1 else ():
            known = others.setdefault(rail, [])
            known += [each for each in rails if each != rail and each not in known]
    return others
