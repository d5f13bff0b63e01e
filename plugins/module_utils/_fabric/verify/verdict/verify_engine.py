# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From what nodes, pairs and the cluster told to one verdict: layer by layer, so that one cause gives one failure."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import provable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import LAYERS, STATE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    VERIFY,
    Row,
    Run,
    Told,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import (
    address_layer,
    cabling_layer,
    drift_layer,
    nccl_layer,
    pod_layer,
    port_layers,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import cluster_layer as cluster
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import pair_layers as pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import proven_rails

FORMAT = 1
# The last layer of nodes' own state: by then all that could explain a refusal has been seen.
_LAST = "qos"
OK, FAILED, UNCHECKED = "ok", "failed", "not checked"


class Asked(t.NamedTuple):
    """What was asked for. Empty ``layers`` or ``rails``: all. ``limit``: the nodes, ``budget`` in seconds.

    ``unproven_allowed``: a rail over which no traffic went fails nothing. ``tags``, ``skip_tags``: those that Ansible
    was told to run alone or to leave out, so that some modules may not have been asked.
    """

    limit: t.Sequence[str]
    layers: t.Sequence[str] = ()
    rails: t.Sequence[str] = ()
    budget: float | None = None
    share: float = pairs.SHARE
    unproven_allowed: bool = False
    tags: t.Sequence[str] = ()
    skip_tags: t.Sequence[str] = ()


class Verdict(t.NamedTuple):
    """A run that has been judged. ``pairs``: those that were planned, as [server, client]; ``proof``: what
    :func:`.proven.judge` says of each rail.
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
    told: t.Sequence[Told],
    asked: Asked,
    planned_pairs: t.Sequence[t.Sequence[str]] = (),
    seen: t.Mapping[str, t.Any] | None = None,
    pod_pairs: t.Sequence[t.Sequence[str]] = (),
) -> Verdict:
    """Go down the layers.

    :param kind: ``verify`` or ``drift``.
    :param fabric: ``railyard_fabric``.
    :param seen: what was seen of the cluster, see :func:`.cluster.kubernetes` and :func:`.pods.pods`.
    :param pod_pairs: the nodes whose pods were to probe each other, as [server, client].
    """
    # whoever cannot be read fails whatever was asked for
    names = [name for name in LAYERS if name == "node" or name in (asked.layers or LAYERS)]
    if not facts_of(fabric.get("provider")).kubernetes:
        names = [name for name in names if name not in ("kubernetes", "pods")]
    if kind == DRIFT:
        names = [name for name in names if name in STATE]
    run = Run(fabric, told, names, list(asked.rails or fabric["rails"]), kind)
    steps: dict[str, t.Callable[[], None]] = {
        "driver": lambda: port_layers.driver(run),
        "mode": lambda: port_layers.mode(run),
        "link": lambda: port_layers.link(run),
        "address": lambda: address_layer.address(run),
        "cabling": lambda: cabling_layer.cabling(run),
        "reach": lambda: pairs.reach(run, planned_pairs),
        "rdma": lambda: pairs.rdma(run, planned_pairs, asked.share),
        "kubernetes": lambda: cluster.kubernetes(run, seen),
        "pods": lambda: pod_layer.pods(run, seen, pod_pairs),
        "nccl": lambda: nccl_layer.nccl(run, seen),
    }
    _nodes(run)
    for name in LAYERS:
        if name in names and name in steps:
            steps[name]()
        if name in names and name in STATE and name not in ("kubernetes", "nccl"):
            drift_layer.states(run, name)
        if name == _LAST:
            drift_layer.refusals(run)
    _why_not(run)
    proof = proven_rails.judge(run, planned_pairs, asked.budget, asked.unproven_allowed) if kind == VERIFY else None
    return Verdict(run, asked, planned_pairs, seen, proof)


def _nodes(run: Run) -> None:
    for told in run.told.values():
        run.checked["node"].add(told.name)
        if told.info is None:
            run.fail(told.code, told.name, None, "node", expected="an answer", found=told.why)
            for port in told.plan["ports"]:
                run.unseen.add((told.name, port["rail"]))
        elif ((told.info.get("system") or {}).get("boot_service")) == "failed":
            tell = run.fail if run.kind == DRIFT else run.warn
            tell("RV004", told.name, None, "railyard-boot.service", expected="active", found="failed")


def _why_not(run: Run) -> None:
    modules = {module for told in run.nodes() for module in told.states}
    if "mlx_linktype" not in modules:
        run.why_not["firmware"] = "the plan manages no firmware"
    tuned = ("roce_qos", "pci_tuning", "kernel_arguments", "rail_limits", "gpudirect")
    if not modules.intersection(tuned):
        run.why_not["qos"] = "the plan has none"
    for told in run.nodes():
        for module, layer in (("mlx_linktype", "firmware"), *((each, "qos") for each in tuned)):
            if module in told.states and layer in run.layers:
                run.checked[layer].add(told.name)


# -- the document ----------------------------------------------------------------------------------------------------


def matrix(verdict: Verdict) -> dict[str, dict[str, str]]:
    """Node -> rail -> ``ok``, ``failed`` or ``not checked``."""
    run = verdict.run
    bad = {(node, rail) for each in run.failures for node in (each.node, each.peer) for rail in each.rails}
    looked_at = _looked_at(run)
    found: dict[str, dict[str, str]] = {}
    for told in run.told.values():
        row = found.setdefault(told.name, {})
        for port in told.plan["ports"]:
            rail = port["rail"]
            if rail not in run.rails:
                continue
            if (told.name, rail) in bad:
                row[rail] = FAILED
            elif (told.name, rail) in run.unseen:
                row[rail] = UNCHECKED
            else:
                row[rail] = OK if (told.name, rail) in looked_at else UNCHECKED
    return found


def bad_rails(verdict: Verdict) -> dict[str, list[str]]:
    """Node -> its rails that failed; without the nodes that are neither known to be bad nor known to be well.

    Well is a node whose every rail was looked at in every layer: of some layers or rails alone, of a node that does not
    answer or of traffic that nobody sent, nothing follows for what an earlier run has found.
    """
    run, found = verdict.run, {}
    for node, row in matrix(verdict).items():
        bad = [rail for rail, cell in row.items() if cell == FAILED]
        told = run.told[node]
        # what nothing can prove is well where nothing is told of it
        well = set(run.layers) == set(LAYERS) and all(
            row.get(port["rail"]) == OK
            or (port["rail"] in row and told.info is not None and not provable(port, run.fabric["link_layer"]))
            for port in told.plan["ports"]
        )
        if bad or well:
            found[node] = bad
    return found


def _looked_at(run: Run) -> set[tuple[str, str]]:
    """The ports whose rail was looked at to the end: one that nobody sent anything over is not known to be well."""
    if proven_rails.layer_of(run):
        return proven_rails.carried(run)
    by_port = {place for places in run.checked.values() for place in places if len(place) == 2}
    read = {told.name for told in run.nodes()}
    return by_port | {(name, rail) for name in read for rail in run.rails}


def document(verdict: Verdict, about: t.Mapping[str, t.Any]) -> Row:
    """The verdict as plain data, in the shape that ``verify.json`` and ``drift.json`` have.

    :param about: ``plan`` (its digest), ``railyard`` (version), ``began`` (UTC, ISO 8601), ``seconds``.
    """
    run = verdict.run
    failures = [each.as_dict() for each in _sorted(run, run.failures)]
    return {
        "format": FORMAT,
        "kind": run.kind,
        "fabric": run.fabric["name"],
        **{key: about[key] for key in ("plan", "railyard", "began", "seconds")},
        "ok": verdict.ok,
        "asked": {
            "limit": list(verdict.asked.limit),
            "layers": [name for name in run.layers if name in (verdict.asked.layers or LAYERS)],
            "rails": run.rails,
            "budget_s": verdict.asked.budget,
            "tags": list(verdict.asked.tags),
            "skip_tags": list(verdict.asked.skip_tags),
        },
        "nodes": list(run.told),
        "rails": run.rails,
        "layers": [_layer(run, name) for name in run.layers],
        "matrix": matrix(verdict),
        "proof": verdict.proof,
        "failures": failures,
        "warnings": [each.as_dict() for each in _sorted(run, run.warnings)],
        "measures": pairs.measures(run, verdict.pairs),
        "counters": pairs.counters(run) if run.kind == VERIFY else [],
        "boots": {
            told.name: told.info["system"]["boot_id"] for told in run.nodes() if told.info and told.info.get("system")
        },
        "cluster": _cluster(verdict.cluster),
    }


def _cluster(seen: t.Mapping[str, t.Any] | None) -> Row | None:
    if seen is None:
        return None
    return {"server": seen.get("server"), "reachable": not seen.get("error")}


def _layer(run: Run, name: str) -> Row:
    failed = sum(each.layer == name for each in run.failures)
    row = {"name": name, "title": LAYERS[name].title, "checked": len(run.checked[name]), "failed": failed}
    return dict(row, not_checked=len(run.skipped[name]), why_not=run.why_not.get(name))


def _sorted(run: Run, failures: t.Sequence[t.Any]) -> list[t.Any]:
    """Down the layers, then by node and rail as the plan has them."""
    layers, nodes, rails = (
        {name: place for place, name in enumerate(names)} for names in (LAYERS, run.told, run.fabric["rails"])
    )

    def key(each: t.Any) -> tuple[int, int, int, str]:
        return layers[each.layer], nodes.get(each.node, -1), rails.get(each.rail, -1), each.code

    return sorted(failures, key=key)
