# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of a manifest. Each value records whether the import has read it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

# Maximum length of a subtree that is reported as one value. A longer subtree is reported by its parts.
_WHOLE = 120


class Leaf(Scalar):
    """A scalar. ``used``: whether a reader has used the value, or a finding names it."""

    __slots__ = ("used",)

    def __init__(self, text: str, plain: bool, line: int, column: int) -> None:
        super().__init__(text, plain, line, column)
        self.used = False


class Unread(t.NamedTuple):
    """A value that was not read. ``path``: dotted, with ``[]`` for the items of a list."""

    path: str
    text: str
    value: Value


def copied(value: Value, lines: int) -> Value:
    """Return a copy of the tree with :class:`Leaf` scalars, shifted by ``lines``. Values of aliases are copied, too."""
    if isinstance(value, Mapping):
        mapping = Mapping(value.line + lines, value.column)
        for key, (name, entry) in value.entries.items():
            mapping.entries[key] = (Leaf(name.text, name.plain, name.line + lines, name.column), copied(entry, lines))
        return mapping
    if isinstance(value, Sequence):
        sequence = Sequence(value.line + lines, value.column)
        sequence.items = [copied(item, lines) for item in value.items]
        return sequence
    return Leaf(value.text, value.plain, value.line + lines, value.column)


def use(value: Value | None) -> None:
    """Mark all values below ``value`` as read."""
    for leaf, _path in walk(value, ""):
        leaf.used = True


def walk(value: Value | None, path: str) -> t.Iterator[tuple[Leaf, str]]:
    """Return each scalar below ``value`` with its path."""
    if isinstance(value, Leaf):
        yield value, path
    elif isinstance(value, Mapping):
        for key, (_name, entry) in value.entries.items():
            yield from walk(entry, joined(path, key))
    elif isinstance(value, Sequence):
        for item in value.items:
            yield from walk(item, path + "[]")


def joined(path: str, key: str) -> str:
    """Return the path of a key. A key with a dot or a slash is written in brackets."""
    if "." in key or "/" in key:
        return "%s[%s]" % (path, shown(key))
    return "%s.%s" % (path, shown(key)) if path and key else path or shown(key)


def unread(value: Value, path: str, neutral: t.Callable[[str, Leaf], bool]) -> list[Unread]:
    """Return the values that were not read. A short subtree that was not read at all is one value."""
    found, _whole = _unread(value, path, neutral)
    return found


def _unread(value: Value, path: str, neutral: t.Callable[[str, Leaf], bool]) -> tuple[list[Unread], bool]:
    if not isinstance(value, (Mapping, Sequence)):
        if not isinstance(value, Leaf) or value.null or not value.text.strip():
            return [], True
        if value.used or neutral(path, value):
            return [], False
        return [Unread(path, shown(value.text, _WHOLE), value)], True
    untouched = True
    found: list[Unread] = []
    if isinstance(value, Mapping):
        children = [(joined(path, key), entry) for key, (_name, entry) in value.entries.items()]
    else:
        children = [(path + "[]", item) for item in value.items]
    for below, entry in children:
        values, all_unread = _unread(entry, below, neutral)
        found.extend(values)
        untouched = untouched and all_unread
    if untouched and len(found) > 1 and "." in path:
        text = flow(value)
        if len(text) <= _WHOLE:
            return [Unread(path, shown(text, _WHOLE), value)], True
    return found, untouched


def flow(value: Value) -> str:
    """Format a value in YAML flow style on one line."""
    if isinstance(value, Mapping):
        return "{%s}" % ", ".join("%s: %s" % (key, flow(entry)) for key, (_name, entry) in value.entries.items())
    if isinstance(value, Sequence):
        return "[%s]" % ", ".join(map(flow, value.items))
    return value.text
