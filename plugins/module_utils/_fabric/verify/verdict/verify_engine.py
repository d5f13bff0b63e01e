# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One verdict from the reports of nodes, pairs and the cluster: layer by layer, one failure per cause."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options, provable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import planes_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS, STATE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    EARLIER,
    NOT_THOROUGH,
    VERIFY,
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    UNKNOWN as UNKNOWN_CODE,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import (
    address_layer,
    cabling_layer,
    congestion_layer,
    drift_layer,
    nccl_layer,
    nvlink_layer,
    pod_layer,
    port_layers,
    soak_layer,
    tail_layer,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import cluster_layer as cluster
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import pair_layers as pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import port_counts, proven_rails
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.port_counts import (
    FAILED,
    OK,
    UNCHECKED,
    UNKNOWN,
)

FORMAT = 1
# The last layer of the state of nodes. After it, all failures that can explain a refusal are known.
_LAST = "qos"
_EARLIER_CAUSE = "an earlier task of this run failed on the node"
_EARLIER = "correct the error that this run printed for the node, then run again"
# Layers whose checks are per port, and per node.
_OF_PORTS, _OF_NODES = ("driver", "link", "address", "cabling"), ("firmware", "mode", "qos")


class Asked(t.NamedTuple):
    """What was requested. Empty ``layers`` or ``rails``: all.

    :param limit: the nodes.
    :param budget: in seconds.
    :param share: see :func:`.pair_floors.floor_of`.
    :param unproven_allowed: whether a rail without traffic is only a warning.
    :param tags, skip_tags: those of the Ansible run, which may exclude modules.
    :param thorough: whether modules ran in check mode, and ports listened for neighbours. ``site.yml`` does neither,
        because ``hosts.yml`` has just run.
    :param soft: whether bandwidth and latency tails of soft RDMA are judged too.
    :param soak: in seconds; 0: none.
    """

    limit: t.Sequence[str]
    layers: t.Sequence[str] = ()
    rails: t.Sequence[str] = ()
    budget: float | None = None
    share: float | None = None
    unproven_allowed: bool = False
    tags: t.Sequence[str] = ()
    skip_tags: t.Sequence[str] = ()
    thorough: bool = True
    soft: bool = False
    soak: float = 0


class Verdict(t.NamedTuple):
    """A run that has been judged.

    :param pairs: the planned pairs, as [server, client].
    :param proof: the result of :func:`.proven_rails.judge`.
    """

    run: Run
    asked: Asked
    pairs: t.Sequence[t.Sequence[str]]
    cluster: t.Mapping[str, t.Any] | None
    proof: t.Mapping[str, Row] | None = None

    @property
    def ok(self) -> bool:
        return not self.run.failures


def judge(
    kind: str,
    fabric: Row,
    reports: t.Sequence[NodeReport],
    asked: Asked,
    planned_pairs: t.Sequence[t.Sequence[str]] = (),
    seen: t.Mapping[str, t.Any] | None = None,
    pod_pairs: t.Sequence[t.Sequence[str]] = (),
    groups: t.Sequence[congestion_layer.Group] = (),
) -> Verdict:
    """Check the layers in their order.

    :param kind: ``verify`` or ``drift``.
    :param fabric: ``railyard_fabric``.
    :param seen: the observed cluster, see :func:`.cluster_layer.kubernetes` and :func:`.pod_layer.pods`.
    :param pod_pairs: the nodes whose pods probe each other, as [server, client].
    :param groups: the groups of many-to-one rounds, as [server, clients].
    """
    # a node that cannot be read is a failure whatever layers are checked
    names = [name for name in LAYERS if name == "node" or name in (asked.layers or LAYERS)]
    if not facts_of(fabric.get("provider")).kubernetes:
        names = [name for name in names if name not in ("kubernetes", "pods")]
    if kind == DRIFT:
        names = [name for name in names if name in STATE]
    run = Run(fabric, reports, names, list(asked.rails or fabric["rails"]), kind, asked.thorough)
    steps: dict[str, t.Callable[[], None]] = {
        "driver": lambda: _driver(run),
        "mode": lambda: port_layers.mode(run),
        "link": lambda: port_layers.link(run),
        "address": lambda: address_layer.address(run),
        "cabling": lambda: cabling_layer.cabling(run),
        "reach": lambda: pairs.reach(run, planned_pairs),
        "rdma": lambda: _rdma(run, planned_pairs, asked, groups),
        "kubernetes": lambda: cluster.kubernetes(run, seen),
        "pods": lambda: pod_layer.pods(run, seen, pod_pairs),
        "nccl": lambda: nccl_layer.nccl(run, seen),
    }
    _nodes(run)
    drifted = drift_layer.drifts(run)
    for name in LAYERS:
        if name in names and name in steps:
            steps[name]()
        if name in names and name in STATE and name not in ("kubernetes", "nccl"):
            drift_layer.changes(run, name, drifted)
        if name == _LAST:
            drift_layer.refusals(run, drifted)
    _why_not(run, asked)
    proof = proven_rails.judge(run, planned_pairs, asked.budget, asked.unproven_allowed) if kind == VERIFY else None
    return Verdict(run, asked, planned_pairs, seen, proof)


def _driver(run: Run) -> None:
    port_layers.driver(run)
    nvlink_layer.nvlink(run)


def _rdma(
    run: Run,
    planned_pairs: t.Sequence[t.Sequence[str]],
    asked: Asked,
    groups: t.Sequence[congestion_layer.Group],
) -> None:
    pairs.rdma(run, planned_pairs, asked.share, asked.soft)
    tail_layer.tails(run, planned_pairs, asked.soft)
    congestion_layer.congestion(run, groups)
    soak_layer.soak(run, asked.soak, planned_pairs, asked.share)


def _nodes(run: Run) -> None:
    """Report nodes that could not be read, and persistent settings that were not applied at boot."""
    for report in run.reports.values():
        run.checked["node"].add(report.name)
        if report.info is None:
            about = {"cause": _EARLIER_CAUSE, "remedy": _EARLIER} if report.state == EARLIER else {}
            run.fail(report.code, report.name, None, "node", found=report.why, **about)
        elif (report.info.get("system") or {}).get("boot_service") == "failed":
            run.fail_drift("RV004", report.name, None, "railyard-boot.service", expected="active", found="failed")


def _why_not(run: Run, asked: Asked) -> None:
    """Note why layers are not checked, and count the nodes on which those of modules are."""
    _missing_modules(run, asked)
    layers = {row.module: CODES[row.drift.code].layer for row in HOST_LAYERS if row.drift}
    for report in run.nodes():
        for layer in {layers[module] for module in report.states if module in layers} & {"firmware", "qos"}:
            run.checked[layer].add(report.name)
    for layer, why_not in (("firmware", "the plan manages no firmware"), ("qos", "the plan has none")):
        if not run.checked[layer]:
            run.why_not[layer] = _left_out(run, asked, layer) or why_not
    unread = [report for report in run.reports.values() if report.info is None]
    if not unread:
        return
    why_not = ", ".join(port_counts.unread(unread))
    for layer in run.layers:
        if (
            not run.nodes()
            and layer in (*_OF_PORTS, *_OF_NODES, "nccl")
            or (len(run.nodes()) < 2 <= len(run.reports) and layer in ("reach", "rdma"))
        ):
            run.why_not[layer] = why_not
        for report in unread if run.checked[layer] or not run.nodes() else ():
            ports = [port["rail"] for port in report.plan["ports"] if port["rail"] in run.rails]
            if layer in _OF_PORTS:
                run.skipped[layer].update((report.name, rail) for rail in ports)
            elif layer in _OF_NODES and (layer == "mode" or run.checked[layer]):
                run.skipped[layer].add(report.name)
        if run.skipped[layer]:
            run.why_not.setdefault(layer, why_not)


def _missing_modules(run: Run, asked: Asked) -> None:
    """Note planned modules without a result, unless the run left them out."""
    if not run.thorough or asked.tags or asked.skip_tags:
        return
    for report in run.nodes():
        for row in HOST_LAYERS:
            # rail_host leaves these to their roles, which copy or install files first
            if not row.drift or row.layer in ("agent", "cni") or row.module in report.states:
                continue
            if _is_planned(run, report, row):
                remedy = "see why hosts.yml --check --limit %s does not run it" % report.name
                run.unknown(
                    CODES[row.drift.code].layer, report.name, None, row.module, "the module did not run", remedy
                )


def _is_planned(run: Run, report: NodeReport, row: t.Any) -> bool:
    """Return whether the plan has options for a module of a node. ``row``: one of :data:`HOST_LAYERS`."""
    ports = port_options(report.plan["ports"], row.module) if row.ports else []
    return bool(row.options(report.plan, run.fabric, ports))


def _left_out(run: Run, asked: Asked, layer: str) -> str:
    """Return why this run did not compare the layer of a module that the plan may have; empty if it did."""
    rows = [row for row in HOST_LAYERS if row.drift and CODES[row.drift.code].layer == layer]
    planned = any(_is_planned(run, report, row) for report in run.reports.values() for row in rows)
    if not planned:
        return ""
    if not run.thorough:
        return NOT_THOROUGH
    return "the tags of this run exclude it" if asked.tags or asked.skip_tags else "no node reported it"


# -- the document ----------------------------------------------------------------------------------------------------


def matrix(verdict: Verdict) -> dict[str, dict[str, str]]:
    """Return node -> rail -> ``ok``, ``failed``, ``unknown`` (a check could not run) or ``not checked``."""
    run = verdict.run
    own = [each for each in run.failures if not CODES[each.code].degraded]
    failed = {(node, rail) for each in own for node in each.nodes for rail in each.rails}
    checked = _looked_at(run)
    unknown = run.unknown_ports()
    cells: dict[str, dict[str, str]] = {}
    for report in run.reports.values():
        row = cells.setdefault(report.name, {})
        for rail in (port["rail"] for port in report.plan["ports"] if port["rail"] in run.rails):
            place = (report.name, rail)
            known = report.info is not None  # else its partners may have failed, and the port is unknown
            good = UNKNOWN if place in unknown else OK
            row[rail] = (
                UNCHECKED if not known else FAILED if place in failed else good if place in checked else UNCHECKED
            )
    return cells


def bad_rails(verdict: Verdict) -> dict[str, list[str]]:
    """Return node -> its rails that failed, without the nodes whose state is unknown.

    A node is good if every rail was checked in every layer. A run of some layers or rails, a node that does not answer
    or missing traffic do not change the result of an earlier run. Rails that an administrator has cordoned are omitted.
    """
    run, by_node = verdict.run, {}
    for node, row in matrix(verdict).items():
        report = run.reports[node]
        by_administrator = {rail for rail, cordon in _cordons(report).items() if not cordon["by"]}
        failed = [rail for rail, cell in row.items() if cell == FAILED and rail not in by_administrator]
        # a rail that cannot be proven is good unless it has a failure
        good = set(run.layers) == set(LAYERS) and all(
            # traffic has proven the rail, even if another check could not run
            row.get(port["rail"]) in (OK, UNKNOWN)
            or (port["rail"] in row and report.info is not None and not provable(port, run.fabric["link_layer"]))
            for port in report.plan["ports"]
        )
        if failed or good:
            by_node[node] = failed
    return by_node


def rail_cordons(verdict: Verdict) -> dict[str, dict[str, str]]:
    """Return node -> failed rail -> reason, for nodes with the rail agent whose cordons of an earlier run differ."""
    run, reasons = verdict.run, {}
    if not facts_of(run.fabric["provider"]).slots:
        return {}
    for node, rails in bad_rails(verdict).items():
        cordoned = {rail for rail, cordon in _cordons(run.reports[node]).items() if cordon["by"]}
        if cordoned != set(rails):
            reasons[node] = {rail: "failed verify (%s)" % ", ".join(_codes(run, node, rail)) for rail in rails}
    return reasons


def _cordons(report: NodeReport) -> Row:
    """Return the cordoned rails of a node, as module rail_pods reports them."""
    return (report.inside or {}).get("cordons") or {}


def _codes(run: Run, node: str, rail: str) -> list[str]:
    """Return the codes of the failures of a rail on a node."""
    return sorted({each.code for each in run.failures if rail in each.rails and node in each.nodes})


def _looked_at(run: Run) -> set[tuple[str, str]]:
    """Return the ports whose rail was checked to the end. Without traffic, a rail is not known to be good."""
    if proven_rails.layer_of(run):
        return proven_rails.carried(run)
    by_port = {place for places in run.checked.values() for place in places if len(place) == 2}
    read = {report.name for report in run.nodes()}
    return by_port | {(name, rail) for name in read for rail in run.rails}


def document(verdict: Verdict, about: t.Mapping[str, t.Any]) -> Row:
    """Return the verdict as plain data, in the shape of ``verify.json`` and ``drift.json``.

    :param about: ``plan`` (its digest), ``railyard`` (version), ``began`` (UTC, ISO 8601), ``seconds``.
    """
    run = verdict.run
    failures = [each.as_dict() for each in _sorted(run, run.failures)]
    degraded = degraded_rails(verdict)
    cells = matrix(verdict)
    ports = port_counts.counts(cells)
    return {
        "format": FORMAT,
        "kind": run.kind,
        "fabric": run.fabric["name"],
        **{key: about[key] for key in ("plan", "railyard", "began", "seconds")},
        "ok": verdict.ok,
        "headline": port_counts.headline(run, cells, degraded or ()),
        "ports": {"planned": ports.ports, "good": ports.good, "failed": ports.failed, "unknown": ports.unknown},
        "unread": {report.name: report.unread() for report in run.reports.values() if report.info is None},
        "asked": {
            "limit": list(verdict.asked.limit),
            "layers": [name for name in run.layers if name in (verdict.asked.layers or LAYERS)],
            "rails": run.rails,
            "budget_s": verdict.asked.budget,
            "tags": list(verdict.asked.tags),
            "skip_tags": list(verdict.asked.skip_tags),
        },
        "nodes": list(run.reports),
        "rails": run.rails,
        "layers": [_layer(run, name) for name in run.layers],
        "matrix": cells,
        "proof": verdict.proof,
        **({} if degraded is None else {"degraded_rails": degraded}),
        "failures": failures,
        "warnings": [each.as_dict() for each in _sorted(run, run.warnings)],
        "unknown": _unknown(run),
        "measures": pairs.measures(run, verdict.pairs, verdict.asked.share),
        **run.shown,
        "counters": pairs.counters(run) if run.kind == VERIFY else [],
        "boots": {
            report.name: report.info["system"]["boot_id"]
            for report in run.nodes()
            if report.info and report.info.get("system")
        },
        "cluster": _cluster(verdict.cluster),
        "slots": {report.name: held for report in run.nodes() for held in [(report.inside or {}).get("held")] if held},
    }


def _unknown(run: Run) -> list[Row]:
    """Return the checks that could not run: one row per node and reason."""
    code = CODES[UNKNOWN_CODE]
    return [
        {"code": code.code, "name": code.name, "layer": each.layer, "node": node, "rails": rails}
        | {key: getattr(each, key) for key in ("what", "why", "remedy")}
        for (each, node), rails in run.unknown_groups().items()
    ]


def degraded_rails(verdict: Verdict) -> list[Row] | None:
    """Return the rails of nodes with a lost plane; None if the plan has no planes that a NIC balances over.

    :return: rows with ``node``, ``rail``, ``planes`` (the number planned), ``lost`` (numbers) and ``proven`` (whether
        traffic was successful).
    """
    run = verdict.run
    rows: list[Row] = []
    planned = False
    carried = proven_rails.carried(run)
    for report in run.reports.values():
        for port in report.plan["ports"]:
            count, place = len(planes_of(port)), (report.name, port["rail"])
            planned = planned or bool(count)
            lost = run.lost_planes.get(place)
            if lost and len(lost) < count:
                row = {"node": report.name, "rail": port["rail"], "planes": count, "lost": sorted(lost)}
                rows.append(dict(row, proven=place in carried))
    return rows if planned else None


def _cluster(seen: t.Mapping[str, t.Any] | None) -> Row | None:
    """Return which cluster was read, and whether it answered; None if no cluster was read."""
    if seen is None:
        return None
    return {"server": seen.get("server"), "reachable": not seen.get("error")}


def _layer(run: Run, name: str) -> Row:
    failed = sum(each.layer == name for each in run.failures)
    row = {"name": name, "title": LAYERS[name].title, "checked": len(run.checked[name]), "failed": failed}
    unknown = sum(each.layer == name for each in run.unknowns)
    return dict(row, not_checked=len(run.skipped[name]), unknown=unknown, why_not=run.why_not.get(name))


def _sorted(run: Run, failures: t.Sequence[t.Any]) -> list[t.Any]:
    """Return the failures in the order of the layers, then of the nodes and rails of the plan."""
    layers, nodes, rails = (
        {name: place for place, name in enumerate(names)} for names in (LAYERS, run.reports, run.fabric["rails"])
    )

    def key(each: t.Any) -> tuple[int, int, int, str]:
        return layers[each.layer], nodes.get(each.node, -1), rails.get(each.rail, -1), each.code

    return sorted(failures, key=key)
