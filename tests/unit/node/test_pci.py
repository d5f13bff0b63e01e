# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions in sysfs: what they are, which belong together, how near they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from tests.unit.node.trees import INFINIBAND, Tree

SWITCH = ["pci0000:00", "0000:00:01.0", "0000:01:00.0"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # two functions of one slot
        ([*SWITCH[:2], "0000:01:00.0"], [*SWITCH[:2], "0000:01:00.1"], "PIX"),
        # one switch
        ([*SWITCH, "0000:02:00.0", "0000:03:00.0"], [*SWITCH, "0000:02:01.0", "0000:04:00.0"], "PIX"),
        # one of them a switch further down
        (
            [*SWITCH, "0000:02:00.0", "0000:03:00.0"],
            [*SWITCH, "0000:02:01.0", "0000:04:00.0", "0000:05:00.0", "0000:06:00.0"],
            "PXB",
        ),
        # root ports of one host bridge
        (["pci0000:00", "0000:00:01.0", "0000:01:00.0"], ["pci0000:00", "0000:00:02.0", "0000:02:00.0"], "PHB"),
        # on the host bridge itself
        (["pci0000:00", "0000:00:1f.6"], ["pci0000:00", "0000:00:02.0"], "PHB"),
    ],
)
def test_proximity_by_the_tree(one: list[str], other: list[str], expected: str) -> None:
    assert pci_functions.proximity(one, other, 0, 0) == expected
    assert pci_functions.proximity(other, one, 0, 0) == expected
    # where the tree shows it, NUMA does not count
    assert pci_functions.proximity(one, other, 0, 1) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"), [((0, 0), "NODE"), ((0, 1), "SYS"), ((None, None), "NODE"), ((0, None), "SYS")]
)
def test_proximity_by_the_numa_node(nodes: tuple[int | None, int | None], expected: str) -> None:
    one, other = ["pci0000:00", "0000:00:01.0"], ["pci0000:40", "0000:40:01.0"]
    assert pci_functions.proximity(one, other, *nodes) == expected


def test_a_card_with_two_ports_its_vfs_and_its_neighbour(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    first = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    second = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.1")
    tree.function("pci0000:00/0000:00:01.0/0000:0b:00.2", "0x080100")
    vfs = [tree.vf(first, index, "pci0000:00/0000:00:01.0/0000:0b:00.%d" % (3 + index)) for index in range(3)]
    other = tree.function("pci0000:00/0000:00:02.0/0000:0c:00.0", vendor="8086")
    system = tree.system()
    assert pci_functions.slot_functions(system, second) == [first, second]
    assert pci_functions.network_functions(system) == [first, second, other]
    assert pci_functions.network_functions(system, "15b3") == [first, second]
    assert pci_functions.virtual_functions(system, first) == vfs
    assert pci_functions.physical_function(system, vfs[0]) == first
    assert pci_functions.card_functions(system, first) == [first, second]
    assert pci_functions.path(system, first) == ["pci0000:00", "0000:00:01.0", first]


def test_vfs_are_in_the_order_of_their_index_not_of_their_names(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    pf = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    vfs = [tree.vf(pf, n, "pci0000:00/0000:00:01.0/0000:0b:%02x.%d" % (1 + n // 8, n % 8)) for n in range(12)]
    assert pci_functions.virtual_functions(tree.system(), pf) == vfs


def test_a_card_in_two_slots_is_one_card(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    one = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0", INFINIBAND)
    two = tree.function("pci0000:80/0000:80:01.0/0000:8b:00.0", INFINIBAND)
    three = tree.function("pci0000:80/0000:80:02.0/0000:8c:00.0", INFINIBAND)
    for number, (function, image) in enumerate(((one, "aa"), (two, "aa"), (three, "bb"))):
        tree.rdma(function, "mlx5_%d" % number, image=image)
    assert pci_functions.card_functions(tree.system(), two) == [one, two]
    assert pci_functions.card_functions(tree.system(), three) == [three]


def test_devices_without_a_guid_are_not_one_card(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (1, 2):
        function = tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number))
        tree.rdma(function, "rdma%d" % number)
    assert pci_functions.card_functions(tree.system(), "0000:01:00.0") == ["0000:01:00.0"]


def test_a_pcie_link_has_speed_in_gt_and_width_in_lanes(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    place = "pci0000:00/0000:00:01.0/0000:0b:00.0"
    width = {"current_link_width": "8", "max_link_width": "16"}
    function = tree.function(place, current_link_speed="8.0 GT/s PCIe", max_link_speed="32.0 GT/s PCIe", **width)
    assert pci_functions.link(tree.system(), function) == {"speed": 8.0, "max_speed": 32.0, "width": 8, "max_width": 16}


def test_a_function_without_a_pcie_link_has_null_values(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    unknown = {"current_link_speed": "Unknown", "current_link_width": "0", "max_link_width": "255"}
    function = tree.function("pci0000:00/0000:00:03.0", **unknown)
    assert set(pci_functions.link(tree.system(), function).values()) == {None}


def test_a_numa_node_below_zero_reads_as_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert pci_functions.numa_node(tree.system(), tree.function("pci0000:00/0000:00:03.0")) is None
    assert pci_functions.numa_node(tree.system(), tree.function("pci0000:00/0000:00:04.0", numa=1)) == 1
