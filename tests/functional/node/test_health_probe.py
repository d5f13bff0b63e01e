# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes through this machine's kernel: echo requests between namespaces, and packets that filters of the kernel drop.

The partners are addresses of the leaf's namespace. A filter at the leaf's port drops packets at random, by size or by
partner. To delay or mark replies, a program replies instead of the kernel.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_probe import Prober
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_judge import (
    ProbeFinding,
    ProbeVerdict,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_socket import ProbeSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.icmp import checksum
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.test_health_service import Health
from tests.unit.node.probe_network import probe_spec
from tests.waiting import SECONDS, wait_for

RAILS, PARTNERS, MTU = 4, 3, 1500
# Classic BPF: pass, or drop (TC_ACT_SHOT). A random number is at offset SKF_AD_OFF + SKF_AD_RANDOM.
PASS, DROP, RANDOM = "6 0 0 4294967295", "6 0 0 2", 0xFFFFF000 + 56


def _at_random(share: float) -> str:
    return "4,32 0 0 %d,53 0 1 %d,%s,%s" % (RANDOM, round(share * 2**32) - 1, PASS, DROP)


def _larger_than(size: int) -> str:
    return "4,128 0 0 0,37 1 0 %d,%s,%s" % (size, PASS, DROP)


def _to(address: str) -> str:
    # the destination in the IPv4 header behind the Ethernet header
    (number,) = struct.unpack("!I", socket.inet_aton(address))
    return "4,32 0 0 30,21 1 0 %d,%s,%s" % (number, PASS, DROP)


class Fabric:
    """The rails of a live node, its partners, and the node's probes."""

    def __init__(self, node: LiveNode, partners: int = PARTNERS, version6: bool = False) -> None:
        self.node = node
        # faster than on a real rail, so that the test takes less time
        spec = probe_spec(RAILS, partners, MTU, rate=60000)
        probe = spec.probe
        assert probe
        for number, rail in enumerate(spec.rails):
            node.rail(number)
            ip("link", "set", "rail%d" % number, "name", str(rail.netdev))
            ip("address", "add", str(rail.address), "dev", str(rail.netdev))
            ip("address", "add", "2001:db8:%d::100/64" % number, "dev", str(rail.netdev), "nodad")
            ip("link", "set", str(rail.netdev), "up")
            for place, partner in enumerate(probe.partners[rail.rail]):
                node.leaf("ip", "address", "add", partner.address + "/24", "dev", "leaf%d" % number)
                address6 = "2001:db8:%d::%d/64" % (number, place + 1)
                node.leaf("ip", "address", "add", address6, "dev", "leaf%d" % number, "nodad")
        if version6:
            spec = spec._replace(
                rails=tuple(
                    rail._replace(address=None, address6="2001:db8:%d::100/64" % number)
                    for number, rail in enumerate(spec.rails)
                ),
                probe=probe._replace(
                    partners={
                        rail: tuple(
                            each._replace(address="2001:db8:%d::%d" % (number, place + 1))
                            for place, each in enumerate(rows)
                        )
                        for number, (rail, rows) in enumerate(probe.partners.items())
                    }
                ),
            )
        self.prober = Prober(spec)

    def fault(self, number: int, program: str) -> None:
        """Let the leaf's port of a rail drop what the program selects."""
        port = "leaf%d" % number
        self.node.leaf("tc", "qdisc", "replace", "dev", port, "clsact")
        self.node.leaf("tc", "filter", "add", "dev", port, "ingress", "bpf", "da", "bytecode", program)

    def repair(self, number: int) -> None:
        self.node.leaf("tc", "qdisc", "del", "dev", "leaf%d" % number, "clsact")

    def run_until(self, is_so: t.Callable[[dict[str, ProbeVerdict]], bool], what: str) -> dict[str, ProbeVerdict]:
        deadline = time.monotonic() + SECONDS
        judged = time.monotonic()
        while True:
            due = self.prober.due(time.monotonic())
            assert due is not None
            time.sleep(max(0.0, due - time.monotonic()))
            self.prober.turn(time.monotonic())
            now = time.monotonic()
            if now - judged < 1:
                continue
            judged = now
            verdicts = self.prober.verdicts(now)
            if is_so(verdicts):
                return verdicts
            assert now < deadline, (what, verdicts, self.prober.figures(now))

    def healthy(self) -> None:
        def is_so(verdicts: dict[str, ProbeVerdict]) -> bool:
            # with enough round trips to compare, and a full-size packet on each rail
            return not found(verdicts) and all(each["received"] > 60 for each in self.prober.figures(0).values())

        self.run_until(is_so, "never healthy")

    def names(self, *expected: tuple[str, str, str | None]) -> None:
        """Wait until there is such a finding. There must not be another one, at any time."""

        def is_so(verdicts: dict[str, ProbeVerdict]) -> bool:
            rows = found(verdicts)
            assert set(rows) <= set(expected), rows
            return set(rows) == set(expected)

        self.run_until(is_so, "not named: %s" % (expected,))

    def clears(self) -> None:
        self.run_until(lambda verdicts: not found(verdicts), "does not end")


def found(verdicts: t.Mapping[str, ProbeVerdict]) -> list[tuple[str, str, str | None]]:
    return [(rail, each.code, each.peer) for rail, verdict in verdicts.items() for each in verdict.findings]


@in_own_namespace
def test_port_that_loses_packets_by_size_at_random_and_all(node: LiveNode) -> None:
    fabric = Fabric(node)
    fabric.healthy()
    for program, code in ((_larger_than(1400), "RV802"), (_at_random(0.3), "RV803"), (_larger_than(1), "RV801")):
        fabric.fault(1, program)
        fabric.names(("gpu02", code, None))
        fabric.repair(1)
        fabric.clears()


@in_own_namespace
def test_small_loss_is_named_by_a_burst(node: LiveNode) -> None:
    fabric = Fabric(node)
    fabric.healthy()
    before = fabric.prober.figures(0)["gpu01"]["sent"]
    fabric.fault(0, _at_random(0.02))
    fabric.names(("gpu01", "RV803", None))
    figures = fabric.prober.figures(time.monotonic())
    assert figures["gpu01"]["sent"] - before > figures["gpu02"]["sent"] - before + 100


@in_own_namespace
def test_silent_partner_degrades_one_rail_and_no_rail_if_it_is_down(node: LiveNode) -> None:
    fabric = Fabric(node)
    fabric.healthy()
    fabric.fault(2, _to("172.16.2.102"))
    fabric.names(("gpu03", "RV801", "node-2"))
    for number in (0, 1, 3):
        fabric.fault(number, _to("172.16.%d.102" % number))
    verdicts = fabric.run_until(lambda verdicts: not found(verdicts), "a partner that is down is a finding")
    assert not any(each.unknown for each in verdicts.values())


@in_own_namespace
def test_all_silent_is_unknown(node: LiveNode) -> None:
    fabric = Fabric(node)
    fabric.healthy()
    for number in range(RAILS):
        fabric.fault(number, _larger_than(1))
    verdicts = fabric.run_until(lambda verdicts: all(each.unknown for each in verdicts.values()), "not unknown")
    assert not found(verdicts)
    for number in range(RAILS):
        fabric.repair(number)
    fabric.run_until(lambda verdicts: not any(each.unknown for each in verdicts.values()), "stays unknown")


@in_own_namespace
def test_ipv6(node: LiveNode) -> None:
    fabric = Fabric(node, version6=True)
    fabric.healthy()
    fabric.fault(1, _larger_than(1400))
    fabric.names(("gpu02", "RV802", None))
    fabric.repair(1)
    fabric.clears()


@in_own_namespace
def test_recreated_interface(node: LiveNode) -> None:
    fabric = Fabric(node)
    fabric.healthy()
    received = fabric.prober.figures(0)["gpu01"]["received"]
    ip("link", "del", "gpu01")
    fabric.run_until(
        lambda _verdicts: bool(fabric.prober.figures(0)["gpu01"]["problem"]), "the interface is still there"
    )
    node.rail(0)
    ip("link", "set", "rail0", "name", "gpu01")
    ip("address", "add", "172.16.0.100/24", "dev", "gpu01")
    ip("link", "set", "gpu01", "up")
    for place in range(PARTNERS):
        node.leaf("ip", "address", "add", "172.16.0.%d/24" % (101 + place), "dev", "leaf0")
    fabric.run_until(lambda _verdicts: fabric.prober.figures(0)["gpu01"]["received"] > received + 10, "no replies")
    fabric.clears()


# A partner without echo replies of its kernel: it replies late to a share of the requests, or with
# a mark of congestion.
RESPONDER = """
import random, socket, struct, sys, time
late, share, mark = float(sys.argv[1]), float(sys.argv[4]), sys.argv[2] == "mark"
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[3].encode())
if mark:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3)
sock.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
while True:
    data, rows, _flags, sender = sock.recvmsg(65535, 256)
    if data[20] != 8:
        continue
    if random.random() < share:
        time.sleep(late)
    info = next(value for level, kind, value in rows if kind == 8)
    (total,) = struct.unpack_from("!H", data, 22)
    total += 0x0800
    reply = b"\\0\\0" + struct.pack("!H", (total & 0xFFFF) + (total >> 16)) + data[24:]
    local = struct.pack("=i", 0) + data[16:20] + data[16:20]
    sock.sendmsg([reply], [(socket.IPPROTO_IP, 8, local)], 0, sender)
"""


def _respond(node: LiveNode, number: int, late: float = 0.0, share: float = 0.0, mark: bool = False) -> None:
    node.leaf("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1")
    for each in range(RAILS):
        faulty = each == number
        arguments = (str(late if faulty else 0.0), "mark" if mark and faulty else "-", "leaf%d" % each)
        inside = ("nsenter", "--net=/proc/%d/ns/net" % node._leaf.pid, sys.executable, "-c", RESPONDER)
        node.start(*inside, *arguments, str(share if faulty else 0.0))


@in_own_namespace
def test_late_replies(node: LiveNode) -> None:
    fabric = Fabric(node)
    _respond(node, 2, late=0.1, share=0.1)
    fabric.run_until(lambda verdicts: ("gpu03", "RV854", None) in found(verdicts), "not named")


@in_own_namespace
def test_slow_path(node: LiveNode) -> None:
    fabric = Fabric(node)
    _respond(node, 3, late=0.003, share=1.0)
    fabric.run_until(lambda verdicts: ("gpu04", "RV854", None) in found(verdicts), "not named")


@in_own_namespace
def test_congestion_marks(node: LiveNode) -> None:
    fabric = Fabric(node)
    _respond(node, 1, mark=True)
    fabric.run_until(lambda verdicts: ("gpu02", "RV895", None) in found(verdicts), "not named")


@in_own_namespace
def test_unread_replies_that_the_kernel_drops_are_counted(node: LiveNode) -> None:
    """An overloaded node does not run the service in time."""
    Fabric(node)
    rail = ProbeSocket("gpu01", "172.16.0.100", ["172.16.0.101"], MTU)
    rail._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for sequence in range(200):
        rail.send(0, sequence, False)
    time.sleep(0.5)
    read = len(rail.receive())
    # the next packet shows how many were dropped before it
    rail.send(0, 200, False)
    wait_for(rail.receive)
    assert 0 < read < 200 and rail.dropped == 200 - read
    rail.close()


@in_own_namespace
def test_flood_of_foreign_replies_does_not_reach_the_program(node: LiveNode) -> None:
    fabric = Fabric(node)
    rail = ProbeSocket("gpu01", "172.16.0.100", ["172.16.0.101"], MTU)
    wait_for(lambda: rail.send(0, 7, False))
    wait_for(lambda: [each.sequence for each in rail.receive()] == [7], "no reply")
    head = struct.pack("!BBHHH", 0, 0, 0, rail._identifier, 8)
    replies = {
        "another token": head + bytes(18),
        "another identifier": struct.pack("!BBHHH", 0, 0, 0, rail._identifier ^ 1, 8) + rail._token + bytes(10),
        "too short": head + rail._token[:4],
    }
    for data in replies.values():
        _flood(node, "172.16.0.101", data)
    # the right reply, from another address
    _flood(node, "172.16.0.102", head + rail._token + bytes(10))
    rail._socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        raise AssertionError(rail._socket.recv(100))
    # the filter accepts the right reply, so that the test shows what the filter drops
    _flood(node, "172.16.0.101", head + rail._token + bytes(10), 1)
    assert wait_for(rail.receive)[0].sequence == 8
    rail.close()
    fabric.prober.close()


FLOOD = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sock.bind((sys.argv[1], 0))
for _packet in range(int(sys.argv[3])):
    sock.sendto(bytes.fromhex(sys.argv[2]), ("172.16.0.100", 0))
"""


def _flood(node: LiveNode, source: str, data: bytes, count: int = 1000) -> None:
    whole = data[:2] + struct.pack("!H", checksum(data)) + data[4:]
    node.leaf(sys.executable, "-c", FLOOD, source, whole.hex(), str(count))


@in_own_namespace
def test_rails_keep_within_their_rate(node: LiveNode) -> None:
    """Bytes that the kernel counts, against what the probes count: whole frames, with checksum."""
    fabric = Fabric(node)
    fabric.healthy()
    with open(node.system.path("/sys/class/net/gpu01/statistics/tx_bytes")) as stream:
        bits = 8 * int(stream.read())
    counted = fabric.prober.figures(0)["gpu01"]["bits"]
    # beside requests, only neighbour discovery and the messages of IPv6 of a new interface
    assert 0.9 * counted <= bits <= counted + 50000


@in_own_namespace
def test_service_fails_degrades_and_clears_rails(node: LiveNode) -> None:
    """The packed service, from its spec to its state. RDMA devices are not part of this test."""
    fabric = Fabric(node)
    fabric.prober.close()
    spec = probe_spec(RAILS, PARTNERS, MTU, rate=60000)
    assert spec.probe
    partners = {rail: [dict(each._asdict()) for each in rows] for rail, rows in spec.probe.partners.items()}
    rows = [{"rail": each.rail, "netdev": each.netdev, "mtu": MTU, "address": each.address} for each in spec.rails]
    health = Health(node)
    health.write(*rows, probe={"rate_bits": 60000, "partners": partners})
    health.start()
    health.until(
        lambda state: all(each.state == "pass" and each.probe and each.probe["rtt_us"] for each in state.rails)
    )
    fabric.fault(1, _larger_than(1))
    failed = health.until(lambda state: state.rails[1].state == "fail").rails[1]
    assert [(each.code, each.peer) for each in failed.findings] == [("RV801", None)]
    assert [each.state for each in health.until(bool).rails] == ["pass", "fail", "pass", "pass"]
    fabric.repair(1)
    health.until(lambda state: state.rails[1].state == "pass" and not state.rails[1].degraded)
    fabric.fault(2, _to("172.16.2.102"))
    degraded = health.until(lambda state: state.rails[2].degraded).rails[2]
    assert [(each.code, each.peer) for each in degraded.findings] == [("RV801", "node-2")]
    fabric.repair(2)
    health.until(lambda state: not state.rails[2].degraded)
    for number in range(RAILS):
        fabric.fault(number, _larger_than(1))
    unknown = health.until(lambda state: all(each.state == "unknown" for each in state.rails))
    assert {each.code for row in unknown.rails for each in row.findings} == {"RV894"}
    # as systemd restarts it: the state stays, and the probes begin again
    health.stop(9)
    for number in range(RAILS):
        fabric.repair(number)
    health.start()
    health.until(lambda state: all(each.state == "pass" for each in state.rails))


def test_findings_of_one_partner_do_not_fail_a_rail() -> None:
    assert [ProbeFinding(code, None, "", "").fails for code in ("RV801", "RV802", "RV803", "RV854")] == [1, 1, 1, 0]
    assert not ProbeFinding("RV801", "node-1", "", "").fails
