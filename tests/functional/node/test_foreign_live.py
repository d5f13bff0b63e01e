# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports that other programs use too: what they set is named, and survives a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import RECORD
from tests.functional.node.own_namespace import NETWORKD, LiveNode, in_own_namespace, ip
from tests.functional.node.test_ports_live import Option, port, predicted, routes, run, subsystem
from tests.waiting import wait_for

PCI = "0000:01:00.0"
STORAGE = "addr add 192.168.50.2/24 dev ens1"
TO_STORE = "route add 192.168.60.0/24 "
TO_STORE_TEXT = "route 192.168.60.0/24 table "
# commands of ip, and what the run must name
USES = {
    STORAGE: "192.168.50.2/24",
    "addr add fd50::2/64 dev ens1 nodad": "fd50::2/64",
    TO_STORE + "dev ens1": TO_STORE_TEXT + "main",
    TO_STORE + "dev ens1 table 200": TO_STORE_TEXT + "200",
    TO_STORE + "nexthop dev ens1 nexthop dev mgmt0": TO_STORE_TEXT + "main",
    "-6 route add fd60::/64 dev ens1": "route fd60::/64 table main",
    "route add 239.1.0.0/16 dev ens1": "route 239.1.0.0/16 table main",
    "route add multicast 239.1.0.0/16 dev ens1": "route 239.1.0.0/16 table main",
    "rule add iif ens1 lookup 200 priority 900": "rule 900 (iif ens1)",
    "rule add oif ens1 lookup 200 priority 900": "rule 900 (oif ens1)",
    "-6 rule add oif ens1 lookup 200 priority 900": "rule 900 (oif ens1)",
    "neigh add 192.168.50.9 lladdr 02:00:00:00:00:09 dev ens1 nud permanent": "neighbour 192.168.50.9",
    "link add t0 link ens1 type macvlan": "t0 is built on it",
    "addr add 172.16.1.201/24 dev ens1;link add t0 type vxlan id 5 local 172.16.1.201 remote 172.16.1.7 dstport 4789": (
        "it carries the tunnel t0"
    ),
}


class OneFunction(System):
    """The kernel of this namespace. Only ``/sys/bus/pci`` is simulated: the port has a PCI address."""

    def __init__(self) -> None:
        super().__init__()
        self._place = tempfile.mkdtemp()

    def path(self, path: str) -> str:
        if not path.startswith("/sys/bus/pci/"):
            return super().path(path)
        directory = Path(self._place, "sys/bus/pci/devices", PCI, "net")
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("ens1", "rail1"):
            if os.path.exists("/sys/class/net/" + name):
                (directory / name).mkdir(exist_ok=True)
            elif (directory / name).exists():
                (directory / name).rmdir()
        return self._place + path


def unnamed(node: LiveNode, *commands: str) -> Option:
    """A port that is up, with another name than planned, set up by commands of ip. Its options."""
    for name in ("t0", "ens1", "rail1"):
        if os.path.exists("/sys/class/net/" + name):
            ip("link", "del", name)
    for version in ("-4", "-6"):
        if "900:" in ip(version, "rule"):
            ip(version, "rule", "del", "priority", "900")
    node.rail(1)
    ip("link", "set", "rail1", "name", "ens1")
    ip("link", "set", "ens1", "up")
    node.system = OneFunction()
    for command in commands:
        ip(*command.split())
    return port(1, pci=PCI, address6=None, gateway6=None)


@in_own_namespace
def test_a_port_in_use_is_renamed_at_the_next_boot(node: LiveNode) -> None:
    unnoticed = {}
    for commands, text in USES.items():
        options = unnamed(node, *commands.split(";"))
        rails = subsystem(node, [options], persist=False)
        attributes = [change.attribute for change in rails.changes(rails.observe())]
        reasons = rails.outcome(rails.observe(), [])["reboot_reasons"]
        if "name" in attributes or not any(text in reason for reason in reasons):
            unnoticed[commands] = (attributes, reasons)
    assert unnoticed == {}


@in_own_namespace
def test_a_port_that_nothing_uses_is_renamed_at_once(node: LiveNode) -> None:
    options = unnamed(node)
    assert "name" in [change["attribute"] for change in run(node, [options], persist=False)["changes"]]
    assert predicted(node, [options], persist=False) == []
    # settings of an earlier run are not those of another program
    ip("link", "set", "rail1", "down")
    ip("link", "set", "rail1", "name", "ens1")
    ip("link", "set", "ens1", "up")
    result = run(node, [options], persist=False)
    assert "name" in [change["attribute"] for change in result["changes"]]
    assert result["warnings"] == []


@in_own_namespace
def test_settings_of_other_programs_survive_and_are_named(node: LiveNode) -> None:
    route = "route add 192.168.60.0/24 via 192.168.50.1 dev ens1"
    options = unnamed(node, STORAGE, route, route + " table 200", "-6 route add fd60::/64 dev ens1")
    for _run in (1, 2):
        (warning,) = run(node, [options], persist=False)["warnings"]
        for text in ("192.168.50.2/24", "192.168.60.0/24 via 192.168.50.1 table main", "table 200", "fd60::/64"):
            assert text in warning
    run(node, [], state="absent")
    assert ("192.168.60.0/24", "192.168.50.1", "ens1") in routes(4, "main")
    assert ("192.168.60.0/24", "192.168.50.1", "ens1") in routes(4, "200")
    assert "192.168.50.2/24" in ip("addr", "show", "dev", "ens1")


@in_own_namespace
def test_what_the_kernel_removes_with_our_address_is_set_again(node: LiveNode) -> None:
    """The kernel removes IPv4 routes with the last IPv4 address of an interface, and secondary addresses with their
    primary address.
    """
    node.rail(1)
    first, second = (port(1, address="172.16.%d.201/24" % number, gateway=None) for number in (1, 9))
    run(node, [first], persist=False)
    ip("route", "add", "192.168.60.0/24", "dev", "rail1")
    run(node, [second], persist=False)
    assert ("192.168.60.0/24", "", "rail1") in routes(4, "main")
    Path("/proc/sys/net/ipv4/conf/all/promote_secondaries").write_text("0")
    Path("/proc/sys/net/ipv4/conf/rail1/promote_secondaries").write_text("0")
    ip("addr", "add", "172.16.9.7/24", "dev", "rail1")
    run(node, [first], persist=False)
    assert "172.16.9.7/24" in ip("addr", "show", "dev", "rail1")
    assert ("192.168.60.0/24", "", "rail1") in routes(4, "main")
    assert predicted(node, [first], persist=False) == []


NEEDS_NETWORKD = pytest.mark.skipif(
    not (os.path.exists(NETWORKD) and shutil.which("dbus-daemon")), reason="systemd-networkd is not installed"
)
FILE = "/etc/systemd/network/20-storage.network"
LINES = "[Network]\nAddress=192.168.50.2/24\n[Route]\nDestination=192.168.60.0/24\nGateway=192.168.50.1\n"


@NEEDS_NETWORKD
@in_own_namespace
def test_settings_of_a_replaced_file_of_networkd_survive_the_boot(node: LiveNode) -> None:
    node.rail(1)
    Path(FILE).parent.mkdir(parents=True)
    Path(FILE).write_text("[Match]\nName=rail*\nDriver=veth\n" + LINES)
    node.bus()
    node.networkd()
    node.running("systemd-networkd")
    wait_for(lambda: "192.168.60.0/24" in ip("route"), "networkd does not set the route")
    options = [port(1, address6=None, gateway6=None)]
    result = run(node, options)
    assert any("192.168.60.0/24" in text and "repeats" in text for text in result["warnings"])
    assert predicted(node, options) == []

    def complete() -> bool:
        table = ip("addr", "show", "dev", "rail1") + ip("route")
        return all(text in table for text in ("172.16.1.201", "192.168.50.2", "192.168.60.0/24"))

    assert complete()
    node.reboot(1)
    wait_for(complete, lambda: ip("addr") + ip("route"))
    # the file applies again without the rail
    run(node, [], state="absent")
    wait_for(lambda: "172.16.1.201" not in ip("addr") and "192.168.60.0/24" in ip("route"), lambda: ip("addr"))


@NEEDS_NETWORKD
@in_own_namespace
def test_a_file_that_cannot_be_repeated_is_refused_before_any_change(node: LiveNode) -> None:
    node.rail(1)
    Path(FILE).parent.mkdir(parents=True)
    Path(FILE).write_text("[Match]\nName=rail1\n[Network]\nGateway=192.168.50.1\n" + LINES)
    before = ip("addr")
    with pytest.raises(RailyardError, match="Gateway=192.168.50.1"):
        run(node, [port(1)])
    assert ip("addr") == before
    assert not node.system.exists(RECORD)


@pytest.mark.skipif(
    not (os.path.exists(NETWORKD) and shutil.which("netplan")), reason="netplan or systemd-networkd is not installed"
)
@in_own_namespace
def test_settings_of_netplan_for_the_same_card_survive_the_boot(node: LiveNode) -> None:
    node.rail(1)
    Path("/etc/netplan").mkdir()
    Path("/etc/netplan/50-storage.yaml").write_text(
        "network: {version: 2, ethernets: {storage: {match: {name: 'rail*'}, addresses: [192.168.50.2/24]}}}\n"
    )
    subprocess.run(["netplan", "generate"], check=True)
    options = [port(1, address6=None, gateway6=None)]
    run(node, options, backend="netplan")
    subprocess.run(["netplan", "generate"], check=True)
    node.networkd()
    wait_for(lambda: "192.168.50.2" in ip("addr") and "172.16.1.201" in ip("addr"), lambda: ip("addr"))


@in_own_namespace
def test_a_profile_of_networkmanager_with_addresses_is_refused(node: LiveNode) -> None:
    node.rail(1)
    place = Path("/etc/NetworkManager/system-connections/storage.nmconnection")
    place.parent.mkdir(parents=True)
    text = "[connection]\nid=storage\ntype=ethernet\ninterface-name=rail1\n[ipv4]\nmethod=%s\n"
    place.write_text(text % "manual" + "address1=192.168.50.2/24\n")
    place.chmod(0o600)
    with pytest.raises(RailyardError, match=r"gives rail1 \(gpu01\) address1=192.168.50.2/24"):
        run(node, [port(1)], backend="networkmanager")
    place.write_text(text % "auto")
    assert predicted(node, [port(1)], backend="networkmanager")
