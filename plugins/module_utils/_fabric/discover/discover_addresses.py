# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive address schemes and node indexes that reproduce exactly the addresses of ports."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BY_NODE,
    LINK,
    NONE,
    PREFIX,
    SUBNET,
    Planner,
    Scheme,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.address_tracks import (
    Track,
    common_gateway,
    covering_network,
    find_common,
    smallest_subnet,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import (
    Findings,
    named,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.inferred_schemes import Ways, scheme_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.supernet_schemes import supernet_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    FAMILY,
    IPV4,
    IPV6,
    Network,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import natural

# Rail -> node -> its port.
Ports = t.Mapping[str, t.Mapping[str, Nic]]


@dataclass
class InferredAddresses:
    """Address schemes and node indexes that follow from the addresses of ports.

    :param schemes: rail -> family -> its scheme.
    :param indexes: node -> its index, if addresses determine it.
    :param modes: rail -> mode.
    :param cross_rail, source: what routes and rules show; None if they show nothing.
    """

    schemes: dict[str, dict[int, Scheme]] = field(default_factory=dict)
    indexes: dict[str, int] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    cross_rail: bool | None = None
    source: bool | None = None


def addressing(
    ports: Ports,
    numbers: t.Mapping[str, int | None],
    findings: Findings,
    given: t.Mapping[str, str],
    infiniband: t.Container[str],
    for_pods: t.Container[str],
    from_first: bool = False,
    supernet: Network | None = None,
) -> InferredAddresses:
    """Return the schemes and indexes of all rails.

    :param numbers: node -> the number in its name, which becomes its index if addresses permit it.
    :param given: ``pods`` and ``gateway`` as short forms.
    :param infiniband: the rails that need no addresses.
    :param for_pods: the rails that pods are attached to.
    :param from_first: whether pods' addresses can only begin with a subnet's first, as those of nv-ipam.
    :param supernet: the network of rails without addresses.
    :raises RailyardError: if the supernet is too small.
    """
    result = InferredAddresses()
    tracks = [track for rail in ports for track in _tracks(rail, ports[rail], findings)]
    find_common(tracks, numbers)
    _routing(ports, result)
    _rules(tracks, result, findings)
    _indexes(tracks, numbers, result, findings)
    _left(ports, tracks, numbers, result, findings)
    ways = Ways(findings, given, for_pods, from_first, max(result.indexes.values(), default=1))
    for track in tracks:
        scheme = scheme_of(track, ways)
        other = next(iter(result.schemes.get(track.rail, {}).values()), None)
        if other and other.part and scheme.part and other.numbering != scheme.numbering:
            message = "the rails of one network divide it in another way for IPv6 than for IPv4"
            remedy = "use one numbering for both; IPv6 was omitted from the file"
            findings.add("DS304", ("rails", track.rail), message, remedy)
            continue
        result.schemes.setdefault(track.rail, {})[track.bits] = scheme
        result.modes[track.rail] = track.mode
        _check(track, scheme, result, findings)
    missing = [rail for rail in ports if rail not in result.schemes]
    for rail in missing:
        result.modes[rail] = NONE if rail in infiniband else SUBNET
    missing = [rail for rail in missing if rail not in infiniband]
    if missing and supernet:
        _from_supernet(supernet, missing, numbers, result, ways, tracks)
    elif missing:
        one = len(missing) == 1
        message = "no port of %s has an address" % ("the rail" if one else named(missing, most=8))
        remedy = "set -e discover_supernet=NETWORK, such as 172.16.0.0/16, or add subnet, hosts and pods to the rail"
        findings.add("DS301", ("rails", missing[0]) if one else ("rails",), message, remedy + ("" if one else "s"))
    _foreign(tracks, findings)
    _overlapping(result, findings)
    _leased(ports, findings)
    return result


def _from_supernet(
    supernet: Network,
    rails: t.Sequence[str],
    numbers: t.Mapping[str, int | None],
    result: InferredAddresses,
    ways: Ways,
    tracks: t.Sequence[Track],
) -> None:
    """Give rails without addresses networks of the supernet. Indexes from names stay if the networks have room."""
    taken = [scheme.network for schemes in result.schemes.values() for scheme in schemes.values()]
    taken = [net for net in taken if net.bits == supernet.bits]

    def schemes() -> dict[str, Scheme]:
        highest = max(result.indexes.values(), default=1)
        return supernet_schemes(supernet, rails, ways.for_pods, highest, ways.given, taken)

    try:
        made = schemes()
    except RailyardError:
        if tracks:  # addresses determine the indexes
            raise
        result.indexes = {node: at for at, node in enumerate(sorted(numbers, key=natural), 1)}
        made = schemes()
    for rail, scheme in made.items():
        result.schemes[rail] = {supernet.bits: scheme}


def _leased(ports: Ports, findings: Findings) -> None:
    """Report temporary addresses of a rail's ports: one finding per rail and family."""
    for rail in ports:
        for bits, family in FAMILY.items():
            leased = {node: nic.leased[bits] for node, nic in ports[rail].items() if bits in nic.leased}
            if leased:
                first = next(iter(leased.values()))
                message = "ports have temporary %s addresses, such as %s, from DHCP or router advertisements" % (
                    family,
                    first,
                )
                remedy = (
                    "disable DHCP and router advertisements on rail ports, or choose a subnet without these addresses"
                )
                findings.add("DS312", ("rails", rail), message, remedy, leased)


def _tracks(rail: str, ports: t.Mapping[str, Nic], findings: Findings) -> t.Iterator[Track]:
    """Return the addresses of a rail per family. Report ports that do not fit to the others."""
    tracks: dict[int, Track] = {}
    for bits in (IPV4, IPV6):
        held_addresses = {node: nic.addresses[bits] for node, nic in ports.items() if bits in nic.addresses}
        if not held_addresses:
            continue
        common, _count = Counter(each.net.prefix for each in held_addresses.values()).most_common(1)[0]
        odd = {node: each for node, each in held_addresses.items() if each.net.prefix != common}
        for node, each in odd.items():
            message = "%s has the prefix length %d, but others have %d" % (
                show(each.address, bits),
                each.net.prefix,
                common,
            )
            findings.add(
                "DS304",
                ("rails", rail),
                message,
                "give it the prefix length of the others, as hosts.yml will do",
                [node],
            )
            del held_addresses[node]
        nets = {node: each.net for node, each in held_addresses.items()}
        link = common == bits - 1
        shared, number = Counter(nets.values()).most_common(1)[0]
        # Several nodes in one network share it; one node alone shows nothing, and a subnet is the default.
        mode = LINK if link else SUBNET if number > 1 or len(nets) == 1 else PREFIX
        for node in [node for node in nets if mode == SUBNET and nets[node] != shared]:
            message = "%s is not in %s" % (show(held_addresses[node].address, bits), shared)
            findings.add(
                "DS302", ("rails", rail), message, "check that the cable and the address belong to this rail", [node]
            )
            del held_addresses[node], nets[node]
        size = 1 if mode == SUBNET else 1 << bits - common
        addresses = {node: each.address for node, each in held_addresses.items()}
        units = {node: address // size for node, address in addresses.items()}
        gateways = {node: _via(ports[node], bits) for node in held_addresses}
        known = Counter(
            route.to
            for node in held_addresses
            for route in ports[node].routes
            if route.bits == bits and route.to and route.via is not None and mode != SUBNET
        ).most_common(1)
        track = Track(rail, bits, mode, size, addresses, units, nets, gateways, known[0][0] if known else None)
        if mode == SUBNET:
            track.known = shared
        tracks[bits] = track
    if len({track.mode for track in tracks.values()}) > 1:
        message = "IPv4 has the mode %s, but IPv6 has %s" % (tracks[IPV4].mode, tracks[IPV6].mode)
        findings.add("DS304", ("rails", rail), message, "use one mode for both; IPv6 was omitted from the file")
        del tracks[IPV6]
    yield from tracks.values()


def _via(nic: Nic, bits: int) -> int | None:
    """Return the next hop of routes over a port: that of the default route of its table, else of any route."""
    routes = [route for route in nic.routes if route.bits == bits and route.via is not None]
    routes.sort(key=lambda route: (route.to is not None, route.table is None))
    return routes[0].via if routes else None


def _routing(ports: Ports, result: InferredAddresses) -> None:
    """Set the routing that routes and rules of ports show."""
    nics = [nic for rail in ports.values() for nic in rail.values() if nic.addresses]
    if any(nic.table is not None for nic in nics):
        result.source = True
        routes = [route for nic in nics for route in nic.routes if route.table is not None and route.via is not None]
        if routes:
            result.cross_rail = any(route.to is None for route in routes)
    elif any(route.via is not None and route.to and route.table is None for nic in nics for route in nic.routes):
        result.source = False


# -- indexes -----------------------------------------------------------------------------------------------------------


def _fitting(track: Track, places: t.Mapping[str, int]) -> dict[str, int]:
    """Return the nodes of a track whose place minus the track's base is that of the node, with their places."""
    return {node: place for node, place in track.units.items() if place - track.base == places[node]}


def _indexes(
    tracks: t.Sequence[Track], numbers: t.Mapping[str, int | None], result: InferredAddresses, findings: Findings
) -> None:
    """Set the nodes' indexes: the places of each track minus the track's base. Report equal indexes."""
    if not tracks:
        return
    reference = max(tracks, key=lambda track: len(track.units))
    places = dict(reference.units)
    for _again in range(2):
        for track in tracks:
            distances = Counter(place - places[node] for node, place in track.units.items() if node in places)
            track.base = distances.most_common(1)[0][0] if distances else 0
        votes: dict[str, Counter[int]] = {}
        for track in tracks:
            for node, place in track.units.items():
                votes.setdefault(node, Counter())[place - track.base] += 1
        places = {node: counted.most_common(1)[0][0] for node, counted in votes.items()}
    for track in tracks:
        if track.own_size or track.numbering == BY_NODE:
            # All rails divide one range.
            track.base = Counter(each.base for each in track.common).most_common(1)[0][0]
    for track in tracks:
        # One wrong address must not widen a subnet.
        track.fitting = _fitting(track, places)
        if not track.fitting and not track.common:  # the addresses of other rails have moved all of its nodes
            track.base = Counter(place - places[node] for node, place in track.units.items()).most_common(1)[0][0]
            track.fitting = _fitting(track, places)
        track.most = max(track.fitting.values(), default=track.base)
    shift = _shift(tracks, places, numbers)
    result.indexes = {node: place + shift for node, place in places.items()}
    for track in tracks:
        track.base -= shift
    taken: dict[int, str] = {}
    for node, index in result.indexes.items():
        first = taken.setdefault(index, node)
        if first != node:
            message = "%s and %s have the same index according to their addresses" % (first, node)
            findings.add("DS305", ("nodes",), message, "give one of them another address or index", [first, node])


def _rules(tracks: t.Sequence[Track], result: InferredAddresses, findings: Findings) -> None:
    """Rails of one network need rules by source. Report nodes that have none."""
    flat = [track for track in tracks if track.common and track.mode == SUBNET]
    if flat and result.source is False:
        result.source = None
        message = "ports share one network and have no rules by source, but the plan has them"
        findings.add("DS308", ("fabric",), message, "run hosts.yml, which sets the planned value")


def _left(
    ports: Ports,
    tracks: t.Sequence[Track],
    numbers: t.Mapping[str, int | None],
    result: InferredAddresses,
    findings: Findings,
) -> None:
    """Set the indexes of nodes without addresses, and make room for all nodes on every rail."""
    taken = set(result.indexes.values())
    for node, number in sorted(numbers.items()):
        if node not in result.indexes:
            free = number if number and number not in taken else next(at for at in range(1, 65537) if at not in taken)
            result.indexes[node] = free
            taken.add(free)
    for track in tracks:
        unaddressed = [
            node
            for node, nic in ports[track.rail].items()
            if node not in track.units and track.bits not in nic.addresses and nic.netdev
        ]
        if unaddressed:
            message = "the port has no %s address, but others of the rail do" % FAMILY[track.bits]
            findings.add(
                "DS311", ("rails", track.rail), message, "run hosts.yml, which sets the planned value", unaddressed
            )
        track.most = track.base + max(result.indexes[node] for node in ports[track.rail])
    for track in tracks:
        # Rails with a network in common share their places.
        if track.own_size or track.numbering == BY_NODE:
            track.most = max(each.most for each in track.common)


def _shift(tracks: t.Sequence[Track], places: t.Mapping[str, int], numbers: t.Mapping[str, int | None]) -> int:
    """Return the number to add to places to get indexes: those in names if possible, else so that subnets fit."""
    lowest = min(places.values())
    shifts: list[int] = []
    distances = Counter(
        number - places[node] for node, number in numbers.items() if number is not None and node in places
    )
    shifts.extend(shift for shift, _count in distances.most_common(1))
    shifts.append(1 - lowest)
    for track in tracks:
        if track.mode != SUBNET:
            net = track.known or covering_network(track.fitting.values(), track.size, track.bits)
            shifts.append(1 - (net.first // track.size) + track.base)
    for shift in shifts:
        if lowest + shift >= 1 and all(_fits(track, shift) for track in tracks):
            return shift
    return 1 - lowest


def _fits(track: Track, shift: int) -> bool:
    """Return whether indexes with this shift are possible on a track."""
    start = track.base - shift + 1
    if track.mode == SUBNET and track.known:
        # The range of hosts begins with index 1, even if no node has it: the gateway must not be in it.
        via, hosts = common_gateway(track), track.hosts(start, track.most)
        return hosts.first >= track.known.usable.first and not (via is not None and hosts.first <= via <= hosts.last)
    return smallest_subnet(track, start) is not None


def _check(track: Track, scheme: Scheme, result: InferredAddresses, findings: Findings) -> None:
    """Report addresses that the planner does not reproduce with the scheme."""
    plan: Planner = planner(scheme)
    for node, address in sorted(track.addresses.items()):
        reproduced = plan.share(0, 0, result.indexes[node]).address
        if reproduced != address:
            planned = "none" if reproduced is None else show(reproduced, track.bits)
            message = "the node has %s, but the plan has %s" % (show(address, track.bits), planned)
            remedy = "correct the node's index, or run hosts.yml, which sets the planned address"
            findings.add("DS302", ("rails", track.rail), message, remedy, [node])


def _foreign(tracks: t.Sequence[Track], findings: Findings) -> None:
    """Report duplicate addresses, and rails whose networks overlap."""
    first: dict[tuple[int, int], str] = {}
    for track in tracks:
        for node, address in track.addresses.items():
            rail = first.setdefault((track.bits, address), track.rail + "\n" + node)
            other, _line, owner = rail.partition("\n")
            if (other, owner) != (track.rail, node):
                message = "%s is on %s of %s and on %s of %s" % (
                    show(address, track.bits), other, owner, track.rail, node,
                )  # fmt: skip
                findings.add("DS305", ("rails", track.rail), message, "give one of them another address", [owner, node])
    nets: dict[Network, str] = {}
    for track in tracks:
        for net in sorted(set(track.nets.values()), key=lambda each: each.first):
            other = nets.setdefault(net, track.rail)
            if other != track.rail and other not in [each.rail for each in track.common]:
                message = "%s is also the network of %s" % (net, other)
                remedy = "check whether cables or addresses are swapped, or whether the ports belong to one rail"
                findings.add("DS309", ("rails", track.rail), message, remedy)


def _overlapping(result: InferredAddresses, findings: Findings) -> None:
    """Report inferred networks that overlap, but are not one network that rails have in common."""
    nets = [
        (scheme.network, rail, scheme.part is not None)
        for rail, schemes in result.schemes.items()
        for scheme in schemes.values()
    ]
    nets.sort(key=lambda each: (each[0].bits, each[0].first, each[0].prefix))
    for (before, other, _shared), (after, rail, shared) in zip(nets, nets[1:]):
        if before.bits == after.bits and after.first <= before.last and not (shared and before == after):
            message = "the networks of its nodes follow no order: %s overlaps %s of %s" % (after, before, other)
            remedy = "write the subnet, node_prefix and node_aggregate of the rails, and the nodes' indexes"
            findings.add("DS309", ("rails", rail), message, remedy)
