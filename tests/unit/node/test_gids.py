# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GID tables as sysfs has them, and the address of a GID."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids
from tests.unit.node.trees import Tree

ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:0ac0:ebff:fe00:0001"
MAPPED = "0000:0000:0000:0000:0000:ffff:ac10:0bc9"


def table(tmp_path: Path, layer: str, entries: dict[int, tuple[str, str, str]]) -> Tree:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    tree.rdma("0000:0b:00.0", "mlx5_0", layer)
    place = "/sys/class/infiniband/mlx5_0/ports/1"
    for index, (gid, kind, netdev) in entries.items():
        tree.write("%s/gids/%d" % (place, index), gid)
        if kind:
            tree.write("%s/gid_attrs/types/%d" % (place, index), kind)
            tree.write("%s/gid_attrs/ndevs/%d" % (place, index), netdev)
    return tree


def test_roce_with_holes_in_the_table(tmp_path: Path) -> None:
    tree = table(
        tmp_path,
        "Ethernet",
        {
            0: (LOCAL, "IB/RoCE v1", "ens1"),
            1: (LOCAL, "RoCE v2", "ens1"),
            2: (ZERO, "", ""),
            10: (MAPPED, "RoCE v2", "ens1.100"),
        },
    )
    held = list(gids.from_sysfs(tree.system(), "mlx5_0"))
    assert [(row["index"], row["type"], row["netdev"], row["address"]) for row in held] == [
        (0, "RoCE v1", "ens1", "fe80::ac0:ebff:fe00:1"),
        (1, "RoCE v2", "ens1", "fe80::ac0:ebff:fe00:1"),
        (10, "RoCE v2", "ens1.100", "172.16.11.201"),
    ]
    assert held[2]["gid"] == MAPPED and held[2]["device"] == "mlx5_0" and held[2]["port"] == 1


@pytest.mark.parametrize(("layer", "ethernet"), [("Ethernet", True), ("InfiniBand", False)])
def test_the_link_layer_of_a_device(tmp_path: Path, layer: str, ethernet: bool) -> None:
    assert gids.ethernet(table(tmp_path, layer, {}).system(), "mlx5_0") is ethernet


def test_gid_tables_are_read_only_until_all_addresses_are_found(tmp_path: Path) -> None:
    holes = {index: (ZERO, "", "") for index in range(2, 10)}
    rows = {0: (LOCAL, "IB/RoCE v1", "ens1"), 1: (LOCAL, "RoCE v2", "ens1"), **holes, 10: (MAPPED, "RoCE v2", "ens1")}
    system = table(tmp_path, "Ethernet", rows).system()

    def holds(*addresses: str, gap: int | None = None) -> bool:
        return gids.holds(system, "mlx5_0", addresses, gap)

    assert holds() and holds("172.16.11.201") and holds("172.16.11.201", "fe80::ac0:ebff:fe00:1", gap=9)
    assert not holds("172.16.11.201", gap=8) and not holds("172.16.11.201", "172.16.11.202")


def test_a_gid_of_infiniband_has_neither_netdev_nor_address(tmp_path: Path) -> None:
    tree = table(tmp_path, "InfiniBand", {0: (LOCAL, "IB/RoCE v1", "")})
    (row,) = gids.from_sysfs(tree.system(), "mlx5_0")
    assert (row["type"], row["netdev"], row["address"]) == ("IB", None, None)


def test_a_missing_device_has_no_gids(tmp_path: Path) -> None:
    assert list(gids.from_sysfs(Tree(tmp_path).system(), "mlx5_0")) == []


@pytest.mark.parametrize("text", ["", "fe80::1", "nonsense"])
def test_a_text_that_is_not_a_gid(tmp_path: Path, text: str) -> None:
    system = table(tmp_path, "Ethernet", {0: (text, "RoCE v2", "e")}).system()
    assert list(gids.from_sysfs(system, "mlx5_0")) == []
