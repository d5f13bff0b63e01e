# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``hosts.yml`` would change, for all nodes together: the sum, what decides, the changes; and each change."""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import FILE, STEP
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.change_groups import (
    Group,
    error_groups,
    file_state,
    groups,
    nodes_text,
    value_text,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, fold

Row = t.Mapping[str, t.Any]
# Lines of a preview, a screen.
SCREEN = 40
# Lines of refusals, and of each other section before the changes: the first pair that leaves enough lines for changes.
# The number of other rows follows.
_LIMITS = ((16, 6), (12, 4), (8, 2), (3, 1))
# Lines of the changes and of the end.
_LEAST = 8
_REFUSED = "Refused"
_PORTS, _PORTS_RECORD = "rail_ports", "/rail_ports.json"
_SEPARATOR = ";"
# A space at which a line is not broken, and the longest text that has such spaces.
_GLUE, _MOST_GLUED = "\0", 40
_VALUES = re.compile(r"<[0-9,]+ \w+>")


class NodePreview(t.NamedTuple):
    """A node. ``rails``: those of its planned ports; ``seen``: what ``rail_host`` predicts; None without an answer."""

    name: str
    rails: t.Sequence[str]
    seen: Row | None

    def part(self, key: str) -> t.Any:
        """Return a part of what the node predicts; None without it."""
        return (self.seen or {}).get(key)

    @property
    def modules(self) -> t.Mapping[str, Row]:
        found: t.Mapping[str, Row] = self.part("modules") or {}
        return found

    @property
    def errors(self) -> t.Sequence[Row]:
        return self.part("errors") or ()

    @property
    def changes(self) -> list[Row]:
        return [change for part in self.modules.values() for change in part["changes"]]

    @property
    def is_as_planned(self) -> bool:
        others = [key for key in self.part("needs") or () if key != "node"]
        left = any(self.part(key) for key in ("errors", "not_judged", "reboot_reasons"))
        return self.seen is not None and not (self.changes or others or left)


class Preview:
    """The preview of a run of ``hosts.yml``. ``nodes``: in the order of the inventory."""

    def __init__(self, nodes: t.Sequence[NodePreview]) -> None:
        self.nodes = nodes
        self.refused = [node.name for node in nodes if node.errors]
        self.silent = [node.name for node in nodes if node.seen is None]
        self.reboots: dict[str, t.Sequence[str]] = {
            node.name: node.part("reboot_reasons") for node in nodes if node.part("reboot_reasons")
        }
        self.errors = error_groups({node.name: node.errors for node in nodes if node.errors})
        states = [_port_states(node) for node in nodes]
        self.ports = {
            state: sum(len(each[state]) for each in states) for state in ("new", "changed", "removed", "not judged")
        }
        modules = dict.fromkeys(name for node in nodes for name in node.modules)
        self.layers: dict[str, list[Group]] = {}
        for module in modules:
            self.layers[module] = groups(
                {node.name: node.modules[module]["changes"] for node in nodes if module in node.modules}
            )

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of the sum."""
        return {
            "nodes": len(self.nodes),
            "ports_new": self.ports["new"],
            "ports_changed": self.ports["changed"],
            "ports_removed": self.ports["removed"],
            "ports_not_judged": self.ports["not judged"],
            "changes": sum(len(node.changes) for node in self.nodes),
            "reboots": len(self.reboots),
            "refusals": sum(group.changes for group in self.errors),
            "as_planned": sum(node.is_as_planned for node in self.nodes),
            "not_answering": len(self.silent),
        }

    @property
    def summary(self) -> str:
        """The sum: ``32 nodes: 256 ports new, 0 reboots, 3 refusals``."""
        numbers = self.counts
        parts = ["%s %s" % (count(number, "port"), state) for state, number in self.ports.items() if number]
        if not (self.ports["new"] or self.ports["changed"] or self.ports["removed"]):
            parts.insert(0, count(numbers["changes"], "change"))
        parts += [count(numbers["reboots"], "reboot"), count(numbers["refusals"], "refusal")]
        if numbers["as_planned"]:
            parts.append("%s as planned" % count(numbers["as_planned"], "node"))
        if numbers["not_answering"]:
            parts.append("%s without an answer" % count(numbers["not_answering"], "node"))
        return "%s: %s" % (count(numbers["nodes"], "node"), ", ".join(parts))

    def lines(self, width: int, path: str, most: int = SCREEN, reboots_allowed: bool = False) -> list[str]:
        """Return the preview as at most ``most`` lines of ``width`` characters.

        :param path: the file that has all changes; empty if it could not be written.
        """
        for limits in _LIMITS:
            before = self._before(width, path, limits, reboots_allowed)
            if len(before) <= most - _LEAST:
                break
        planned = [name for name, found in self.layers.items() if not found and name in self._judged()]
        after = _wrapped("as planned on all nodes: %s" % ", ".join(planned), width) if planned else []
        if path:
            after.append("everything: %s" % path)
        room = most - len(before) - len(after) - 1
        changes = self._changes(width)
        if len(changes) > room:
            rows = self._compact_rows(width)
            changes = [line for lines, _changes in rows for line in lines]
            if len(changes) > room:
                changes = self._cut(rows, room, path)
        return [*before, *([""] if changes or after else []), *changes, *after]

    def _before(self, width: int, path: str, limits: tuple[int, int], reboots_allowed: bool) -> list[str]:
        """Return the lines before the changes. ``limits``: lines of refusals, and of each other section."""
        lines = _wrapped(self.summary, width)
        for heading, entries in self._decisive(reboots_allowed):
            rows = [_wrapped(entry, width) for entry in entries]
            lines += ["", heading, *_limited(rows, limits[heading != _REFUSED], path)]
        return lines

    def _judged(self) -> set[str]:
        """Return the modules that every node that answers has judged, without an error."""
        answered = [node for node in self.nodes if node.seen is not None]
        left = {name for node in answered for name in node.part("not_judged") or ()}
        failed = {name for node in answered for name, part in node.modules.items() if part.get("failed")}
        missing = {name for node in answered for name in self.layers if name not in node.modules}
        return set(self.layers) - left - failed - missing

    def _decisive(self, reboots_allowed: bool) -> t.Iterator[tuple[str, list[str]]]:
        """Yield heading and entries of each section before the changes."""
        if self.errors:
            yield _REFUSED, [_with_remedy(group) for group in self.errors]
        if self.silent:
            yield "Without an answer", ["  " + fold_names(self.silent)]
        if self.reboots:
            why = _nodes_by_text(self.reboots)
            remedy = "" if reboots_allowed else "\n    Remedy: -e reboot_allowed=true reboots them, one node at a time"
            yield "Reboots", [_glued(group) + (remedy if group is why[-1] else "") for group in why]
        left = {node.name: ["%s %s" % item for item in (node.part("not_judged") or {}).items()] for node in self.nodes}
        if any(left.values()):
            yield "Not judged", [_glued(group) for group in _nodes_by_text(left)]
        needs = {node.name: _needs(node.part("needs") or {}) for node in self.nodes}
        if any(needs.values()):
            yield "First", [_glued(group) for group in _nodes_by_text(needs)]

    # -- the changes ---------------------------------------------------------------------------------------------------

    def _changes(self, width: int) -> list[str]:
        """Return a line for each group of changes."""
        lines: list[str] = []
        for module, found in self.layers.items():
            if found:
                lines.append(module)
                lines += [line for group in found for line in _wrapped(_glued(group), width)]
        return lines

    def _compact_rows(self, width: int) -> list[tuple[list[str], int]]:
        """Return lines for the changes of each layer on the same rails and nodes, and the number of these changes."""
        rows: list[tuple[list[str], int]] = []
        for module, found in self.layers.items():
            alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Group]] = {}
            for group in found:
                alike.setdefault((group.rails, group.nodes), []).append(group)
            for same in alike.values():
                texts = [group.what for group in same]
                heading = _wrapped("%s: %s" % (module, same[0].where), width)
                rows.append((heading + _joined(texts, width), sum(group.changes for group in same)))
        return rows

    @staticmethod
    def _cut(rows: t.Sequence[tuple[list[str], int]], room: int, path: str) -> list[str]:
        """Return as many rows as fit, those of most changes first, and how many changes follow."""
        lines: list[str] = []
        left = 0
        for row, changes in sorted(rows, key=lambda each: -each[1]):
            if len(lines) + len(row) < room:
                lines += row
            else:
                left += changes
        where = ": see %s" % path if path else ""
        return [*lines, "and %s%s" % (count(left, "more change"), where)]

    # -- everything ----------------------------------------------------------------------------------------------------

    def everything(self, diff: bool) -> t.Iterator[str]:
        """Yield a line for the sum, and for each refusal, reboot and change of each node. With ``diff``, then the
        lines of changed files."""
        yield self.summary
        for node in self.nodes:
            if node.seen is None:
                yield "%s: no answer" % node.name
            for error in node.errors:
                text = str(RailyardError(error["message"], error["place"], error.get("remedy") or ""))
                yield "%s: refused: %s" % (node.name, ": ".join(filter(None, [error.get("layer"), text])))
            for reason in node.part("reboot_reasons") or ():
                yield "%s: reboot: %s" % (node.name, reason)
            for item in (node.part("not_judged") or {}).items():
                yield "%s: not judged: %s %s" % (node.name, *item)
            for need in _needs(node.part("needs") or {}):
                yield "%s: first: %s" % (node.name, need)
            for module, part in node.modules.items():
                for change in part["changes"]:
                    yield "%s: %s: %s" % (node.name, module, _whole_text(change))
        if diff:
            yield from self.file_diffs()

    def file_diffs(self) -> t.Iterator[str]:
        """Yield the lines of the differences of files, equal ones of several nodes once."""
        nodes: dict[tuple[str, str, str], list[str]] = {}
        for node in self.nodes:
            for change in node.changes:
                if change.get("kind") == FILE:
                    key = str(change["subject"]), _content(change["before"]), _content(change["after"])
                    nodes.setdefault(key, []).append(node.name)
        for (path, before, after), names in nodes.items():
            yield ""
            yield "%s on %s" % (path, fold_names(names))
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
            yield from lines


def _port_states(node: NodePreview) -> dict[str, set[str]]:
    """Return the rails of the ports of a node that are new, changed, removed or not judged."""
    before: set[str] = set()
    after: set[str] = set()
    for change in node.modules.get(_PORTS, {}).get("changes") or ():
        if str(change["subject"]).endswith(_PORTS_RECORD) and change["attribute"] == "ports":
            before, after = ({str(port["rail"]) for port in change[key] or ()} for key in ("before", "after"))
    touched = {str(change["rail"]) for change in node.changes if change.get("rail")}
    part = node.modules.get(_PORTS)
    judged = (
        node.seen is not None and bool(node.modules) and not (part and (part.get("failed") or part.get("not_judged")))
    )
    new = after - before
    return {
        "new": new,
        "changed": touched - new,
        "removed": before - after,
        "not judged": set() if judged else set(node.rails) - touched,
    }


def _needs(needs: Row) -> list[str]:
    """Return what other tasks do before a node is prepared."""
    texts = []
    if needs.get("packages"):
        texts.append("packages to install: %s" % ", ".join(needs["packages"]))
    texts += ["the role %s installs what is missing" % name for name in ("cni", "agent") if needs.get(name)]
    return texts


def _nodes_by_text(texts: t.Mapping[str, t.Sequence[str]]) -> list[Group]:
    """Return equal texts with their nodes, those of most nodes first."""
    nodes: dict[str, list[str]] = {}
    for name, each in texts.items():
        for text in each:
            nodes.setdefault(text, []).append(name)
    found = [Group(text, (), tuple(names), len(names)) for text, names in nodes.items()]
    return sorted(found, key=lambda group: -len(group.nodes))


def _with_remedy(group: Group) -> str:
    return "%s\n    Remedy: %s" % (_glued(group), group.remedy) if group.remedy else _glued(group)


def _glued(group: Group) -> str:
    """Return an entry of which :func:`_wrapped` does not break the nodes: ``on 32 nodes (hgx-[1-32])``."""
    nodes = "on %s" % nodes_text(group.nodes)
    return "  %s %s" % (group.text, nodes.replace(" ", _GLUE) if len(nodes) < _MOST_GLUED else nodes)


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text with its line feeds as lines; a line that continues has a larger indent."""
    lines: list[str] = []
    for line in _VALUES.sub(lambda match: match[0].replace(" ", _GLUE), text).splitlines():
        indent = len(line) - len(line.lstrip()) + 4
        first, *rest = fold(line, width)
        lines.append(first)
        if rest:
            lines += [" " * indent + each for each in fold(" ".join(rest), width - indent)]
    return [line.replace(_GLUE, " ") for line in lines]


def _joined(texts: t.Sequence[str], width: int) -> list[str]:
    """Return texts one after the other, not broken if they fit a line."""
    lines: list[str] = []
    for number, text in enumerate(texts):
        each = text + (_SEPARATOR if number < len(texts) - 1 else "")
        if lines and len(lines[-1]) + 1 + len(each) <= width:
            lines[-1] += " " + each
        else:
            lines += _wrapped("  " + each, width)
    return lines


def _limited(rows: t.Sequence[list[str]], most: int, path: str) -> list[str]:
    """Return the lines of the first rows, and how many rows follow."""
    lines: list[str] = []
    for number, row in enumerate(rows):
        if number and len(lines) + len(row) > most:
            where = ": see %s" % path if path else ""
            return [*lines, "  and {:,} more{}".format(len(rows) - number, where)]
        lines += row
    return lines


def _whole_text(change: Row) -> str:
    """Return a change as text, with its port; the differences have the contents of files."""
    words = [str(change.get("rail") or ""), str(change.get("port") or ""), str(change["subject"])]
    where = " ".join(dict.fromkeys(word for word in words if word))
    if change.get("kind") == FILE:
        return "%s %s" % (where, file_state(change))
    if change.get("kind") == STEP:
        return "%s %s" % (where, change["attribute"])
    return "%s %s: %s -> %s" % (where, change["attribute"], value_text(change["before"]), value_text(change["after"]))


def _content(value: t.Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return "\n".join("%s: %s" % (key, value_text(each)) for key, each in value.items())
    if isinstance(value, list):
        return "\n".join(map(value_text, value))
    return str(value)
