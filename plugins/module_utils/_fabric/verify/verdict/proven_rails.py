# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which rails traffic has proven, and why it has not proven the others."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import provable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, may_stop
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    Failure,
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_layers import (
    NO_PAIR,
    Probe,
    probes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.probe_targets import both_provable

PROVEN, FAILED, UNPROVEN = "proven", "failed", "not proven"
# Layers of traffic, and the code of a rail over which none of it went.
_CODES = {"rdma": "RV870", "reach": "RV807"}
# Nodes that a line names.
_NAMES = 3

Place = t.Tuple[str, str]
Pairs = t.Sequence[t.Sequence[str]]


class Reason(t.NamedTuple):
    """Why a port's rail was not proven. ``able``: it could have been, in this very run."""

    why: str
    remedy: str
    able: bool = False


def layer_of(run: Run) -> str | None:
    """The layer whose traffic proves rails in this run; None where none of them was asked for."""
    return next((name for name in _CODES if name in run.layers), None)


def carried(run: Run) -> set[Place]:
    """The nodes and rails over which traffic went well: between nodes, or between their test pods."""
    layer = layer_of(run)
    return run.carried[layer] | run.carried["pods"] if layer else set()


def judge(run: Run, pairs: Pairs, budget: float | None, allowed: bool) -> dict[str, Row] | None:
    """Report the rails that are not proven, unless a failure explains why.

    What could have been proven in this run and was not fails, and so does a run that has proven nothing at all. What
    cannot be proven beside rails that were, is a warning, and so is all of it where that is ``allowed``.

    :param budget: seconds after which no further round was to begin.
    :return: rail -> ``state`` and ``why`` (None where it is proven); None where no traffic was asked for.
    """
    layer = layer_of(run)
    if layer is None:
        return None
    well = carried(run)
    open_ = _unproven(run, pairs, budget, well)
    groups: dict[Reason, list[Place]] = {}
    for place, reason in open_.items():
        groups.setdefault(reason, []).append(place)
    nothing = not any(node in run.reports and rail in run.rails for node, rail in well)
    for reason, places in groups.items():
        add = run.fail if (reason.able or nothing) and not allowed else run.warn
        rails = [rail for rail in run.rails if any(rail == each for _node, each in places)]
        add(
            *(_CODES[layer], None, rails[0], "proof"),
            others=rails[1:],
            expected="traffic between nodes",
            found="none" + _where(run, [node for node, _rail in places]),
            cause=reason.why,
            remedy=reason.remedy,
        )
    return {rail: _state(run, rail, well, open_) for rail in run.rails}


def _where(run: Run, nodes: t.Sequence[str]) -> str:
    """The nodes concerned; empty if it is all of them."""
    names = list(dict.fromkeys(nodes))
    if len(names) == len(run.reports) and len(names) > 1:
        return ""
    more = " and %d more" % (len(names) - _NAMES) if len(names) > _NAMES else ""
    return " with %s%s" % (", ".join(names[:_NAMES]), more)


def _state(run: Run, rail: str, well: t.AbstractSet[Place], open_: t.Mapping[Place, Reason]) -> Row:
    mine = [
        report.name for report in run.reports.values() if any(port["rail"] == rail for port in report.plan["ports"])
    ]
    found = [each for each in run.failures if rail in each.rails and each.code not in _CODES.values()]
    if found:
        return {"state": FAILED, "why": found[0].what}
    reasons = list(dict.fromkeys(reason.why for (_node, each), reason in open_.items() if each == rail))
    if mine and all((name, rail) in well for name in mine):
        return {"state": PROVEN, "why": None}
    return {"state": UNPROVEN, "why": "; ".join(reasons) or _elsewhere(run)}


def _elsewhere(run: Run) -> str:
    """Why a rail without a failure was not proven: a failure of a whole node."""
    whole = [each for each in run.failures if each.node and not each.rails]
    return whole[0].line().partition(". Likely")[0] if whole else "no node has it"


def _unproven(run: Run, pairs: Pairs, budget: float | None, well: t.AbstractSet[Place]) -> dict[Place, Reason]:
    """The nodes and rails without traffic, with the reason; without those that a failure explains."""
    partners: dict[Place, list[Probe]] = {}
    for probe in probes(run, pairs):
        for node in (probe.client, probe.server):
            partners.setdefault((node, probe.rail), []).append(probe)
    explaining = [each for each in run.failures if _explains(each)]
    failed = {rail for each in explaining for rail in each.rails}
    dark = {each.node for each in explaining if not each.rails}
    samples = _samples(run)
    found: dict[Place, Reason] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            place = (report.name, port["rail"])
            planned = partners.get(place, [])
            lost = bool(dark) and dark.issuperset(_partners(report, planned))
            if port["rail"] in run.rails and not (
                port["rail"] in failed or place in well or report.name in dark or lost
            ):
                alone = not any(
                    name != report.name and both_provable(port, other, run.fabric["link_layer"])
                    for name, other in samples[port["rail"]]
                )
                found[place] = _reason(run, report, port, planned, alone, budget)
    return found


def _samples(run: Run) -> dict[str, list[tuple[str, Row]]]:
    """Of each rail two ports of each kind: enough to decide which ports can be paired."""
    seen: dict[tuple[str, bool, bool], int] = {}
    found: dict[str, list[tuple[str, Row]]] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            kind = (port["rail"], bool(port["address"]), bool(port["address6"]))
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= 2:
                found.setdefault(port["rail"], []).append((report.name, port))
    return found


def _explains(failure: Failure) -> bool:
    """Whether a failure leaves its rails, or a whole node, without traffic."""
    return failure.node is not None and (failure.layer in _CODES or may_stop(CODES[failure.code], "rdma"))


def _partners(report: NodeReport, planned: t.Sequence[Probe]) -> list[str]:
    return list(dict.fromkeys(probe.server if probe.client == report.name else probe.client for probe in planned))


def _reason(
    run: Run, report: NodeReport, port: Row, planned: t.Sequence[Probe], alone: bool, budget: float | None
) -> Reason:
    """Why nothing went over a port's rail. ``alone``: no other node has the rail in a way that the two can share."""
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
    held = [name for name in ends if run.blocked("rdma", name, rail)]
    # of partners, others may have been there
    if report.name in held or (held and len(held) == len(ends) - 1):
        return Reason(
            "%s has the port in use (see the warnings)" % held[0],
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
