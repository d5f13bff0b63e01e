# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leaf switches, one per rail and unit, and the leaf port of each node. Members of a bond have their own ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail, Unit


class Leaves:
    """Names of leaves and of their ports. Names that do not depend on the node are computed once."""

    def __init__(self, fabric: Fabric) -> None:
        self._names = {
            (unit.name, rail.name): _name(unit, rail) for unit in fabric.units.values() for rail in fabric.rails
        }

    def name(self, unit: Unit, rail: Rail, member: int = 1) -> str:
        """Return the name of the unit's leaf on a rail. ``member``: the number of the member of a bond, from 1."""
        return self._names[unit.name, rail.name] if member == 1 else _name(unit, rail, member)

    def port(self, unit: Unit, rail: Rail, place: int, member: int = 1) -> str | None:
        """Return the leaf port of the node at this place of the unit; None if the file does not set ``leaf_port``."""
        if unit.leaf_port is None:
            return None
        return unit.leaf_port.fill(dict(_values(unit, rail, member), i=place))


def _values(unit: Unit, rail: Rail, member: int) -> dict[str, t.Any]:
    """Return the values of the fields in the templates ``leaf`` and ``leaf_port``."""
    return {
        "n": rail.base_number,
        "k": rail.number,
        "p": rail.plane,
        "u": unit.number,
        "m": member,
        "rail": rail.name,
        "unit": unit.name,
    }


def _name(unit: Unit, rail: Rail, member: int = 1) -> str:
    if rail.name in unit.leaves:
        return unit.leaves[rail.name]
    if unit.leaf is None:
        return "%s-%s" % (unit.name, rail.name)
    return unit.leaf.fill(_values(unit, rail, member))
