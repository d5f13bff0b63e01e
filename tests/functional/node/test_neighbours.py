# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is at the other end of a cable: LLDP, who answers ARP, what a probe finds there; on the kernel itself."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import interfaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import address_watch, arp
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import rail_probe
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters, lldp
from lab.leaf import lldp_frame
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.rail_hosts import RailHost, arp_frame, detection
from tests.unit.node.trees import Tree
from tests.waiting import wait_for

# Two TLVs as a switch with MAC addresses for names sends them, with a VLAN tag before, and a management address.
TAGGED = (
    lldp.GROUPS[0]
    + bytes.fromhex("001b54c20001 8100 0001 88cc".replace(" ", ""))
    + bytes.fromhex("0207 04 001b54c20001".replace(" ", ""))
    + bytes.fromhex("0407 03 001b54c20011".replace(" ", ""))
    + bytes.fromhex("0602 0078 0000".replace(" ", ""))
)


def test_a_frame_is_read() -> None:
    read = lldp.parse(lldp_frame(3, 2, "sw12", "Eth1/7"))
    assert read == {"chassis": "sw12", "port": "Eth1/7", "port_description": "Eth1/7", "system": "sw12"}
    plain = {"port_description": None, "system": None}
    assert lldp.parse(TAGGED) == dict(plain, chassis="00:1b:54:c2:00:01", port="00:1b:54:c2:00:11")


@pytest.mark.parametrize("cut", range(0, len(lldp_frame(1, 1)) - 1, 3))
def test_a_frame_that_ends_early_is_not_an_exception(cut: int) -> None:
    frame = lldp_frame(1, 1)[:cut]
    read = lldp.parse(frame)
    assert read is None or (read["chassis"], read["port"]) == ("leaf-1", "Ethernet1")
    # a size beyond the frame's end
    assert lldp.parse(frame[:14] + struct.pack("!H", 1 << 9 | 500) + b"\x07x") is None


def test_neighbours_recorded_by_daemons_are_used(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    place = tmp_path / "run/systemd/netif/lldp"
    place.mkdir(parents=True)
    frame = lldp_frame(2, 9)
    (place / "5").write_bytes(struct.pack("<Q", len(frame)) + frame)
    neighbour = {
        "name": "ens1",
        "chassis": [{"id": [{"type": "mac", "value": "00:1b:54:c2:00:01"}], "name": [{"value": "sw1"}]}],
        "port": [{"id": [{"type": "ifname", "value": "swp4"}], "descr": [{"value": "to ai-1"}]}],
    }
    reported = json.dumps({"lldp": [{"interface": [neighbour, dict(neighbour, name="eno1")]}]})

    class Node(System):
        def which(self, program: str) -> str | None:
            return "/usr/sbin/" + program

    system = Node(str(tmp_path), lambda argv, timeout: CommandResult(0, reported, ""))
    heard = lldp.look(system, {"ens1": 4, "ens2": 5}, 0)
    assert [(row["netdev"], row["system"], row["port"], row["source"]) for row in heard] == [
        ("ens1", "sw1", "swp4", "lldpd"),
        ("ens2", "leaf-2", "Ethernet9", "systemd-networkd"),
    ]
    for text in ("", "{}", '{"lldp": {}}', '{"lldp": [{"interface": [{"chassis": 1}]}]}'):
        assert lldp._of_lldpd(Node(str(tmp_path), lambda a, b, text=text: CommandResult(0, text, "")), {"ens1"}) == []
    assert tree.root == tmp_path


# seconds to listen, were it not for an end before: the test would not end
LONG = 36000
SPEAKER = """
import socket, sys, time
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind((sys.argv[1], 0))
while True:
    sock.send(bytes.fromhex(sys.argv[2]))
    time.sleep(0.1)
"""


@in_own_namespace
def test_ports_hear_their_neighbours_side_by_side(live: LiveNode) -> None:
    for number in (1, 2, 3):
        live.rail(number)
        ip("link", "set", "rail%d" % number, "up")
    for number in (1, 2):
        frame = lldp_frame(number, 7).hex()
        live.start(
            "nsenter", "--net=/proc/%d/ns/net" % live._leaf.pid, sys.executable, "-c", SPEAKER, "leaf%d" % number, frame
        )
    netdevs = {"rail%d" % number: socket.if_nametoindex("rail%d" % number) for number in (1, 2, 3)}
    heard = lldp.look(System(), {name: netdevs[name] for name in ("rail1", "rail2")}, LONG)
    assert [(row["netdev"], row["chassis"], row["port"]) for row in heard] == [
        ("rail1", "leaf-1", "Ethernet7"),
        ("rail2", "leaf-2", "Ethernet7"),
    ]
    assert [row["netdev"] for row in lldp.listen(netdevs, 5)] == ["rail1", "rail2"]
    # a netdev that disappeared does not stop the others
    assert (
        len(lldp.listen({"gone": 4711, "rail1": netdevs["rail1"]}, LONG)) == 1 and lldp.listen({"gone": 1}, LONG) == []
    )
    # an answer of this node itself is not a neighbour
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as own:
        own.bind(("rail3", 0))
        live.start(sys.executable, "-c", SPEAKER, "rail3", lldp_frame(9, 9).hex())
        assert lldp.listen({"rail3": netdevs["rail3"]}, 1) == []


@in_own_namespace
def test_duplicate_addresses_are_found_with_their_link(live: LiveNode) -> None:
    for number in (1, 2):
        live.rail(number)
        ip("link", "set", "rail%d" % number, "up")
        ip("addr", "add", "172.16.1%d.201/24" % number, "dev", "rail%d" % number)
        live.leaf("sysctl", "-q", "net.ipv4.conf.leaf%d.arp_ignore=1" % number)
        live.leaf("ip", "addr", "add", "172.16.1%d.202/24" % (3 - number), "dev", "leaf%d" % number)
    # the peer's cables are swapped: the address of rail 2 answers on rail 1
    asked = {
        "rail1": ["172.16.11.202", "172.16.12.202"],
        "rail2": ["172.16.12.202", "172.16.11.202"],
        "gone": ["1.2.3.4"],
    }
    reported = arp.ask(asked, 2)
    assert set(reported) == {("rail1", "172.16.12.202"), ("rail2", "172.16.11.202")}
    (mac,) = reported["rail1", "172.16.12.202"]
    assert mac == json.loads(live.leaf("ip", "-j", "link", "show", "leaf1"))[0]["address"]
    # no host has learnt the sender, who has no address
    assert "172.16" not in live.leaf("ip", "neigh")


def one_network(live: LiveNode) -> dict[str, str]:
    """Connect two ports to one switch, with an address each of one subnet. Return the MAC address of each port."""
    live.leaf("ip", "link", "add", "sw", "type", "bridge")
    live.leaf("ip", "link", "set", "sw", "up")
    live.leaf("ip", "addr", "add", "172.16.11.1/24", "dev", "sw")
    for number in (1, 2):
        live.rail(number)
        live.leaf("ip", "link", "set", "leaf%d" % number, "master", "sw")
        ip("link", "set", "rail%d" % number, "up")
        ip("addr", "add", "172.16.11.20%d/24" % number, "dev", "rail%d" % number)
    return {name: Path("/sys/class/net/%s/address" % name).read_text().strip() for name in ("rail1", "rail2")}


def arp_settings(live: LiveNode, arp_ignore: int, arp_filter: int) -> None:
    for name in ("rail1", "rail2"):
        Path("/proc/sys/net/ipv4/conf/%s/arp_ignore" % name).write_text(str(arp_ignore))
        Path("/proc/sys/net/ipv4/conf/%s/arp_filter" % name).write_text(str(arp_filter))


@in_own_namespace
def test_other_ports_of_the_node_that_answer_are_reported_on_one_network(live: LiveNode) -> None:
    asked = {"rail1": ["172.16.11.201"], "rail2": ["172.16.11.202"]}
    macs = one_network(live)
    arp_settings(live, 1, 1)
    assert interfaces.duplicates(asked, macs, 0.3) == []
    arp_settings(live, 0, 0)
    assert interfaces.duplicates(asked, macs, 0.3) == [
        {"netdev": "rail1", "address": "172.16.11.201", "macs": [], "own": [macs["rail2"]]},
        {"netdev": "rail2", "address": "172.16.11.202", "macs": [], "own": [macs["rail1"]]},
    ]


@in_own_namespace
def test_a_partner_hears_each_port_that_answers_for_an_address(live: LiveNode) -> None:
    macs = one_network(live)

    def heard() -> list[str]:
        rows = [("sw", "172.16.11.1", "172.16.11.201")]
        return in_namespace(leaf.fileno(), lambda: arp.all_answers(rows, 0.6)).get(("sw", "172.16.11.201"), [])

    with open("/proc/%d/ns/net" % live._leaf.pid, "rb") as leaf:
        arp_settings(live, 0, 0)
        assert sorted(heard()) == sorted(macs.values())
        # only a request with a sender shows that the setting holds: the route to the sender is through the first port
        arp_settings(live, 0, 1)
        assert heard() == [macs["rail1"]]
        arp_settings(live, 1, 0)
        assert heard() == [macs["rail1"]]


def probes_on(netdev: str, *addresses: str) -> arp.Probes:
    return arp.Probes({netdev: list(addresses)})


def here() -> os.stat_result:
    return os.stat("/proc/self/ns/net")


@in_own_namespace
def test_a_conflict_begins_changes_and_ends_while_an_address_is_in_use(live: LiveNode) -> None:
    live.rail(1)
    ip("link", "set", "rail1", "up")
    address_watch.PROBE = address_watch.LAST_ANSWER = 0.2
    # longer than a loaded machine pauses the hosts between two of their packets
    address_watch.FORGET = 4
    watch, changes = address_watch.AddressWatch(), []
    watch.changed = lambda conflict, over: changes.append((conflict.address, conflict.macs, over))
    # a host that only probes does not conflict with an address in use
    RailHost(live, "repeat", detection("02:00:00:00:00:98", "fd00:11::1"))
    watch.add("slot", probes_on("rail1", "172.16.11.1", "fd00:11::1"), os.getpid(), here())
    hosts = [
        RailHost(live, "0", arp_frame(arp.REPLY, mac, "172.16.11.1", "0.0.0.0"))
        for mac in ("02:00:00:00:00:91", "02:00:00:00:00:92")
    ]
    wait_for(lambda: len(changes) == 2)
    ((owner, netdev, address, macs, _since),) = watch.conflicts()
    assert (owner, netdev, address, len(macs)) == ("slot", "rail1", "172.16.11.1", 2)
    for host in hosts:
        host.end()
    wait_for(lambda: len(changes) == 3)
    assert changes == [(address, macs[:1], False), (address, macs, False), (address, macs, True)]
    # and the thread ends
    wait_for(lambda: watch._thread is None)
    assert (watch.conflicts(), watch._watched) == ([], [])


@in_own_namespace
def test_the_sockets_of_a_process_that_has_ended_are_closed(live: LiveNode) -> None:
    live.rail(1)
    ip("link", "set", "rail1", "up")
    address_watch.LISTEN = 3600
    with subprocess.Popen(["sleep", "3600"]) as process:
        wait_for(lambda: os.path.samestat(os.stat("/proc/%d/ns/net" % process.pid), here()))
        watch, ended, kept = address_watch.AddressWatch(), probes_on("rail1", "1.2.3.4"), probes_on("rail1", "1.2.3.5")
        watch.add("ended", ended, process.pid, here())
        watch.add("kept", kept, os.getpid(), here())
        process.kill()
    wait_for(lambda: not ended.listeners)
    assert len(kept.listeners) == 1
    # another process with the same number is in another namespace
    watch.add("reused", ended := probes_on("rail1", "1.2.3.4"), os.getpid(), os.stat("/"))
    wait_for(lambda: not ended.listeners)
    # an owner is listened for once
    watch.add("kept", again := probes_on("rail1", "1.2.3.5"), os.getpid(), here())
    wait_for(lambda: not kept.listeners)
    assert len(again.listeners) == 1
    watch.end("kept")
    wait_for(lambda: not again.listeners)
    # an owner whose process has ended is closed at once
    watch.add("now", now := probes_on("rail1", "1.2.3.4"), os.getpid(), here())
    watch.close_ended("now")
    assert len(now.listeners) == 1
    watch._watched[-1]._namespace = os.stat("/")
    watch.close_ended("now")
    assert not now.listeners
    # an error of the thread closes all, and the next call starts another thread
    threading.excepthook = lambda _error: None
    watch.changed = lambda *_change: sys.exit("an error")
    RailHost(live, "repeat", arp_frame(arp.REPLY, "02:00:00:00:00:91", "1.2.3.4", "0.0.0.0"))
    for _attempt in range(2):
        watch.add("failed", failed := probes_on("rail1", "1.2.3.4"), os.getpid(), here())
        wait_for(lambda failed=failed: not failed.listeners)  # type: ignore[misc]


@in_own_namespace
def test_an_owner_that_comes_while_the_thread_ends_has_one_thread(live: LiveNode) -> None:
    live.rail(1)
    ip("link", "set", "rail1", "up")
    address_watch.LISTEN = 3600
    watch, first, second = address_watch.AddressWatch(), probes_on("rail1", "1.2.3.4"), probes_on("rail1", "1.2.3.5")
    first.found["rail1", "1.2.3.4"] = ["mac"]

    def changed(_conflict: address_watch.Conflict, over: bool) -> None:
        if over:
            watch.add("second", second, os.getpid(), here())

    watch.changed = changed
    watch.add("first", first, os.getpid(), here())
    (thread,) = (each for each in threading.enumerate() if each.name == "address-watch")
    watch.end("first")
    thread.join(30)
    assert len([each for each in threading.enumerate() if each.name == "address-watch"]) == 1
    assert second.listeners


@in_own_namespace
def test_sockets_and_reported_hosts_are_limited(live: LiveNode) -> None:
    live.rail(1)
    ip("link", "set", "rail1", "up")
    address_watch.LISTEN, address_watch.SOCKETS = 3600, 2
    watch, heard = address_watch.AddressWatch(), []
    watch.changed = lambda conflict, _over: heard.append(conflict)
    probes = [probes_on("rail1", "1.2.3.%d" % number) for number in range(4)]
    probes[0].found["rail1", "1.2.3.0"] = ["mac"]
    for number, each in enumerate(probes):
        watch.add(str(number), each, os.getpid(), here())
    # the oldest without a conflict are closed
    wait_for(lambda: [len(each.listeners) for each in probes] == [1, 0, 0, 1])
    frames = [arp_frame(arp.REPLY, "02:00:00:00:01:%02x" % each, "1.2.3.3", "0.0.0.0") for each in range(20)]
    with open("/proc/%d/ns/net" % live._leaf.pid, "rb") as leaf, contextlib.closing(
        arp.Listener("rail1", ["1.2.3.3"])
    ) as listener:
        in_namespace(leaf.fileno(), lambda: send("leaf1", frames))
        assert [len(listener.claims(most)) for most in (4, 0, 64, 64)] == [4, 0, 16, 0]
    wait_for(lambda: len(heard) == 1 + address_watch.HOSTS)
    assert [len(each.macs) for each in watch.conflicts()] == [1, address_watch.HOSTS]


def send(netdev: str, frames: t.Iterable[bytes]) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((netdev, 0))
        for frame in frames:
            sock.send(frame)


def target(number: int, **more: t.Any) -> dict[str, t.Any]:
    base = {"rail": "gpu0%d" % number, "peer": "ai-1", "netdev": "rail%d" % number, "device": None, "port": None}
    base.update(source="172.16.1%d.201" % number, address="172.16.1%d.202" % number, mtu=1500, error="", remedy="")
    return dict(base, **more)


def no_servers(_rails: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """The partner has no servers of perftest."""
    return []


@in_own_namespace
def test_a_probe_diagnoses_lost_packets(live: LiveNode) -> None:
    for number in (1, 2, 3):
        live.rail(number)
        ip("link", "set", "rail%d" % number, "up", "mtu", "4200")
        ip("addr", "add", "172.16.1%d.201/24" % number, "dev", "rail%d" % number)
        live.leaf("sysctl", "-q", "net.ipv4.conf.leaf%d.arp_ignore=1" % number)
        live.leaf("ip", "link", "set", "leaf%d" % number, "mtu", "4200")
    for number, other in ((1, 2), (2, 1), (3, 3)):
        live.leaf("ip", "addr", "add", "172.16.1%d.202/24" % other, "dev", "leaf%d" % number)
    # answers of more than 1500 bytes do not leave the third
    live.leaf("ip", "link", "set", "leaf3", "mtu", "1500")
    everything = [{"rail": "gpu0%d" % number, "address": "172.16.1%d.202" % number} for number in (1, 2, 3)]
    targets = [
        target(number, mtu=4200, others=[each for each in everything if each["rail"] != "gpu0%d" % number])
        for number in (1, 2, 3)
    ]
    options = {"targets": targets, "count": 1, "timeout": 4, "size": 1, "iterations": 1, "lifetime": 1}
    one, two, three = rail_probe.probe(options, System(), no_servers)
    assert [each["ok"] for each in (one, two, three)] == [False, False, False]
    assert one["found"] == {"small": False, "path_mtu": None, "answers": ["gpu02"]}
    assert two["found"] == {"small": False, "path_mtu": None, "answers": ["gpu01"]}
    assert three["found"] == {"small": True, "path_mtu": 1500, "answers": []}


@in_own_namespace
def test_rails_that_reach_each_other_are_open(live: LiveNode) -> None:
    for number in (1, 2):
        live.rail(number)
        ip("link", "set", "rail%d" % number, "up")
        ip("addr", "add", "172.16.1%d.201/24" % number, "dev", "rail%d" % number)
        ip("route", "add", "default", "via", "172.16.1%d.202" % number, "table", "10%d" % number)
        ip("rule", "add", "from", "172.16.1%d.201" % number, "lookup", "10%d" % number, "pref", "1000")
        live.leaf("ip", "addr", "add", "172.16.1%d.202/24" % number, "dev", "leaf%d" % number)
    cross = {"rail": "gpu02", "address": "172.16.12.202"}
    options = {
        "targets": [target(1, cross=cross)],
        "count": 1,
        "timeout": 4,
        "size": 1,
        "iterations": 1,
        "lifetime": 1,
    }
    assert rail_probe.probe(options, System(), no_servers)[0]["cross"] == {"rail": "gpu02", "open": True}
    live.leaf("ip", "route", "add", "blackhole", "172.16.11.201/32")
    ip("route", "add", "blackhole", "172.16.12.202/32", "table", "101")
    assert rail_probe.probe(options, System(), no_servers)[0]["cross"] == {"rail": "gpu02", "open": False}


def test_latency_is_the_typical_one() -> None:
    table = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
    row = " 2       1000          1.55           7.19         1.62                1.63   0.12   1.9   7.19\n"
    assert rail_probe.latency(table + row) == 1.62
    assert rail_probe.latency(table) is None


def test_counters_of_trouble_are_reported_and_those_of_traffic_are_not(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/sys/class/net/ens1/statistics/rx_errors", "3")
    tree.write("/sys/class/net/ens1/statistics/rx_bytes", "300")
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, value in (("out_of_sequence", "4"), ("np_cnp_sent", "9"), ("lifespan", "10"), ("rx_write_requests", "1")):
        tree.write("%s/hw_counters/%s" % (port, name), value)
    tree.write(port + "/counters/symbol_error", "1")
    tree.write(port + "/counters/port_xmit_data", "77")
    tree.write("/sys/class/infiniband/mlx5_0/ports/2/counters/symbol_error", "2")
    rows = [{"device": "mlx5_0", "port": 1}, {"device": "mlx5_0", "port": 2}, {"device": "mlx5_1", "port": 1}]
    names = counters.names(rows)
    assert names == ["mlx5_0:1", "mlx5_0:2", "mlx5_1"]
    assert counters.look(tree.system(), [], names)["devices"] == {
        "mlx5_0:1": {"symbol_error": 1, "np_cnp_sent": 9, "out_of_sequence": 4},
        "mlx5_0:2": {"symbol_error": 2},
        "mlx5_1": {},
    }
    assert counters.look(tree.system(), ["ens1"], ["mlx5_0"]) == {
        "netdevs": {"ens1": {"rx_errors": 3}},
        "devices": {"mlx5_0": {"symbol_error": 3, "np_cnp_sent": 9, "out_of_sequence": 4}},
    }


@in_own_namespace
def test_a_probe_returns_all_macs_that_answer_if_it_asks_for_them(live: LiveNode) -> None:
    live.rail(1)
    ip("link", "set", "rail1", "up")
    ip("addr", "add", "172.16.11.201/24", "dev", "rail1")
    live.leaf("ip", "addr", "add", "172.16.11.202/24", "dev", "leaf1")
    options = {"targets": [target(1, ask_arp=True)], "count": 1, "timeout": 4, "size": 1}
    (result,) = rail_probe.probe(options, System(), no_servers)
    assert result["macs"] == [json.loads(live.leaf("ip", "-j", "link", "show", "leaf1"))[0]["address"]]
    (result,) = rail_probe.probe(dict(options, targets=[target(1)]), System(), no_servers)
    assert "macs" not in result
