# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest's command line as a function of the lab's size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import guest
from lab.image import Image
from lab.qemu import Qemu
from lab.state import MAX_RAILS, Lab

IMAGE = Image(Path("/cache/abc"), "1")
QEMU = Qemu("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-img", "10.0.2")


def lab(nodes: int = 2, rails: int = 8, accel: str = "tcg", name: str = "default") -> Lab:
    return Lab(name, nodes, rails, 1024, accel, 1, "/cache/abc", "1", [22001 + number for number in range(nodes)])


def values(argv: list[str], option: str) -> list[str]:
    return [value for key, value in zip(argv, argv[1:]) if key == option]


@pytest.mark.parametrize("rails", [1, 2, 8, MAX_RAILS])
def test_each_rail_is_one_igb_behind_a_root_port_in_the_slot_of_its_number(labs: Path, rails: int) -> None:
    devices = values(guest.command(lab(rails=rails), 1, IMAGE, QEMU), "-device")
    ports = [re.search(r"pcie-root-port,id=(port\d+),bus=pcie.0,addr=0x([0-9a-f]+)", device) for device in devices]
    assert [(port.group(1), int(port.group(2), 16)) for port in ports if port] == [
        ("port%d" % rail, rail) for rail in range(1, rails + 1)
    ]
    nics = [re.match(r"igb,bus=(port\d+),netdev=(rail\d+),", device) for device in devices]
    assert [nic.groups() for nic in nics if nic] == [("port%d" % rail, "rail%d" % rail) for rail in range(1, rails + 1)]


def test_no_two_devices_share_a_slot_of_the_root_bus(labs: Path) -> None:
    devices = values(guest.command(lab(rails=MAX_RAILS), 1, IMAGE, QEMU), "-device")
    slots = [match.group(1) for match in (re.search(r"bus=pcie.0,addr=(\w+)", device) for device in devices) if match]
    assert len(slots) == MAX_RAILS + 3
    assert len(set(slots)) == len(slots)


def test_more_rails_leave_the_earlier_ones_as_they_were(labs: Path) -> None:
    few, many = (guest.command(lab(rails=rails), 1, IMAGE, QEMU) for rails in (2, 8))
    assert many[: len(few)] == few


def test_only_node_specific_files_differ_between_nodes(labs: Path) -> None:
    of_lab = lab(nodes=3)
    lines = [guest.command(of_lab, node, IMAGE, QEMU) for node in (1, 2, 3)]
    macs = [re.findall(r"mac=([0-9a-f:]+)", " ".join(line)) for line in lines]
    assert len({mac for line in macs for mac in line}) == 3 * 9
    ids = [re.search(r"systemd.machine_id=([0-9a-f]{32})", " ".join(line)) for line in lines]
    assert len({found.group(1) for found in ids if found}) == 3
    assert [len(line) for line in lines] == [len(lines[0])] * 3


def test_management_is_closed_and_listens_on_loopback_alone(labs: Path) -> None:
    for node in (1, 2):
        (user,) = [net for net in values(guest.command(lab(), node, IMAGE, QEMU), "-netdev") if net.startswith("user,")]
        assert ",restrict=on," in user
        assert re.findall(r"hostfwd=(.*)", user) == ["tcp:127.0.0.1:%d-10.0.2.%d:22" % (22000 + node, 10 + node)]


def test_every_other_network_is_a_pair_of_unix_sockets(labs: Path) -> None:
    nets = [net for net in values(guest.command(lab(), 1, IMAGE, QEMU), "-netdev") if not net.startswith("user,")]
    assert len(nets) == 8
    for number, net in enumerate(nets, 1):
        assert re.fullmatch(
            r"dgram,id=rail%d,local.type=unix,local.path=\S+/n1r%d.nic,remote.type=unix,remote.path=\S+/n1r%d.leaf"
            % (number, number, number),
            net,
        )


def test_accelerator(labs: Path) -> None:
    assert values(guest.command(lab(accel="kvm"), 1, IMAGE, QEMU), "-accel") == ["kvm"]
    assert values(guest.command(lab(accel="tcg"), 1, IMAGE, QEMU), "-accel")[0].startswith("tcg,")


def test_comma_in_a_path_does_not_end_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_LAB_DIR", str(tmp_path / "a,b"))
    (drive,) = values(guest.command(lab(), 1, IMAGE, QEMU), "-drive")
    assert drive.endswith("/a,,b/default/node-1.qcow2")


def test_rail_names_follow_from_the_bus_number() -> None:
    assert (guest.rail_pci(1), guest.rail_netdev(1)) == ("0000:01:00.0", "enp1s0")
    assert (guest.rail_pci(11), guest.rail_netdev(11)) == ("0000:0b:00.0", "enp11s0")
