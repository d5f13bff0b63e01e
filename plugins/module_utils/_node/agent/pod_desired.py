# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The desired state of a slot in a pod's network namespace: pure functions of the node file."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import RailSpec, SlotSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    ANYWHERE,
    TABLE_MAIN,
    Address,
    Route,
    Rule,
    static_route,
)

# Prefix of the names of interfaces that are not complete yet.
TEMPORARY = "ry-"
IPV4, IPV6 = "/proc/sys/net/ipv4/conf/%s/%s", "/proc/sys/net/ipv6/conf/%s/%s"


def temporary(interface: str) -> str:
    """Return the name of a pod's interface until it has its alias: at most 15 characters."""
    return TEMPORARY + interface[:12]


def soft_device(rail: RailSpec, sandbox_id: str) -> str:
    """Return the name of the pod's soft RDMA device. It is unique, as all namespaces see it in RDMA mode shared."""
    return "%s_%s-%s" % (rail.rdma_type, sandbox_id[:8], rail.interface)


def place(rail: RailSpec, slot: SlotSpec) -> str:
    return "slot %d of rail %s" % (slot.number, rail.rail)


def mac(slot: SlotSpec) -> bytes | None:
    """Return the slot's MAC as 6 bytes; None if the interface keeps the MAC that it has."""
    return None if slot.mac is None else bytes.fromhex(slot.mac.replace(":", ""))


def sysctls(rail: RailSpec, slot: SlotSpec) -> list[tuple[str, str, bool]]:
    """Return rows of file, value, and whether the file must exist.

    Router advertisements are off, so that they do not add addresses or routes to a rail.
    """
    rows = [(IPV4 % (rail.interface, key), value, True) for key, value in sorted(rail.sysctl.items())]
    if slot.address6:
        rows.append((IPV6 % (rail.interface, "disable_ipv6"), "0", True))
    rows.append((IPV6 % (rail.interface, "accept_ra"), "0", slot.address6 is not None))
    return rows


def routes(rail: RailSpec, slot: SlotSpec, index: int) -> list[Route]:
    """Return the desired routes of the slot's address families: the rail's networks and default route in the rail's
    table, and the routes of the plan. The kernel makes the networks' routes in the main table.

    :param index: index of the interface.
    """
    desired = []
    versions = {address.version for address in slot.addresses}
    if rail.table is not None:
        for address in slot.addresses:
            desired.append(static_route(rail.table, address.network, index))
        for gateway in rail.gateways:
            if gateway.version in versions:
                desired.append(static_route(rail.table, ANYWHERE[gateway.version], index, gateway))
    for route in rail.routes:
        if route.to.version in versions:
            planned = static_route(TABLE_MAIN if route.table is None else route.table, route.to, index, route.via)
            if planned not in desired:
                desired.append(planned)
    return desired


def rules(rail: RailSpec, slot: SlotSpec) -> list[Rule]:
    """Return a rule per address of the slot that selects the rail's table."""
    if rail.table is None or rail.rule_priority is None:
        return []
    return [
        Rule(address.version, rail.rule_priority, ipaddress.ip_network(address.ip), "", rail.table, True)
        for address in slot.addresses
    ]


def missing(
    rail: RailSpec,
    slot: SlotSpec,
    link: Link,
    addresses: t.Sequence[Address],
    observed_routes: t.Sequence[Route],
    observed_rules: t.Sequence[Rule],
) -> list[str]:
    """Return the desired settings that the namespace does not have, as texts for an error.

    :param link: the slot's interface.
    :param addresses: observed addresses of the namespace.
    """
    absent = []
    if rail.mtu is not None and link.mtu != rail.mtu:
        absent.append("MTU %d" % rail.mtu)
    if slot.mac is not None and link.address != mac(slot):
        absent.append("MAC %s" % slot.mac)
    if not link.up:
        absent.append("up")
    if link.name != rail.interface:
        absent.append("name %s" % rail.interface)
    observed_addresses = {each.interface for each in addresses if each.ifindex == link.ifindex}
    absent += ["address %s" % address for address in slot.addresses if address not in observed_addresses]
    route_keys = {(each.table, each.destination, each.gateway) for each in observed_routes if each.oif == link.ifindex}
    for route in routes(rail, slot, link.ifindex):
        if (route.table, route.destination, route.gateway) not in route_keys:
            absent.append("route %s %s table %d" % (route.destination, route, route.table))
    rule_keys = {(each.priority, each.source, each.table) for each in observed_rules if each.plain}
    for rule in rules(rail, slot):
        if (rule.priority, rule.source, rule.table) not in rule_keys:
            absent.append("rule %s %s" % (rule.selector, rule.action))
    return absent


def row(rail: RailSpec, slot: SlotSpec, link: Link | None, rdma: str | None, host: t.Any) -> dict[str, t.Any]:
    """Return a row of :attr:`.slot_state.Holder.interfaces`. ``link``: the interface, if it exists already."""
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
