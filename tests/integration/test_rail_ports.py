# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rail_ports on a real guest: node-2, rails 1 to 4, under systemd-networkd."""

from __future__ import annotations

import base64
import io
import json
import typing as t
import zipfile

import pytest

from tests.integration.conftest import ROOT, Failed, Node
from tests.waiting import wait_for

pytestmark = pytest.mark.lab_node("node-2")
Option = t.Dict[str, t.Any]
RECORD = "/var/lib/railyard/rail_ports.json"


def port(number: int, **options: t.Any) -> Option:
    planned: Option = {
        "rail": "gpu%02d" % number,
        "pci": "0000:%02x:00.0" % number,
        "netdev": "enp%ds0" % number,
        "mtu": 4200,
        "address": "172.16.%d.202/24" % (10 + number),
        "gateway": "172.16.%d.254" % (10 + number),
        "address6": None,
        "gateway6": None,
        "routes": [],
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
    }
    return dict(planned, **options)


def both(number: int, **options: t.Any) -> Option:
    """A port of both families, with a route in the rail's table and one in the main table."""
    six = {
        "address6": "fd00:%d::ca/64" % number,
        "gateway6": "fd00:%d::fe" % number,
        "routes": [
            {"to": "fd0%d::/16" % number, "via": "fd00:%d::fd" % number, "table": 100 + number},
            {"to": "10.%d.0.0/16" % number, "via": "172.16.%d.253" % (10 + number), "table": None},
        ],
    }
    return port(number, **dict(six, **options))


PORTS = [port(number) for number in (1, 2, 3, 4)]
BOTH = [both(number) for number in (1, 2, 3, 4)]
# A link of two addresses, routed in the main table alone.
NARROW = port(
    4,
    address="10.0.4.0/31",
    gateway=None,
    address6="fd00:4::/127",
    table=None,
    rule_priority=None,
    routes=[
        {"to": "10.0.0.0/20", "via": "10.0.4.1", "table": None},
        {"to": "fd77::/32", "via": "fe80::1", "table": None},
    ],
)


@pytest.fixture(scope="module")
def guest(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    guest = node("node-2")
    yield guest
    guest.module("rail_ports", state="absent")
    for number in (1, 2, 3, 4):
        guest.run("ip link set enp%ds0 mtu 1500 down" % number)


@pytest.fixture
def ready(guest: Node) -> Node:
    guest.module("rail_ports", ports=PORTS)
    return guest


def live(guest: Node, numbers: t.Sequence[int] = (1, 2, 3, 4)) -> dict[str, t.Any]:
    """The output of ip(8) for the rails, in no order."""
    names = ["enp%ds0" % number for number in numbers]
    links = {link["ifname"]: link for link in guest.json("ip -j addr")}
    return {
        "links": {name: (links[name]["mtu"], "UP" in links[name]["flags"]) for name in names},
        "addresses": {
            name: ["%(local)s/%(prefixlen)s" % each for each in links[name]["addr_info"] if each["family"] == "inet"]
            for name in names
        },
        "rules": sorted(
            (each["priority"], each["src"], each.get("oif", ""), each["table"])
            for each in guest.json("ip -j rule")
            if 10000 < each["priority"] < 10100
        ),
        "routes": sorted(
            (number, each["dst"], each.get("gateway", ""), each["dev"], each.get("prefsrc", ""))
            for number in numbers
            for each in guest.json("ip -j route show table %d 2>/dev/null || true" % (100 + number))
        ),
        "main": sorted(
            (each["dst"], each["dev"]) for each in guest.json("ip -j route show table main") if each["dev"] in names
        ),
    }


PLANNED = {
    "links": {"enp%ds0" % n: (4200, True) for n in (1, 2, 3, 4)},
    "addresses": {"enp%ds0" % n: ["172.16.%d.202/24" % (10 + n)] for n in (1, 2, 3, 4)},
    "rules": sorted(
        rule
        for n in (1, 2, 3, 4)
        for rule in (
            (10000 + n, "172.16.%d.202" % (10 + n), "", str(100 + n)),
            (10000 + n, "all", "enp%ds0" % n, str(100 + n)),
        )
    ),
    "routes": sorted(
        route
        for n in (1, 2, 3, 4)
        for route in (
            (n, "default", "172.16.%d.254" % (10 + n), "enp%ds0" % n, ""),
            (n, "172.16.%d.0/24" % (10 + n), "", "enp%ds0" % n, "172.16.%d.202" % (10 + n)),
        )
    ),
    "main": [("172.16.%d.0/24" % (10 + n), "enp%ds0" % n) for n in (1, 2, 3, 4)],
}


def test_prediction_act_and_second_run(guest: Node) -> None:
    guest.module("rail_ports", state="absent")
    predicted = guest.module("rail_ports", check=True, ports=PORTS)
    assert predicted["changed"]
    assert not guest.run("ls /etc/systemd/network | grep railyard || true")
    done = guest.module("rail_ports", ports=PORTS)
    assert done["changes"] == predicted["changes"]
    assert done["gathered"]["ports"] == PORTS
    assert (done["backend"], done["reboot_required"]) == ("networkd", False)
    assert live(guest) == PLANNED
    for number in (1, 2, 3, 4):
        conf = "/proc/sys/net/ipv4/conf/enp%ds0/" % number
        assert guest.run("cd %s && cat arp_ignore arp_announce rp_filter" % conf).split() == ["1", "2", "2"]
    again = guest.module("rail_ports", ports=PORTS)
    assert (again["changed"], again["changes"]) == (False, [])
    assert live(guest) == PLANNED


def six(guest: Node, numbers: t.Sequence[int] = (1, 2, 3, 4)) -> dict[str, t.Any]:
    """The output of ip(8) for IPv6 on the rails, in no order; of addresses those that may be used now."""
    names = ["enp%ds0" % number for number in numbers]
    links = {link.get("ifname"): link for link in guest.json("ip -j -6 addr show scope global")}
    usable = [
        (name, "%(local)s/%(prefixlen)s" % each)
        for name in names
        for each in links.get(name, {}).get("addr_info", [])
        if each and not {"tentative", "dadfailed"}.intersection(each)
    ]
    tables = [*(str(100 + number) for number in numbers), "main"]
    routes = [
        (table, each["dst"], each.get("gateway", ""), each["dev"])
        for table in tables
        # of a table that is not there ip(8) writes half a document, and fails
        for each in guest.json('rows=$(ip -j -6 route show table %s 2>/dev/null) && echo "$rows" || echo []' % table)
        if each["dev"] in names and (table != "main" or each["dst"] != "fe80::/64")
    ]
    rules = [
        (each["priority"], each["src"], each.get("oif", ""))
        for each in guest.json("ip -j -6 rule")
        if 10000 < each["priority"] < 10100
    ]
    return {"usable": sorted(usable), "routes": sorted(routes), "rules": sorted(rules)}


PLANNED_6 = {
    "usable": sorted(("enp%ds0" % n, "fd00:%d::ca/64" % n) for n in (1, 2, 3, 4)),
    "routes": sorted(
        route
        for n in (1, 2, 3, 4)
        for route in (
            ("10%d" % n, "default", "fd00:%d::fe" % n, "enp%ds0" % n),
            ("10%d" % n, "fd00:%d::/64" % n, "", "enp%ds0" % n),
            ("10%d" % n, "fd0%d::/16" % n, "fd00:%d::fd" % n, "enp%ds0" % n),
            ("10%d" % n, "fe80::/64", "", "enp%ds0" % n),
            ("main", "fd00:%d::/64" % n, "", "enp%ds0" % n),
        )
    ),
    "rules": sorted(
        rule for n in (1, 2, 3, 4) for rule in ((10000 + n, "fd00:%d::ca" % n, ""), (10000 + n, "all", "enp%ds0" % n))
    ),
}


@pytest.mark.long
def test_both_address_families_are_configured(guest: Node) -> None:
    guest.module("rail_ports", state="absent")
    predicted = guest.module("rail_ports", check=True, ports=BOTH)
    assert six(guest)["usable"] == []
    done = guest.module("rail_ports", ports=BOTH)
    assert done["changes"] == predicted["changes"]
    assert done["gathered"]["ports"] == BOTH
    assert six(guest) == PLANNED_6
    for number in (1, 2, 3, 4):
        assert guest.run("cd /proc/sys/net/ipv6/conf/enp%ds0 && cat accept_ra autoconf" % number).split() == ["0", "0"]
    assert guest.module("rail_ports", ports=BOTH)["changes"] == []
    mains = [row["dst"] for row in guest.json("ip -j route show table main") if row["dev"].startswith("enp4s0")]
    assert "10.4.0.0/16" in mains
    # without them again
    guest.module("rail_ports", ports=PORTS)
    assert six(guest) == {"usable": [], "routes": [], "rules": []}
    assert live(guest) == PLANNED


def seen_meanwhile(guest: Node, version: str, mark: str, ports: list[Option]) -> str:
    """What the kernel reports of addresses while a run changes ports and networkd restarts."""
    log = "/tmp/railyard-monitor"
    # the reports between those of two addresses of the loopback are all that there were
    marked = "until grep -q {0} %s; do ip address add {0} dev lo; ip address del {0} dev lo; sleep 0.2; done" % log
    guest.run("nohup ip %s -o monitor address >%s 2>&1 & echo $! >%s.pid" % (version, log, log))
    try:
        guest.run(marked.format(mark % 1))
        guest.module("rail_ports", ports=ports)
        guest.run("systemctl restart systemd-networkd")
        wait_for(lambda: guest.run("networkctl --no-legend list").count(" configured") >= 5)
        guest.run(marked.format(mark % 2))
        return guest.run("cat %s" % log)
    finally:
        guest.run("kill $(cat %s.pid); rm -f %s*" % (log, log), check=False)


@pytest.mark.long
def test_ipv6_stays_while_networkd_reloads_and_restarts(guest: Node) -> None:
    guest.module("rail_ports", ports=BOTH)
    seen = seen_meanwhile(guest, "-6", "2001:db8::%d", [both(1, gateway6="fd00:1::fd")] + BOTH[1:])
    assert [line for line in seen.splitlines() if line.startswith("Deleted") and "fd00:" in line] == []
    assert guest.module("rail_ports", ports=[both(1, gateway6="fd00:1::fd")] + BOTH[1:])["changes"] == []
    guest.module("rail_ports", ports=BOTH)
    assert six(guest) == PLANNED_6


@pytest.mark.lab
@pytest.mark.long
def test_a_link_local_gateway_leads_on(guest: Node, node: t.Callable[[str], Node]) -> None:
    """node-1 is the rail's router: what lies behind it answers."""
    router = node("node-1")
    router.run("ip link set enp1s0 up; ip -6 addr add fd00:1::c9/64 dev enp1s0 nodad")
    router.run("ip -6 addr add fd00:99::1/128 dev lo nodad")
    try:
        rows = router.json("ip -j -6 addr show dev enp1s0 scope link")
        gateway = next(each["local"] for each in rows[0]["addr_info"] if each)
        guest.module("rail_ports", ports=[both(1, gateway6=gateway)])
        assert ("101", "default", gateway, "enp1s0") in six(guest, (1,))["routes"]
        assert guest.module("rail_ports", ports=[both(1, gateway6=gateway)])["changes"] == []
        guest.run("ping -6 -c 3 -W 5 -I fd00:1::ca fd00:99::1")
        # and the router itself, by its link-local address
        guest.run("ping -6 -c 3 -W 5 %s%%enp1s0" % gateway)
    finally:
        router.run("ip -6 addr del fd00:99::1/128 dev lo; ip -6 addr del fd00:1::c9/64 dev enp1s0", check=False)
        guest.module("rail_ports", ports=PORTS)


@pytest.mark.lab
def test_an_address_that_another_node_has_is_reported(guest: Node, node: t.Callable[[str], Node]) -> None:
    other = node("node-1")
    guest.module("rail_ports", ports=PORTS)
    other.run("ip link set enp1s0 up; ip -6 addr add fd00:1::ca/64 dev enp1s0 nodad")
    try:
        with pytest.raises(Failed, match="another host on the rail has fd00:1::ca"):
            guest.module("rail_ports", ports=[both(1)] + PORTS[1:])
    finally:
        other.run("ip -6 addr del fd00:1::ca/64 dev enp1s0", check=False)
    guest.module("rail_ports", ports=[both(1)] + PORTS[1:])
    assert six(guest, (1,))["usable"] == [("enp1s0", "fd00:1::ca/64")]
    guest.module("rail_ports", ports=PORTS)


@pytest.mark.long
def test_a_link_of_two_addresses_routed_in_the_main_table(guest: Node) -> None:
    ports = PORTS[:3] + [NARROW]
    predicted = guest.module("rail_ports", check=True, ports=ports)["changes"]
    done = guest.module("rail_ports", ports=ports)
    assert done["changes"] == predicted
    assert done["gathered"]["ports"] == ports
    assert guest.module("rail_ports", ports=ports)["changes"] == []
    assert guest.json("ip -j route get 10.0.9.9")[0]["gateway"] == "10.0.4.1"
    assert guest.json("ip -j -6 route get fd77::9")[0]["gateway"] == "fe80::1"
    assert [each for each in guest.json("ip -j rule") if each["priority"] == 10004] == []
    with pytest.raises(Failed, match="a rail never gives the main table a default route"):
        guest.module("rail_ports", ports=[dict(NARROW, routes=[{"to": "0.0.0.0/0", "via": "10.0.4.1"}])])
    with pytest.raises(Failed, match="10.0.2.0/24 overlaps 10.0.2.12/24 of enp0s30"):
        guest.module("rail_ports", ports=[dict(NARROW, routes=[{"to": "10.0.2.0/24", "via": "10.0.4.1"}])])
    guest.module("rail_ports", ports=PORTS)
    assert live(guest) == PLANNED


def test_gathered_equals_the_options(ready: Node) -> None:
    assert ready.module("rail_ports", state="gathered")["gathered"]["ports"] == PORTS


def test_only_lost_settings_are_fixed(ready: Node) -> None:
    ready.run("ip rule del priority 10002 from 172.16.12.202; ip addr del 172.16.13.202/24 dev enp3s0")
    ready.run("ip route del default table 104")
    changes = ready.module("rail_ports", ports=PORTS)["changes"]
    assert [(each["subject"], each["attribute"]) for each in changes] == [
        ("enp3s0", "address"),
        # with its last address an interface loses its routes
        ("enp3s0", "route 172.16.13.0/24 table 103"),
        ("enp3s0", "route default table 103"),
        ("enp4s0", "route default table 104"),
        ("rule 10002", "from 172.16.12.202"),
    ]
    assert live(ready) == PLANNED


@pytest.mark.long
def test_addresses_stay_while_networkd_reloads_and_restarts(ready: Node) -> None:
    """Each loss of an address would take its GIDs from under running transfers."""
    seen = seen_meanwhile(ready, "-4", "192.0.2.%d", [port(1, gateway="172.16.11.253")] + PORTS[1:])
    assert "enp1s0" in seen
    lost = [line for line in seen.splitlines() if line.startswith("Deleted") and "172.16." in line]
    assert lost == []
    result = ready.module("rail_ports", ports=[port(1, gateway="172.16.11.253")] + PORTS[1:])
    assert result["changes"] == []
    ready.module("rail_ports", ports=PORTS)
    assert live(ready) == PLANNED


@pytest.mark.parametrize(
    "option", [{"pci": None, "netdev": "enp0s30"}, {"pci": "0000:00:1e.0", "netdev": "gpu09"}, {"pci": "0000:00:1e.0"}]
)
def test_the_management_interface_is_refused(ready: Node, option: Option) -> None:
    before = live(ready)
    spec = dict(port(1, rail="mgmt", mtu=1400), **option)
    with pytest.raises(Failed, match="enp0s30 carries"):
        ready.module("rail_ports", ports=PORTS[1:] + [spec])
    assert live(ready) == before
    assert ready.json("ip -j link show enp0s30")[0]["mtu"] == 1500


def test_a_subnet_over_the_connections_is_refused(ready: Node) -> None:
    with pytest.raises(Failed, match="overlaps 10.0.2.12/24 of enp0s30"):
        ready.module("rail_ports", ports=[port(1, address="10.0.2.99/25", gateway=None)])
    assert live(ready) == PLANNED


def test_more_than_the_nic_can_do_is_reported_before_anything_is_done(ready: Node) -> None:
    with pytest.raises(Failed, match="enp1s0 takes an MTU from 68 to 9216, not 9500"):
        ready.module("rail_ports", ports=[port(1, mtu=9500), port(2, mtu=1500)])
    assert live(ready) == PLANNED


def link_file(guest: Node, netdev: str) -> str:
    """The .link file that udev takes for an interface."""
    output = guest.run("udevadm test-builtin net_setup_link /sys/class/net/%s 2>/dev/null" % netdev)
    return next(line.partition("=")[2] for line in output.splitlines() if line.startswith("ID_NET_LINK_FILE="))


def test_a_new_name_now_and_the_old_one_back(ready: Node) -> None:
    named = [port(1, netdev="gpu01")] + PORTS[1:]
    predicted = ready.module("rail_ports", check=True, ports=named)["changes"]
    done = ready.module("rail_ports", ports=named)
    assert done["changes"] == predicted
    assert done["gathered"]["ports"] == named
    assert ready.module("rail_ports", ports=named)["changes"] == []
    assert link_file(ready, "gpu01") == "/etc/systemd/network/05-railyard-gpu01.link"
    ready.module("rail_ports", ports=PORTS)
    assert live(ready) == PLANNED


def test_a_pod_on_the_rail_keeps_its_name_until_the_next_boot(ready: Node) -> None:
    ready.run("ip netns add railyard-pod && ip link add railyard0 link enp2s0 type macvlan mode bridge")
    ready.run("ip link set railyard0 netns railyard-pod && ip -n railyard-pod link set railyard0 up")
    try:
        result = ready.module("rail_ports", check=True, ports=[port(2, netdev="gpu02")])
    finally:
        ready.run("ip netns del railyard-pod")
    assert result["reboot_required"]
    assert "another network namespace" in result["reboot_reasons"][0]
    assert [each for each in result["changes"] if each["attribute"] == "name"] == []


@pytest.mark.long
def test_vfs_are_not_mistaken_for_the_port(ready: Node) -> None:
    ready.run("echo 1 > /sys/class/net/enp4s0/device/sriov_numvfs; udevadm settle")
    try:
        vf = ready.run("ls /sys/class/net/enp4s0/device/virtfn0/net").strip()
        assert "railyard" not in link_file(ready, vf)
        assert "railyard" in link_file(ready, "enp4s0")
        assert ready.module("rail_ports", ports=PORTS)["changes"] == []
    finally:
        ready.run("echo 0 > /sys/class/net/enp4s0/device/sriov_numvfs; udevadm settle")
    ready.module("rail_ports", ports=PORTS)
    assert live(ready) == PLANNED


# The subsystem as the module runs it, as a process of its own that a test can kill.
PROGRAM = """
import json, sys
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import rail_ports as ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import system
options = json.load(open("/run/railyard-ports.json"))
rails = ports.RailPorts.from_options(options, system.System())
state = rails.observe()
subsystem.converge(rails, state, rails.changes(state), [])
"""
MOMENTS = (
    "[ -e %s ]" % RECORD,
    "ip link show enp2s0 | grep -q 4200",
    "ip address show enp3s0 | grep -q 172.16",
    "ip rule | grep -q 10003",
    "[ -e /etc/systemd/network/05-railyard-gpu02.network ]",
    "grep -qs railyard /run/systemd/netif/links/2",
)


def archive() -> str:
    """The collection's node code as a zip file, in base64."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as held:
        place = "ansible_collections/railyard/fabric/plugins/module_utils/"
        root = ROOT / "plugins/module_utils"
        for path in [*(root / "_common").rglob("*.py"), *(root / "_node").rglob("*.py")]:
            held.writestr(place + path.relative_to(root).as_posix(), path.read_text())
    return base64.b64encode(stream.getvalue()).decode()


@pytest.fixture(scope="module")
def killable(guest: Node) -> t.Iterator[str]:
    """A command that runs :data:`PROGRAM`; its options are in /run/railyard-ports.json."""
    guest.put("/run/railyard-ports.b64", archive())
    guest.run("base64 -d /run/railyard-ports.b64 > /run/railyard-ports.zip")
    guest.put("/run/railyard-ports.py", PROGRAM)
    options = {"ports": PORTS, "state": "present", "backend": "auto", "persist": True, "timeout": 120}
    guest.put("/run/railyard-ports.json", json.dumps(options))
    yield "PYTHONPATH=/run/railyard-ports.zip python3 /run/railyard-ports.py"
    guest.run("rm -f /run/railyard-ports.*")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.long
def test_a_kill_at_any_point_is_fixed_by_the_next_run(guest: Node, killable: str, moment: str) -> None:
    guest.module("rail_ports", state="absent")
    guest.run("for n in 1 2 3 4; do ip link set enp${n}s0 mtu 1500 down; done")
    guest.run(
        "%s >/dev/null 2>&1 & p=$!; until %s; do [ -d /proc/$p ] || break; done; kill -9 $p; wait $p; true"
        % (killable, moment)
    )
    result = guest.module("rail_ports", ports=PORTS)
    assert result["changed"]
    assert live(guest) == PLANNED
    assert guest.module("rail_ports", ports=PORTS)["changes"] == []


@pytest.mark.long
def test_all_is_there_after_a_reboot_without_a_run(ready: Node) -> None:
    ports = [both(1, netdev="gpu01"), both(2, gateway6="fe80::1"), PORTS[2], NARROW]
    ready.module("rail_ports", ports=ports)
    ready.reboot()
    names = ready.run("ls /sys/class/net").split()
    assert "gpu01" in names
    again = ready.module("rail_ports", ports=ports)
    assert again["changes"] == []
    assert again["gathered"]["ports"] == ports
    assert ready.run("cat /proc/sys/net/ipv4/conf/gpu01/arp_announce").strip() == "2"
    ready.module("rail_ports", ports=PORTS)
    assert live(ready) == PLANNED


def test_absent_takes_all_away(ready: Node) -> None:
    ready.module("rail_ports", state="absent", ports=[PORTS[0]])
    assert live(ready, (1,))["addresses"] == {"enp1s0": []}
    assert ready.module("rail_ports", ports=PORTS[1:])["changes"] == []
    ready.module("rail_ports", state="absent")
    assert {key: live(ready)[key] for key in ("rules", "routes", "main")} == {"rules": [], "routes": [], "main": []}
    assert ready.run("ls /etc/systemd/network /etc/sysctl.d | grep railyard || true") == ""
    assert ready.run("ls %s 2>/dev/null || true" % RECORD) == ""
    assert ready.run("networkctl --no-legend list enp1s0").split()[-1] == "unmanaged"
    assert ready.module("rail_ports", state="absent")["changes"] == []
