# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network namespaces there are, and who holds each, from a process tree laid out in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

FIRST, BLUE, POD, LEFT, KEPT = ("net:[%d]" % number for number in (4026531840, 4026532201, 4026532202, 4026532203, 9))


class Proc:
    def __init__(self, root: Path) -> None:
        self.root = root

    def process(self, pid: int, command: str, net: str, mnt: str = "mnt:[1]", files: tuple[str, ...] = ()) -> Path:
        place = self.root / "proc" / str(pid)
        for directory in ("ns", "fd", "task/%d/ns" % pid):
            (place / directory).mkdir(parents=True)
        (place / "comm").write_text(command + "\n")
        (place / "ns/net").symlink_to(net)
        (place / "task/{0}/ns/net".format(pid)).symlink_to(net)
        (place / "ns/mnt").symlink_to(mnt)
        for number, target in enumerate(files):
            (place / "fd" / str(number)).symlink_to(target)
        return place


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    proc = Proc(tmp_path)
    init = proc.process(1, "systemd", FIRST, files=("/dev/null", FIRST))
    (init / "mountinfo").write_text(
        "22 28 0:21 / /proc rw - proc proc rw\n"
        "80 25 0:4 {0} /run/netns/blue rw shared:5 - nsfs nsfs rw\n"
        "81 25 0:4 mnt:[77] /run/x rw - nsfs nsfs rw\n".format(BLUE)
    )
    return proc


def test_no_other_namespace_than_the_first_is_returned(tmp_path: Path) -> None:
    Proc(tmp_path).process(1, "systemd", FIRST, files=(FIRST,))
    assert network_namespaces.others(System(str(tmp_path))) == []


def test_a_named_namespace_without_a_process_is_reported(proc: Proc, tmp_path: Path) -> None:
    assert [str(each) for each in network_namespaces.others(System(str(tmp_path)))] == ["blue (no process)"]


def test_each_namespace_is_reported_with_its_holders(proc: Proc, tmp_path: Path) -> None:
    pod = proc.process(50, "trainer", POD, mnt="mnt:[2]")
    (pod / "mountinfo").write_text("")
    for pid in (61, 62, 63, 64, 65):
        proc.process(pid, "sleep", BLUE)
    proc.process(70, "containerd", FIRST, files=(LEFT, POD))
    thread = proc.process(80, "agent", FIRST)
    (thread / "task/81/ns").mkdir(parents=True)
    (thread / "task/81/ns/net").symlink_to(KEPT)
    assert [str(each) for each in network_namespaces.others(System(str(tmp_path)))] == [
        "blue (sleep pid 61, sleep pid 62, sleep pid 63, 2 more)",
        "net:[4026532202] (trainer pid 50; open in containerd pid 70)",
        "net:[4026532203] (open in containerd pid 70)",
        "net:[9] (agent pid 80)",
    ]


def test_mounts_in_other_mount_namespaces(proc: Proc, tmp_path: Path) -> None:
    place = proc.process(90, "dockerd", FIRST, mnt="mnt:[3]")
    (place / "mountinfo").write_text("9 1 0:4 %s /run/docker/netns/my\\040pod rw - nsfs nsfs rw\n" % LEFT)
    assert [each.name for each in network_namespaces.others(System(str(tmp_path)))] == [
        "/run/docker/netns/my pod",
        "blue",
    ]
