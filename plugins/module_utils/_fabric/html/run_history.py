# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Earlier runs: results, and differences between two runs."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.report_documents import FAILED, OK, Verdict
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import STATE

Place = t.Tuple[str, str]


def when(began: str) -> str:
    """Format a time of a document as ``2026-11-21 20:15 UTC``."""
    return "%s %s UTC" % (began[:10], began[11:16]) if began else "at a time that it does not say"


class Scope(t.NamedTuple):
    """The scope of a run. ``layers`` and ``rails``: those requested, empty for all. ``tags``: selected and skipped tags
    of the Ansible run. ``cluster``: whether the cluster was read.
    """

    layers: t.AbstractSet[str]
    rails: t.AbstractSet[str]
    tags: t.AbstractSet[str]
    cluster: bool

    def has(self, layers: t.Iterable[str], rails: t.Iterable[str]) -> bool:
        """Return whether all of these layers and rails were in scope."""
        return (
            not self.tags
            and (not self.layers or set(layers) <= self.layers)
            and (not self.rails or set(rails) <= self.rails)
        )


class Run(t.NamedTuple):
    """A run. ``checked`` and ``failed``: (node, rail) of ports. ``slowest``: the lowest median of a rail in Gb/s, None
    if nothing was measured. ``boots``: node -> boot ID. ``drifted``: nodes with failures.
    """

    kind: str
    began: str
    seconds: float | None
    ok: bool
    plan: str
    failures: int
    checked: t.AbstractSet[Place]
    failed: t.AbstractSet[Place]
    slowest: float | None
    boots: t.Mapping[str, str]
    drifted: t.AbstractSet[str]
    scope: Scope


def run(verdict: Verdict) -> Run:
    """Return the parts of a verdict that the history needs."""
    rates: dict[str, list[float]] = {}
    for each in verdict.measures:
        if each.ok and each.gbits is not None:
            rates.setdefault(each.rail, []).append(each.gbits)
    cells = [(node, rail, state) for node, rails in verdict.matrix.items() for rail, state in rails.items()]
    failed = {(node, rail) for node, rail, state in cells if state == FAILED}
    return Run(
        verdict.kind,
        verdict.began,
        verdict.seconds,
        verdict.ok,
        verdict.plan,
        len(verdict.failures),
        {(node, rail) for node, rail, state in cells if state in (OK, FAILED)},
        failed,
        min(map(statistics.median, rates.values()), default=None),
        verdict.boots,
        {failure.node for failure in verdict.failures if failure.node},
        _scope(verdict),
    )


def _scope(verdict: Verdict) -> Scope:
    named = {
        key: frozenset(map(str, value)) if isinstance(value, list) else frozenset()
        for key, value in ((key, verdict.asked.get(key)) for key in ("layers", "rails", "tags", "skip_tags"))
    }
    return Scope(
        named["layers"], named["rails"], named["tags"] | named["skip_tags"], bool(verdict.cluster.get("reachable"))
    )


def ordered(runs: t.Iterable[Run]) -> list[Run]:
    """Return unique runs, the oldest first. Runs without a time are skipped."""
    by_time = {(each.kind, each.began): each for each in runs if each.began}
    return [by_time[key] for key in sorted(by_time, key=lambda key: (key[1], key[0]))]


def between(before: Run, now: Run) -> tuple[list[Place], list[Place]]:
    """Return new failures and fixed failures among the ports that both runs checked."""
    common = before.checked & now.checked
    return sorted((now.failed - before.failed) & common), sorted((before.failed - now.failed) & common)


def comparable(before: Run, now: Run) -> bool:
    """Return whether failures of two runs can be compared: both have the same kind, layers and tags."""
    return (before.kind, before.scope.layers, before.scope.tags) == (now.kind, now.scope.layers, now.scope.tags)


def clean_since(runs: t.Sequence[Run], node: str, boot: str, rails: t.Sequence[str], cluster: bool) -> str:
    """Return when a node was last seen without drift, and whether it has booted since; empty if unknown.

    Only runs count that checked this node, all layers and all rails, without tags.

    :param runs: earlier runs, the oldest first.
    :param rails: all rails of the plan.
    :param cluster: whether the run must have read the cluster, too.
    """
    for each in reversed(runs):
        if not each.scope.has(STATE, rails) or (cluster and not each.scope.cluster):
            continue
        if node in each.boots and node not in each.drifted:
            if not boot:
                return "clean on %s" % when(each.began)
            same_boot = each.boots[node] == boot
            return "clean on %s, %s" % (when(each.began), "not booted since" if same_boot else "booted since")
    return ""
