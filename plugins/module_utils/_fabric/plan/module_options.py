# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Convert a node's planned ports (``railyard_node.ports``) to the ``ports`` option of each module."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import BY_MODULE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import link_layer_of, rdma_netdev

Port = t.Mapping[str, t.Any]


def _stated(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the mapping without the keys whose value is None."""
    return {key: value for key, value in values.items() if value is not None}


def _probe(port: Port) -> dict[str, t.Any]:
    address = port.get("address") or port.get("address6")
    row = {"rail": port["rail"], "device": port["rdma"]["name"], "address": bare(address) if address else None}
    row["rdma_port"] = port["rdma"].get("port")
    # A GID of InfiniBand contains no address, so a device without a planned name is found by its port.
    return row if address and row["device"] else dict(row, pci=port.get("pci"), netdev=rdma_netdev(port))


def bare(address: str) -> str:
    """Return an address without its prefix length."""
    return address.partition("/")[0]


def gpu_of(node: t.Mapping[str, t.Any], port: Port) -> str | None:
    """Return the PCI address of the first GPU of a port; None if the plan has no GPUDirect path or no address of it."""
    if (node.get("gpudirect") or {}).get("path", "none") == "none":
        return None
    addresses = (node["gpus"].get(str(number)) for number in port.get("gpus") or ())
    return next((address for address in addresses if address), None)


def provable(port: Port, link_layer: str) -> bool:
    """Return whether RDMA traffic from and to this port can be tested.

    On Ethernet it needs an address, because GIDs are derived from addresses. LIDs of InfiniBand are not.

    :param link_layer: of the fabric.
    """
    has_lid = link_layer_of({"link_layer": link_layer}, port) == INFINIBAND and port["rdma"]["type"] == "hardware"
    return bool(port.get("address") or port.get("address6") or has_lid)


def port_options(
    ports: t.Sequence[Port], module: str, node: t.Mapping[str, t.Any] | None = None, link_layer: str = "ethernet"
) -> list[dict[str, t.Any]]:
    """Return the ``ports`` option of ``module`` for a node's planned ports.

    Ports that the module does not manage are left out. Keys without a value are left out too, so that the module's
    defaults apply.

    :param node: ``railyard_node``, from which ``rail_probe`` gets the GPUs of the ports.
    :param link_layer: of the fabric. On InfiniBand, ``rail_probe`` also gets ports without addresses.
    :raises ValueError: for a module without the option ``ports``.
    """
    if module == "rail_probe":
        served = [port for port in ports if provable(port, link_layer)]
        return [_stated(dict(_probe(port), gpu=gpu_of(node, port) if node else None)) for port in served]
    row = BY_MODULE.get(module)
    if row is None or row.ports is None:
        known = sorted(["rail_probe", *(each.module for each in BY_MODULE.values() if each.ports)])
        raise ValueError("%r takes no ports; these do: %s" % (module, ", ".join(known)))
    rows = [row.ports(part) for port in ports for part in row.parts(port)]
    return _distinct([_stated(each) for each in rows if each])


def _distinct(rows: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the rows without repetitions: VLANs of one netdev have the same functions and RDMA device, and planes can
    share an RDMA device. The first row of a function has the GPUs of all.
    """
    found: dict[t.Hashable, dict[str, t.Any]] = {}
    for at, row in enumerate(rows):
        key: t.Hashable = row.get("name") or (row.get("rail"), row.get("pci"), row.get("netdev"))
        first = found.setdefault(at if key == (None, None, None) else key, row)
        if first is not row and "gpus" in row:
            first["gpus"] = list(dict.fromkeys([*first["gpus"], *row["gpus"]]))
    return list(found.values())
