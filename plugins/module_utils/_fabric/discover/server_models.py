# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Group nodes with the same hardware into server models, and find the rail of each port of each model."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import dataclass, field, replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.gpu_affinity import Choice, choose
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import (
    ObservedNode,
    most_common,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import COMPUTE, STORAGE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import Template

# Device names that contain the rail, its NIC and plane: mlx5_gpu01, rxe_gpu01; and a netdev's: rail01, ibrail01, r1p2.
_ENTRY = r"(?:gpu|rail|r)[0-9]{1,3}(?:n[1-4])?(?:p[1-8])?"
_RDMA = re.compile(r"[a-z][a-z0-9]*_(%s)\Z" % _ENTRY)
_NETDEV = re.compile(r"(?:ib)?(%s)\Z" % _ENTRY)
_PARTS = re.compile(r"([a-z]+)([0-9]+)(?:n([1-4]))?(?:p([1-8]))?\Z")


@dataclass
class Model:
    """One server model.

    :param nics: key of a port -> what the nodes have in common.
    :param rails: rail -> key of its port.
    :param gpus: rail -> the GPUs that its port serves.
    """

    name: str
    nodes: list[ObservedNode]
    nics: dict[str, Nic]
    choice: Choice
    rails: dict[str, str] = field(default_factory=dict)
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def on(self, rail: str) -> t.Iterator[tuple[ObservedNode, Nic]]:
        """Return each node with its port on a rail."""
        for node in self.nodes:
            yield node, node.nics[self.rails[rail]]


class Named(t.NamedTuple):
    """A rail, or one NIC or plane of it. ``nic`` and ``plane``: their numbers; None for a rail without several."""

    name: str
    base: str
    plane: int | None = None
    role: str = COMPUTE
    nic: int | None = None


def _numbers(part: re.Match[str]) -> tuple[int, int, int]:
    """Return the numbers of rail, NIC and plane in a name that matches :data:`_PARTS`."""
    return int(part.group(2)), int(part.group(3) or 1), int(part.group(4) or 1)


def models(nodes: t.Sequence[ObservedNode], name: str, findings: Findings) -> list[Model]:
    """Return the server models, the most common first. Nodes without a rail port are omitted and reported."""
    groups = _alike(nodes)
    result: list[Model] = []
    for members in groups:
        nics = {pci: _common([node.nics[pci] for node in members]) for pci in sorted(members[0].nics)}
        choice = choose(list(nics.values()), sorted(members[0].gpus))
        number = len(result) + 1
        own = name if number == 1 else "%s-%d" % (name, number)
        names = [node.name for node in members]
        for code, message, remedy in choice.notes:
            place = ("nodes",) if code == "DS201" else ("profiles", own)
            findings.add(code, place, message, remedy, names if code == "DS201" or len(groups) > 1 else ())
        if choice.rails:
            result.append(Model(own, members, nics, choice))
    for at, model in enumerate(result):
        any(_compare(earlier, model, findings) for earlier in result[:at])
    for model in result:
        _slots(model, findings)
        for pci in sorted(model.nics):
            hidden = [node.name for node in model.nodes if node.nics[pci].netdev is None]
            if hidden and pci not in model.choice.others:
                message = "%s has no netdev" % pci
                remedy = "check whether a pod or a virtual machine uses it, or its driver is missing"
                findings.add("DS102", ("profiles", model.name), message, remedy, hidden)
    return result


def _alike(nodes: t.Sequence[ObservedNode]) -> list[list[ObservedNode]]:
    """Return the nodes of each server model, the largest group first.

    Facts that a node does not show, because a pod holds the port or its driver is missing, do not make another model.
    """
    groups: dict[t.Any, list[tuple[dict[t.Any, t.Any], list[int]]]] = {}
    traits = [_traits(node) for node in nodes]
    # Nodes that show the most traits first, so that the others can match them.
    for at in sorted(range(len(nodes)), key=lambda at: -len(traits[at])):
        node, own = nodes[at], traits[at]
        cards = sorted((nic.key, nic.model, tuple(sorted(nic.near.items()))) for nic in node.nics.values())
        usable = any(not nic.carries and (nic.netdev or nic.rdma) for nic in node.nics.values())
        known = groups.setdefault((tuple(sorted(node.gpus.items())), node.models, tuple(cards), usable), [])
        for common, members in known:
            if all(common.get(key, value) == value for key, value in own.items()):
                common.update(own)
                members.append(at)
                break
        else:
            known.append((own, [at]))
    groups_of_nodes = [sorted(members) for known in groups.values() for _common, members in known]
    return [
        [nodes[at] for at in members] for members in sorted(groups_of_nodes, key=lambda group: (-len(group), group[0]))
    ]


def _traits(node: ObservedNode) -> dict[t.Any, t.Any]:
    """Return the visible traits that distinguish models with the same cards."""
    traits: dict[t.Any, t.Any] = {}
    for nic in node.nics.values():
        if not nic.hidden:
            traits[nic.key, "layer"] = nic.layer
            traits[nic.key, "carries"] = bool(nic.carries)
        if nic.rdma:
            traits[nic.key, "soft"] = nic.soft
        if not nic.hidden:
            traits[nic.key, "functions"] = tuple([member.pci for member in nic.members])
            if nic.planes:
                traits[nic.key, "planes"] = tuple([(plane.pci, plane.rdma_port) for plane in nic.planes])
            traits[nic.key, "vlan"] = nic.vlan and nic.vlan.id
    return traits


def _common(nics: t.Sequence[Nic]) -> Nic:
    """Return what the nodes of a model have in common about one port."""
    carrier = None if all(nic.carrier is None for nic in nics) else any(nic.carrier for nic in nics)
    first = next((nic for nic in nics if nic.netdev), None) or next((nic for nic in nics if not nic.hidden), nics[0])
    device = next((nic for nic in nics if nic.rdma), first)
    # A serial number belongs to one card: a model has only the fact that functions share it.
    return replace(
        first,
        speed=most_common(nic.speed for nic in nics),
        carrier=carrier,
        rdma=first.rdma or device.rdma,
        soft=first.soft if first.rdma else device.soft,
    )


def _compare(earlier: Model, later: Model, findings: Findings) -> bool:
    """Report two nearly equal models: a card is in another slot or missing. Return whether they are."""
    left, right = set(earlier.nics), set(later.nics)
    apart = sorted(left ^ right)
    near = 0 < len(apart) <= max(2, len(left) // 4) and earlier.nodes[0].gpus == later.nodes[0].gpus
    if near:
        message = "it differs from %s in the NICs at %s" % (earlier.name, ", ".join(apart))
        remedy = "check whether a card is missing or in another slot; the profile describes the cards that were found"
        findings.add("DS207", ("profiles", later.name), message, remedy, [node.name for node in later.nodes])
    return near


def _slots(model: Model, findings: Findings) -> None:
    """Report a PCI address with different slots on the nodes of a model, and a slot with two cards."""
    for pci in sorted(model.nics):
        slots = Counter(node.nics[pci].slot for node in model.nodes if node.nics[pci].slot)
        for slot, _count in slots.most_common()[1:]:
            message = "%s is in the slot %s, but in %s on most nodes" % (pci, slot, slots.most_common(1)[0][0])
            odd = [node.name for node in model.nodes if node.nics[pci].slot == slot]
            findings.add(
                "DS211", ("profiles", model.name), message, "check whether boards and firmware are the same", odd
            )
    cards: dict[str, Nic] = {}
    for nic, _gpus in model.choice.rails:
        first = cards.setdefault(nic.slot or nic.key, nic)
        if first.card != nic.card and first.pci.rpartition(".")[0] != nic.pci.rpartition(".")[0]:
            message = "%s and %s are two cards in the same slot %s" % (first.pci, nic.key, nic.slot)
            findings.add(
                "DS211", ("profiles", model.name), message, "do not identify ports by slot; PCI addresses were used"
            )


# -- rails -------------------------------------------------------------------------------------------------------------


def assign(server_models: t.Sequence[Model], template: str | None, findings: Findings) -> list[Named]:
    """Name the rails, in order, and assign each port of each model to its rail."""
    if not server_models:
        return []
    first = server_models[0]
    named = _by_names(first)
    default = [nic.key for nic, _gpus in first.choice.rails]
    order = list(named) if named else _by_tables(first) or _by_addresses(first) or default
    rails = _named(named, order, first, template)
    _give(first, dict(zip((rail.name for rail in rails), order)))
    _gpu_order(first, [rail.name for rail in rails], findings)
    for model in server_models[1:]:
        matched, how = _match(model, server_models[0], rails)
        if how == "order" and any(nic.addresses or nic.leaf for node in model.nodes for nic in node.nics.values()):
            message = "neither names nor networks nor leaves show which port is on which rail"
            remedy = "compare its ports with those of %s" % first.name
            findings.add("DS208", ("profiles", model.name), message, remedy)
        for pci in matched:
            matched[pci] = matched[pci] or _free(_default(model, template), rails)
            if matched[pci] not in {rail.name for rail in rails}:
                rails.append(_of_name(matched[pci]))
        _give(model, {rail: pci for pci, rail in matched.items()})
    rails = _in_order(rails)
    _leaves(server_models, rails, findings)
    return rails


def assign_storage(server_models: t.Sequence[Model], rails: t.Sequence[Named], findings: Findings) -> list[Named]:
    """Return storage rails: of ports with RDMA and addresses that are not on the given rails.

    Ports of further models are matched by their networks, then by order.
    """
    found: list[Named] = []
    nets: dict[str, set[Network]] = {}
    taken = {name for rail in rails for name in (rail.name, rail.base)}
    for model in server_models:
        ports = [key for key, role in sorted(model.choice.others.items()) if role == STORAGE and _addressed(model, key)]
        for key in ports:
            own = _nets(model, key)
            left = [name for name in nets if name not in model.rails]
            name = next((each for each in left if own & nets[each]), None) or next(iter(left), None)
            if name is None:
                number = next(at for at in range(1, 65537) if "stor%d" % at not in {*taken, *nets})
                name = "stor%d" % number
                found.append(Named(name, name, role=STORAGE))
            nets.setdefault(name, set()).update(own)
            model.rails[name], model.gpus[name] = key, ()
            del model.choice.others[key]
            message = "%s has RDMA and addresses, and is not a compute rail" % (model.nics[key].netdev or key)
            remedy = "if Railyard must not configure the port, move it to other_ports and remove the rail"
            findings.add("DS216", ("rails", name), message, remedy)
    return found


def _addressed(model: Model, key: str) -> bool:
    """Return whether a port has a hardware RDMA device, and static addresses on most nodes."""
    ports = [node.nics[key] for node in model.nodes]
    return model.nics[key].has_rdma and 2 * sum(bool(nic.addresses) for nic in ports) > len(ports)


def _free(names: Template, rails: t.Sequence[Named]) -> str:
    """Return the first name after the number of rails that no rail or plane has."""
    taken = {name for rail in rails for name in (rail.name, rail.base)}
    number = len(rails) + 1
    while names.fill({"n": number}) in taken:
        number += 1
    return names.fill({"n": number})


def _of_name(name: str) -> Named:
    """Return the rail or plane of a name that a device has."""
    part = _PARTS.match(name)
    if not part:
        return Named(name, name)
    nic, plane = (int(text) if text else None for text in part.group(3, 4))
    return Named(name, "".join(part.group(1, 2)), plane, nic=nic)


def _in_order(rails: list[Named]) -> list[Named]:
    """Sort rails by the numbers in their names if all have one form, because a further model may add rails."""
    parts = [_PARTS.match(rail.name) for rail in rails]
    keys = [(part.group(1), *_numbers(part)) for part in parts if part]
    if len(keys) != len(rails) or len({key[0] for key in keys}) != 1:
        return rails
    return [rail for _key, rail in sorted(zip(keys, rails))]


def _give(model: Model, ports: t.Mapping[str, str]) -> None:
    """Set the rails and GPUs of a model's ports."""
    served = {nic.key: gpus for nic, gpus in model.choice.rails}
    model.rails = dict(ports)
    model.gpus = {rail: served[pci] for rail, pci in ports.items()}


def rail_name(nic: Nic) -> str | None:
    """Return the rail in the names of a port; None without one."""
    for pattern, text in ((_RDMA, nic.rdma), (_NETDEV, nic.parent or nic.netdev)):
        match = pattern.match(text or "")
        if match:
            # the interface of a NIC with planes may be the netdev of one
            return re.sub("p[1-8]$", "", match.group(1)) if nic.device_planes > 1 else match.group(1)
    return None


def _shown(model: Model, pci: str) -> list[Nic]:
    """Return a port on the nodes on which it is visible; on all nodes if it is visible on none."""
    ports = [node.nics[pci] for node in model.nodes]
    return [nic for nic in ports if nic.netdev] or [nic for nic in ports if not nic.hidden] or ports


def _by_names(model: Model) -> dict[str, str]:
    """Return PCI address -> the rail in device names, in the order of rails; empty unless all ports have one."""
    rails: dict[str, str] = {}
    for nic, _gpus in model.choice.rails:
        common_name = Counter(rail_name(each) for each in _shown(model, nic.key)).most_common(1)[0][0]
        if common_name is None or common_name in rails.values():
            return {}
        rails[nic.key] = common_name
    parts = {pci: _PARTS.match(name) for pci, name in rails.items()}
    stems = {part.group(1) for part in parts.values() if part}
    if len(stems) != 1:
        return {}
    keys = {pci: _numbers(part) for pci, part in parts.items() if part}
    return {pci: rails[pci] for pci in sorted(rails, key=lambda each: keys[each])}


def _by_tables(model: Model) -> list[str]:
    """Return ports in the order of their routing tables; empty unless each has its own table."""
    tables: dict[str, int] = {}
    for nic, _gpus in model.choice.rails:
        table = Counter(each.table for each in _shown(model, nic.key)).most_common(1)[0][0]
        if table is None or table in tables.values():
            return []
        tables[nic.key] = table
    return sorted(tables, key=lambda pci: tables[pci])


def _by_addresses(model: Model) -> list[str]:
    """Return ports in the order of their addresses; empty unless they share one network and all nodes have the same
    order."""
    keys = [nic.key for nic, _gpus in model.choice.rails]
    orders: set[tuple[str, ...]] = set()
    for node in model.nodes:
        held = {key: next(iter(node.nics[key].addresses.values()), None) for key in keys}
        known = {key: address for key, address in held.items() if address}
        if len(known) == len(keys) and len({address.net for address in known.values()}) == 1:
            orders.add(tuple(sorted(known, key=lambda key: known[key].address)))
    return list(orders.pop()) if len(orders) == 1 and model.choice.nics * model.choice.planes == 1 else []


def _default(model: Model, template: str | None) -> Template:
    return Template(template or ("gpu{n:02}" if model.nodes[0].gpus else "rail{n:02}"))


def _named(by_name: t.Mapping[str, str], order: t.Sequence[str], model: Model, template: str | None) -> list[Named]:
    nics, planes = model.choice.nics, model.choice.planes
    if by_name and template is None:
        parts = [_PARTS.match(name) for name in by_name.values()]
        if all(part and (part.group(3) or part.group(4)) for part in parts):
            return [_of_name(name) for name in by_name.values()]
        return [Named(name, name) for name in by_name.values()]
    names = _default(model, template)
    rails = []
    for at in range(len(order)):
        base = names.fill({"n": at // (nics * planes) + 1})
        nic = at // planes % nics + 1 if nics > 1 else None
        plane = at % planes + 1 if planes > 1 else None
        name = base + ("n%d" % nic if nic else "") + ("p%d" % plane if plane else "")
        rails.append(Named(name, base, plane, nic=nic))
    return rails


def _gpu_order(model: Model, rails: t.Sequence[str], findings: Findings) -> None:
    """Report rails that are in another order than the GPUs that they serve."""
    served = [min(model.gpus[rail]) for rail in rails if model.gpus[rail]]
    if served != sorted(served):
        shown = ", ".join(str(gpu) for gpu in served)
        message = "according to the names, tables and addresses of ports, rails serve the GPUs %s in this order" % shown
        remedy = "keep it if it is intended; otherwise cables, names or tables of two ports are swapped"
        findings.add("DS209", ("rails",), message, remedy)


def _match(model: Model, first: Model, rails: t.Sequence[Named]) -> tuple[dict[str, str], str]:
    """Return PCI address -> rail, empty for a port on none of these rails; and the criterion that was used."""
    by_name = _by_names(model)
    names = [rail.name for rail in rails]
    renamed = any(first.rails.get(rail) != pci for pci, rail in _by_names(first).items())
    if not renamed and set(by_name.values()) & set(names):
        return dict(by_name), "names"
    for how, traits in (("networks", _nets), ("leaves", _leafs)):
        known = {rail: traits(first, first.rails[rail]) for rail in names if rail in first.rails}
        matched: dict[str, str] = {}
        for nic, _gpus in model.choice.rails:
            own = traits(model, nic.key)
            fits = [rail for rail in known if own & known[rail]]
            matched[nic.key] = fits[0] if len(fits) == 1 else ""
        matched_rails = [rail for rail in matched.values() if rail]
        if matched_rails and len(set(matched_rails)) == len(matched_rails):
            return matched, how
    order = [nic.key for nic, _gpus in model.choice.rails]
    return {pci: names[at] if at < len(names) else "" for at, pci in enumerate(order)}, "order"


def _nets(model: Model, pci: str) -> set[Network]:
    """Return the networks of a port's addresses, without links of two addresses, which only one port has."""
    return {
        address.net
        for node in model.nodes
        for bits, address in node.nics[pci].addresses.items()
        if address.net.prefix < bits - 1
    }  # fmt: skip


def _leafs(model: Model, pci: str) -> set[str]:
    """Return the leaves whose LLDP a port receives."""
    return {leaf for leaf in (node.nics[pci].leaf for node in model.nodes) if leaf}


def _leaves(server_models: t.Sequence[Model], rails: t.Sequence[Named], findings: Findings) -> None:
    """Report ports that receive LLDP of a leaf that most nodes receive on another rail."""
    heard = [
        (rail.name, node.name, nic.leaf)
        for rail in rails
        for model in server_models
        if rail.name in model.rails
        for node, nic in model.on(rail.name)
        if nic.leaf
    ]
    counts: dict[str, Counter[str]] = {}
    for rail_, _node, leaf in heard:
        counts.setdefault(leaf, Counter())[rail_] += 1
    for rail_, node_name, leaf in heard:
        most = max(counts[leaf].values())
        owners = [each for each in counts[leaf] if counts[leaf][each] == most]
        if counts[leaf][rail_] == most and len(owners) > 1:
            message = "LLDP reports the leaf %s equally often on %s" % (leaf, ", ".join(owners))
            remedy = "ignore this if one leaf serves several rails; otherwise check the cables"
            findings.add("DS210", ("rails",), message, remedy)
        elif rail_ not in owners:
            message = "LLDP reports the leaf %s, which is on %s on most nodes" % (leaf, owners[0])
            remedy = "check whether two cables are swapped"
            findings.add("DS210", ("rails", rail_), message, remedy, [node_name])
