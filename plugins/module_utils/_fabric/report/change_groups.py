# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of many nodes and ports as few lines: equal changes are one line, with the ranges of rails and nodes.

Values that differ between ports and nodes by the plan (addresses, names, numbers of tables) are ranges too, or the
number of different values. No change is omitted without being counted.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import FILE, ROUTE, RULE, STEP
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import (
    Pattern,
    filled,
    fold_names,
    pattern,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

Row = t.Mapping[str, t.Any]
# Values that are longer are replaced by what they are.
_LONG_VALUE = 60
# Ranges of nodes that are printed for one line.
NODE_RANGES = 6
# Attributes whose numbers have a unit that their names do not show.
_UNITS = {"MaxReadReq": "bytes", "nr_hugepages": "pages", "miimon": "ms"}
NEW, CHANGED, REMOVED = "new", "changed", "removed"


class Group(t.NamedTuple):
    """Equal changes. ``text``: without nodes; ``rails``: of the ports; ``changes``: how many there are."""

    text: str
    rails: tuple[str, ...]
    nodes: tuple[str, ...]
    changes: int
    remedy: str = ""

    @property
    def what(self) -> str:
        """The text without the rails."""
        return self.text[len(fold_names(self.rails)) :].lstrip(" :")

    @property
    def where(self) -> str:
        """The rails and nodes."""
        nodes = nodes_text(self.nodes)
        return "%s on %s" % (fold_names(self.rails), nodes) if self.rails else nodes

    @property
    def line(self) -> str:
        """The text with its nodes."""
        return "%s on %s" % (self.text, nodes_text(self.nodes))


def nodes_text(names: t.Collection[str]) -> str:
    """Return the number and the names of nodes: ``32 nodes (hgx-[1-32])``."""
    return "%s (%s)" % (count(len(names), "node"), fold_names(names, NODE_RANGES))


class _Key(t.NamedTuple):
    """What equal changes have in common."""

    kind: str
    on_port: bool
    subject: str
    attribute: str
    before: str
    after: str


# The rail of a change, and the numbers in its texts.
_Each = t.Tuple[str, t.Tuple[t.Tuple[str, ...], ...]]


def value_text(value: t.Any) -> str:
    """Return a value of a change as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and not any(isinstance(each, (dict, list)) for each in value):
        return ", ".join(map(value_text, value)) or "none"
    return str(value)


def file_state(change: Row) -> str:
    """Return what happens to a file: it is new, changed or removed."""
    if change["before"] and not change["after"]:
        return REMOVED
    return CHANGED if change["before"] else NEW


def subject_text(change: Row) -> str:
    """Return what a change is about, without its port if the port has a rail; may be empty."""
    subject, port = str(change.get("subject", "")), str(change.get("port") or "")
    if not change.get("rail"):
        return "%s: %s" % (port, subject) if port and port != subject else subject
    if not port:
        return ""  # the subject is the port
    # "0000:3b:00.0 vf 3"
    words = subject.replace(port, "").split()
    return " ".join(words)


def groups(changes: t.Mapping[str, t.Sequence[Row]]) -> list[Group]:
    """Return the groups of the changes of one layer, in the order in which nodes make them.

    :param changes: node -> its changes, as in the results of modules; ``rail`` is the rail of the port.
    """
    found: dict[_Key, dict[str, list[_Each]]] = {}
    for node, rows in changes.items():
        for change in rows:
            key, numbers = _key(change)
            found.setdefault(key, {}).setdefault(node, []).append((str(change.get("rail") or ""), numbers))
    made: list[Group] = []
    listed: dict[tuple[str, tuple[str, ...]], list[tuple[str, int]]] = {}
    for key, by_node in found.items():
        for same, nodes, alike in _alike(by_node, key.on_port):
            if key.kind in (FILE, STEP):
                subject = filled(key.subject, [numbers[0] for _rail, numbers in alike])
                text = subject if key.kind == FILE else ("%s %s" % (subject, key.attribute)).strip()
                state = key.after if key.kind == FILE else STEP
                listed.setdefault((state, nodes), []).append((text, len(alike) // len(nodes)))
            else:
                made.append(Group(_text(key, same, alike), same, nodes, len(alike)))
    return made + [_listed(state, nodes, texts) for (state, nodes), texts in listed.items()]


def error_groups(errors: t.Mapping[str, t.Sequence[Row]]) -> list[Group]:
    """Return the groups of errors, those of most nodes first; ``changes`` of a group is the number of its errors.

    :param errors: node -> errors with ``layer``, ``place``, ``message``, ``remedy``, and ``rail`` if a port has it.
    """
    found: dict[tuple[str, bool, tuple[str, ...]], dict[str, list[_Each]]] = {}
    for node, rows in errors.items():
        for error in rows:
            rail = str(error.get("rail") or "")
            place = "" if rail and str(error["place"]).startswith("ports[") else str(error["place"])
            texts = [pattern(text) for text in (place, str(error["message"]), str(error.get("remedy") or ""))]
            key = str(error.get("layer") or ""), bool(rail), tuple(each.text for each in texts)
            found.setdefault(key, {}).setdefault(node, []).append((rail, tuple(each.numbers for each in texts)))
    made: list[Group] = []
    for (layer, on_port, texts_of), by_node in found.items():
        for same, nodes, alike in _alike(by_node, on_port):
            columns = zip(*(numbers for _rail, numbers in alike))
            place, message, remedy = (filled(text, column) for text, column in zip(texts_of, columns))
            words = [fold_names(same), "%s:" % layer if layer else "", "%s:" % place if place else "", message]
            text = " ".join(word for word in words if word)
            made.append(Group(text, same, nodes, len(alike), remedy))
    return sorted(made, key=lambda group: -len(group.nodes))


def _alike(
    by_node: t.Mapping[str, t.Sequence[_Each]], on_port: bool
) -> t.Iterator[tuple[tuple[str, ...], tuple[str, ...], list[_Each]]]:
    """Yield rails, nodes and rows of nodes that have equal changes on the same rails, or the same number of them."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for node, each in by_node.items():
        same = tuple(sorted({rail for rail, _numbers in each})) if on_port else (str(len(each)),)
        alike.setdefault(same, []).append(node)
    for same, nodes in alike.items():
        yield same if on_port else (), tuple(nodes), [row for node in nodes for row in by_node[node]]


def _listed(state: str, nodes: tuple[str, ...], rows: t.Sequence[tuple[str, int]]) -> Group:
    """Return the group of all files, or steps, that the same nodes have."""
    each = sum(number for _text, number in rows)
    noun = count(each, "step") if state == STEP else "%s %s" % (count(each, "file"), state)
    return Group("%s: %s" % (noun, ", ".join(text for text, _number in rows)), (), nodes, each * len(nodes))


def _key(change: Row) -> tuple[_Key, tuple[tuple[str, ...], ...]]:
    kind = str(change.get("kind") or "")
    on_port = bool(change.get("rail"))
    subject, attribute = pattern(subject_text(change), True), str(change.get("attribute") or "")
    if kind in (FILE, STEP):
        state = file_state(change) if kind == FILE else ""
        return _Key(kind, False, subject.text, attribute if kind == STEP else "", "", state), (subject.numbers,)
    planned = kind in (ROUTE, RULE)
    named = pattern(attribute, True) if planned else Pattern(attribute, ())
    before, after = (pattern(_value(change.get(each), attribute), planned) for each in ("before", "after"))
    key = _Key(kind, on_port, subject.text, named.text, before.text, after.text)
    return key, (subject.numbers, named.numbers, before.numbers, after.numbers)


def _value(value: t.Any, attribute: str) -> str:
    text = value_text(value)
    unit = _UNITS.get(attribute)
    if unit and text.isdigit():
        return "%s %s" % (text, unit)
    if len(text) > _LONG_VALUE:
        return "%d characters" % len(text) if isinstance(value, str) else "other values"
    return text


def _text(key: _Key, rails: t.Sequence[str], rows: t.Sequence[_Each]) -> str:
    """Return the text of a group of settings, routes or rules."""
    columns = list(zip(*(numbers for _rail, numbers in rows)))
    subject, attribute, before, after = (
        filled(text, column) for text, column in zip((key.subject, key.attribute, key.before, key.after), columns)
    )
    words = [fold_names(rails) if rails else "", subject, attribute]
    return "%s: %s -> %s" % (" ".join(word for word in words if word), before, after)
