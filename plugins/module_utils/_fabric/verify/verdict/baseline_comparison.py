# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the bandwidth and latency of each port with its baseline, and find the ports that get a new one."""

from __future__ import annotations

import functools
import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import link_layer_of, planes_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.site_baselines import (
    FILE,
    RENEW,
    SLOWER,
    Baseline,
    Kind,
    Place,
    is_slower,
    merged,
    parse,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_layers import (
    LATE_TIMES,
    LATE_US,
    probes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe

_CONCURRENT = "RV856"


class Site(t.NamedTuple):
    """What verify knows about the baselines.

    :param mode: ``use`` or ``renew``.
    :param content: the file; None if it does not exist. :param error: why it cannot be read.
    :param nodes: the names of all nodes of the inventory: a run of some nodes keeps the baselines of others.
    :param began: when the run began, in UTC (ISO 8601).
    """

    mode: str
    content: bytes | None
    error: str
    nodes: t.Container[str]
    began: str


def baselines(run: Run, pairs: t.Sequence[t.Sequence[str]], site: Site) -> dict[Place, Baseline] | None:
    """Report ports that are slower than their baseline, and add ``baselines`` to the verdict.

    Return the baselines to write; None if the file stays as it is. Beside another run, nothing is compared or written.
    """
    if "rdma" not in run.layers or any(each.code == _CONCURRENT for each in run.warnings):
        return None
    stored: dict[Place, Baseline] = {}
    error = site.error
    if site.content is not None and not error:
        try:
            stored = parse(site.content, run.fabric["name"])
        except ValueError as why:
            error = str(why)
    if error and site.mode != RENEW:
        run.warn("RV843", None, None, FILE, expected="baselines of %s" % run.fabric["name"], found=error)
        return None
    measured = {place: _medians(rows, stored.get(place), site.began) for place, rows in _measured(run, pairs).items()}
    # before the warnings about baselines
    good = {place: each for place, each in measured.items() if _is_good(run, place)}
    planned = functools.partial(_is_planned, run, site.nodes)
    if site.mode != RENEW:
        _compare(run, measured, stored)
    new = merged(stored, good, planned, site.mode == RENEW) if run.thorough else dict(stored)
    if measured:
        run.shown["baselines"] = [_shown(place, each, new.get(place)) for place, each in sorted(measured.items())]
    return new if run.thorough and (new != stored or error) else None


def _measured(run: Run, pairs: t.Sequence[t.Sequence[str]]) -> dict[Place, list[tuple[Kind, Probe]]]:
    """Return the successful transfers of each port with a port of the same kind. Soft RDMA has none."""
    found: dict[Place, list[tuple[Kind, Probe]]] = {}
    for probe in probes(run, pairs):
        known = all(probe.transfer.get(key) for key in ("gbits", "latency_us" if run.thorough else "gbits"))
        if probe.soft or not known or any(run.blocked("rdma", node, probe.rail) for node in probe.nodes):
            continue
        client, server = (_kind(run, node, probe) for node in probe.nodes)
        for node in probe.nodes if client == server else ():
            found.setdefault((node, probe.rail), []).append((client, probe))
    return found


def _kind(run: Run, node: str, probe: Probe) -> Kind:
    plan, port = run.reports[node].plan, run.port(node, probe.rail)
    speed = port["expect"]["speed"]
    return Kind(
        float(speed * max(1, len(planes_of(port)))) if speed else None,
        plan.get("nic_family") or "",
        port["mtu"],
        link_layer_of(run.fabric, port),
        int(probe.transfer.get("size") or 0),
        bool(probe.transfer.get("gpu")),
    )


def _medians(rows: t.Sequence[tuple[Kind, Probe]], stored: Baseline | None, began: str) -> Baseline:
    """Return the medians over the pairs of the stored kind, or otherwise of the kind with the most pairs."""
    by_kind: dict[Kind, list[Row]] = {}
    for kind, probe in rows:
        by_kind.setdefault(kind, []).append(probe.transfer)
    kind = stored.kind if stored and stored.kind in by_kind else max(by_kind, key=lambda each: len(by_kind[each]))
    of_kind = by_kind[kind]
    gbits, late = ([float(each[key]) for each in of_kind if each.get(key)] or [0.0] for key in ("gbits", "latency_us"))
    return Baseline(kind, round(statistics.median(gbits), 2), round(statistics.median(late), 2), len(of_kind), began)


def _is_good(run: Run, place: Place) -> bool:
    """Return whether traffic proved a port, no failure concerns it, and no warning of RDMA."""
    node, rail = place
    return (
        place in run.carried["rdma"]
        and place not in run.lost_planes
        and not any(node in each.nodes and rail in each.rails for each in run.failures_of(node))
        and not any(node in each.nodes and rail in each.rails for each in run.warnings_of(node, "rdma"))
    )


def _is_planned(run: Run, nodes: t.Container[str], place: Place) -> bool:
    """Return whether the plan has a port. Of a node outside the run, only its name and the rails are known."""
    node, rail = place
    if node not in run.reports:
        return node in nodes and rail in run.fabric["rails"]
    return any(port["rail"] == rail for port in run.reports[node].plan["ports"])


def _compare(run: Run, measured: t.Mapping[Place, Baseline], stored: t.Mapping[Place, Baseline]) -> None:
    """Report ports that are far worse than their baseline, unless a failure explains it."""
    for (node, rail), now in measured.items():
        base = stored.get((node, rail))
        if not base or base.kind != now.kind or any(rail in each.rails for each in run.failures_of(node)):
            continue
        if is_slower(now.gbits, base):
            expected = "%.1f Gb/s or more (%d %% of %.1f Gb/s on %s)" % (
                *(base.gbits * SLOWER, round(SLOWER * 100), base.gbits, base.since[:10]),
            )
            found = "%.1f Gb/s over %d pairs" % (now.gbits, now.pairs)
            run.warn("RV841", node, rail, "bandwidth", expected=expected, found=found)
        usual = base.latency_us
        if now.latency_us > max(usual * LATE_TIMES, usual + LATE_US):
            expected = "about %.2f us as on %s" % (usual, base.since[:10])
            found = "%.2f us over %d pairs" % (now.latency_us, now.pairs)
            run.warn("RV842", node, rail, "latency", expected=expected, found=found)


def _shown(place: Place, now: Baseline, base: Baseline | None) -> Row:
    """Return a row of the verdict. ``base``: the baseline after the run."""
    row = {"node": place[0], "rail": place[1], "gbits": now.gbits, "latency_us": now.latency_us or None}
    values = (base.gbits, base.latency_us, base.since) if base else (None, None, None)
    return dict(row, **dict(zip(("baseline_gbits", "baseline_us", "since"), values)))
