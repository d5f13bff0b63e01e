# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports on the kernel itself: IPv6 beside IPv4, narrow links, routes, and a rail's router advertisements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import RECORD, read_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts
from tests.functional.node.own_namespace import NETWORKD, LiveNode, in_own_namespace, ip, shown
from tests.waiting import wait_for

Option = t.Dict[str, t.Any]


def port(number: int, **options: t.Any) -> Option:
    planned: Option = {
        "rail": "gpu%02d" % number,
        "pci": None,
        "netdev": "rail%d" % number,
        "mtu": 4200,
        "address": "172.16.%d.201/24" % number,
        "gateway": "172.16.%d.254" % number,
        "address6": "fd00:%d::c9/64" % number,
        "gateway6": "fd00:%d::fe" % number,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "routes": [],
        "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
    }
    return dict(planned, **options)


def subsystem(node: LiveNode, ports: list[Option], **options: t.Any) -> RailPorts:
    return RailPorts(node.system, read_ports(ports), timeout=120, **dict({"backend": "networkd"}, **options))


def predicted(node: LiveNode, ports: list[Option], **options: t.Any) -> list[dict[str, t.Any]]:
    rails = subsystem(node, ports, **options)
    return [change.as_dict() for change in rails.changes(rails.observe())]


def run(node: LiveNode, ports: list[Option], **options: t.Any) -> dict[str, t.Any]:
    rails = subsystem(node, ports, **options)
    state = rails.observe()
    changes = rails.changes(state)
    after = converge(rails, state, changes, [])
    return {
        "changes": [change.as_dict() for change in changes],
        "ports": after["ports"],
        "warnings": rails.warnings,
    }


def addresses(netdev: str) -> list[dict[str, t.Any]]:
    """The IPv6 addresses of more than link scope."""
    found = shown("-6", "addr", "show", "dev", netdev, "scope", "global")
    return [row for each in found for row in each["addr_info"] if row]


def usable(netdev: str) -> list[str]:
    """Those that may be used now."""
    rows = [row for row in addresses(netdev) if not {"tentative", "dadfailed"}.intersection(row)]
    return ["%(local)s/%(prefixlen)d" % row for row in rows]


def routes(version: int, table: str) -> list[tuple[str, str, str]]:
    rows = shown("-%d" % version, "route", "show", "table", table)
    return sorted((row["dst"], row.get("gateway", ""), row.get("dev", "")) for row in rows)


def rules(version: int) -> list[tuple[int, str, str]]:
    rows = shown("-%d" % version, "rule")
    return sorted((row["priority"], row["src"], row.get("oif", "")) for row in rows if 0 < row["priority"] < 32766)


def everything() -> list[t.Any]:
    """The tables that a run may change: the kernel keeps the local one by itself."""
    found: list[t.Any] = [rules(4), rules(6), addresses("rail1")]
    return found + [routes(version, table) for version in (4, 6) for table in ("main", "101", "102")]


@in_own_namespace
def test_both_address_families_are_configured(node: LiveNode) -> None:
    ports = [port(1), port(2, gateway6="fe80::1")]
    for number in (1, 2):
        node.rail(number)
    message = predicted(node, ports)
    assert not addresses("rail1")
    result = run(node, ports)
    assert result["changes"] == message
    assert result["ports"] == ports
    # an address is not called set before it may be used
    assert usable("rail1") == ["fd00:1::c9/64"]
    assert usable("rail2") == ["fd00:2::c9/64"]
    assert rules(6) == [
        (10001, "all", "rail1"),
        (10001, "fd00:1::c9", ""),
        (10002, "all", "rail2"),
        (10002, "fd00:2::c9", ""),
    ]
    assert [each[:2] for each in rules(4)] == [
        *((10001, "172.16.1.201"), (10001, "all"), (10002, "172.16.2.201"), (10002, "all"))
    ]
    assert routes(6, "101") == [
        ("default", "fd00:1::fe", "rail1"),
        ("fd00:1::/64", "", "rail1"),
        ("fe80::/64", "", "rail1"),
    ]
    assert routes(6, "102")[0] == ("default", "fe80::1", "rail2")
    for version in (4, 6):
        assert "default" not in [each[0] for each in routes(version, "main")]
    assert run(node, ports)["changes"] == []


LOCAL = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: cni, mtu: 4200, routing: {cross_rail: %s}}
addresses: {mode: prefix, node_prefix: 27, node_prefix6: 64, gateway6: "fe80::1"}
rails:
  gpu01: {subnet: 10.1.0.0/16, subnet6: "fd00:1::/48"}
  gpu02: {subnet: 10.2.0.0/16, subnet6: "fd00:2::/48"}
profiles: {guest: {ports: {gpu01: {netdev: rail1}, gpu02: {netdev: rail2}}}}
nodes: {n-1: {profile: guest}}
"""


@in_own_namespace
def test_a_planned_router_that_is_known_by_its_link_local_address(node: LiveNode) -> None:
    """The plan's own words, on two rails whose leaves have one address."""
    for number in (1, 2):
        node.rail(number)
    for cross_rail, table in (("true", "101"), ("false", "101")):
        outcome = lint((LOCAL % cross_rail).encode())
        assert outcome.plan and outcome.findings == [], [finding.text() for finding in outcome.findings]
        ports = port_options(outcome.plan.node_vars(outcome.plan.nodes[0])["ports"], "rail_ports")
        assert [each.get("gateway6") for each in ports] == ["fe80::1" if cross_rail == "true" else None] * 2
        message = predicted(node, ports)
        assert run(node, ports)["changes"] == message != []
        way = "default" if cross_rail == "true" else "fd00:1::/48"
        assert (way, "fe80::1", "rail1") in routes(6, table)
        assert (way.replace("fd00:1", "fd00:2"), "fe80::1", "rail2") in routes(6, "102")
        assert usable("rail1") == ["fd00:1::1/64"]
        assert run(node, ports)["changes"] == []


@in_own_namespace
def test_where_packets_go(node: LiveNode) -> None:
    node.rail(1)
    node.rail(2)
    run(node, [port(1), port(2)])

    def way(*words: str) -> tuple[str, str]:
        (row,) = shown("-6", "route", "get", *words)
        return row["dev"], row.get("gateway", "")

    assert way("fd00:9::1", "from", "fd00:1::c9") == ("rail1", "fd00:1::fe")
    assert way("fd00:9::1", "from", "fd00:2::c9") == ("rail2", "fd00:2::fe")
    assert way("fd00:1::7", "from", "fd00:1::c9") == ("rail1", "")
    assert way("fd00:9::1", "oif", "rail2") == ("rail2", "fd00:2::fe")
    # link-local traffic stays on its link, and does not go to the gateway
    assert way("fe80::1234", "oif", "rail1") == ("rail1", "")


@in_own_namespace
def test_links_of_two_addresses_and_routes_in_the_main_table(node: LiveNode) -> None:
    node.rail(1)
    wanted = port(
        1,
        address="10.0.1.0/31",
        gateway=None,
        address6="fd00:1::/127",
        gateway6=None,
        table=None,
        rule_priority=None,
        routes=[
            {"to": "10.0.0.0/16", "via": "10.0.1.1", "table": None},
            {"to": "10.9.0.0/16", "via": None, "table": None},
            {"to": "fd00::/32", "via": "fd00:1::1", "table": None},
            {"to": "fd99::/32", "via": "fe80::1", "table": None},
        ],
    )
    node.leaf("ip", "addr", "add", "10.0.1.1/31", "dev", "leaf1")
    result = run(node, [wanted])
    assert result["ports"] == [wanted]
    assert rules(4) == rules(6) == []
    assert routes(4, "main") == [
        ("10.0.0.0/16", "10.0.1.1", "rail1"),
        ("10.0.1.0/31", "", "rail1"),
        ("10.9.0.0/16", "", "rail1"),
    ]
    assert [each for each in routes(6, "main") if not each[0].startswith("fe80")] == [
        ("fd00:1::/127", "", "rail1"),
        ("fd00::/32", "fd00:1::1", "rail1"),
        ("fd99::/32", "fe80::1", "rail1"),
    ]
    assert run(node, [wanted])["changes"] == []
    fewer = dict(wanted, routes=wanted["routes"][:1])
    gone = [each["attribute"] for each in run(node, [fewer])["changes"] if each["after"] is None]
    assert gone == ["route 10.9.0.0/16 table main", "route fd00::/32 table main", "route fd99::/32 table main"]
    assert run(node, [fewer])["changes"] == []


@in_own_namespace
def test_a_table_without_a_default_route(node: LiveNode) -> None:
    node.rail(1)
    ways = [
        {"to": "172.16.0.0/20", "via": "172.16.1.254", "table": 101},
        {"to": "fd00::/32", "via": "fd00:1::fe", "table": 101},
    ]
    wanted = port(1, gateway=None, gateway6=None, routes=ways)
    run(node, [port(1)])
    assert run(node, [wanted])["ports"] == [wanted]
    assert routes(4, "101") == [("172.16.0.0/20", "172.16.1.254", "rail1"), ("172.16.1.0/24", "", "rail1")]
    assert [each[0] for each in routes(6, "101")] == ["fd00:1::/64", "fd00::/32", "fe80::/64"]
    assert run(node, [wanted])["changes"] == []


@in_own_namespace
def test_only_lost_settings_are_fixed(node: LiveNode) -> None:
    ports = [port(1), port(2)]
    for number in (1, 2):
        node.rail(number)
    run(node, ports)
    before = everything()
    # with its link an interface loses its IPv6 addresses, and all of its routes
    ip("link", "set", "rail1", "down")
    ip("-6", "rule", "del", "priority", "10002", "oif", "rail2")
    ip("-6", "route", "del", "default", "table", "102")
    changes = run(node, ports)["changes"]
    assert {each["subject"] for each in changes} == {"rail1", "rail2", "rule 10002"}
    assert ("rail1", "address", "fd00:1::c9/64") in [
        (each["subject"], each["attribute"], each["after"]) for each in changes
    ]
    assert everything() == before
    assert run(node, ports)["changes"] == []


@in_own_namespace
def test_absent_removes_all_of_our_settings(node: LiveNode) -> None:
    node.rail(1)
    ip("link", "set", "rail1", "up", "mtu", "4200")
    ip("addr", "add", "2001:db8::7/64", "dev", "rail1", "nodad")
    link_local = ("-6", "addr", "show", "dev", "rail1", "scope", "link", "-tentative")
    wait_for(lambda: "fe80" in ip(*link_local), "rail1 has no link-local address")
    before = everything()
    run(node, [port(1, routes=[{"to": "fd00::/32", "via": "fe80::1", "table": None}])])
    run(node, [], state="absent")
    assert everything() == before
    assert not node.system.exists(RECORD)
    assert predicted(node, [], state="absent") == []


@in_own_namespace
def test_an_address_that_another_host_has_is_reported_and_tried_again(node: LiveNode) -> None:
    node.rail(1)
    node.leaf("ip", "addr", "add", "fd00:1::c9/64", "dev", "leaf1", "nodad")
    with pytest.raises(RailyardError, match="another host on the rail has fd00:1::c9") as reported:
        run(node, [port(1)])
    assert reported.value.place == "ports[0].address6 (gpu01)"
    # each run reports it until it changes
    again = predicted(node, [port(1)])
    assert ("address", "fd00:1::c9/64, which another host has", "fd00:1::c9/64") in [
        (each["attribute"], each["before"], each["after"]) for each in again
    ]
    with pytest.raises(RailyardError, match="another host on the rail has fd00:1::c9"):
        run(node, [port(1)])
    node.leaf("ip", "addr", "del", "fd00:1::c9/64", "dev", "leaf1")
    run(node, [port(1)])
    assert usable("rail1") == ["fd00:1::c9/64"]
    assert run(node, [port(1)])["changes"] == []


@in_own_namespace
def test_a_port_without_a_carrier_is_reported_and_not_waited_for(node: LiveNode) -> None:
    node.rail(1)
    node.leaf("ip", "link", "set", "leaf1", "down")
    rails = subsystem(node, [port(1)])
    rails._timeout = 1.0
    converge(rails, *(lambda seen: (seen, rails.changes(seen)))(rails.observe()), [])
    assert any("rail1 (gpu01) has no carrier" in text for text in rails.warnings)


@in_own_namespace
def test_a_router_on_a_rail_adds_neither_default_route_nor_address(node: LiveNode) -> None:
    """The same advertisement that an interface of no rail follows."""
    for number in (1, 2):
        node.rail(number)
    run(node, [port(1)])
    ip("link", "set", "rail2", "up")

    def followed() -> bool:
        for number in (1, 2):
            node.advertise(number)
        return ("default", "rail2") in [(to, dev) for to, _via, dev in routes(6, "main")]

    wait_for(followed, "the advertisement has no effect at all")
    assert ("default", "rail1") not in [(to, dev) for to, _via, dev in routes(6, "main")]
    assert [row["local"] for row in addresses("rail1")] == ["fd00:1::c9"]
    assert run(node, [port(1)])["changes"] == []


@in_own_namespace
def test_a_route_of_another_interface_in_the_main_table_is_not_removed(node: LiveNode) -> None:
    for number in (1, 2):
        node.rail(number)
    ip("link", "set", "rail2", "up")
    ip("route", "add", "10.0.0.0/8", "dev", "rail2")
    wanted = port(1, routes=[{"to": "10.0.0.0/8", "via": "172.16.1.254", "table": None}])
    with pytest.raises(RailyardError, match="the main table already has a route to 10.0.0.0/8 by rail2") as reported:
        predicted(node, [wanted])
    assert reported.value.place == "ports[0].routes[0].to (gpu01)"
    ip("route", "del", "10.0.0.0/8", "dev", "rail2")
    run(node, [wanted])
    # ours goes with the plan to another port
    moved = [port(1), port(2, routes=[{"to": "10.0.0.0/8", "via": "172.16.2.254", "table": None}])]
    run(node, moved)
    assert ("10.0.0.0/8", "172.16.2.254", "rail2") in routes(4, "main")
    assert run(node, moved)["changes"] == []


KEPT = [
    port(
        1,
        gateway6="fe80::1",
        routes=[
            {"to": "10.0.0.0/8", "via": "172.16.1.253", "table": None},
            {"to": "10.9.0.0/16", "via": None, "table": None},
            {"to": "fd98::/32", "via": "fd00:1::7", "table": 101},
            {"to": "fd99::/32", "via": "fe80::2", "table": None},
        ],
    ),
    port(
        2,
        address="10.0.2.0/31",
        gateway=None,
        address6="fd00:2::/127",
        gateway6=None,
        table=None,
        rule_priority=None,
        routes=[{"to": "fd97::/32", "via": "fd00:2::1", "table": None}],
    ),
]


def kept_by(node: LiveNode, backend: str, start: t.Callable[[], None]) -> None:
    """What a run has kept for boot, the back-end itself makes of a node that has just come up."""
    for number in (1, 2):
        node.rail(number)
    run(node, KEPT, backend=backend)
    node.reboot(1, 2)
    assert len(predicted(node, KEPT, backend=backend)) > 20
    start()
    wait_for(lambda: not predicted(node, KEPT, backend=backend), lambda: predicted(node, KEPT, backend=backend), 0.5)
    for version in (4, 6):
        assert "default" not in [each[0] for each in routes(version, "main")]
    assert subsystem(node, [], state="gathered").observe()["ports"] == KEPT


@pytest.mark.skipif(not os.path.exists(NETWORKD), reason="systemd-networkd is not installed")
@in_own_namespace
def test_networkd_itself_makes_the_same_of_its_files(node: LiveNode) -> None:
    kept_by(node, "networkd", node.networkd)


@pytest.mark.skipif(
    not (os.path.exists(NETWORKD) and shutil.which("netplan")), reason="netplan or systemd-networkd is not installed"
)
@in_own_namespace
def test_netplan_and_networkd_make_the_same_of_its_files(node: LiveNode) -> None:
    def start() -> None:
        subprocess.run(["netplan", "generate"], check=True)
        node.networkd()

    kept_by(node, "netplan", start)


@pytest.mark.skipif(
    not (shutil.which("NetworkManager") and shutil.which("dbus-daemon")), reason="NetworkManager is not installed"
)
@in_own_namespace
def test_networkmanager_itself_makes_the_same_of_its_files(node: LiveNode) -> None:
    kept_by(node, "networkmanager", node.network_manager)


def monitored(act: t.Callable[[], None]) -> list[str]:
    """The addresses of the rails that were lost while something was done."""
    with tempfile.NamedTemporaryFile() as log, subprocess.Popen(
        ["ip", "-o", "monitor", "address"], stdout=log
    ) as monitor:

        def reports(address: str) -> bool:
            ip("addr", "add", address, "dev", "lo")
            ip("addr", "del", address, "dev", "lo")
            return address in Path(log.name).read_text()

        try:
            # what is reported between these two is all that there was
            wait_for(lambda: reports("192.0.2.1"))
            act()
            wait_for(lambda: reports("192.0.2.2"))
        finally:
            monitor.terminate()
        text = Path(log.name).read_text()
    seen = [line for line in text.splitlines() if ": lo " not in line]
    assert any("rail1" in line for line in seen)
    lost = [line for line in seen if line.startswith("Deleted")]
    return [line for line in lost if "scope global" in line]


@pytest.mark.skipif(
    not (os.path.exists(NETWORKD) and shutil.which("dbus-daemon")), reason="systemd-networkd is not installed"
)
@in_own_namespace
def test_networkd_loads_the_files_and_takes_no_address_away(node: LiveNode) -> None:
    """Each loss of an address would take its GIDs from under running transfers."""
    for number in (1, 2):
        node.rail(number)
    node.bus()
    node.networkd()
    wait_for(lambda: subprocess.run(["networkctl", "reload"], capture_output=True).returncode == 0, "no networkd")
    node.running("systemd-networkd")
    changed = [port(1, gateway="172.16.1.253", gateway6="fe80::9"), KEPT[1]]

    def act() -> None:
        result = run(node, KEPT)
        assert [each["attribute"] for each in result["changes"]][-2:] == ["loaded", "done"]
        run(node, changed)

    assert monitored(act) == []
    assert predicted(node, changed) == []
    assert routes(6, "101")[0] == ("default", "fe80::9", "rail1")
    run(node, [], state="absent")
    left = [row for table in everything() for row in table if row[0] != "fe80::/64"]
    assert left == []


@pytest.mark.skipif(
    not (shutil.which("NetworkManager") and shutil.which("dbus-daemon")), reason="NetworkManager is not installed"
)
@in_own_namespace
def test_networkmanager_loads_the_files(node: LiveNode) -> None:
    for number in (1, 2):
        node.rail(number)
    node.network_manager()
    wait_for(lambda: subprocess.run(["nmcli", "general"], capture_output=True).returncode == 0, "no NetworkManager")
    node.running("NetworkManager")
    options = {"backend": "networkmanager"}
    result = run(node, KEPT, **options)
    assert [each["attribute"] for each in result["changes"]][-2:] == ["loaded", "done"]
    changed = [port(1, gateway="172.16.1.253", gateway6="fe80::9"), KEPT[1]]
    # for a new IPv6 plan it takes IPv6 off the port for a moment, and never IPv4
    lost = monitored(lambda: t.cast(None, run(node, changed, **options)))
    assert [line for line in lost if "rail1" not in line] == []
    assert [line for line in lost if " inet " in line] == []
    assert usable("rail1") == ["fd00:1::c9/64"]
    assert predicted(node, changed, **options) == []
    assert routes(6, "101")[0] == ("default", "fe80::9", "rail1")


@in_own_namespace
def test_a_kill_at_any_point_is_fixed_by_the_next_run(node: LiveNode) -> None:
    wanted = [
        port(1, routes=[{"to": "fd00::/32", "via": "fe80::1", "table": None}]),
        port(2, address=None, gateway=None),
    ]
    for number in (1, 2):
        node.rail(number)
    run(node, wanted)
    whole = everything()
    run(node, [], state="absent")
    total = len(predicted(node, wanted))
    assert total > 20
    for count in range(1, total, 3):
        rails = subsystem(node, wanted)
        for change in rails.changes(rails.observe())[:count]:
            change.act()
        run(node, wanted)
        assert everything() == whole, count
        assert predicted(node, wanted) == [], count
        run(node, [], state="absent")


FLAT = """
plugin: railyard.fabric.rails
fabric: {name: ai, provider: none, mtu: 4200}
rails:
  gpu[01:02]:
    {subnet: 10.248.0.0/16, gateway: last, hosts: +1-+99, subnet6: "fd00:11::/64", hosts6: +1-+99, numbering: node}
profiles: {guest: {ports: {gpu01: {netdev: rail1}, gpu02: {netdev: rail2}}}}
nodes: {n-1: {profile: guest}}
"""
# ARP requests for an address, and the MAC addresses that answer until answers stop (RFC 826).
ASKER = """
import socket, struct, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
sock.bind(("br0", 0))
sock.settimeout(0.5)
own, answers = sock.getsockname()[4], set()
head = struct.pack("!6s6sHHHBBH", b"\\xff" * 6, own, 0x0806, 1, 0x0800, 6, 4, 1)
source, target = (socket.inet_aton(text) for text in sys.argv[1:])
for _try in range(60):
    sock.send(head + own + source + b"\\0" * 6 + target)
    try:
        while True:
            frame = sock.recv(64)
            if frame[20:22] == b"\\0\\2" and frame[28:32] == target:
                answers.add(frame[22:28].hex(":"))
    except socket.timeout:
        if answers:
            break
print(" ".join(sorted(answers)))
"""


@in_own_namespace
def test_ports_of_one_network_answer_only_for_their_own_addresses(node: LiveNode) -> None:
    plan = lint(FLAT.encode()).plan
    assert plan
    ports = port_options(plan.node_vars(plan.nodes[0])["ports"], "rail_ports")
    assert [(each["address"], each["address6"]) for each in ports] == [
        ("10.248.0.1/16", "fd00:11::1/64"),
        ("10.248.0.2/16", "fd00:11::2/64"),
    ]
    node.leaf("ip", "link", "add", "br0", "type", "bridge")
    node.leaf("ip", "addr", "add", "10.248.0.100/16", "dev", "br0")
    for number in (1, 2):
        node.rail(number)
        node.leaf("ip", "link", "set", "leaf%d" % number, "master", "br0")
    node.leaf("ip", "link", "set", "br0", "up")
    run(node, ports)
    assert run(node, ports)["changes"] == []
    macs = {number: shown("link", "show", "dev", "rail%d" % number)[0]["address"] for number in (1, 2)}

    def answers(number: int) -> list[str]:
        return node.leaf(sys.executable, "-c", ASKER, "10.248.0.100", "10.248.0.%d" % number).split()

    for number in (1, 2):
        assert answers(number) == [macs[number]]
        found = shown("route", "get", "10.248.0.100", "from", "10.248.0.%d" % number)
        assert found[0]["dev"] == "rail%d" % number, "the rule by source selects the port"
    # each of the two settings is enough, and without both the kernel answers through any port
    conf = "/proc/sys/net/ipv4/conf/rail%d/%s"
    for left, expected in (("arp_filter", 1), ("arp_ignore", 1), (None, 2)):
        for number in (1, 2):
            for key in ("arp_filter", "arp_ignore"):
                Path(conf % (number, key)).write_text("1" if key == left else "0")
        assert [len(answers(number)) for number in (1, 2)] == [expected] * 2
