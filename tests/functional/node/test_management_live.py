# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The management path as the kernel's own tables describe it, in a network namespace."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    RAIL_PORTS,
    ManagementPath,
)
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip

PORT = "addr add 10.0.0.2/24 dev rail1"
LOOPBACK = PORT + ";addr add 10.9.9.9/32 dev lo"
TO_LOOPBACK = "10.99.0.5 5 10.9.9.9 22"
TUNNEL = "link set t0 up;addr add 10.77.0.2/24 dev t0"
OVER_TUNNEL = "10.77.0.1 5 10.77.0.2 22"
TABLE = "route add default via 10.0.0.1 dev rail1 table 100"
# name, the session, commands of ip
PATHS = {
    "address": ("10.0.0.1 5 10.0.0.2 22", PORT),
    "mapped-address-in-hex": ("::ffff:a00:1 5 ::ffff:a00:2 22", PORT),
    "link-local-address": ("fe80::1%rail1 5 fe80::2%rail1 22", "addr add fe80::2/64 dev rail1 nodad"),
    "answers-by-the-port": (TO_LOOPBACK, LOOPBACK + ";route add 10.99.0.0/16 via 10.0.0.1 dev rail1"),
    "answers-by-a-rule-of-the-source": (
        TO_LOOPBACK,
        LOOPBACK + ";%s;rule add from 10.9.9.9 lookup 100 priority 900" % TABLE,
    ),
    "answers-by-a-rule-of-the-tcp-port": (
        TO_LOOPBACK,
        LOOPBACK + ";%s;rule add ipproto 6 sport 22 lookup 100 priority 900" % TABLE,
    ),
    "answers-by-several-next-hops": (
        TO_LOOPBACK,
        LOOPBACK + ";addr add 10.2.0.2/24 dev rail2"
        ";route add 10.99.0.0/16 nexthop via 10.0.0.1 dev rail1 weight 1 nexthop via 10.2.0.1 dev rail2 weight 200",
    ),
    "answers-by-a-group-of-next-hops": (
        TO_LOOPBACK,
        LOOPBACK + ";addr add 10.2.0.2/24 dev rail2;nexthop add id 1 via 10.0.0.1 dev rail1"
        ";nexthop add id 2 via 10.2.0.1 dev rail2;nexthop add id 3 group 1/2,200;route add 10.99.0.0/16 nhid 3",
    ),
    "vxlan": (
        OVER_TUNNEL,
        PORT + ";link add t0 type vxlan id 5 local 10.0.0.2 remote 10.0.0.1 dstport 4789;" + TUNNEL,
    ),
    "vxlan-by-a-route": (
        OVER_TUNNEL,
        PORT + ";route add 10.88.0.0/16 via 10.0.0.1 dev rail1"
        ";link add t0 type vxlan id 5 remote 10.88.0.1 dstport 4789;" + TUNNEL,
    ),
    "bridge-on-a-vxlan": (
        "10.77.0.1 5 10.77.0.3 22",
        PORT + ";link add t0 type vxlan id 5 local 10.0.0.2 remote 10.0.0.1 dstport 4789;link set t0 up"
        ";link add t1 type bridge;link set t0 master t1;link set t1 up;addr add 10.77.0.3/24 dev t1",
    ),
    "macvlan": (OVER_TUNNEL, "link add t0 link rail1 type macvlan;" + TUNNEL),
    "veth-in-a-bridge": (
        OVER_TUNNEL,
        "link add t1 type bridge;link set rail1 master t1;link add t0 type veth peer name t2;link set t2 master t1;"
        + TUNNEL,
    ),
    "default-route": ("", PORT + ";route add default via 10.0.0.1 dev rail1"),
    "default-route-of-a-rule": ("", PORT + ";%s;rule add lookup 100 priority 900" % TABLE),
    "default-route-of-a-source": ("", PORT + ";%s;rule add from 10.0.0.2 lookup 100 priority 900" % TABLE),
    "default-route-in-halves": (
        "",
        PORT + ";route add 0.0.0.0/1 via 10.0.0.1 dev rail1;route add 128.0.0.0/1 via 10.0.0.1 dev rail1",
    ),
    "half-of-a-default-route": ("", PORT + ";route add 128.0.0.0/1 via 10.0.0.1 dev rail1"),
    "default-route-in-parts-of-ipv6": (
        "",
        "addr add fd00::2/64 dev rail1 nodad;-6 route add 2000::/4 via fd00::1 dev rail1",
    ),
    "default-route-of-several-next-hops": (
        "",
        PORT + ";addr add 10.2.0.2/24 dev rail2"
        ";route add default nexthop via 10.0.0.1 dev rail1 nexthop via 10.2.0.1 dev rail2",
    ),
}
# The port is not part of the path.
OTHERS = {
    "wide-route-of-a-rail": ("", PORT + ";route add 10.0.0.0/8 via 10.0.0.1 dev rail1"),
    "blackhole": ("", PORT + ";route add blackhole default metric 9"),
    "a-rails-table-and-a-session-elsewhere": (
        "10.2.0.1 5 10.2.0.2 22",
        PORT + ";addr add 10.2.0.2/24 dev rail2;%s;rule add from 10.0.0.2 lookup 100 priority 900" % TABLE,
    ),
    "a-recorded-rails-table": (
        "",
        PORT + ";%s;rule add from 10.0.0.2 lookup 101 priority 900" % TABLE.replace("100", "101"),
    ),
    "loopback-session": ("10.9.9.9 5 10.9.9.9 22", LOOPBACK),
}


def observed(node: LiveNode, session: str, commands: str) -> ManagementPath:
    """The management path of a node whose ports were set up by commands of ip."""
    for name in ("t0", "t1", "rail1", "rail2"):
        if os.path.exists("/sys/class/net/" + name):
            ip("link", "del", name)
    for version in ("-4", "-6"):
        for priority in [each.split(":")[0] for each in ip(version, "rule").splitlines()]:
            if 0 < int(priority) < 32766:
                ip(version, "rule", "del", "priority", priority)
    ip("addr", "flush", "dev", "lo")
    ip("route", "flush", "table", "main")
    for number in (1, 2):
        node.rail(number)
        ip("link", "set", "rail%d" % number, "up")
    for words in commands.split(";"):
        ip(*words.split())
    os.environ.pop("SSH_CONNECTION", None)
    if session:
        os.environ["SSH_CONNECTION"] = session
    return ManagementPath.observe(node.system)


@in_own_namespace
def test_all_ways_by_which_a_node_is_reached_are_protected(node: LiveNode) -> None:
    missing = []
    for name, (session, commands) in PATHS.items():
        found = observed(node, session, commands)
        if not found.why_netdev("rail1"):
            missing.append(name)
        if "rail2" in commands and not found.why_netdev("rail2"):
            missing.append(name + ", the second port")
    assert missing == []


@in_own_namespace
def test_ports_that_do_not_reach_the_node_are_not_protected(node: LiveNode) -> None:
    Path(RAIL_PORTS).parent.mkdir(parents=True)
    Path(RAIL_PORTS).write_text(json.dumps({"ports": [{"rail": "gpu01", "table": 101}], "former": [], "done": True}))
    found = {name: observed(node, *case).why_netdev("rail1") for name, case in OTHERS.items()}
    assert found == dict.fromkeys(OTHERS)


@in_own_namespace
def test_reasons(node: LiveNode) -> None:
    def why(name: str) -> t.Any:
        return observed(node, *PATHS[name]).why_netdev("rail1")

    assert why("address") == "carries this connection"
    assert why("vxlan-by-a-route") == "carries the tunnel t0, which carries this connection"
    assert why("bridge-on-a-vxlan") == "carries the tunnel t0, which is part of t1, which carries this connection"
    assert why("default-route-in-halves") == "carries the default route (0.0.0.0/1, 128.0.0.0/1)"
    text = "carries the default route of table 100, which the rule with priority 900 selects"
    assert why("default-route-of-a-rule") == text


@in_own_namespace
def test_a_node_without_a_connection_or_a_default_route_needs_a_named_interface(node: LiveNode) -> None:
    ip("link", "del", "mgmt0")
    node.rail(1)
    # a session that a program on the node relays does not show where it comes from
    for session in ("", "127.0.0.1 5 127.0.0.1 22"):
        os.environ["SSH_CONNECTION"] = session
        found = ManagementPath.observe(node.system)
        assert found.netdevs == {}
        with pytest.raises(Refused, match="the interface by which this node is reached is not known"):
            found.why_netdev("rail1")
    node.rail(2)
    system = System()
    system.management_interfaces = ["rail2"]
    found = ManagementPath.observe(system)
    assert (found.why_netdev("rail1"), found.why_netdev("rail2")) == (None, "is named as a management interface")
    for name, text in (("eno1", "eno1"), ("", "with an empty name"), ("..", r"\.\.")):
        system.management_interfaces = [name]
        with pytest.raises(Refused, match="there is no interface " + text):
            ManagementPath.observe(system)
    # at boot there is no session yet
    system.management_interfaces = None
    assert ManagementPath.observe(system).why_netdev("rail1") is None
