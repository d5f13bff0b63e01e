# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rounds of the proof: which nodes probe each other, so that every node is in at most one pair at a time."""

from __future__ import annotations

import typing as t

Pair = t.List[str]
# Nodes that probe one another as neighbours.
_BLOCK = 8


def rounds(nodes: t.Sequence[str], most: int) -> list[list[Pair]]:
    """Return at most ``most`` rounds of ``[server, client]`` pairs of ``nodes``.

    All pairs of n nodes take n - 1 rounds, or n rounds if n is odd (one node then rests in each). If that is more than
    ``most``, the first two rounds are taken, and others that are evenly spread over the rest. The first two rounds link
    every node to every other through a chain of pairs, so that two separate parts of a network cannot both pass.

    With at least ``2 * most`` nodes, each pair has a node of one group and a later node of another, and the groups
    change sides in each round: a node that probes in one round serves in the next. In two of four rounds the groups are
    the halves of ``nodes``; in the others they are the halves of blocks of neighbours, which usually share their leaf
    switches. If the halves of ``nodes`` have an odd number, one more pair of nodes rests in rounds of neighbours. With
    fewer nodes, this is the circle method of round-robin tournaments.

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
        return _rounds_of_groups(seats, most)
    return [_round(seats, number, turn) for turn, number in enumerate(_chosen(len(seats) - 1, most))]


def _chosen(total: int, most: int) -> list[int]:
    """Return the numbers of ``most`` of ``total`` rounds."""
    if total <= most:
        return list(range(total))
    if most <= 2:
        return list(range(most))
    return [0, 1] + [2 + (total - 2) * step // (most - 2) for step in range(most - 2)]


def _rounds_of_groups(seats: t.Sequence[str | None], most: int) -> list[list[Pair]]:
    """Return the rounds whose groups are halves of all nodes or of blocks of neighbours."""
    half = len(seats) // 2
    first, second = seats[:half], seats[half:]
    # two rounds have the same groups; blocks of eight have four rounds
    near = [turn for turn in range(min(most, 8)) if turn % 4 >= 2] if half >= _BLOCK else []
    shifts = iter(_chosen(half, most - len(near)))
    rounds_of_pairs: list[list[Pair]] = []
    for turn in range(most):
        if turn in near:
            shift = near.index(turn)
            pairs = [pair for block in (*_blocks(first), *_blocks(second)) for pair in _halves(block, shift)]
        else:
            pairs = _halves(seats, next(shifts))
        rounds_of_pairs.append([pair[::-1] for pair in pairs] if turn % 2 else pairs)
    return rounds_of_pairs


def _blocks(seats: t.Sequence[str | None]) -> t.Iterator[t.Sequence[str | None]]:
    """Return blocks of ``_BLOCK`` seats. The last one has up to twice as many."""
    last = len(seats) // _BLOCK - 1
    for number in range(last):
        yield seats[number * _BLOCK : (number + 1) * _BLOCK]
    yield seats[last * _BLOCK :]


def _halves(seats: t.Sequence[str | None], shift: int) -> list[Pair]:
    """Pair each seat of the first half with the seat of the second half that is ``shift`` places further."""
    first, second = seats[: len(seats) // 2], seats[len(seats) // 2 :]
    pairs = ((client_seat, second[(place + shift) % len(second)]) for place, client_seat in enumerate(first))
    return [
        [client_seat, server_seat]
        for client_seat, server_seat in pairs
        if client_seat is not None and server_seat is not None
    ]


def _round(seats: t.Sequence[str | None], number: int, turn: int) -> list[Pair]:
    """Return one round of the circle method.

    The last seat stays. The others are in a ring, and seats whose places add up to twice ``number`` are pairs.
    """
    ring = len(seats) - 1
    pairs: list[Pair] = []
    for offset in range(len(seats) // 2):
        seat = seats[(number + offset) % ring]
        opposite = seats[ring] if offset == 0 else seats[(number - offset) % ring]
        if seat is not None and opposite is not None:
            # Changing sides lets every node serve about as often as it probes.
            pairs.append([seat, opposite] if (offset or turn) % 2 else [opposite, seat])
    return pairs
