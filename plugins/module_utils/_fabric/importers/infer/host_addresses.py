# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that nodes have on rails today: ranges and indexes by which each node keeps them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import BY_NODE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    claimed_addresses,
    import_rules,
    layout_rules,
    name_counting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Facts,
    HostInterface,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    PREFIX,
    Addressed,
    Addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Range,
    network,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import common, single, without
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import natural, trailing_number


class Stated(t.NamedTuple):
    """The addresses of nodes on one rail.

    ``addresses``: node -> address. ``free``: ranges that neither pods nor other objects can have. ``step``: addresses
    from one node to the next, and the place of the rail among those of a node.
    """

    at: int
    draft: Draft
    rail: Addressed
    addresses: dict[str, int]
    free: list[Range]
    step: tuple[int, int]


def add_subnets(drafts: t.Sequence[Draft], facts: Facts, result: Addressing) -> None:
    """Set the networks of rails without a pool from the addresses of their ports."""
    for at, draft in enumerate(drafts, 1):
        for bits in (IPV4, IPV6):
            if at in result.rails[bits] or any(pool.net for pool in draft.pools):
                continue
            nets = {
                network(address, prefix, own)
                for each in interfaces_of(draft, facts)
                for address, prefix, own in each.addresses
                if own == bits and prefix < bits - 1
            }
            if len(nets) == 1:
                result.rails[bits][at] = Addressed(nets.pop())


def keep(drafts: t.Sequence[Draft], facts: Facts, nodes: int, result: Addressing, found: Found) -> set[int]:
    """Set ``hosts`` of rails and indexes of nodes so that nodes keep their addresses. Report those that do not fit.

    :param nodes: number of known nodes.
    :return: the positions of the rails whose ``hosts`` are set.
    """
    kept: set[int] = set()
    for bits in (IPV4, IPV6):
        of_rails: dict[int, dict[str, int]] = {}
        for at, rail in result.rails[bits].items():
            addresses = _addresses(drafts[at - 1], rail, facts, found)
            if addresses:
                of_rails[at] = addresses
        if result.mode == PREFIX:
            _in_prefixes(drafts, {at: (result.rails[bits][at], own) for at, own in of_rails.items()}, result, found)
            kept.update(of_rails)
            continue
        steps = _steps(of_rails, result, bits)
        stated = []
        for at, addresses in of_rails.items():
            draft, rail = drafts[at - 1], result.rails[bits][at]
            _cut_pods(draft, rail, addresses, found)
            stated.append(Stated(at, draft, rail, addresses, _free(rail, addresses, facts), steps[at]))
        if stated:
            _set_hosts(stated, _indexes(stated, facts, result, found), nodes)
            kept.update(of_rails)
    return kept


def own_addresses(drafts: t.Sequence[Draft], facts: Facts) -> set[tuple[int, int]]:
    """Return (address, bits) of the ports of nodes that have names."""
    return {
        (address, bits)
        for draft in drafts
        for each in interfaces_of(draft, facts)
        for address, _prefix, bits in each.addresses
        if len(each.nodes.names) == 1
    }


def interfaces_of(draft: Draft, facts: Facts) -> list[HostInterface]:
    """Return the interfaces of a rail: its port, or the VLAN above it."""
    netdevs = {draft.netdev, *(netdev for netdev, _pci in draft.models.values())} - {None}
    names = {draft.vlan_name or "%s.%d" % (each, draft.vlan) if draft.vlan else each for each in netdevs}
    return [each for each in facts.interfaces if each.name in names]


def mtus(draft: Draft, facts: Facts) -> list[int]:
    """Return the MTUs that nodes have on a rail, each once."""
    return list(dict.fromkeys(each.mtu for each in interfaces_of(draft, facts) if each.mtu))


def _addresses(draft: Draft, rail: Addressed, facts: Facts, found: Found) -> dict[str, int]:
    """Return node -> its address in the rail's network. Report addresses whose node is unknown."""
    named = interfaces_of(draft, facts)
    addresses: dict[str, int] = {}
    unknown: list[tuple[Place, str]] = []
    for interface in named:
        for address, _prefix, bits in interface.addresses:
            if bits != rail.net.bits or not rail.net.holds(address):
                continue
            names = interface.nodes.names
            if len(names) == 1:
                addresses.setdefault(names[0], address)
            else:
                text = "%s on %s" % (show(address, bits), interface.name)
                unknown.append(
                    (interface.place, "%s of %s" % (text, interface.nodes) if interface.nodes.terms else text)
                )
    if unknown:
        texts = name_counting.compact([text for _place, text in unknown])
        message = "the node with the address %s is not named" % texts
        remedy = "put its file into a folder with its name, or select it by kubernetes.io/hostname"
        found.add(layout_rules.HOST_UNKNOWN, unknown[0][0], message, remedy, "hosts without regard to this address")
    return addresses


def _cut_pods(draft: Draft, rail: Addressed, addresses: t.Mapping[str, int], found: Found) -> None:
    """Report addresses of ports that pods can get, and remove them from those of pods."""
    bits = rail.net.bits
    in_pods = sorted(each for each in addresses.values() if any(part.holds(each) for part in rail.for_pods))
    if not in_pods:
        return
    texts = name_counting.compact([show(address, bits) for address in in_pods])
    message = "ports have the addresses %s, which the pool of %s can give to pods" % (texts, shown(draft.label))
    remedy = "exclude them from the pool now, before a pod gets one"
    found.add(import_rules.HOST_IN_PODS, draft.place, message, remedy, "pods without them")
    rail.pods = without(rail.pods, [single(address, bits) for address in in_pods])
    decide = "DECIDE: pods and hosts; the pool can give the addresses of ports to pods"
    rail.note = "; ".join(filter(None, (rail.note, decide)))


def _free(rail: Addressed, addresses: t.Mapping[str, int], facts: Facts) -> list[Range]:
    """Return the ranges for ports. Ranges that an object excludes for the sake of the ports are among them."""
    bits, own = rail.net.bits, list(addresses.values())
    for name, ranges in list(rail.taken.items()):
        left = [part for part in ranges if not any(part.holds(address) for address in own)]
        rail.taken.pop(name)
        if left:
            rail.taken[name] = left
    claims = claimed_addresses.within(facts.claims, rail.net)
    claimed = [part for part in claims if not any(part.holds(address) for address in own)] + rail.pods + rail.all_taken
    if rail.gateway is not None:
        claimed.append(single(rail.gateway, bits))
    return without([rail.net.usable], claimed)


def _steps(of_rails: t.Mapping[int, t.Mapping[str, int]], result: Addressing, bits: int) -> dict[int, tuple[int, int]]:
    """Return position of a rail -> (addresses from one node to the next, place of the rail among those of a node)."""
    steps: dict[int, tuple[int, int]] = {}
    for at, addresses in of_rails.items():
        own = result.rails[bits][at]
        same = [each for each, rail in sorted(result.rails[bits].items()) if rail.net == own.net]
        rails = [result.rails[bits][each] for each in same]
        by_node = own.numbering == BY_NODE
        if len(same) > 1 and not by_node and not any(rail.pods for rail in rails):
            by_node = all(_in_series([of_rails.get(each, {}).get(node) for each in same]) for node in addresses)
            for rail in rails if by_node else ():
                rail.numbering = BY_NODE
        steps[at] = (len(same), same.index(at)) if by_node else (1, 0)
    return steps


def _in_series(addresses: t.Sequence[int | None]) -> bool:
    """Return whether the addresses of a node on the rails of one network follow each other."""
    first = addresses[0]
    return first is not None and list(addresses) == list(range(first, first + len(addresses)))


def _name_index(node: str, facts: Facts, result: Addressing) -> int | None:
    return result.indexes.get(node) or facts.node_indexes.get(node) or trailing_number(node)


def _indexes(stated: t.Sequence[Stated], facts: Facts, result: Addressing, found: Found) -> dict[str, int]:
    """Return node -> index. An index that differs from that of the node's name becomes one in the fabric file."""
    nodes = sorted({node for each in stated for node in each.addresses}, key=natural)
    by_name = {node: _name_index(node, facts, result) for node in nodes}
    complete = {node: index for node, index in by_name.items() if index}
    if len(complete) == len(nodes) and not _mismatches(stated, complete):
        return complete
    own = _from_addresses(stated)
    given = {node for node, index in facts.node_indexes.items() if index and index != trailing_number(node)}
    if own and not (given | set(result.indexes)) & set(own):
        result.indexes.update(own)
        return own
    mismatches = _mismatches(stated, complete)
    texts = ["%s: %s" % (node, show(address, each.rail.net.bits)) for each, node, address in mismatches]
    texts += ["%s: no index" % node for node in nodes if node not in complete]
    message = "the addresses of ports do not follow from one index per node: %s" % "; ".join(texts[:6])
    message += " and %d more" % (len(texts) - 6) if len(texts) > 6 else ""
    remedy = "set index of these nodes, or give their ports the planned addresses"
    place = next((each.draft.place for each, _node, _address in mismatches), stated[0].draft.place)
    found.add(layout_rules.HOSTS_DIFFER, place, message, remedy, "hosts for the other nodes")
    for each, _node, _address in mismatches:
        note = "DECIDE: nodes that have other addresses than those of their index; see the finding"
        if note not in each.rail.note:
            each.rail.note = "; ".join(filter(None, (each.rail.note, note)))
    return complete


def _base(each: Stated, indexes: t.Mapping[str, int]) -> int | None:
    """Return the most frequent address of index 1 as it follows from the addresses, if it is free for a port."""
    step, offset = each.step
    found = [
        address - (indexes[node] - 1) * step - offset for node, address in each.addresses.items() if node in indexes
    ]
    bases = [base for base in found if any(part.holds(base) for part in each.free)]
    return max(bases, key=bases.count) if bases else None


def _part(each: Stated, base: int) -> Range | None:
    return next((part for part in each.free if part.holds(base)), None)


def _mismatches(stated: t.Sequence[Stated], indexes: t.Mapping[str, int]) -> list[tuple[Stated, str, int]]:
    """Return the addresses that one range from the address of index 1 does not give."""
    found = []
    for each in stated:
        step, offset = each.step
        base = _base(each, indexes)
        part = _part(each, base) if base is not None else None
        for node, address in each.addresses.items():
            planned = (base or 0) + (indexes.get(node, 0) - 1) * step + offset
            if part is None or node not in indexes or address != planned or not part.holds(address):
                found.append((each, node, address))
    return found


def _parts(each: Stated) -> list[Range]:
    """Return the free ranges from the lowest address of a port on."""
    low = min(each.addresses.values()) - each.step[1]
    whole = Range(low, each.rail.net.usable.last, each.rail.net.bits)
    return common(each.free, [whole]) if low >= each.rail.net.usable.first else []


def _from_addresses(stated: t.Sequence[Stated]) -> dict[str, int]:
    """Return node -> index by the order of the addresses; empty if rails or free ranges give different indexes."""
    indexes: dict[str, int] = {}
    for each in stated:
        step, offset = each.step
        before, positions = 0, {}
        for part in _parts(each):
            for node, address in each.addresses.items():
                if part.holds(address):
                    positions[node] = before + address - part.first - offset
            before += part.size
        for node in each.addresses:
            index, rest = divmod(positions.get(node, -1), step)
            if index < 0 or rest or indexes.setdefault(node, index + 1) != index + 1:
                return {}
    return indexes if len(set(indexes.values())) == len(indexes) else {}


def _set_hosts(stated: t.Sequence[Stated], indexes: t.Mapping[str, int], nodes: int) -> None:
    """Set ``hosts`` of rails: from the address of index 1 to the last address that nothing else has."""
    for each in stated:
        base = _base(each, indexes)
        part = _part(each, base) if base is not None else None
        if part is not None and base is not None and not _mismatches([each], indexes):
            each.rail.hosts = [Range(base, _end(part, base), part.bits)]
        elif indexes == _from_addresses([each]):
            each.rail.hosts = _parts(each)
        elif part is not None and base is not None:
            each.rail.hosts = [Range(base, _end(part, base), part.bits)]


# Addresses for ports of an IPv6 network, which is too large to use all of it.
_MOST = 8191


def _end(part: Range, base: int) -> int:
    return part.last if part.bits == IPV4 else min(part.last, base + _MOST)


def _in_prefixes(
    drafts: t.Sequence[Draft],
    stated: t.Mapping[int, tuple[Addressed, t.Mapping[str, int]]],
    result: Addressing,
    found: Found,
) -> None:
    """Set indexes of nodes and the position of ports in the prefixes of nodes."""
    positions: dict[str | None, int] = {}
    mismatches = []
    for rail, addresses in stated.values():
        bits = rail.net.bits
        length = result.node_aggregate or result.node_prefix
        if length is None or result.node_prefix is None:
            return
        for node, address in addresses.items():
            index = (address - rail.net.first >> bits - length) + 1
            usable = network(address, result.node_prefix, bits).usable
            low = usable.first + (result.gateway == "first")
            high = usable.last - (result.gateway == "last")
            position = {low: None, high: "last"}.get(address, "other")
            if result.indexes.setdefault(node, index) != index or position == "other":
                mismatches.append("%s: %s" % (node, show(address, bits)))
            else:
                positions[position] = positions.get(position, 0) + 1
    if positions and result.host != "none":
        result.host = max(positions, key=lambda each: positions[each])
    if len(positions) > 1 or mismatches:
        message = "the addresses of ports are not at one place in the prefixes of their nodes"
        message += ": %s" % "; ".join(mismatches[:12]) if mismatches else ""
        remedy = "give each port the first or the last address of its node's prefix that the gateway leaves"
        found.add(
            layout_rules.HOSTS_DIFFER,
            drafts[min(stated) - 1].place,
            message,
            remedy,
            "host: %s" % (result.host or "first"),
        )
