# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choose the rail ports among the NICs of a server model, and the GPUs that each serves."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_planes import (
    PLANES,
    is_dual_port,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DISTANCES

# A port without a rail that is slower than this, in Gb/s, is for management, else for storage.
STORAGE_SPEED = 25
# Numbers of NICs of one rail on a node.
_NICS = (1, 2, 4)


@dataclass
class Choice:
    """The result.

    :param rails: NICs with the GPUs that each serves, in the order of rails.
    :param nics: how many NICs a rail has; they follow one another.
    :param planes: how many consecutive ports are the planes of one NIC.
    :param others: PCI address -> role.
    :param notes: findings as (code, message, remedy).
    :param distance: of the GPU that is farthest from its NIC.
    """

    rails: list[tuple[Nic, tuple[int, ...]]] = field(default_factory=list)
    nics: int = 1
    planes: int = 1
    others: dict[str, str] = field(default_factory=dict)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    distance: str | None = None


def choose(nics: t.Sequence[Nic], gpus: t.Sequence[int]) -> Choice:
    """Choose by GPU affinity, or without GPUs by model, link layer and speed.

    :param nics: the ports of one server model, in the order of their PCI addresses.
    """
    choice = Choice()
    free = [nic for nic in nics if not nic.carries and not nic.further and (nic.netdev or nic.rdma)]
    able = [nic for nic in free if nic.has_rdma] or [nic for nic in free if nic.soft] or free
    if not able:
        message = "every NIC carries the connection or the default route, is used by a pod, or has no driver"
        remedy = (
            "check that drivers are loaded, which NICs pods use, and whether leaves advertise default routes to rails"
        )
        choice.notes.append(("DS201", message, remedy))
    elif gpus:
        _by_gpus(able, gpus, choice)
    else:
        _by_models(able, choice)
    _others(nics, choice)
    return choice


def _rank(nic: Nic, gpu: int) -> int:
    """Return the distance between a NIC and a GPU as a position in ``DISTANCES``."""
    return DISTANCES.index(nic.near.get(gpu, DISTANCES[-1]))


# -- with GPUs ---------------------------------------------------------------------------------------------------------


def _by_gpus(able: t.Sequence[Nic], gpus: t.Sequence[int], choice: Choice) -> None:
    """Choose the NICs that are nearest to GPUs."""
    best = {gpu: min(_rank(nic, gpu) for nic in able) for gpu in gpus}
    near = {gpu: [nic for nic in able if _rank(nic, gpu) == best[gpu]] for gpu in gpus}
    nowhere = DISTANCES.index("SYS")
    groups = _components(near)
    if all(rank == nowhere for rank in best.values()):
        message = "all NICs have the same distance to all GPUs (%s)" % DISTANCES[-1]
        remedy = "compare the order of ports and GPUs with the server's manual; the order is that of PCI addresses"
        choice.notes.append(("DS204", message, remedy))
    # a rail has the same number of NICs on all GPUs
    numbers = {_layout(group, ports)[0] for group, ports in groups}
    nics, before = numbers.pop() if len(numbers) == 1 else 1, list(choice.notes)
    kept = [(group, _even(group, ports, nics, choice)) for group, ports in groups]
    if nics > 1 and any(_layout(group, ports)[0] != nics for group, ports in kept):
        # some of them belong to no rail
        nics, choice.notes = 1, before
        kept = [(group, _even(group, ports, nics, choice)) for group, ports in groups]
    sizes = [(nics, _layout(group, ports)[1]) for group, ports in kept]
    for (group, ports), size in zip(kept, sizes):
        choice.rails.extend(_paired(group, ports, size[0] * size[1], choice))
    if len(set(sizes)) == 1:
        choice.nics, choice.planes = sizes[0]
    elif choice.rails:
        message = "some GPUs have several ports of one card next to them, and others do not"
        choice.notes.append(("DS202", message, "remove ports that are not on a rail, or connect the others"))
    choice.rails.sort(key=lambda rail: (min(rail[1]) if rail[1] else len(gpus), rail[0].pci))
    ranks = [_rank(nic, gpu) for nic, served in choice.rails for gpu in served]
    choice.distance = DISTANCES[max(ranks)] if ranks else None


def _components(near: t.Mapping[int, t.Sequence[Nic]]) -> list[tuple[list[int], list[Nic]]]:
    """Return GPUs that share their nearest NICs, with these NICs, each in order."""
    groups: list[tuple[list[int], dict[str, Nic]]] = []
    for gpu in sorted(near):
        ports = {nic.key: nic for nic in near[gpu]}
        meeting = [group for group in groups if set(group[1]) & set(ports)]
        groups = [group for group in groups if group not in meeting]
        members = sorted([gpu] + [each for group in meeting for each in group[0]])
        for group in meeting:
            ports.update(group[1])
        groups.append((members, ports))
    return [(members, [ports[pci] for pci in sorted(ports)]) for members, ports in sorted(groups, key=lambda g: g[0])]


def _even(gpus: t.Sequence[int], ports: list[Nic], nics: int, choice: Choice) -> list[Nic]:
    """Return the rail ports among more NICs than GPUs, by a trait that they share and the others do not have.

    :param nics: the number of NICs per GPU, if it is the same for all GPUs; otherwise 1.
    """
    if len(ports) <= len(gpus) or (nics == 1 and _layout(gpus, ports)[1] > 1):
        return ports
    for what, key in _TRAITS:
        kinds: dict[t.Any, list[Nic]] = {}
        for nic in ports:
            kinds.setdefault(key(nic), []).append(nic)
        fits = [kind for value, kind in kinds.items() if value and _fits(gpus, kind)]
        if len(kinds) > 1 and fits:
            # Of several that match, the fastest, because compute fabrics are fastest.
            kept = max(fits, key=lambda kind: max(nic.speed or 0 for nic in kind))
            excluded = [nic for nic in ports if nic not in kept]
            message = "%s %s the rails by %s, for %s" % (_names(excluded), _not_on(excluded), what, _gpus(gpus))
            choice.notes.append(("DS206", message, "swap them if this is wrong"))
            return kept
    message = "%s are equally near to %s" % (_names(ports), _gpus(gpus))
    if nics > 1:
        remedy = "give each NIC its own rail if it has a network of its own, or remove the ports without a rail"
        choice.notes.append(("DS315", message + ": they are the NICs of one rail", remedy))
    else:
        choice.notes.append(("DS202", message, "remove the ports without a rail"))
    return ports


def _fits(gpus: t.Sequence[int], ports: t.Sequence[Nic]) -> bool:
    """Return whether each GPU has one of these ports, or one card with the ports of several planes."""
    nics, planes = _layout(gpus, ports)
    return len(ports) == len(gpus) or (nics == 1 and planes > 1)


def _not_on(out: t.Sequence[Nic]) -> str:
    return "is not on" if len(out) == 1 else "are not on"


# Traits that distinguish compute ports from others at the same distance, the most reliable first.
_TRAITS: tuple[tuple[str, t.Callable[[Nic], t.Any]], ...] = (
    ("link layer", lambda nic: nic.layer),
    ("model", lambda nic: nic.model),
    ("speed", lambda nic: nic.speed),
    ("carrier", lambda nic: bool(nic.carrier)),
)


def _layout(gpus: t.Sequence[int], ports: t.Sequence[Nic]) -> tuple[int, int]:
    """Return the number of NICs per GPU, and the number of ports of each NIC: its planes. 1 if they are not regular.

    Ports of a card that has two ports according to its name are not planes.
    """
    cards: dict[str, int] = {}
    for nic in ports:
        cards[nic.card] = cards.get(nic.card, 0) + 1
    sizes = set(cards.values())
    size = sizes.pop() if len(sizes) == 1 else 0
    nics, rest = divmod(len(cards), len(gpus))
    if rest or nics not in _NICS or size not in (1, *PLANES) or (size > 1 and any(map(is_dual_port, ports))):
        return 1, 1
    alike = len({(nic.model, nic.layer, nic.speed, len(nic.planes)) for nic in ports}) == 1
    return (nics, size) if nics == 1 or alike else (1, 1)


def _paired(
    gpus: t.Sequence[int], ports: t.Sequence[Nic], share_of_rail: int, choice: Choice
) -> list[tuple[Nic, tuple[int, ...]]]:
    """Pair ports with GPUs, both in order. Add a note if the order alone decides.

    :param share_of_rail: the number of consecutive ports of one rail, with all its planes and NICs.
    """
    slots = len(ports) // share_of_rail
    if (
        slots > 1
        and (share_of_rail > 1 or slots <= len(gpus))
        and not any(code == "DS204" for code, _message, _remedy in choice.notes)
    ):
        message = "%s %s equally near to %s" % (_names(ports), "is" if len(ports) == 1 else "are", _gpus(gpus))
        remedy = "compare with the server's manual or the cables; the order is that of PCI addresses"
        choice.notes.append(("DS203", message, remedy))
    if slots <= len(gpus) and len(gpus) % max(slots, 1) == 0:
        share = len(gpus) // slots
        return [
            (nic, tuple(gpus[at // share_of_rail * share : at // share_of_rail * share + share]))
            for at, nic in enumerate(ports)
        ]
    if slots < len(gpus):
        message = "%s cannot be divided evenly among %s" % (_names(ports), _gpus(gpus))
        choice.notes.append(("DS202", message, "set gpu for each port"))
    return [(nic, tuple(gpus[at : at + 1])) for at, nic in enumerate(ports)]


# -- without -----------------------------------------------------------------------------------------------------------


def _by_models(able: t.Sequence[Nic], choice: Choice) -> None:
    """Choose the ports of the most common model, or of the fastest of several."""
    kinds: dict[tuple[str, str], list[Nic]] = {}
    for nic in able:
        kinds.setdefault((nic.model, nic.layer), []).append(nic)
    kept = max(kinds.values(), key=lambda kind: (len(kind), max(nic.speed or 0 for nic in kind)))
    message = "no GPU found: rails are the %d ports of the most common model, by PCI address" % len(kept)
    choice.notes.append(
        ("DS205", message, "check that GPUs are installed and their drivers are loaded, or compare with the cables")
    )
    choice.rails = [(nic, ()) for nic in kept]


def _others(nics: t.Sequence[Nic], choice: Choice) -> None:
    """Set the roles of the NICs that are not rail ports."""
    rails = {nic.key for nic, _gpus in choice.rails}
    for nic in nics:
        if nic.key in rails:
            continue
        slow = nic.speed is not None and nic.speed < STORAGE_SPEED
        management = bool(nic.carries) or slow or nic.routed or not (nic.has_rdma or nic.speed)
        choice.others[nic.key] = "management" if management else "storage"


def _names(ports: t.Sequence[Nic]) -> str:
    texts = [nic.netdev or nic.rdma or nic.key for nic in ports]
    return ", ".join(texts[:-1]) + " and " + texts[-1] if len(texts) > 1 else "".join(texts)


def _gpus(gpus: t.Sequence[int]) -> str:
    return "GPU %d" % gpus[0] if len(gpus) == 1 else "GPUs %s" % ", ".join(map(str, gpus))
