# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keyfile of a rail port for NetworkManager.

Source: nm-settings-keyfile(5).
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import ANYWHERE, bare
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import port_observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import MIIMON
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import (
    NM_PREFIX,
    Kept,
    Section,
    ini,
)


def text(each: Kept) -> str:
    """Return the text of the file."""
    port, part = each.port, each.part
    name = NM_PREFIX + port.rail
    kind = part.kind or ("infiniband" if each.infiniband else "ethernet")
    connection = [
        "id=%s" % name,
        "uuid=%s" % _uuid(name),
        "type=%s" % kind,
        "interface-name=%s" % each.netdev,
        "autoconnect=true",
        # preferred over an installer's profile for any Ethernet interface
        "autoconnect-priority=100",
    ]
    # 'controller' since NetworkManager 1.46, which also reads these
    connection += ["master=%s" % part.master, "slave-type=bond"] if part.master else []
    hardware = ["mtu=%d" % port.mtu] if port.mtu else []
    hardware += ["cloned-mac-address=%s" % each.mac] if each.mac else []
    hardware += ["transport-mode=datagram"] if each.infiniband else []
    blocks = [("connection", connection), ("ethernet" if part.kind else kind, hardware), *_kind_blocks(each)]
    if part.master:
        # a member has no IP configuration
        return ini(blocks)
    if each.has_no_address:
        return ini([*blocks, ("ipv4", ["method=disabled"]), ("ipv6", ["method=disabled"])])
    # the link-local address that the kernel assigns too, so that the GIDs do not change
    ipv6_lines = ["addr-gen-mode=eui64"]
    blocks += [
        ("ipv4", _manual(each, 4) or ["method=disabled"]),
        ("ipv6", (_manual(each, 6) or ["method=link-local"]) + ipv6_lines),
    ]
    return ini(blocks)


def _kind_blocks(each: Kept) -> list[Section]:
    """Return the section of a bond or VLAN."""
    part = each.part
    if part.vlan is not None:
        # the default of nmcli: reorder headers
        return [("vlan", ["flags=1", "id=%d" % part.vlan, "parent=%s" % part.parent])]
    if not part.bond:
        return []
    bond = part.bond
    lines = ["mode=%s" % bond.mode, "miimon=%d" % MIIMON]
    lines += bond.lines(
        hash_policy="xmit_hash_policy=%s", lacp_rate="lacp_rate=%s", min_links="min_links=%d", primary="primary=%s"
    )
    return [("bond", lines)]


def _manual(each: Kept, version: int) -> list[str]:
    """Return the lines of an IP family's section of a keyfile; empty if the port has no address of it."""
    port, side = each.port, each.port.side(version)
    if not side:
        return []
    # the default route of the rail's own table is one of the routes; 'gateway' would set one in the main table
    lines = ["method=manual", "never-default=true", "address1=%s" % side.address]
    routes = [route for route in port_observed.port_routes(port, 0) if route.destination.version == version]
    for number, route in enumerate(routes, 1):
        next_hop = ",%s" % route.gateway if route.gateway else ""
        options = ["table=%d" % route.table] + (["src=%s" % route.source] if route.source else [])
        lines += ["route%d=%s%s" % (number, route.destination, next_hop)]
        lines += ["route%d_options=%s" % (number, ",".join(options))]
    if side in each.sides_with_rules:
        rule = "priority %d %s table %d"
        selectors = ("from %s" % bare(side.source), "from %s oif %s" % (ANYWHERE[version], each.netdev))
        for number, selector in enumerate(selectors, 1):
            lines += ["routing-rule%d=" % number + rule % (port.priority or 0, selector, port.table or 0)]
    return lines


def _uuid(name: str) -> str:
    """Return a UUID of version 5 (RFC 9562), which is the same on every run."""
    import hashlib  # only this back-end needs it

    digest = bytearray(hashlib.sha1(b"railyard.fabric/" + name.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = bytes(digest).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
