# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which rails traffic has proven, and why it has not proven the others."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import provable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, may_stop
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    Failure,
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_layers import NO_PAIR, probes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.probe_targets import both_provable

PROVEN, FAILED, UNPROVEN = "proven", "failed", "not proven"
# Layer of traffic -> the code of a rail without traffic, whose ports are unknown, and not failed.
UNTESTED = {"rdma": "RV870", "reach": "RV807"}
# The number of nodes that a line names.
_NAMES = 3

Place = t.Tuple[str, str]
Pairs = t.Sequence[t.Sequence[str]]


class Reason(t.NamedTuple):
    """Why a port's rail was not proven. ``able``: whether this run could have proven it."""

    why: str
    remedy: str
    able: bool = False


def layer_of(run: Run) -> str | None:
    """Return the layer whose traffic proves rails in this run; None if no such layer was requested."""
    return next((name for name in UNTESTED if name in run.layers), None)


def carried(run: Run) -> set[Place]:
    """Return the nodes and rails over which traffic was successful, between nodes or between their test pods."""
    layer = layer_of(run)
    return run.carried[layer] | run.carried["pods"] if layer else set()


def judge(run: Run, pairs: Pairs, budget: float | None, allowed: bool) -> dict[str, Row] | None:
    """Report the rails that are not proven, unless a failure explains why.

    A rail that this run could have proven fails, and so does a run that has proven no rail at all. A rail that cannot
    be proven is a warning if other rails were proven. With ``allowed``, all of these are warnings.

    :param budget: seconds after which no further round was to begin.
    :return: rail -> ``state`` and ``why`` (None if it is proven); None if no traffic was requested.
    """
    layer = layer_of(run)
    if layer is None:
        return None
    proven = carried(run)
    unproven = _unproven(run, pairs, budget, proven)
    run.untested.update((place, reason.why) for place, reason in unproven.items())
    groups: dict[Reason, list[Place]] = {}
    for place, reason in unproven.items():
        groups.setdefault(reason, []).append(place)
    none_proven = not any(node in run.reports and rail in run.rails for node, rail in proven)
    for reason, places in groups.items():
        add = run.fail if (reason.able or none_proven) and not allowed else run.warn
        rails = [rail for rail in run.rails if any(rail == each for _node, each in places)]
        add(
            *(UNTESTED[layer], None, rails[0], "proof"),
            others=rails[1:],
            expected="traffic between nodes",
            found="none" + _where(run, [node for node, _rail in places]),
            cause=reason.why,
            remedy=reason.remedy,
        )
    return {rail: _state(run, rail, proven, unproven) for rail in run.rails}


def _where(run: Run, nodes: t.Sequence[str]) -> str:
    """Return the nodes as text; empty if they are all nodes."""
    names = list(dict.fromkeys(nodes))
    if len(names) == len(run.reports) and len(names) > 1:
        return ""
    return " with %s" % first_of(names, _NAMES)


def _state(run: Run, rail: str, proven: t.AbstractSet[Place], unproven: t.Mapping[Place, Reason]) -> Row:
    """Return the state of a rail, and why it is not proven."""
    nodes = [
        report.name for report in run.reports.values() if any(port["rail"] == rail for port in report.plan["ports"])
    ]
    own = [each for each in run.failures if rail in each.rails and not CODES[each.code].degraded]
    failures = [each for each in own if each.code not in UNTESTED.values()]
    if failures:
        return {"state": FAILED, "why": failures[0].what}
    reasons = list(dict.fromkeys(reason.why for (_node, each), reason in unproven.items() if each == rail))
    if nodes and all((name, rail) in proven for name in nodes):
        return {"state": PROVEN, "why": None}
    return {"state": UNPROVEN, "why": "; ".join(reasons) or _elsewhere(run)}


def _elsewhere(run: Run) -> str:
    """Return why a rail without a failure was not proven: a failure of a whole node."""
    of_nodes = [each for each in run.failures if each.node and not each.rails]
    return of_nodes[0].line().partition(". Likely")[0] if of_nodes else "no node has it"


def _unproven(run: Run, pairs: Pairs, budget: float | None, proven: t.AbstractSet[Place]) -> dict[Place, Reason]:
    """Return the nodes and rails without traffic, with the reason, except those that a failure explains."""
    partners: dict[Place, list[Probe]] = {}
    for probe in probes(run, pairs):
        for node in probe.nodes:
            partners.setdefault((node, probe.rail), []).append(probe)
    explaining = [each for each in run.failures if _explains(each)]
    failed = {rail for each in explaining for rail in each.rails}
    dark = {each.node for each in explaining if not each.rails}
    samples = _samples(run)
    reasons: dict[Place, Reason] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            place = (report.name, port["rail"])
            planned = partners.get(place, [])
            lost = bool(dark) and dark.issuperset(_partners(report, planned))
            if port["rail"] in run.rails and not (
                port["rail"] in failed or place in proven or report.name in dark or lost
            ):
                alone = not any(
                    name != report.name and both_provable(port, sample, run.fabric["link_layer"])
                    for name, sample in samples[port["rail"]]
                )
                reasons[place] = _reason(run, report, port, planned, alone, budget)
    return reasons


def _samples(run: Run) -> dict[str, list[tuple[str, Row]]]:
    """Return two ports of each kind per rail, which are enough to decide which ports can be paired."""
    counts: dict[tuple[str, bool, bool], int] = {}
    samples: dict[str, list[tuple[str, Row]]] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            kind = (port["rail"], bool(port["address"]), bool(port["address6"]))
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= 2:
                samples.setdefault(port["rail"], []).append((report.name, port))
    return samples


def _explains(failure: Failure) -> bool:
    """Return whether a failure leaves its rails, or a whole node, without traffic."""
    return bool(failure.node or failure.affected) and (
        failure.layer in UNTESTED or may_stop(CODES[failure.code], "rdma")
    )


def _partners(report: NodeReport, planned: t.Sequence[Probe]) -> list[str]:
    """Return the nodes that were planned to exchange traffic with this one."""
    return list(dict.fromkeys(probe.server if probe.client == report.name else probe.client for probe in planned))


def _reason(
    run: Run, report: NodeReport, port: Row, planned: t.Sequence[Probe], alone: bool, budget: float | None
) -> Reason:
    """Return why no traffic was successful over a port's rail.

    :param alone: whether no other node of the run has a port on the rail that can be paired with this one.
    """
    rail = port["rail"]
    if not provable(port, run.fabric["link_layer"]):
        return Reason(
            "its ports have no address in the plan, and RoCE needs one for its GID",
            "give the rail hosts' addresses in the fabric file, let test pods prove it (docs/verify.md, Pods), "
            "or accept it with -e verify_unproven_allowed=true",
        )
    if len(run.reports) < 2:
        return Reason(
            NO_PAIR,
            "name two nodes or more with --limit, or none; choose layers without traffic (-e verify_layers=node,link); "
            "or accept it with -e verify_unproven_allowed=true",
            True,
        )
    if alone:
        return Reason("no other node of this run has the rail", "name one that has it with --limit, or none")
    ends = [report.name, *_partners(report, planned)]
    blocked = [name for name in ends if run.blocked("rdma", name, rail)]
    # if only some partners are blocked, traffic with another one was possible
    if report.name in blocked or (blocked and len(blocked) == len(ends) - 1):
        return Reason(
            "%s has the port in use (see the warnings)" % blocked[0],
            "delete the pod that holds it, or let test pods prove the rail (docs/verify.md, Pods)",
        )
    if not planned:
        return Reason(
            "no pair of the rounds has it", "run more rounds with -e verify_max_rounds=%d" % (len(run.reports))
        )
    if not any(probe.addressed for probe in planned) and layer_of(run) == "reach":
        return Reason("no addresses: not checked", "check the layer rdma as well, which needs none over InfiniBand")
    if budget:
        return Reason(
            "no round with it began within %g seconds" % budget,
            "raise verify_budget, or accept it with -e verify_unproven_allowed=true",
            True,
        )
    return Reason("it was not probed", "see the earlier messages of the nodes, and run again", True)
