# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY44x: planes of a rail's NICs, and what carries them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    INFINIBAND,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Port, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import ACTIVE_BACKUP, LACP
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
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

TWO_NAMES = rule(
    "RY448 plane-with-two-names: Function with one name at the port and another at its plane",
    _first('rdma: mlx5_gpu01, planes: [{pci: "0000:0b:00.0", netdev: nic1}, {pci: "0000:0b:00.1"}]'),
    _first('rdma: mlx5_gpu01, planes: [{pci: "0000:0b:00.0", netdev: enp11s0f0np0}, {pci: "0000:0b:00.1"}]'),
)

NAMELESS = rule(
    "RY443 planes-without-device: RDMA ports of planes without the name of the device",
    _first("planes: [3, 6]"),
    _first("rdma: mlx5_gpu01, planes: [3, 6]"),
    why="The numbers belong to ports of one RDMA device, which verify reads.",
)

_FUNCTIONS = 'planes: [{pci: "0000:0b:00.0", netdev: enp11s0f0np0}, {pci: "0000:0b:00.1"}]'
_INFINIBAND = "fabric: {name: ai, attachment: ipoib, provider: spiderpool, mtu: 4092}\n"

UNSUPPORTED = rule(
    "RY444 attachment-on-planes: Attachment that takes one function of a NIC whose planes are functions",
    "fabric: {name: ai, attachment: host-device, provider: network-operator, mtu: 4200}\n" + _first(_FUNCTIONS),
    _first(_FUNCTIONS),
    why="A pod would get the function of one plane. No document describes which function has the VFs and the RDMA"
    " device of all planes.",
)

ON_INFINIBAND = rule(
    "RY445 planes-on-infiniband: List of planes on InfiniBand or of a soft RDMA device",
    _INFINIBAND + _first("rdma: ib1, planes: [1, 2]"),
    _INFINIBAND + _first("rdma: ib1"),
    why="The planes of an XDR port are ports of a sub-device of type SMI, which only carries management (the kernel,"
    " mlx5_query_hca_port). The RDMA device has one port for all of them. A soft RDMA device has one port.",
)

CARDS = rule(
    "RY446 planes-of-two-cards: Planes of one NIC on functions of different cards",
    _first('rdma: mlx5_gpu01, planes: [{pci: "0000:0b:00.0"}, {pci: "0000:0d:00.0"}]'),
    _first('rdma: mlx5_gpu01, planes: [{pci: "0000:0b:00.0"}, {pci: "0000:0b:00.1"}]'),
    WARNING,
    why="Planes belong to one NIC. For several NICs per rail, use nics.",
)

_BACKUP = """
fabric: {name: ai, attachment: host, provider: none, mtu: 4200}
rails:
  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253, planes: {count: 2, balancing: hardware}}
profiles:
  hgx:
    ports:
      gpu01: {bond: {name: bond0, mode: %s, members: [{pci: "0000:0b:00.0"}, {pci: "0000:0b:00.1"}]}}
"""

BACKUP = rule(
    "RY447 planes-of-backup-bond: Planes on a bond that uses one member at a time",
    _BACKUP % "active-backup",
    _BACKUP % "802.3ad",
    WARNING,
    why="The members of the bond are the planes. In the mode active-backup, the other planes have no traffic until the"
    " active one fails.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    rails = {rail.name: rail for rail in fabric.rails}
    balanced = any(rail.device_planes > 1 for rail in fabric.rails)
    divided = any(rail.planes > 1 for rail in fabric.rails)
    checked: set[tuple[t.Any, ...]] = set()
    for variant, ports in variants.tables():
        for port in ports.values() if balanced or any(port.planes for port in ports.values()) else ():
            key = (port.path, port.values, id(variant))
            if port.rail not in rails or key in checked:
                continue
            checked.add(key)
            rail = rails[port.rail]
            _check(rail, port, report)
            if port.planes and rail.device_planes > 1:
                _supported(fabric, variant, rail, port, report)
        if balanced:
            _shared_functions(ports, report)
        # The NICs of soft RDMA imitate the NICs of a real server.
        if divided and not variant.profile.soft_rdma:
            _cards(rails, ports, report)


def _check(rail: Rail, port: Port, report: Report) -> None:
    listed = port.bond.members if port.bond and rail.device_planes > 1 else port.planes
    path = port.paths.get("bond" if port.bond else "planes", port.path)
    if not listed or report.within(path) or report.within(rail.path + ("planes",)):
        return
    if port.bond and port.planes:
        message = "the members of the bond are the planes of %s" % port.rail
        report.add(NUMBER, port.paths.get("planes", port.path), message, "remove planes, or remove the bond")
    elif rail.device_planes == 1:
        message = "%s has planes, and the NIC of %s does not balance over planes" % (port.rail, rail.base)
        remedy = "write planes: {count: %d, balancing: hardware} at %s" % (len(listed), rail.base)
        if len(listed) == 1:
            remedy = "write its RDMA port as rdma: DEVICE:N, or its function at the port, and remove planes"
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
        if rail.device_planes > 1 and port.bond.mode == ACTIVE_BACKUP:
            message = "the planes of %s are members of %s, which uses one at a time" % (port.rail, port.bond.name)
            remedy = "set mode: %s, or remove planes from %s if the bond provides redundancy" % (LACP, rail.base)
            report.add(BACKUP, path + ("mode",), message, remedy)
        return
    if port.vlan and port.functions != (port,):
        message = "the functions of planes are listed below a VLAN of %s" % port.rail
        report.add(NUMBER, path, message, "write the netdev of the NIC beside vlan, and the RDMA ports of the planes")
    _duplicates(port, report)
    cards = _cards_of([port])
    if len(cards) > 1 and not report.within(path):
        message = "the planes of %s are functions of %s" % (port.rail, " and ".join(cards))
        report.add(CARDS, path, message, "list functions of one card")
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
        same = function and port.pci and function.pci == port.pci
        if function and same and port.netdev and function.netdev not in (None, port.netdev):
            message = "%s is %s at the port of %s, and %s at plane %d" % (
                *(port.pci, port.netdev, port.rail, function.netdev),
                at,
            )
            place = port.paths.get("planes", port.path) + (at - 1, "netdev")
            report.add(TWO_NAMES, place, message, "write one name at both places, or remove netdev from the plane")


def _supported(fabric: Fabric, variant: Variant, rail: Rail, port: Port, report: Report) -> None:
    """Report listed planes that the link layer or the attachment does not support."""
    path = port.paths.get("planes", port.path)
    if report.within(path):
        return
    numbered = any(plane.rdma_port for plane in port.planes)
    if fabric.link_layer_on(rail) == INFINIBAND:
        message = "the link layer of %s is infiniband, whose planes are internal to the port" % rail.name
        report.add(ON_INFINIBAND, path, message, "remove planes from the port")
        return
    if numbered and variant.profile.soft_rdma:
        message = "%s has one port, and the planes of %s have numbers" % (variant.profile.soft_rdma, rail.name)
        report.add(ON_INFINIBAND, path, message, "list functions, or use a bond with a member for each plane")
        return
    attachment = ATTACHMENTS.get(variant.attachment_on(rail) or "")
    if port.functions != (port,) and attachment and (attachment.vfs or attachment.name == "host-device"):
        message = "%s gives pods one function, and the planes of %s are functions" % (attachment.name, rail.name)
        report.add(UNSUPPORTED, path, message, "use macvlan or ipvlan, or software balancing")


def _shared_functions(ports: t.Mapping[str, Port], report: Report) -> None:
    """Report a function that carries planes of two rail ports. Other rules report RDMA devices and interfaces."""
    owners: dict[tuple[str, str], Port] = {}
    for port in ports.values():
        for function in port.functions:
            for key in ("pci", "netdev"):
                value = getattr(function, key)
                first = owners.setdefault((key, value), port) if value else port
                if first is port or not (first.planes or port.planes) or report.within(port.path):
                    continue
                if value in (getattr(first, key), getattr(port, key)) and getattr(first, key) == getattr(port, key):
                    continue
                message = "%s also carries a plane of %s" % (value, first.rail)
                place = port.paths.get("planes", port.path)
                report.add(TWICE, place, message, "correct it for the port of %s" % port.rail)


def _cards(rails: t.Mapping[str, Rail], ports: t.Mapping[str, Port], report: Report) -> None:
    """Report software planes of a NIC that are functions of different cards."""
    found: dict[tuple[str, int], list[Port]] = {}
    for port in ports.values():
        rail = rails.get(port.rail)
        if rail and rail.planes > 1:
            found.setdefault((rail.base, rail.nic), []).append(port)
    for (base, _nic), planes in found.items():
        cards = _cards_of(planes)
        place = planes[-1].paths.get("pci", planes[-1].path)
        if len(cards) > 1 and not any(report.within(port.path) for port in planes):
            message = "the planes of %s are functions of %s" % (base, " and ".join(cards))
            report.add(CARDS, place, message, "use functions of one card, or nics: %d in place of planes" % len(cards))


def _cards_of(ports: t.Iterable[Port]) -> list[str]:
    """Return the PCI addresses of the cards below ports, without the function."""
    functions = [each for port in ports for each in port.functions if not port.bond]
    return list(dict.fromkeys(each.pci.partition(".")[0] for each in functions if each.pci))
