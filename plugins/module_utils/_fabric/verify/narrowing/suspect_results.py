# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of probes as the choice of further rounds needs them: which of them failed, or were slow.

The verdict judges the speed of each transfer with the state of both nodes. The choice has only the planned speed and
the other transfers, and one test too many does no damage.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import SOFT_SHARE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing.fault_causes import (
    Place,
    Result,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import Leaves

# What a transfer must reach without verify_share: this part of the planned speed, and of the median at this speed.
_SHARE = 0.8
# The speed of soft RDMA here, which has none.
_SOFT = -1.0
# The least number of transfers for a median.
_ENOUGH = 4

Row = t.Mapping[str, t.Any]
# Rail, partner, whether it failed, and the bandwidth of the transfer in Gb/s or None.
Brief = t.List[t.Any]


def brief(rows: t.Iterable[Row]) -> list[Brief]:
    """Return the results of module rail_probe in short, without transfers that were not measured."""
    found = []
    for row in rows:
        reach, transfer = row.get("reach") or {}, row.get("transfer") or {}
        if transfer.get("gbits") is None and transfer.get("unmeasured"):
            continue
        lost = reach.get("sent", 0) > reach.get("received", 0)
        failed = bool(lost or transfer.get("error") or not (reach or transfer))
        found.append([row["rail"], row["peer"], failed, None if failed else transfer.get("gbits")])
    return found


def leaves(nodes: t.Mapping[str, Row]) -> dict[Place, Leaves]:
    """Return (node, rail) -> the leaves of the port. ``nodes``: as in :func:`results`."""
    return {(name, port["rail"]): tuple(port["leaves"]) for name, node in nodes.items() for port in node["ports"]}


def results(
    briefs: t.Mapping[str, t.Sequence[Brief]], nodes: t.Mapping[str, Row], share: float | None, soft: bool = False
) -> list[Result]:
    """Return the results of the tests.

    :param briefs: client -> its results.
    :param nodes: name -> the result of :func:`.probe_targets.probe_node`.
    :param share: ``verify_share``. Not for soft RDMA.
    :param soft: whether soft RDMA is judged (``verify_soft_rdma``).
    """
    speeds = {
        (name, port["rail"]): (port.get("speed") or 0) if port["rdma"]["type"] == "hardware" else _SOFT
        for name, node in nodes.items()
        for port in node["ports"]
        if soft or port["rdma"]["type"] == "hardware"
    }
    tests = [
        (rail, (client, server), failed, gbits, [speeds.get((node, rail)) for node in (client, server)])
        for client, rows in briefs.items()
        for rail, server, failed, gbits in rows
    ]
    of_speed: dict[float, list[float]] = {}
    for _rail, _ends, _failed, gbits, planned in tests:
        if gbits is not None and None not in planned:
            of_speed.setdefault(min(filter(None, planned), default=0), []).append(gbits)
    usual = {speed: statistics.median(rows) for speed, rows in of_speed.items() if len(rows) >= _ENOUGH}
    found = []
    for rail, ends, failed, gbits, planned in tests:
        slow = False
        if gbits is not None and None not in planned:
            speed = min(filter(None, planned), default=0)
            least = SOFT_SHARE if speed == _SOFT else share or _SHARE
            slow = gbits < least * max(speed, usual.get(speed, 0))
        found.append(Result(rail, ends, failed or slow, slow))
    return found
