# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of ``rail_info`` of a node, by the ports of the plan."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    functions,
    planes_of,
    rdma_netdev,
)

Row = t.Dict[str, t.Any]
ROCE = "RoCE v2"


class Live:
    """One node's ``rail_info``; a part that was not requested is empty."""

    def __init__(self, info: t.Mapping[str, t.Any]) -> None:
        self.info = info
        self.nics: t.Sequence[Row] = info.get("nics") or ()
        # bonds, VLANs and other interfaces above NICs
        self.interfaces: t.Sequence[Row] = info.get("interfaces") or ()
        ip = info.get("ip") or {}
        self.addresses: t.Sequence[Row] = ip.get("addresses") or ()
        self.routes: t.Sequence[Row] = ip.get("routes") or ()
        self.rules: t.Sequence[Row] = ip.get("rules") or ()

    @functools.cached_property
    def rdma(self) -> list[Row]:
        """Return the ports of RDMA devices, without sub-devices for management datagrams."""
        return [row for row in self.info.get("rdma") or () if not row.get("parent")]

    @functools.cached_property
    def sub_devices(self) -> list[Row]:
        return [row for row in self.info.get("rdma") or () if row.get("parent")]

    def nic(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """Return the row of a function's netdev. If the function has several netdevs, return the planned one.

        :param port: a port without ``lower``, or one of :func:`.port_view.functions`.
        """
        if port.get("pci"):
            rows = [row for row in self.nics if row["pci"] == port["pci"]]
        else:
            rows = [row for row in self.nics if named(row, port.get("netdev"))]
        return next((row for row in rows if named(row, port.get("netdev"))), rows[0] if rows else None)

    def functions(self, port: t.Mapping[str, t.Any]) -> list[Row]:
        """Return the rows of those functions of the port that the node has."""
        return [row for row in map(self.nic, functions(port)) if row]

    def above(self, name: str | None) -> Row | None:
        """Return the row of a bond, VLAN, bridge or other interface above NICs."""
        return next((row for row in self.interfaces if name and row["netdev"] == name), None)

    def interface(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """Return the row of the port's interface: from ``interfaces`` for a bond or VLAN, else from ``nics``."""
        return self.above(port["netdev"]) if port.get("lower") else self.nic(port)

    def netdev(self, port: t.Mapping[str, t.Any]) -> str | None:
        """Return the current name of the port's interface."""
        row = self.interface(port)
        return row["netdev"] if row else None

    def rdma_netdevs(self, port: t.Mapping[str, t.Any]) -> set[str]:
        """Return the netdevs one of which the kernel reports for the port's RDMA device."""
        netdev = rdma_netdev(port) if port.get("lower") else self.netdev(port)
        return {name for name in (netdev, *(row["netdev"] for row in self.functions(port))) if name}

    def device(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """Return the row of the port of an RDMA device that belongs to a rail port.

        With a planned number, this port of the planned device. Otherwise the port with the netdev, or else
        the first one of the functions; the device with the planned name comes first. Drivers with LAG register one
        device for a bond, on one of its functions, and report a member as its netdev. With planes on several ports of
        the device, it is a port that carries one.
        """
        planned = port["rdma"]
        devices = [each for each in self.rdma if (each["type"] == "hardware") == (planned["type"] == "hardware")]
        number = planned.get("port")
        if number:
            return next((each for each in devices if (each["device"], each["port"]) == (planned["name"], number)), None)
        of_planes = [self.rdma_port(planned["name"], each.get("rdma_port")) for each in planes_of(port)]
        carriers = [each for each in of_planes if each]
        if carriers:
            # the port with the interface has its GIDs
            netdev = self.netdev(port)
            return next((each for each in carriers if each.get("netdev") == netdev), carriers[0])
        netdevs, addresses = self.rdma_netdevs(port), {row["pci"] for row in self.functions(port)} - {None}
        of_port = [each for each in devices if each.get("netdev") in netdevs]
        if not of_port:
            several = {each["device"] for each in devices if each.get("port", 1) > 1}
            # ports of a device with other netdevs belong to other rail ports
            of_port = [
                each
                for each in devices
                if each["pci"] in addresses and not (each["device"] in several and each.get("netdev"))
            ]
        return next((each for each in of_port if each["device"] == planned["name"]), of_port[0] if of_port else None)

    def rdma_port(self, device: str | None, number: int | None) -> Row | None:
        """Return the row of a port of an RDMA device."""
        return next((row for row in self.rdma if number and (row["device"], row.get("port")) == (device, number)), None)

    def has_rdma(self, device: str | None) -> bool:
        """Return whether the node has an RDMA device with this name."""
        return any(row["device"] == device for row in self.rdma)

    def ports_of_planes(self, device: str) -> list[Row]:
        """Return the ports of the sub-device of an RDMA device; without one, the ports of the device."""
        own = [row for row in self.sub_devices if row["parent"] == device]
        return sorted(
            own or [row for row in self.rdma if row["device"] == device], key=lambda row: row.get("port") or 1
        )

    def part(self, name: str) -> bool:
        """Return whether a part was requested and read."""
        return self.info.get(name) is not None


def gids_of(live: Live, device: Row) -> list[Row]:
    """Return the GIDs of a port of an RDMA device (a row of ``rdma``)."""
    own = (device["device"], device.get("port", 1))
    return [row for row in live.info.get("gids") or () if (row["device"], row.get("port", 1)) == own]


def device_name(live: Live, device: Row) -> str:
    """Return the name of an RDMA device, with the number of the port if it has several, as NCCL writes it."""
    several = any(row["device"] == device["device"] and row.get("port") != device.get("port") for row in live.rdma)
    return "%s:%d" % (device["device"], device["port"]) if several else str(device["device"])


def counter_names(live: Live, port: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return the names of a rail port in ``counters`` of ``rail_info``: its ``netdevs`` and ``devices``."""
    device = live.device(port)
    netdevs = [live.netdev(port), *(row["netdev"] for row in live.functions(port))]
    return {
        "netdevs": [name for name in dict.fromkeys(netdevs) if name],
        "devices": [device_name(live, device)] if device else [],
    }


def named(row: t.Mapping[str, t.Any], netdev: str | None) -> bool:
    """Return whether a row of ``nics`` has this netdev as its name or as an alternative name."""
    return bool(netdev) and netdev in (row.get("netdev"), *(row.get("altnames") or ()))


def other_gids(gids: t.Iterable[Row], address: str) -> str | None:
    """Return the types of the GIDs of an address as text; None if a GID of RoCE v2 is one of them."""
    types = [row["type"] for row in gids if row["address"] == address]
    if ROCE in types:
        return None
    return "only type %s" % ", ".join(types) if types else "none"
