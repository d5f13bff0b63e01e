# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail ports and the interfaces below them in YAML for netplan.

Source: netplan-yaml(5).
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Route
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import port_observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import MIIMON
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import HEAD, Kept


def text(kept: t.Sequence[Kept]) -> str:
    """Return the text of Railyard's file."""
    lines = [HEAD, "network:", "  version: 2"]
    for kind, section in ((None, "ethernets"), ("bond", "bonds"), ("vlan", "vlans")):
        found = [each for each in kept if each.part.kind == kind]
        lines += ["  %s:" % section] if found else []
        for each in found:
            lines += _lines(each)
    return "\n".join(lines) + "\n"


def _lines(each: Kept) -> list[str]:
    port = each.port
    lines = ["    %s:" % each.netdev, "      optional: true", "      dhcp4: false", "      dhcp6: false"]
    lines += ["      accept-ra: false"]
    lines += ["      link-local: []"] if each.has_no_address else []
    lines += ["      mtu: %d" % port.mtu] if port.mtu else []
    lines += _kind(each)
    addresses = ", ".join("'%s'" % side.address for side in port.sides)
    lines += ["      addresses: [%s]" % addresses] if addresses else []
    routes = port_observed.port_routes(port, 0)
    lines += ["      routes:"] if routes else []
    lines += ["        - {%s}" % ", ".join(_route(route)) for route in routes]
    lines += ["      routing-policy:"] if each.sides_with_rules else []
    for side in each.sides_with_rules:
        rule = "        - {from: '%s', table: %d, priority: %d}"
        lines += [rule % (side.source, port.table or 0, port.priority or 0)]
    return lines


def _kind(each: Kept) -> list[str]:
    """Return the lines of a bond or VLAN."""
    part = each.part
    if part.vlan is not None:
        return ["      id: %d" % part.vlan, "      link: %s" % part.parent]
    if not part.bond:
        return []
    lines = ["      macaddress: '%s'" % each.mac] if each.mac else []
    lines += ["      interfaces: [%s]" % ", ".join(part.members), "      parameters:"]
    lines += ["        mode: %s" % part.bond.mode, "        mii-monitor-interval: %d" % MIIMON]
    return lines + part.bond.lines(
        hash_policy="        transmit-hash-policy: %s",
        lacp_rate="        lacp-rate: %s",
        min_links="        min-links: %d",
        primary="        primary: %s",
    )


def _route(route: Route) -> list[str]:
    parts = ["to: '%s'" % route.destination]
    # netplan requires this scope for a route without a gateway
    parts += ["via: '%s'" % route.gateway] if route.gateway else ["scope: link"]
    parts += ["from: '%s'" % route.source] if route.source else []
    return parts + ["table: %d" % route.table]
