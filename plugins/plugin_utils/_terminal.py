# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Format the results of one task on many nodes as lines for a terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.change_groups import groups
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

# Rows of a list that are printed. The number of other rows follows.
MOST_ROWS = 8
# The same for the changes of a layer.
MOST_CHANGES = 16
Result = t.Mapping[str, t.Any]
# Results without changes, of modules that list changes and of others: the same object for all nodes.
_AS_PLANNED: Result = {"changes": []}
_PLAIN: Result = {}


def duration(seconds: float) -> str:
    """Return a duration: ``12 s``, ``3 min 20 s``; empty below one second."""
    whole = int(seconds)
    if whole < 1:
        return ""
    if whole < 120:
        return "%d s" % whole
    return "%d min %d s" % divmod(whole, 60)


def changes_of(result: Result) -> list[t.Mapping[str, t.Any]]:
    """Return the changes in a result of our modules, including those of all items of a loop."""
    parts = [result, *(each for each in result.get("results") or () if isinstance(each, dict))]
    return [change for part in parts for change in part.get("changes") or () if isinstance(change, dict)]


def layers_of(name: str, result: Result) -> dict[str, Result]:
    """Return layer -> its result. A task of a module for one layer is a layer ``name``."""
    layers = result.get("modules")
    if isinstance(layers, dict) and all(isinstance(each, dict) for each in layers.values()):
        return layers
    return {name: result}


def kept(name: str, result: Result) -> dict[str, Result]:
    """Return layer -> the part of its result that :func:`summary` needs: a callback stores it for each node."""
    return {
        layer: {"changed": True, "changes": changes_of(part)}
        if part.get("changed")
        else _AS_PLANNED
        if "changes" in part
        else _PLAIN
        for layer, part in layers_of(name, result).items()
    }


def summary(name: str, results: t.Mapping[str, Result], check: bool, changes: bool) -> list[str]:
    """Return the lines about one layer or task on the nodes where it succeeded; none if there is nothing to show.

    :param results: node -> result.
    :param changes: list the changes too, unless the diff was printed.
    """
    lines: list[str] = []
    changed = {node: result for node, result in results.items() if result.get("changed")}
    verb = "would change" if check else "changed"
    if changed and list(results) == ["localhost"]:
        # A task of the control node, not of nodes.
        lines.append("%s: %s" % (name, verb))
    elif changed:
        others = len(results) - len(changed)
        lines.append(
            "%s: %s %s%s: %s"
            % (
                name,
                count(len(changed), "node"),
                verb,
                ", {:,} as planned".format(others) if others else "",
                fold_names(changed),
            )
        )
    if changed and changes:
        lines += ["  " + line for line in change_lines(changed)]
    elif not changed and any("changes" in result for result in results.values()):
        lines.append("%s: %s as planned" % (name, count(len(results), "node")))
    return lines


def change_lines(results: t.Mapping[str, Result]) -> list[str]:
    """Return a line for equal changes of ports and nodes, the most frequent first."""
    found = sorted(
        groups({node: changes_of(result) for node, result in results.items()}), key=lambda each: -each.changes
    )
    lines = [each.text if len(results) == 1 else each.line for each in found[:MOST_CHANGES]]
    more = sum(each.changes for each in found[MOST_CHANGES:])
    return [*lines, "and %s, which -v shows" % count(more, "more change")] if more else lines


def failure_text(result: Result) -> str:
    """Return the error of a failed result: its message, those of a loop's items, or the end of a command's output."""
    items = [each for each in result.get("results") or () if isinstance(each, dict) and each.get("failed")]
    if items:
        return "\n".join(dict.fromkeys(failure_text(each) for each in items))
    text = str(result.get("msg") or "").strip()
    for key in ("module_stderr", "stderr", "module_stdout", "stdout"):
        more = str(result.get(key) or "").strip()
        if more and more not in text and ("\n" not in text):
            text = "%s\n%s" % (text, "\n".join(more.splitlines()[-MOST_ROWS:]))
            break
    return text.strip() or "The task failed without a message. Remedy: run it again with -vvv."
