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
from lab.state import Lab

IMAGE = Image(Path("/cache/abc"), "1")
QEMU = Qemu("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-img", "10.0.2")


def lab(nodes: int = 2, rails: int = 8, accel: str = "tcg", name: str = "default") -> Lab:
    return Lab(name, nodes, rails, 1024, accel, 1, "/cache/abc", "1", [22001 + number for number in range(nodes)])


def values(argv: list[str], option: str) -> list[str]:
    return [value for key, value in zip(argv, argv[1:]) if key == option]


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


def test_comma_in_a_path_does_not_end_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_LAB_DIR", str(tmp_path / "a,b"))
    (drive,) = values(guest.command(lab(), 1, IMAGE, QEMU), "-drive")
    assert drive.endswith("/a,,b/default/node-1.qcow2")


def test_rail_names_follow_from_the_bus_number() -> None:
    assert (guest.rail_pci(1), guest.rail_netdev(1)) == ("0000:01:00.0", "enp1s0")
    assert (guest.rail_pci(11), guest.rail_netdev(11)) == ("0000:0b:00.0", "enp11s0")
