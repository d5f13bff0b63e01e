# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive drafts of rails from facts: match networks, resources, ports and pools, and complete missing ones."""

from __future__ import annotations

import fnmatch
import itertools
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    name_counting,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Ask,
    Device,
    Facts,
    PodNetwork,
    Pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import (
    interface_stack,
    port_drafts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft, bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    did_you_mean,
    natural,
    nearest,
    pci,
)

# Name that Spiderpool recommends for the pool of one node and rail: interface, rail, node.
_OF_NODE = re.compile(r"(.+)-rail([0-9]{1,3})-([a-z0-9.-]+)\Z")
MAX_RAILS = 64


def drafts(facts: Facts, found: Found) -> list[Draft]:
    """Return all rails in their order, with the facts about each."""
    _remove_duplicates(facts, found)
    interface_stack.resolve_masters(facts)
    rails = port_drafts.of_devices(facts, found)
    for network in facts.networks:
        _add_network(network, rails, facts, found)
    for ask in facts.asks:
        _add_ask(ask, rails, facts, found)
    _add_pools(rails, facts, found)
    rails = _numbered(rails)
    rails = _completed(rails)
    for device in facts.devices if len(rails) > 1 else ():
        if not device.netdevs and not device.pci:
            message = "%s selects the ports of all %d rails: a pod gets any or all of them" % (
                shown(device.resource),
                len(rails),
            )
            remedy = "give the port of each rail a resource of its own"
            found.add(import_rules.ONE_RESOURCE, device.place, message, remedy, "a resource for each rail")
    if len(rails) > MAX_RAILS:
        message = "these manifests describe %d rails; the limit is %d" % (len(rails), MAX_RAILS)
        remedy = "give the manifests of one cluster"
        found.add(import_rules.NOTHING, rails[0].place, message, remedy, "the first %d" % MAX_RAILS)
    return rails[:MAX_RAILS]


def _remove_duplicates(facts: Facts, found: Found) -> None:
    """Keep the first pool of each name, because pages repeat pools. Report different definitions."""
    first: dict[str, Pool] = {}
    for pool in facts.pools:
        other = first.setdefault(pool.name, pool)
        if other is not pool and (other.net, other.ranges, other.gateway) != (pool.net, pool.ranges, pool.gateway):
            message = "the pool %s has two different definitions" % shown(pool.name)
            found.add(import_rules.TWICE, pool.place, message, "keep one of the two", "the first of them")
    facts.pools = list(first.values())


# -- networks --------------------------------------------------------------------------------------------------------


def _add_network(network: PodNetwork, rails: list[Draft], facts: Facts, found: Found) -> None:
    draft = _find_or_add(network, rails, facts, found)
    for other in draft.networks:
        if (other.namespace, other.name) == (network.namespace, network.name):
            if other.attachment != network.attachment or other.masters != network.masters:
                message = "%s has two different definitions" % shown(network.name)
                found.add(import_rules.TWICE, network.place, message, "keep one of the two", "the first of them")
            return
    first = draft.networks[0] if draft.networks else None
    if first and not _for_different_nodes(first, network, facts):
        message = "%s and %s are both on %s" % (first.name, network.name, draft.netdev or draft.label)
        if first.attachment != network.attachment:
            message += ", one as %s and one as %s" % (first.attachment, network.attachment)
        remedy = "keep one network per rail"
        found.add(import_rules.TWO_NETWORKS, network.place, message, remedy, "the network %s" % first.name)
    elif not first:
        draft.network, draft.namespace, draft.place = network.name, network.namespace, network.place
    draft.networks.append(network)
    draft.pools = _distinct([*draft.pools, *_pools_of(network, facts, found)])


def _for_different_nodes(first: PodNetwork, network: PodNetwork, facts: Facts) -> bool:
    """Return whether no node can get addresses from the pools of both networks."""
    named = [{pool.name: pool.selector for pool in facts.pools if pool.name in each.pools} for each in (first, network)]
    pairs = itertools.product(*(each.values() for each in named))
    return all(named) and not any(node_selectors.overlap(one, other) for one, other in pairs)


def _find_or_add(network: PodNetwork, rails: list[Draft], facts: Facts, found: Found) -> Draft:
    """Return the draft of a network's port or resource, or a new one."""
    master = network.masters[0] if network.masters else ""
    address = pci(master)
    draft = port_drafts.find_by_port(rails, "" if address else master, address, network.resource)
    if draft is None and network.resource:
        draft = _by_resource(network, rails, found)
    elif draft is not None and network.resource:
        _check_resource(network, draft, rails, found)
    if draft is None:
        draft = next((each for each in rails if any(network.name == other.name for other in each.networks)), None)
    if draft is not None and draft.networks and network.vlan != draft.vlan:
        # another VLAN of the port is another rail
        twins = [each for each in rails if each.netdev == draft.netdev and each.vlan == network.vlan]
        draft = twins[0] if twins else None
    if draft is None:
        draft = Draft(network.place, netdev=None if address else master or None, pci=address)
        rails.append(draft)
    draft.vlan, draft.vlan_name = network.vlan, network.vlan_name
    if master and draft.netdev is None and not address:
        draft.netdev = master
    # without a device plugin's configuration, only the network contains the resource
    if network.resource and draft.resource is None and not draft.devices:
        draft.resource = network.resource
        _report_unregistered(network, facts, found)
    return draft


def _by_resource(network: PodNetwork, rails: t.Sequence[Draft], found: Found) -> Draft | None:
    """Return the rail whose port has the network's resource, or the only candidate if no port has it, or None."""
    name = bare(network.resource or "")
    matches = [each for each in rails if any(bare(device.resource) == name for device in each.devices)]
    if network.masters:
        if matches:
            message = "%s is the resource of %s, and the network's master is %s" % (
                shown(network.resource or ""),
                matches[0].netdev or matches[0].label,
                network.masters[0],
            )
            remedy = "use the same port in the resource's ifNames and in master"
            found.add(import_rules.MISMATCH, network.place, message, remedy, "the port %s" % network.masters[0])
        return None
    if matches:
        candidates = [each for each in matches if not each.networks] or matches
        return candidates[0]
    number = name_counting.ordinal(network.name) or name_counting.ordinal(name)
    free = [each for each in rails if each.devices and not each.networks]
    possible = [each for each in free if number is not None and number == _number_in_names(each)] or free
    if len(possible) == 1:
        draft = possible[0]
        message = "%s is not registered by a device plugin" % shown(network.resource or "")
        remedy = "write %s, which is registered for %s" % (
            _with_prefix(network, draft.devices[0]),
            draft.netdev or draft.label,
        )
        found.add(import_rules.UNREGISTERED, network.place, message, remedy, "that")
        return draft
    return None


def _with_prefix(network: PodNetwork, device: Device) -> str:
    """Return the device's resource with the network's prefix, which policies of the SR-IOV operator omit."""
    prefix = (network.resource or "").rpartition("/")[0]
    return device.resource if "/" in device.resource or not prefix else "%s/%s" % (prefix, device.resource)


def _check_resource(network: PodNetwork, draft: Draft, rails: t.Sequence[Draft], found: Found) -> None:
    name = bare(network.resource or "")
    matches = [device for device in draft.devices if bare(device.resource) == name]
    if matches or not draft.devices:
        return
    other = next((each for each in rails if any(bare(device.resource) == name for device in each.devices)), None)
    expected = _with_prefix(network, draft.devices[0])
    problem = (
        "is the resource of %s" % (other.netdev or other.label) if other else "is not registered by a device plugin"
    )
    message = "%s %s; the resource of %s is %s" % (
        shown(network.resource or ""),
        problem,
        draft.netdev or draft.label,
        expected,
    )
    rule = import_rules.MISMATCH if other else import_rules.UNREGISTERED
    found.add(rule, network.place, message, "write %s" % expected, expected)


def _report_unregistered(network: PodNetwork, facts: Facts, found: Found) -> None:
    known = {bare(device.resource) for device in facts.devices}
    name = bare(network.resource or "")
    if known and name not in known:
        near = nearest(name, known)
        message = "%s is not registered by a device plugin%s" % (shown(network.resource or ""), did_you_mean(near))
        remedy = "use one resource name in the device plugin and the network"
        found.add(
            import_rules.UNREGISTERED, network.place, message, remedy, "the resource of the rail as the network has it"
        )


def _pools_of(network: PodNetwork, facts: Facts, found: Found) -> list[Pool]:
    """Return the pools that a network names. Report names without a pool."""
    chosen: list[Pool] = []
    for name in network.pools:
        matches = [pool for pool in facts.pools if fnmatch.fnmatchcase(pool.name, name)]
        if any(mark in name for mark in "*?["):
            numbers = {name_counting.ordinal(pool.name) for pool in matches}
            number = name_counting.ordinal(name)
            if len(numbers) > 1 and number is not None and number in numbers:
                message = "%s matches pools of rails %s" % (shown(name), ", ".join(sorted(map(str, numbers))))
                remedy = "pad the rails' numbers with zeros, or end the wildcard after a hyphen"
                found.add(import_rules.WILDCARD, network.place, message, remedy, "the pools of rail %d" % number)
                matches = [pool for pool in matches if name_counting.ordinal(pool.name) == number]
        elif not matches:
            matches = _nearest_pool(network, name, facts, found)
        chosen.extend(matches)
    return _distinct(chosen)


def _distinct(chosen: t.Iterable[Pool]) -> list[Pool]:
    # by identity: comparing all pairs of tens of thousands of pools takes minutes
    return list({id(pool): pool for pool in chosen}.values())


def _nearest_pool(network: PodNetwork, name: str, facts: Facts, found: Found) -> list[Pool]:
    used = {each for other in facts.networks for each in other.pools}
    free = [pool for pool in facts.pools if pool.name not in used]
    number = name_counting.ordinal(name)
    close = nearest(name, [pool.name for pool in free if name_counting.ordinal(pool.name) == number])
    message = "the network %s takes addresses from the undefined pool %s" % (shown(network.name), shown(name))
    remedy = "write %s" % close if close else "give the pool's manifest, or use a defined pool"
    found.add(
        import_rules.POOL_UNKNOWN, network.place, message + did_you_mean(close), remedy, close or "no subnet from it"
    )
    return [pool for pool in free if pool.name == close]


# -- requests of pods ------------------------------------------------------------------------------------------------


def _add_ask(ask: Ask, rails: list[Draft], facts: Facts, found: Found) -> None:
    defined = {network.name for network in facts.networks}
    unknown = [name for _namespace, name in ask.networks if name not in defined]
    if defined and ask.networks and len(unknown) == len(ask.networks) and not _in_series(unknown, defined):
        message = "pods request %s, which no manifest defines" % name_counting.compact(unknown)
        found.add(import_rules.NETWORK_UNKNOWN, ask.place, message, "use networks that are defined", "nothing")
    elif unknown:
        message = "pods request %s, which no manifest defines" % name_counting.compact(unknown)
        found.add(
            import_rules.NETWORK_UNKNOWN, ask.place, message, "give the manifests of all networks", "a rail for each"
        )
        for namespace, name in ask.networks:
            _add_requested(name, namespace, None, ask, rails)
    registered = {bare(device.resource) for device in facts.devices}
    registered = registered or {bare(network.resource) for network in facts.networks if network.resource}
    missing = [name for name in ask.resources if bare(name) not in registered] if registered else []
    series = [name for name in missing if _in_series([bare(name)], registered)]
    for name in series:
        _add_requested("", "", name, ask, rails)
    unregistered = [name for name in missing if name not in series]
    if unregistered:
        message = "pods request %s, which no device plugin registers" % name_counting.compact(unregistered)
        remedy = "request %s" % name_counting.compact(sorted(registered, key=natural))
        found.add(import_rules.UNREGISTERED, ask.place, message, remedy, "the resources that are registered")


def _in_series(names: t.Sequence[str], known: t.Iterable[str]) -> bool:
    """Return whether all names belong to the numbered series of one known name."""
    by_number = {name_counting.ordinal(name): name for name in known}
    numbered = {number: name for number, name in by_number.items() if number is not None}
    for number, name in list(numbered.items()):
        single = name_counting.series({number: name})
        if single is None or not single.counts:
            continue
        if all(single.at(name_counting.ordinal(each) or 0) == each for each in names):
            return True
    return False


def _add_requested(name: str, namespace: str, resource: str | None, ask: Ask, rails: list[Draft]) -> None:
    """Add a network or resource that a pod requests to the draft with its number, or as a new draft."""
    if name and any(name in [network.name for network in each.networks] or each.network == name for each in rails):
        return
    if resource and any(bare(each.resource or "") == bare(resource) for each in rails):
        return
    number = name_counting.ordinal(name or resource or "")
    if number is None:
        if name:
            rails.append(Draft(ask.place, network=name, namespace=namespace))
        return
    matches = [each for each in rails if _number_in_names(each) == number]
    draft = matches[0] if matches else Draft(ask.place, number)
    if not matches:
        rails.append(draft)
    if name and draft.network is None:
        draft.network, draft.namespace = name, namespace
    if resource and draft.resource is None:
        draft.resource = resource


# -- pools that no network names -------------------------------------------------------------------------------------


def _add_pools(rails: list[Draft], facts: Facts, found: Found) -> None:
    used = {id(pool) for draft in rails for pool in draft.pools}
    for pool in facts.pools:
        node = _OF_NODE.match(pool.name)
        if node and not pool.nodes:
            pool.nodes = [node.group(3)]
        if id(pool) in used:
            continue
        if node:
            netdev, number = node.group(1), int(node.group(2))
            draft = port_drafts.find_by_port(rails, netdev) or next(
                (each for each in rails if _number_in_names(each) == number), None
            )
            if draft is None:
                draft = Draft(pool.place, number, netdev)
                rails.append(draft)
            draft.number = number
            draft.pools.append(pool)
            continue
        pool_number = name_counting.ordinal(pool.name)
        matches = [
            each
            for each in rails
            if pool_number is not None and _number_in_names(each) == pool_number and not each.pools
        ]
        if matches:
            matches[0].pools.append(pool)
        elif pool.name not in {each.name for draft in rails for each in draft.pools} and not pool.inline:
            message = "no network takes addresses from the pool %s" % shown(pool.name)
            found.add(import_rules.POOL_UNUSED, pool.place, message, "add it to a network's ippools", "nothing")


# -- numbers and what is missing -------------------------------------------------------------------------------------


def _number_in_names(draft: Draft) -> int | None:
    if draft.number is not None:
        return draft.number
    for text in (draft.network, draft.resource and bare(draft.resource)):
        number = name_counting.ordinal(text) if text else None
        if number is not None:
            return number
    numbers = {name_counting.ordinal(pool.name) for pool in draft.pools}
    return numbers.pop() if len(numbers) == 1 else None


def _numbered(rails: list[Draft]) -> list[Draft]:
    """Return rails sorted by distinct numbers: those in their names if all have one, else their positions.

    Drafts of equal number that do not contradict each other are merged.
    """
    for draft in rails:
        draft.number = _number_in_names(draft)
    merged: list[Draft] = []
    for draft in rails:
        twin = next((each for each in merged if draft.number is not None and each.number == draft.number), None)
        if twin is not None and _merge(twin, draft):
            continue
        merged.append(draft)
    numbers = [draft.number for draft in merged]
    if None in numbers or len(set(numbers)) < len(numbers):
        merged.sort(key=_order(merged))
        for at, draft in enumerate(merged, 1):
            draft.number = at
    merged.sort(key=lambda draft: draft.number or 0)
    return merged


def _order(rails: t.Sequence[Draft]) -> t.Callable[[Draft], t.Any]:
    """Return the sort key of rails without numbers: numbered names, else netdevs, PCI addresses or labels."""
    keys: list[t.Callable[[Draft], str | None]] = [
        lambda draft: draft.network,
        lambda draft: draft.resource and bare(draft.resource),
        lambda draft: draft.pools[0].label if draft.pools else None,
    ]
    for key in keys:
        if name_counting.lettered([key(draft) or "" for draft in rails]):
            return lambda draft, key=key: natural(key(draft) or "")  # type: ignore[misc]
    if all(draft.netdev for draft in rails):
        return lambda draft: natural(draft.netdev or "")
    if all(draft.pci for draft in rails):
        return lambda draft: natural(draft.pci or "")
    return lambda draft: natural(draft.network or draft.resource or draft.label)


def _merge(first: Draft, draft: Draft) -> bool:
    """Merge the second draft of a rail into the first. Return False if their ports differ."""
    for key in ("netdev", "pci"):
        values, other = getattr(first, key), getattr(draft, key)
        if values is not None and other is not None and values != other:
            return False
    first.netdev, first.pci = first.netdev or draft.netdev, first.pci or draft.pci
    first.resource = first.resource or draft.resource
    if first.network is None or (draft.networks and not first.networks):
        first.network, first.namespace = draft.network or first.network, draft.namespace or first.namespace
    first.pools = _distinct([*first.pools, *draft.pools])
    for key in ("networks", "devices"):
        values = getattr(first, key)
        values.extend(each for each in getattr(draft, key) if each not in values)
    return True


def _completed(rails: list[Draft]) -> list[Draft]:
    """Add missing ports and names that follow from the numbering of the other rails."""
    if not rails:
        return rails
    by_number = {draft.number or 0: draft for draft in rails}
    for key in ("netdev", "resource", "network"):
        known = _texts(by_number, key)
        series = name_counting.series(known)
        if series is None or not series.counts or (key == "netdev" and len(known) < 2):
            continue
        for number, draft in by_number.items():
            text = series.at(number)
            if getattr(draft, key) is None and text is not None and not (key == "netdev" and draft.pci):
                setattr(draft, key, text)
                draft.counted.append(key)
    for draft in by_number.values():
        draft.namespace = draft.namespace or next((each.namespace for each in rails if each.namespace), "")
    return [by_number[number] for number in sorted(by_number)]


def _texts(by_number: t.Mapping[int, Draft], key: str) -> dict[int, str]:
    return {number: getattr(draft, key) for number, draft in by_number.items() if getattr(draft, key)}
