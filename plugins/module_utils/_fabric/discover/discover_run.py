# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Discovery: what ``rail_info`` told of many nodes in; a fabric file's text and doubts out."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Builder, Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import Row, Seen, see
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.open_questions import (
    Doubt,
    Doubts,
    named,
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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import BadRange, HostRange
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, fold, table

_HEAD = ("code", "severity", "place", "nodes", "what is in doubt", "remedy")
# Characters of a comment's line: a file's, less indentation.
_WIDE = 106
_DIGITS = re.compile(r"([0-9]+)")


class Told(t.NamedTuple):
    """A node: where Ansible reaches it, and what ``rail_info`` returned of it; empty where it could not be asked."""

    name: str
    address: str | None
    result: Row


class Outcome(t.NamedTuple):
    """``text``: the fabric file, empty where there is no rail. ``lint``: what lint says of it."""

    text: str
    doubts: list[Doubt]
    lint: list[Finding]
    nodes: int
    rails: int


def run(told: t.Sequence[Told], options: Options) -> Outcome:
    """Make a fabric file of nodes. Never raises for what ``rail_info`` returns, however little it is."""
    doubts = Doubts()
    seen: list[Seen] = []
    for each in sorted(told, key=lambda each: _natural(each.name)):
        if "nics" not in each.result:
            message = "the node told nothing of its NICs"
            doubts.add("DS101", ("nodes",), message, "see its error above, and run discovery again", [each.name])
            continue
        seen.append(see(each.name, each.address, each.result, options.lldp.get(each.name, {}), doubts))
    builder = Builder(seen, options, doubts)
    if not builder.rails:
        return Outcome("", doubts.all, [], len(seen), 0)
    fabric = builder.build()
    text = write(fabric, _comments(fabric, doubts.all, len(seen)))
    return Outcome(text, doubts.all, linting.lint(text.encode("utf-8")).findings, len(seen), len(builder.rails))


def _natural(name: str) -> list[t.Any]:
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(name)]


def _comments(fabric: Fabric, doubts: t.Sequence[Doubt], nodes: int) -> dict[Path, list[str]]:
    """Doubts above what they are about; of a node within a range, above the range."""
    data = document(fabric)
    keys = _ranges(data["nodes"])
    found: dict[Path, list[str]] = {
        (): ["Discovered on %s. DECIDE marks what nodes do not say, CHECK what was concluded." % count(nodes, "node")]
    }
    for doubt in doubts:
        path = doubt.place
        if path[:1] == ("nodes",) and len(path) > 1:
            path = ("nodes", keys.get(str(path[1]), str(path[1])))
        found.setdefault(_there(path, data, fabric), []).extend(fold(doubt.comment, _WIDE))
    return found


def _ranges(nodes: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Node -> the key that stands for it."""
    found: dict[str, str] = {}
    for key in nodes:
        try:
            found.update((name, key) for name in HostRange(key))
        except BadRange:
            found[key] = key
    return found


def _there(path: Path, data: t.Any, fabric: Fabric) -> Path:
    """The path as far as the file has it."""
    planes = {rail.name: (rail.base, "planes", rail.plane - 1) for rail in fabric.rails if rail.planes > 1}
    if path[:1] == ("rails",) and len(path) > 1 and path[1] in planes:
        path = ("rails", *planes[str(path[1])])
    for size in range(len(path)):
        step = path[size]
        if not (isinstance(data, dict) and step in data or isinstance(data, list) and isinstance(step, int)):
            return path[:size]
        data = t.cast(t.Any, data)[step]
    return path


def as_table(doubts: t.Sequence[Doubt]) -> str:
    rows = [
        (each.code, each.severity, dotted(each.place), named(each.nodes), each.message, each.remedy)
        for each in doubts
    ]  # fmt: skip
    return "\n".join(table(_HEAD, rows))


def counts(doubts: t.Sequence[Doubt]) -> dict[str, int]:
    """How many there are of each severity."""
    return {severity: sum(each.severity == severity for each in doubts) for severity in (ERROR, WARNING)}


def summary(outcome: Outcome) -> str:
    """What was seen and what it gave, as one line."""
    numbers = counts(outcome.doubts)
    return "%s give %s; to decide: %d, to check: %d" % (
        count(outcome.nodes, "node"),
        count(outcome.rails, "rail"),
        numbers[ERROR],
        numbers[WARNING],
    )
