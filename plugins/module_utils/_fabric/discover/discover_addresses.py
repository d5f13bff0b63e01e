# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive address schemes and node indexes that reproduce exactly the addresses of ports."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field, replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    FIRST,
    LAST,
    LINK,
    NONE,
    PREFIX,
    SECOND,
    SUBNET,
    Planner,
    Scheme,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import Nic, most_common
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    FAMILY,
    IPV4,
    IPV6,
    SUFFIX,
    Network,
    Range,
    covering,
    link_local,
    network,
    parse_address,
    parse_range,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    Ranges,
    longest,
    single,
    without,
)

# Rail -> node -> its port.
Ports = t.Mapping[str, t.Mapping[str, Nic]]
# The widest subnet that is tried before indexes are counted in another way.
_WIDEST = {IPV4: 8, IPV6: 32}


@dataclass
class Track:
    """One rail in one family.

    :param size: addresses of a node's share: 1 in the mode subnet.
    :param units: node -> place of its share, in units of ``size``, from any start.
    :param fitting: the units that agree with those of the other rails.
    :param most: the last place that a node has.
    :param base: the place of index 0.
    :param known: the rail's network, if a route shows it.
    """

    rail: str
    bits: int
    mode: str
    size: int
    addresses: dict[str, int]
    units: dict[str, int]
    nets: dict[str, Network]
    gateways: dict[str, int | None]
    known: Network | None = None
    fitting: dict[str, int] = field(default_factory=dict)
    most: int = 0
    base: int = 0


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
    infiniband: bool,
    from_first: bool = False,
) -> InferredAddresses:
    """Return the schemes and indexes of all rails.

    :param numbers: node -> the number in its name, which becomes its index if addresses permit it.
    :param given: ``pods`` and ``gateway`` as short forms.
    :param from_first: whether pods' addresses can only begin with a subnet's first, as those of nv-ipam.
    """
    result = InferredAddresses()
    tracks = [track for rail in ports for track in _tracks(rail, ports[rail], findings)]
    _routing(ports, result)
    _indexes(tracks, numbers, result, findings)
    _left(ports, tracks, numbers, result, findings)
    for track in tracks:
        scheme = _scheme(track, findings, given, from_first)
        result.schemes.setdefault(track.rail, {})[track.bits] = scheme
        result.modes[track.rail] = track.mode
        _check(track, scheme, result, findings)
    for rail in ports:
        if rail not in result.schemes:
            result.modes[rail] = NONE if infiniband else SUBNET
            if not infiniband:
                message = "no port of the rail has an address"
                findings.add("DS301", ("rails", rail), message, "add subnet, hosts and pods to the rail")
    _foreign(tracks, findings)
    _leased(ports, findings)
    return result


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
        # One wrong address must not widen a subnet.
        track.fitting = _fitting(track, places)
        if not track.fitting:  # the addresses of other rails have moved all of its nodes
            track.base = Counter(place - places[node] for node, place in track.units.items()).most_common(1)[0][0]
            track.fitting = _fitting(track, places)
        track.most = max(track.fitting.values())
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
            net = track.known or _covering(track.fitting.values(), track.size, track.bits)
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
        via, end = _gateway(track), track.most
        low = track.known.usable.first
        return start >= low and not (via is not None and start <= via <= end)
    return _subnet(track, start) is not None


def _subnet(track: Track, start: int) -> Network | None:
    """Return the smallest network that begins with the place of index 1 and contains all nodes' places."""
    first = start * track.size
    last = (track.most + 1) * track.size - 1
    if track.known is not None:
        return track.known if track.known.first == first and track.known.last >= last else None
    for prefix in range(track.bits - (track.size.bit_length() - 1), _WIDEST[track.bits] - 1, -1):
        net = network(first, prefix, track.bits)
        if net.first != first:
            return None
        if net.last >= last:
            return net
    return None


def _covering(units: t.Iterable[int], size: int, bits: int) -> Network:
    """Return the smallest network that contains the shares at these places."""
    places = list(units)
    return covering(min(places) * size, (max(places) + 1) * size - 1, bits)


# -- schemes -----------------------------------------------------------------------------------------------------------


def _scheme(track: Track, findings: Findings, given: t.Mapping[str, str], from_first: bool) -> Scheme:
    if track.mode == SUBNET:
        return _common(track, findings, given, from_first)
    net = _subnet(track, track.base + 1)
    if net is None:
        message = "no network begins with the address of the node with index 1 (%s)" % show(
            (track.base + 1) * track.size, track.bits
        )
        remedy = "set the rail's subnet and the nodes' indexes; the values in the file renumber nodes"
        findings.add("DS302", ("rails", track.rail), message, remedy)
        net = track.known or _covering(track.fitting.values(), track.size, track.bits)
    if track.mode == LINK:
        ends = Counter(address % 2 for address in track.addresses.values())
        own = ends.most_common(1)[0][0]
        return Scheme(LINK, net, leaf_end=FIRST if own else SECOND)
    return _own(track, net)


def _own(track: Track, net: Network) -> Scheme:
    """Return the scheme of mode prefix whose gateway and port positions reproduce the addresses of the most ports."""
    length = track.bits - (track.size.bit_length() - 1)
    local = _gateway(track)
    routers = (local,) if local is not None and link_local(local, track.bits) else (FIRST, LAST, NONE)
    schemes = [
        Scheme(PREFIX, net, gateway=gateway, node_prefix=length, host=host)
        for gateway in routers
        for host in (FIRST, LAST)
    ]
    best = max(schemes, key=lambda scheme: _reproduced(track, scheme))
    # the defaults are not written
    gateway = None if best.gateway == FIRST else best.gateway
    return replace(best, gateway=gateway, host=None if best.host == FIRST else best.host)


def _reproduced(track: Track, scheme: Scheme) -> int:
    """Return how many addresses, which count twice, and gateways of ports are those of the scheme."""
    plan, count = planner(scheme), 0
    for node, address in track.addresses.items():
        share, via = plan.share(0, 0, track.units[node] - track.base), track.gateways[node]
        count += 2 * (share.address == address) + (via is not None and share.gateway == via)
    return count


def _common(track: Track, findings: Findings, given: t.Mapping[str, str], from_first: bool) -> Scheme:
    """Return the scheme of mode subnet. Report differing gateways and inferred pod addresses."""
    net = track.known
    if net is None:
        raise AssertionError("the network of a track is known here")
    place = ("rails", track.rail)
    usable = net.usable
    first = max(track.base + 1, usable.first)
    hosts = Range(first, max(first, min(track.most, usable.last)), track.bits)
    vias = {via for via in track.gateways.values() if via is not None}
    gateway = _gateway(track)
    if len(vias) > 1:
        message = "gateways are %s" % " and ".join(show(via, track.bits) for via in sorted(vias))
        findings.add(
            "DS307", place, message, "set gateway to the address of the leaf; hosts.yml configures it on all nodes"
        )
    suffix = SUFFIX[track.bits]
    stated = given.get("gateway" + suffix)
    if gateway is None and stated:
        gateway = parse_address(stated, net)
    stated_pods = parse_range(given["pods" + suffix], net) if given.get("pods" + suffix) else None
    if stated_pods:
        pods: Ranges | None = Ranges.of(Range(stated_pods[0], stated_pods[1], track.bits))
    else:
        own_gateway = None if gateway is None or not net.holds(gateway) else gateway
        free = _free(hosts, own_gateway, usable, from_first)
        pods = Ranges.of(free) if free else None
        message = "pods get the addresses of the rails' %ssubnets that hosts and gateways do not use" % (
            "IPv6 " if suffix else ""
        )
        remedy = "check that these addresses are unused, or set -e discover_pods%s=FIRST-LAST" % suffix
        findings.add("DS306", ("rails",), message, remedy)
    return Scheme(SUBNET, net, gateway=gateway, pods=pods, hosts=Ranges.of(hosts))


def _gateway(track: Track) -> int | None:
    """Return the gateway of most nodes; None without one."""
    return most_common(track.gateways.values())


def _free(hosts: Range, gateway: int | None, usable: Range, from_first: bool) -> Range | None:
    """Return the longest range of addresses that hosts and the gateway leave free."""
    free = without([usable], [hosts] if gateway is None else [hosts, single(gateway, usable.bits)])
    chosen = free[0] if from_first and free and free[0].first == usable.first else longest(free)
    # a pool of a whole /64 is too large to be useful
    return Range(chosen.first, min(chosen.last, chosen.first + 4095), chosen.bits) if chosen else None


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
            if other != track.rail:
                message = "%s is also the network of %s" % (net, other)
                remedy = "check whether cables or addresses are swapped, or whether the ports belong to one rail"
                findings.add("DS309", ("rails", track.rail), message, remedy)
