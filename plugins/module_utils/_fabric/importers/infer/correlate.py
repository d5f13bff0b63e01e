# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From facts to drafts of rails: which network, resource, port and pool belong together, and what is missing."""

from __future__ import annotations

import fnmatch
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, name_counting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Ask,
    Device,
    Facts,
    Network,
    Pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest, pci

# Spiderpool's advice for pools of one node and rail: interface, rail, node.
_OF_NODE = re.compile(r"(.+)-rail([0-9]{1,3})-([a-z0-9.-]+)\Z")
MAX_RAILS = 64


@dataclass
class Draft:
    """A rail under construction. ``number``: the number in its objects' names, from 0 or 1."""

    place: Place
    number: int | None = None
    netdev: str | None = None
    pci: str | None = None
    resource: str | None = None
    network: str | None = None
    namespace: str = ""
    networks: list[Network] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    # attributes that were inferred from the numbering
    counted: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.network or self.resource or self.netdev or self.pci or "a rail"


def drafts(facts: Facts, found: Found) -> list[Draft]:
    """All rails in their order, with the facts about each."""
    _once(facts, found)
    made = _of_devices(facts, found)
    for network in facts.networks:
        _add_network(network, made, facts, found)
    for ask in facts.asks:
        _add_ask(ask, made, facts, found)
    _add_pools(made, facts, found)
    made = _numbered(made)
    made = _filled(made, found)
    if len(made) > MAX_RAILS:
        message = "these manifests describe %d rails; the limit is %d" % (len(made), MAX_RAILS)
        remedy = "give the manifests of one cluster"
        found.add(import_rules.NOTHING, made[0].place, message, remedy, "the first %d" % MAX_RAILS)
    return made[:MAX_RAILS]


def _once(facts: Facts, found: Found) -> None:
    """Keep one pool of each name: pages repeat pools. Different definitions are a finding."""
    first: dict[str, Pool] = {}
    for pool in facts.pools:
        other = first.setdefault(pool.name, pool)
        if other is not pool and (other.net, other.runs, other.gateway) != (pool.net, pool.runs, pool.gateway):
            message = "the pool %s has two different definitions" % shown(pool.name)
            found.add(import_rules.TWICE, pool.place, message, "keep one of the two", "the first of them")
    facts.pools = list(first.values())


# -- ports and resources ---------------------------------------------------------------------------------------------


def _of_devices(facts: Facts, found: Found) -> list[Draft]:
    made: list[Draft] = []
    holders: dict[str, set[str]] = {}
    for device in facts.devices:
        holders.setdefault(bare(device.resource), set()).update(netdev or pci_ or "" for netdev, pci_ in _ports(device))
    for device in facts.devices:
        ports = holders[bare(device.resource)]
        if len(ports) > 1:
            message = "%s selects %s: a pod gets any or all of them" % (
                shown(device.resource),
                name_counting.compact(sorted(ports, key=name_counting.natural)),
            )
            remedy = "give the port of each rail a resource of its own"
            found.add(import_rules.ONE_RESOURCE, device.place, message, remedy, "a rail and a resource for each port")
        if device.netdevs and device.pci and len(device.netdevs) != len(device.pci):
            numbers = (shown(device.resource), len(device.netdevs), len(device.pci))
            message = "%s selects %d ports by name and %d by PCI address" % numbers
            remedy = "write pci of each port, of %s, into the profile" % ", ".join(device.pci[:8])
            found.add(import_rules.NOT_KNOWN, device.place, message, remedy, "only the names")
        for netdev, address in _ports(device):
            draft = _with_port(made, netdev, address)
            if draft is None:
                draft = Draft(device.place)
                made.append(draft)
            known = draft.netdev, draft.pci
            draft.netdev, draft.pci = draft.netdev or netdev or None, draft.pci or address
            if known == (None, None):
                pass
            elif any(bare(other.resource) != bare(device.resource) for other in draft.devices):
                names = (draft.netdev or draft.pci, draft.devices[0].resource, device.resource)
                message = "%s is in two resources, %s and %s" % names
                remedy = "keep one: its devices are counted twice"
                found.add(import_rules.RESOURCE_TWICE, device.place, message, remedy, "the first")
            draft.devices.append(device)
            if len(ports) == 1 and draft.resource is None:
                draft.resource = device.resource
    return made


def _ports(device: Device) -> list[tuple[str, str | None]]:
    """The ports behind a resource, each by its netdev, its PCI address or both."""
    if device.netdevs and len(device.netdevs) == len(device.pci):
        return list(zip(device.netdevs, device.pci))
    return [(name, None) for name in device.netdevs] or [("", address) for address in device.pci]


def bare(resource: str) -> str:
    """A resource's name without its prefix."""
    return resource.rpartition("/")[2]


def _with_port(made: t.Sequence[Draft], netdev: str, address: str | None = None) -> Draft | None:
    return next(
        (each for each in made if (netdev and each.netdev == netdev) or (address and each.pci == address)), None
    )


# -- networks --------------------------------------------------------------------------------------------------------


def _add_network(network: Network, made: list[Draft], facts: Facts, found: Found) -> None:
    draft = _draft_of(network, made, facts, found)
    for other in draft.networks:
        if (other.namespace, other.name) == (network.namespace, network.name):
            if other.attachment != network.attachment or other.masters != network.masters:
                message = "%s has two different definitions" % shown(network.name)
                found.add(import_rules.TWICE, network.place, message, "keep one of the two", "the first of them")
            return
    if draft.networks:
        first = draft.networks[0]
        message = "%s and %s are both on %s" % (first.name, network.name, draft.netdev or draft.label)
        if first.attachment != network.attachment:
            message += ", one as %s and one as %s" % (first.attachment, network.attachment)
        remedy = "keep one network per rail"
        found.add(import_rules.TWO_NETWORKS, network.place, message, remedy, "the network %s" % first.name)
    else:
        draft.network, draft.namespace, draft.place = network.name, network.namespace, network.place
    draft.networks.append(network)
    draft.pools = _distinct([*draft.pools, *_pools_of(network, facts, found)])


def _draft_of(network: Network, made: list[Draft], facts: Facts, found: Found) -> Draft:
    master = network.masters[0] if network.masters else ""
    address = pci(master)
    draft = _with_port(made, "" if address else master, address)
    if draft is None and network.resource:
        draft = _by_resource(network, made, found)
    elif draft is not None and network.resource:
        _check_resource(network, draft, made, found)
    if draft is None:
        draft = next((each for each in made if any(network.name == other.name for other in each.networks)), None)
    if draft is None:
        draft = Draft(network.place, netdev=None if address else master or None, pci=address)
        made.append(draft)
    if master and draft.netdev is None and not address:
        draft.netdev = master
    # without a device plugin's configuration the resource is known from the network only
    if network.resource and draft.resource is None and not draft.devices:
        draft.resource = network.resource
        _say_unregistered(network, facts, found)
    return draft


def _by_resource(network: Network, made: t.Sequence[Draft], found: Found) -> Draft | None:
    """The port whose resource the network names; the only possible port if none has this name."""
    name = bare(network.resource or "")
    same = [each for each in made if any(bare(device.resource) == name for device in each.devices)]
    if network.masters:
        if same:
            message = "%s is the resource of %s, and the network's master is %s" % (
                shown(network.resource or ""),
                same[0].netdev or same[0].label,
                network.masters[0],
            )
            remedy = "use the same port in the resource's ifNames and in master"
            found.add(import_rules.MISMATCH, network.place, message, remedy, "the port %s" % network.masters[0])
        return None
    if same:
        taken = [each for each in same if not each.networks] or same
        return taken[0]
    number = name_counting.ordinal(network.name) or name_counting.ordinal(name)
    free = [each for each in made if each.devices and not each.networks]
    alike = [each for each in free if number is not None and number == _own_number(each)] or free
    if len(alike) == 1:
        draft = alike[0]
        message = "%s is not registered by a device plugin" % shown(network.resource or "")
        remedy = "write %s, which is registered for %s" % (
            _written(network, draft.devices[0]),
            draft.netdev or draft.label,
        )
        found.add(import_rules.UNREGISTERED, network.place, message, remedy, "that")
        return draft
    return None


def _written(network: Network, device: Device) -> str:
    """A resource with its prefix, which policies of the SR-IOV operator do not have."""
    prefix = (network.resource or "").rpartition("/")[0]
    return device.resource if "/" in device.resource or not prefix else "%s/%s" % (prefix, device.resource)


def _check_resource(network: Network, draft: Draft, made: t.Sequence[Draft], found: Found) -> None:
    name = bare(network.resource or "")
    own = [device for device in draft.devices if bare(device.resource) == name]
    if own or not draft.devices:
        return
    other = next((each for each in made if any(bare(device.resource) == name for device in each.devices)), None)
    right = _written(network, draft.devices[0])
    wrong = "is the resource of %s" % (other.netdev or other.label) if other else "is not registered by a device plugin"
    message = "%s %s; the resource of %s is %s" % (
        shown(network.resource or ""),
        wrong,
        draft.netdev or draft.label,
        right,
    )
    rule = import_rules.MISMATCH if other else import_rules.UNREGISTERED
    found.add(rule, network.place, message, "write %s" % right, right)


def _say_unregistered(network: Network, facts: Facts, found: Found) -> None:
    known = {bare(device.resource) for device in facts.devices}
    name = bare(network.resource or "")
    if known and name not in known and not found.has(import_rules.ELIDED):
        near = nearest(name, known)
        message = "%s is not registered by a device plugin%s" % (shown(network.resource or ""), did_you_mean(near))
        remedy = "use one resource name in the device plugin and the network"
        found.add(
            import_rules.UNREGISTERED, network.place, message, remedy, "the resource of the rail as the network has it"
        )


def _pools_of(network: Network, facts: Facts, found: Found) -> list[Pool]:
    chosen: list[Pool] = []
    for name in network.pools:
        matches = [pool for pool in facts.pools if fnmatch.fnmatchcase(pool.name, name)]
        if any(mark in name for mark in "*?["):
            numbers = {name_counting.ordinal(pool.name) for pool in matches}
            own = name_counting.ordinal(name)
            if len(numbers) > 1 and own is not None and own in numbers:
                message = "%s matches pools of rails %s" % (shown(name), ", ".join(sorted(map(str, numbers))))
                remedy = "pad the rails' numbers with zeros, or end the wildcard after a hyphen"
                found.add(import_rules.WILDCARD, network.place, message, remedy, "the pools of rail %d" % own)
                matches = [pool for pool in matches if name_counting.ordinal(pool.name) == own]
        elif not matches:
            matches = _meant_pool(network, name, facts, found)
        chosen.extend(matches)
    return _distinct(chosen)


def _distinct(chosen: t.Iterable[Pool]) -> list[Pool]:
    # by identity: a cluster has tens of thousands of pools, and comparing each with each takes minutes
    return list({id(pool): pool for pool in chosen}.values())


def _meant_pool(network: Network, name: str, facts: Facts, found: Found) -> list[Pool]:
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


def _add_ask(ask: Ask, made: list[Draft], facts: Facts, found: Found) -> None:
    defined = {network.name for network in facts.networks}
    unknown = [name for _namespace, name in ask.networks if name not in defined]
    if defined and ask.networks and len(unknown) == len(ask.networks) and not _series_of(unknown, defined):
        message = "pods request %s, which no manifest defines" % name_counting.compact(unknown)
        found.add(import_rules.NETWORK_UNKNOWN, ask.place, message, "use networks that are defined", "nothing")
    elif unknown:
        message = "pods request %s, which no manifest defines" % name_counting.compact(unknown)
        found.add(
            import_rules.NETWORK_UNKNOWN, ask.place, message, "give the manifests of all networks", "a rail for each"
        )
        for namespace, name in ask.networks:
            _asked(name, namespace, None, ask, made)
    registered = {bare(device.resource) for device in facts.devices}
    registered = registered or {bare(network.resource) for network in facts.networks if network.resource}
    missing = [name for name in ask.resources if bare(name) not in registered] if registered else []
    series = [name for name in missing if _series_of([bare(name)], registered)]
    for name in series:
        _asked("", "", name, ask, made)
    lost = [name for name in missing if name not in series]
    if lost:
        message = "pods request %s, which no device plugin registers" % name_counting.compact(lost)
        names = sorted(registered, key=name_counting.natural)
        row = "%s to %s" % (names[0], names[-1]) if found.has(import_rules.ELIDED) and len(names) > 1 else ""
        remedy = "request %s" % (row or name_counting.compact(names))
        found.add(import_rules.UNREGISTERED, ask.place, message, remedy, "the resources that are registered")


def _series_of(names: t.Sequence[str], known: t.Iterable[str]) -> bool:
    """Whether all names belong to the numbered series of a known name."""
    by_number = {name_counting.ordinal(name): name for name in known}
    numbered = {number: name for number, name in by_number.items() if number is not None}
    for number, name in list(numbered.items()):
        single = name_counting.series({number: name})
        if single is None or not single.counts:
            continue
        if all(single.at(name_counting.ordinal(each) or 0) == each for each in names):
            return True
    return False


def _asked(name: str, namespace: str, resource: str | None, ask: Ask, made: list[Draft]) -> None:
    if name and any(name in [network.name for network in each.networks] or each.network == name for each in made):
        return
    if resource and any(bare(each.resource or "") == bare(resource) for each in made):
        return
    number = name_counting.ordinal(name or resource or "")
    if number is None:
        if name:
            made.append(Draft(ask.place, network=name, namespace=namespace))
        return
    same = [each for each in made if _own_number(each) == number]
    draft = same[0] if same else Draft(ask.place, number)
    if not same:
        made.append(draft)
    if name and draft.network is None:
        draft.network, draft.namespace = name, namespace
    if resource and draft.resource is None:
        draft.resource = resource


# -- pools that no network names -------------------------------------------------------------------------------------


def _add_pools(made: list[Draft], facts: Facts, found: Found) -> None:
    used = {id(pool) for draft in made for pool in draft.pools}
    for pool in facts.pools:
        node = _OF_NODE.match(pool.name)
        if node and not pool.nodes:
            pool.nodes = [node.group(3)]
        if id(pool) in used:
            continue
        if node:
            netdev, number = node.group(1), int(node.group(2))
            draft = _with_port(made, netdev) or next((each for each in made if _own_number(each) == number), None)
            if draft is None:
                draft = Draft(pool.place, number, netdev)
                made.append(draft)
            draft.number = number
            draft.pools.append(pool)
            continue
        number_of = name_counting.ordinal(pool.name)
        same = [each for each in made if number_of is not None and _own_number(each) == number_of and not each.pools]
        if same:
            same[0].pools.append(pool)
        elif pool.name not in {each.name for draft in made for each in draft.pools} and not pool.own:
            message = "no network takes addresses from the pool %s" % shown(pool.name)
            found.add(import_rules.POOL_UNUSED, pool.place, message, "add it to a network's ippools", "nothing")


# -- numbers and what is missing -------------------------------------------------------------------------------------


def _own_number(draft: Draft) -> int | None:
    if draft.number is not None:
        return draft.number
    for text in (draft.network, draft.resource and bare(draft.resource)):
        number = name_counting.ordinal(text) if text else None
        if number is not None:
            return number
    numbers = {name_counting.ordinal(pool.name) for pool in draft.pools}
    return numbers.pop() if len(numbers) == 1 else None


def _numbered(made: list[Draft]) -> list[Draft]:
    """Sorted, with distinct numbers: those in their names if all have one, else their positions."""
    for draft in made:
        draft.number = _own_number(draft)
    merged: list[Draft] = []
    for draft in made:
        twin = next((each for each in merged if draft.number is not None and each.number == draft.number), None)
        if twin is not None and _joined(twin, draft):
            continue
        merged.append(draft)
    numbers = [draft.number for draft in merged]
    if None in numbers or len(set(numbers)) < len(numbers):
        merged.sort(key=_order(merged))
        for at, draft in enumerate(merged, 1):
            draft.number = at
    merged.sort(key=lambda draft: draft.number or 0)
    return merged


def _order(made: t.Sequence[Draft]) -> t.Callable[[Draft], t.Any]:
    """The sort key of rails without numbers: numbered names, else what identifies all of their ports."""
    keys: list[t.Callable[[Draft], str | None]] = [
        lambda draft: draft.network,
        lambda draft: draft.resource and bare(draft.resource),
        lambda draft: draft.pools[0].label if draft.pools else None,
    ]
    for key in keys:
        if name_counting.lettered([key(draft) or "" for draft in made]):
            return lambda draft, key=key: name_counting.natural(key(draft) or "")  # type: ignore[misc]
    if all(draft.netdev for draft in made):
        return lambda draft: name_counting.natural(draft.netdev or "")
    if all(draft.pci for draft in made):
        return lambda draft: name_counting.natural(draft.pci or "")
    return lambda draft: name_counting.natural(draft.network or draft.resource or draft.label)


def _joined(twin: Draft, draft: Draft) -> bool:
    """Merge the second draft of a rail into the first; False if they contradict each other."""
    for key in ("netdev", "pci"):
        mine, other = getattr(twin, key), getattr(draft, key)
        if mine is not None and other is not None and mine != other:
            return False
    twin.netdev, twin.pci = twin.netdev or draft.netdev, twin.pci or draft.pci
    twin.resource = twin.resource or draft.resource
    if twin.network is None or (draft.networks and not twin.networks):
        twin.network, twin.namespace = draft.network or twin.network, draft.namespace or twin.namespace
    twin.pools = _distinct([*twin.pools, *draft.pools])
    for key in ("networks", "devices"):
        mine = getattr(twin, key)
        mine.extend(each for each in getattr(draft, key) if each not in mine)
    return True


def _filled(made: list[Draft], found: Found) -> list[Draft]:
    """Add ports and names that are missing in the manifests and follow from the numbering of the others."""
    if not made:
        return made
    by_number = {draft.number or 0: draft for draft in made}
    low, high = min(by_number), max(by_number)
    if found.has(import_rules.ELIDED) and high - low < MAX_RAILS:
        for number in range(low, high + 1):
            if number not in by_number and name_counting.series(_texts(by_number, "netdev")):
                by_number[number] = Draft(by_number[low].place, number)
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
        draft.namespace = draft.namespace or next((each.namespace for each in made if each.namespace), "")
    return [by_number[number] for number in sorted(by_number)]


def _texts(by_number: t.Mapping[int, Draft], key: str) -> dict[int, str]:
    return {number: getattr(draft, key) for number, draft in by_number.items() if getattr(draft, key)}
