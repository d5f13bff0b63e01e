# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pair of nodes tests on a rail: one leaf, or the path between the leaves of one unit or of two."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import cables, leaf_of

SAME_LEAF, CROSS_LEAF, CROSS_UNIT = "same-leaf", "cross-leaf", "cross-unit"

Values = t.Mapping[str, t.Any]
Leaves = t.Tuple[str, ...]


def leaves_of(port: Values) -> Leaves:
    """Return the names of the leaves that a planned port is connected to: one, or one per plane or bond member.

    Empty without leaves in the plan.
    """
    names = (leaf_of(port, cable).get("name") for cable in cables(port))
    return tuple(dict.fromkeys(str(name) for name in names if name))


def purpose(leaves: t.Sequence[Leaves], units: t.Sequence[str | None]) -> str | None:
    """Return what a pair tests; None without leaves in the plan.

    :param leaves, units: of both ends. Two ports that share a leaf, for example of one plane, have the same leaf.
    """
    if not all(leaves):
        return None
    if set(leaves[0]) & set(leaves[1]):
        return SAME_LEAF
    return CROSS_LEAF if units[0] == units[1] else CROSS_UNIT
