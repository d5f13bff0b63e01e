# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the layer link about planes over which a NIC balances in hardware.

Each plane is judged by what carries it: a port of the RDMA device, a function, a member of a bond, or a port of the
sub-device of an InfiniBand device with planes. Ports that carry no plane are not judged. A rail with a lost plane still
carries traffic, so its failure does not fail the rail. A rail without any plane is down, which other codes report.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    bond_of,
    functions,
    planes_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run

# A row of the plan.
Values = t.Mapping[str, t.Any]


class Plane(t.NamedTuple):
    """A plane as observed.

    :param label: the plane with its device, netdev and leaf, for messages.
    :param netdev: its netdev.
    :param up: whether it has a link; None if the node does not show it.
    :param why: why it is missing or has no link; empty otherwise.
    :param exists: whether the node has it.
    :param expected_netdev: the planned netdev, if the RDMA port of the plane has another.
    :param speed: in Gb/s; None if it is unknown.
    :param about: cause and remedy, if they differ from the code's.
    """

    number: int
    label: str
    netdev: str | None = None
    up: bool | None = None
    why: str = ""
    exists: bool = True
    expected_netdev: str | None = None
    speed: float | None = None
    about: t.Mapping[str, t.Any] = {}


def label(port: Row, row: Values, netdev: str | None = None) -> str:
    """Return a plane for messages, such as ``plane 2 (roce_r0:6, eth_r0_p1, leaf-2 swp3)``.

    :param row: one of :func:`.port_view.planes_of`.
    :param netdev: its present netdev.
    """
    number, leaf = row.get("rdma_port"), row.get("leaf") or {}
    device = "%s:%d" % (port["rdma"]["name"], number) if number and port["rdma"]["name"] else None
    name = netdev or row.get("netdev") or row.get("pci")
    place = " ".join(each for each in (leaf.get("name"), leaf.get("port")) if each)
    known = ", ".join(each for each in (device, name, place) if each)
    return "plane %d (%s)" % (row["plane"], known) if known else "plane %d" % row["plane"]


def of_members(live: Live, port: Row) -> dict[str, Values]:
    """Return the planes of a port whose bond carries them, by the netdev of the member; empty for other ports."""
    if not bond_of(port):
        return {}
    netdevs = [(live.nic(function) or function).get("netdev") for function in functions(port)]
    return {netdev: row for netdev, row in zip(netdevs, planes_of(port)) if netdev}


def observe(live: Live, port: Row) -> list[Plane]:
    """Return the planes of a port; empty without hardware balancing."""
    rows = planes_of(port)
    if not rows:
        return []
    if bond_of(port):
        return [_member(live, port, row, function) for row, function in zip(rows, functions(port))]
    by_row = [_of_port(live, port, row) if row.get("rdma_port") else _of_function(live, port, row) for row in rows]
    return [each for each in by_row if each] if any(by_row) else _inside(live, port, rows)


def _of_port(live: Live, port: Row, row: Values) -> Plane:
    """Return a plane that a port of the RDMA device carries, with its function if the plan has it."""
    name, number = port["rdma"]["name"], row["rdma_port"]
    device = live.rdma_port(name, number)
    plane = _of_function(live, port, row)
    if not live.part("rdma"):
        return plane or Plane(row["plane"], label(port, row))
    if device is None:
        why = "%s has no port %d" % (name, number) if live.has_rdma(name) else "no RDMA device %s" % name
        return Plane(row["plane"], label(port, row), exists=False, why=why, up=False)
    netdev, up = device.get("netdev"), device.get("state") in (None, "ACTIVE")
    why = "" if up else "%s (%s)" % (device.get("state"), device.get("physical_state"))
    planned = (plane and plane.netdev) or row.get("netdev")
    found = Plane(row["plane"], label(port, row, netdev), netdev, up, why, speed=device.get("rate"))
    if planned and netdev and netdev != planned:
        found = found._replace(expected_netdev=planned)
    if plane and (not plane.exists or plane.up is False):
        # the function shows more of the cause
        return found._replace(up=False, why=plane.why, exists=plane.exists, about=plane.about)
    return found


def _of_function(live: Live, port: Row, row: Values) -> Plane | None:
    """Return a plane that a function carries; None if the plan names neither function nor netdev."""
    if not row.get("pci") and not row.get("netdev"):
        return None
    nic = live.nic(row)
    if not live.part("nics"):
        return Plane(row["plane"], label(port, row))
    if nic is None:
        what = "no PCI function %s" % row["pci"] if row.get("pci") else "no interface %s" % row["netdev"]
        return Plane(row["plane"], label(port, row), exists=False, why=what, up=False)
    if not nic["netdev"]:
        holders = "; ".join(nic.get("holders") or ())
        why = holders or ("no netdev (driver %s)" % nic["driver"] if nic["driver"] else "no driver")
        return Plane(row["plane"], label(port, row), exists=False, why=why, up=False)
    return _of_netdev(port, row, nic)


def _of_netdev(port: Row, row: Values, nic: Row) -> Plane:
    name = nic["netdev"]
    found = Plane(row["plane"], label(port, row, name), name, speed=(nic.get("speed") or 0) / 1000.0 or None)
    if nic["up"] is False:
        about = {"cause": CODES["RV401"].cause, "remedy": "set it up with 'ip link set %s up'" % name}
        return found._replace(up=False, why="it is set down", about=about)
    if nic["carrier"] is False:
        return found._replace(up=False, why="no carrier")
    return found._replace(up=True)


def _member(live: Live, port: Row, row: Values, function: Values) -> Plane:
    """Return a plane that a member of the bond carries. Missing members and links are judged with the bond."""
    nic = live.nic(function)
    if nic is None or not nic["netdev"]:
        return Plane(row["plane"], label(port, row, function.get("netdev") or function.get("pci")), up=False)
    return _of_netdev(port, row, nic)


def _inside(live: Live, port: Row, rows: t.Sequence[Values]) -> list[Plane]:
    """Return the planes of a NIC that has neither functions nor netdevs for them.

    The sub-device of an InfiniBand device has a port for each plane (``mlx5_query_hca_port()`` of the kernel).
    An RDMA device with as many ports as planes has one for each. Otherwise the node does not show the planes.
    """
    device = live.device(port)
    ports = [] if device is None else live.ports_of_planes(device["device"])
    if len(ports) != len(rows):
        return [Plane(row["plane"], label(port, row)) for row in rows]
    found = []
    for row, own in zip(rows, ports):
        up = own.get("state") in (None, "ACTIVE")
        why = "" if up else "%s (%s)" % (own.get("state"), own.get("physical_state"))
        shown = label(port, row, "%s:%d" % (own["device"], own["port"]))
        found.append(Plane(row["plane"], shown, own.get("netdev"), up, why, speed=own.get("rate")))
    return found


def carries_on(planes: t.Sequence[Plane], netdev: str) -> bool:
    """Return whether a netdev without carrier carries only one of several planes, and another has a link."""
    return any(plane.netdev == netdev for plane in planes) and any(plane.up for plane in planes)


def reasons(planes: t.Sequence[Plane]) -> list[str]:
    """Return the planes without a link, each with the reason."""
    return ["%s: %s" % (plane.label, plane.why) for plane in planes if plane.why]


def judge(run: Run, report: NodeReport, port: Row, planes: t.Sequence[Plane]) -> None:
    """Report planes that are missing, lost, slow, or on another netdev than planned.

    :param planes: the result of :func:`observe`, after the interface and the RDMA device of the port were judged.
    """
    name, rail = report.name, port["rail"]
    in_bond = bond_of(port) is not None
    if not in_bond and not any(plane.up is not False for plane in planes) and run.failed(name, rail, "link"):
        return  # the rail is down, which is reported
    planned = port["expect"]["speed"]
    for plane in planes:
        if in_bond and not plane.up:
            continue
        about: Row = dict(plane.about)
        if not plane.exists:
            run.fail("RV423", name, rail, plane.label, expected="present", found=plane.why, **about)
        elif plane.up is False:
            run.fail("RV422", name, rail, plane.label, expected="a link", found=plane.why, **about)
        elif plane.expected_netdev:
            found = plane.netdev
            run.fail("RV425", name, rail, plane.label, expected=plane.expected_netdev, found=found, **about)
        elif planned and plane.speed and plane.speed < planned:
            found, expected = "%g Gb/s" % plane.speed, "%g Gb/s" % planned
            run.fail("RV424", name, rail, plane.label, expected=expected, found=found, **about)
        if plane.up is False:
            run.lose_plane(name, [rail], plane.number)
