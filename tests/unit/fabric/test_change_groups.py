# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of many nodes and ports as few lines, of which none hides a change."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import change_groups
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_ranges

Row = t.Dict[str, t.Any]
NODES = ["hgx-%d" % number for number in range(1, 33)]
RAILS = ["rail%02d" % number for number in range(1, 9)]


@pytest.mark.parametrize(
    "names, text",
    [
        ([], ""),
        (["login"], "login"),
        (["node-1"], "node-1"),
        (["node-2", "node-1", "node-10", "node-9"], "node-[1-2,9-10]"),
        (["gpu099.lan", "gpu100.lan", "gpu1.lan"], "gpu[1,099-100].lan"),
        (["b", "a2", "a1"], "a[1-2], b"),
        (["rail%02d" % number for number in range(1, 9)], "rail0[1-8]"),
        (["rail08", "rail09", "rail10"], "rail[08-10]"),
        (["x%d" % (2 * number) for number in range(9)], "x[0,2,4,6,8,10,12,14,...]"),
        (["su%d-%02d" % (unit, node) for unit in (1, 2, 3) for node in (1, 2)], "su[1-3]-0[1-2]"),
        (["su1-01", "su1-02", "su2-01", "su2-02", "su3-02"], "su3-02, su[1-2]-0[1-2]"),
        (
            ["su%d-%d" % (unit, 2 * node) for unit in (1, 2) for node in range(9 + unit)],
            "su1-[0,2,4,6,8,10,12,14,...], su2-[0,2,4,6,8,10,12,14,...]",
        ),
        (["%s" % letter for letter in "abcdefghij"], "a, b, c, d, e, f, g, h and 2 more"),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert name_ranges.fold_names(names) == text


def test_4096_nodes_are_one_range() -> None:
    assert name_ranges.fold_names("node-%d" % number for number in range(1, 4097)) == "node-[1-4096]"


def mtu(rail: str, before: t.Any = 1500, **more: t.Any) -> Row:
    return {"subject": rail + "np0", "attribute": "mtu", "before": before, "after": 4200, "rail": rail, **more}


def lines(changes: t.Mapping[str, t.Sequence[Row]]) -> list[str]:
    found = change_groups.groups(changes)
    assert sum(group.changes for group in found) == sum(map(len, changes.values())), "no change is hidden"
    return [group.line for group in found]


def test_equal_changes_of_rails_and_nodes_are_one_line() -> None:
    assert lines({node: [mtu(rail) for rail in RAILS] for node in NODES}) == [
        "rail0[1-8] mtu: 1500 -> 4200 on 32 nodes (hgx-[1-32])"
    ]


def test_other_old_values_and_other_rails_are_other_lines() -> None:
    changes = {node: [mtu(rail) for rail in RAILS] for node in NODES}
    changes["hgx-7"] = [mtu("rail03")]
    changes["hgx-9"] = [mtu(rail, 9000) for rail in RAILS]
    changes["hgx-11"] = [mtu(rail, 9000 if rail == "rail05" else 1500) for rail in RAILS]
    assert lines(changes) == [
        "rail0[1-8] mtu: 1500 -> 4200 on 29 nodes (hgx-[1-6,8,10,12-32])",
        "rail03 mtu: 1500 -> 4200 on 1 node (hgx-7)",
        "rail0[1-4,6-8] mtu: 1500 -> 4200 on 1 node (hgx-11)",
        "rail0[1-8] mtu: 9000 -> 4200 on 1 node (hgx-9)",
        "rail05 mtu: 9000 -> 4200 on 1 node (hgx-11)",
    ]


@pytest.mark.parametrize(
    ("rails", "text"),
    [
        (["gpu01p1", "gpu01p2"], "gpu01p[1-2]"),
        (["gpu01p1", "gpu01p2", "gpu02p1", "gpu02p2"], "gpu0[1-2]p[1-2]"),
        (["gpu01n1", "gpu01n2"], "gpu01n[1-2]"),
        (["gpu1", "gpu2", "storage"], "gpu[1-2], storage"),
        (["stor1", "stor2"], "stor[1-2]"),
        (["blue", "green"], "blue, green"),
    ],
)
def test_planes_nics_and_storage_rails(rails: list[str], text: str) -> None:
    assert lines({"a": [mtu(rail) for rail in rails]}) == [text + " mtu: 1500 -> 4200 on 1 node (a)"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            [{"subject": "rail%d" % n, "attribute": "address", "before": None, "after": "10.0.%d.7/24" % n}
             for n in (1, 2, 3)],
            "address: none -> 10.0.[1-3].7/24",
        ),
        (
            [{"subject": "a", "attribute": "address", "before": "fd00:%x::1/64" % n, "after": None}
             for n in range(9, 17)],
            "address: fd00:[9-10]::1/64 -> none",
        ),
        (
            [{"subject": "0000:1%d:00.0 vf %d" % (n, v), "port": "0000:1%d:00.0" % n, "attribute": "mac",
              "before": None, "after": "02:00:00:00:0%d:0%d" % (n, v)} for n in range(3) for v in range(4)],
            "vf [0-3] mac: none -> 02:00:00:00:0[0-2]:0[0-3]",
        ),
        (
            [{"subject": "rail%d" % n, "kind": "route", "attribute": "route default table %d" % (100 + n),
              "before": None, "after": "via 10.0.%d.254" % n} for n in (1, 2)],
            "route default table [101-102]: none -> via 10.0.[1-2].254",
        ),
        (
            [{"subject": "mlx5_%d" % n, "attribute": "name", "before": "mlx5_%d" % n, "after": "mlx5_gpu%02d" % n,
              "port": "rail%d" % n} for n in (1, 2)],
            "mlx5_[1-2] name: mlx5_[1-2] -> mlx5_gpu0[1-2]",
        ),
    ],
)  # fmt: skip
def test_values_that_follow_the_plan_are_ranges(changes: list[Row], text: str) -> None:
    for number, change in enumerate(changes):
        change["rail"] = "r%d" % (number % 2)
    assert lines({"a": changes}) == ["r[0-1] %s on 1 node (a)" % text]


def test_many_values_are_counted() -> None:
    changes = {
        "n%d" % node: [dict(mtu(rail), attribute="address", before=None, after="10.%d.%d.1/24" % (7 * node, 3 * at))
                       for at, rail in enumerate(RAILS)]
        for node in range(20)
    }  # fmt: skip
    assert lines(changes) == ["rail0[1-8] address: none -> <160 addresses> on 20 nodes (n[0-19])"]


@pytest.mark.parametrize(
    "values", [("24.10-0.7", "23.10-0.5"), (1500, 9000), ("0, 0, 1", "0, 1, 0"), (True, None), (512, 256)]
)
def test_numbers_of_settings_are_not_merged(values: tuple[t.Any, t.Any]) -> None:
    changes = {str(number): [mtu("r1", value)] for number, value in enumerate(values)}
    assert len(lines(changes)) == 2


def test_files_and_steps_are_one_line_each() -> None:
    new: Row = {"attribute": "content", "before": None, "after": "text", "kind": "file"}
    files = [dict(new, subject="/etc/net/%s.network" % rail) for rail in RAILS]
    old: Row = {"subject": "/etc/old", "attribute": "content", "before": "text", "after": None, "kind": "file"}
    step: Row = {"subject": "networkd", "attribute": "loaded", "before": False, "after": True, "kind": "step"}
    assert lines({node: [*files, old, step] for node in NODES[:2]}) == [
        "8 files new: /etc/net/rail0[1-8].network on 2 nodes (hgx-[1-2])",
        "1 file removed: /etc/old on 2 nodes (hgx-[1-2])",
        "1 step: networkd loaded on 2 nodes (hgx-[1-2])",
    ]


def test_units_of_values() -> None:
    change = {"subject": "0000:1a:00.0", "attribute": "MaxReadReq", "before": 512, "after": 4096, "rail": "rail01"}
    assert lines({"a": [change]}) == ["rail01 MaxReadReq: 512 bytes -> 4096 bytes on 1 node (a)"]


def test_equal_errors_of_ports_and_nodes_are_one() -> None:
    errors = {
        node: [{"layer": "sriov", "place": "ports[%d].count" % at, "message": "%snp0 has 4 VFs" % rail,
                "remedy": "drain", "port": rail, "rail": rail} for at, rail in enumerate(RAILS)]
        for node in NODES[:2]
    }  # fmt: skip
    (group,) = change_groups.error_groups(errors)
    assert group.line == "rail0[1-8] sriov: rail0[1-8]np0 has 4 VFs on 2 nodes (hgx-[1-2])"
    assert (group.changes, group.remedy) == (16, "drain")


def test_a_thousand_changes_on_each_of_512_nodes_are_a_few_lines() -> None:
    changes = {
        "node-%d" % node: [
            dict(mtu(rail), attribute=attribute, after="10.%d.%d.1/24" % (node % 256, at))
            for attribute in ["a%s" % "x" * number for number in range(20)]
            for at, rail in enumerate(RAILS)
        ]
        for node in range(512)
    }
    found = change_groups.groups(changes)
    assert len(found) == 20 and sum(group.changes for group in found) == 512 * 160
