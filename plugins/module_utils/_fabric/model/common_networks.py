# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks that several rails have in common, and the part of each rail.

In the modes subnet and block, all ports of the rails have one subnet, and no two of them have an address in common.
With ``node_aggregate``, each node has an aggregate, which is divided into one network per rail.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    SUBNET,
    Part,
    Scheme,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, SUFFIX, Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges


class CommonNetwork(t.NamedTuple):
    """A network with the rails that have it, two or more in rail order."""

    network: Network
    rails: list[Rail]

    @property
    def schemes(self) -> list[Scheme]:
        """The scheme of each rail in this network."""
        return [rail.schemes[self.network.bits] for rail in self.rails]

    @property
    def one_subnet(self) -> bool:
        """Whether several ports of a node have the same subnet."""
        return not any(scheme.node_aggregate for scheme in self.schemes)


def common_networks(rails: t.Iterable[Rail]) -> list[CommonNetwork]:
    """Return the networks that several rails have in common."""
    found: dict[Network, list[Rail]] = {}
    for rail in rails:
        for scheme in rail.schemes.values():
            if scheme.mode in (SUBNET, BLOCK) or scheme.node_aggregate is not None:
                found.setdefault(scheme.network, []).append(rail)
    return [CommonNetwork(network, owners) for network, owners in found.items() if len(owners) > 1]


def rails_in_one_subnet(common: t.Iterable[CommonNetwork]) -> set[str]:
    """Return the names of rails that share their IPv4 subnet, so that several ports of a node have it."""
    return {rail.name for each in common if each.one_subnet and each.network.bits == IPV4 for rail in each.rails}


def pool_owners(common: t.Iterable[CommonNetwork]) -> dict[tuple[str, str], Rail]:
    """Return (rail, ``pool`` or ``pool6``) -> the rail that names this pool, for pools of several rails."""
    return {
        (rail.name, "pool" + SUFFIX[each.network.bits]): each.rails[0]
        for each in common
        if all(scheme.divided and scheme.divided.one_pool for scheme in each.schemes)
        for rail in each.rails
    }


def set_parts(fabric: Fabric) -> None:
    """Set the part of each rail in the networks that several rails have in common."""
    one_pool = facts_of(fabric.provider).cuts_blocks
    for common in common_networks(fabric.rails):
        sizes = [_size(scheme, scheme.hosts) + _size(scheme, scheme.pods) for scheme in common.schemes]
        for number, (rail, scheme) in enumerate(zip(common.rails, common.schemes), 1):
            part = Part(number, len(sizes), sum(sizes) - sizes[number - 1], one_pool and scheme.mode == SUBNET)
            rail.schemes[common.network.bits] = dataclasses.replace(scheme, part=part)


def _size(scheme: Scheme, pool: Ranges | None) -> int:
    """Return how many addresses of a pool are not taken."""
    rest = pool.without(scheme.excluded) if pool else None
    return rest.size if rest else 0
