# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bonds and VLANs as interfaces of rail ports, on a kernel in a directory."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, link_kinds, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import BondOptions
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    IFLA_INFO_DATA,
    IFLA_LINKINFO,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import lower_parts, netplan_text
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.network_files import (
    Netplan,
    Networkd,
    NetworkManager,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import Kept
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import RECORD, read_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts
from tests.unit.node.ports_kernel import Node, write
from tests.unit.node.test_ports import Option, changes, errors, port, run
from tests.unit.node.test_rdma import Kernel as RdmaKernel
from tests.unit.node.test_rdma import device, resources
from tests.unit.node.test_rdma import port as rdma_port

FUNCTIONS = [{"pci": "0000:%02x:00.0" % (10 + number), "netdev": "enp%ds0" % (10 + number)} for number in (1, 2, 3)]
BOND: Option = {
    "name": "bond0",
    "mode": "active-backup",
    "hash_policy": None,
    "lacp_rate": None,
    "primary": None,
    "min_links": None,
}
LACP = dict(BOND, mode="802.3ad", hash_policy="layer3+4", lacp_rate="fast")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    # the lab tests how systemd-networkd applies its files
    monkeypatch.setattr(Networkd, "load", lambda *_arguments: None)
    monkeypatch.setattr(Networkd, "load_netdevs", lambda *_arguments: None)
    return Node(tmp_path)


def lower(bond: Option | None = None, vlan: int | None = None, functions: t.Sequence[Option] = FUNCTIONS[:2]) -> Option:
    parent = bond["name"] if bond else functions[0]["netdev"]
    return {"vlan": vlan, "parent": parent if vlan else None, "bond": bond, "functions": list(functions)}


def stacked(netdev: str, below: Option, number: int = 1, **options: t.Any) -> Option:
    return port(number, rail="stor%d" % number, pci=None, netdev=netdev, lower=below, **options)


def on_bond(bond: Option = BOND, **options: t.Any) -> Option:
    return stacked("bond0.100", lower(bond, 100), **options)


def attributes(found: t.Sequence[t.Any]) -> list[tuple[str, str]]:
    rows = [each if isinstance(each, dict) else each.as_dict() for each in found]
    return [(each["subject"], each["attribute"]) for each in rows]


def named(node: Node, name: str) -> t.Any:
    return node.kernel.link(name)


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ports", "text"),
    [
        ([dict(on_bond(), pci="0000:0b:00.0")], "ports[0].pci: 0000:0b:00.0 is given beside lower"),
        ([stacked("bond0", lower(None, None, FUNCTIONS[:1]))], "neither vlan nor bond is given"),
        ([stacked("bond1", lower(BOND))], "the bond is bond0, but the interface bond1"),
        ([stacked("x", lower(None, 5))], "2 functions are given, but no bond"),
        ([stacked("x", lower(BOND, 4095))], "4095 is not between 1 and 4094"),
        ([stacked("x", dict(lower(BOND, 5), parent="y"))], "the parent is y, but the interface below the VLAN bond0"),
        (
            [stacked("bond0", dict(lower(BOND, 5), parent=None))],
            "the VLAN and an interface below it have the same name bond0",
        ),
        ([stacked("x", lower(dict(BOND, name="enp11s0"), 5))], "the bond and a member have the same name enp11s0"),
        ([stacked("x", lower(BOND, 5, []))], "no function is given"),
        ([stacked("x", lower(dict(BOND, primary="enp13s0"), 5))], "enp13s0 is not a member of bond0"),
        ([stacked("x", lower(dict(BOND, min_links=3), 5))], "min_links is 3, and the bond has 2 members"),
        ([stacked("x", lower(dict(BOND, hash_policy="layer4"), 5))], "layer4 is not one of layer2, layer3+4"),
        ([on_bond(), stacked("y", lower(LACP, 6), 2)], "bond0 differs from the bond of that name in ports[0] (stor1)"),
        ([on_bond(), port(2, pci="0000:0b:00.0", netdev="z")], "is a member of bond0 (stor1), and a member cannot be"),
        (
            [on_bond(), stacked("y", lower(dict(BOND, name="bond1"), 9), 2)],
            "is a member of bond0 (stor1), and a member",
        ),
        ([on_bond(), stacked("y", lower(None, 7, FUNCTIONS[1:2]), 2)], "0000:0c:00.0 is a member of bond0 (stor1)"),
        ([on_bond(), stacked("y", lower(BOND, 100), 2)], "ports[0] (stor1) has the same VLAN 100 of bond0"),
        ([on_bond(), port(2, pci=None, netdev="bond0")], "bond0 is the bond of ports[0] (stor1)"),
        ([on_bond(mtu=9000), stacked("bond0", lower(BOND), 2)], "9000 bytes is more than the 4200 of its parent bond0"),
        ([on_bond(), port(2, rail="lower-x")], "a rail's name cannot begin with lower-"),
    ],
)
def test_contradicting_options_are_refused(node: Node, ports: list[Option], text: str) -> None:
    options = {"ports": ports, "state": "present", "backend": "auto", "persist": True, "timeout": 3}
    with pytest.raises(RailyardError) as error:
        RailPorts.from_options(options, node.system)
    assert text in str(error.value)


def test_options_that_the_mode_does_not_have_are_ignored(node: Node) -> None:
    run(node, [on_bond(dict(BOND, hash_policy="layer3+4", lacp_rate="fast"))])
    assert link_kinds.decode_bond(named(node, "bond0").data) == BondOptions("active-backup", miimon=100)


# -- making, changing, removing ----------------------------------------------------------------------------------------


def test_a_bond_with_a_vlan_is_made_in_order(node: Node) -> None:
    predicted = changes(node, [on_bond()])
    result = run(node, [on_bond()])
    assert result["changes"] == [each.as_dict() for each in predicted]
    assert result["gathered"]["ports"] == [on_bond()]
    order = [
        ("/etc/systemd/network/05-railyard-lower-bond0.netdev", "content"),
        ("networkd", "netdevs loaded"),
        ("bond0", "interface"),
        ("enp11s0", "master"),
        ("enp12s0", "master"),
        ("bond0", "state"),
        ("bond0.100", "interface"),
        ("bond0.100", "state"),
        ("bond0.100", "ipv4.arp_ignore"),
        ("bond0.100", "address"),
        ("/etc/systemd/network/05-railyard-lower-bond0.network", "content"),
        ("networkd", "loaded"),
    ]
    found = attributes(predicted)
    places = [found.index(each) for each in order]
    assert places == sorted(places)
    assert named(node, "bond0").address == named(node, "enp11s0").permanent
    assert json.loads(node.system.read(RECORD) or "")["made"] == ["bond0", "bond0.100"]
    assert changes(node, [on_bond()]) == []


@pytest.mark.parametrize(
    "ports",
    [
        [stacked("bond0", lower(LACP))],
        [stacked("enp11s0.5", lower(None, 5, FUNCTIONS[:1]))],
        [stacked("stor", lower(None, 5, [{"pci": "0000:0b:00.0", "netdev": None}]))],
        [on_bond(dict(BOND, primary="0000:0c:00.0"))],
        [on_bond(), stacked("bond0.101", lower(BOND, 101), 2, mtu=9000), stacked("bond0", lower(BOND), 3, mtu=9000)],
        [port(1), stacked("enp11s0.5", lower(None, 5, FUNCTIONS[:1]), 2)],
        [stacked("bond0", lower(dict(BOND, min_links=0), None, [{"pci": None, "netdev": "enp11s0"}]))],
    ],
)
def test_layouts(node: Node, ports: list[Option]) -> None:
    before = node.kernel.summary()
    predicted = [each.as_dict() for each in changes(node, ports)]
    assert run(node, ports)["changes"] == predicted
    assert changes(node, ports) == []
    run(node, [], state="absent")
    after = node.kernel.summary()
    assert [after[key] for key in ("addresses", "routes", "rules", "files")] == [
        before[key] for key in ("addresses", "routes", "rules", "files")
    ]
    assert {link[1] for link in after["links"]} == {link[1] for link in before["links"]}
    assert changes(node, [], state="absent") == []


def test_members_are_renamed_first(node: Node) -> None:
    functions = [dict(FUNCTIONS[0], netdev="ens2f0np0"), dict(FUNCTIONS[1], netdev="ens2f1np1")]
    run(node, [stacked("bond0", lower(BOND, None, functions))])
    assert {link.name for link in node.kernel.members(named(node, "bond0").ifindex)} == {"ens2f0np0", "ens2f1np1"}
    text = node.system.read("/etc/systemd/network/05-railyard-lower-ens2f0np0.link") or ""
    assert "pci-0000:0b:00.0" in text and "Name=ens2f0np0" in text
    assert changes(node, [stacked("bond0", lower(BOND, None, functions))]) == []


def test_only_drifted_settings_are_corrected(node: Node) -> None:
    run(node, [on_bond(LACP)])
    kernel = node.kernel
    bond, member = named(node, "bond0"), named(node, "enp12s0")
    kernel.set_link(member.ifindex, master=0)
    kernel.set_link(bond.ifindex, kind=link_kinds.encode_bond(BondOptions(hash_policy="layer2", miimon=0)))
    found = attributes(changes(node, [on_bond(LACP)]))
    assert found == [("bond0", "bond.hash_policy"), ("bond0", "bond.miimon"), ("enp12s0", "master")]
    run(node, [on_bond(LACP)])
    kernel.delete_link(named(node, "bond0.100").ifindex)
    kernel.set_link(named(node, "enp11s0").ifindex, up=False)
    found = attributes(changes(node, [on_bond(LACP)]))
    assert ("enp11s0", "state") in found and ("bond0.100", "interface") in found
    assert ("bond0", "interface") not in found
    run(node, [on_bond(LACP)])
    assert changes(node, [on_bond(LACP)]) == []


def test_the_mtu_goes_down_from_the_top_and_up_from_the_bottom(node: Node) -> None:
    run(node, [on_bond()])
    for mtu, order in ((2000, ["bond0.100", "bond0"]), (9000, ["bond0", "bond0.100"])):
        result = run(node, [on_bond(mtu=mtu)])["changes"]
        assert [each["subject"] for each in result if each["attribute"] == "mtu"] == order
        assert named(node, "enp11s0").mtu == named(node, "bond0.100").mtu == mtu
    assert "takes an MTU from 68 to 9216, not 9300" in errors(node, [on_bond(mtu=9300)])


def test_a_mode_is_changed_without_removing_the_bond(node: Node) -> None:
    run(node, [on_bond()])
    before = [named(node, name).ifindex for name in ("bond0", "bond0.100")]
    found = attributes(run(node, [on_bond(LACP)])["changes"])
    assert ("bond0", "bond.mode") in found and ("bond0", "interface") not in found
    assert [named(node, name).ifindex for name in ("bond0", "bond0.100")] == before
    assert len(node.kernel.members(before[0])) == 2
    assert changes(node, [on_bond(LACP)]) == []
    # one interface of another program on it, and it is refused
    write(node.root / "sys/class/net/bond0.100/upper_macvlan0", "")
    message = errors(node, [on_bond()])
    assert "bond0 must go down for another mode or LACP rate, and cannot: macvlan0 is built on it" in message
    # what needs no bond that is down is changed
    assert attributes(changes(node, [on_bond(dict(LACP, hash_policy="layer2+3"))]))[1] == ("bond0", "bond.hash_policy")


@pytest.mark.parametrize("netdev", [None, "enp11s0", "bond0"])
def test_a_mode_is_not_changed_while_its_rdma_device_is_in_use(
    node: Node, monkeypatch: pytest.MonkeyPatch, netdev: str | None
) -> None:
    """The kernel reports the bond, a function, or no interface for the device of a RoCE LAG."""
    run(node, [on_bond()])
    if netdev != "bond0":
        (node.root / "sys/bus/pci/devices/0000:0b:00.0/infiniband/mlx5_bond_0").mkdir(parents=True)
    process = resources(rdma_netlink.ATTR_RES_QP, codec.u32(rdma_netlink.ATTR_RES_PID, 70))
    for pid in ("1", "70"):
        write(node.root / "proc" / pid / "comm", "trainer\n")
        write(node.root / "proc" / pid / "cgroup", "0::/\n")
    answers = {"get": [device(3, "mlx5_bond_0")], "port_get": [rdma_port(netdev)], "res_cm_id_get": []}
    sock = RdmaKernel(res_qp_get=process, **answers)
    monkeypatch.setattr(sock, "close", lambda: None, raising=False)
    monkeypatch.setattr(rdma_netlink, "connect", lambda _system: sock)
    assert "its RDMA device is in use (trainer (pid 70, 1 queue pairs))" in errors(node, [on_bond(LACP)])
    assert "its RDMA device is in use" in errors(node, [], state="absent")


def test_a_bond_becomes_plain_ports_and_back(node: Node) -> None:
    plain = [port(1), port(2)]
    run(node, [on_bond()])
    predicted = [each.as_dict() for each in changes(node, plain)]
    assert run(node, plain)["changes"] == predicted
    assert named(node, "bond0") is None
    assert [named(node, name).mtu for name in ("enp11s0", "enp12s0")] == [4200, 4200]
    assert changes(node, plain) == []
    run(node, [on_bond()])
    assert changes(node, [on_bond()]) == []


def test_what_is_in_use_is_not_removed(node: Node) -> None:
    run(node, [on_bond()])
    write(node.root / "sys/class/net/bond0.100/upper_br0", "")
    for options in ({"state": "absent"}, {}):
        message = errors(node, [] if options else [port(3)], **options)
        assert (
            "the plan does not contain bond0.100 in this form, and it cannot be removed: br0 is built on it" in message
        )


def test_of_two_vlans_on_a_bond_one_is_removed(node: Node) -> None:
    ports = [on_bond(), stacked("bond0.101", lower(BOND, 101), 2)]
    run(node, ports)
    run(node, ports[:1], state="absent")
    assert named(node, "bond0.100") is None and len(node.kernel.members(named(node, "bond0").ifindex)) == 2
    assert changes(node, ports[1:]) == []
    assert json.loads(node.system.read(RECORD) or "")["made"] == ["bond0", "bond0.101"]
    run(node, ports[1:], state="absent")
    assert named(node, "bond0") is None and node.system.read(RECORD) is None


def test_without_files_the_live_state_is_the_same(node: Node) -> None:
    run(node, [on_bond()], persist=False)
    assert not (node.root / "etc/systemd").exists()
    assert changes(node, [on_bond()], persist=False) == []
    run(node, [], state="absent")
    assert named(node, "bond0") is None


def test_another_vlan_id_or_parent_replaces_our_vlan(node: Node) -> None:
    run(node, [stacked("stor", lower(BOND, 100))])
    for below in (lower(BOND, 101), lower(None, 101, FUNCTIONS[2:])):
        predicted = [each.as_dict() for each in changes(node, [stacked("stor", below)])]
        assert run(node, [stacked("stor", below)])["changes"] == predicted
        assert changes(node, [stacked("stor", below)]) == []
    assert named(node, "stor").below == named(node, "enp13s0").ifindex
    assert named(node, "bond0") is None


def test_a_run_after_an_interrupted_one_converges(node: Node) -> None:
    ports = [on_bond(LACP)]
    number = len(changes(node, ports))
    for done in range(number):
        rails = changes(node, ports)
        for change in rails[: done % 7 + 1]:
            change.act()
    run(node, ports)
    assert changes(node, ports) == []
    assert json.loads(node.system.read(RECORD) or "")["made"] == ["bond0", "bond0.100"]


# -- interfaces of others ----------------------------------------------------------------------------------------------


def others_bond(node: Node, *members: str, **options: t.Any) -> int:
    kind = link_kinds.encode_bond(BondOptions(**dict({"mode": "active-backup", "miimon": 50}, **options)))
    node.kernel.new_link(kind, "bond0", None, None, None, None)
    index = int(named(node, "bond0").ifindex)
    for name in members:
        node.kernel.set_link(named(node, name).ifindex, master=index)
    return index


def test_an_equal_bond_of_others_is_adopted_and_stays(node: Node) -> None:
    index = others_bond(node, "enp11s0", "enp12s0")
    found = attributes(run(node, [on_bond()])["changes"])
    assert [each for each in found if each[0] in ("bond0", "enp11s0") and each[1] in ("interface", "master")] == []
    assert json.loads(node.system.read(RECORD) or "")["made"] == ["bond0.100"]
    run(node, [], state="absent")
    assert named(node, "bond0").ifindex == index
    assert named(node, "bond0.100") is None


@pytest.mark.parametrize(
    ("members", "options", "text"),
    [
        (("enp11s0",), {}, "members is enp11s0, planned enp11s0, enp12s0"),
        (("enp11s0", "enp12s0", "enp13s0"), {}, "members is enp11s0, enp12s0, enp13s0, planned enp11s0, enp12s0"),
        (("enp11s0", "enp12s0"), {"mode": "balance-rr"}, "mode is balance-rr, planned active-backup"),
    ],
)
def test_a_different_bond_of_others_is_refused(
    node: Node, members: tuple[str, ...], options: Option, text: str
) -> None:
    others_bond(node, *members, **options)
    message = errors(node, [on_bond()])
    assert "bond0 was not made by Railyard and differs: " in message and text in message
    assert "managed: false" in message


def test_a_different_vlan_of_others_is_refused(node: Node) -> None:
    parent = named(node, "enp13s0").ifindex
    node.kernel.new_link(link_kinds.encode_vlan(7), "stor", parent, None, None, None)
    assert "stor was not made by Railyard and differs: VLAN id is 7, planned 8" in errors(
        node, [stacked("stor", lower(None, 8, FUNCTIONS[2:]))]
    )
    assert "parent is enp13s0, planned bond0" in errors(node, [stacked("stor", lower(BOND, 7))])
    assert "VLAN 7 of enp13s0 exists as stor" in errors(node, [stacked("x", lower(None, 7, FUNCTIONS[2:]))])
    assert "bond0 was not made" not in errors(node, [stacked("enp14s0", lower(dict(BOND, name="enp14s0")))])
    assert "kind is a device, planned bond" in errors(node, [stacked("enp14s0", lower(dict(BOND, name="enp14s0")))])


@pytest.mark.parametrize("kind", ["bond", "bridge", "team", "vrf", "openvswitch"])
def test_a_plain_port_with_a_master_is_refused(node: Node, kind: str) -> None:
    master = node.kernel.nic("m0")
    node.kernel.table[master] = node.kernel.table[master]._replace(kind=kind)
    index = named(node, "enp11s0").ifindex
    node.kernel.table[index] = named(node, "enp11s0")._replace(master=master)
    message = errors(node, [port(1)])
    assert "enp11s0 is a member of m0 (%s), and a port that has a master gets no address" % kind in message
    assert ("bond: {name: m0" in message) == (kind == "bond")
    # as a member of a planned bond, it would be taken from its master
    assert "enp11s0 is a member of m0 (%s) instead of the planned bond0" % kind in errors(node, [on_bond()])


def test_a_member_in_use_is_not_set_down(node: Node) -> None:
    node.kernel.set_link(named(node, "enp11s0").ifindex, up=True)
    write(node.root / "sys/class/net/enp11s0/device/sriov_numvfs", "4")
    assert "enp11s0 must go down to become a member of bond0, and cannot: it has VFs" in errors(node, [on_bond()])


@pytest.mark.parametrize(
    "below",
    [lower(BOND, 100, [FUNCTIONS[0], {"pci": "0000:01:00.0", "netdev": None}]), lower(None, 100, [{"netdev": "eth0"}])],
)
def test_the_management_interface_is_refused_below_a_port(node: Node, below: Option) -> None:
    message = errors(node, [stacked("bond0.100" if below["bond"] else "eth0.100", below)])
    assert "eth0 carries the default route" in message


# -- files -------------------------------------------------------------------------------------------------------------


def files(node: Node, ports: list[Option], backend: str) -> dict[str, str]:
    found = changes(node, ports, backend=backend)
    return {str(each.subject): str(each.after) for each in found if each.attribute == "content"}


def test_files_of_systemd_networkd(node: Node) -> None:
    found = files(node, [on_bond(dict(LACP, min_links=1))], "networkd")
    place = "/etc/systemd/network/05-railyard-"
    assert {path[len(place) :] for path in found if path.startswith(place)} == {
        *("lower-bond0.netdev", "lower-bond0.network", "lower-bond0.100.netdev", "stor1.network"),
        *("lower-enp11s0.link", "lower-enp11s0.network", "lower-enp12s0.link", "lower-enp12s0.network"),
    }
    netdev = found[place + "lower-bond0.netdev"]
    for line in (
        *("Kind=bond", "MACAddress=02:00:00:00:00:03", "Mode=802.3ad", "MIIMonitorSec=100ms", "MinLinks=1"),
        *("TransmitHashPolicy=layer3+4", "LACPTransmitRate=fast"),
    ):
        assert line in netdev.splitlines()
    assert "Id=100" in found[place + "lower-bond0.100.netdev"].splitlines()
    assert {"Bond=bond0", "LinkLocalAddressing=no"} < set(found[place + "lower-enp11s0.network"].splitlines())
    assert {"VLAN=bond0.100", "LinkLocalAddressing=no"} < set(found[place + "lower-bond0.network"].splitlines())
    rail = found[place + "stor1.network"]
    assert "Address=172.16.11.201/24" in rail and "LinkLocalAddressing" not in rail
    sysctl = found["/etc/sysctl.d/90-railyard.conf"]
    assert "net/ipv4/conf/bond0.100/arp_ignore = 1" in sysctl
    assert "enp11s0.arp_ignore" not in sysctl


def test_keyfiles_of_networkmanager(node: Node) -> None:
    write(node.root / "run/systemd/units/invocation:NetworkManager.service", "")
    found = files(node, [on_bond(dict(BOND, primary="0000:0c:00.0"))], "networkmanager")
    place = "/etc/NetworkManager/system-connections/railyard-%s.nmconnection"
    bond = found[place % "lower-bond0"].splitlines()
    assert {"type=bond", "mode=active-backup", "miimon=100", "primary=enp12s0"} < set(bond)
    assert "cloned-mac-address=02:00:00:00:00:03" in bond
    assert bond.count("method=disabled") == 2
    member = found[place % "lower-enp11s0"].splitlines()
    assert {"type=ethernet", "master=bond0", "slave-type=bond"} < set(member) and "[ipv4]" not in member
    vlan = found[place % "stor1"].splitlines()
    assert {"type=vlan", "id=100", "parent=bond0", "address1=172.16.11.201/24"} < set(vlan)


@pytest.mark.parametrize(
    ("path", "text", "backend"),
    [
        ("/etc/systemd/network/20-bond.netdev", "[NetDev]\nName=bond0\nKind=bond\n", "networkd"),
        ("/run/systemd/network/10-netplan-bond0.netdev", "[NetDev]\nName=bond0\nKind=bond\n", "networkd"),
        ("/usr/lib/systemd/network/v.netdev", "[NetDev]\nName=bond0.100\nKind=vlan\n[VLAN]\nId=100\n", "networkd"),
        (
            "/etc/NetworkManager/system-connections/b.nmconnection",
            "[connection]\ntype=bond\ninterface-name=bond0\n",
            "networkmanager",
        ),
        (
            "/etc/NetworkManager/system-connections/v.nmconnection",
            "[connection]\ntype=vlan\n[vlan]\nid=100\nparent=bond0\n",
            "networkmanager",
        ),
        ("/etc/sysconfig/network-scripts/ifcfg-bond0", "DEVICE=bond0\nBONDING_OPTS=mode=1\n", "networkmanager"),
        ("/etc/network/interfaces", "auto bond0\niface bond0 inet manual\n  bond-slaves enp11s0 enp12s0\n", "networkd"),
        ("/etc/network/interfaces", "iface vlan0100 inet manual\n\tvlan_raw_device bond0\n", "networkd"),
    ],
)
def test_a_file_that_makes_the_bond_too_is_refused(node: Node, path: str, text: str, backend: str) -> None:
    write(node.root / "usr/sbin/ifup", "")
    write(node.root / path[1:], text)
    assert path in errors(node, [on_bond()], backend=backend)


@pytest.mark.parametrize(
    ("path", "text", "backend"),
    [
        (
            "/etc/network/interfaces",
            "iface x inet dhcp\n bond-slaves none\niface enp11s0 inet6 manual\n autoconf 0\n bond-master x\n",
            "none",
        ),
        ("/etc/network/interfaces", "# later\niface br0 inet dhcp\n bridge_ports enp12s0 \\\n   enp11s0\n", "none"),
        ("/etc/sysconfig/network-scripts/ifcfg-a", "DEVICE=enp11s0\nMASTER=bond7\nSLAVE=yes\n", "networkmanager"),
        ("/etc/sysconfig/network-scripts/ifcfg-a", "DEVICE=enp11s0\nTEAM_MASTER=team7\n", "networkmanager"),
        ("/etc/systemd/network/20-a.network", "[Match]\nName=enp11s0\n[Network]\nBond=bond7\n", "networkd"),
        (
            "/etc/NetworkManager/system-connections/a.nmconnection",
            "[connection]\ntype=ethernet\ninterface-name=enp11s0\ncontroller=bond7\n",
            "networkmanager",
        ),
    ],
)
def test_a_file_that_makes_a_port_a_member_of_another_is_refused(
    node: Node, path: str, text: str, backend: str
) -> None:
    write(node.root / "sbin/ifup", "")
    if path == "/etc/network/interfaces":
        write(node.root / path[1:], "source-directory interfaces.d\nsource /etc/network/more/*.cfg\n")
        path = "/etc/network/more/1.cfg"
    write(node.root / path[1:], text)
    for ports in ([port(1)], [on_bond()]):
        assert path in errors(node, ports, backend=backend)
    # equal to the plan
    write(
        node.root / path[1:], text.replace("bond7", "bond0").replace("br0", "bond0").replace("master x", "master bond0")
    )
    if "bridge" not in text and "TEAM" not in text:
        assert changes(node, [on_bond()], backend=backend)


def test_messages_name_the_rail(node: Node) -> None:
    write(node.root / "sys/class/net/enp12s0/carrier", "0")
    run(node, [on_bond()])
    (warning,) = run(node, [on_bond()])["warnings"]
    assert warning == "enp12s0 (stor1) has no carrier: see its cable and the switch port"
    missing = [FUNCTIONS[0], {"pci": "0000:77:00.0", "netdev": None}]
    message = errors(node, [stacked("bond0", lower(BOND, None, missing))])
    assert "ports[0].lower.functions[1].pci (stor1): there is no PCI function 0000:77:00.0" in message


def test_link_kinds() -> None:
    options = BondOptions("802.3ad", "encap3+4", "fast", 2, 100, 7)
    data = codec.table(codec.table(link_kinds.encode_bond(options))[IFLA_LINKINFO])[IFLA_INFO_DATA]
    assert link_kinds.decode_bond(data) == options
    assert link_kinds.decode_bond(b"") == BondOptions()
    data = codec.table(codec.table(link_kinds.encode_vlan(4094))[IFLA_LINKINFO])[IFLA_INFO_DATA]
    assert link_kinds.decode_vlan(data) == 4094


def test_the_record_of_plain_ports_does_not_change(node: Node) -> None:
    run(node, [port(1)])
    document = json.loads(System(str(node.root)).read(RECORD) or "")
    assert sorted(document) == ["done", "former", "ports"]
    assert "lower" not in document["ports"][0]


def test_a_profile_that_networkmanager_made_of_the_kernels_state_is_ignored(node: Node) -> None:
    text = "[connection]\ntype=%s\ninterface-name=%s\ncontroller=f46b30de\n[.nmmeta]\nnm-generated=true\n"
    for kind, name in (("ethernet", "enp11s0"), ("bond", "bond0"), ("vlan", "bond0.100")):
        write(node.root / ("run/NetworkManager/system-connections/%s.nmconnection" % name), text % (kind, name))
    assert changes(node, [on_bond()], backend="networkmanager")


class Nmcli:
    """Answers with the active profiles; a profile of a bond cannot be applied again with another mode."""

    def __init__(self, active: t.Mapping[str, str]) -> None:
        self.active = active
        self.ran: list[str] = []

    def __call__(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        words = [each for each in argv if each not in ("nmcli", "--wait", "3")]
        if "GENERAL.CONNECTION" in words:
            return CommandResult(0, self.active.get(words[-1], "") + "\n", "")
        if "NAME,DEVICE" in words:
            return CommandResult(0, "".join("%s:%s\n" % (name, netdev) for netdev, name in self.active.items()), "")
        self.ran.append(" ".join(words[1:]))
        return CommandResult(6 if words[-1] == "bond0" else 0, "", "Can't reapply 'mode' bond option")


def test_networkmanager_activates_a_bond_before_its_members_and_vlans(node: Node) -> None:
    node.kernel.new_link(link_kinds.encode_bond(BondOptions()), "bond0", None, None, None, None)
    wanted = lower_parts.parts(read_ports([on_bond()]), lambda _pci: None)
    kept = [Kept(each, str(each.netdev), 3 + number, False) for number, each in enumerate(wanted)]
    names = {each.netdev: "railyard-" + each.port.rail for each in kept}
    for active, changed, expected in (
        ({}, names, ["up id lower-bond0", "up id lower-enp11s0", "up id lower-enp12s0", "up id stor1"]),
        (names, [], []),
        (names, ["enp11s0", "stor1"], ["reapply enp11s0", "reapply bond0.100"]),
        # its members are released
        (names, ["bond0"], ["reapply bond0", "up id lower-bond0", "up id lower-enp11s0", "up id lower-enp12s0"]),
    ):
        nmcli = Nmcli(active)
        backend = NetworkManager(System(str(node.root), nmcli))
        files = backend.files(kept)
        paths = [path for path in files for name in changed if name in path or "lower-%s." % name in path]
        for path in paths:
            write(node.root / path[1:], "")
        backend.load(kept, paths, (), 3)
        assert [each.replace("railyard-", "") for each in nmcli.ran[1:]] == expected


@pytest.mark.parametrize("made", [(), ("bond0.100",), ("bond0", "bond0.100")])
def test_networkmanager_leaves_interfaces_of_others_as_they_are(node: Node, made: t.Sequence[str]) -> None:
    """Without a profile, NetworkManager deactivates an interface, and a bond loses its members."""
    netdevs = ["enp11s0", "bond0", "bond0.100", "enp13s0"]
    kinds = {"bond0": "DEVTYPE=bond\n", "bond0.100": "DEVTYPE=vlan\n"}
    for netdev in netdevs:
        write(node.root / ("sys/class/net/%s/uevent" % netdev), "INTERFACE=%s\n%s" % (netdev, kinds.get(netdev, "")))
    (node.root / "sys/class/net/enp11s0/master").symlink_to("../bond0")
    nmcli = Nmcli({netdev: "railyard-" + netdev for netdev in netdevs})
    removed = ["/etc/NetworkManager/system-connections/railyard-%s.nmconnection" % netdev for netdev in netdevs]
    NetworkManager(System(str(node.root), nmcli)).load([], removed, made, 3)
    left = [name for name in netdevs[:3] if name not in made and (name != "enp11s0" or "bond0" not in made)]
    no, yes = (["set %s managed %s" % (name, word) for name in left] for word in ("no", "yes"))
    assert nmcli.ran == [*no, "reload", *yes]


def test_yaml_for_netplan(node: Node) -> None:
    bond = dict(LACP, min_links=2)
    wanted = lower_parts.parts(
        read_ports([on_bond(bond), stacked("bond0", lower(bond), 2, mtu=9000)]), lambda _pci: None
    )
    kept = [Kept(each, str(each.netdev), 3, False, mac="02:00:00:00:00:03") for each in wanted]
    network = yaml.safe_load(netplan_text.text(kept))["network"]
    assert list(network) == ["version", "ethernets", "bonds", "vlans"]
    member = network["ethernets"]["enp11s0"]
    assert (member["link-local"], member["mtu"], "addresses" in member) == ([], 9000, False)
    found = network["bonds"]["bond0"]
    assert (found["interfaces"], found["macaddress"]) == (["enp11s0", "enp12s0"], "02:00:00:00:00:03")
    assert found["parameters"] == {
        **{"mode": "802.3ad", "mii-monitor-interval": 100, "transmit-hash-policy": "layer3+4"},
        **{"lacp-rate": "fast", "min-links": 2},
    }
    assert found["addresses"] == ["172.16.12.201/24"]
    vlan = network["vlans"]["bond0.100"]
    assert (vlan["id"], vlan["link"], vlan["mtu"], vlan["addresses"]) == (100, "bond0", 4200, ["172.16.11.201/24"])


def test_a_bond_that_another_file_of_netplan_describes_is_refused(node: Node) -> None:
    """netplan merges both; without Railyard's file, it still generates the bond."""

    def generate(argv: t.Sequence[str], timeout: float) -> CommandResult:
        place = Path(argv[-1])
        if (place / "etc/netplan/50-others.yaml").exists():
            write(place / "run/systemd/network/10-netplan-bond0.netdev", "[NetDev]\nName=bond0\n")
        return CommandResult(0, "", "")

    backend = Netplan(System(str(node.root), generate))
    wanted = lower_parts.parts(read_ports([on_bond()]), lambda _pci: None)
    files = backend.files([Kept(each, str(each.netdev), 3, False) for each in wanted])
    path = "/etc/netplan/60-railyard.yaml"
    backend.check(path, files[path].text)
    write(node.root / "etc/netplan/50-others.yaml", "network: {bonds: {bond0: {}}}\n")
    with pytest.raises(RailyardError, match=r"/etc/netplan: makes bond0 \(bond\), which Railyard makes too"):
        backend.check(path, files[path].text)
