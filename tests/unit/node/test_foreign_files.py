# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of other programs that give a rail port settings: found as systemd and NetworkManager find them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import foreign_files as foreign
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import network_files
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import Kept
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import read_ports

PCI = "0000:0b:00.0"
OPTION = {
    "rail": "gpu01",
    "pci": PCI,
    "netdev": "rail1",
    "mtu": 4200,
    "address": "172.16.1.201/24",
    "gateway": "172.16.1.254",
    "table": 101,
    "rule_priority": 10001,
}
OWN = "/etc/systemd/network/05-railyard-gpu01.network"
STORAGE = "[Network]\nAddress=192.168.50.2/24\n"
KEPT = Kept(read_ports([OPTION])[0], "rail1", 3, False)
LINK = Link(3, "ens1", True, 1500, 68, 9216, bytes.fromhex("020000000003"), ("enp11s0",), permanent=b"\x02\0\0\0\0\x09")


@pytest.fixture
def node(tmp_path: Path) -> System:
    system = System(str(tmp_path))
    driver = tmp_path / "sys/bus/pci/devices" / PCI / "driver"
    driver.parent.mkdir(parents=True)
    driver.symlink_to("/sys/bus/pci/drivers/mlx5_core")
    return system


def networkd(node: System, link: Link | None = LINK, own: str = OWN) -> list[str]:
    """What Railyard's file must repeat, in lines."""
    sections = foreign.networkd(node, KEPT, foreign.Facts.of(node, KEPT, link, None), own)
    return [line for _name, lines in sections for line in lines]


def put(node: System, path: str, text: str) -> str:
    node.write_file(path, text)
    return path


@pytest.mark.parametrize(
    "match",
    [
        "Name=rail1",
        "Name=ens1",
        "Name=eth0 ens*",
        "Name=enp11s0",
        "Name=eth0\nName=ens1",
        "Name=!eth* lo",
        "Name=!eth*\nName=ens*",
        # one of its names is enough: enp11s0 is not excluded
        "Name=!ens* rail*",
        "Type=ether\nKind=!*",
        "Driver=!virtio*",
        "MACAddress=02:00:00:00:00:03",
        "MACAddress=02-00-00-00-00-03",
        "PermanentMACAddress=0200.0000.0009",
        "Path=pci-" + PCI,
        "Path=*-" + PCI,
        "Driver=mlx5_core",
        "Type=ether\nName=en*",
        "Name=*",
        "OriginalName=*",
    ],
)
def test_a_file_that_matches_is_repeated(node: System, match: str) -> None:
    put(node, "/usr/lib/systemd/network/80-storage.network", "[Match]\n%s\n%s" % (match, STORAGE))
    assert networkd(node) == ["Address=192.168.50.2/24"]


@pytest.mark.parametrize(
    "match",
    [
        "Name=eth*",
        "Name=!ens* rail* enp*",
        "Name=*\nName=!ens* rail* enp*",
        "Name=ens1\nName=\nName=eth0",
        "Name=ens1\nName=",
        "MACAddress=02:00:00:00:00:09",
        "PermanentMACAddress=02:00:00:00:00:03",
        "Path=pci-0000:0c:00.0",
        "Path=!*-" + PCI,
        "Driver=virtio_net",
        "Type=wlan",
        "Name=ens1\nKind=bridge",
        "Host=another\nName=eth0",
        "",
    ],
)
def test_a_file_of_other_interfaces_is_not_repeated(node: System, match: str) -> None:
    put(node, "/etc/systemd/network/20-storage.network", "[Match]\n%s\n%s" % (match, STORAGE))
    assert networkd(node) == []


def test_only_the_file_in_force_counts(node: System) -> None:
    match = "[Match]\nName=rail1 ens1\n"
    put(node, "/usr/lib/systemd/network/20-storage.network", match + STORAGE)
    put(node, "/etc/systemd/network/30-later.network", match + STORAGE.replace("50.2", "70.2"))
    put(node, "/run/systemd/network/20-storage.network.d/more.conf", "[Route]\nDestination=192.168.60.0/24\n")
    assert networkd(node) == ["Address=192.168.50.2/24", "Destination=192.168.60.0/24"]
    # masked
    put(node, "/etc/systemd/network/20-storage.network", "")
    assert networkd(node) == ["Address=192.168.70.2/24"]
    put(node, "/etc/systemd/network/10-cloud-init.network", "[Match]\nName=en* rail*\n[Network]\nDHCP=yes\n")
    assert networkd(node) == []


def test_settings_that_are_planned_or_by_dhcp_are_not_repeated(node: System) -> None:
    text = "[Match]\nName=ens1\n[Network]\nDHCP=yes\nDNS=192.0.2.1\nAddress=172.16.1.201/24\nVLAN=storage\n"
    text += "[Address]\nAddress=172.16.1.201/24\n[Route]\nGateway=_dhcp4\n"
    text += "[Route]\nDestination=172.16.1.0/24\nTable=101\n[RoutingPolicyRule]\nPriority=10001\nTable=9\n"
    text += "[Route]\n# to the store\nDestination=192.168.60.0/24\nGateway=172.16.1.7\n"
    put(node, "/etc/systemd/network/20-site.network", text)
    assert networkd(node) == ["VLAN=storage", "Destination=192.168.60.0/24", "Gateway=172.16.1.7"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("[Network]\nGateway=192.168.50.1\n", "Gateway=192.168.50.1"),
        ("[Network]\nBond=bond0\n", "Bond=bond0"),
        ("[Network]\nVRF=blue\n", "VRF=blue"),
        ("[Route]\nGateway=192.168.50.1\n", "a default route"),
        ("[Route]\nDestination=::/0\nGateway=fe80::1\n", "a default route"),
    ],
)
def test_settings_that_a_rail_never_has_are_refused(node: System, settings: str, text: str) -> None:
    path = put(node, "/etc/systemd/network/20-site.network", "[Match]\nName=ens1\n" + settings)
    with pytest.raises(Refused, match=text) as refused:
        networkd(node)
    assert refused.value.place == path


def test_a_file_before_ours_is_refused(node: System) -> None:
    # its other names stay at the next boot
    for name in ("rail1", "enp11s0"):
        put(node, "/etc/systemd/network/00-site.network", "[Match]\nName=%s\n[Network]\nDHCP=yes\n" % name)
        with pytest.raises(Refused, match="systemd-networkd uses this file for rail1"):
            networkd(node)
    # it does not match the name at the next boot
    put(node, "/etc/systemd/network/00-site.network", "[Match]\nName=ens1\n" + STORAGE)
    assert networkd(node) == ["Address=192.168.50.2/24"]


def test_a_file_of_netplan_for_the_same_card_is_repeated(node: System) -> None:
    generated = "/run/systemd/network/10-netplan-%s.network"
    put(node, generated % "rail1", "[Match]\nName=rail1\n" + STORAGE)
    match = "[Match]\nPermanentMACAddress=02:00:00:00:00:09\n"
    put(node, generated % "storage", match + STORAGE.replace("50.2", "70.2"))
    assert networkd(node, own=generated % "rail1") == ["Address=192.168.70.2/24"]


def test_other_conditions_are_decided_by_systemd(node: System) -> None:
    path = put(node, "/etc/systemd/network/20-site.network", "[Match]\nName=ens1\nHost=n-*\n" + STORAGE)
    with pytest.raises(Refused, match="whether this file is for rail1"):
        networkd(node)
    put(node, "/run/systemd/netif/links/3", "ADMIN_STATE=configured\nNETWORK_FILE=%s\n" % path)
    assert networkd(node) == ["Address=192.168.50.2/24"]
    put(node, "/run/systemd/netif/links/3", "NETWORK_FILE=/etc/systemd/network/80-other.network\n")
    assert networkd(node) == []


def test_a_link_file_is_repeated_without_its_names(node: System) -> None:
    text = "[Match]\nPath=pci-%s\n[Link]\nName=fast0\nNamePolicy=path\nMTUBytes=9000\nRxBufferSize=8192\n" % PCI
    put(node, "/etc/systemd/network/10-fast.link", text)
    put(node, "/usr/lib/systemd/network/99-default.link", "[Match]\nOriginalName=*\n[Link]\nNamePolicy=path\n")
    kept = KEPT._replace(link=tuple(foreign.link_lines(node, KEPT, foreign.Facts.of(node, KEPT, LINK, None))))
    assert kept.link == ("RxBufferSize=8192",)
    (text,) = (file.text for path, file in network_files.common_files([kept]).items() if path.endswith(".link"))
    assert "RxBufferSize=8192" in text


KEYFILE = "[connection]\nid=storage\nuuid=u-1\ntype=ethernet\n%s\n[ipv4]\nmethod=manual\naddress1=192.168.50.2/24\n"


def profile(node: System) -> None:
    foreign.network_manager(node, KEPT, foreign.Facts.of(node, KEPT, LINK, None))


@pytest.mark.parametrize(
    "match",
    [
        "interface-name=ens1",
        "interface-name=rail1",
        "[ethernet]\nmac-address=02:00:00:00:00:09",
        "[match]\ninterface-name=ens*;eth0;",
        "[match]\ninterface-name=|ens1;",
        "[match]\ninterface-name=!eth*;!lo;",
    ],
)
def test_a_profile_with_addresses_for_the_port_is_refused(node: System, match: str) -> None:
    path = put(node, "/etc/NetworkManager/system-connections/storage.nmconnection", KEYFILE % match)
    with pytest.raises(Refused, match=r"gives rail1 \(gpu01\) address1=192.168.50.2/24") as refused:
        profile(node)
    assert refused.value.place == path


@pytest.mark.parametrize(
    "text",
    [
        KEYFILE % "interface-name=eth0",
        KEYFILE % "interface-name=ens1\n[ethernet]\nmac-address=02:00:00:00:00:07",
        KEYFILE % "[match]\ninterface-name=!ens*;!rail*;!enp*;",
        # any interface, and another one uses it
        KEYFILE % "",
        (KEYFILE % "interface-name=ens1").replace("192.168.50.2", "172.16.1.201"),
        "[connection]\ntype=ethernet\ninterface-name=ens1\n[ipv4]\nmethod=auto\nroute-metric=5\n",
        (KEYFILE % "interface-name=ens1").replace("type=ethernet", "type=vlan"),
    ],
)
def test_other_profiles_are_accepted(node: System, text: str) -> None:
    put(node, "/etc/NetworkManager/system-connections/storage.nmconnection", text)
    profile(node)


@pytest.mark.parametrize("key", ["master", "controller"])
def test_a_profile_that_makes_the_port_part_of_a_bond_is_refused(node: System, key: str) -> None:
    text = "[connection]\ntype=ethernet\ninterface-name=ens1\n%s=bond0\n" % key
    put(node, "/etc/NetworkManager/system-connections/storage.nmconnection", text)
    with pytest.raises(Refused, match="gives rail1 .* %s=bond0" % key):
        profile(node)


def test_a_profile_of_any_interface_counts_where_it_is_active(node: System) -> None:
    put(node, "/etc/NetworkManager/system-connections/any.nmconnection", KEYFILE % "")
    put(node, "/run/NetworkManager/devices/3", "[device]\nconnection-uuid=u-1\n")
    with pytest.raises(Refused, match="address1"):
        profile(node)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("DEVICE=ens1\nIPADDR=192.168.50.2\n", True),
        ('HWADDR="02:00:00:00:00:09"\nIPADDR0=192.168.50.2\n', True),
        ("DEVICE=ens1\nBOOTPROTO=dhcp\n", False),
        ("DEVICE=eth0\nIPADDR=192.168.50.2\n", False),
        ("DEVICE=ens1\nIPADDR=172.16.1.201\n", False),
    ],
)
def test_files_of_red_hat(node: System, text: str, refused: bool) -> None:
    put(node, "/etc/sysconfig/network-scripts/ifcfg-ens1", text)
    try:
        profile(node)
    except Refused:
        assert refused
    else:
        assert not refused


def test_a_moved_port_is_found_by_what_is_known_of_it(node: System) -> None:
    put(node, "/etc/systemd/network/20-storage.network", "[Match]\nMACAddress=02:00:00:00:00:03\n" + STORAGE)
    kept = KEPT._replace(ifindex=None)
    moved: t.Any = foreign.Moved("in a pod", "ens1", "02:00:00:00:00:03")
    facts = foreign.Facts.of(node, kept, None, moved)
    assert foreign.networkd(node, kept, facts, OWN) == [("Network", ["Address=192.168.50.2/24"])]


def test_what_netplan_writes_for_an_mtu_is_not_repeated(node: System) -> None:
    """As netplan 0.106 does for each interface of Railyard's file."""
    text = "[Match]\nOriginalName=rail1\n\n[Link]\nWakeOnLan=off\nMTUBytes=4200\n"
    put(node, "/run/systemd/network/10-netplan-rail1.link", text)
    facts = foreign.Facts.of(node, KEPT, LINK, None)
    assert foreign.link_lines(node, KEPT, facts) == []
    put(node, "/run/systemd/network/10-netplan-rail1.link", text.replace("off", "magic"))
    assert foreign.link_lines(node, KEPT, facts) == ["WakeOnLan=magic"]
