# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports on a kernel in a directory: what is decided, in which order, and what is left alone."""

from __future__ import annotations

import functools
import ipaddress
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rtnetlink as rt
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.network_files import Networkd
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import RECORD, read_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import namespace_holders, vf_holders
from tests.unit.node.ports_kernel import Node, write
from tests.unit.node.stored_notes import stored
from tests.unit.node.test_rdma import Kernel as RdmaKernel
from tests.unit.node.test_rdma import device, resources
from tests.unit.node.test_rdma import port as rdma_port

Option = t.Dict[str, t.Any]


def port(number: int, **options: t.Any) -> Option:
    planned: Option = {
        "rail": "gpu%02d" % number,
        "pci": "0000:%02x:00.0" % (10 + number),
        "netdev": "enp%ds0" % (10 + number),
        "mtu": 4200,
        "address": "172.16.%d.201/24" % (10 + number),
        "gateway": "172.16.%d.254" % (10 + number),
        "address6": None,
        "gateway6": None,
        "routes": [],
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
    }
    return dict(planned, **options)


PORTS = [port(1), port(2)]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    # what systemd-networkd makes of its files is for the lab to show
    monkeypatch.setattr(Networkd, "load", lambda *_arguments: None)
    return Node(tmp_path)


def subsystem(node: Node, ports: list[Option], **options: t.Any) -> RailPorts:
    options.setdefault("backend", "auto")
    return RailPorts(node.system, read_ports(ports), timeout=3, rtnl=node.kernel, **options)


def changes(node: Node, ports: list[Option], **options: t.Any) -> list[Change]:
    ports_now = subsystem(node, ports, **options)
    return ports_now.changes(ports_now.observe())


def run(node: Node, ports: list[Option], **options: t.Any) -> dict[str, t.Any]:
    ports_now = subsystem(node, ports, **options)
    state = ports_now.observe()
    wanted = ports_now.changes(state)
    after = converge(ports_now, state, wanted, [])
    outcome = ports_now.outcome(after, [])
    return dict(outcome, changes=[each.as_dict() for each in wanted], gathered=after, warnings=ports_now.warnings)


def errors(node: Node, ports: list[Option], **options: t.Any) -> str:
    before = node.kernel.summary()
    with pytest.raises(RailyardError) as error:
        changes(node, ports, **options)
    assert node.kernel.summary() == before
    return str(error.value)


def rules(node: Node) -> list[tuple[int, str, int]]:
    return [each for each in node.kernel.summary()["rules"] if 0 < each[0] < 32766]


def test_ports_are_configured_and_a_second_run_changes_nothing(node: Node) -> None:
    result = run(node, PORTS)
    assert result["backend"] == "networkd"
    assert not result["reboot_required"]
    assert result["gathered"]["ports"] == PORTS
    assert rules(node) == [
        (10001, "from 172.16.11.201", 101),
        (10001, "oif enp11s0", 101),
        (10002, "from 172.16.12.201", 102),
        (10002, "oif enp12s0", 102),
    ]
    mains = [route for route in node.kernel.summary()["routes"] if route[0] == rt.TABLE_MAIN]
    assert mains == [(254, "172.16.11.0/24", 3, "None"), (254, "172.16.12.0/24", 4, "None")]
    assert node.kernel.sysctl("enp11s0", "accept_ra", "ipv6").read_text() == "0"
    assert result["effective_sysctl"]["enp12s0"] == {"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2}
    assert changes(node, PORTS) == []


def test_check_mode_predicts_the_changes_of_the_run(node: Node) -> None:
    predicted = [each.as_dict() for each in changes(node, PORTS)]
    assert run(node, PORTS)["changes"] == predicted


def test_nothing_is_used_before_it_is_complete(node: Node) -> None:
    attributes = [each.attribute for each in changes(node, [port(1)])]
    assert attributes[0] == "ports"
    assert attributes[-1] == "done"
    marks = [
        "state",
        "ipv4.arp_ignore",
        "address",
        "route default table 101",
        "from 172.16.11.201",
        "content",
        "loaded",
    ]
    places = [attributes.index(mark) for mark in marks]
    assert places == sorted(places)


def test_only_drifted_settings_are_corrected(node: Node) -> None:
    run(node, PORTS)
    kernel = node.kernel
    kernel.delete_address(3, ipaddress.ip_interface("172.16.11.201/24"))
    kernel.held_rules = [rule for rule in kernel.held_rules if rule.oif != "enp12s0"]
    kernel.held_rules.append(rt.Rule(4, 10002, ipaddress.ip_network("9.9.9.9"), "", 55, True))
    kernel.held_rules.append(rt.Rule(4, 10001, ipaddress.ip_network("172.16.11.201"), "", 101, True))
    kernel.set_link(4, mtu=1500)
    done = [(each["subject"], each["attribute"], each["after"]) for each in run(node, PORTS)["changes"]]
    assert done == [
        ("enp12s0", "mtu", 4200),
        ("rule 10001", "from 172.16.11.201", None),
        ("rule 10002", "from 9.9.9.9", None),
        ("enp11s0", "address", "172.16.11.201/24"),
        ("enp11s0", "route 172.16.11.0/24 table 101", "link src 172.16.11.201"),
        ("enp11s0", "route default table 101", "via 172.16.11.254"),
        ("rule 10002", "oif enp12s0", "lookup 102"),
    ]
    assert changes(node, PORTS) == []


def test_a_missing_connected_route_is_restored(node: Node) -> None:
    run(node, PORTS)
    node.kernel.held_routes = [route for route in node.kernel.held_routes if route.table != rt.TABLE_MAIN]
    attributes = [each["attribute"] for each in run(node, PORTS)["changes"]]
    assert attributes == ["route 172.16.11.0/24 table main", "route 172.16.12.0/24 table main"]


def test_a_link_that_was_down_gets_its_routes_back(node: Node) -> None:
    run(node, PORTS)
    node.kernel.set_link(3, up=False)
    attributes = [each["attribute"] for each in run(node, PORTS)["changes"]]
    assert attributes == ["state", "route 172.16.11.0/24 table 101", "route default table 101"]


def test_a_new_plan_removes_the_settings_of_the_old_one(node: Node) -> None:
    run(node, PORTS)
    moved = port(1, address="172.16.11.7/24", table=151, rule_priority=10051, gateway=None)
    run(node, [moved])
    summary = node.kernel.summary()
    assert summary["addresses"] == [(3, "172.16.11.7/24")]
    assert summary["routes"] == [(151, "172.16.11.0/24", 3, "None"), (254, "172.16.11.0/24", 3, "None")]
    assert rules(node) == [(10051, "from 172.16.11.7", 151), (10051, "oif enp11s0", 151)]
    assert [path for path in summary["files"] if "gpu02" in path] == []
    assert changes(node, [moved]) == []


def test_two_ports_exchange_their_addresses(node: Node) -> None:
    run(node, PORTS)
    swapped = [
        port(1, address="172.16.12.201/24", gateway="172.16.12.254", table=102, rule_priority=10002),
        port(2, address="172.16.11.201/24", gateway="172.16.11.254", table=101, rule_priority=10001),
    ]
    run(node, swapped)
    assert node.kernel.summary()["addresses"] == [(3, "172.16.12.201/24"), (4, "172.16.11.201/24")]
    assert changes(node, swapped) == []


def test_settings_of_others_are_kept_and_conflicts_reported(node: Node) -> None:
    run(node, PORTS)
    kernel = node.kernel
    kernel.add_address(3, ipaddress.ip_interface("172.16.11.77/24"))
    kernel.add_address(3, ipaddress.ip_interface("192.0.2.1/24"))
    storage = rt.Route(101, ipaddress.ip_network("10.9.0.0/16"), 3, None, None, 0, 4, 0)
    kernel.add_route(storage)
    result = run(node, PORTS)
    assert result["changes"] == []
    assert [text for text in result["warnings"] if "172.16.11.77/24" in text and "not planned" in text]
    run(node, [], state="absent")
    assert storage in kernel.held_routes
    assert (3, "192.0.2.1/24") in kernel.summary()["addresses"]


def test_an_address_on_an_interface_that_appeared_during_the_read_is_reported(node: Node) -> None:
    node.kernel.add_address(3, ipaddress.ip_interface("172.16.11.201/24"))
    node.kernel.held_addresses = [each._replace(ifindex=99) for each in node.kernel.held_addresses]
    assert "172.16.11.201 is already the address of 99" in errors(node, PORTS)


def test_a_wrong_prefix_or_gateway_is_replaced(node: Node) -> None:
    node.kernel.set_link(3, up=True)
    node.kernel.add_address(3, ipaddress.ip_interface("172.16.11.201/16"))
    default = rt.Route(101, ipaddress.ip_network("0.0.0.0/0"), 2, ipaddress.ip_address("172.16.11.1"), None, 0, 4, 0)
    node.kernel.add_route(default)
    run(node, PORTS)
    assert node.kernel.summary()["addresses"] == [(3, "172.16.11.201/24"), (4, "172.16.12.201/24")]
    assert default not in node.kernel.held_routes


def test_routes_lost_with_the_last_address_are_restored(node: Node) -> None:
    run(node, PORTS)
    routes = [route for route in node.kernel.held_routes if route.table == 101]
    node.kernel.delete_address(3, ipaddress.ip_interface("172.16.11.201/24"))
    node.kernel.add_address(3, ipaddress.ip_interface("172.16.11.201/16"))
    node.kernel.held_routes += routes
    done = [(each["attribute"], each["after"]) for each in run(node, PORTS)["changes"]]
    assert done == [
        ("address", None),
        ("address", "172.16.11.201/24"),
        ("route 172.16.11.0/24 table 101", "link src 172.16.11.201"),
        ("route default table 101", "via 172.16.11.254"),
    ]
    assert changes(node, PORTS) == []


def test_a_secondary_address_lost_with_the_primary_is_restored(node: Node) -> None:
    run(node, [port(1, address="172.16.11.7/24")])
    # an interrupted run of another tool: the planned address came second
    node.kernel.add_address(3, ipaddress.ip_interface("172.16.11.201/24"))
    run(node, [port(1)])
    assert node.kernel.summary()["addresses"] == [(3, "172.16.11.201/24")]
    assert changes(node, [port(1)]) == []


def test_absent_removes_all_of_our_settings(node: Node) -> None:
    before = node.kernel.summary()
    run(node, PORTS)
    run(node, [PORTS[0]], state="absent")
    assert [each[0] for each in node.kernel.summary()["addresses"]] == [4]
    assert changes(node, [PORTS[1]]) == []
    stays = "name, MTU and sysctls of %s stay as they are until the next boot"
    assert run(node, [], state="absent")["reboot_reasons"] == [stays % "gpu01, gpu02"]
    after = node.kernel.summary()
    for part in ("addresses", "routes", "rules", "files"):
        assert after[part] == before[part]
    assert changes(node, [], state="absent") == []
    assert run(node, [], state="absent")["reboot_reasons"] == [stays % "gpu01, gpu02"]
    # one is set up again
    again = run(node, [PORTS[0]])
    assert again["reboot_required"] is False
    assert run(node, [], state="absent")["reboot_reasons"] == [stays % "gpu01, gpu02"]
    run(node, PORTS)
    assert not node.system.exists("/run/railyard/until_boot/rail_ports") and changes(node, PORTS) == []


def test_a_record_of_another_form_is_ignored(node: Node) -> None:
    note = "/run/railyard/until_boot/rail_ports"
    run(node, PORTS)
    node.system.write_file(note, '["name, MTU and sysctls of gpu07, gpu08 stay as they are until the next boot"]')
    assert run(node, [PORTS[0]], state="absent")["reboot_reasons"] == [
        "name, MTU and sysctls of gpu01 stay as they are until the next boot"
    ]
    assert stored(node.system.read(note)) == ["name, MTU and sysctls of gpu01 stay as they are until the next boot"]


def test_a_port_without_an_address_is_only_set_up(node: Node) -> None:
    bare = {"rail": "gpu01", "pci": "0000:0b:00.0", "netdev": "enp11s0", "mtu": 4200}
    run(node, [bare])
    assert node.kernel.summary()["links"][1] == (3, "enp11s0", True, 4200)
    assert node.kernel.summary()["addresses"] == []
    assert rules(node) == []


def test_an_ipv6_rail_has_its_routes_and_rules(node: Node) -> None:
    six = port(1, address="fd00:11::c9/64", gateway="fd00:11::1")
    run(node, [six])
    assert changes(node, [six]) == []
    routes = [route for route in node.kernel.summary()["routes"] if route[0] == 101]
    assert routes == [(101, "::/0", 3, "fd00:11::1"), (101, "fd00:11::/64", 3, "None"), (101, "fe80::/64", 3, "None")]
    node.kernel.sysctl("enp11s0", "disable_ipv6", "ipv6").write_text("1")
    assert "IPv6 is switched off for enp11s0" in errors(node, [six])


def test_rail_ports_ignore_router_advertisements(node: Node) -> None:
    run(node, [port(1)])
    for key in ("accept_ra", "autoconf"):
        assert node.kernel.sysctl("enp11s0", key, "ipv6").read_text() == "0"
    assert "net.ipv6.conf.enp11s0.autoconf = 0" in node.kernel.summary()["files"]["etc/sysctl.d/90-railyard.conf"]


def test_a_duplicate_address_is_tried_again_by_the_next_run(node: Node) -> None:
    both = port(1, address6="fd00:11::c9/64")
    run(node, [both])
    failed = [
        each._replace(flags=rt.IFA_F_DADFAILED | rt.IFA_F_TENTATIVE) if each.interface.version == 6 else each
        for each in node.kernel.held_addresses
    ]
    node.kernel.held_addresses = failed
    done = [(each["attribute"], each["before"]) for each in run(node, [both])["changes"]]
    assert done == [("address", "fd00:11::c9/64, which another host has")]
    assert changes(node, [both]) == []


def test_duplicate_address_detection_without_result_is_an_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    add = node.kernel.add_address

    def tentative(index: int, interface: rt.Interface) -> None:
        add(index, interface)
        node.kernel.held_addresses = [
            each._replace(flags=rt.IFA_F_TENTATIVE) if each.interface.version == 6 else each
            for each in node.kernel.held_addresses
        ]
        node.kernel.table[index] = node.kernel.table[index]._replace(carrier=True)

    monkeypatch.setattr(node.kernel, "add_address", tentative)
    with pytest.raises(RailyardError, match="has not yet found out whether another host has fd00:11::c9") as reported:
        run(node, [port(1, address6="fd00:11::c9/64")])
    assert reported.value.place == "ports[0].address6 (gpu01)"
    # one that is reported as usable meanwhile is
    monkeypatch.setattr(node.kernel, "add_address", add)
    node.kernel.held_addresses = [
        each._replace(flags=rt.IFA_F_TENTATIVE | rt.IFA_F_OPTIMISTIC) for each in node.kernel.held_addresses
    ]
    run(node, [port(1, address6="fd00:11::c9/64")])


def test_a_duplicate_is_reported_before_the_back_end_is_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    monkeypatch.setattr(Networkd, "load", lambda _self, kept, _changed, _made, _timeout: loads.append(len(kept)))
    add = node.kernel.add_address

    def taken(index: int, interface: rt.Interface) -> None:
        add(index, interface)
        node.kernel.held_addresses = [
            each._replace(flags=rt.IFA_F_DADFAILED) if each.interface.version == 6 else each
            for each in node.kernel.held_addresses
        ]

    monkeypatch.setattr(node.kernel, "add_address", taken)
    wanted = [port(1, address6="fd00:11::c9/64")]
    with pytest.raises(RailyardError, match="another host on the rail has fd00:11::c9"):
        run(node, wanted)
    assert loads == []
    monkeypatch.setattr(node.kernel, "add_address", add)
    run(node, wanted)
    assert loads == [1]
    assert changes(node, wanted) == []


def test_ipv6_needs_its_mtu(node: Node) -> None:
    node.kernel.set_link(3, mtu=1000)
    assert "the MTU of enp11s0 is 1000, and IPv6 needs 1280" in errors(node, [port(1, address6="fd00::1/64", mtu=None)])


# -- routes ----------------------------------------------------------------------------------------------------------


def test_a_route_that_captures_the_connection_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def to(network: str, via: str | None = None) -> list[Option]:
        return [port(1, routes=[{"to": network, "via": via, "table": None}])]

    node.kernel.add_address(node.management, ipaddress.ip_interface("10.8.0.5/24"))
    # the management path's own subnet is narrower, and so wins
    assert changes(node, to("10.0.0.0/8"))
    assert "10.8.0.0/24 overlaps 10.8.0.5/24 of eth0, which carries the default" in errors(node, to("10.8.0.0/24"))
    assert "10.8.0.4/30 overlaps 10.8.0.5/24 of eth0" in errors(node, to("10.8.0.4/30"))
    monkeypatch.setenv("SSH_CONNECTION", "10.8.0.9 50000 10.8.0.5 22")
    assert changes(node, to("10.0.0.0/8"))
    monkeypatch.setenv("SSH_CONNECTION", "10.77.0.9 50000 10.8.0.5 22")
    text = errors(node, to("10.0.0.0/8"))
    assert "ports[0].routes[0].to (gpu01): 10.0.0.0/8 contains 10.77.0.9, the peer of this connection" in text
    # a rail's own table leads nothing astray
    assert changes(node, [port(1, routes=[{"to": "10.0.0.0/8", "via": None, "table": 101}])])


def test_routes_of_others_on_the_port_are_kept_and_reported(node: Node) -> None:
    planned = {"to": "10.0.0.0/8", "via": "172.16.11.254", "table": None}
    # an interface that keeps an address keeps its routes
    node.kernel.add_address(3, ipaddress.ip_interface("192.0.2.1/24"))
    run(node, [port(1, routes=[planned])])
    other = rt.Route(rt.TABLE_MAIN, ipaddress.ip_network("10.9.0.0/16"), 3, None, None, 0, 4, 0)
    node.kernel.add_route(other)
    result = run(node, [port(1, routes=[planned])])
    assert result["changes"] == []
    theirs = {"to": "10.9.0.0/16", "via": None, "table": None}
    assert result["gathered"]["ports"][0]["routes"] == [planned, theirs]
    run(node, [], state="absent")
    mains = [route[1] for route in node.kernel.summary()["routes"]]
    assert mains == ["10.9.0.0/16", "192.0.2.0/24"]


# -- interruption ----------------------------------------------------------------------------------------------------


def interrupted(tmp_path: Path, ports: list[Option], after: int) -> Node:
    node = Node(tmp_path / str(after))
    run(node, [port(1, address="172.16.11.7/24"), port(2), port(3)])
    for change in changes(node, ports)[:after]:
        change.act()
    return node


def test_a_kill_at_any_point_is_fixed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    wanted = [port(1), port(2, table=152), port(4)]
    whole = interrupted(tmp_path, wanted, 1000)
    total = len(changes(interrupted(tmp_path, wanted, 0), wanted))
    assert total > 20
    for count in range(1, total):
        node = interrupted(tmp_path, wanted, count)
        run(node, wanted)
        assert node.kernel.summary() == whole.kernel.summary(), count
        assert changes(node, wanted) == [], count


def test_a_changed_plan_after_a_kill_removes_the_settings_of_the_killed_run(tmp_path: Path, node: Node) -> None:
    broken, other = [port(1), port(2, table=152), port(4)], [port(1, address="172.16.11.9/24")]
    total = len(changes(interrupted(tmp_path, broken, 0), broken))
    for count in range(1, total):
        node = interrupted(tmp_path, broken, count)
        run(node, other)
        assert node.kernel.summary()["addresses"] == [(3, "172.16.11.9/24")], count
        assert rules(node) == [(10001, "from 172.16.11.9", 101), (10001, "oif enp11s0", 101)], count
        assert {route[0] for route in node.kernel.summary()["routes"]} == {101, 254}, count


def test_files_that_were_written_but_not_loaded_are_loaded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    for change in changes(node, PORTS):
        if change.attribute == "loaded":
            break
        change.act()
    monkeypatch.setattr(Networkd, "load", lambda _self, kept, _changed, _made, _timeout: loads.append(len(kept)))
    assert [each["attribute"] for each in run(node, PORTS)["changes"]] == ["loaded", "done"]
    assert loads == [2]


def test_settings_that_the_back_end_removes_briefly_are_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = node.kernel
    reported: list[str] = []

    def load(_self: Networkd, _kept: object, changed: t.Sequence[str], _made: object, _timeout: float) -> None:
        reported.extend(changed)
        kernel.held_rules, rules = [], kernel.held_rules
        monkeypatch.setattr(time, "sleep", lambda _seconds: setattr(kernel, "held_rules", rules))

    monkeypatch.setattr(Networkd, "load", load)
    run(node, PORTS)
    assert "/etc/systemd/network/05-railyard-gpu01.network" in reported
    assert changes(node, PORTS) == []


def test_settings_that_the_back_end_removes_are_an_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_self: Networkd, _kept: object, _changed: object, _made: object, _timeout: float) -> None:
        node.kernel.held_rules = []

    monkeypatch.setattr(Networkd, "load", load)
    with pytest.raises(RailyardError, match="was set, but reads back otherwise: from 172.16.11.201"):
        run(node, PORTS)


def test_an_invalid_record_is_written_again(node: Node) -> None:
    run(node, PORTS)
    write(node.root / RECORD.lstrip("/"), "{")
    run(node, PORTS)
    assert changes(node, PORTS) == []


@pytest.mark.parametrize("record", [None, "{", '{"ports": 3, "former": [], "done": true}'])
def test_without_a_record_removal_of_one_rail_keeps_files_of_others(node: Node, record: str | None) -> None:
    run(node, PORTS)
    node.system.remove_file(RECORD)
    if record is not None:
        node.system.write_file(RECORD, record)
    assert errors(node, [PORTS[0]], state="absent") == (
        "%s: does not show which rail ports are set up, and there are files: all would be removed. Remedy: "
        "run with state present and the ports that stay, or without ports to take all away." % RECORD
    )
    # all of them: what only the record could show stays
    reported = run(node, [], state="absent")
    assert not [path for path in (node.root / "etc").rglob("*") if path.is_file()]
    stays = "addresses, routes and rules that it recorded stay until the next boot" in " ".join(reported["warnings"])
    assert stays is (record is not None)
    assert changes(node, [PORTS[0]], state="absent") and run(node, PORTS)["changes"]


# -- names -----------------------------------------------------------------------------------------------------------


def test_an_interface_is_renamed_live(node: Node) -> None:
    named = port(1, netdev="gpu01")
    run(node, PORTS)
    result = run(node, [named])
    assert [each["attribute"] for each in result["changes"][1:3]] == ["name", "state"]
    assert node.kernel.table[3].name == "gpu01"
    assert result["gathered"]["ports"] == [named]
    assert rules(node) == [(10001, "from 172.16.11.201", 101), (10001, "oif gpu01", 101)]
    assert changes(node, [named]) == []


def test_addresses_that_networkd_removes_at_a_rename_are_set_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    run(node, PORTS)
    kernel, rename = node.kernel, node.kernel._rename

    def renamed(before: str, after: str) -> None:
        rename(before, after)
        kernel.held_addresses = [each for each in kernel.held_addresses if each.ifindex != 3]

    monkeypatch.setattr(kernel, "_rename", renamed)
    named = [port(1, netdev="gpu01"), *PORTS[1:]]
    assert run(node, named)["gathered"]["ports"] == named


def test_an_alternative_name_becomes_the_name(node: Node) -> None:
    node.kernel.table[3] = node.kernel.table[3]._replace(altnames=("gpu01",))
    run(node, [port(1, netdev="gpu01")])
    assert node.kernel.table[3].name == "gpu01"


def test_names_are_exchanged_in_a_ring(node: Node) -> None:
    ring = [port(1, netdev="enp12s0"), port(2, netdev="enp13s0"), port(3, netdev="enp11s0")]
    run(node, ring)
    assert [node.kernel.table[index].name for index in (3, 4, 5)] == ["enp12s0", "enp13s0", "enp11s0"]
    assert changes(node, ring) == []


def test_a_name_that_another_interface_has_is_an_error(node: Node) -> None:
    text = errors(node, [port(1, netdev="enp14s0")])
    assert "0000:0b:00.0 is enp11s0, and another interface (enp14s0) has the name enp14s0" in text


@pytest.mark.parametrize("use", ["macvlan", "pod", "vfs"])
def test_an_interface_in_use_waits_for_the_next_boot(node: Node, use: str) -> None:
    node.kernel.set_link(3, up=True)
    place = node.root / "sys/class/net/enp11s0"
    if use == "macvlan":
        (place / "upper_macvlan0").mkdir()
    elif use == "pod":
        node.kernel.macs[3] = [node.kernel.table[3].address, b"\x33\x33\0\0\0\1", b"\x02\xaa\0\0\0\1"]
    else:
        write(place / "device/sriov_numvfs", "2")
    # and who wants its name waits with it
    ports = [port(1, netdev="gpu01"), port(2, netdev="enp11s0")]
    result = run(node, ports)
    assert result["reboot_required"]
    assert len(result["reboot_reasons"]) == 2
    assert result["reboot_reasons"][0].startswith("gpu01: enp11s0 becomes gpu01 at the next boot")
    assert [node.kernel.table[index].name for index in (3, 4)] == ["enp11s0", "enp12s0"]
    # all else is in force under the name of now
    assert (10001, "oif enp11s0", 101) in rules(node)
    files = node.kernel.summary()["files"]
    assert "Name=gpu01" in files["etc/systemd/network/05-railyard-gpu01.link"]
    again = run(node, ports)
    assert again["changes"] == []
    assert again["reboot_required"]


def test_an_interface_is_found_by_its_name_where_no_pci_address_is_given(node: Node) -> None:
    run(node, [port(1, pci=None)])
    assert [path for path in node.kernel.summary()["files"] if path.endswith(".link")] == []
    node.kernel.table[4] = node.kernel.table[4]._replace(altnames=("ens2",))
    assert "ens2 is only another name of enp12s0" in errors(node, [port(2, pci=None, netdev="ens2")])


def test_settings_of_vfs_are_not_those_of_the_port(node: Node) -> None:
    node.kernel.nic("rep0")
    (node.root / "sys/bus/pci/devices/0000:0b:00.0/net/rep0").mkdir()
    write(node.root / "sys/class/net/rep0/phys_port_name", "pf0vf0")
    write(node.root / "sys/class/net/enp11s0/phys_port_name", "p0")
    run(node, [port(1, netdev=None)])
    assert node.kernel.summary()["addresses"] == [(3, "172.16.11.201/24")]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", [{"pci": "0000:01:00.0"}, {"pci": None, "netdev": "eth0"}, {"pci": "0000:01:00.0", "netdev": "gpu09"}]
)
def test_the_management_path_is_refused_and_nothing_is_changed(node: Node, option: Option) -> None:
    text = errors(node, [port(1), port(2, **option)])
    assert "eth0 carries the default route" in text


def test_a_port_of_the_management_path_is_refused(node: Node) -> None:
    with pytest.raises(Refused):
        changes(node, [port(2, pci="0000:01:00.0", netdev="eth0")])


def test_the_management_paths_function_is_refused_where_it_is_a_vfs_pf(node: Node) -> None:
    vf = node.root / "sys/devices/pci0000:00/0000:01:00.0"
    (vf / "physfn").symlink_to(node.root / "sys/devices/pci0000:00/0000:0b:00.0")
    assert "eth0 carries the default route" in errors(node, [port(1)])


def test_a_file_that_netplan_cannot_read_is_refused_before_any_change(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(System, "which", lambda _system, program: "/usr/sbin/" + program)
    node.system = System(str(node.root), lambda _argv, _timeout: CommandResult(1, "", "50-site.yaml: expected mapping"))
    assert "50-site.yaml: expected mapping" in errors(node, [port(1)], backend="netplan")


@pytest.mark.parametrize("soft", [False, True])
def test_a_port_whose_rdma_device_is_in_use_is_renamed_at_the_next_boot(
    node: Node, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    """The device of its function, which InfiniBand reports without an interface, and a soft one on its interface."""
    run(node, [port(1)], persist=False)
    if not soft:
        (node.root / "sys/bus/pci/devices/0000:0b:00.0/infiniband/mlx5_0").mkdir(parents=True)
    device_port = rdma_port("enp11s0" if soft else None)
    process = resources(rdma_netlink.ATTR_RES_QP, codec.u32(rdma_netlink.ATTR_RES_PID, 70))
    write(node.root / "proc/70/comm", "trainer\n")
    sock = RdmaKernel(get=[device(3, "mlx5_0")], port_get=[device_port], res_qp_get=process, res_cm_id_get=[])
    monkeypatch.setattr(sock, "close", lambda: None, raising=False)
    monkeypatch.setattr(rdma_netlink, "connect", lambda _system: sock)
    result = run(node, [port(1, netdev="rail1")], persist=False)
    assert "its RDMA device is in use (trainer (pid 70, 1 queue pairs))" in result["reboot_reasons"][0]


def test_a_replaced_file_is_refused_before_any_change(node: Node) -> None:
    write(node.root / "etc/systemd/network/20-site.network", "[Match]\nName=enp11s0\n[Network]\nBond=bond0\n")
    write(node.root / "etc/systemd/network/20-twin.network", "[Match]\nName=enp12s0\n[Network]\nBond=bond0\n")
    text = errors(node, [port(1), port(2)])
    assert "gives enp11s0 (gpu01) Bond=bond0" in text
    assert "gives enp12s0 (gpu02) Bond=bond0" in text


def test_absent_does_not_touch_the_management_path(node: Node) -> None:
    run(node, PORTS)
    node.kernel.default_route("enp11s0")
    assert "enp11s0 carries the default route" in errors(node, [], state="absent")
    assert "enp11s0 carries the default route, and was set up as a rail port before" in errors(node, [port(2)])


def test_a_subnet_that_captures_the_connection_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.kernel.add_address(node.management, ipaddress.ip_interface("172.16.8.5/21"))
    assert "172.16.11.0/24 overlaps 172.16.8.5/21 of eth0, which carries the default route" in errors(node, [port(1)])
    monkeypatch.setenv("SSH_CONNECTION", "172.16.22.9 50000 10.0.0.5 22")
    text = errors(node, [port(12, pci="0000:0c:00.0", netdev="enp12s0")])
    assert "172.16.22.0/24 contains 172.16.22.9, the peer of this connection" in text


def test_every_error_is_reported_at_once(node: Node) -> None:
    node.kernel.add_address(6, ipaddress.ip_interface("172.16.12.201/24"))
    text = errors(
        node,
        [
            port(1, mtu=9500),
            port(2, sysctl={"arp_ignoer": 1}),
            port(3, pci="0000:ff:00.0"),
        ],
    )
    assert "ports[0].mtu (gpu01): enp11s0 takes an MTU from 68 to 9216, not 9500" in text
    assert "ports[1].sysctl (gpu02): the kernel has no net.ipv4.conf.enp12s0.arp_ignoer" in text
    assert "ports[1].address (gpu02): 172.16.12.201 is already the address of enp14s0" in text
    assert "ports[2].pci (gpu03): there is no PCI function 0000:ff:00.0" in text


def test_strict_reverse_path_filtering_is_refused_and_weaker_conflicts_reported(node: Node) -> None:
    node.kernel.sysctl("all", "rp_filter").write_text("1")
    assert "rp_filter is 1, and the kernel takes the larger" in errors(node, [port(1, sysctl={"rp_filter": 0})])
    assert run(node, [port(1, sysctl={"rp_filter": 2})])["effective_sysctl"] == {"enp11s0": {"rp_filter": 2}}
    node.kernel.sysctl("all", "arp_announce").write_text("2")
    result = run(node, [port(1, sysctl={"arp_announce": 1})])
    assert result["effective_sysctl"] == {"enp11s0": {"arp_announce": 2}}
    assert any("arp_announce is 2" in text for text in result["warnings"])


def test_ports_in_one_subnet_answer_arp_requests_for_their_own_addresses_only(node: Node) -> None:
    flat = [
        port(rail, address="10.248.0.%d/16" % rail, gateway=None, sysctl={"arp_filter": 1, "arp_ignore": 1})
        for rail in (1, 2)
    ]
    result = run(node, flat)
    assert sorted(route[:3] for route in node.kernel.summary()["routes"]) == [
        (101, "10.248.0.0/16", 3),
        (102, "10.248.0.0/16", 4),
        (254, "10.248.0.0/16", 3),
        (254, "10.248.0.0/16", 4),
    ]
    assert result["effective_sysctl"] == {
        "enp11s0": {"arp_filter": 1, "arp_ignore": 1},
        "enp12s0": {"arp_filter": 1, "arp_ignore": 1},
    }
    assert node.kernel.sysctl("enp11s0", "arp_filter").read_text().strip() == "1"
    text = (node.root / "etc/sysctl.d/90-railyard.conf").read_text()
    assert "net.ipv4.conf.enp11s0.arp_filter = 1" in text
    assert changes(node, flat) == []
    node.kernel.sysctl("all", "arp_filter").write_text("1")
    result = run(node, [port(1, sysctl={"arp_filter": 0})])
    assert result["effective_sysctl"]["enp11s0"] == {"arp_filter": 1}, "the kernel takes either"
    assert any("arp_filter is 1" in text for text in result["warnings"])


def test_a_missing_back_end_is_an_error_if_settings_are_persistent(tmp_path: Path) -> None:
    node = Node(tmp_path, units=())
    assert "neither netplan nor NetworkManager nor systemd-networkd" in errors(node, PORTS)
    run(node, PORTS, persist=False)
    assert [path for path in node.kernel.summary()["files"] if path.startswith("etc")] == []
    assert changes(node, PORTS, persist=False) == []
    # what was set without files is known to a later run all the same
    run(node, [], state="absent")
    assert node.kernel.summary()["addresses"] == []


def test_no_carrier_is_reported(node: Node) -> None:
    write(node.root / "sys/class/net/enp11s0/carrier", "0")
    assert any("enp11s0 (gpu01) has no carrier" in text for text in run(node, [port(1)])["warnings"])


def test_gathered_settings_are_those_of_the_kernel(node: Node) -> None:
    run(node, PORTS)
    node.kernel.set_link(3, mtu=1500)
    asked = [{"rail": "a", "netdev": "enp11s0"}, {"rail": "b", "pci": "0000:ff:00.0"}]
    first, second = subsystem(node, asked, state="gathered").observe()["ports"]
    settings = {"arp_ignore": 1, "arp_announce": 2, "arp_filter": 0, "rp_filter": 2}
    assert first == port(1, rail="a", mtu=1500, sysctl=settings)
    assert (second["pci"], second["netdev"], second["address"]) == ("0000:ff:00.0", None, None)
    assert [each["rail"] for each in subsystem(node, [], state="gathered").observe()["ports"]] == ["gpu01", "gpu02"]


def test_present_without_ports_is_an_error(node: Node) -> None:
    options = {"ports": [], "state": "present", "backend": "auto", "persist": True, "timeout": 1}
    with pytest.raises(RailyardError, match="no rail port is given"):
        RailPorts.from_options(options, node.system)


@pytest.fixture
def away(node: Node, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Callable[[bool], None]]:
    """Moves the first rail's interface into a pod's namespace, and back."""
    link = next(each for each in node.kernel.links() if each.name == "enp11s0")
    functions = node.root / "sys/bus/pci/devices"
    there = functions / "0000:0b:00.0/net/enp11s0"

    def move(gone: bool) -> None:
        if gone:
            there.rmdir()
            kernel = node.kernel
            kernel.held_addresses = [each for each in kernel.held_addresses if each.ifindex != link.ifindex]
            kernel.held_routes = [each for each in kernel.held_routes if each.oif != link.ifindex]
            kernel.table.pop(link.ifindex)
        else:
            there.mkdir()
            node.kernel.table[link.ifindex] = link

    row = {"name": "net1", "alias": "enp11s0", "kind": None, "pci": "0000:0b:00.0", "below": None}
    pod = namespace_holders.Elsewhere([row], [])
    monkeypatch.setattr(vf_holders, "moved", functools.partial(vf_holders.moved, look=lambda *_given: {POD: pod}))
    write(node.root / "proc/4711/comm", "pause")
    for number, namespace in ((1, "net:[1]"), (4711, POD)):
        place = node.root / ("proc/%d/task/%d/ns" % (number, number))
        for each in (place, node.root / ("proc/%d/ns" % number)):
            each.mkdir(parents=True)
            (each / "net").symlink_to(namespace)
    yield move


POD = "net:[4026532281]"
WHY = "its netdev net1 is in network namespace %s (pause pid 4711)" % POD


@pytest.mark.parametrize("named", [True, False])
def test_a_port_in_a_pod_is_not_changed_and_is_restored_on_return(
    node: Node, away: t.Callable[[bool], None], named: bool
) -> None:
    ports = PORTS if named else [dict(each, netdev=None) for each in PORTS]
    run(node, ports)
    files = {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()}
    whole = node.kernel.summary()
    away(True)
    reported = run(node, ports)
    assert reported["changes"] == [] and reported["held"] == [{"rail": "gpu01", "pci": "0000:0b:00.0", "by": WHY}]
    assert [each for each in reported["warnings"] if "is not changed" in each] == [
        "gpu01 (0000:0b:00.0) is not changed: %s. Remedy: to change it, run again after it is back" % WHY
    ]
    assert {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()} == files
    assert [row[0] for row in rules(node)] == [10001, 10001, 10002, 10002]
    # the others are seen to all the same
    node.kernel.sysctl("enp12s0", "rp_filter").write_text("1")
    assert [each["subject"] for each in run(node, ports)["changes"]] == ["enp12s0"]
    away(False)
    assert run(node, ports)["held"] == [] and node.kernel.summary() == whole
    assert run(node, ports)["changes"] == []


def test_files_of_a_port_with_an_unknown_name_are_kept(
    node: Node, away: t.Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = [dict(each, netdev=None) for each in PORTS]
    run(node, ports)
    monkeypatch.setattr(vf_holders, "moved", functools.partial(vf_holders.moved, look=lambda *_given: {}))
    away(True)
    reported = run(node, ports)
    assert reported["changes"] == [] and "which cannot be entered" in reported["held"][0]["by"]
    away(False)
    assert run(node, ports)["held"] == []


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reported", [True, False])
def test_files_of_a_port_that_stays_in_a_pod_outlive_another_port(
    node: Node, away: t.Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, named: bool, reported: bool
) -> None:
    ports = PORTS if named else [dict(each, netdev=None) for each in PORTS]
    run(node, [ports[0]])
    own = {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()}
    run(node, ports)
    if not reported:
        monkeypatch.setattr(vf_holders, "moved", functools.partial(vf_holders.moved, look=lambda *_given: {}))
    away(True)
    taken = run(node, [ports[1]], state="absent")
    assert [each["rail"] for each in taken["held"]] == ["gpu01"]
    assert "gpu01 (0000:0b:00.0) is not changed" in " ".join(taken["warnings"])
    left = {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()}
    # while its name is unknown, no file is removed before it is back
    assert left == own if named or reported else set(own) < set(left)
    away(False)
    run(node, [ports[1]], state="absent")
    assert {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()} == own


@pytest.mark.parametrize("named", [True, False])
def test_files_of_a_port_that_has_lost_its_driver_outlive_another_port(node: Node, named: bool) -> None:
    ports = PORTS if named else [dict(each, netdev=None) for each in PORTS]
    run(node, [ports[0]])
    own = {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()}
    run(node, ports)
    link = node.kernel.table.pop(3)
    there = node.root / "sys/bus/pci/devices/0000:0b:00.0/net"
    (there / link.name).rmdir()
    there.rmdir()
    warned = "gpu01 (0000:0b:00.0) has no interface here" in " ".join(run(node, [ports[1]], state="absent")["warnings"])
    left = {path: path.read_text() for path in (node.root / "etc").rglob("*") if path.is_file()}
    assert (left == own) if named else (set(own) < set(left) and warned)


def test_a_changed_plan_of_a_port_in_a_pod_is_applied_on_its_return(node: Node, away: t.Callable[[bool], None]) -> None:
    run(node, PORTS)
    away(True)
    other = [port(1, address="172.16.99.201/24", gateway="172.16.99.254"), PORTS[1]]
    assert all(each["subject"].startswith(("/etc/", "networkd", RECORD)) for each in run(node, other)["changes"])
    assert run(node, other)["changes"] == []
    away(False)
    run(node, other)
    sources = [str(rule.source) for rule in node.kernel.rules(4) if rule.source]
    assert sources == ["172.16.99.201/32", "172.16.12.201/32"]
    assert run(node, other)["changes"] == []
