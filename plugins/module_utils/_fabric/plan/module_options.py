# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Convert a node's planned ports (``railyard_node.ports``) to the ``ports`` option of each module."""

from __future__ import annotations

import typing as t

Port = t.Mapping[str, t.Any]


def _pick(port: Port, *keys: str) -> dict[str, t.Any]:
    """Return only these keys of a port."""
    return {key: port.get(key) for key in keys}


def _stated(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the mapping without the keys whose value is None."""
    return {key: value for key, value in values.items() if value is not None}


def _firmware(port: Port) -> dict[str, t.Any] | None:
    firmware = port.get("firmware")
    return dict(firmware, pci=port["pci"]) if firmware else None


def _ipoib(port: Port) -> dict[str, t.Any] | None:
    ipoib = port.get("ipoib")
    return dict(_pick(port, "pci", "netdev"), **_pick(ipoib, "mode", "pkeys")) if ipoib else None


def _vfs(port: Port) -> dict[str, t.Any] | None:
    vfs = port.get("vfs")
    if not vfs:
        return None
    return dict(_pick(port, "pci", "netdev"), count=vfs["count"], attributes=[_stated(vf) for vf in vfs["attributes"]])


def _rdma(port: Port) -> dict[str, t.Any] | None:
    rdma = port["rdma"]
    return dict(_pick(port, "pci", "netdev"), name=rdma["name"], type=rdma["type"]) if rdma["name"] else None


def _rail_ports(port: Port) -> dict[str, t.Any]:
    keys = ("address", "gateway", "address6", "gateway6", "table", "rule_priority", "routes", "sysctl")
    return _pick(port, "rail", "pci", "netdev", "mtu", *keys)


def _probe(port: Port) -> dict[str, t.Any]:
    address = port.get("address") or port.get("address6")
    row = {"rail": port["rail"], "device": port["rdma"]["name"], "address": bare(address) if address else None}
    # A GID of InfiniBand contains no address, so a device without a planned name is found by its port.
    return row if address and row["device"] else dict(row, **_pick(port, "pci", "netdev"))


def _pci(port: Port) -> dict[str, t.Any]:
    return _pick(port, "pci", "netdev", "gpus", "expect")


def _qos(port: Port) -> dict[str, t.Any] | None:
    # The NIC below a soft RDMA device applies no QoS to it.
    return _pick(port, "pci", "netdev") if port["rdma"]["type"] == "hardware" else None


def _names(port: Port) -> dict[str, t.Any]:
    return _pick(port, "pci", "netdev")


OPTIONS_OF_PORT: dict[str, t.Callable[[Port], dict[str, t.Any] | None]] = {
    "ib_ports": _ipoib,
    "mlx_linktype": _firmware,
    "pci_tuning": _pci,
    "rail_limits": _names,
    "rail_ports": _rail_ports,
    "rail_probe": _probe,
    "rdma_link": _rdma,
    "roce_qos": _qos,
    "sriov_vfs": _vfs,
}


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
    """
    has_lid = link_layer == "infiniband" and port["rdma"]["type"] == "hardware"
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
    if module not in OPTIONS_OF_PORT:
        raise ValueError("%r takes no ports; these do: %s" % (module, ", ".join(sorted(OPTIONS_OF_PORT))))
    chosen = [(port, OPTIONS_OF_PORT[module](port)) for port in ports]
    if module == "rail_probe":
        served = [(port, each) for port, each in chosen if each and provable(port, link_layer)]
        return [_stated(dict(each, gpu=gpu_of(node, port) if node else None)) for port, each in served]
    return [_stated(each) for _port, each in chosen if each]
