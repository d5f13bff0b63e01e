# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer of cabling: compare the LLDP neighbour of each port with the planned leaf and port."""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import leaf_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    functions,
    leaf_of,
    link_layer_of,
    planes_of,
    rails_of_network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    NOT_THOROUGH,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import plane_cabling, plane_layer

Place = t.Tuple[str, str]
_ENABLE = "enable it on the leaves, run with -e verify_lldp_seconds=31"
# netdev of a bond's member -> its LLDP neighbour; members without one are not included
Members = t.Dict[str, Row]


def cabling(run: Run) -> None:
    """Check that every port is on the planned leaf or, without planned leaves, on the leaf of its neighbours."""
    heard: dict[Place, Row] = {}
    # each member of a bond has its own cable
    bonds: dict[Place, Members] = {}
    # so has each plane of a NIC
    planes: dict[Place, plane_cabling.Heard] = {}
    ports: dict[Place, Row] = {}
    mute: list[Place] = []
    for report in run.nodes():
        live = report.live
        rows = {row["netdev"]: row for row in live.info.get("lldp") or ()}
        for port in report.plan["ports"]:
            place = (report.name, port["rail"])
            ports[place] = port
            if planes_of(port):
                of_planes = [each for each in plane_layer.observe(live, port) if each.netdev in rows]
                planes[place] = {each.number: rows[str(each.netdev)] for each in of_planes}
                if len(of_planes) < len(planes_of(port)) and link_layer_of(run.fabric, port) != INFINIBAND:
                    mute.append(place)
                continue
            found = {nic["netdev"]: rows[nic["netdev"]] for nic in live.functions(port) if nic["netdev"] in rows}
            cables = len(functions(port))
            if found and cables == 1:
                heard.update((place, row) for row in found.values())
            elif found:
                bonds[place] = found
            if len(found) < cables and link_layer_of(run.fabric, port) != INFINIBAND:
                mute.append(place)
    networks = rails_of_network(run.fabric)
    only_lldp = "; on one network for several rails, only LLDP shows swapped cables" if networks else ""
    if (
        not heard
        and not bonds
        and not any(planes.values())
        and all(link_layer_of(run.fabric, port) == INFINIBAND for port in ports.values())
    ):
        run.why_not["cabling"] = "InfiniBand has no LLDP: run ibnetdiscover on a node to see the cabling"
        return
    if not heard and not bonds and not any(planes.values()):
        enable = "no port receives LLDP: %s" % _ENABLE + only_lldp
        run.why_not["cabling"] = enable if run.thorough else NOT_THOROUGH
        return
    if mute:
        run.why_not["cabling"] = "%d ports receive no LLDP" % len(mute) + only_lldp
    for node, rail in mute:
        if rail in run.rails and not run.blocked("cabling", node, rail):
            run.unknown("cabling", node, rail, "leaf", "the port receives no LLDP", _ENABLE)
    _against_plan(run, ports, heard)
    members = [(place, row) for place, rows in bonds.items() for row in rows.values()]
    each_plane = [(place, row) for place, by_plane in planes.items() for row in by_plane.values()]
    _described_addresses(run, ports, [*heard.items(), *members, *each_plane])
    _against_neighbours(run, ports, heard, networks)
    _bonds(run, ports, bonds)
    _planes(run, ports, planes)


def _against_plan(run: Run, ports: t.Mapping[Place, Row], heard: t.Mapping[Place, Row]) -> None:
    """Compare the neighbours with the planned leaves and leaf ports."""
    reported: set[Place] = set()
    for place, row in heard.items():
        port = ports[place]
        node, rail = place
        if (
            place in reported
            or rail not in run.rails
            or not is_named(run, node, port)
            or not _is_first(run, node, port)
        ):
            continue
        if not run.look("cabling", node, rail):
            continue
        if not _is_leaf(row, port["leaf"]["name"]):
            swapped = _swapped(run, place, ports, heard)
            if swapped:
                reported.update(((node, rail), (node, swapped)))
                _swap(run, node, rail, swapped, ports, heard)
                continue
            belongs = next((each for each in _rails(run, node) if _on(row, ports[node, each])), None)
            cause = "its cable is plugged into the leaf of %s" % belongs if belongs else None
            about = {"expected": _planned(port), "found": _observed(row), "cause": cause}
            run.fail("RV701", node, rail, "leaf", others=[belongs] if belongs else [], **about)
        elif port["leaf"]["port"] and not leaf_names.same(port["leaf"]["port"], row["port"], row["port_description"]):
            found = "%s %s" % (port["leaf"]["name"], row["port"])
            run.fail("RV704", node, rail, "leaf port", expected=_planned(port), found=found)


def _described_addresses(run: Run, ports: t.Mapping[Place, Row], heard: t.Iterable[tuple[Place, Row]]) -> None:
    """Warn about an address in an LLDP port description that is not the planned one of the leaf.

    Intel's network-operator (README.md, L3 mode, 2026-08-17) sets the addresses of Gaudi from such a description, for
    example ``no-alert 10.200.10.2/30``. It is only a text, so it never causes a failure.
    """
    for (node, rail), row in heard:
        described = _interface(row["port_description"])
        if rail not in run.rails or described is None or not run.look("cabling", node, rail):
            continue
        port, suffix = ports[node, rail], "6" if described.version == 6 else ""
        leaf, address = (port.get("leaf") or {}).get("address" + suffix), port.get("address" + suffix)
        expected = "%s/%s" % (leaf, str(address).partition("/")[2])
        if leaf and address and described != ipaddress.ip_interface(expected):
            what = "address of the leaf port of %s" % row["netdev"]
            run.warn("RV706", node, rail, what, expected=expected, found=str(described))


def _interface(description: str | None) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """Return the first address with a prefix in a port description; None without one."""
    for word in (description or "").split():
        with contextlib.suppress(ValueError):
            if "/" in word:
                return ipaddress.ip_interface(word)
    return None


def _is_first(run: Run, node: str, port: Row) -> bool:
    """Return whether a port is the first of those that share its cables. Each VLAN on them has a planned leaf port."""
    if not port.get("lower"):
        return True
    cables = [(each["pci"], each["netdev"], each["match"]) for each in functions(port)]
    first = next(
        other
        for other in run.reports[node].plan["ports"]
        if [(each["pci"], each["netdev"], each["match"]) for each in functions(other)] == cables
    )
    return bool(first["rail"] == port["rail"])


def _planned(port: Row) -> str:
    """Return the planned leaf and leaf port as text."""
    return " ".join(each for each in (port["leaf"]["name"], port["leaf"]["port"]) if each)


def _observed(row: Row) -> str:
    """Return the observed leaf and leaf port as text."""
    return "%s %s" % (row["system"] or row["chassis"], row["port"])


def _rails(run: Run, node: str) -> list[str]:
    return [port["rail"] for port in run.reports[node].plan["ports"]]


def _swapped(run: Run, place: Place, ports: t.Mapping[Place, Row], heard: t.Mapping[Place, Row]) -> str | None:
    """Return the rail of the same node whose cable is swapped with the cable of this port; None if none is."""
    node, rail = place
    for other_rail in _rails(run, node):
        both = other_rail != rail and (node, other_rail) in heard
        if both and _on(heard[place], ports[node, other_rail]) and _on(heard[node, other_rail], ports[place]):
            return other_rail
    return None


def _on(row: Row, port: Row) -> bool:
    """Return whether a neighbour is the planned leaf of a port."""
    leaf = port["leaf"]
    return bool(leaf and leaf["name"]) and _is_leaf(row, leaf["name"])


def _swap(
    run: Run, node: str, first: str, second: str, ports: t.Mapping[Place, Row], heard: t.Mapping[Place, Row]
) -> None:
    run.fail(
        *("RV702", node, first, "cables of %s and %s" % (first, second)),
        expected="%s on %s, %s on %s" % (first, _planned(ports[node, first]), second, _planned(ports[node, second])),
        found=", ".join("%s on %s" % (rail, _observed(heard[node, rail])) for rail in (first, second)),
        others=[second],
    )


def is_named(run: Run, node: str, port: Row) -> bool:
    """Return whether the fabric file defines the name of the leaf. The default name is UNIT-RAIL."""
    leaf = port.get("leaf") or {}
    return bool(leaf.get("name")) and leaf["name"] != "%s-%s" % (run.reports[node].plan["unit"], port["rail"])


def _is_leaf(row: Row, name: str) -> bool:
    return leaf_names.same(name, row["system"], row["chassis"])


def _against_neighbours(
    run: Run, ports: t.Mapping[Place, Row], heard: t.Mapping[Place, Row], networks: t.Container[str]
) -> None:
    """Report ports that are not on the same leaf as most ports of their rail and unit.

    Without units, and on one network for several rails (``networks``), a rail may have several leaves. Then only ports
    on a leaf of another rail are reported.
    """
    groups: dict[tuple[str | None, str], dict[str, Row]] = {}
    for (node, rail), row in heard.items():
        if rail in run.rails and not is_named(run, node, ports[node, rail]):
            groups.setdefault((run.reports[node].plan["unit"], rail), {})[node] = row
    numbers = collections.Counter((row["chassis"], rail) for (_node, rail), row in heard.items())
    for (unit, rail), rows in groups.items():
        names = collections.Counter(row["chassis"] for row in rows.values())
        most, number = names.most_common(1)[0]
        for node, row in rows.items():
            if not run.look("cabling", node, rail) or row["chassis"] == most:
                continue
            if (unit is None or rail in networks) and not _of_another_rail(run, (node, rail), heard, numbers):
                continue
            on_most = sorted(each for each in rows if rows[each]["chassis"] == most)
            clear = number > len(rows) - number
            cause = None if clear else "the cable of this port or that of %s is in another leaf" % ", ".join(on_most)
            called = {each["chassis"]: each["system"] or each["chassis"] for each in rows.values()}
            expected = "%s as %s" % (called[most], ", ".join(on_most[:3]))
            found = "%s %s" % (called[row["chassis"]], row["port"])
            run.fail("RV703", node, rail, "leaf", expected=expected, found=found, cause=cause, peer=on_most[0])


def _bonds(run: Run, ports: t.Mapping[Place, Row], bonds: t.Mapping[Place, Members]) -> None:
    """Report members with another leaf than planned or, without planned leaves, than most bonds of the rail have.

    The cables of a bond lead to one leaf or to a pair of leaves. Without units a rail may have several pairs. Then only
    bonds that share a leaf are compared.
    """
    groups: dict[tuple[str | None, str], dict[str, Members]] = {}
    for (node, rail), members in bonds.items():
        if rail not in run.rails or not run.look("cabling", node, rail):
            continue
        if is_named(run, node, ports[node, rail]):
            if _is_first(run, node, ports[node, rail]):
                _planned_members(run, (node, rail), ports[node, rail], members)
            continue
        groups.setdefault((run.reports[node].plan["unit"], rail), {})[node] = members
    for (unit, rail), by_node in groups.items():
        leaves = {node: frozenset(row["chassis"] for row in members.values()) for node, members in by_node.items()}
        complete = [node for node in leaves if len(by_node[node]) == len(functions(ports[node, rail]))]
        numbers = collections.Counter(leaves[node] for node in complete)
        order = list(numbers)
        for node, own in leaves.items():
            if node not in complete:
                # the leaves of members without LLDP are unknown
                own = max((each for each in order if own <= each), key=lambda each: numbers[each], default=own)
            others = [each for each in order if each != own and (unit is not None or each & own)]
            most = max(others, key=lambda each: numbers[each], default=own)
            clear = numbers[most] > numbers[own]
            if most != own and (clear or (numbers[most] == numbers[own] and order.index(most) < order.index(own))):
                alike = [each for each in leaves if leaves[each] == most]
                _other_leaf(run, (node, rail), by_node, alike, clear)


def _planned_members(run: Run, place: Place, port: Row, members: Members) -> None:
    """Report the members of a bond with another leaf or leaf port than planned."""
    node, rail = place
    wrong: list[tuple[str, Row]] = []
    for function in functions(port):
        netdev = (run.reports[node].live.nic(function) or {}).get("netdev")
        row = members.get(netdev or "")
        if row is None:
            continue
        planned = dict(port, leaf=leaf_of(port, function))
        if not _on(row, planned):
            wrong.append((str(netdev), planned))
        elif planned["leaf"]["port"] and not leaf_names.same(
            planned["leaf"]["port"], row["port"], row["port_description"]
        ):
            found = "%s %s" % (planned["leaf"]["name"], row["port"])
            run.fail("RV704", node, rail, "leaf port of %s" % netdev, expected=_planned(planned), found=found)
    if wrong:
        run.fail(
            *("RV705", node, rail, "leaf of %s" % ", ".join(netdev for netdev, _planned_port in wrong)),
            expected=", ".join("%s on %s" % (netdev, _planned(planned)) for netdev, planned in wrong),
            found=", ".join("%s on %s" % (netdev, _observed(members[netdev])) for netdev, _planned_port in wrong),
            remedy="plug it into the planned leaf, or correct the plan",
        )


def _planes(run: Run, ports: t.Mapping[Place, Row], planes: t.Mapping[Place, plane_cabling.Heard]) -> None:
    """Report planes with another leaf or leaf port than planned or, without planned leaves, than most nodes have."""
    groups: dict[tuple[str | None, str], dict[str, plane_cabling.Heard]] = {}
    for (node, rail), heard in planes.items():
        port = ports[node, rail]
        if rail not in run.rails or not heard or not run.look("cabling", node, rail):
            continue
        leaves = {row["plane"]: dict(port, leaf=row.get("leaf") or port["leaf"]) for row in planes_of(port)}
        if not is_named(run, node, leaves[min(leaves)]):
            groups.setdefault((run.reports[node].plan["unit"], rail), {})[node] = heard
            continue
        for plane in plane_cabling.planned(run, (node, rail), heard, _is_leaf, port):
            leaf, row = leaves[plane]["leaf"], heard[plane]
            if leaf["port"] and not leaf_names.same(leaf["port"], row["port"], row["port_description"]):
                found = "%s %s" % (leaf["name"], row["port"])
                what, expected = "leaf port of plane %d" % plane, _planned(leaves[plane])
                run.fail("RV704", node, rail, what, expected=expected, found=found)
    for (unit, rail), by_node in groups.items():
        plane_cabling.neighbours(run, unit, rail, by_node)


def _other_leaf(run: Run, place: Place, by_node: t.Mapping[str, Members], alike: t.Sequence[str], clear: bool) -> None:
    """Report the members of a bond with another leaf than the members on other nodes.

    :param alike: nodes whose bonds have the usual leaves. ``clear``: whether most nodes have these leaves.
    """
    node, rail = place
    usual = {row["chassis"]: row for row in by_node[alike[0]].values()}
    members = by_node[node]
    wrong = [netdev for netdev, row in members.items() if row["chassis"] not in usual] or list(members)
    expected = "%s as %s" % (
        " and ".join(row["system"] or row["chassis"] for row in usual.values()),
        ", ".join(alike[:3]),
    )
    found = ", ".join("%s on %s" % (netdev, _observed(members[netdev])) for netdev in wrong)
    cause = None if clear else "a cable of this bond or of the bond of %s leads to another leaf" % alike[0]
    run.fail(
        *("RV705", node, rail, "leaf of %s" % ", ".join(wrong)),
        expected=expected,
        found=found,
        cause=cause,
        peer=None if clear else alike[0],
    )


def _of_another_rail(
    run: Run, place: Place, heard: t.Mapping[Place, Row], numbers: t.Mapping[tuple[str, str], int]
) -> bool:
    """Return whether another rail has far more ports on the leaf of a port, or the two rails are swapped."""
    node, rail = place
    leaf = heard[place]["chassis"]
    for other_rail in _rails(run, node):
        if other_rail == rail or not numbers.get((leaf, other_rail)):
            continue
        own = heard.get((node, other_rail), {}).get("chassis")
        if numbers[leaf, other_rail] >= 2 * numbers[leaf, rail] or (
            own not in (None, leaf) and numbers.get((own, rail))
        ):
            return True
    return False
