# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bonds and VLANs of rail_ports on a real guest: node-2, rails 1 to 3, with any back-end.

``make test`` and ``make long PART=guests`` run it with systemd-networkd, ``PART=networkmanager`` with NetworkManager.
"""

from __future__ import annotations

import typing as t

import pytest

from tests.integration.conftest import Failed, Node

pytestmark = pytest.mark.lab_node("node-2")
Option = t.Dict[str, t.Any]
FUNCTIONS = [{"pci": "0000:%02x:00.0" % number, "netdev": "enp%ds0" % number} for number in (1, 2, 3)]
ACTIVE_BACKUP: Option = {
    "name": "bond0",
    "mode": "active-backup",
    "hash_policy": None,
    "lacp_rate": None,
    "primary": "enp2s0",
    "min_links": None,
}
LACP = dict(ACTIVE_BACKUP, mode="802.3ad", hash_policy="layer3+4", lacp_rate="fast", primary=None, min_links=1)
ON_GUEST = (
    "ip -br link; cat /proc/net/bonding/*; networkctl --no-pager; nmcli;"
    " journalctl -n 60 -o cat -u systemd-networkd -u NetworkManager"
)


def port(number: int, netdev: str, lower: Option | None, **options: t.Any) -> Option:
    planned: Option = {
        "rail": "stor%d" % number,
        "pci": None,
        "netdev": netdev,
        "mtu": 4200,
        "address": "172.16.%d.202/24" % (30 + number),
        "gateway": "172.16.%d.254" % (30 + number),
        "address6": None,
        "gateway6": None,
        "table": 130 + number,
        "rule_priority": 10030 + number,
        "routes": [],
        "sysctl": {"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2},
    }
    return dict(planned, **({"lower": lower} if lower else {}), **options)


def below(bond: Option | None = None, vlan: int | None = None, functions: t.Sequence[Option] = FUNCTIONS[:2]) -> Option:
    parent = bond["name"] if bond else functions[0]["netdev"]
    return {"vlan": vlan, "parent": parent if vlan else None, "bond": bond, "functions": list(functions)}


def on_bond(bond: Option = ACTIVE_BACKUP, functions: t.Sequence[Option] = FUNCTIONS[:2], **options: t.Any) -> Option:
    return port(1, "bond0.100", below(bond, 100, functions), **options)


@pytest.fixture
def guest(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    guest = node("node-2")
    yield guest
    clean(guest)


def clean(guest: Node) -> None:
    guest.module("rail_ports", state="absent")
    guest.run("ip link delete bond0; ip link delete vrf9; ip netns delete pod", check=False)
    for number in (1, 2, 3):
        guest.run("ip link set enp%ds0 nomaster mtu 1500 down" % number)


def links(guest: Node) -> dict[str, t.Any]:
    return {link["ifname"]: link for link in guest.json("ip -j -d addr")}


def converged(guest: Node, ports: list[Option]) -> list[tuple[str, str]]:
    """Run in check mode, run, and run again. Return subject and attribute of the changes of the first run."""
    predicted = guest.module("rail_ports", check=True, ports=ports)["changes"]
    done = guest.module("rail_ports", ports=ports)
    assert done["changes"] == predicted
    assert done["gathered"]["ports"] == ports
    assert guest.module("rail_ports", ports=ports)["changes"] == [], guest.run(ON_GUEST, check=False)
    return [(each["subject"], each["attribute"]) for each in predicted]


def members(guest: Node) -> set[str]:
    return {name for name, link in links(guest).items() if link.get("master") == "bond0"}


def test_a_vlan_on_a_bond_is_made_changed_and_removed(guest: Node) -> None:
    changes = converged(guest, [on_bond()])
    assert ("bond0", "interface") in changes and ("bond0.100", "interface") in changes
    seen = links(guest)
    bond = seen["bond0"]["linkinfo"]["info_data"]
    assert (bond["mode"], bond["primary"], bond["miimon"]) == ("active-backup", "enp2s0", 100)
    assert seen["bond0.100"]["linkinfo"]["info_data"]["id"] == 100
    assert members(guest) == {"enp1s0", "enp2s0"}
    # the bond has the address of its first function, in any order of members at boot
    assert seen["bond0"]["address"] == seen["enp1s0"]["permaddr" if "permaddr" in seen["enp1s0"] else "address"]
    assert [seen[name]["addr_info"] for name in ("enp1s0", "enp2s0")] == [[], []]
    assert {seen[name]["mtu"] for name in ("enp1s0", "enp2s0", "bond0", "bond0.100")} == {4200}
    # smaller from the VLAN down, larger from the functions up
    for mtu, order in ((2000, ["bond0.100", "bond0"]), (4000, ["bond0", "bond0.100"])):
        changes = converged(guest, [on_bond(mtu=mtu)])
        assert [subject for subject, attribute in changes if attribute == "mtu"] == order
        assert {links(guest)[name]["mtu"] for name in ("enp1s0", "enp2s0", "bond0", "bond0.100")} == {mtu}
    # another VLAN, and another rail on the bond itself
    ports = [port(2, "bond0.101", below(ACTIVE_BACKUP, 101)), port(3, "bond0", below(ACTIVE_BACKUP))]
    converged(guest, ports)
    assert "bond0.100" not in links(guest)
    done = guest.module("rail_ports", state="absent")
    assert not {"bond0", "bond0.101"}.intersection(links(guest))
    assert members(guest) == set()
    assert done["reboot_required"]
    assert guest.run("ls /etc/systemd/network | grep railyard || true") == ""


@pytest.mark.long
def test_drift_of_a_bond_is_corrected(guest: Node) -> None:
    ports = [on_bond(LACP)]
    converged(guest, ports)
    guest.run(
        "ip link set enp2s0 nomaster; ip link set bond0 type bond xmit_hash_policy layer2; ip link set enp1s0 mtu 4000"
    )
    changes = converged(guest, ports)
    assert ("enp2s0", "master") in changes and ("bond0", "bond.hash_policy") in changes and ("enp1s0", "mtu") in changes
    guest.run("ip link delete bond0.100; ip link set enp1s0 down")
    changes = converged(guest, ports)
    assert ("bond0.100", "interface") in changes and ("enp1s0", "state") in changes
    guest.run("ip link set enp3s0 down; ip link set enp3s0 master bond0")
    assert ("enp3s0", "master") in converged(guest, ports)
    assert members(guest) == {"enp1s0", "enp2s0"}


@pytest.mark.long
def test_another_mode_is_set_only_while_no_pod_uses_the_bond(guest: Node) -> None:
    converged(guest, [on_bond()])
    index = links(guest)["bond0.100"]["ifindex"]
    guest.run("ip netns add pod; ip link add link bond0.100 name net1 netns pod type macvlan mode bridge")
    with pytest.raises(
        Failed, match="must go down for another mode or LACP rate, and cannot: .*net1 in network namesp"
    ):
        guest.module("rail_ports", ports=[on_bond(LACP)])
    with pytest.raises(Failed, match="the plan does not contain bond0.100 in this form"):
        guest.module("rail_ports", state="absent")
    guest.run("ip netns delete pod; until ! ip netns | grep -q pod; do sleep 0.1; done")
    assert ("bond0", "bond.mode") in converged(guest, [on_bond(LACP)])
    # what was built on the bond was not removed
    assert links(guest)["bond0.100"]["ifindex"] == index
    data = links(guest)["bond0"]["linkinfo"]["info_data"]
    assert (data["mode"], data["xmit_hash_policy"], data["ad_lacp_rate"], data["min_links"]) == (
        *("802.3ad", "layer3+4", "fast", 1),
    )
    assert ("bond0", "bond.lacp_rate") in converged(guest, [on_bond(dict(LACP, lacp_rate="slow"))])


def test_a_bond_of_others_is_adopted_or_refused(guest: Node) -> None:
    guest.run("ip link add bond0 type bond mode active-backup miimon 100")
    guest.run("ip link set enp1s0 down; ip link set enp1s0 master bond0")
    before = links(guest)["bond0"]
    with pytest.raises(
        Failed, match="bond0 was not made by Railyard and differs: .*members is enp1s0, planned enp1s0, enp2s0"
    ):
        guest.module("rail_ports", ports=[on_bond()])
    assert links(guest)["bond0"]["ifindex"] == before["ifindex"]
    # its member cannot be a rail port
    with pytest.raises(
        Failed, match=r"enp1s0 is a member of bond0 \(bond\), and a port that has a master gets no addr"
    ):
        guest.module("rail_ports", ports=[port(1, "enp1s0", None, pci="0000:01:00.0")])
    guest.run("ip link set enp2s0 down; ip link set enp2s0 master bond0; ip link set bond0 type bond primary enp2s0")
    changes = guest.module("rail_ports", ports=[on_bond()])["changes"]
    assert ("bond0", "interface") not in [(each["subject"], each["attribute"]) for each in changes]
    guest.module("rail_ports", state="absent")
    assert "bond0" in links(guest) and "bond0.100" not in links(guest)
    assert members(guest) == {"enp1s0", "enp2s0"}
    # nothing is created, so that the back-end learns of the bond only by its file
    converged(guest, [port(1, "bond0", below(ACTIVE_BACKUP))])
    guest.module("rail_ports", state="absent")
    assert "bond0" in links(guest)


@pytest.mark.parametrize("kind", [pytest.param("bridge", marks=pytest.mark.long), "vrf table 999"])
def test_a_port_with_another_master_is_refused(guest: Node, kind: str) -> None:
    guest.run("ip link add vrf9 type %s; ip link set enp3s0 master vrf9" % kind)
    with pytest.raises(Failed, match=r"enp3s0 is a member of vrf9 \(%s\)" % kind.split()[0]):
        guest.module("rail_ports", ports=[port(1, "enp3s0", None, pci="0000:03:00.0")])
    with pytest.raises(Failed, match="vrf9"):
        guest.module("rail_ports", ports=[on_bond(functions=FUNCTIONS)])


@pytest.mark.long
def test_a_vlan_beside_the_port_itself(guest: Node) -> None:
    """Two rails on one function, and the function as a plain rail port before and after."""
    plain = port(2, "enp3s0", None, pci="0000:03:00.0")
    converged(guest, [plain])
    converged(guest, [plain, port(3, "storage0", below(None, 300, FUNCTIONS[2:]), mtu=4000)])
    assert links(guest)["storage0"]["link"] == "enp3s0"
    with pytest.raises(Failed, match="4300 bytes is more than the 4200 of its parent enp3s0"):
        guest.module("rail_ports", ports=[plain, port(3, "storage0", below(None, 300, FUNCTIONS[2:]), mtu=4300)])
    guest.run("ip link add link enp3s0 name other type vlan id 301")
    with pytest.raises(Failed, match="VLAN 301 of enp3s0 exists as other"):
        guest.module("rail_ports", ports=[port(3, "enp3s0.301", below(None, 301, FUNCTIONS[2:]))])
    guest.run("ip link delete other")
    # the function becomes a member of a bond, and a plain port again
    bonded = on_bond(dict(ACTIVE_BACKUP, primary=None), FUNCTIONS[2:])
    converged(guest, [bonded])
    converged(guest, [plain])
    assert links(guest)["enp3s0"]["mtu"] == 4200


@pytest.mark.parametrize("mode", ["untagged", "tagged"])
def test_the_management_interface_is_neither_member_nor_parent(guest: Node, mode: str) -> None:
    management = {"pci": None, "netdev": "enp0s30"}
    lower = below(LACP, 100, [FUNCTIONS[0], management]) if mode == "untagged" else below(None, 100, [management])
    with pytest.raises(Failed, match="enp0s30 carries"):
        guest.module("rail_ports", ports=[port(1, "bond0.100" if lower["bond"] else "enp0s30.100", lower)])
    assert "master" not in links(guest)["enp0s30"]


@pytest.mark.long
def test_a_boot_restores_bonds_and_vlans(guest: Node) -> None:
    check_boot(guest, "networkctl --no-legend list | grep -E 'bond0|enp[123]s0' | grep -vc ' configured' | grep -qx 0")


def check_boot(guest: Node, is_configured: str) -> None:
    """A boot restores bonds and VLANs, and a check run finds nothing. ``is_configured``: a command that succeeds."""
    ports = [on_bond(LACP), port(2, "enp3s0.7", below(None, 7, FUNCTIONS[2:]), address6="fd00:7::ca/64")]
    converged(guest, ports)
    before = _mtu_and_mac(guest)
    guest.reboot()
    guest.until(is_configured)
    assert guest.module("rail_ports", check=True, ports=ports)["changes"] == [], guest.run(ON_GUEST, check=False)
    assert _mtu_and_mac(guest) == before


def _mtu_and_mac(guest: Node) -> dict[str, tuple[int, str]]:
    """MTU and MAC of the bond, of the VLANs, and of the ports below them."""
    seen = links(guest)
    return {
        name: (seen[name]["mtu"], seen[name]["address"])
        for name in ("bond0", "bond0.100", "enp1s0", "enp2s0", "enp3s0", "enp3s0.7")
    }
