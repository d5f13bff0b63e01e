# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Discovery: create the text of a fabric file and findings from the results of ``rail_info`` on many nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Builder, Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import (
    DiscoverFinding,
    Findings,
    named,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import (
    ObservedNode,
    Row,
    observe,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import document, write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    WARNING,
    Finding,
    Path,
    dotted,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint import lint_run as linting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import undecided_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import expanded, natural
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import WIDTH, count, fold, table

_HEAD = ("rule", "severity", "place", "nodes", "what is uncertain", "remedy")
# Longest line of a comment, in characters, without its indentation.
_WIDE = 106


class NodeInfo(t.NamedTuple):
    """A node, the address at which Ansible reaches it, and its ``rail_info``, which is empty if it was unreachable."""

    name: str
    address: str | None
    result: Row


class Outcome(t.NamedTuple):
    """``text``: the fabric file, empty if no rail was found. ``lint``: its findings except its marks."""

    text: str
    findings: list[DiscoverFinding]
    lint: list[Finding]
    nodes: int
    rails: int


def run(infos: t.Sequence[NodeInfo], options: Options) -> Outcome:
    """Create a fabric file from nodes. Does not raise for any result of ``rail_info``, however incomplete.

    :raises RailyardError: for a supernet that is too small or in use, and for other invalid options.
    """
    findings = Findings()
    observed: list[ObservedNode] = []
    for info in sorted(infos, key=lambda info: natural(info.name)):
        if "nics" not in info.result:
            message = "the node did not report its NICs"
            remedy = "fix the error that is shown for it above, and run discovery again"
            findings.add("DS101", ("nodes",), message, remedy, [info.name])
            continue
        observed.append(observe(info.name, info.address, info.result, options.lldp.get(info.name, {}), findings))
    builder = Builder(observed, options, findings)
    if not builder.rails:
        return Outcome("", findings.all, [], len(observed), 0)
    fabric = builder.build()
    text = write(fabric, _comments(fabric, findings.all, len(observed)))
    linted = undecided_values.without(linting.lint(text.encode("utf-8")).findings)
    return Outcome(text, findings.all, linted, len(observed), len(builder.rails))


def _comments(fabric: Fabric, findings: t.Sequence[DiscoverFinding], nodes: int) -> dict[Path, list[str]]:
    """Return the findings as comments above the value concerned; for a node within a range, above the range."""
    data = document(fabric)
    keys = {name: key for key in data["nodes"] for name in expanded(key)}
    comments: dict[Path, list[str]] = {
        (): ["Discovered on %s. DECIDE marks what nodes do not show, CHECK what was inferred." % count(nodes, "node")]
    }
    for finding in findings:
        path = finding.place
        if path[:1] == ("nodes",) and len(path) > 1:
            path = ("nodes", keys.get(str(path[1]), str(path[1])))
        comments.setdefault(_there(path, data, fabric), []).extend(fold(finding.comment, _WIDE))
    return comments


def _there(path: Path, data: t.Any, fabric: Fabric) -> Path:
    """Return the part of the path that exists in the file."""
    parts = {rail.name: rail for rail in fabric.rails if rail.planes > 1 or rail.nics > 1}
    if path[:1] == ("rails",) and len(path) > 1 and path[1] in parts:
        rail = parts[str(path[1])]
        nic = ("nics", rail.nic - 1) if rail.nics > 1 else ()
        path = ("rails", rail.base, *nic, *(("planes", rail.plane - 1) if rail.planes > 1 else ()))
    for size in range(len(path)):
        step = path[size]
        if not (isinstance(data, dict) and step in data or isinstance(data, list) and isinstance(step, int)):
            return path[:size]
        data = t.cast(t.Any, data)[step]
    return path


def as_table(findings: t.Sequence[DiscoverFinding], width: int = WIDTH) -> str:
    rows = [
        (each.label, each.severity, dotted(each.place), named(each.nodes), each.message, each.remedy)
        for each in findings
    ]  # fmt: skip
    return "\n".join(table(_HEAD, rows, width))


def counts(findings: t.Sequence[DiscoverFinding]) -> dict[str, int]:
    return {severity: sum(each.severity == severity for each in findings) for severity in (ERROR, WARNING)}


def summary(outcome: Outcome) -> str:
    """Return the result in one line."""
    numbers = counts(outcome.findings)
    return "%s give %s; to decide: %d, to check: %d" % (
        count(outcome.nodes, "node"),
        count(outcome.rails, "rail"),
        numbers[ERROR],
        numbers[WARNING],
    )
