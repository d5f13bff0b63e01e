# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rounds of the proof: which nodes probe each other, so that every node is in at most one pair at a time."""

from __future__ import annotations

import itertools
import math
import typing as t

Pair = t.List[str]
Seats = t.Sequence[t.Optional[str]]
# Nodes that probe one another as neighbours.
_BLOCK = 8


def rounds(nodes: t.Sequence[str], most: int, leaves: t.Mapping[str, t.Hashable] | None = None) -> list[list[Pair]]:
    """Return at most ``most`` rounds of ``[server, client]`` pairs of ``nodes``.

    All pairs of n nodes take n - 1 rounds, or n rounds if n is odd (one node then rests in each). Two nodes take two
    rounds, because a transfer shows only the direction from the client to the server. If that is more than ``most``,
    the first two rounds are taken, and others that are evenly spread over the rest. The first two rounds link every
    node to every other through a chain of pairs, so that two separate parts of a network cannot both pass.

    With at least ``2 * most`` nodes, each pair has a node of one group and a later node of another, and the groups
    change sides in each round: a node that probes in one round serves in the next. In two of four rounds the groups are
    the halves of ``nodes``; in the others they are the halves of blocks of neighbours, which usually share their leaf
    switches. If the halves of ``nodes`` have an odd number, one more pair of nodes rests in rounds of neighbours. With
    fewer nodes, this is the circle method of round-robin tournaments.

    If at least ``2 * most`` nodes have several leaves, neighbours are nodes of one leaf. In the other rounds, the
    partners of the nodes of a leaf are on as many different leaves as possible, so that few rounds test most paths
    between leaves.

    :param leaves: node -> what is the same for all nodes of one leaf (or of the same leaves), from the plan.
    :raises ValueError: for a node named twice, or less than one round.
    """
    if most < 1:
        raise ValueError("at least one round is needed, not %d" % most)
    if len(set(nodes)) != len(nodes):
        raise ValueError("a node is named twice")
    if len(nodes) < 2:
        return []
    leaves = leaves or {}
    # nodes of one leaf follow one another
    first = {leaf: number for number, leaf in reversed(list(enumerate(map(leaves.get, nodes))))}
    seats: list[str | None] = [*sorted(nodes, key=lambda name: first[leaves.get(name)])]
    if len(seats) % 2:
        seats.append(None)
    if len(seats) >= 2 * most:
        return _rounds_of_leaves(seats, most, leaves) if len(first) > 1 else _rounds_of_groups(seats, most)
    numbers = [0, 0][:most] if len(seats) == 2 else _chosen(len(seats) - 1, most)
    return [_round(seats, number, turn) for turn, number in enumerate(numbers)]


def _chosen(total: int, most: int) -> list[int]:
    """Return the numbers of ``most`` of ``total`` rounds."""
    if total <= most:
        return list(range(total))
    if most <= 2:
        return list(range(most))
    return [0, 1] + [2 + (total - 2) * step // (most - 2) for step in range(most - 2)]


def _rounds_of_leaves(seats: Seats, most: int, leaves: t.Mapping[str, t.Hashable]) -> list[list[Pair]]:
    """Return the rounds of nodes of several leaves, which follow one another in ``seats``.

    The pairs of a round are between the halves of all seats, as in the first two rounds, between the halves of each
    half, or between nodes of one leaf.
    """
    half = len(seats) // 2
    halves = [seats[:half], seats[half:]]
    quarters = [quarter for each in halves for quarter in (each[: len(each) // 2], each[len(each) // 2 :])]
    # with fewer leaves, the halves of a half can be one leaf
    has_quarters = len(_by_leaf(seats, leaves)) >= len(quarters)
    pieces = [group for each in (quarters if has_quarters else halves) for group in _by_leaf(each, leaves)]
    blocks = [[*block, None] if len(block) % 2 else block for group in pieces for block in _blocks(group)]
    # a block of n seats has n - 1 rounds
    near = [turn for turn in range(min(most, _BLOCK)) if turn % 4 >= 2][: max(map(len, blocks)) - 1]
    within = [turn for turn in (4, 5) if turn < most] if has_quarters else []
    others = [turn for turn in range(most) if turn not in near and turn not in within]
    rounds_of_pairs: list[list[Pair]] = []
    for turn in range(most):
        if turn in near:
            number = near.index(turn)
            pairs = [pair for block in blocks if number < len(block) - 1 for pair in _round(block, number, turn)]
        else:
            turns, parts = (within, halves) if turn in within else (others, [seats])
            pairs = [pair for part in parts for pair in _across(part, leaves, turns.index(turn), len(turns))]
            pairs = [pair[::-1] for pair in pairs] if turn % 2 else pairs
        rounds_of_pairs.append(pairs)
    return rounds_of_pairs


def _by_leaf(seats: Seats, leaves: t.Mapping[str, t.Hashable]) -> list[list[str | None]]:
    return [list(each) for _leaf, each in itertools.groupby(seats, lambda seat: leaves.get(seat or ""))]


def _across(seats: Seats, leaves: t.Mapping[str, t.Hashable], turn: int, turns: int) -> list[Pair]:
    """Return pairs of the halves of ``seats``. The second half is dealt as cards are, so that neighbours of the first
    half have partners on different leaves.

    :param turn, turns: number of the round, and how many rounds these halves have. The pairs of the first two connect
        all seats, because their shifts differ by a number that has no common divisor with the seats of a half.
    """
    half = len(seats) // 2
    groups = _by_leaf(seats[half:], leaves)
    dealt = [group[place] for place in range(max(map(len, groups))) for group in groups if place < len(group)]
    # a leaf's next partners are on leaves that the first round has not paired with it
    size = len(_by_leaf(seats[:half], leaves)[0])
    step = next((each for each in range(min(size, half - 1), half) if math.gcd(each, half) == 1), 1)
    others = [each for each in range(half) if each not in (0, step)]
    shift = [0, step][turn] if turn < 2 else others[len(others) * (turn - 2) // (turns - 2)]
    return _halves([*seats[:half], *dealt], shift)


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
