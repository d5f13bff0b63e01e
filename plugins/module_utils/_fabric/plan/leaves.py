# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leaf switches, one per rail and unit, and the leaf port of each node.

Members of a bond, and planes over which a NIC distributes packets, have leaf ports of their own. Both are members here.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail, Unit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX


class Leaves:
    """Names of leaves and of their ports. Names that do not depend on the node are computed once."""

    def __init__(self, fabric: Fabric) -> None:
        self._rails = fabric.rails
        self._one_cable = {rail.name for rail in fabric.rails if fabric.link_layer_on(rail) == INFINIBAND}
        self._names = {
            (unit.name, rail.name): _name(unit, rail) for unit in fabric.units.values() for rail in fabric.rails
        }

    def name(self, unit: Unit, rail: Rail, member: int = 1) -> str:
        """Return the name of the unit's leaf on a rail. ``member``: the number of the member or plane, from 1."""
        return self._names[unit.name, rail.name] if member == 1 else _name(unit, rail, member)

    def planes(self, rail: Rail) -> int:
        """Return the number of planes of a NIC on a rail that have a leaf port each; 1 without.

        An InfiniBand port (XDR) and its cable carry all planes: the planes are ports of a sub-device of type SMI, which
        only carries management (kernel, drivers/infiniband/hw/mlx5/main.c, mlx5_query_hca_port).
        """
        return 1 if rail.name in self._one_cable else rail.device_planes

    def names(self, unit: Unit, rail: Rail, members: int) -> list[str]:
        """Return the leaves of a unit on a rail. ``members``: the highest number of members of its bonds; 1 without."""
        members = max(members, self.planes(rail))
        if unit.leaf is None or unit.leaf.fields.isdisjoint(("m", "p")):
            return [self.name(unit, rail)]
        return list(dict.fromkeys(self.name(unit, rail, member) for member in range(1, members + 1)))

    def port(self, unit: Unit, rail: Rail, place: int, member: int = 1) -> str | None:
        """Return the leaf port of the node at this place of the unit; None if the file does not set ``leaf_port``."""
        if unit.leaf_port is None:
            return None
        return unit.leaf_port.fill(dict(_values(unit, rail, member), i=place))

    def aggregates(self, unit: Unit | None, rail: Rail, planners: t.Iterable[Planner]) -> dict[str, str | None]:
        """Return ``aggregate`` and ``aggregate6``: the networks that the leaf of a unit advertises.

        :param planners: the planner of each family of the rail.
        """
        found: dict[str, str | None] = {"aggregate" + suffix: None for suffix in SUFFIX.values()}
        for planner in planners:
            if unit is None or self._has_all_of(unit, rail, planner):
                aggregate = planner.aggregate(unit.number if unit else 1)
                found["aggregate" + SUFFIX[planner.bits]] = str(aggregate)
        return found

    def _has_all_of(self, unit: Unit, rail: Rail, planner: Planner) -> bool:
        """Return whether the leaf has all networks of the aggregate. With ``node_aggregate``, other rails have some."""
        if planner.scheme.node_aggregate is None:
            return True
        leaf = self.name(unit, rail)
        return all(self.name(unit, each) == leaf for each in self._rails if planner.network in each.networks)


def _values(unit: Unit, rail: Rail, member: int) -> dict[str, t.Any]:
    """Return the values of the fields in the templates ``leaf`` and ``leaf_port``."""
    return {
        "n": rail.base_number,
        "k": rail.number,
        "p": member if rail.device_planes > 1 else rail.plane,
        "c": rail.nic,
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
