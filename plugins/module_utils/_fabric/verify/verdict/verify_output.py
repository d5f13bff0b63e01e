# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A verdict for people and for CI: a summary that fits on a screen, and JUnit XML."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import STORAGE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import role_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import text_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.junit_xml import Case, junit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, Failure, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.proven_rails import (
    UNPROVEN,
    layer_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import (
    FAILED,
    Verdict,
)

# The numbers of failures, warnings and rows of the matrix that fit on a screen.
_FAILURES, _WARNINGS, _ROWS = 10, 5, 12
# The number of nodes that a line names.
_NAMES = 4
_MARKS = {"ok": "ok", FAILED: "FAILED", "not checked": "-"}


def headline(verdict: Verdict, shown: t.Mapping[str, t.Any]) -> str:
    """Return the first line of the summary."""
    run = verdict.run
    if run.kind == DRIFT:
        number = len(run.failures)
        drifted = "nothing drifted" if verdict.ok else "%s drifted" % text_table.count(number, "thing")
        return "%s: %s on %s" % (run.fabric["name"], drifted, text_table.count(len(run.reports), "node"))
    between = text_table.count(len(run.reports), "node")
    if verdict.proof is not None:
        word = "proven" if "rdma" in run.layers else "reached"
        unproven = rails_unproven(verdict.proof)
        not_proven = ", %d not %s" % (unproven, word) if unproven else ""
        compute, storage = _by_role(run)
        of_rails = ["%d of %s" % (rails_proven(shown, compute), text_table.count(len(compute), "rail"))]
        if storage:
            of_storage = text_table.count(len(storage), "storage rail")
            of_rails.append("%d of %s" % (rails_proven(shown, storage), of_storage))
        degraded = "".join(", " + each for each in _degraded(shown))
        return "%s %s between %s%s%s" % (" and ".join(of_rails), word, between, degraded, not_proven)
    return "%s: %s on %s" % (run.fabric["name"], "ok" if verdict.ok else "failed", between)


def _degraded(shown: t.Mapping[str, t.Any], most: int = 2) -> list[str]:
    """Return the rails that carry traffic on some of their planes, such as ``gpu03 on 3 of 4 planes (ai-2)``."""
    groups: dict[tuple[str, int, int], list[str]] = {}
    for row in shown.get("degraded_rails") or ():
        if row["proven"]:
            key = (row["rail"], row["planes"] - len(row["lost"]), row["planes"])
            groups.setdefault(key, []).append(row["node"])
    texts = ["%s on %d of %d planes (%s)" % (*key, text_table.first_of(nodes, _NAMES)) for key, nodes in groups.items()]
    return texts[:most] + (["and %d more" % (len(texts) - most)] if len(texts) > most else [])


def _planes(shown: t.Mapping[str, t.Any]) -> list[str]:
    """Return a line per rail with a lost plane: the plane, and at which part of its speed the rail carries traffic."""
    rows = shown.get("degraded_rails") or []
    texts = []
    for row in rows[:_FAILURES]:
        up, lost = row["planes"] - len(row["lost"]), ", ".join(map(str, row["lost"]))
        carries = "carries traffic on" if row["proven"] else "has"
        speed = ", at %d %% of its speed" % (100 * up // row["planes"]) if row["proven"] else ""
        texts.append(
            "%s %s %s %d of %d planes, without plane %s%s"
            % (row["node"], row["rail"], carries, up, row["planes"], lost, speed)
        )
    left = len(rows) - len(texts)
    return texts + (["and %s without a plane" % text_table.count(left, "more rail")] if left else [])


def _by_role(run: Run) -> tuple[list[str], list[str]]:
    """Return the compute rails and the storage rails of a run. Without compute rails, the first list has all rails."""
    ports = {port["rail"]: port for report in run.reports.values() for port in report.plan["ports"]}
    storage = [rail for rail in run.rails if rail in ports and role_of(ports[rail]) == STORAGE]
    compute = [rail for rail in run.rails if rail not in storage]
    return (compute, storage) if compute else (storage, [])


def rails_proven(shown: t.Mapping[str, t.Any], rails: t.Container[str] | None = None) -> int:
    """Return the number of rails that are ok on every node that has them. ``rails``: the rails to count; None: all."""
    cells: dict[str, list[str]] = {}
    for row in shown["matrix"].values():
        for rail, cell in row.items():
            if rails is not None and rail not in rails:
                continue
            cells.setdefault(rail, []).append(cell)
    return sum(all(cell == "ok" for cell in each) for each in cells.values())


def rails_unproven(proof: t.Mapping[str, t.Any] | None) -> int:
    """Return the number of rails that are neither proven nor failed."""
    return sum(each["state"] == UNPROVEN for each in (proof or {}).values())


def lines(verdict: Verdict, shown: t.Mapping[str, t.Any], where: str = "") -> list[str]:
    """Return the summary for a terminal: about 40 lines at most. Further failures, warnings and nodes are counted.

    :param shown: the verdict's document.
    :param where: the file that has all of them.
    """
    summary = [headline(verdict, shown)]
    rows = [
        (each["title"], each["checked"], each["failed"], each["not_checked"], each["why_not"])
        for each in shown["layers"]
    ]
    summary += text_table.table(("layer", "checked", "failed", "not checked", ""), rows)
    not_ok = [node for node, row in shown["matrix"].items() if any(cell != "ok" for cell in row.values())]
    if not_ok:
        # one row per node that is not ok
        head = ("", *verdict.run.rails)
        table = [(node, *(_MARKS.get(shown["matrix"][node].get(rail, ""), "") for rail in head[1:])) for node in not_ok]
        summary += text_table.table(head, table[:_ROWS])
        summary += ["and %s" % text_table.count(len(not_ok) - _ROWS, "more node")] if len(not_ok) > _ROWS else []
    summary += _planes(shown)
    summary += _speeds(shown)
    summary += _slots(shown)
    summary += _grouped(verdict.run.failures, _FAILURES, "failures")
    summary += ["warning: " + line for line in _grouped(verdict.run.warnings, _WARNINGS, "warnings")]
    return summary + (["results: %s" % where] if where else [])


def _grouped(failures: t.Sequence[Failure], most: int, word: str) -> list[str]:
    """Return one line per group of failures that differ only in the node."""
    groups: dict[Failure, list[Failure]] = {}
    for each in failures:
        groups.setdefault(_without_node(each), []).append(each)
    lines = [_line(alike) for alike in list(groups.values())[:most]]
    left = sum(len(alike) for alike in list(groups.values())[most:])
    return lines + (["and {:,} more {}".format(left, word)] if left else [])


def _line(alike: t.Sequence[Failure]) -> str:
    """Return one line of failures that differ only in the node."""
    if len(alike) == 1:
        return alike[0].line()
    return _without_node(alike[0]).line(text_table.first_of([str(each.node) for each in alike], _NAMES))


def _without_node(failure: Failure) -> Failure:
    """Return what failures of several nodes have in common. Failures of objects, without a node, are not grouped."""
    node = failure.node
    if node is None:
        return failure
    playbook = failure.playbook and failure.playbook.replace(" --limit %s" % node, "")
    return failure._replace(node=None, cause=failure.cause.replace(node, "NODE"), playbook=playbook)


def _speeds(shown: t.Mapping[str, t.Any]) -> list[str]:
    """Return a table of the least, median and greatest bandwidth of each rail."""
    by_rail: dict[str, list[float]] = {}
    for row in shown["measures"]:
        if row["gbits"] is not None:
            by_rail.setdefault(row["rail"], []).append(row["gbits"])
    if not by_rail:
        return []
    values = {rail: sorted(each) for rail, each in by_rail.items()}
    rows = []
    for name, pick in (("least", 0.0), ("median", 0.5), ("greatest", 1.0)):
        rows.append((name, *("%.2f" % each[int(pick * (len(each) - 1))] for each in values.values())))
    if all(len(each) == 1 for each in values.values()):
        rows = [("", *rows[0][1:])]
    return text_table.table(("Gb/s", *values), rows)


def _slots(shown: t.Mapping[str, t.Any]) -> list[str]:
    """Return one line that names the pods that hold slots of the agent."""
    slots = [
        "%s %s by %s" % (node, device, pod)
        for node, row in shown["slots"].items()
        for device, pod in sorted(row.items())
    ]
    return ["slots held: %s" % text_table.first_of(slots, _NAMES)] if slots else []


def as_junit(verdict: Verdict, shown: t.Mapping[str, t.Any]) -> bytes:
    """Return JUnit XML with a suite per layer and a case per node, so that a CI server can compare runs."""
    run = verdict.run
    suites = [("%s.%s" % (run.kind, layer["name"]), _cases(verdict, layer)) for layer in shown["layers"]]
    return junit("railyard %s" % run.kind, suites)


def _cases(verdict: Verdict, layer: t.Mapping[str, t.Any]) -> list[Case]:
    run, name = verdict.run, layer["name"]
    checked = {each for place in run.checked[name] for each in (place if isinstance(place, tuple) else (place,))}
    cases = [_case(run, layer, node, node in checked) for node in run.reports]
    if name in ("kubernetes", "pods"):
        cases.append(_case(run, layer, None, bool(checked))._replace(name="cluster"))
    elif verdict.proof is not None and name == layer_of(run):
        cases.append(_case(run, layer, None, bool(checked))._replace(name="rails"))  # of all nodes
    return cases


def _case(run: Run, layer: t.Mapping[str, t.Any], node: str | None, checked: bool) -> Case:
    """Return the case of a node, or without a node that of the cluster or of all rails."""
    failures = [each for each in run.failures_of(node) if each.layer == layer["name"] and each.node == node]
    if failures:
        lines = [each.line() for each in failures]
        return Case(str(node), (failures[0].code, lines[0], "\n".join(lines)))
    warnings = [each for each in run.warnings if node is None and each.node is None and each.layer == layer["name"]]
    if warnings:
        return Case(str(node), skipped=warnings[0].line())
    return Case(str(node), skipped=None if checked else layer["why_not"] or "an earlier layer failed")
