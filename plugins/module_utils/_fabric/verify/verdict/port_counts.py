# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count planned, failed and unknown ports and nodes of a run, and write the headline of the verdict.

The terminal, ``verify.json`` and the report page count with :func:`counts`.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import STORAGE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import role_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    Failure,
    NodeReport,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.proven_rails import UNTESTED

OK, FAILED, UNCHECKED, UNKNOWN = "ok", "failed", "not checked", "unknown"
# The maximum number of nodes and reasons in the headline.
_NAMES, _REASONS = 4, 2
_PARTNERS = "no working partner"

Matrix = t.Mapping[str, t.Mapping[str, str]]


class Counts(t.NamedTuple):
    """The numbers of ports. ``ports`` is the sum of the other three."""

    ports: int
    good: int
    failed: int
    unknown: int


def counts(matrix: Matrix, rails: t.Container[str] | None = None) -> Counts:
    """Return the numbers of ports of a matrix: node -> rail -> state.

    :param rails: the rails to count; None: all.
    """
    cells = [cell for row in matrix.values() for rail, cell in row.items() if rails is None or rail in rails]
    good, failed = cells.count(OK), cells.count(FAILED)
    return Counts(len(cells), good, failed, len(cells) - good - failed)


def word(layers: t.Container[str]) -> str:
    """Return what a good port is, depending on the layers of the run."""
    return "proven" if "rdma" in layers else "reached" if "reach" in layers else "ok"


def headline(run: Run, matrix: Matrix, degraded: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the verdict as one line.

    :param degraded: the rails that have lost planes, see :func:`.verify_engine.degraded_rails`.
    """
    if run.kind == DRIFT:
        return _drift(run)
    found, good = counts(matrix), word(run.layers)
    compute, storage = _by_role(run)
    of_ports = [_share(counts(matrix, compute), "port")]
    if storage:
        of_ports.append(_share(counts(matrix, storage), "storage port"))
    texts = [*_planes(degraded), *_degraded(run, matrix, degraded)]
    text = "%s %s%s" % (" and ".join(of_ports), good, "".join(", " + each for each in texts))
    if found.failed:
        nodes = [node for node, row in matrix.items() if FAILED in row.values()]
        text += "; {:,} failed on {}".format(found.failed, nodes[0] if len(nodes) == 1 else count(len(nodes), "node"))
    if found.unknown:
        text += "; {:,} unknown: {}".format(found.unknown, _reasons(run, matrix))
    others = sum(not _of_ports(run, matrix, each) for each in run.failures)
    text += "; %s" % count(others, "other failure") if others else ""
    counted = sum(matrix.get(node, {}).get(rail) == UNKNOWN for node, rail in run.unknown_ports())
    return text + _unknown_checks(run, "other " if counted else "")


def _unknown_checks(run: Run, other: str = "") -> str:
    """Return the number of checks that could not run, and that are not of a port of the matrix."""
    number = sum(each.rail is None or run.kind == DRIFT for each in run.unknowns)
    return "; %s" % count(number, other + "unknown check") if number else ""


def _share(found: Counts, noun: str) -> str:
    return "{:,} of {}".format(found.good, count(found.ports, noun))


def _drift(run: Run) -> str:
    """Return the numbers of nodes as planned, with drift, and unknown."""
    by_node: dict[str | None, int] = {}
    for each in run.failures:
        if each.node is None or run.reports[each.node].info is not None:
            by_node[each.node] = by_node.get(each.node, 0) + 1
    in_cluster = by_node.pop(None, 0)
    unknown = [report for report in run.reports.values() if report.info is None]
    good = len(run.reports) - len(by_node) - len(unknown)
    text = "{:,} of {} as planned".format(good, count(len(run.reports), "node"))
    if by_node:
        differences = count(sum(by_node.values()), "difference")
        text += "; {:,} drifted: {} ({})".format(len(by_node), fold_names(map(str, by_node), _NAMES), differences)
    if unknown:
        text += "; {:,} unknown: {}".format(len(unknown), ", ".join(unread(unknown)))
    text += "; %s in the cluster" % count(in_cluster, "difference") if in_cluster else ""
    return text + _unknown_checks(run)


def unread(reports: t.Iterable[NodeReport]) -> list[str]:
    """Return the nodes that could not be read, such as ``hgx-[5,7] do not answer``; many with their number."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in reports:
        groups.setdefault((each.unread(), each.unread(True)), []).append(each.name)
    found = []
    for texts, names in groups.items():
        which = fold_names(names, _NAMES)
        which = "%s (%s)" % (count(len(names), "node"), which) if len(names) > _NAMES else which
        found.append("%s %s" % (which, texts[len(names) > 1]))
    return found


def _reasons(run: Run, matrix: Matrix) -> str:
    """Return why ports are unknown: first the nodes that could not be read."""
    groups: dict[str, dict[str, None]] = {}
    unknown = run.unknown_ports()
    for node, row in matrix.items():
        for rail, cell in row.items() if run.reports[node].info is not None else ():
            place = (node, rail)
            if cell in (UNCHECKED, UNKNOWN):
                each = unknown.get(place) if cell == UNKNOWN else None
                why = "%s: %s" % (each.what, each.why) if each else run.untested.get(place, _PARTNERS)
                groups.setdefault(why, {})[rail] = None
    of_nodes = unread(each for each in run.reports.values() if each.info is None)
    of_rails = ["%s (%s)" % (fold_names(rails, _NAMES), why) for why, rails in groups.items()]
    texts = [*of_nodes, *of_rails[:_REASONS]]
    left = len(of_rails) - _REASONS
    return ", ".join(texts) + (" and %s" % count(left, "more reason") if left > 0 else "")


def _of_ports(run: Run, matrix: Matrix, failure: Failure) -> bool:
    """Return whether the numbers of ports contain a failure: of a port, an unread node, or untested rails."""
    if failure.node is None:
        return failure.code in UNTESTED.values()
    if run.reports[failure.node].info is None:
        return True
    if CODES[failure.code].degraded and failure.rails:
        return True
    ends = (failure.node, failure.peer or failure.node)
    return any(matrix.get(node, {}).get(rail) == FAILED for node in ends for rail in failure.rails)


def _degraded(run: Run, matrix: Matrix, planes: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return how many good ports have a failure that does not stop their traffic, without those of ``planes``."""
    named = {(row["node"], row["rail"]) for row in planes}
    failures = [each for each in run.failures if each.node and CODES[each.code].degraded]
    places = {(str(each.node), rail) for each in failures for rail in each.rails} - named
    nodes = sorted({node for node, rail in places if matrix.get(node, {}).get(rail) == OK})
    number = sum(matrix.get(node, {}).get(rail) == OK for node, rail in places)
    return ["{:,} degraded on {}".format(number, fold_names(nodes, _NAMES))] if number else []


def _planes(degraded: t.Sequence[t.Mapping[str, t.Any]], most: int = 2) -> list[str]:
    """Return the rails that carry traffic on some of their planes, such as ``gpu03 on 3 of 4 planes (ai-2)``."""
    groups: dict[tuple[str, int, int], list[str]] = {}
    for row in degraded:
        if row["proven"]:
            key = (row["rail"], row["planes"] - len(row["lost"]), row["planes"])
            groups.setdefault(key, []).append(row["node"])
    texts = ["%s on %d of %d planes (%s)" % (*key, fold_names(nodes, _NAMES)) for key, nodes in groups.items()]
    return [first_of(texts, most)] if texts else []


def _by_role(run: Run) -> tuple[list[str], list[str]]:
    """Return the compute rails and the storage rails of a run. Without compute rails, the first list has all rails."""
    ports = {port["rail"]: port for report in run.reports.values() for port in report.plan["ports"]}
    storage = [rail for rail in run.rails if rail in ports and role_of(ports[rail]) == STORAGE]
    compute = [rail for rail in run.rails if rail not in storage]
    return (compute, storage) if compute else (storage, [])
