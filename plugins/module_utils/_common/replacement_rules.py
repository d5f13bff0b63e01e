# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What webhooks and controllers of a kind reject: changes of immutable fields, and overlapping claims of two objects.

The rules of a kind are passed in; this module does not know any kind.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Found = t.Mapping[str, t.Any]


class Claim(t.NamedTuple):
    """Numbers that no other object of the kind may claim; ``shared``: another one may claim exactly the same numbers.

    :param space: what the numbers count; numbers of two spaces never overlap. :param text: how users write them.
    """

    space: str
    first: int
    last: int
    shared: bool
    text: str


class Use(t.NamedTuple):
    """One number of an object's claims that is in use, as users write it, and its user."""

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
    :param claims: of an object. :param uses: what is in use of an object on the server.
    :param assigned: who would lose an assignment of an object on the server by such a reset.
    """

    immutable: t.Sequence[str] = ()
    resets: t.Sequence[str] = ()
    claims: t.Callable[[Found], t.Sequence[Claim]] = _nothing
    uses: t.Callable[[Found], t.Sequence[Use]] = _nothing
    assigned: t.Callable[[Found], t.Sequence[str]] = _nothing


def value_at(found: Found, path: str) -> t.Any:
    """The value of a field, or None."""
    value: t.Any = found
    for key in path.split("."):
        value = value.get(key) if isinstance(value, t.Mapping) else None
    return value


def overlapping(
    one: t.Iterable[tuple[t.Any, Claim]], other: t.Iterable[tuple[t.Any, Claim]]
) -> t.Iterator[tuple[Claim, list[t.Any], Claim, list[t.Any]]]:
    """Claims of one side that overlap with claims of the other, each with all owners of exactly this claim.

    Equal claims are compared once, since thousands of objects may share one.
    """
    sides: list[dict[Claim, list[t.Any]]] = [{}, {}]
    for number, claims in enumerate((one, other)):
        for owner, claim in claims:
            sides[number].setdefault(claim, []).append(owner)
    order = sorted(
        ((claim, number) for number, side in enumerate(sides) for claim in side),
        key=lambda item: (item[0].space, item[0].first, item[0].last, item[1]),
    )
    open_: list[list[Claim]] = [[], []]
    for claim, number in order:
        for side in open_:
            side[:] = [each for each in side if each.space == claim.space and each.last >= claim.first]
        for met in open_[1 - number]:
            if not (met.shared and claim.shared and met[:3] == claim[:3]):
                mine, theirs = (claim, met) if number == 0 else (met, claim)
                yield mine, sides[0][mine], theirs, sides[1][theirs]
        open_[number].append(claim)


def outside(use: Use, claims: t.Sequence[Claim]) -> bool:
    """Whether no claim contains this number any more."""
    return not any(
        claim.space == use.space and claim.first <= use.number <= claim.last for claim in claims if not claim.shared
    )
