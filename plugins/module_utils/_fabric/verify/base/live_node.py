# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of ``rail_info`` of a node, by the ports of the plan."""

from __future__ import annotations

import typing as t

Row = t.Dict[str, t.Any]
ROCE = "RoCE v2"


class Live:
    """One node's ``rail_info``; a part that was not requested is empty."""

    def __init__(self, info: t.Mapping[str, t.Any]) -> None:
        self.info = info
        self.nics: list[Row] = list(info.get("nics") or ())
        self.rdma: list[Row] = list(info.get("rdma") or ())
        ip = info.get("ip") or {}
        self.addresses: list[Row] = list(ip.get("addresses") or ())
        self.routes: list[Row] = list(ip.get("routes") or ())
        self.rules: list[Row] = list(ip.get("rules") or ())

    def nic(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """Return the row of the port's netdev. If its function has several netdevs, return the planned one."""
        if port.get("pci"):
            rows = [row for row in self.nics if row["pci"] == port["pci"]]
        else:
            rows = [row for row in self.nics if named(row, port.get("netdev"))]
        return next((row for row in rows if named(row, port.get("netdev"))), rows[0] if rows else None)

    def netdev(self, port: t.Mapping[str, t.Any]) -> str | None:
        """Return the current name of the port's interface."""
        row = self.nic(port)
        return row["netdev"] if row else None

    def device(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """Return the row of the port's RDMA device: the device with the planned name, else the first one of its NIC."""
        kind, name = port["rdma"]["type"], port["rdma"]["name"]
        row = self.nic(port) or {}
        devices = [each for each in self.rdma if (each["type"] == "hardware") == (kind == "hardware")]
        of_port = [
            each
            for each in devices
            if (row.get("netdev") and each.get("netdev") == row["netdev"])
            or (row.get("pci") and each["pci"] == row["pci"])
        ]
        return next((each for each in of_port if each["device"] == name), of_port[0] if of_port else None)

    def part(self, name: str) -> bool:
        """Return whether a part was requested and read."""
        return self.info.get(name) is not None


def named(row: t.Mapping[str, t.Any], netdev: str | None) -> bool:
    """Return whether a row of ``nics`` has this netdev as its name or as an alternative name."""
    return bool(netdev) and netdev in (row.get("netdev"), *(row.get("altnames") or ()))


def other_gids(gids: t.Iterable[Row], address: str) -> str | None:
    """Return the types of the GIDs of an address as text; None if a GID of RoCE v2 is one of them."""
    types = [row["type"] for row in gids if row["address"] == address]
    if ROCE in types:
        return None
    return "only type %s" % ", ".join(types) if types else "none"
