# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import is_pci_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

ROUTE = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


class Tree:
    """A node's /proc and /sys as far as the management path is read from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(str(root))
        (root / "proc/net").mkdir(parents=True)
        (root / "sys/class/net").mkdir(parents=True)

    def nic(self, netdev: str, pci: str, below: str = "") -> None:
        device = self.root / "sys/devices/pci0000:00" / pci / below
        (device / "net" / netdev).mkdir(parents=True, exist_ok=True)
        os.symlink(device, device / "net" / netdev / "device")
        os.symlink(device / "net" / netdev, self.root / "sys/class/net" / netdev)
        (self.root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        link = self.root / "sys/bus/pci/devices" / pci
        if not link.is_symlink():
            os.symlink(self.root / "sys/devices/pci0000:00" / pci, link)

    def virtual(self, netdev: str, *lower: str) -> None:
        (self.root / "sys/class/net" / netdev).mkdir()
        for name in lower:
            os.symlink("../" + name, self.root / "sys/class/net" / netdev / ("lower_" + name))

    def default_route(self, netdev: str) -> None:
        (self.root / "proc/net/route").write_text(
            ROUTE + "%s\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" % netdev
        )


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    for variable in ("SSH_CONNECTION", "SSH_CLIENT"):
        monkeypatch.delenv(variable, raising=False)
    return Tree(tmp_path)


def test_the_default_routes_card_is_protected_and_others_are_not(tree: Tree) -> None:
    tree.nic("eth0", "0000:01:00.0")
    tree.nic("rail", "0000:01:00.1")
    tree.nic("far", "0000:02:00.0")
    tree.default_route("eth0")
    found = ManagementPath.observe(tree.system)
    assert found.why_netdev("eth0") == "carries the default route"
    assert found.why_function("0000:01:00.0") == "eth0 carries the default route"
    assert found.why_netdev("rail") is None
    assert found.why_function("0000:01:00.1") is None
    assert found.why_card("0000:01:00.1") == "eth0 carries the default route"
    assert found.why_card("0000:02:00.0") is None


def test_all_below_a_bond_on_a_bridge_is_protected(tree: Tree) -> None:
    tree.nic("p0", "0000:01:00.0")
    tree.nic("p1", "0000:02:00.0")
    tree.virtual("bond0", "p0", "p1")
    tree.virtual("br0", "bond0")
    tree.default_route("br0")
    found = ManagementPath.observe(tree.system)
    assert set(found.netdevs) == {"br0", "bond0", "p0", "p1"}
    assert found.why_netdev("p1") == "is part of br0, which carries the default route"
    assert set(found.functions) == {"0000:01:00.0", "0000:02:00.0"}


def test_all_ports_below_a_bridge_of_open_vswitch_are_protected(tree: Tree) -> None:
    """The bridge's interface names no ports, and all bridges share one switch in the kernel."""
    tree.nic("p0", "0000:01:00.0")
    tree.nic("rail", "0000:02:00.0")
    tree.nic("far", "0000:03:00.0", below="x")
    (tree.root / "sys/class/net/rail/phys_port_name").write_text("pf0vf3\n")  # a VF's other end, which the PF has
    tree.virtual("ovs-system", "p0", "rail")
    tree.virtual("br-ex")
    tree.default_route("br-ex")
    found = ManagementPath.observe(tree.system)
    assert set(found.netdevs) == {"br-ex", "p0"}
    assert found.why_netdev("p0") == "is part of br-ex, which carries the default route"
    assert found.why_card("0000:01:00.1") and not found.why_card("0000:02:00.0")
    # what is something else that is virtual has nothing to do with the switch
    (tree.root / "sys/class/net/br-ex/tun_flags").write_text("0x1001\n")
    assert set(ManagementPath.observe(tree.system).netdevs) == {"br-ex"}
    tree.default_route("far")
    assert set(ManagementPath.observe(tree.system).netdevs) == {"far"}


def test_a_vf_protects_its_pf(tree: Tree) -> None:
    tree.nic("pf", "0000:01:00.0")
    tree.nic("vf", "0000:01:10.0")
    os.symlink("../0000:01:00.0", tree.root / "sys/devices/pci0000:00/0000:01:10.0/physfn")
    tree.default_route("vf")
    found = ManagementPath.observe(tree.system)
    assert set(found.functions) == {"0000:01:10.0", "0000:01:00.0"}
    assert found.why_netdev("pf") is None


def test_a_virtio_nic_is_found_through_its_bus(tree: Tree) -> None:
    tree.nic("enp0s2", "0000:00:02.0", below="virtio0")
    tree.default_route("enp0s2")
    assert ManagementPath.observe(tree.system).why_function("0000:00:02.0")


def test_rejecting_default_routes_protect_nothing(tree: Tree) -> None:
    (tree.root / "proc/net/route").write_text(ROUTE + "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n")
    zero = "0" * 32
    (tree.root / "proc/net/ipv6_route").write_text(
        "%s 00 %s 00 %s ffffffff 00000001 00000000 00200200       lo\n" % (zero, zero, zero)
        + "%s 00 %s 00 %s 00000400 00000001 00000000 00000003     eth6\n" % (zero, zero, "fe8" + "0" * 28 + "1")
    )
    assert ManagementPath.observe(tree.system).netdevs == {"eth6": "carries the default route"}


def test_a_default_route_advertised_by_a_leaf_is_reported_with_a_remedy(tree: Tree) -> None:
    zero, router = "0" * 32, "fe8" + "0" * 28 + "1"
    line = "%s 00 %s 00 %s 00000400 00000001 00000000 %%s     %%s\n" % (zero, zero, router)
    tree.default_route("mgmt0")
    routes = [("00450003", "rail1"), ("00450003", "mgmt0"), ("00450003", "eth6"), ("00000003", "eth6")]
    (tree.root / "proc/net/ipv6_route").write_text("".join(line % each for each in routes))
    found = ManagementPath.observe(tree.system).netdevs
    assert found.pop("rail1") == (
        "carries the default route (IPv6, advertised by a router there; if that is not the node's way out, set"
        " net.ipv6.conf.rail1.accept_ra to 0 and delete the route)"
    )
    assert found == {"mgmt0": "carries the default route", "eth6": "carries the default route"}


def test_the_connections_interface_is_found_by_its_address(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.9 50000 127.0.0.1 22")
    assert ManagementPath.observe(tree.system).connection == "lo"
    monkeypatch.setenv("SSH_CONNECTION", "2001:db8::9 50000 2001:db8::1%eth6 22")
    (tree.root / "proc/net/if_inet6").write_text("20010db8000000000000000000000001 05 40 00 80     eth6\n")
    found = ManagementPath.observe(tree.system)
    assert found.connection == "eth6"
    assert found.netdevs == {"eth6": "carries this connection"}


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("192.0.2.9 5 192.0.2.1 22", ("192.0.2.9", "192.0.2.1", "", (22, 5))),
        ("::ffff:192.0.2.9 5 ::ffff:192.0.2.1 22", ("192.0.2.9", "192.0.2.1", "", (22, 5))),
        ("::ffff:c000:209 5 ::ffff:c000:201 22", ("192.0.2.9", "192.0.2.1", "", (22, 5))),
        ("fe80::9%eth6 5 fe80::1%eth6 22", ("fe80::9", "fe80::1", "eth6", (22, 5))),
    ],
)
def test_the_ends_of_a_connection(tree: Tree, monkeypatch: pytest.MonkeyPatch, text: str, ends: t.Any) -> None:
    monkeypatch.setenv("SSH_CONNECTION", text)
    found = management_path.connection(tree.system)
    assert found
    assert (str(found.peer), str(found.local), found.zone, found.ports) == ends


def test_only_the_peer_is_known_where_the_local_address_is_not(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "not a connection")
    assert management_path.connection(tree.system) is None
    monkeypatch.setenv("SSH_CLIENT", "192.0.2.9 50000 22")
    found = management_path.connection(tree.system)
    assert found
    assert (str(found.peer), found.local, found.ports) == ("192.0.2.9", None, (22, 50000))


def test_the_connection_is_found_through_the_ancestors_where_sudo_dropped_it(tree: Tree) -> None:
    for pid, parent, environ in (
        (os.getpid(), 70, ""),
        (70, 60, "A=b\0"),
        (60, 1, "SSH_CONNECTION=192.0.2.9 1 127.0.0.1 22\0"),
    ):
        (tree.root / "proc" / str(pid)).mkdir()
        (tree.root / "proc" / str(pid) / "stat").write_text("%d (a) b) S %d 1 1" % (pid, parent))
        (tree.root / "proc" / str(pid) / "environ").write_text(environ)
    assert ManagementPath.observe(tree.system).connection == "lo"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("0000:0b:00.0", True),
        ("10000:e1:00.1", True),
        ("0b:00.0", False),
        ("virtio0", False),
        ("pci0000:00", False),
        ("0000:0b:00", False),
    ],
)
def test_a_pci_address_has_domain_bus_device_and_function(text: str, is_one: bool) -> None:
    assert is_pci_address(text) is is_one


@pytest.mark.parametrize(
    "stack",
    [
        {"bond0": ("p0", "p1")},
        {"team0": ("p0", "p1")},
        {"bond0": ("p0", "p1"), "bond0.7": ("bond0",)},
        {"bond0": ("p0", "p1"), "br0": ("bond0", "tap0"), "br0.7": ("br0",)},
        {"v0": ("p0",), "v1": ("p1",), "bond0": ("v0", "v1")},
        {"bond0": ("p0", "p1"), "vrf0": ("bond0",)},
        {"bond0": ("p0", "p1"), "bond0.7": ("bond0",), "mv0": ("bond0.7",), "vrf0": ("mv0",)},
    ],
)
def test_all_below_the_management_interface_is_protected(tree: Tree, stack: dict[str, tuple[str, ...]]) -> None:
    for number, name in enumerate(("p0", "p1", "rail")):
        tree.nic(name, "0000:0%d:00.0" % (number + 1))
    for name, lower in stack.items():
        tree.virtual(name, *lower)
    # a VLAN on another function does not make that function part of the path
    tree.virtual("rail.9", "rail")
    tree.default_route(list(stack)[-1])
    found = ManagementPath.observe(tree.system)
    assert {"p0", "p1", *stack} - set(found.netdevs) == set()
    assert set(found.functions) == {"0000:01:00.0", "0000:02:00.0"}
    assert found.why_netdev("rail") is None and found.why_netdev("rail.9") is None
