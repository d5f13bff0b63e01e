# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failed probes with one cause: a leaf, the path between two leaves, a whole rail, or the port of one node."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing.fault_causes import (
    LEAF,
    PATH,
    PORTS,
    RAIL,
    RECEIVES,
    SENDS,
    Cause,
    Place,
    Result,
    find,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import (
    Leaves,
    leaves_of,
)

# Layer -> kind of a cause -> the code of its failure. The failure of a port has the code of what its probes show.
_CODES = {
    "reach": {PATH: "RV811", LEAF: "RV812", RAIL: "RV813"},
    "rdma": {PATH: "RV881", LEAF: "RV882", RAIL: "RV883"},
}
FAILS, SLOW = "fails", "is slow"
# Kind of a cause -> what its transfers with partners show; without an entry, what all failed probes show.
_DIRECTIONS = {SENDS: "sends slowly to", RECEIVES: "receives slowly from"}
# The number of nodes that a line names.
_NAMED = 3


def report(run: Run, layer: str, bad: t.Sequence[Probe], good: t.Sequence[Probe], fault: str) -> list[Probe]:
    """Report the causes that several nodes share, and return the other failed probes.

    For ports that alone explain their failed probes, note the evidence in ``run.evidence``.

    :param bad, good: the failed and successful probes of the layer.
    :param fault: what the failed ones show, :data:`FAILS` or :data:`SLOW`.
    """
    results = {Result(each.rail, each.nodes, False): each for each in good}
    results.update({Result(each.rail, each.nodes, True, fault == SLOW): each for each in bad})
    leaves = {(node, each.rail): leaves_of(run.port(node, each.rail)) for each in (*bad, *good) for node in each.nodes}
    succeeds = {(node, each.rail) for each in good for node in each.nodes}
    left = {key: each for key, each in results.items() if key.bad}
    for cause in find(results, leaves).causes if bad else ():
        if cause.kind in PORTS:
            partners = [node for node in cause.partners() if (node, cause.rail) in succeeds]
            how = _DIRECTIONS.get(cause.kind, fault + " with")
            text = "the port %s %s, which succeed with other nodes" % (how, first_of(partners, _NAMED))
            run.evidence[layer, str(cause.node), cause.rail] = text
            continue
        gbits = [float(results[each].transfer.get("gbits") or 0) for each in cause.bad] if fault == SLOW else []
        _fail(run, layer, cause, leaves, succeeds, gbits)
        for result in cause.bad:
            left.pop(result, None)
    return list(left.values())


def _fail(
    run: Run,
    layer: str,
    cause: Cause,
    leaves: t.Mapping[Place, Leaves],
    succeeds: t.Container[Place],
    gbits: t.Sequence[float],
) -> None:
    """Report a cause that several nodes share. Its ports fail too, unless only the path between two leaves fails.

    :param gbits: of failed probes that are too slow.
    """
    nodes = cause.nodes()
    affected: list[str] = []
    if cause.kind == PATH:
        what, where = "path between two leaves", "between %s" % " and ".join("/".join(end) for end in cause.leaves)
    elif cause.kind == LEAF:
        what, where = "leaf", "over %s" % " or ".join(cause.leaves)
        affected = [node for node in nodes if set(cause.leaves) & set(leaves[node, cause.rail])]
    else:
        what, where = "rail", "over all of its leaves"
        affected = [node for node in nodes if (node, cause.rail) not in succeeds]
    how = "are slow (median %.1f Gb/s)" % statistics.median(gbits) if gbits else "fail"
    pairs = count(len(cause.bad) + len(cause.good), "pair")
    found = "%d of %s %s %s" % (len(cause.bad), pairs, where, how)
    found += ", such as those of %s" % first_of(sorted(affected or nodes), _NAMED)
    code = _CODES[layer][cause.kind]
    run.fail(code, None, cause.rail, what, found=found, affected=affected)


def named(run: Run, layer: str, probe: Probe) -> str | None:
    """Return the node of a failed probe whose port alone explains it; None if none does."""
    return next((node for node in probe.nodes if (layer, node, probe.rail) in run.evidence), None)
