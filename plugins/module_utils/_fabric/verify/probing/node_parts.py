# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of a run: blocks of nodes that separate runs read and probe, and the pairs between nodes of two parts."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs

# The value of railyard_part with which a run gives the verdict on all parts.
JUDGE = "judge"
_PART = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})\Z")


@dataclass(frozen=True, order=True)
class Part:
    """Part ``number`` of ``count``, from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return "%d/%d" % (self.number, self.count)


def parse(text: str) -> Part:
    """Return the part that ``text`` names, such as ``2/8``.

    :raises ValueError: for other texts.
    """
    found = _PART.match(text)
    part = Part(*map(int, found.groups())) if found else None
    if part is None or part.number > part.count:
        raise ValueError("%s is not a part of the nodes" % (text or "an empty text"))
    return part


def cut(nodes: t.Sequence[str], part: Part) -> t.Sequence[str]:
    """Return the nodes of a part, which follow one another. Parts differ by at most one node; with fewer nodes than
    parts, the last parts have none.
    """
    size, larger = divmod(len(nodes), part.count)
    first = (part.number - 1) * size + min(part.number - 1, larger)
    return nodes[first : first + size + (part.number <= larger)]


def links(units: t.Mapping[str, t.Any]) -> list[str]:
    """Return the nodes of a part that probe nodes of other parts: the first of each unit, and at least two.

    :param units: node -> its unit, or None.
    """
    first: dict[t.Any, str] = {}
    for name, unit in units.items():
        first.setdefault(unit, name)
    # with two nodes, the part stays linked to the others if one of the two is lost
    return list(first.values()) if len(first) > 1 else list(units)[:2]


def rounds_across(parts: t.Sequence[t.Sequence[str]], most: int) -> list[list[probe_pairs.Pair]]:
    """Return at most ``most`` rounds of ``[server, client]`` pairs, each of nodes of two parts.

    Parts are paired as :func:`.probe_pairs.rounds` pairs nodes, so that a chain of pairs links each part to every
    other. Further rounds pair the same parts with other partners.

    :param parts: the nodes of each part that :func:`links` returned.
    """
    names = [str(number) for number, nodes in enumerate(parts) if nodes]
    chosen = probe_pairs.rounds(names, most)
    rounds: list[list[probe_pairs.Pair]] = []
    paired: set[frozenset[str]] = set()
    for number in range(most if chosen else 0):
        shift, place = divmod(number, len(chosen))
        pairs = [
            pair for server, client in chosen[place] for pair in _zip(parts[int(server)], parts[int(client)], shift)
        ]
        rounds.append([pair for pair in pairs if frozenset(pair) not in paired])
        paired.update(map(frozenset, pairs))
    return [pairs for pairs in rounds if pairs]


def _zip(servers: t.Sequence[str], clients: t.Sequence[str], shift: int) -> list[probe_pairs.Pair]:
    """Pair the nodes of two parts. Those of the larger part are shifted by ``shift`` places."""
    if len(servers) > len(clients):
        servers = _shifted(servers, shift)
    else:
        clients = _shifted(clients, shift)
    return [[server, client] for server, client in zip(servers, clients)]


def _shifted(nodes: t.Sequence[str], places: int) -> list[str]:
    places %= len(nodes)
    return [*nodes[places:], *nodes[:places]]
