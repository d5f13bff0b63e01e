# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leaf switches, with the real sockets that guests use."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from lab import cable, lacp, leaf, process
from lab.errors import LabError
from lab.state import REPOSITORY
from tests.waiting import retried

# How many datagrams a socket receives at most before its owner reads them: 10, or 512 under systemd.
QUEUE = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
BROADCAST = b"\xff" * 6
IPV4 = b"\x08\x00"


def address(node: int, rail: int = 1) -> bytes:
    return bytes((0x52, 0x54, 0, 0x4C, node, rail))


class Nic:
    """What QEMU is to the leaf: a socket of its own that sends to the leaf's."""

    def __init__(self, run: Path, node: int, rail: int = 1) -> None:
        self.address = address(node, rail)
        self.leaf = str(run / ("n%dr%d.leaf" % (node, rail)))
        self.path = run / ("n%dr%d.nic" % (node, rail))
        self.start()

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(str(self.path))

    def send(self, target: bytes, payload: bytes = b"x" * 46) -> bytes:
        frame = target + self.address + IPV4 + payload
        self.socket.sendto(frame, self.leaf)
        return frame

    def received(self) -> list[bytes]:
        frames = []
        while True:
            try:
                frames.append(self.socket.recv(65536))
            except BlockingIOError:
                return frames


class Bench:
    """A switch of three nodes and two rails with a NIC on every port."""

    def __init__(self, run: Path) -> None:
        self.switch = leaf.Switch(run, 3, 2)
        self.nics = {(node, rail): Nic(run, node, rail) for node in (1, 2, 3) for rail in (1, 2)}

    def nic(self, node: int, rail: int = 1) -> Nic:
        return self.nics[node, rail]

    def turn(self) -> None:
        for _each in range(10):
            self.switch.turn(0.0)

    def heard(self) -> dict[tuple[int, int], list[bytes]]:
        """What each NIC received since it was last asked; the silent ones are left out."""
        self.turn()
        everything = {place: nic.received() for place, nic in self.nics.items()}
        return {place: frames for place, frames in everything.items() if frames}

    def obey(self, **command: Any) -> None:
        self.switch.execute(command)

    def port(self, node: int, rail: int = 1) -> leaf.Port:
        return self.switch.ports[node, rail]


@pytest.fixture
def bench(run: Path) -> Iterator[Bench]:
    made = Bench(run)
    yield made
    made.switch.close()
    for nic in made.nics.values():
        nic.socket.close()


def test_unknown_address_reaches_every_port_of_its_rail_alone(bench: Bench) -> None:
    frame = bench.nic(1).send(address(2))
    assert bench.heard() == {(2, 1): [frame], (3, 1): [frame]}


def test_learned_address_reaches_its_port_alone(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.heard()
    frame = bench.nic(1).send(address(2))
    assert bench.heard() == {(2, 1): [frame]}


def test_address_that_moves_is_learned_again(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.heard()
    bench.nic(3).address = address(2)
    bench.nic(3).send(BROADCAST)
    bench.heard()
    frame = bench.nic(1).send(address(2))
    assert bench.heard() == {(3, 1): [frame]}


def test_frame_is_not_sent_back_where_it_came_from(bench: Bench) -> None:
    bench.nic(1).send(BROADCAST)
    bench.heard()
    bench.nic(1).send(address(1))
    assert bench.heard() == {}


def test_bridge_group_frames_end_at_the_leaf(bench: Bench) -> None:
    bench.nic(1).send(leaf.LLDP_GROUP)
    assert bench.heard() == {}


def test_jumbo_and_vlan_frames_pass_unchanged(bench: Bench) -> None:
    tagged = b"\x81\x00\x00\x64" + IPV4 + os.urandom(9000)
    sent = BROADCAST + address(1) + tagged
    bench.nic(1).socket.sendto(sent, bench.nic(1).leaf)
    assert bench.heard()[2, 1] == [sent]


def test_every_frame_of_a_burst_arrives_in_order_though_the_queue_holds_ten(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.heard()
    sent, got = [], []
    for number in range(300):
        sent.append(bench.nic(1).send(address(2), struct.pack("!I", number) * 12))
        bench.turn()
    for _each in range(300):
        got += bench.nic(2).received()
        bench.turn()
    assert got == sent
    assert bench.port(2).dropped == 0
    assert not bench.port(2).backlog


def test_guest_that_does_not_read_costs_bounded_memory_and_blocks_no_other(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.nic(3).send(BROADCAST)
    bench.heard()
    for _each in range(leaf.BACKLOG + QUEUE + 190):
        bench.nic(1).send(address(2))
        bench.turn()
    assert len(bench.port(2).backlog) == leaf.BACKLOG
    assert bench.port(2).dropped >= 100
    frame = bench.nic(1).send(address(3))
    bench.turn()
    assert bench.nic(3).received() == [frame]


def test_absent_guest_loses_its_frames_and_is_found_again_after_its_restart(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.heard()
    bench.nic(2).socket.close()
    bench.nic(1).send(address(2))
    bench.turn()
    assert bench.port(2).dropped == 1
    bench.nic(2).start()
    frame = bench.nic(1).send(address(2))
    assert bench.heard() == {(2, 1): [frame]}
    answer = bench.nic(2).send(address(1))
    assert bench.heard() == {(1, 1): [answer]}


def test_guest_that_restarts_with_a_backlog_waiting_is_found_again(bench: Bench) -> None:
    bench.nic(2).send(BROADCAST)
    bench.heard()
    for _each in range(QUEUE + 30):
        bench.nic(1).send(address(2))
        bench.turn()
    assert bench.port(2).backlog
    bench.nic(2).socket.close()
    bench.turn()
    bench.nic(2).start()
    last = bench.nic(1).send(address(2), b"last" * 12)
    heard = bench.heard()[2, 1]
    for _each in range(QUEUE + 30):
        heard += bench.heard().get((2, 1), [])
    assert heard[-1] == last


def test_cut_cable_carries_nothing_either_way_until_repaired(bench: Bench) -> None:
    bench.obey(do="cut", port=[1, 1])
    bench.nic(1).send(BROADCAST)
    frame = bench.nic(2).send(BROADCAST)
    assert bench.heard() == {(3, 1): [frame]}
    bench.obey(do="repair", port=[1, 1])
    frame = bench.nic(1).send(BROADCAST)
    assert bench.heard() == {(2, 1): [frame], (3, 1): [frame]}


def test_narrow_cable_drops_larger_packets_alone(bench: Bench) -> None:
    bench.obey(do="mtu", port=[2, 1], bytes=1500)
    small = bench.nic(1).send(BROADCAST, b"s" * 1500)
    large = bench.nic(1).send(BROADCAST, b"l" * 4200)
    assert bench.heard() == {(2, 1): [small], (3, 1): [small, large]}


@pytest.mark.parametrize(("percent", "low", "high"), [(0, 400, 400), (100, 0, 0), (25, 240, 360)])
def test_lossy_cable_loses_about_its_share(bench: Bench, percent: float, low: int, high: int) -> None:
    random.seed(7)
    bench.obey(do="loss", port=[1, 1], percent=percent)
    arrived = 0
    for _each in range(400):
        bench.nic(1).send(BROADCAST)
        arrived += len(bench.heard().get((2, 1), []))
    assert low <= arrived <= high


def test_swapped_cables_land_on_each_others_leaf(bench: Bench) -> None:
    bench.obey(do="swap", port=[1, 1], other=[1, 2])
    frame = bench.nic(1, 1).send(BROADCAST)
    assert bench.heard() == {(2, 2): [frame], (3, 2): [frame]}
    bench.obey(do="repair")
    frame = bench.nic(1, 1).send(BROADCAST)
    assert bench.heard() == {(2, 1): [frame], (3, 1): [frame]}


def test_repairing_one_of_three_turned_cables_keeps_one_cable_per_socket(bench: Bench) -> None:
    bench.obey(do="swap", port=[1, 1], other=[1, 2])
    bench.obey(do="swap", port=[1, 1], other=[2, 2])
    bench.obey(do="repair", port=[1, 1])
    sockets = {(port.leaf, port.socket) for port in bench.switch.ports.values()}
    assert len(sockets) == 6
    assert (bench.port(1).leaf, bench.port(1).socket) == (1, 1)


def read_lldp(frame: bytes) -> dict[int, bytes]:
    assert frame[:6] == leaf.LLDP_GROUP
    assert frame[12:14] == b"\x88\xcc"
    values, rest = {}, frame[14:]
    while rest:
        (head,) = struct.unpack("!H", rest[:2])
        kind, size = head >> 9, head & 0x1FF
        if kind == 0:
            break
        values[kind] = rest[2 : 2 + size]
        rest = rest[2 + size :]
    return values


def test_lldp_names_the_leaf_and_socket_that_the_cable_is_in(bench: Bench) -> None:
    bench.obey(do="swap", port=[1, 1], other=[2, 2])
    bench.obey(do="lldp", port=[1, 1], on=True)
    heard = bench.heard()
    assert list(heard) == [(1, 1)]
    values = read_lldp(heard[1, 1][0])
    assert values[1] == b"\x07leaf-2"
    assert values[2] == b"\x05Ethernet2"
    assert values[3] == struct.pack("!H", 120)
    assert values[5] == b"leaf-2"


def test_lldp_names_the_rail_and_the_plane(bench: Bench) -> None:
    bench.obey(do="layout", layout="planes")
    bench.obey(do="lldp", port=[1, 2], on=True)
    assert read_lldp(bench.heard()[1, 2][0])[1] == b"\x07leaf-1-2"
    # another layout withdraws the name
    bench.obey(do="layout", layout="mlag")
    (frame,) = bench.heard()[1, 2]
    assert (read_lldp(frame)[1], read_lldp(frame)[3]) == (b"\x07leaf-1-2", b"\0\0")


def test_lldp_is_repeated_on_time_and_stops_on_command(bench: Bench) -> None:
    bench.obey(do="lldp", port=[3, 2], on=True, chassis="sw7", port_name="Eth1/9")
    values = read_lldp(bench.heard()[3, 2][0])
    assert (values[1], values[2]) == (b"\x07sw7", b"\x05Eth1/9")
    assert bench.heard() == {}
    bench.switch.next_lldp = time.monotonic() - 1
    assert len(bench.heard()[3, 2]) == 1
    bench.obey(do="lldp", port=[3, 2], on=False)
    # the neighbour forgets it at once
    (last,) = bench.heard()[3, 2]
    assert (read_lldp(last)[1], read_lldp(last)[3]) == (b"\x07sw7", b"\0\0")
    bench.switch.next_lldp = 0.0
    assert bench.heard() == {}


def test_lldp_of_a_place_that_a_cable_left_is_unsaid(bench: Bench) -> None:
    bench.obey(do="lldp", port=[1, 1], on=True)
    bench.heard()
    bench.obey(do="swap", port=[1, 1], other=[2, 2])
    (frame,) = bench.heard()[1, 1]
    assert (read_lldp(frame)[1], read_lldp(frame)[3]) == (b"\x07leaf-1", b"\0\0")


def test_restored_cables_are_as_they_were_described(bench: Bench) -> None:
    bench.obey(do="swap", port=[1, 1], other=[2, 2])
    bench.obey(do="cut", port=[3, 1])
    bench.obey(do="loss", port=[3, 2], percent=5)
    bench.obey(do="vlan", port=[3, 2], id=7, on=False)
    bench.obey(do="lacp", port=[2, 1], on=False)
    kept = bench.switch.execute({"do": "show"})["ports"]
    bench.obey(do="repair")
    assert bench.switch.execute({"do": "show"})["ports"] != kept
    assert bench.switch.execute({"do": "restore", "ports": kept})["ports"] == kept


class BondMember:
    """A NIC of a bond with LACP: it sends LACPDUs, and describes the leaf as it last heard it."""

    def __init__(self, nic: Nic, system: bytes, number: int) -> None:
        self.nic = nic
        self.side = lacp.Party(65535, system, 9, 255, number, lacp.ACTIVE | lacp.SHORT | lacp.AGGREGATION)
        self.leaf = lacp.UNKNOWN
        self.seen = lacp.UNKNOWN  # this side, as the leaf knows it

    def send(self, synchronized: bool = True) -> None:
        state = self.side.state | (lacp.SYNCHRONIZED if synchronized else 0)
        self.side = self.side._replace(state=state)
        self.nic.socket.sendto(lacp.frame(self.nic.address, self.side, self.leaf), self.nic.leaf)

    def listen(self) -> list[bytes]:
        """Take in LACPDUs. Return the other frames."""
        others = []
        for frame in self.nic.received():
            pair = lacp.read(frame)
            if pair is None:
                others.append(frame)
            else:
                self.leaf, self.seen = pair
        return others

    @property
    def in_aggregate(self) -> bool:
        return bool(self.leaf.state & lacp.DISTRIBUTING)


def bond(bench: Bench, node: int, rails: tuple[int, ...] = (1, 2)) -> list[BondMember]:
    """Negotiate LACP on ports of a node, as a bond of Linux does, and return its members."""
    members = [BondMember(bench.nic(node, rail), address(node, 0xB0), rail) for rail in rails]
    for _round in range(3):
        for member in members:
            member.send()
        bench.turn()
        for member in members:
            member.listen()
    return members


def test_lacpdu_has_the_layout_of_the_standard() -> None:
    side = lacp.Party(65535, address(1), 9, 255, 1, 0x3D)
    sent = lacp.frame(address(1), side, lacp.UNKNOWN)
    assert len(sent) == 124
    assert sent[:20].hex(" ") == "01 80 c2 00 00 02 52 54 00 4c 01 01 88 09 01 01 01 14 ff ff"
    assert sent[20:36].hex(" ") == "52 54 00 4c 01 01 00 09 00 ff 00 01 3d 00 00 00"
    assert sent[36:38] + sent[56:58] + sent[72:74] == b"\x02\x14\x03\x10\0\0"
    assert lacp.read(sent) == (side, lacp.UNKNOWN)
    assert lacp.read(leaf.lldp_frame(1, 1)) is None
    assert lacp.read(sent[:40]) is None


def test_bond_on_a_pair_of_leaves_is_one_aggregate_with_one_partner(bench: Bench) -> None:
    bench.obey(do="layout", layout="mlag")
    first, second = bond(bench, 1)
    assert first.in_aggregate and second.in_aggregate
    assert first.leaf[:3] == second.leaf[:3]
    assert first.leaf.port != second.leaf.port
    # a broadcast of the bond does not return to it, and the bond hears one of others once
    frame = first.nic.send(BROADCAST)
    assert set(bench.heard()) == {(2, 1), (2, 2), (3, 1), (3, 2)}
    frame = bench.nic(2).send(BROADCAST)
    bench.turn()
    assert [*first.listen(), *second.listen()] == [frame]
    # and a frame to an address that both members send from takes one member
    first.nic.send(BROADCAST)
    second.nic.address = first.nic.address
    second.nic.send(BROADCAST)
    bench.heard()
    frame = bench.nic(2).send(first.nic.address)
    bench.turn()
    assert [*first.listen(), *second.listen()] == [frame]


def test_members_on_leaves_that_are_not_a_pair_have_different_partners(bench: Bench) -> None:
    first, second = bond(bench, 1)
    assert first.in_aggregate and second.in_aggregate
    assert first.leaf.system != second.leaf.system


def test_members_on_sockets_of_different_nodes_have_different_keys(bench: Bench) -> None:
    bench.obey(do="layout", layout="mlag")
    bench.obey(do="swap", port=[1, 2], other=[2, 2])
    first, second = bond(bench, 1)
    assert first.leaf.system == second.leaf.system
    assert first.leaf.key != second.leaf.key


def test_member_that_is_not_synchronized_carries_no_frames(bench: Bench) -> None:
    bench.obey(do="layout", layout="mlag")
    first, second = bond(bench, 1)
    second.side = second.side._replace(state=second.side.state & ~lacp.SYNCHRONIZED)
    second.send(synchronized=False)
    bench.turn()
    second.listen()
    assert not second.in_aggregate
    second.nic.send(BROADCAST)
    assert bench.heard() == {}
    frame = bench.nic(2).send(BROADCAST)
    bench.turn()
    assert (first.listen(), second.listen()) == ([frame], [])


def test_leaf_sends_no_lacpdu_to_a_nic_that_sends_none(bench: Bench) -> None:
    bond(bench, 1)
    bench.switch.keep_lacp(time.monotonic() + 100)
    assert {place for place, frames in bench.heard().items() if frames} <= {(1, 1), (1, 2)}


def test_lacpdus_are_repeated_at_the_rate_that_the_partner_asks_for(bench: Bench) -> None:
    first, second = bond(bench, 1)
    second.side = second.side._replace(state=second.side.state & ~lacp.SHORT)
    second.send()
    bench.turn()
    first.listen(), second.listen()
    begin = time.monotonic()
    for seconds in range(2, 12):
        bench.switch.keep_lacp(begin + seconds)
    bench.turn()
    assert len(first.nic.received()) == 10
    assert second.nic.received() == []


def test_partner_that_sends_nothing_any_more_is_forgotten_and_its_ports_are_single_again(bench: Bench) -> None:
    bench.obey(do="layout", layout="mlag")
    members = bond(bench, 1)
    bench.switch.keep_lacp(time.monotonic() + lacp.EXPIRY_SECONDS + 1)
    assert bench.switch.next_lacp == float("inf")
    frame = bench.nic(2).send(BROADCAST)
    bench.turn()
    assert [member.listen() for member in members] == [[frame], [frame]]


def test_silent_leaf_port_has_no_lacp_until_it_is_repaired(bench: Bench) -> None:
    bench.obey(do="lacp", port=[1, 1], on=False)
    first, second = bond(bench, 1)
    assert (first.in_aggregate, second.in_aggregate) == (False, True)
    assert cable.faults(bench.port(1, 1).describe()) == ["has no LACP partner"]
    bench.obey(do="repair", port=[1, 1])
    assert bond(bench, 1)[0].in_aggregate


def test_cut_member_leaves_its_aggregate(bench: Bench) -> None:
    bench.obey(do="layout", layout="mlag")
    first, second = bond(bench, 1)
    bench.obey(do="cut", port=[1, 1])
    frame = bench.nic(2).send(BROADCAST)
    bench.turn()
    assert (first.listen(), second.listen()) == ([], [frame])


@pytest.mark.parametrize(
    ("layout", "reached"),
    [
        ("rails", {(2, 1), (3, 1)}),
        ("mlag", {(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)}),
        ("planes", {(2, 1), (3, 1)}),
    ],
)
def test_layout_decides_which_leaves_are_one_network(bench: Bench, layout: str, reached: set[tuple[int, int]]) -> None:
    bench.obey(do="layout", layout=layout)
    bench.nic(1).send(BROADCAST)
    assert set(bench.heard()) == reached


def test_planes_are_one_network_for_aggregates_alone(bench: Bench) -> None:
    bench.obey(do="layout", layout="planes")
    first, second = bond(bench, 1)
    peer, other = bond(bench, 2)
    assert first.in_aggregate and second.in_aggregate
    assert first.leaf.system == second.leaf.system == peer.leaf.system
    bench.heard()
    # an aggregate gets frames of another over either plane; single ports, with the network of their plane, get none
    frame = first.nic.send(BROADCAST)
    bench.turn()
    assert [*peer.listen(), *other.listen()] == [frame]
    assert bench.heard() == {}
    bench.nic(3).send(BROADCAST)
    bench.turn()
    assert [*first.listen(), *second.listen(), *peer.listen(), *other.listen()] == []


def test_lost_plane_leaves_the_other_to_an_aggregate(bench: Bench) -> None:
    bench.obey(do="layout", layout="planes")
    first, second = bond(bench, 1)
    peer, other = bond(bench, 2)
    bench.obey(do="cut", port=[1, 1])
    bench.heard()
    for sender in (peer, other):
        frame = sender.nic.send(BROADCAST)
        bench.turn()
        assert (first.listen(), second.listen()) == ([], [frame])
    frame = second.nic.send(BROADCAST)
    bench.turn()
    assert [*peer.listen(), *other.listen()] == [frame]


def test_leaf_behind_the_rails_is_never_a_part_of_the_layout(run: Path) -> None:
    assert leaf.switches("flat", 4, 5) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 5}
    assert leaf.switches("mlag", 5, 6) == {1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 6}
    assert leaf.switches("planes", 5, 6) == leaf.switches("mlag", 5, 6)
    assert leaf.switches("rails", 2, 3) == {1: 1, 2: 2, 3: 3}


@pytest.mark.parametrize("kind", [b"\x81\x00", b"\x88\xa8"])
def test_filtered_vlan_is_dropped_and_no_other_frame(bench: Bench, kind: bytes) -> None:
    bench.obey(do="vlan", port=[2, 1], id=100, on=False)

    def tagged(number: int) -> bytes:
        sent = BROADCAST + address(1) + kind + struct.pack("!H", 0x2000 | number) + IPV4 + b"v" * 46
        bench.nic(1).socket.sendto(sent, bench.nic(1).leaf)
        return sent

    filtered, other, untagged = tagged(100), tagged(101), bench.nic(1).send(BROADCAST)
    assert bench.heard() == {(2, 1): [other, untagged], (3, 1): [filtered, other, untagged]}
    bench.obey(do="vlan", port=[2, 1], id=100, on=True)
    filtered = tagged(100)
    assert bench.heard()[2, 1] == [filtered]


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b'{"do": "layout"}',
        b'{"do": "layout", "layout": "ring"}',
        b'{"do": "vlan", "port": [1, 1], "id": 4095}',
        b"[]",
        b'{"do": "fly"}',
        b'{"do": "cut"}',
        b'{"do": "cut", "port": [9, 9]}',
        b'{"do": "cut", "port": [[1], 1]}',
        b'{"do": "mtu", "port": [1, 1]}',
        b'{"do": "mtu", "port": [1, 1], "bytes": "many"}',
        b'{"do": "loss", "port": [1, 1], "percent": 101}',
        b'{"do": "restore", "ports": [{"node": 1, "rail": 1}]}',
        b'{"do": "swap", "port": [1, 1], "other": null}',
    ],
)
def test_bad_command_is_refused_and_changes_nothing(bench: Bench, line: bytes) -> None:
    before = bench.switch.execute({"do": "show"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(bench.switch.run / "leaf.control"))
        client.sendall(line + b"\n")
        bench.turn()
        assert client.recv(65536).startswith(b'{"ok": false, "error": ')
    assert bench.switch.execute({"do": "show"}) == before


def test_process_answers_commands_and_takes_over_the_sockets_of_one_that_was_killed(run: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "lab.leaf", str(run), "2", "1"]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    lab = tmp_path / "lab"
    lab.mkdir()
    try:
        for _life in range(2):
            member = process.spawn(argv, lab, "leaf", lab / "leaf.log", env)
            ports = retried(lambda: cable.command(run, {"do": "show"}), LabError)
            assert [(port["node"], port["rail"]) for port in ports] == [(1, 1), (2, 1)]
            nics = [Nic(run, node) for node in (1, 2)]
            frame = nics[0].send(address(2))
            assert select.select([nics[1].socket], [], [], 120)[0]
            assert nics[1].received() == [frame]
            with pytest.raises(LabError, match="no rail port"):
                cable.command(run, {"do": "cut", "port": [3, 1]})
            os.kill(member.pid, 9)
            os.waitpid(member.pid, 0)
    finally:
        process.stop(lab, list(process.members(lab).values()))


def test_process_prints_its_usage() -> None:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-m", "lab.leaf"], env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: leaf" in done.stderr
