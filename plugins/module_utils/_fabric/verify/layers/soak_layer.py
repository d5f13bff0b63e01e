# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A soak: what happened at least once while the rounds were repeated."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_floors import floor_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe, blamed

# Counters of lost links, and the events that the verdict contains.
FLAPS = ("carrier_changes", "link_downed")
EVENTS_MAX = 200
# Layers whose failures explain those of a soak.
_TRAFFIC = ("reach", "rdma")


def soak(run: Run, seconds: float, pairs: t.Sequence[t.Sequence[str]], share: float | None) -> None:
    """Report what failed at least once, and add ``soak`` to the verdict.

    :param seconds: the time of the soak; 0: none was requested.
    :param pairs: the pairs of the run, as [server, client].
    :param share: see :func:`.pair_floors.floor_of`.
    """
    if not seconds:
        return
    soaked = [report for report in run.nodes() if report.soak]
    for report in run.nodes():
        _incomplete(run, report, seconds, {name for pair in pairs for name in pair})
    _flaps(run, soaked)
    probes = list(_probes(run, soaked))
    _failed(run, probes)
    _slow(run, probes, share)
    run.shown["soak"] = _summary(soaked, seconds)


def _incomplete(run: Run, report: NodeReport, seconds: float, members: t.Collection[str]) -> None:
    """Report a node that did not repeat its rounds: nothing is known about it."""
    row = report.soak or {}
    if report.name not in members or row.get("repetitions"):
        return
    found = "its prober returned no repetitions" if not row else "the first pass took %.0f s" % row["seconds"]
    run.warn("RV828", report.name, None, "soak", expected="repetitions for %.0f s" % seconds, found=found)


def _flaps(run: Run, soaked: t.Iterable[NodeReport]) -> None:
    for report in soaked:
        lost: dict[str, list[str]] = {}
        for row in (report.soak or {})["increases"]:
            if row["name"] in FLAPS and row["rail"] in run.rails:
                lost.setdefault(row["rail"], []).append("%s +%d" % (row["name"], row["increase"]))
        for rail, texts in lost.items():
            if not run.failed(report.name, rail):
                found = "%s%s" % (", ".join(texts), _when(report, rail, None))
                run.fail("RV826", report.name, rail, "link", expected="no change during the soak", found=found)


def _when(report: NodeReport, rail: str, peer: str | None) -> str:
    """Return when an event of a rail was noted first, in UTC; empty if it was not among the events that are kept."""
    for row in (report.soak or {})["events"]:
        if row["rail"] == rail and row["peer"] == peer:
            return ", first at %s" % time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["time"]))
    return ""


def _probes(run: Run, soaked: t.Iterable[NodeReport]) -> t.Iterator[Probe]:
    """Return the repetitions of each pair and rail as one probe, whose result is the row of the soak."""
    for report in soaked:
        ports = {port["rail"]: port for port in report.plan["ports"] if port["rail"] in run.rails}
        for row in (report.soak or {})["pairs"]:
            if row["rail"] in ports and row["peer"] in run.reports:
                soft = ports[row["rail"]]["rdma"]["type"] != "hardware"
                yield Probe(row["rail"], report.name, row["peer"], row, soft)


def _failed(run: Run, probes: t.Sequence[Probe]) -> None:
    failed = [probe for probe in probes if probe.result["failed"]]
    fine = [probe for probe in probes if not probe.result["failed"]]
    for probe, node, peer in blamed(failed, fine):
        known = [run.failed(each, probe.rail, layer) for each in probe.nodes for layer in _TRAFFIC]
        if any(known):
            continue
        row = probe.result
        when = _when(run.reports[probe.client], probe.rail, probe.server)
        found = "%d of %d failed%s: %s" % (row["failed"], row["transfers"], when, row["error"])
        run.fail("RV825", node, probe.rail, "transfers of the soak", expected="all succeed", found=found, peer=peer)


def _slow(run: Run, probes: t.Sequence[Probe], share: float | None) -> None:
    slow: list[Probe] = []
    fast: list[Probe] = []
    for probe in probes:
        floor = floor_of(run, probe, share)
        least = probe.result["least_gbits"]
        if floor is None or least is None or any(run.reports[node].others for node in probe.nodes):
            continue
        (slow if least < floor.gbits else fast).append(probe)
    for probe, node, peer in blamed(slow, fast):
        if any(run.failed(each, probe.rail, "rdma") or run.has("RV827", each, probe.rail) for each in probe.nodes):
            continue
        floor = floor_of(run, probe, share)
        expected = str(floor)
        found = "%.1f Gb/s in the slowest of %d transfers" % (probe.result["least_gbits"], probe.result["transfers"])
        run.warn("RV827", node, probe.rail, "bandwidth", expected=expected, found=found, peer=peer)


def _summary(soaked: t.Sequence[NodeReport], seconds: float) -> Row:
    rows = [(report.name, report.soak or {}) for report in soaked]
    pairs = [pair for _name, row in rows for pair in row["pairs"]]
    events = [{"node": name, **event} for name, row in rows for event in row["events"]]
    increases = [{"node": name, **each} for name, row in rows for each in row["increases"]]
    counts = [row["repetitions"] for _name, row in rows]
    return {
        "seconds": seconds,
        "nodes": len(rows),
        "repetitions": {"least": min(counts, default=0), "greatest": max(counts, default=0)},
        "transfers": sum(pair["transfers"] for pair in pairs),
        "failed": sum(pair["failed"] for pair in pairs),
        "increases": increases,
        "events": sorted(events, key=lambda event: event["time"])[:EVENTS_MAX],
    }


def lines(shown: Row | None) -> list[str]:
    """Return the summary of a soak for a terminal; empty without one."""
    if not shown:
        return []
    repetitions = shown["repetitions"]
    return [
        "soak of {:,.0f} s: {:,} to {:,} repetitions on {:,} nodes; {:,} transfers, {:,} failed".format(
            *(shown["seconds"], repetitions["least"], repetitions["greatest"], shown["nodes"]),
            *(shown["transfers"], shown["failed"]),
        )
    ]
