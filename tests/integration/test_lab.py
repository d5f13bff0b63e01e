# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's promises, kept on running guests. The lab is left as it was found."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from lab import access, booted, cli, guest, host, image, process, qemu, state
from lab.errors import LabError
from lab.image import Image
from lab.state import Lab

pytestmark = pytest.mark.lab
NAME = os.environ.get("RAILYARD_LAB", "default")
OTHER = NAME + "-other"
TAG = "before-tests"
PF = "/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """The lab, with addresses on rails 1 and 2 of nodes 1 and 2, and back as it was at the end."""
    found = state.require(NAME)
    assert cli.main(["snapshot", "save", TAG, "--name", NAME]) == 0
    for node in (1, 2):
        for rail in (1, 2):
            netdev = "enp%ds0" % rail
            shell(
                found,
                node,
                "ip link set %s mtu 4200 up; ip addr add 198.51.%d.%d/24 dev %s" % (netdev, rail, node, netdev),
            )
    assert soon(lambda: reaches(found, 1) and reaches(found, 2))
    assert cli.main(["snapshot", "save", "tests", "--name", NAME]) == 0
    yield found
    assert cli.main(["snapshot", "restore", TAG, "--name", NAME]) == 0
    for tag in (TAG, "tests"):
        assert cli.main(["snapshot", "delete", tag, "--name", NAME]) == 0


@pytest.fixture(autouse=True)
def repaired(lab: Lab) -> Iterator[None]:
    yield
    assert cable("repair") == 0


def shell(lab: Lab, node: int, line: str) -> str:
    """What a shell line prints on a node, run as root."""
    out = access.run(lab, node, line, user="root")
    assert out is not None, "node %d: %s failed" % (node, line)
    return out.strip()


def reaches(lab: Lab, rail: int, size: int = 4172) -> bool:
    """Whether a packet of ``size`` + 28 bytes passes unfragmented from node 1 to node 2."""
    return access.run(lab, 1, "ping -q -c 1 -W 3 -M do -s %d 198.51.%d.2" % (size, rail)) is not None


def soon(question: Callable[[], bool], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def cable(*words: str) -> int:
    return cli.main(["cable", *words, "--name", NAME])


def test_second_up_changes_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    before = [access.boot_id(lab, node) for node in (1, 2)]
    assert cli.main(["up", "--name", lab.name]) == 0
    assert "changed nothing" in capsys.readouterr().out
    assert [access.boot_id(lab, node) for node in (1, 2)] == before


def test_cut_cable_is_a_link_without_carrier(lab: Lab) -> None:
    assert soon(lambda: shell(lab, 1, "cat /sys/class/net/enp1s0/carrier") == "1")
    cable("cut", "node-1:1")
    assert soon(lambda: shell(lab, 1, "cat /sys/class/net/enp1s0/carrier") == "0")
    assert shell(lab, 1, "cat /sys/class/net/enp2s0/carrier") == "1"
    assert not reaches(lab, 1)
    cable("repair", "node-1:1")
    assert soon(lambda: reaches(lab, 1))


def test_narrow_cable_passes_small_packets_alone(lab: Lab) -> None:
    cable("mtu", "node-2:1", "1500")
    assert soon(lambda: reaches(lab, 1, 1400))
    assert not reaches(lab, 1)


def test_swapped_cables_lead_to_the_other_rail(lab: Lab) -> None:
    cable("swap", "node-1:1", "node-1:2")
    assert not reaches(lab, 1)
    assert not reaches(lab, 2)
    cable("repair")
    assert soon(lambda: reaches(lab, 1) and reaches(lab, 2))


def test_cable_with_full_loss_loses_everything(lab: Lab) -> None:
    cable("loss", "node-1:2", "100")
    assert not reaches(lab, 2)
    assert soon(lambda: reaches(lab, 1))


def test_node_hears_lldp_from_the_leaf_that_it_is_plugged_into(lab: Lab) -> None:
    listener = "timeout 300 tcpdump -l -v -c 1 -i enp1s0 ether proto 0x88cc"
    shell(lab, 1, "rm -f /tmp/heard; (%s >/tmp/heard 2>/dev/null &)" % listener)

    def heard() -> bool:
        cable("lldp", "node-1:1", "on")
        return {"leaf-1", "Ethernet1"} <= set(re.findall(r"[\w-]+", shell(lab, 1, "cat /tmp/heard")))

    assert soon(heard)
    cable("lldp", "node-1:1", "off")


def test_guest_cannot_reach_this_machine_though_its_default_route_is_management(lab: Lab) -> None:
    assert "via 10.0.2.2 dev enp0s30" in shell(lab, 1, "ip route show default")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.1)
        probe = "import socket; socket.create_connection(('10.0.2.2', %d), 3)" % server.getsockname()[1]
        assert access.run(lab, 1, 'python3 -c "%s"' % probe) is None
        with pytest.raises(TimeoutError):
            server.accept()


def test_restore_takes_guests_cables_and_clocks_back(lab: Lab) -> None:
    shell(lab, 1, "touch /root/mark; echo 2 >%s" % PF)
    cable("cut", "node-1:2")
    cable("swap", "node-2:1", "node-2:2")
    assert cli.main(["snapshot", "restore", "tests", "--name", lab.name]) == 0
    assert shell(lab, 1, "ls /root/mark 2>/dev/null || cat %s" % PF) == "0"
    assert soon(lambda: reaches(lab, 1) and reaches(lab, 2))
    for node in (1, 2):
        assert abs(float(shell(lab, node, "date +%s.%N")) - time.time()) < 60


def test_vfs_made_after_a_restore_carry_frames(lab: Lab) -> None:
    shell(lab, 1, "echo 1 >%s" % PF)
    assert cli.main(["snapshot", "restore", "tests", "--name", lab.name]) == 0
    shell(lab, 1, "echo 1 >%s; udevadm settle; ip netns add pod; ip link set enp1s0v0 netns pod" % PF)
    shell(lab, 1, "ip -n pod link set enp1s0v0 mtu 4200 up; ip -n pod addr add 198.51.1.9/24 dev enp1s0v0")
    ping = "ip netns exec pod ping -q -c 1 -W 3 -M do -s 4172 198.51.1.2"
    assert soon(lambda: access.run(lab, 1, ping, user="root") is not None)
    assert cli.main(["snapshot", "restore", "tests", "--name", lab.name]) == 0


def test_snapshot_of_vfs_is_refused(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    shell(lab, 1, "echo 1 >%s" % PF)
    assert cli.main(["snapshot", "save", "vfs", "--name", lab.name]) == 1
    assert "node-1 has VFs" in capsys.readouterr().err
    shell(lab, 1, "echo 0 >%s" % PF)
    assert not (lab.directory / "snapshot-vfs.json").exists()


def test_snapshot_that_is_not_there_names_those_that_are(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshot", "restore", "nosuch", "--name", lab.name]) == 1
    assert TAG in capsys.readouterr().err


@pytest.mark.long
def test_node_reboots_both_ways(lab: Lab) -> None:
    for how in ([], ["--hard"]):
        before = access.boot_id(lab, 2)
        assert cli.main(["reboot", "node-2", *how, "--name", lab.name]) == 0
        assert access.boot_id(lab, 2) not in (before, None)
    assert cli.main(["snapshot", "restore", "tests", "--name", lab.name]) == 0


@pytest.mark.long
def test_killed_guest_and_leaf_are_started_again_and_the_rest_left_alone(lab: Lab) -> None:
    before = process.members(lab.directory)
    for part in ("leaf", "node-2"):
        os.kill(before[part].pid, 9)
    assert cli.main(["up", "--name", lab.name]) == 0
    after = process.members(lab.directory)
    assert after["node-1"] == before["node-1"]
    assert {"leaf", "node-2"} <= set(after)
    assert cli.main(["snapshot", "restore", "tests", "--name", lab.name]) == 0
    assert soon(lambda: reaches(lab, 1) and reaches(lab, 2))


@pytest.fixture
def other(lab: Lab) -> Iterator[str]:
    """The name of a second lab. It ends after the test."""
    yield OTHER
    assert cli.main(["down", "--name", OTHER]) == 0


def machine(name: str, part: str) -> str:
    """Return the command line of a process of a lab."""
    member = process.members(state.state_directory(name))[part]
    return Path("/proc/%d/cmdline" % member.pid).read_text().replace("\0", " ")


def stored(lab: Lab) -> Path:
    """Return the directory of the stored guest for the first node of a lab."""
    found = image.find(Path(lab.image))
    assert isinstance(found, Image)
    return booted.directory(lab, 1, found, qemu.ensure(host.Host.read(), image.cache_directory()))


def test_a_new_lab_starts_from_a_stored_boot(lab: Lab, other: str) -> None:
    if lab.accel == "kvm":
        assert not stored(lab).exists()
        return
    assert cli.main(["up", "--name", other, "--nodes", "1", "--rails", str(lab.rails)]) == 0
    assert "-incoming file:%s" % (stored(lab) / guest.STORED_MEMORY) in machine(other, "node-1")
    found = state.require(other)
    assert abs(float(shell(found, 1, "date +%s.%N")) - time.time()) < 60
    assert shell(found, 1, "hostname; systemctl is-system-running; touch /root/mark").split() == ["node-1", "running"]


def test_a_stored_boot_that_does_not_start_is_discarded(
    lab: Lab, other: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def does_not_wait(*_arguments: object) -> None:
        raise LabError("the test does not wait for the boot", "none")

    damaged = stored(dataclasses.replace(lab, name=other, nodes=1, rails=1, accel="tcg"))
    damaged.mkdir()
    shutil.copy(stored(lab) / guest.STORED_DISK, damaged)
    (damaged / guest.STORED_MEMORY).write_bytes(b"damaged")
    monkeypatch.setattr(access, "wait", does_not_wait)
    assert cli.main(["up", "--name", other, "--nodes", "1", "--rails", "1", "--accel", "tcg"]) == 1
    assert "node-1 does not start from %s, and boots" % damaged in capsys.readouterr().err
    assert not damaged.exists()
    assert "-incoming" not in machine(other, "node-1")
