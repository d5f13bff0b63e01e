# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What probes and counters did not measure, although the layers reach and rdma judge it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import counter_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import Floor
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import (
    NOT_SENT,
    RUN_AGAIN,
    Probe,
    sent,
)

# What a user can do if other work prevented a measurement.
IDLE = "run again while the nodes have no other work"


def packets(run: Run, probes: t.Iterable[Probe]) -> None:
    """Note packets that were planned and not sent."""
    for probe in probes:
        ports = [run.port(node, probe.rail) for node in probe.nodes]
        six = [("reach6", " over IPv6")] if all(port["address"] and port["address6"] for port in ports) else []
        for key, over in [("reach", ""), *six]:
            if not sent(probe, key):
                what = "packets to %s%s" % (probe.server, over)
                run.unknown("reach", probe.client, probe.rail, what, NOT_SENT, RUN_AGAIN)


def transfers(run: Run, probes: t.Iterable[Probe]) -> None:
    """Note transfers that have neither a result nor an error."""
    for probe in probes:
        if not probe.transfer and not probe.result.get("error"):
            why = "the prober reported no transfer"
            run.unknown("rdma", probe.client, probe.rail, "transfer to %s" % probe.server, why, RUN_AGAIN)


def speeds(run: Run, probes: t.Iterable[Probe], floors: t.Iterable[Floor | None], soft: bool) -> None:
    """Note what was not measured, or cannot be judged, of transfers.

    :param soft: whether the speed of soft RDMA is judged.
    """
    for probe, floor in zip(probes, floors):
        if probe.soft and not soft:
            continue  # its speed depends on the load of the processors
        to, busy = " to %s" % probe.server, probe.transfer.get("unmeasured")
        why, remedy = (busy, IDLE) if busy else ("perftest reported none", RUN_AGAIN)
        if probe.transfer.get("gbits") is None:
            run.unknown("rdma", probe.client, probe.rail, "bandwidth" + to, why, remedy)
        elif floor is None and not probe.soft:
            unplanned = "neither nodes nor plan have the speed of its link"
            run.unknown(
                "rdma", probe.client, probe.rail, "bandwidth", unplanned, "set speed of the profile in fabric.yml"
            )
        if run.thorough and probe.transfer.get("latency_us") is None:
            remedy = IDLE if busy else "install ib_write_lat of perftest on both nodes, and run again"
            run.unknown("rdma", probe.client, probe.rail, "latency" + to, why, remedy)


def shared(run: Run, probes: t.Iterable[Probe], nodes: set[str]) -> None:
    """Note the transfers whose speed is not judged, because another run used these nodes at the same time."""
    for probe in probes:
        for node in nodes.intersection(probe.nodes) if not probe.soft else ():
            why = "another run measured at the same time"
            run.unknown(
                "rdma", node, probe.rail, "bandwidth and latency", why, "run again after the other run has ended"
            )


def counters(run: Run, probes: t.Iterable[Probe]) -> None:
    """Note ports with traffic whose counters were not read before or after it."""
    places = {(node, probe.rail) for probe in probes if probe.result for node in probe.nodes}
    for report in run.nodes() if run.thorough else ():
        live = report.live
        read = (live.info.get("counters") or {}, report.after or {})
        for port in report.plan["ports"]:
            if (report.name, port["rail"]) not in places:
                continue
            names = [(part, name) for part, each in counter_names(live, port).items() for name in each]
            hidden = any(not (each.get(part) or {}).get(name) for part, name in names for each in read)
            if hidden or not names:
                why, remedy = (
                    "they were not read before or after the run",
                    "see the messages of the node, and run again",
                )
                run.unknown("rdma", report.name, port["rail"], "error counters", why, remedy)
