# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From a node's planned ports (``railyard_node.ports``) to the ``ports`` option of each module: a choice of keys."""

from __future__ import annotations

import typing as t

Port = t.Mapping[str, t.Any]


def _pick(port: Port, *keys: str) -> dict[str, t.Any]:
    return {key: port.get(key) for key in keys}


def _stated(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
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


def _address(port: Port) -> dict[str, t.Any]:
    keys = ("address", "gateway", "address6", "gateway6", "table", "rule_priority", "routes", "sysctl")
    return _pick(port, "rail", "pci", "netdev", "mtu", *keys)


def _probe(port: Port) -> dict[str, t.Any]:
    address = port.get("address") or port.get("address6")
    row = {"rail": port["rail"], "device": port["rdma"]["name"], "address": bare(address) if address else None}
    # InfiniBand's GIDs hold no address by which a device without a planned name could be found
    return row if address and row["device"] else dict(row, **_pick(port, "pci", "netdev"))


def _pci(port: Port) -> dict[str, t.Any]:
    return _pick(port, "pci", "netdev", "gpus", "expect")


def _qos(port: Port) -> dict[str, t.Any] | None:
    # a soft device is neither marked nor slowed down by the NIC below it
    return _pick(port, "pci", "netdev") if port["rdma"]["type"] == "hardware" else None


def _names(port: Port) -> dict[str, t.Any]:
    return _pick(port, "pci", "netdev")


CHOICES: dict[str, t.Callable[[Port], dict[str, t.Any] | None]] = {
    "ib_ports": _ipoib,
    "mlx_linktype": _firmware,
    "pci_tuning": _pci,
    "rail_limits": _names,
    "rail_ports": _address,
    "rail_probe": _probe,
    "rdma_link": _rdma,
    "roce_qos": _qos,
    "sriov_vfs": _vfs,
}


def bare(address: str) -> str:
    """An address without its prefix length."""
    return address.partition("/")[0]


def gpu_of(node: t.Mapping[str, t.Any], port: Port) -> str | None:
    """PCI address of the GPU whose memory a port's traffic is to reach; None where the plan has no way for that."""
    if (node.get("gpudirect") or {}).get("path", "none") == "none":
        return None
    known = (node["gpus"].get(str(number)) for number in port.get("gpus") or ())
    return next((address for address in known if address), None)


def provable(port: Port, link_layer: str) -> bool:
    """Whether RDMA can go from and to a node's port: Ethernet's GIDs come from addresses, InfiniBand's LIDs do not."""
    bare_card = link_layer == "infiniband" and port["rdma"]["type"] == "hardware"
    return bool(port.get("address") or port.get("address6") or bare_card)


def port_options(
    ports: t.Sequence[Port], module: str, node: t.Mapping[str, t.Any] | None = None, link_layer: str = "ethernet"
) -> list[dict[str, t.Any]]:
    """The ``ports`` option of ``module`` for a node's planned ports.

    Ports that the plan does not give to it are left out; so are keys without a value: the module's defaults hold.
    :param node: ``railyard_node``, from which ``rail_probe`` gets the GPUs beside the ports.
    :param link_layer: of the fabric, by which ``rail_probe`` is given ports without addresses.
    :raises ValueError: for a module that takes no ports.
    """
    if module not in CHOICES:
        raise ValueError("%r takes no ports; these do: %s" % (module, ", ".join(sorted(CHOICES))))
    chosen = [(port, CHOICES[module](port)) for port in ports]
    if module == "rail_probe":
        served = [(port, each) for port, each in chosen if each and provable(port, link_layer)]
        return [_stated(dict(each, gpu=gpu_of(node, port) if node else None)) for port, each in served]
    return [_stated(each) for _port, each in chosen if each]
