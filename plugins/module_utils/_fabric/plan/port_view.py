# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions about a planned port (an entry of ``railyard_node.ports``) that have one answer for all layers.

A port has an interface, which is the netdev of its only function, a bond, or a VLAN on either. Ports whose interface is
a bond or VLAN have the key ``lower``.
"""

from __future__ import annotations

import typing as t

Port = t.Mapping[str, t.Any]


def functions(port: Port) -> t.Sequence[Port]:
    """Return the PCI functions below the interface of a port, each with ``pci``, ``netdev`` and ``match``.

    Without ``lower``, this is the port itself.
    """
    lower = port.get("lower")
    return lower["functions"] if lower else (port,)


def rdma_netdev(port: Port) -> str | None:
    """Return the netdev that has the RDMA device: the parent of a VLAN, else the interface."""
    lower = port.get("lower")
    return (lower and lower["parent"]) or port.get("netdev")


def link_layer_of(fabric: t.Mapping[str, t.Any], port: Port) -> t.Any:
    """Return the link layer of a port. ``fabric``: ``railyard_fabric``."""
    return port.get("link_layer") or fabric["link_layer"]


def attachment_of(node: t.Mapping[str, t.Any], port: Port) -> t.Any:
    """Return the attachment of a port. ``node``: ``railyard_node``."""
    return port.get("attachment") or node["attachment"]


def is_managed(port: Port) -> bool:
    """Return whether Railyard configures the interface of a port."""
    return port.get("managed") is not False


def rails_of_network(fabric: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
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
