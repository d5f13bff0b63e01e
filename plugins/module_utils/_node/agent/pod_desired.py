# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a pod's network namespace must hold for a slot: pure functions of the node file."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import RailSpec, SlotSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    PROTOCOL_STATIC,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    Address,
    Network,
    Route,
    Rule,
)

# How the names of interfaces begin that are not whole yet.
TEMPORARY = "ry-"
IPV4, IPV6 = "/proc/sys/net/ipv4/conf/%s/%s", "/proc/sys/net/ipv6/conf/%s/%s"
DEFAULT: dict[int, Network] = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("::/0")}


def temporary(interface: str) -> str:
    """The name of a pod's interface until it is marked as ours: at most 15 characters."""
    return TEMPORARY + interface[:12]


def soft_device(rail: RailSpec, sandbox_id: str) -> str:
    """The name of the pod's soft RDMA device: in rdma mode shared, all namespaces see it."""
    return "%s_%s-%s" % (rail.rdma_type, sandbox_id[:8], rail.interface)


def place(rail: RailSpec, slot: SlotSpec) -> str:
    """How errors name a slot."""
    return "slot %d of rail %s" % (slot.number, rail.rail)


def mac(slot: SlotSpec) -> bytes | None:
    return None if slot.mac is None else bytes.fromhex(slot.mac.replace(":", ""))


def sysctls(rail: RailSpec, slot: SlotSpec) -> list[tuple[str, str, bool]]:
    """Rows of file, value, and whether it must exist. Router advertisements do not give a rail addresses or routes."""
    rows = [(IPV4 % (rail.interface, key), value, True) for key, value in sorted(rail.sysctl.items())]
    if slot.address6:
        rows.append((IPV6 % (rail.interface, "disable_ipv6"), "0", True))
    rows.append((IPV6 % (rail.interface, "accept_ra"), "0", slot.address6 is not None))
    return rows


def routes(rail: RailSpec, slot: SlotSpec, index: int) -> list[Route]:
    """The routes of the families that the slot has addresses of: in the rail's table its networks and the default
    route, and what the plan adds. The kernel makes the networks' routes in the main table.
    """
    found = []
    versions = {each.version for each in slot.addresses}
    if rail.table is not None:
        for each in slot.addresses:
            # IPv6 routes do not have a scope: the kernel reports universe
            scope = SCOPE_LINK if each.version == 4 else SCOPE_UNIVERSE
            found.append(Route(rail.table, each.network, index, None, None, 0, PROTOCOL_STATIC, scope))
        for gateway in rail.gateways:
            if gateway.version in versions:
                found.append(_via(rail.table, DEFAULT[gateway.version], index, gateway))
    for route in rail.routes:
        if route.to.version in versions:
            added = _via(TABLE_MAIN if route.table is None else route.table, route.to, index, route.via)
            if added not in found:
                found.append(added)
    return found


def _via(table: int, to: Network, index: int, gateway: t.Any) -> Route:
    scope = SCOPE_LINK if gateway is None and to.version == 4 else SCOPE_UNIVERSE
    return Route(table, to, index, gateway, None, 0, PROTOCOL_STATIC, scope)


def rules(rail: RailSpec, slot: SlotSpec) -> list[Rule]:
    """A rule for each address of the slot that leads to the rail's table."""
    if rail.table is None or rail.rule_priority is None:
        return []
    return [
        Rule(each.version, rail.rule_priority, ipaddress.ip_network(each.ip), "", rail.table, True)
        for each in slot.addresses
    ]


def missing(
    rail: RailSpec,
    slot: SlotSpec,
    link: Link,
    addresses: t.Sequence[Address],
    observed_routes: t.Sequence[Route],
    observed_rules: t.Sequence[Rule],
) -> list[str]:
    """What the namespace does not have, each as a user would write it."""
    found = []
    if rail.mtu is not None and link.mtu != rail.mtu:
        found.append("MTU %d" % rail.mtu)
    if slot.mac is not None and link.address != mac(slot):
        found.append("MAC %s" % slot.mac)
    if not link.up:
        found.append("up")
    if link.name != rail.interface:
        found.append("name %s" % rail.interface)
    held = {each.interface for each in addresses if each.ifindex == link.ifindex}
    found += ["address %s" % each for each in slot.addresses if each not in held]
    known = {(each.table, each.destination, each.gateway) for each in observed_routes if each.oif == link.ifindex}
    for route in routes(rail, slot, link.ifindex):
        if (route.table, route.destination, route.gateway) not in known:
            found.append("route %s %s table %d" % (route.destination, route, route.table))
    present = {(each.priority, each.source, each.table) for each in observed_rules if each.plain}
    for rule in rules(rail, slot):
        if (rule.priority, rule.source, rule.table) not in present:
            found.append("rule %s %s" % (rule.selector, rule.action))
    return found


def row(rail: RailSpec, slot: SlotSpec, link: Link | None, rdma: str | None, host: t.Any) -> dict[str, t.Any]:
    """An interface of a holder, as :class:`.slot_state.Holder` describes it."""
    return {
        "rail": rail.rail,
        "slot": slot.number,
        "interface": rail.interface,
        "address": slot.address and str(slot.address),
        "address6": slot.address6 and str(slot.address6),
        "mac": hardware_address(link.address) if link else slot.mac,
        "rdma": rdma,
        "host": host,
    }
