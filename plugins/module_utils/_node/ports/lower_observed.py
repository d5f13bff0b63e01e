# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observed interfaces below a rail port, in the shape of the option ``lower``."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import (
    BOND,
    VLAN,
    decode_bond,
    decode_vlan,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import (
    HASHING,
    Bond,
    Function,
    Lower,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import netdev_pci


def observed_lower(system: System, planned: Lower, link: Link, observed: Seen) -> Lower | None:
    """Return the functions and the bond below a bond or VLAN; None for other interfaces.

    Members have the order of the plan. None replaces the kernel's default of a value that the plan does not set.
    """
    vlan = decode_vlan(link.data) if link.kind == VLAN else None
    parent = observed.links.get(link.below or 0) if link.kind == VLAN else None
    base = parent or link
    bond = _bond(planned, base, observed) if base.kind == BOND else None
    if bond is None and parent is None:
        return None
    links = [each for each in observed.links.values() if each.master == base.ifindex] if bond else [base]
    functions = [Function(netdev_pci(system, each.name), each.name) for each in links]
    order = [each.key for each in planned.functions]

    def place(function: Function) -> tuple[int, str]:
        keys = [order.index(key) for key in function if key in order]
        return (min(keys) if keys else len(order), str(function.netdev))

    return Lower(vlan, parent.name if parent else None, bond, tuple(sorted(functions, key=place)))


def _bond(planned: Lower, link: Link, observed: Seen) -> Bond:
    live = decode_bond(link.data)
    spec = planned.bond or Bond(link.name, "")
    primary = observed.links.get(live.primary or 0)
    return Bond(
        link.name,
        live.mode or "",
        live.hash_policy if live.mode in HASHING and (spec.hash_policy or live.hash_policy != "layer2") else None,
        live.lacp_rate if live.mode == "802.3ad" and (spec.lacp_rate or live.lacp_rate != "slow") else None,
        primary.name if primary else None,
        live.min_links if spec.min_links is not None or live.min_links else None,
    )
