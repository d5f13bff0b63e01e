# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces above the ports: bonds, VLANs, bridges, teams and VRFs, from links as the kernel encodes them."""

from __future__ import annotations

import ipaddress
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.info import host_info, node_info
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.interfaces import duplicates
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.node_info import Info
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import (
    bond_messages,
    codec,
    link_kinds,
    link_messages,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import SCOPE_UNIVERSE, Address
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.test_info import link, node
from tests.unit.node.trees import Tree

ONE, TWO, THREE = "0000:29:00.0", "0000:29:00.1", "0000:3a:00.0"
PARTNER = bytes.fromhex("021122334455")
# the parts of bond_info_show_master() and bond_info_show_slave() that matter, as Linux 6.1 writes them for root
PROC = """Ethernet Channel Bonding Driver: v6.1.0-44-amd64

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
MII Status: up

802.3ad info
LACP active: on
Active Aggregator Info:
\tAggregator ID: 1
\tPartner Mac Address: 02:11:22:33:44:55

Slave Interface: ens2f0np0
MII Status: up
Permanent HW addr: 02:00:00:00:29:00
Aggregator ID: 1
details actor lacp pdu:
    system priority: 65535
    system mac address: 02:00:00:00:29:00
    port state: 63
details partner lacp pdu:
    system priority: 127
    system mac address: 02:11:22:33:44:55
    port state: 61

Slave Interface: ens2f1np1
MII Status: down
Aggregator ID: 2
details actor lacp pdu:
    system mac address: 02:00:00:00:29:00
details partner lacp pdu:
    system priority: 65535
    system mac address: 00:00:00:00:00:00
"""


def bond_data(mode: int, active: int | None = None, partner: bytes | None = None) -> bytes:
    """An IFLA_INFO_DATA as bond_fill_info() lays it out."""
    data = codec.u8(link_kinds.IFLA_BOND_MODE, mode) + codec.u32(link_kinds.IFLA_BOND_MIIMON, 100)
    if active:
        data += codec.u32(bond_messages.IFLA_BOND_ACTIVE_SLAVE, active)
        data += codec.u32(link_kinds.IFLA_BOND_PRIMARY, active)
    data += codec.u8(link_kinds.IFLA_BOND_XMIT_HASH_POLICY, 1) + codec.u32(link_kinds.IFLA_BOND_MIN_LINKS, 1)
    data += codec.u8(link_kinds.IFLA_BOND_AD_LACP_RATE, 1)
    if partner is not None:
        inner = codec.attribute(bond_messages.IFLA_BOND_AD_INFO_AGGREGATOR, struct.pack("=H", 1))
        inner += codec.attribute(bond_messages.IFLA_BOND_AD_INFO_PARTNER_MAC, partner)
        data += codec.attribute(bond_messages.IFLA_BOND_AD_INFO | 0x8000, inner)
    return data


def member_data(state: int, mii: int, last: int, aggregator: int | None = None) -> bytes:
    data = codec.u8(bond_messages.IFLA_BOND_SLAVE_STATE, state)
    data += codec.u8(bond_messages.IFLA_BOND_SLAVE_MII_STATUS, mii)
    data += codec.attribute(bond_messages.IFLA_BOND_SLAVE_PERM_HWADDR, bytes((2, 0, 0, 0, 0x29, last)))
    if aggregator:
        number = struct.pack("=H", aggregator)
        data += codec.attribute(bond_messages.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID, number)
    return data


def vlan_data(number: int) -> bytes:
    return codec.attribute(link_kinds.IFLA_VLAN_ID, struct.pack("=H", number))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    for function, netdev in ((ONE, "ens2f0np0"), (TWO, "ens2f1np1"), (THREE, "ens3np0")):
        tree.function("pci0000:20/0000:20:01.0/" + function)
        tree.netdev(function, netdev)
    tree.rdma(ONE, "mlx5_bond_0", "Ethernet")
    tree.rdma(THREE, "mlx5_2", "Ethernet")
    tree.write("/proc/net/bonding/bond0", PROC)
    return tree


def lacp_bond() -> list[Link]:
    return [
        link("ens2f0np0", 3, master=10, member=member_data(0, 0, 0, 1)),
        link("ens2f1np1", 4, master=10, member=member_data(1, 2, 1, 2), carrier=False),
        link("ens3np0", 5),
        link("bond0", 10, kind="bond", mtu=9000, data=bond_data(4, partner=PARTNER)),
    ]


def by_name(found: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {row["netdev"]: row for row in found["interfaces"]}


def test_a_bond_with_lacp_and_a_vlan_on_it(tree: Tree) -> None:
    links = [*lacp_bond(), link("bond0.100", 11, kind="vlan", below=10, data=vlan_data(100))]
    found = node(tree, links).look(["nics"])
    assert [(row["netdev"], row["master"]) for row in found["nics"]] == [
        *(("ens2f0np0", "bond0"), ("ens2f1np1", "bond0"), ("ens3np0", None)),
    ]
    bond, vlan = found["interfaces"]
    assert bond == {
        "netdev": "bond0",
        "kind": "bond",
        "lower": ["ens2f0np0", "ens2f1np1"],
        "functions": [ONE, TWO],
        "master": None,
        "vlan": None,
        "mac": "02:00:00:00:00:01",
        "mtu": 9000,
        "up": True,
        "operstate": "up",
        "carrier": True,
        "rdma": ["mlx5_bond_0"],
        "management_path": None,
        "managed": False,
        "bond": {
            "mode": "802.3ad",
            "hash_policy": "layer3+4",
            "lacp_rate": "fast",
            "miimon": 100,
            "min_links": 1,
            "primary": None,
            "active": None,
            "aggregator": 1,
            "partner_mac": "02:11:22:33:44:55",
            "members": [
                {
                    "netdev": "ens2f0np0",
                    "state": "active",
                    "link": "up",
                    "aggregator": 1,
                    "partner_mac": "02:11:22:33:44:55",
                    "permanent_mac": "02:00:00:00:29:00",
                },
                {
                    "netdev": "ens2f1np1",
                    "state": "backup",
                    "link": "down",
                    "aggregator": 2,
                    "partner_mac": None,
                    "permanent_mac": "02:00:00:00:29:01",
                },
            ],
        },
    }
    assert (vlan["netdev"], vlan["kind"], vlan["lower"], vlan["vlan"], vlan["bond"]) == (
        *("bond0.100", "vlan", ["bond0"], 100, None),
    )
    assert vlan["functions"] == [ONE, TWO] and vlan["rdma"] == ["mlx5_bond_0"]


@pytest.mark.parametrize(
    ("record", "managed"),
    [
        ('{"ports": [], "made": ["bond0", "bond0.100"]}', [True, True]),
        ('{"ports": [], "made": ["bond0.100"]}', [False, True]),
        ('{"ports": []}', [False, False]),
        ('{"made": 7}', [False, False]),
        ("[]", [False, False]),
        ("{", [False, False]),
    ],
)
def test_interfaces_that_railyard_made_are_marked(tree: Tree, record: str, managed: list[bool]) -> None:
    tree.write("/var/lib/railyard/rail_ports.json", record)
    links = [*lacp_bond(), link("bond0.100", 11, kind="vlan", below=10, data=vlan_data(100))]
    assert [row["managed"] for row in node(tree, links).look(["nics"])["interfaces"]] == managed


def test_active_backup_has_an_active_member_and_no_lacp(tree: Tree) -> None:
    links = [
        link("ens2f0np0", 3, master=10, member=member_data(0, 0, 0)),
        link("ens2f1np1", 4, master=10, member=member_data(1, 0, 1)),
        link("bond0", 10, kind="bond", data=bond_data(1, active=3)),
    ]
    bond = by_name(node(tree, links).look(["nics"]))["bond0"]["bond"]
    assert (bond["mode"], bond["primary"], bond["active"]) == ("active-backup", "ens2f0np0", "ens2f0np0")
    unused = ("hash_policy", "lacp_rate", "min_links", "aggregator", "partner_mac")
    assert [bond[key] for key in unused] == [None] * len(unused)
    # /proc may have LACP partners of an earlier mode
    assert [(row["state"], row["partner_mac"]) for row in bond["members"]] == [("active", None), ("backup", None)]


def test_no_partner_is_reported_as_none(tree: Tree) -> None:
    links = lacp_bond()
    links[3] = links[3]._replace(data=bond_data(4, partner=bytes(6)))
    (tree.root / "proc/net/bonding/bond0").unlink()
    bond = by_name(node(tree, links).look(["nics"]))["bond0"]["bond"]
    assert bond["partner_mac"] is None and bond["aggregator"] == 1
    assert [row["partner_mac"] for row in bond["members"]] == [None, None]


@pytest.mark.parametrize("kind", ["bridge", "team", "vrf"])
def test_other_masters_are_reported_by_kind(tree: Tree, kind: str) -> None:
    links = [link("ens3np0", 5, master=12), link("veth7", 6, master=12, kind="veth"), link("up0", 12, kind=kind)]
    found = node(tree, links).look(["nics"])
    (row,) = found["interfaces"]
    assert (row["netdev"], row["kind"], row["bond"], row["vlan"]) == ("up0", kind, None, None)
    assert row["lower"] == ["ens3np0", "veth7"] and row["functions"] == [THREE] and row["rdma"] == ["mlx5_2"]
    assert {each["netdev"]: each["master"] for each in found["nics"]}["ens3np0"] == "up0"


def test_interfaces_that_no_port_is_below_are_not_reported(tree: Tree) -> None:
    links = [
        link("ens3np0", 5),
        link("docker0", 6, kind="bridge"),
        link("veth7", 7, kind="veth", master=6),
        link("docker0.5", 8, kind="vlan", below=6, data=vlan_data(5)),
        # a VLAN on a port of another network namespace
        link("port.7", 9, kind="vlan", below=5, below_namespace=3, data=vlan_data(7)),
        # the kernel refuses a loop of two VLANs; the reader ends for one
        link("a", 20, kind="vlan", below=21, data=vlan_data(1)),
        link("b", 21, kind="vlan", below=20, data=vlan_data(1)),
        link("macvlan0", 30, kind="macvlan", below=5),
    ]
    assert node(tree, links).look(["nics"])["interfaces"] == []


def test_a_vlan_in_a_bridge_in_a_vrf(tree: Tree) -> None:
    links = [
        link("vrf1", 6, kind="vrf"),
        link("br1", 7, kind="bridge", master=6),
        link("ens3np0.9", 8, kind="vlan", below=5, master=7, data=vlan_data(9)),
        link("ens3np0", 5),
    ]
    found = by_name(node(tree, links).look(["nics"]))
    # an interface follows those below it
    assert list(found) == ["ens3np0.9", "br1", "vrf1"]
    assert [row["lower"] for row in found.values()] == [["ens3np0"], ["ens3np0.9"], ["br1"]]
    assert [row["master"] for row in found.values()] == ["br1", "vrf1", None]
    assert [row["functions"] for row in found.values()] == [[THREE]] * 3


@pytest.mark.parametrize(
    ("netdevs", "functions", "nics", "interfaces"),
    [
        (["bond0"], None, ["ens2f0np0", "ens2f1np1"], ["bond0", "bond0.100"]),
        (["bond0.100"], None, ["ens2f0np0", "ens2f1np1"], ["bond0", "bond0.100"]),
        (["ens2f1np1"], None, ["ens2f1np1"], ["bond0", "bond0.100"]),
        (None, [TWO], ["ens2f1np1"], ["bond0", "bond0.100"]),
        (["ens3np0"], None, ["ens3np0"], ["ens3np0.7"]),
        ([], [], [], []),
    ],
)
def test_a_port_is_selected_with_what_is_above_and_below(
    tree: Tree,
    netdevs: list[str] | None,
    functions: list[str] | None,
    nics: list[str],
    interfaces: list[str],
) -> None:
    links = [
        *lacp_bond(),
        link("bond0.100", 11, kind="vlan", below=10, data=vlan_data(100)),
        link("ens3np0.7", 12, kind="vlan", below=5, data=vlan_data(7)),
    ]
    for name in ("bond0", "bond0.100", "ens3np0.7"):
        tree.write("/sys/class/net/%s/type" % name, "1")
    found = node(tree, links).look(["nics"], netdevs, functions)
    assert [row["netdev"] for row in found["nics"]] == nics
    assert [row["netdev"] for row in found["interfaces"]] == interfaces


def test_the_management_path_is_seen_through_interfaces(tree: Tree) -> None:
    links = [
        *lacp_bond(),
        link("bond0.100", 11, kind="vlan", below=10, data=vlan_data(100)),
        link("br3", 12, kind="bridge"),
        link("ens3np0", 5, master=12),
    ]
    management = ManagementPath({"bond0": "carries this connection"}, {TWO: "ens2f1np1 is part of bond0"})
    found = node(tree, links, management_of=lambda system: management).look(["nics"])
    assert [row["management_path"] for row in found["nics"]] == ["ens2f1np1 is part of bond0"] * 2 + [None]
    rows = by_name(found)
    assert rows["bond0"]["management_path"] == "carries this connection"
    # a VLAN on the bond of the management network leaves by the same cables
    assert rows["bond0.100"]["management_path"] == "ens2f1np1 is part of bond0"
    assert rows["br3"]["management_path"] is None


class Table:
    """The addresses of bond0 and of a port."""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def addresses(self) -> list[Address]:
        return [
            Address(10, ipaddress.ip_interface("172.16.1.1/24"), SCOPE_UNIVERSE, 0x80),
            Address(5, ipaddress.ip_interface("172.16.3.1/24"), SCOPE_UNIVERSE, 0x80),
            Address(77, ipaddress.ip_interface("10.0.0.1/8"), SCOPE_UNIVERSE, 0x80),
        ]

    def routes(self, version: int) -> list[t.Any]:
        return []

    def rules(self, version: int) -> list[t.Any]:
        return []


def test_addresses_sysctls_counters_and_duplicates_are_those_of_the_interface(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp

    asked: list[t.Any] = []
    monkeypatch.setattr(arp, "ask", lambda own, wait, macs, _own: asked.append((dict(own), macs)) or {})
    for name in ("bond0", "ens3np0", "ens2f0np0", "ens2f1np1"):
        tree.write("/proc/sys/net/ipv4/conf/%s/arp_filter" % name, str(int(name == "bond0")))
    tree.write("/proc/sys/net/ipv4/conf/all/arp_filter", "0")
    tree.write("/sys/class/net/bond0/statistics/rx_dropped", "7")
    info = node(tree, lacp_bond(), table=t.cast(t.Any, Table))
    found = info.look(["ip", "sysctls", "counters", "duplicates"])
    assert [(row["netdev"], row["address"]) for row in found["ip"]["addresses"]] == [
        *(("bond0", "172.16.1.1/24"), ("ens3np0", "172.16.3.1/24")),
    ]
    assert (found["sysctls"]["bond0"]["arp_filter"], found["sysctls"]["ens3np0"]["arp_filter"]) == (1, 0)
    assert found["counters"]["netdevs"]["bond0"] == {"rx_dropped": 7}
    assert asked == [({"bond0": ["172.16.1.1"], "ens3np0": ["172.16.3.1"]}, {"02:00:00:00:00:01"})]


def test_ports_of_the_node_that_answer_for_another_port_are_apart_from_other_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp

    macs = {"ens1": "02::1", "ens2": "02::2", "ens2.7": "02::2", "bond0": "02::3"}

    def ask(_asked: t.Any, _wait: float, ours: set[str], own: arp.Answers) -> arp.Answers:
        assert ours == {"02::1", "02::2", "02::3"}
        # a VLAN has the address of its parent, and a NIC with VFs returns the probe of ens1
        own.update({("ens1", "10.0.0.1"): ["02::1"], ("ens2.7", "10.7.0.2"): ["02::2", "02::3"]})
        return {("bond0", "10.0.0.3"): ["02::9"]}

    monkeypatch.setattr(arp, "ask", ask)
    assert duplicates({}, macs, 1) == [
        {"netdev": "bond0", "address": "10.0.0.3", "macs": ["02::9"]},
        {"netdev": "ens2.7", "address": "10.7.0.2", "macs": [], "own": ["02::3"]},
    ]


def test_limits_have_the_reverse_path_filter_of_interfaces(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bond0", "ens3np0"):
        tree.write("/sys/class/net/%s/mtu" % name, "1500")
        tree.write("/proc/sys/net/ipv4/conf/%s/rp_filter" % name, "2")
    system = tree.system()
    found = host_info.look(system, ["limits"], interfaces=["bond0"])["limits"]["rp_filter"]
    assert found == {"bond0": 2, "ens2f0np0": None, "ens2f1np1": None, "ens3np0": 2}
    monkeypatch.setattr(node_info, "Info", lambda system: Info(system, lambda: [*lacp_bond()]))
    options: dict[str, t.Any] = {"subset": ["limits"], "netdevs": ["bond0"], "pci": None, "listen": 0}
    rows = node_info.look(options, system)["limits"]["rp_filter"]
    assert rows == {"ens2f0np0": None, "ens2f1np1": None, "bond0": 2}


def test_a_link_message_has_the_data_of_a_member() -> None:
    data = member_data(0, 0, 1, 1)
    information = codec.string(4, "bond") + codec.attribute(link_messages.IFLA_INFO_SLAVE_DATA | 0x8000, data)
    payload = link_messages.LINK_HEADER.pack(0, 1, 3, 1, 0) + codec.string(link_messages.IFLA_IFNAME, "ens2f0np0")
    payload += codec.attribute(link_messages.IFLA_LINKINFO | 0x8000, information)
    member = link_messages.decode_link(payload)
    assert (member.kind, bond_messages.member(member.member)) == (
        None,
        {"state": "active", "link": "up", "aggregator": 1, "permanent_mac": "02:00:00:00:29:01"},
    )
