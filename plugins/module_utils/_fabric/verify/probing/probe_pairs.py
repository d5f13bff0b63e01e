# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rounds of the proof: who probes whom, so that every node is in at most one pair at a time."""

from __future__ import annotations

import typing as t

Pair = t.List[str]


def rounds(nodes: t.Sequence[str], most: int) -> list[list[Pair]]:
    """At most ``most`` rounds of ``[server, client]`` pairs of ``nodes``.

    This is the circle method of round-robin tournaments. All pairs of n nodes take n - 1 rounds, n where n is odd
    (one node then rests in each). Where that is more than ``most``, the first two rounds and others evenly spread over
    the rest are taken: already the first two link every node to every other through a chain of pairs, so no two parts
    of a network that are cut off from each other can both pass.

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
    return [_round(seats, number, turn) for turn, number in enumerate(_chosen(len(seats) - 1, most))]


def _chosen(total: int, most: int) -> list[int]:
    if total <= most:
        return list(range(total))
    if most <= 2:
        return list(range(most))
    return [0, 1] + [2 + (total - 2) * step // (most - 2) for step in range(most - 2)]


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
