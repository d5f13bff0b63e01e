# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address scheme of a rail that reproduces the addresses of its ports, with addresses for pods."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BY_RAIL,
    FIRST,
    LAST,
    LINK,
    NONE,
    PREFIX,
    SECOND,
    SUBNET,
    Scheme,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.address_tracks import (
    Track,
    common_gateway,
    covering_network,
    rail_parts,
    smallest_subnet,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    SUFFIX,
    Network,
    Range,
    link_local,
    parse_range,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import (
    Ranges,
    longest,
    single,
    without,
)

# Family -> the form of a range in options.
_RANGES = {IPV4: ".1-.200", IPV6: "::1-::ffff"}


class Ways(t.NamedTuple):
    """What schemes follow from beside the addresses: see :func:`.discover_addresses.addressing`.

    :param indexes: the highest index of a node.
    """

    findings: Findings
    given: t.Mapping[str, str]
    for_pods: t.Container[str]
    from_first: bool
    indexes: int


def scheme_of(track: Track, ways: Ways) -> Scheme:
    """Return the address scheme of a rail."""
    if track.mode == SUBNET:
        return _common(track, ways)
    net = smallest_subnet(track, track.base + 1)
    if net is None:
        message = "no network begins with the address of the node with index 1 (%s)" % show(
            (track.base + 1) * track.size, track.bits
        )
        remedy = "set the rail's subnet and the nodes' indexes; the values in the file renumber nodes"
        ways.findings.add("DS302", ("rails", track.rail), message, remedy)
        net = track.known or covering_network(track.fitting.values(), track.size, track.bits)
    if track.mode == LINK:
        ends = Counter(address % 2 for address in track.addresses.values())
        own = ends.most_common(1)[0][0]
        return replace(Scheme(LINK, net, leaf_end=FIRST if own else SECOND), **_aggregate(track))
    return _own(track, net)


def _aggregate(track: Track) -> dict[str, t.Any]:
    """Return the values of the aggregate per node, if rails have one."""
    if not track.own_size:
        return {}
    return {"node_aggregate": track.bits - (track.size.bit_length() - 1), "part": track.part}


def _own(track: Track, net: Network) -> Scheme:
    """Return the scheme of mode prefix whose gateway and port positions reproduce the addresses of the most ports."""
    length = track.bits - ((track.own_size or track.size).bit_length() - 1)
    local = common_gateway(track)
    routers = (local,) if local is not None and link_local(local, track.bits) else (FIRST, LAST, NONE)
    schemes = [
        Scheme(PREFIX, net, gateway=gateway, node_prefix=length, host=host, **_aggregate(track))
        for gateway in routers
        for host in (FIRST, LAST)
    ]
    best = max(schemes, key=lambda scheme: _reproduced(track, scheme))
    # the defaults are not written
    gateway = None if best.gateway == FIRST else best.gateway
    return replace(best, gateway=gateway, host=None if best.host == FIRST else best.host)


def _reproduced(track: Track, scheme: Scheme) -> int:
    """Return how many addresses and gateways of ports equal the scheme's; an address counts twice."""
    plan, count = planner(scheme), 0
    for node, address in track.addresses.items():
        share, via = plan.share(0, 0, track.units[node] - track.base), track.gateways[node]
        count += 2 * (share.address == address) + (via is not None and share.gateway == via)
    return count


def _common(track: Track, ways: Ways) -> Scheme:
    """Return the scheme of mode subnet. Report differing gateways and inferred pod addresses."""
    net, findings = track.known, ways.findings
    if net is None:
        raise AssertionError("a track needs its network here")
    place = ("rails", track.rail)
    usable = net.usable
    hosts, numbering = _hosts(track, usable, ways.indexes)
    vias = {via for via in track.gateways.values() if via is not None}
    gateway = common_gateway(track)
    if len(vias) > 1:
        message = "gateways are %s" % " and ".join(show(via, track.bits) for via in sorted(vias))
        findings.add(
            "DS307", place, message, "set gateway to the address of the leaf; hosts.yml configures it on all nodes"
        )
    own_gateway, own_pods = stated(ways.given, net)
    if gateway is None:
        gateway = own_gateway
    pods = _pods(track, numbering, gateway, own_pods, ways) if track.rail in ways.for_pods else None
    part = track.part
    return Scheme(SUBNET, net, gateway=gateway, pods=pods, hosts=Ranges.of(hosts), numbering=numbering, part=part)


def _hosts(track: Track, usable: Range, indexes: int) -> tuple[Range, str | None]:
    """Return the addresses of ports, and how the rails of one network divide them."""
    if track.common and track.numbering is None:
        whole = rail_parts(track.common, usable, indexes)
        if whole:
            return whole, BY_RAIL
    hosts = track.hosts(track.base + 1, track.most)
    first = max(hosts.first, usable.first)
    return Range(first, max(first, min(hosts.last, usable.last)), track.bits), track.numbering


def stated(given: t.Mapping[str, str], net: Network) -> tuple[int | None, Range | None]:
    """Return the gateway and the pod addresses of a network that options set.

    :raises RailyardError: for an invalid option.
    """
    suffix = SUFFIX[net.bits]
    ends: list[tuple[int, int] | None] = []
    for key, form in (("gateway" + suffix, "::fe" if suffix else ".254"), ("pods" + suffix, _RANGES[net.bits])):
        text = given.get(key)
        found = parse_range(text, net) if text else None
        if text and (found is None or found[0] > found[1] or (key.startswith("gateway") and "-" in text)):
            raise RailyardError("%s is not valid" % text, "discover_" + key, "write it in this form: %s" % form)
        ends.append(found)
    gateway, pods = ends
    return gateway[0] if gateway else None, Range(*pods, net.bits) if pods else None


def _pods(track: Track, numbering: str | None, gateway: int | None, chosen: Range | None, ways: Ways) -> Ranges | None:
    """Return the addresses of pods: the chosen ones, or those that ports and gateways leave free. Report the latter.

    Without a numbering, a rail of one network gets its part of them.
    """
    net, part = track.known, track.part
    if net is None:
        return None
    usable, suffix = net.usable, SUFFIX[track.bits]
    if chosen is None:
        tracks = track.common if track.common and not numbering else [track]
        used = [_hosts(each, usable, ways.indexes)[0] for each in tracks]
        own_gateway = None if gateway is None or not net.holds(gateway) else gateway
        chosen = _free(used, own_gateway, usable, ways.from_first, part.rails if part else 1)
        message = "pods get the addresses of the rails' %ssubnets that hosts and gateways do not use" % (
            "IPv6 " if suffix else ""
        )
        remedy = "check that these addresses are unused, or set -e discover_pods%s=FIRST-LAST" % suffix
        ways.findings.add("DS306", ("rails",), message, remedy)
    if chosen is None or part is None or numbering:
        return Ranges.of(chosen) if chosen else None
    size = chosen.size // part.rails
    return Ranges.of(chosen).cut((part.number - 1) * size, size)


def _free(hosts: list[Range], gateway: int | None, usable: Range, from_first: bool, rails: int) -> Range | None:
    """Return the longest range of addresses that hosts and the gateway leave free, for this number of rails."""
    free = without([usable], hosts if gateway is None else [*hosts, single(gateway, usable.bits)])
    chosen = free[0] if from_first and free and free[0].first == usable.first else longest(free)
    # a pool of a whole /64 is too large to be useful
    return Range(chosen.first, min(chosen.last, chosen.first + 4096 * rails - 1), chosen.bits) if chosen else None
