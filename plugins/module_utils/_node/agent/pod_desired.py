# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desired state of a slot in a pod's network namespace: pure functions of the node file."""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    FORMAT,
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
    parse_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import rail_routes, source_rules
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Address, Route, Rule

IPV4, IPV6 = "/proc/sys/net/ipv4/conf/%s/%s", "/proc/sys/net/ipv6/conf/%s/%s"


def plan_of(spec: AgentSpec, device: Device) -> dict[str, t.Any]:
    """Return the part of the node file with which a pod is attached to a device, as JSON values."""
    rails = [
        dict(
            rail._asdict(),
            slots=[slot._asdict() for slot in rail.slots if device.slots[rail.rail] == slot],
            routes=[route.as_options() for route in rail.routes],
            lower=rail.lower and rail.lower._asdict(),
        )
        for rail in spec.rails
        if rail.rail in device.slots
    ]
    document = {"attachment": spec.attachment, "rdma_mode": spec.rdma_mode, "rails": rails}
    found: dict[str, t.Any] = json.loads(json.dumps(document, default=str))
    return found


def kept_spec(spec: AgentSpec, plan: dict[str, t.Any]) -> AgentSpec:
    """Return the node file with the part that a pod keeps. Raises :class:`.RailyardError` if a value is wrong."""
    own = {"format": FORMAT, "fabric": spec.fabric, "node": spec.node, "resource_prefix": spec.resource_prefix}
    checks = {"conflict_check": spec.conflict_check, "gateway_check": spec.gateway_check}
    return parse_spec({**own, **checks, **plan})


def recorded_spec(spec: AgentSpec, rows: t.Sequence[dict[str, t.Any]]) -> AgentSpec:
    """Return the node file with the values of rows of an earlier release, which did not record more of the plan."""
    rails = []
    for rail in spec.rails:
        row = next((row for row in rows if row["rail"] == rail.rail), None)
        slot = next((slot for slot in rail.slots if row and slot.number == row["slot"]), None)
        if row and slot:
            address, address6 = (row[key] and ipaddress.ip_interface(row[key]) for key in ("address", "address6"))
            slot = slot._replace(address=address, address6=address6, mac=slot.mac and row["mac"])
            rails.append(rail._replace(interface=row["interface"], slots=(slot,)))
    return spec._replace(rails=tuple(rails))


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
    return rail_routes(index, slot.addresses, rail.table, rail.gateways, rail.routes)


def rules(rail: RailSpec, slot: SlotSpec) -> list[Rule]:
    """Return a rule per address of the slot that selects the rail's table."""
    if rail.table is None or rail.rule_priority is None:
        return []
    return source_rules(slot.addresses, rail.table, rail.rule_priority)


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
