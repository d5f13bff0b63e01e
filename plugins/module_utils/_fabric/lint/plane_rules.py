# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY441-RY443: planes over which a NIC distributes the packets of its port."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Port, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_SUBNET = "subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"
_TWO_PLANES = example_file.rails(_SUBNET + ", planes: {count: 2, balancing: hardware}")
_SECOND = 'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}'


def _first(port: str) -> str:
    """Return an example with two planes on its first rail, whose port has these keys."""
    return _TWO_PLANES + example_file.ports('gpu01: {pci: "0000:0b:00.0", netdev: enp11s0f0np0, %s}' % port, _SECOND)


NUMBER = rule(
    "RY441 planes-of-port: Planes of a port that its rail does not have",
    _first("rdma: mlx5_gpu01, planes: [1, 2, 3, 4]"),
    _first("rdma: mlx5_gpu01, planes: [1, 2]"),
    why="With hardware balancing, a port has as many planes as its rail. With software balancing, each plane is"
    " planned as a rail, and has a port of its own.",
)

TWICE = rule(
    "RY442 duplicate-plane: Two planes with the same RDMA port or function",
    _first("rdma: mlx5_gpu01, planes: [3, 3]"),
    _first("rdma: mlx5_gpu01, planes: [3, 6]"),
)

NAMELESS = rule(
    "RY443 planes-without-device: RDMA ports of planes without the name of the device",
    _first("planes: [3, 6]"),
    _first("rdma: mlx5_gpu01, planes: [3, 6]"),
    why="The numbers are those of the ports of one RDMA device, which verify reads.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    rails = {rail.name: rail for rail in fabric.rails}
    balanced = any(rail.device_planes > 1 for rail in fabric.rails)
    checked: set[tuple[t.Any, ...]] = set()
    for _variant, ports in variants.tables():
        for port in ports.values():
            if not (balanced or port.planes) or port.rail not in rails or (port.path, port.values) in checked:
                continue
            checked.add((port.path, port.values))
            _check(rails[port.rail], port, report)


def _check(rail: Rail, port: Port, report: Report) -> None:
    listed = port.bond.members if port.bond and rail.device_planes > 1 else port.planes
    path = port.paths.get("bond" if port.bond else "planes", port.path)
    if not listed or report.within(path):
        return
    if port.bond and port.planes:
        message = "the members of the bond are the planes of %s" % port.rail
        report.add(NUMBER, port.paths.get("planes", port.path), message, "remove planes, or remove the bond")
    elif rail.device_planes == 1:
        message = "%s has planes, and %s has none that its NIC balances" % (port.rail, rail.base)
        remedy = "write planes: {count: %d, balancing: hardware} at %s" % (len(listed), rail.base)
        if rail.planes > 1:
            message = "each plane of %s is planned as a rail" % rail.base
            remedy = (
                "write rdma: DEVICE:N and netdev at the port of each plane, or balancing: hardware at %s" % rail.base
            )
        report.add(NUMBER, path, message, remedy)
    elif len(listed) != rail.device_planes:
        message = "%s has %s, and the port of %s has %d" % (
            *(rail.base, count(rail.device_planes, "plane"), port.rail, len(listed)),
        )
        report.add(NUMBER, path, message, "list %d, in the order of the planes" % rail.device_planes)
    if port.bond:
        return
    _duplicates(port, report)
    if port.rdma is None and any(plane.rdma_port for plane in port.planes) and not report.within(port.path):
        message = "%s names ports of an RDMA device without its name" % port.rail
        report.add(NAMELESS, path, message, "add rdma: with the name of the device, such as rdma: mlx5_0")


def _duplicates(port: Port, report: Report) -> None:
    owners: dict[tuple[str, t.Any], int] = {}
    for at, plane in enumerate(port.planes, 1):
        function = plane.function
        values = {"rdma_port": plane.rdma_port, **(function._asdict() if function else {})}
        for key in ("rdma_port", "pci", "netdev", "mac"):
            first = owners.setdefault((key, values.get(key)), at)
            if values.get(key) is not None and first != at:
                message = "planes %d and %d of %s have the same %s" % (first, at, port.rail, key)
                report.add(TWICE, port.paths.get("planes", port.path) + (at - 1,), message, "correct one of them")
                break
