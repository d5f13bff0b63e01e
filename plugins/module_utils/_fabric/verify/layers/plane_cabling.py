# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the layer cabling about planes of a NIC: each has its own cable, and usually its own leaf."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import planes_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run

Place = t.Tuple[str, str]
# number of a plane -> the LLDP neighbour of its netdev; planes without one are not included
Heard = t.Mapping[int, Row]


class Wrong(t.NamedTuple):
    """What a finding about the planes of a port needs.

    :param expected: the number of a plane -> the expected leaf as text.
    :param on: whether a neighbour is the expected leaf of a plane.
    :param about: cause and peer, if others than planned leaves were compared.
    """

    expected: t.Mapping[int, str]
    on: t.Callable[[int, Row], bool]
    about: t.Mapping[str, t.Any]


def planned(run: Run, place: Place, heard: Heard, is_leaf: t.Callable[[Row, str], bool], port: Row) -> list[int]:
    """Report planes with another leaf than planned. Return the planes with the planned leaf.

    :param is_leaf: whether a neighbour has this name.
    """
    leaves = {row["plane"]: row.get("leaf") or port["leaf"] for row in planes_of(port)}
    expected = {
        plane: " ".join(each for each in (leaf.get("name"), leaf.get("port")) if each) for plane, leaf in leaves.items()
    }
    wrong = Wrong(expected, lambda plane, row: is_leaf(row, leaves[plane]["name"]), {})
    return _judge(run, place, heard, wrong)


def neighbours(run: Run, unit: str | None, rail: str, by_node: t.Mapping[str, Heard]) -> None:
    """Report planes with another leaf than the same plane of most nodes of the unit.

    Without units, a rail may have several groups of leaves. Then only planes on the leaves of each other are reported.
    """
    counts: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    names: dict[str, str] = {}
    for heard in by_node.values():
        for plane, row in heard.items():
            counts[plane][row["chassis"]] += 1
            names[row["chassis"]] = row["system"] or row["chassis"]
    usual = {plane: counter.most_common(1)[0][0] for plane, counter in counts.items()}
    for node, heard in by_node.items():
        wrong = [plane for plane, row in heard.items() if row["chassis"] != usual[plane]]
        if unit is None and {heard[plane]["chassis"] for plane in wrong} != {usual[plane] for plane in wrong}:
            continue
        alike = [
            each for each, rows in by_node.items() if all(rows[p]["chassis"] == usual[p] for p in wrong if p in rows)
        ]
        about: Row = {"remedy": "plug it into the leaf of the same plane of the other nodes"}
        clear = all(2 * counts[plane][usual[plane]] > sum(counts[plane].values()) for plane in wrong)
        if alike and not clear:
            about.update(cause="the cables of this node or of %s lead to other leaves" % alike[0], peer=alike[0])
        expected = {plane: names[chassis] for plane, chassis in usual.items()}
        _judge(run, (node, rail), heard, Wrong(expected, lambda plane, row: row["chassis"] == usual[plane], about))


def _judge(run: Run, place: Place, heard: Heard, wrong: Wrong) -> list[int]:
    """Report planes on other leaves, in one failure for planes on the leaves of each other.

    :return: the planes on the expected leaf.
    """
    node, rail = place
    other = [plane for plane in sorted(heard) if not wrong.on(plane, heard[plane])]
    crosswise = [plane for plane in other if any(wrong.on(each, heard[plane]) for each in other if each != plane)]
    for code, planes in (("RV426", crosswise), ("RV427", [plane for plane in other if plane not in crosswise])):
        if not planes:
            continue
        what = "%s %s" % ("plane" if len(planes) == 1 else "planes", ", ".join(map(str, planes)))
        expected = ", ".join("plane %d on %s" % (plane, wrong.expected[plane]) for plane in planes)
        found = ", ".join(
            "plane %d (%s) on %s %s" % (plane, row["netdev"], row["system"] or row["chassis"], row["port"])
            for plane in planes
            for row in [heard[plane]]
        )
        about = dict(wrong.about)
        if code == "RV426":
            about.pop("remedy", None)
        run.fail(code, node, rail, what, expected=expected, found=found, **about)
    return [plane for plane in sorted(heard) if plane not in other]
