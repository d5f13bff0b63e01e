# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of the webhooks and controllers of a kind: immutable fields, and claims of objects that must not overlap.

The rules of a kind are passed in; this module does not know any kind.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Found = t.Mapping[str, t.Any]


class Claim(t.NamedTuple):
    """Numbers that no other object of the kind may claim.

    ``space``: what the numbers count; numbers of two spaces never overlap. ``first``, ``last``: inclusive. ``shared``:
    another object may claim exactly the same numbers. ``text``: the numbers as users write them.
    """

    space: str
    first: int
    last: int
    shared: bool
    text: str


class Use(t.NamedTuple):
    """A used number of an object's claims. ``text``: as users write it."""

    space: str
    number: int
    text: str
    user: str


def _nothing(_found: Found) -> t.Sequence[t.Any]:
    return ()


@dataclass(frozen=True)
class Rule:
    """The rules of one kind.

    :param immutable: fields, such as ``spec.subnet``, that no update may change.
    :param resets: fields whose change makes the controller discard and repeat its assignments.
    :param claims: returns the claims of an object.
    :param uses: returns the used numbers of an object on the server.
    :param assigned: returns the users of an object on the server that lose their assignments by a reset.
    """

    immutable: t.Sequence[str] = ()
    resets: t.Sequence[str] = ()
    claims: t.Callable[[Found], t.Sequence[Claim]] = _nothing
    uses: t.Callable[[Found], t.Sequence[Use]] = _nothing
    assigned: t.Callable[[Found], t.Sequence[str]] = _nothing


def value_at(found: Found, path: str) -> t.Any:
    """Return the value of a field, such as ``spec.subnet``, or None."""
    value: t.Any = found
    for key in path.split("."):
        value = value.get(key) if isinstance(value, t.Mapping) else None
    return value


def overlapping(
    left: t.Iterable[tuple[t.Any, Claim]], right: t.Iterable[tuple[t.Any, Claim]]
) -> t.Iterator[tuple[Claim, list[t.Any], Claim, list[t.Any]]]:
    """Yield each pair of overlapping claims of the two sides: left claim, its owners, right claim, its owners.

    Equal claims are compared once, since thousands of objects may share a claim.

    :param left: pairs of owner and claim.
    :param right: pairs of owner and claim.
    """
    sides: list[dict[Claim, list[t.Any]]] = [{}, {}]
    for number, claims in enumerate((left, right)):
        for owner, claim in claims:
            sides[number].setdefault(claim, []).append(owner)
    order = sorted(
        ((claim, number) for number, side in enumerate(sides) for claim in side),
        key=lambda item: (item[0].space, item[0].first, item[0].last, item[1]),
    )
    # per side, the claims that reach the current claim's first number
    active: list[list[Claim]] = [[], []]
    for claim, number in order:
        for side in active:
            side[:] = [earlier for earlier in side if earlier.space == claim.space and earlier.last >= claim.first]
        for earlier in active[1 - number]:
            if not (earlier.shared and claim.shared and earlier[:3] == claim[:3]):
                left_claim, right_claim = (claim, earlier) if number == 0 else (earlier, claim)
                yield left_claim, sides[0][left_claim], right_claim, sides[1][right_claim]
        active[number].append(claim)


def outside(use: Use, claims: t.Sequence[Claim]) -> bool:
    """Return whether no claim contains the used number. Shared claims are ignored."""
    return not any(
        claim.space == use.space and claim.first <= use.number <= claim.last for claim in claims if not claim.shared
    )
