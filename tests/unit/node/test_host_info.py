# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rail_info's lines of the layers: what their modules gather, of the ports that are asked for, and nothing changed."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import host_info, node_info
from tests.unit.node.trees import Tree

ONE, TWO = "0000:0b:00.0", "0000:0c:00.0"
CONFIG = Path(__file__).resolve().parents[2] / "recordings" / "config"


def recorded(name: str) -> bytes:
    """A configuration space as lspci printed it."""
    rows = re.findall(r"^[0-9a-f]{2,3}: ((?:[0-9a-f]{2} ?)+)$", (CONFIG / name).read_text(), re.M)
    return bytes.fromhex("".join(rows))


class Quiet(System):
    """Programs are not there, and every change fails."""

    def which(self, program: str) -> str | None:
        return None

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        raise AssertionError("wrote " + path)

    def write_attribute(self, path: str, text: str) -> None:
        raise AssertionError("wrote " + path)


@pytest.fixture
def node(tmp_path: Path) -> Quiet:
    tree = Tree(tmp_path)
    for number, (function, netdev) in enumerate(((ONE, "rail1"), (TWO, "rail2"))):
        tree.function("pci0000:00/0000:00:0%d.0/%s" % (number + 1, function), "0x020000", "8086", "10c9")
        tree.netdev(function, netdev)
        (tmp_path / "sys/bus/pci/devices" / function / "config").write_bytes(recorded("igb.txt"))
        tree.write("/proc/sys/net/ipv4/conf/%s/rp_filter" % netdev, str(number + 1))
    tree.write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")
    tree.write("/proc/cmdline", "root=/dev/vda quiet")
    return Quiet(str(tmp_path), lambda _argv, _timeout: CommandResult(127, "", "not found"))


def digest(root: str) -> str:
    found = hashlib.sha256()
    for path in sorted(Path(root).rglob("*")):
        found.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


def test_each_part_equals_the_gathered_of_its_module(node: Quiet) -> None:
    before = digest(node.root)
    # the last asks the kernel itself: on the lab
    parts = [part for part in host_info.PARTS if part != "qos"]
    found = host_info.look(node, parts)
    assert list(found) == parts and host_info.PARTS == node_info.HOST_PARTS
    assert digest(node.root) == before
    assert json.loads(json.dumps(found)) == found
    assert [row["pci"] for row in found["pci"]["ports"]] == [ONE, TWO]
    assert found["pci"]["ports"][0]["max_read_request"] in (128, 256, 512, 1024, 2048, 4096)
    assert found["kernel"]["live"] == ["root=/dev/vda", "quiet"] and found["kernel"]["loader"] is None
    assert found["limits"]["rp_filter"] == {"rail1": 1, "rail2": 2}
    assert found["gpudirect"]["path"] == "none"


@pytest.mark.parametrize("narrow", [{"netdevs": ["rail2"]}, {"functions": [TWO]}, {"netdevs": [], "functions": [TWO]}])
def test_ports_that_are_not_requested_are_omitted(node: Quiet, narrow: dict[str, t.Any]) -> None:
    found = host_info.look(node, ["pci", "limits"], **narrow)
    assert [row["pci"] for row in found["pci"]["ports"]] == [TWO]
    assert found["limits"]["rp_filter"] == {"rail2": 2}


def test_only_requested_parts_are_read(node: Quiet) -> None:
    assert list(host_info.look(node, ["system", "limits"])) == ["limits"]
