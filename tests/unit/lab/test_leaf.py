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

from lab import cable, leaf, process
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
    kept = bench.switch.execute({"do": "show"})["ports"]
    bench.obey(do="repair")
    assert bench.switch.execute({"do": "show"})["ports"] != kept
    assert bench.switch.execute({"do": "restore", "ports": kept})["ports"] == kept


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
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
