# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Latency tails: pairs and nodes whose slowest messages are far slower than those of comparable pairs.

Pairs are compared with pairs of the same purpose: both ports on one leaf, or on two. The limit follows from the median
and the median absolute deviation (MAD) of these pairs, which a few slow pairs do not change.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import role_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_floors import expected_gbits
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_layers import (
    probes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe

# The least number of pairs that are compared, and of partners with which a straggler is slow.
ENOUGH, PARTNERS = 8, 3
# A tail is slow above the median by this many deviations, by this factor and by these microseconds. 1.4826 MAD is the
# standard deviation of a normal distribution.
DEVIATIONS, MAD, TIMES, LEAST_US = 6.0, 1.4826, 2.0, 4.0
_NAMED = 4

Place = t.Tuple[str, str]


def tails(run: Run, pairs: t.Sequence[t.Sequence[str]], asked: bool = False) -> None:
    """Report slow tails, and add ``tails`` to the verdict if they were measured.

    :param asked: whether those of soft RDMA count (``verify_soft_rdma``), which depend on the load of the processors.
    """
    shared = {report.name for report in run.nodes() if report.others}
    measured = [
        probe
        for probe in probes(run, pairs)
        if probe.transfer.get("p99_us") is not None
        and (asked or not probe.soft)
        and not shared.intersection(probe.nodes)
        and not any(run.blocked("rdma", node, probe.rail) for node in probe.nodes)
    ]
    if not measured:
        return
    limits = _limits(run, measured)
    slow = [probe for probe in measured if probe.transfer["p99_us"] > limits.get(_peers(run, probe), float("inf"))]
    stragglers = _stragglers(measured, slow)
    for (node, rail), partners in stragglers.items():
        own = [probe for probe in slow if node in probe.nodes and probe.rail == rail]
        least = min(probe.transfer["p99_us"] for probe in own)
        expected = "99 %% of messages within %.2f us" % max(limits[_peers(run, probe)] for probe in own)
        found = "%.2f us or more with all %d partners (%s)" % (least, len(partners), first_of(sorted(partners), _NAMED))
        run.warn("RV867", node, rail, "latency tail", expected=expected, found=found)
    for probe in slow:
        if any((node, probe.rail) in stragglers for node in probe.nodes) or run.has("RV854", probe.client, probe.rail):
            continue
        expected = "99 %% of messages within %.2f us" % limits[_peers(run, probe)]
        found = "%.2f us, the slowest %.2f us" % (probe.transfer["p99_us"], probe.transfer["max_us"])
        run.warn("RV866", probe.client, probe.rail, "latency tail", expected=expected, found=found, peer=probe.server)
    run.shown["tails"] = _rows(measured, stragglers)


def _peers(run: Run, probe: Probe) -> tuple[t.Any, ...]:
    """Return what comparable pairs have in common: soft RDMA, role and bandwidth of the ports, and one leaf or two."""
    ports = [run.port(node, probe.rail) for node in probe.nodes]
    leaves = [(port.get("leaf") or {}).get("name") for port in ports]
    same = leaves[0] == leaves[1] if all(leaves) else None
    known = [each for each in (expected_gbits(run, node, probe.rail) for node in probe.nodes) if each]
    return probe.soft, role_of(ports[0]), round(min(known)) if known else None, same


def _limits(run: Run, measured: t.Sequence[Probe]) -> dict[tuple[t.Any, ...], float]:
    """Return the greatest usual tail in microseconds of each kind of pairs, if there are enough."""
    values: dict[tuple[t.Any, ...], list[float]] = {}
    for probe in measured:
        values.setdefault(_peers(run, probe), []).append(float(probe.transfer["p99_us"]))
    return {kind: limit(each) for kind, each in values.items() if len(each) >= ENOUGH}


def limit(values: t.Sequence[float]) -> float:
    """Return the value above which a tail is slow, in the unit of the values: microseconds."""
    median = statistics.median(values)
    deviation = MAD * statistics.median(abs(value - median) for value in values)
    return max(median + DEVIATIONS * deviation, median * TIMES, median + LEAST_US)


def _stragglers(measured: t.Sequence[Probe], slow: t.Sequence[Probe]) -> dict[Place, set[str]]:
    """Return the nodes and rails that are slow with all partners -> the partners."""
    every, bad = _partners(measured), _partners(slow)
    return {
        place: partners for place, partners in every.items() if len(partners) >= PARTNERS and partners == bad.get(place)
    }


def _partners(measured: t.Iterable[Probe]) -> dict[Place, set[str]]:
    found: dict[Place, set[str]] = {}
    for probe in measured:
        found.setdefault((probe.client, probe.rail), set()).add(probe.server)
        found.setdefault((probe.server, probe.rail), set()).add(probe.client)
    return found


def _rows(measured: t.Sequence[Probe], stragglers: t.Collection[Place]) -> list[Row]:
    """Return the latencies of each node and rail over its partners, for the verdict."""
    by_place: dict[Place, list[Row]] = {}
    for probe in measured:
        for node in probe.nodes:
            by_place.setdefault((node, probe.rail), []).append(probe.transfer)
    return [
        {
            "node": node,
            "rail": rail,
            "partners": len(rows),
            "median_us": round(statistics.median(row["latency_us"] for row in rows), 2),
            "p99_us": round(statistics.median(row["p99_us"] for row in rows), 2),
            "max_us": max(row["max_us"] for row in rows),
            "straggler": (node, rail) in stragglers,
        }
        for (node, rail), rows in by_place.items()
    ]
