# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, routes and rules as reported: those of the NICs, and no more than is needed."""

from __future__ import annotations

import ipaddress
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ip_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IFA_F_MANAGETEMPADDR,
    IFA_F_PERMANENT,
    IFA_F_SECONDARY,
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    PROTOCOL_STATIC,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    Address,
    Route,
    Rtnetlink,
    Rule,
)
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.test_ports_live import port, run
from tests.unit.fabric import live_nodes
from tests.unit.node.test_info import link, node
from tests.unit.node.trees import Tree
from tests.waiting import wait_for


class Table:
    """Two NICs, 4 and 5, and an interface that is not a NIC, 9."""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def addresses(self) -> list[Address]:
        def one(index: int, text: str, scope: int = SCOPE_UNIVERSE, flags: int = 0) -> Address:
            return Address(index, ipaddress.ip_interface(text), scope, flags)

        return [
            one(4, "172.16.11.201/24", flags=IFA_F_PERMANENT),
            one(4, "172.16.11.240/24", flags=IFA_F_SECONDARY),
            one(4, "fe80::1/64", SCOPE_LINK),
            one(5, "fd00:11::201/64", flags=IFA_F_SECONDARY | IFA_F_PERMANENT | IFA_F_MANAGETEMPADDR),
            one(9, "10.0.0.1/8"),
        ]

    def routes(self, version: int) -> list[Route]:
        def one(table: int, to: str, oif: int, via: str | None, protocol: int = PROTOCOL_STATIC) -> Route:
            gateway = ipaddress.ip_address(via) if via else None
            return Route(table, ipaddress.ip_network(to), oif, gateway, None, 0, protocol, 0)

        if version == 6:
            return [one(102, "::/0", 5, "fd00:11::1", PROTOCOL_RA)]
        return [
            one(TABLE_MAIN, "172.16.11.0/24", 4, None, PROTOCOL_KERNEL),
            one(101, "0.0.0.0/0", 4, "172.16.11.254"),
            one(TABLE_MAIN, "10.64.0.0/20", 4, "172.16.11.254", PROTOCOL_DHCP),
            one(TABLE_MAIN, "0.0.0.0/0", 9, "10.0.0.254"),
        ]

    def rules(self, version: int) -> list[Rule]:
        if version == 6:
            return [Rule(6, 10002, None, "ens2", 102, True)]
        return [
            Rule(4, 0, None, "", 255, True),
            Rule(4, 10001, ipaddress.ip_network("172.16.11.201/32"), "", 101, True),
            Rule(4, 10001, ipaddress.ip_network("172.16.11.201/32"), "", 101, False),
            Rule(4, 20000, ipaddress.ip_network("10.0.0.1/32"), "", 200, True),
        ]


def test_settings_of_the_nics(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (1, 2):
        tree.netdev(tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number)), "ens%d" % number)
    look: t.Any = node(tree, [link("ens1", 4), link("ens2", 5), link("dummy0", 9)], table=Table).look
    assert look(["ip"])["ip"] == {
        "addresses": [
            {"netdev": "ens1", "address": "172.16.11.201/24", "secondary": False, "dynamic": False},
            {"netdev": "ens1", "address": "172.16.11.240/24", "secondary": True, "dynamic": True},
            {"netdev": "ens2", "address": "fd00:11::201/64", "secondary": False, "dynamic": True},
        ],
        "routes": [
            {"netdev": "ens1", "to": "0.0.0.0/0", "via": "172.16.11.254", "table": 101, "dynamic": False},
            {"netdev": "ens1", "to": "10.64.0.0/20", "via": "172.16.11.254", "table": None, "dynamic": True},
            {"netdev": "ens2", "to": "::/0", "via": "fd00:11::1", "table": 102, "dynamic": True},
        ],
        "rules": [
            {"from": "172.16.11.201/32", "oif": None, "table": 101, "priority": 10001},
            {"from": None, "oif": "ens2", "table": 102, "priority": 10002},
        ],
    }
    assert [row["netdev"] for row in look(["ip"], ["ens2"])["ip"]["addresses"]] == ["ens2"]


def test_without_a_netdev_ip_is_empty(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/0000:01:00.0")
    assert node(tree).look(["ip"])["ip"] == {"addresses": [], "routes": [], "rules": []}


@in_own_namespace
def test_the_kernel_reports_the_settings_of_rail_ports(live: LiveNode) -> None:
    """The kernel reports what discovery's tests simulate."""
    ports = [
        port(1),
        port(2, address6=None, gateway6=None, routes=[{"to": "10.64.0.0/20", "via": "172.16.2.254", "table": 102}]),
        port(3, table=None, rule_priority=None, gateway=None, address6=None, gateway6=None, address="10.0.3.0/31"),
    ]
    ports[2]["routes"] = [{"to": "10.0.0.0/16", "via": "10.0.3.1", "table": None}]
    for number in (1, 2, 3):
        live.rail(number)
    run(live, ports)
    with Rtnetlink() as table:
        names = {each.ifindex: each.name for each in table.links() if each.name.startswith("rail")}
        reported = ip_state.look(table, names)
    simulated = live_nodes._ip(ports)
    assert (len(reported["addresses"]), len(reported["rules"])) == (4, 6)
    for part in ("addresses", "routes", "rules"):
        # The kernel has no order of its own, and link-local networks are routes of a rail's table too.
        found = [row for row in reported[part] if not str(row.get("to", "")).startswith("fe80")]
        assert sorted(map(str, found)) == sorted(map(str, simulated[part])), part


@in_own_namespace
def test_the_kernel_reports_leased_and_advertised_addresses_separately(live: LiveNode) -> None:
    """A router may give no time at all, 0xffffffff seconds; a lease is what a client of DHCP sets."""
    for number, valid in ((1, 3600), (2, 0xFFFFFFFF)):
        live.rail(number)
        ip("link", "set", "rail%d" % number, "up")
        ip("address", "add", "fd00:%d::201/64" % number, "dev", "rail%d" % number)
        live.advertise(number, valid)
    ip("address", "add", "172.16.1.201/24", "dev", "rail1", "valid_lft", "3600", "preferred_lft", "1800")
    ip("address", "add", "172.16.2.201/24", "dev", "rail2")
    ip("route", "add", "10.64.0.0/20", "via", "172.16.2.254", "proto", "dhcp")

    def reported() -> dict[str, bool]:
        with Rtnetlink() as table:
            names = {each.ifindex: each.name for each in table.links() if each.name.startswith("rail")}
            found = ip_state.look(table, names)
        return {
            "%s %s" % (row["netdev"], row.get("to") or ipaddress.ip_interface(row["address"]).network): row["dynamic"]
            for row in found["addresses"] + found["routes"]
        }

    wait_for(lambda: len(reported()) == 9, "missing addresses or default routes: %s" % reported())
    assert reported() == {
        "rail1 2001:db8:77::/64": True,
        "rail1 fd00:1::/64": False,
        "rail1 172.16.1.0/24": True,
        "rail1 ::/0": True,
        "rail2 2001:db8:77::/64": True,
        "rail2 fd00:2::/64": False,
        "rail2 172.16.2.0/24": False,
        "rail2 10.64.0.0/20": True,
        "rail2 ::/0": True,
    }
