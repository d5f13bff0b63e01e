# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The result of ``rail_info`` of a node, by the ports of the plan."""

from __future__ import annotations

import typing as t

Row = t.Dict[str, t.Any]


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
        """The row of the port's netdev; where its function has several, the planned one."""
        if port.get("pci"):
            mine = [row for row in self.nics if row["pci"] == port["pci"]]
        else:
            mine = [row for row in self.nics if named(row, port.get("netdev"))]
        return next((row for row in mine if named(row, port.get("netdev"))), mine[0] if mine else None)

    def netdev(self, port: t.Mapping[str, t.Any]) -> str | None:
        """The current name of the port's interface."""
        row = self.nic(port)
        return row["netdev"] if row else None

    def device(self, port: t.Mapping[str, t.Any]) -> Row | None:
        """The row of the port's RDMA device: by name first, else by where it is."""
        kind, name = port["rdma"]["type"], port["rdma"]["name"]
        row = self.nic(port) or {}
        mine = [each for each in self.rdma if (each["type"] == "hardware") == (kind == "hardware")]
        here = [
            each
            for each in mine
            if (row.get("netdev") and each.get("netdev") == row["netdev"])
            or (row.get("pci") and each["pci"] == row["pci"])
        ]
        return next((each for each in here if each["device"] == name), here[0] if here else None)

    def part(self, name: str) -> bool:
        """Whether a part was requested and read."""
        return self.info.get(name) is not None


def named(row: t.Mapping[str, t.Any], netdev: str | None) -> bool:
    return bool(netdev) and netdev in (row.get("netdev"), *(row.get("altnames") or ()))
