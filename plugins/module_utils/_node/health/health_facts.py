# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare one observation of a rail with the plan: pure functions.

A difference from which others follow ends the comparison of the rail, as in verify: without carrier, a missing GID is
not reported.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import leaf_names
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import (
    Neighbour,
    Netdev,
    Observed,
    RdmaPort,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import Fact
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import Leaf, Plane, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    FAIL,
    PASS,
    UNKNOWN,
    PlaneState,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.bond_messages import LACP

ACTIVE = "ACTIVE"
# Codes of settings that another program makes with ``managed: false``.
_SETTINGS = ("RV401", "RV404", "RV411", "RV413", "RV415", "RV419", "RV501")
_OTHER_PROGRAM = "set it with the program that configures the interface"


class _PlaneSeen(t.NamedTuple):
    """A plane. ``up``: None if the node does not show it. ``fact``: why it is lost, missing or slow."""

    plane: Plane
    netdev: Netdev | None
    up: bool | None
    fact: Fact | None = None

    @property
    def state(self) -> PlaneState:
        return PlaneState(self.plane.number, UNKNOWN if self.up is None else (PASS if self.up else FAIL))


def compare(rail: Rail, seen: Observed) -> tuple[list[Fact], list[PlaneState]]:
    """Return the differences between an observation and the plan, and the state of each plane."""
    planes = _planes(rail, seen)
    found = list(_differences(rail, seen, planes))
    if not rail.managed:
        found = [fact._replace(remedy=_OTHER_PROGRAM) if fact.code in _SETTINGS else fact for fact in found]
    return found, [each.state for each in planes]


def _differences(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    if not seen.exists:
        yield Fact("RV201", "NIC", str(rail.pci), "no such PCI function")
        return
    if rail.bond or rail.vlan is not None:
        wrong = list(_stacked(rail, seen, planes))
        yield from wrong
        if any(fact.code in ("RV410", "RV411", "RV415", "RV419") for fact in wrong):
            return
    if rail.netdev or not rail.rdma:
        wrong = list(_interface(rail, seen, planes))
        yield from wrong
        if any(fact.code in ("RV203", "RV204", "RV401", "RV402") for fact in wrong):
            return
    wrong = list(_rdma(rail, seen, planes))
    yield from wrong
    any_up = any(each.up for each in planes)
    if not rail.bond and (any_up or not wrong):
        # without any plane, the rail is down, which is reported
        yield from (each.fact for each in planes if each.fact)
    if not planes:
        yield from _speed(rail, seen)
    yield from _addresses(rail, seen, bool(wrong))
    yield from _leaves(rail, seen, planes)


# -- bonds and VLANs ---------------------------------------------------------------------------------------------------


def _stacked(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    """Compare the bond and the VLAN of a rail."""
    base = seen.bond.netdev if seen.bond else seen.parent_netdev
    if rail.bond:
        if seen.bond is None:
            yield Fact("RV411", rail.bond, "bond", "none")
            return
        if rail.bond_mode and seen.bond.mode not in (None, rail.bond_mode):
            yield Fact("RV415", "mode of %s" % rail.bond, rail.bond_mode, str(seen.bond.mode))
            return
        yield from _members(rail, seen, planes)
    if rail.vlan is not None:
        if seen.interface is None:
            yield Fact("RV411", str(rail.netdev), "VLAN %d" % rail.vlan, "none")
        elif seen.interface.kind != "vlan":
            yield Fact("RV410", str(rail.netdev), "VLAN %d" % rail.vlan, seen.interface.kind or "a NIC")
        elif seen.vlan != rail.vlan or (base and seen.parent != base.ifindex):
            on = base.name if base else "its parent"
            found = "VLAN %s" % seen.vlan + ("" if base and seen.parent == base.ifindex else " on another interface")
            yield Fact("RV419", str(rail.netdev), "VLAN %d on %s" % (rail.vlan, on), found)
        elif base and not base.up:
            yield Fact("RV401", "link %s" % base.name, "up", "down")


def _members(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    """Compare the members of a bond. Of a bond without any link, only the missing members are reported."""
    bond = seen.bond
    if bond is None:
        return
    rows = [
        (netdev, function.netdev or function.pci or "member", planes[at].plane if at < len(planes) else None)
        for at, (function, netdev) in enumerate(zip(rail.functions, seen.functions))
    ]
    linked = []
    for netdev, name, plane in rows:
        if netdev is None or netdev.master != bond.netdev.ifindex:
            found = "no interface on the node" if netdev is None else "no member"
            number = plane.number if plane else None
            yield Fact("RV413", name, "a member of %s" % rail.bond, found, number)
        elif not _why_no_link(netdev):
            linked.append(netdev)
    if not linked:
        return
    for netdev, _name, plane in rows:
        why = _why_no_link(netdev) if netdev and netdev.master == bond.netdev.ifindex else ""
        if netdev and why:
            yield _member_down(netdev, plane, "a link", why)
    if bond.mode != LACP:
        return
    silent = [each for each in linked if not each.partner]
    if len(silent) == len(linked):
        if not bond.partner:
            names = ", ".join(each.name for each in linked)
            yield Fact("RV417", "LACP of %s" % rail.bond, "a partner", "no partner on " + names)
        return
    for netdev, _name, plane in rows:
        if netdev in silent:
            yield _member_down(netdev, plane, "an LACP partner", "no LACP partner answers")
        elif netdev in linked and bond.aggregator is not None and netdev.aggregator not in (None, bond.aggregator):
            expected = "the active aggregator %d" % bond.aggregator
            yield _member_down(netdev, plane, expected, "aggregator %s, which is not active" % netdev.aggregator)


def _member_down(netdev: Netdev, plane: Plane | None, expected: str, found: str) -> Fact:
    if plane:
        return Fact("RV422", _label(plane, netdev), expected, found, plane.number)
    return Fact("RV414", netdev.name, expected, found)


def _why_no_link(netdev: Netdev) -> str:
    if not netdev.up:
        return "it is set down"
    if not netdev.carrier:
        return "no carrier"
    return "" if netdev.link in (None, "up") else "link %s" % netdev.link


# -- interface ---------------------------------------------------------------------------------------------------------


def _interface(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    link = seen.interface
    if link is None:
        if seen.other_name:
            yield Fact("RV204", "name", str(rail.netdev), seen.other_name)
        elif not rail.bond and rail.vlan is None:
            yield Fact("RV203", "netdev of %s" % (rail.pci or rail.netdev), str(rail.netdev), "none")
        return
    if not link.up:
        yield Fact("RV401", "link %s" % link.name, "up", "down")
        return
    other_planes = any(each.netdev and each.netdev.name == link.name for each in planes) and any(
        each.up for each in planes
    )
    if not link.carrier and not other_planes:
        reasons = [each.fact.found for each in planes if each.fact]
        yield Fact("RV402", "carrier of %s" % link.name, "yes", "; ".join(["no", *reasons]))
        return
    smaller = [each for each in (*seen.functions, *seen.planes) if each and rail.mtu and each.mtu < rail.mtu]
    if rail.mtu and link.mtu != rail.mtu:
        yield Fact("RV404", "mtu of %s" % link.name, str(rail.mtu), str(link.mtu))
    elif smaller:
        expected = "%d or more, because %s uses it" % (rail.mtu or 0, link.name)
        yield Fact("RV404", "mtu of %s" % smaller[0].name, expected, str(smaller[0].mtu))


def _speed(rail: Rail, seen: Observed) -> t.Iterator[Fact]:
    """Report the first cable that is slower than planned."""
    if not rail.speed:
        return
    links = [(each.name, each.speed) for each in seen.netdevs.values() if each.carrier]
    if not any(speed for _name, speed in links) and seen.rdma and not rail.soft:
        links = [(seen.rdma.name, port.rate) for port in seen.rdma.ports.values()]
    for name, speed in links:
        if speed and speed < rail.speed:
            yield Fact("RV403", "speed of %s" % name, "%g Gb/s" % rail.speed, "%g Gb/s" % speed)
            return


# -- RDMA and planes ---------------------------------------------------------------------------------------------------


def _rdma(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    device = seen.rdma
    if device is None:
        if rail.rdma and seen.other_rdma:
            yield Fact("RV406", "RDMA device", rail.rdma, seen.other_rdma)
        elif rail.rdma:
            yield Fact("RV405", "RDMA device", rail.rdma, "none")
        return
    functions = {rail.pci, *(each.pci for each in rail.functions), *(each.pci for each in rail.planes)} - {None}
    netdevs = {each.name for each in seen.netdevs.values()} | {each for each in (rail.netdev, rail.parent) if each}
    on_function = device.pci is None or not functions or device.pci in functions
    if not rail.soft and not on_function and not netdevs & device.netdevs:
        # a device of several ports, such as a bond, belongs to the netdevs of all of them
        yield Fact("RV406", "RDMA device", "%s of %s" % (rail.rdma, rail.pci or rail.netdev), "%s" % device.pci)
        return
    if any(each.up for each in planes):
        return
    if not device.ports:
        number = rail.rdma_port or next((each.rdma_port for each in rail.planes if each.rdma_port), 1)
        yield Fact("RV405", "port %d of %s" % (number, device.name), "present", "no such port")
    elif not any(port.state == ACTIVE for port in device.ports.values()):
        number, port = list(device.ports.items())[0]
        name = device.name if len(device.ports) == 1 else "port %d of %s" % (number, device.name)
        yield Fact("RV407", name, ACTIVE, _shown(port))


def _shown(port: RdmaPort) -> str:
    return "%s (%s)" % (port.state, port.physical)


def _label(plane: Plane, netdev: Netdev | None) -> str:
    """Return a plane for messages, such as ``plane 2 (eth_r0_p1, leaf-2 swp3)``."""
    leaf = " ".join(filter(None, plane.leaf)) if plane.leaf else ""
    port = "port %d" % plane.rdma_port if plane.rdma_port else ""
    known = ", ".join(filter(None, [port, netdev.name if netdev else plane.netdev or plane.pci, leaf]))
    return "plane %d (%s)" % (plane.number, known) if known else "plane %d" % plane.number


def _planes(rail: Rail, seen: Observed) -> list[_PlaneSeen]:
    """Return the planes with their states. What carries a plane: a member of the bond, an RDMA port, or a function."""
    if rail.bond:
        return [_PlaneSeen(plane, netdev, _carries(seen, netdev)) for plane, netdev in zip(rail.planes, seen.functions)]
    return [_plane(rail, seen, plane, netdev) for plane, netdev in zip(rail.planes, seen.planes)]


def _carries(seen: Observed, netdev: Netdev | None) -> bool:
    """Return whether a member of the bond carries its plane."""
    bond = seen.bond
    if bond is None or netdev is None or netdev.master != bond.netdev.ifindex or _why_no_link(netdev):
        return False
    return bond.mode != LACP or netdev.aggregator in (None, bond.aggregator)


def _plane(rail: Rail, seen: Observed, plane: Plane, netdev: Netdev | None) -> _PlaneSeen:
    what, number = _label(plane, netdev), plane.number
    by_function = bool(plane.pci or plane.netdev)
    if by_function and netdev is None:
        found = "no interface of %s" % (plane.pci or plane.netdev)
        return _PlaneSeen(plane, None, False, Fact("RV423", what, "present", found, number))
    why = _why_no_link(netdev) if netdev else ""
    speed = netdev.speed if netdev else None
    if plane.rdma_port and rail.rdma and not why:
        port = seen.rdma.ports.get(plane.rdma_port) if seen.rdma else None
        if port is None:
            found = "%s has no port %d" % (rail.rdma, plane.rdma_port)
            return _PlaneSeen(plane, netdev, False, Fact("RV423", what, "present", found, number))
        why = "" if port.state == ACTIVE else _shown(port)
        speed = speed or port.rate
    elif not by_function:
        return _PlaneSeen(plane, None, None)
    if why:
        return _PlaneSeen(plane, netdev, False, Fact("RV422", what, "a link", why, number))
    slow = None
    if rail.speed and speed and speed < rail.speed:
        slow = Fact("RV424", what, "%g Gb/s" % rail.speed, "%g Gb/s" % speed, number)
    return _PlaneSeen(plane, netdev, True, slow)


# -- addresses and leaves ----------------------------------------------------------------------------------------------


def _addresses(rail: Rail, seen: Observed, rdma_wrong: bool) -> t.Iterator[Fact]:
    if not seen.interface and not seen.bond:
        return
    for address in rail.addresses:
        if address not in seen.addresses:
            yield Fact("RV501", "address of %s" % rail.netdev, address, "none")
        elif seen.rdma and seen.rdma.gids is not None and address not in seen.rdma.gids and not rdma_wrong:
            yield Fact("RV511", "GIDs of %s" % seen.rdma.name, "RoCE v2 with %s" % address, "none")


def _leaves(rail: Rail, seen: Observed, planes: t.Sequence[_PlaneSeen]) -> t.Iterator[Fact]:
    """Compare the LLDP neighbours with the planned leaves. A neighbour that is not known is not judged."""
    if planes:
        for each in planes:
            if each.netdev and each.plane.leaf:
                yield from _leaf(seen, each.netdev, each.plane.leaf, each.plane.number)
        return
    leaves = [function.leaf for function in rail.functions] or [rail.leaf]
    netdevs = seen.functions or (seen.interface,)
    for netdev, leaf in zip(netdevs, leaves):
        if netdev and (leaf or rail.leaf):
            yield from _leaf(seen, netdev, leaf or rail.leaf)


def _leaf(seen: Observed, netdev: Netdev, leaf: Leaf | None, plane: int | None = None) -> t.Iterator[Fact]:
    heard = seen.neighbours.get(netdev.name)
    if not heard or leaf is None:
        return
    expected, found = " ".join(filter(None, leaf)), ", ".join(map(str, heard))
    on_leaf = [each for each in heard if leaf_names.same(leaf.name, each.system, each.chassis)]
    if not on_leaf:
        code, what = ("RV427", "plane %d" % plane) if plane else ("RV701", "leaf of %s" % netdev.name)
        yield Fact(code, what, expected, found, plane)
    elif leaf.port and not any(_is_port(leaf.port, each) for each in on_leaf):
        yield Fact("RV704", "leaf port of %s" % netdev.name, expected, found, plane)


def _is_port(port: str, neighbour: Neighbour) -> bool:
    return leaf_names.same(port, neighbour.port, neighbour.port_description)
