# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports that are bonds or VLANs: whether an interface is the planned one, and which members of a bond carry traffic.
Ports with planes: which of them carry traffic.

A pod with CAP_NET_ADMIN can make a bond or VLAN with any name, and can move it to the node if no interface there has
this name. So the agent identifies an interface by its kind and by the functions below it: the kernel does not let a pod
put an interface on a PCI function of the node.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    LowerSpec,
    PlaneSpec,
    RailSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.bond_messages import LACP, partner
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import BOND, VLAN, decode_vlan
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import directly_below

NET = "/sys/class/net/%s"

Find = t.Callable[[t.Union[int, str]], t.Optional[Link]]


class Members(t.NamedTuple):
    """The members of a bond, or the planes of a NIC. ``planned``: their number. ``problems``: a text for each that
    carries no traffic."""

    planned: int
    problems: tuple[str, ...]

    @property
    def active(self) -> int:
        return max(0, self.planned - len(self.problems))


def difference(system: System, find: Find, rail: RailSpec, link: Link) -> str:
    """Return why the interface with the name of a port is not the planned one; empty if it is, or is a function's own.

    :param find: returns a link of the node by its index or name.
    """
    lower = rail.lower
    if lower is None:
        return ""
    base = link
    if lower.vlan is not None:
        if link.kind != VLAN:
            return "%s is not a VLAN" % link.name
        number = decode_vlan(link.data)
        if number != lower.vlan:
            observed = "unknown" if number is None else number
            return "%s has the VLAN id %s, not %d" % (link.name, observed, lower.vlan)
        parent = find(link.below) if link.below and link.below_namespace is None else None
        if parent is None:
            return "the node does not have the parent of the VLAN %s" % link.name
        base = parent
    return _bond_difference(system, lower, base) if lower.bond else _function_difference(system, lower, base)


def _function_difference(system: System, lower: LowerSpec, base: Link) -> str:
    if base.kind is None and base.name in netdevs(system, lower):
        return ""
    return "%s is not the interface of %s" % (base.name, lower.functions[0])


def _bond_difference(system: System, lower: LowerSpec, base: Link) -> str:
    if base.kind != BOND:
        return "%s is not a bond" % base.name
    below, planned = directly_below(system, base.name), netdevs(system, lower)
    others = [name for name in below if name not in planned]
    if others:
        return "%s has the member %s, which is not planned" % (base.name, others[0])
    return "" if below else "%s has none of its members %s" % (base.name, ", ".join(lower.functions))


def netdevs(system: System, lower: LowerSpec) -> dict[str, str]:
    """Return the interfaces of the functions on the node: name -> PCI address."""
    return {name: pci for pci in lower.functions for name in pci_functions.netdevs(system, pci)}


def members(system: System, rail: RailSpec) -> Members | None:
    """Return the members of a port's bond, or the planes of its NIC; None without both."""
    lower = rail.lower
    if lower is None or not lower.bond:
        return _planes(system, rail)
    bond = lower.bond
    below, present = directly_below(system, bond), netdevs(system, lower)
    problems = ["%s has no interface on the node" % pci for pci in lower.functions if pci not in present.values()]
    for name in present:
        problem = _member_problem(system, bond, name) if name in below else "%s is not a member of %s" % (name, bond)
        if problem:
            problems.append(problem)
    return Members(len(lower.functions), tuple(problems))


def _planes(system: System, rail: RailSpec) -> Members | None:
    """Return the planes of a NIC; None if the plan lists none, or if a pod may have the NIC."""
    if not rail.planes or rail.moved:
        return None
    problems = [_plane_problem(system, rail, plane) for plane in rail.planes]
    return Members(len(rail.planes), tuple(filter(None, problems)))


def _plane_problem(system: System, rail: RailSpec, plane: PlaneSpec) -> str:
    """Return why a plane carries no traffic; empty if it does. Its RDMA port takes precedence over its function."""
    name = "plane %d" % plane.number
    if plane.rdma_port and rail.rdma:
        port = "/sys/class/infiniband/%s/ports/%d" % (rail.rdma, plane.rdma_port)
        state = system.read(port + "/state")
        if state is None:
            return "%s: %s has no port %d" % (name, rail.rdma, plane.rdma_port)
        # such as "4: ACTIVE"
        is_active = state.partition(":")[0].strip() == "4"
        return "" if is_active else "%s: port %d of %s is %s" % (name, plane.rdma_port, rail.rdma, state.strip())
    netdevs_of_plane = pci_functions.netdevs(system, plane.pci or "")
    if not netdevs_of_plane:
        return "%s: %s has no interface on the node" % (name, plane.pci)
    if not any(system.read((NET % netdev) + "/carrier") == "1" for netdev in netdevs_of_plane):
        return "%s: %s has no carrier" % (name, ", ".join(netdevs_of_plane))
    return ""


def _member_problem(system: System, bond: str, name: str) -> str:
    """Return why a member carries no traffic. A member that waits for its turn in active-backup has no problem."""
    if system.read((NET % name) + "/carrier") != "1":
        return "%s has no carrier" % name
    member, own = (NET % name) + "/bonding_slave/", (NET % bond) + "/bonding/"
    if system.read(member + "mii_status") not in (None, "up"):
        return "%s is down in %s" % (name, bond)
    if (system.read(own + "mode") or "").split(" ")[0] != LACP:
        return ""
    if not partner(system.read(own + "ad_partner_mac") or ""):
        return "%s has no LACP partner" % name
    if system.read(member + "ad_aggregator_id") != system.read(own + "ad_aggregator"):
        return "%s is not in the aggregate of %s" % (name, bond)
    return ""
