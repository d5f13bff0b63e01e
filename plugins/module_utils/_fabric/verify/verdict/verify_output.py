# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A verdict for people and for CI: a summary that fits on a screen, and JUnit XML."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import text_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.junit_xml import Case, junit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, Failure, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import congestion_layer, soak_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import next_steps, port_counts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.port_counts import (
    FAILED,
    UNCHECKED,
    UNKNOWN,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.proven_rails import (
    UNPROVEN,
    layer_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import Verdict

# The numbers of warnings and rows of nodes that fit on a screen.
_WARNINGS, _ROWS = 3, 10
# The number of rails with a lost plane, and of names in a line.
_PLANES, _NAMES = 5, 4
_MARKS = {"ok": "ok", FAILED: "FAILED", UNCHECKED: "unknown", UNKNOWN: "unknown"}
_GBITS = "%.2f"
# node (None: the cluster) -> a line per reason why a check of a layer could not run
UnknownLines = t.Mapping[t.Optional[str], t.Sequence[str]]


def _planes(shown: t.Mapping[str, t.Any]) -> list[str]:
    """Return a line per rail with a lost plane: the plane, and at which part of its speed the rail carries traffic."""
    rows = shown.get("degraded_rails") or []
    texts = []
    for row in rows[:_PLANES]:
        up, lost = row["planes"] - len(row["lost"]), ", ".join(map(str, row["lost"]))
        carries = "carries traffic on" if row["proven"] else "has"
        speed = ", at %d %% of its speed" % (100 * up // row["planes"]) if row["proven"] else ""
        texts.append(
            "%s %s %s %d of %d planes, without plane %s%s"
            % (row["node"], row["rail"], carries, up, row["planes"], lost, speed)
        )
    left = len(rows) - len(texts)
    return texts + (["and %s without a plane" % text_table.count(left, "more rail")] if left else [])


def rails_proven(shown: t.Mapping[str, t.Any]) -> int:
    """Return the number of rails that are ok on every node that has them."""
    cells = [item for row in shown["matrix"].values() for item in row.items()]
    return len({rail for rail, _cell in cells} - {rail for rail, cell in cells if cell != "ok"})


def rails_unproven(proof: t.Mapping[str, t.Any] | None) -> int:
    """Return the number of rails that are neither proven nor failed."""
    return sum(each["state"] == UNPROVEN for each in (proof or {}).values())


class Commands(t.NamedTuple):
    """What the summary names. ``results``: the file of the verdict; ``report``: the command that writes the page.

    ``play``: returns the command that runs a playbook with options.
    """

    results: str
    report: str
    play: t.Callable[[str], str]


def lines(verdict: Verdict, shown: t.Mapping[str, t.Any], width: int, commands: Commands | None = None) -> list[str]:
    """Return the summary for a terminal: the headline, numbers, and what to do, about 40 lines at most.

    :param shown: the verdict's document.
    :param width: characters of a line. Commands are not broken.
    """
    run = verdict.run
    steps = of_failures(run, run.failures)
    summary = [*text_table.wrapped(shown["headline"], width), "", *_layers(run, shown, width)]
    summary += _nodes(run, shown, width)
    rounds = [*congestion_layer.lines(shown.get("congestion") or ()), *soak_layer.lines(shown.get("soak"))]
    for each in (*_planes(shown), *_slots(shown), *rounds):
        summary += text_table.wrapped(each, width)
    summary += _speeds(run, shown, width)
    if steps:
        summary += ["", "What to do first:"]
        for each in next_steps.lines(steps):
            summary += text_table.wrapped(each, width, "   ")
    warnings = of_failures(run, run.warnings)
    for step in warnings[:_WARNINGS]:
        summary += text_table.wrapped("warning: " + step.line(), width, "   ")
    if len(warnings) > _WARNINGS:
        summary.append("and %s" % text_table.count(len(warnings) - _WARNINGS, "more warning"))
    unknown = run.unknown_groups()
    for (check, node), rails in list(unknown.items())[:_WARNINGS]:
        summary += text_table.wrapped("unknown: " + check.line(node, rails), width, "   ")
    if len(unknown) > _WARNINGS:
        summary.append("and %s" % text_table.count(len(unknown) - _WARNINGS, "more unknown check"))
    return [*summary, *([] if commands is None else ["", *_commands(verdict, steps, commands)])]


def of_failures(run: Run, failures: t.Sequence[Failure]) -> list[next_steps.Step]:
    """Return the steps for failures or warnings, as the report page has them."""
    texts = []
    for each in failures:
        values: list[str] = [each.code, each.layer, *(str(value or "") for value in each[1:10])]
        texts.append(next_steps.Failure(*values)._replace(rails=each.rails))
    plans = ({"name": report.name, "ports": report.plan["ports"]} for report in run.reports.values())
    return next_steps.steps(plans, [next_steps.Judged(run.kind, run.layers, texts)])


def _commands(verdict: Verdict, steps: t.Sequence[next_steps.Step], commands: Commands) -> list[str]:
    """Return where the results are, how to write the page, and the next command."""
    run = verdict.run
    play = next_steps.next_play(steps, run.reports)
    if not play and verdict.ok and run.kind == DRIFT:
        play = playbook("verify")
    found = ["results: %s" % commands.results]
    if play:
        found.append("report:  %s" % commands.report)
    return [*found, "next:    %s" % (commands.play(play) if play else commands.report)]


def _layers(run: Run, shown: t.Mapping[str, t.Any], width: int) -> list[str]:
    """Return a table of the layers that were checked, and the reasons for the others."""
    rows: list[text_table.Row] = []
    partly: list[str] = []
    others: dict[str, list[str]] = {}
    # the headline names the nodes that could not be read
    unread = ", ".join(port_counts.unread(each for each in run.reports.values() if each.info is None))
    columns = ["failed", *(["unknown"] if run.unknowns else []), "not_checked"]
    for each in shown["layers"]:
        if each["checked"] or each["failed"]:
            numbers = ("{:,}".format(each[key]) for key in columns)
            rows.append((each["title"], _unit(run, each["name"]), *numbers))
            if each["why_not"] and each["why_not"] != unread:
                partly.append("%s: %s" % (each["title"], each["why_not"]))
        else:
            others.setdefault(each["why_not"] or "a lower layer failed", []).append(each["title"])
    found = text_table.table(("layer", "checked", *(name.replace("_", " ") for name in columns)), rows, width)
    for text in [*partly, *("not checked: %s: %s" % ("; ".join(titles), why) for why, titles in others.items())]:
        found += text_table.wrapped(text, width, "   ")
    return found


def _unit(run: Run, layer: str) -> str:
    """Return how many nodes, ports or pairs of ports were checked."""
    # nodes are names or (name, None), ports (node, rail), and pairs of ports (node, node, rail)
    sizes = [1 if isinstance(place, str) else len(place) - (place[-1] is None) for place in run.checked[layer]]
    return text_table.count(sizes.count(max(sizes)), ("node", "port", "pair")[max(sizes) - 1]) if sizes else "none"


def _nodes(run: Run, shown: t.Mapping[str, t.Any], width: int) -> list[str]:
    """Return the nodes with a port that is not good, without those that could not be read.

    That is a table with the rails as columns, if it fits, or else one line for all nodes with the same ports.
    """
    rails: list[str] = shown["rails"]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, cells in shown["matrix"].items():
        if node not in shown["unread"] and any(cell != "ok" for cell in cells.values()):
            groups.setdefault(tuple(cells.items()), []).append(node)
    if not groups:
        return []
    rows = [
        (fold_names(nodes), *(_MARKS[dict(cells)[rail]] if rail in dict(cells) else "" for rail in rails))
        for cells, nodes in list(groups.items())[:_ROWS]
    ]
    table = text_table.table(("node", *rails), rows, 1 << 16)
    if max(map(len, table)) > width:
        table = []
        for cells, nodes in list(groups.items())[:_ROWS]:
            of_state = {mark: [rail for rail, cell in cells if _MARKS[cell] == mark] for mark in ("FAILED", "unknown")}
            texts = ["%s %s" % (mark, fold_names(each)) for mark, each in of_state.items() if each]
            table += text_table.wrapped("%s: %s" % (fold_names(nodes), "; ".join(texts)), width, "   ")
    left = sum(map(len, list(groups.values())[_ROWS:]))
    return ["", *table, *(["and %s" % text_table.count(left, "more node")] if left else [])]


def _speeds(run: Run, shown: t.Mapping[str, t.Any], width: int) -> list[str]:
    """Return the least, median and greatest bandwidth of each rail, or of all rails if the table is too wide."""
    by_rail: dict[str, list[float]] = {}
    for row in shown["measures"]:
        if row["gbits"] is not None:
            by_rail.setdefault(row["rail"], []).append(row["gbits"])
    values = {rail: sorted(by_rail[rail]) for rail in run.rails if rail in by_rail}
    if not values:
        return []
    picks = (("least", 0.0), ("median", 0.5), ("greatest", 1.0))

    def pick(each: t.Sequence[float], part: float) -> str:
        return _GBITS % each[int(part * (len(each) - 1))]

    rows = [(name, *(pick(each, part) for each in values.values())) for name, part in picks]
    if all(len(each) == 1 for each in values.values()):
        rows = [("measured", *rows[0][1:])]
    table = text_table.table(("Gb/s", *values), rows, 1 << 16)
    if max(map(len, table)) > width:
        every = sorted(value for each in values.values() for value in each)
        texts = ", ".join("%s %s Gb/s" % (name, pick(every, part)) for name, part in picks)
        slowest = min(values, key=lambda rail: values[rail][0])
        of_rails = "bandwidth of %s: %s; %s has the least" % (text_table.count(len(values), "rail"), texts, slowest)
        table = text_table.wrapped(of_rails, width, "   ")
    return ["", *table]


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
    # layer -> node -> a line per reason
    unknown: dict[str, dict[str | None, list[str]]] = {}
    for (each, node), rails in run.unknown_groups().items():
        unknown.setdefault(each.layer, {}).setdefault(node, []).append(each.line(node, rails))
    suites = [
        ("%s.%s" % (run.kind, layer["name"]), _cases(verdict, layer, unknown.get(layer["name"], {})))
        for layer in shown["layers"]
    ]
    return junit("railyard %s" % run.kind, suites)


def _cases(verdict: Verdict, layer: t.Mapping[str, t.Any], unknown: UnknownLines) -> list[Case]:
    run, name = verdict.run, layer["name"]
    checked = {each for place in run.checked[name] for each in (place if isinstance(place, tuple) else (place,))}
    cases = [_case(run, layer, node, node in checked, unknown) for node in run.reports]
    if name in ("kubernetes", "pods"):
        cases.append(_case(run, layer, None, bool(checked), unknown)._replace(name="cluster"))
    elif verdict.proof is not None and name == layer_of(run):
        cases.append(_case(run, layer, None, bool(checked), unknown)._replace(name="rails"))  # of all nodes
    return cases


def _case(run: Run, layer: t.Mapping[str, t.Any], node: str | None, checked: bool, unknown: UnknownLines) -> Case:
    """Return the case of a node, or without a node that of the cluster or of all rails."""
    failures = [each for each in run.failures_of(node) if each.layer == layer["name"] and each.node == node]
    if failures:
        lines = [each.line() for each in failures]
        return Case(str(node), (failures[0].code, lines[0], "\n".join(lines)))
    warnings = [each for each in run.warnings if node is None and each.node is None and each.layer == layer["name"]]
    if warnings:
        return Case(str(node), skipped=warnings[0].line())
    if node in unknown:
        return Case(str(node), skipped="\n".join(unknown[node]))
    return Case(str(node), skipped=None if checked else layer["why_not"] or "an earlier layer failed")
