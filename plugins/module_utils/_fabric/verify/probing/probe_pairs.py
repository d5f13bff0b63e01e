# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rounds of the proof: who probes whom, so that every node is in at most one pair at a time."""

from __future__ import annotations

import typing as t

Pair = t.List[str]
SERVE, PROBE = "serve", "probe"


class Turn(t.NamedTuple):
    """What a node does in a step: it serves or probes the partner of a round."""

    step: int
    mode: str
    round: int
    partner: str


def rounds(nodes: t.Sequence[str], most: int) -> list[list[Pair]]:
    """At most ``most`` rounds of ``[server, client]`` pairs of ``nodes``.

    All pairs of n nodes take n - 1 rounds, n where n is odd (one node then rests in each). Where that is more than
    ``most``, the first two rounds and others evenly spread over the rest are taken: already the first two link every
    node to every other through a chain of pairs, so no two parts of a network that are cut off from each other can both
    pass.

    With at least ``2 * most`` nodes, each pair has one node of each half, and the halves change sides in each round: a
    node that probes in one round serves in the next. Else this is the circle method of round-robin tournaments.

    :raises ValueError: for a node named twice, or less than one round.
    """
    if most < 1:
        raise ValueError("at least one round is needed, not %d" % most)
    if len(set(nodes)) != len(nodes):
        raise ValueError("a node is named twice")
    if len(nodes) < 2:
        return []
    seats: list[str | None] = list(nodes)
    if len(seats) % 2:
        seats.append(None)
    if len(seats) >= 2 * most:
        return [_halves(seats, shift, turn) for turn, shift in enumerate(_chosen(len(seats) // 2, most))]
    return [_round(seats, number, turn) for turn, number in enumerate(_chosen(len(seats) - 1, most))]


def turns(rounds_of: t.Sequence[t.Sequence[Pair]]) -> tuple[int, dict[str, list[Turn]]]:
    """The number of steps in which all rounds run, and what each node does in them.

    A client probes in the step after its server began to serve. A node that probes may begin to serve the next round in
    the same step; a node that serves has one client at a time.
    """
    found: dict[str, list[Turn]] = {}
    step = -1
    serving: set[str] = set()
    for number, pairs in enumerate(rounds_of):
        servers = {server for server, _client in pairs}
        step += 2 if servers & serving else 1
        serving = servers
        for server, client in pairs:
            found.setdefault(server, []).append(Turn(step, SERVE, number, client))
            found.setdefault(client, []).append(Turn(step + 1, PROBE, number, server))
    return (step + 2 if found else 0), found


def _chosen(total: int, most: int) -> list[int]:
    if total <= most:
        return list(range(total))
    if most <= 2:
        return list(range(most))
    return [0, 1] + [2 + (total - 2) * step // (most - 2) for step in range(most - 2)]


def _halves(seats: t.Sequence[str | None], shift: int, turn: int) -> list[Pair]:
    """Each seat of even number with the one of odd number that is ``shift`` pairs further."""
    evens, odds = seats[::2], seats[1::2]
    pairs: list[Pair] = []
    for place, one in enumerate(evens):
        other = odds[(place + shift) % len(odds)]
        if one is not None and other is not None:
            pairs.append([other, one] if turn % 2 else [one, other])
    return pairs


def _round(seats: t.Sequence[str | None], number: int, turn: int) -> list[Pair]:
    """The last seat stays; the others sit in a ring, and those whose places add up to twice ``number`` meet."""
    ring = len(seats) - 1
    pairs: list[Pair] = []
    for offset in range(len(seats) // 2):
        one = seats[(number + offset) % ring]
        other = seats[ring] if offset == 0 else seats[(number - offset) % ring]
        if one is not None and other is not None:
            # Changing sides lets every node serve about as often as it probes.
            pairs.append([one, other] if (offset or turn) % 2 else [other, one])
    return pairs
