# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Compares a manifest's fields with those of its kind: typed values, and corrections or findings for wrong ones."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import (
    Leaf,
    flow,
    use,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.neutral_fields import neutral
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.sources.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

# Kinds of a field's value. A shape maps a key to one of these, or to the shape of what is below it.
TEXT, NUMBER, FLAG, TEXTS, FAMILY, ITEMS, ANY = "text", "number", "flag", "texts", "family", "items", "any"
Shape = t.Mapping[str, t.Any]

_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off"))
_WANTED = {
    TEXT: "a text",
    NUMBER: "a whole number",
    FLAG: "true or false",
    TEXTS: "a list of texts",
    FAMILY: "the number 4 or 6",
    ITEMS: "a list",
}


class Removed(t.NamedTuple):
    """A field that was once there: why it is gone, what to do, and what is written for it."""

    why: str
    remedy: str
    written: str


class Field(t.NamedTuple):
    value: t.Any
    place: Place
    # what it was made of, which is read with it
    origin: Value | None = None


class Fields:
    """The values of a manifest, by dotted path such as ``macvlan.ippools.ipv4``."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._fields: dict[str, Field] = {}
        # paths of fields in the manifest that were removed from the kind
        self.removed: set[str] = set()

    def put(self, path: str, value: t.Any, place: Place, origin: Value | None = None) -> None:
        self._fields.setdefault(path, Field(value, place, origin))

    def has(self, path: str) -> bool:
        return path in self._fields

    def place_of(self, path: str) -> Place:
        """The field's own place; of one that is not there the place of the document."""
        field = self._fields.get(path)
        return field.place if field else self.place

    def text(self, path: str) -> str | None:
        return t.cast("str | None", self._value(path))

    def texts(self, path: str) -> list[str]:
        return list(self._value(path) or ())

    def number(self, path: str) -> int | None:
        return t.cast("int | None", self._value(path))

    def flag(self, path: str) -> bool | None:
        return t.cast("bool | None", self._value(path))

    def peek(self, path: str) -> t.Any:
        """The value, for a reader that does not take it."""
        field = self._fields.get(path)
        return field.value if field else None

    def items(self, path: str) -> list[Value]:
        return list(self.peek(path) or ())

    def any(self, path: str) -> Value | None:
        return t.cast("Value | None", self.peek(path))

    def _value(self, path: str) -> t.Any:
        field = self._fields.get(path)
        use(field.origin if field else None)
        return field.value if field else None


def name_of(manifest: Manifest) -> tuple[str, str]:
    """Namespace and name of an object; empty where it has none."""
    metadata = entry(manifest.root, "metadata")
    if not isinstance(metadata, Mapping):
        return "", ""
    return plain_text(entry(metadata, "namespace")), plain_text(entry(metadata, "name"))


def entry(value: Value | None, *keys: str) -> Value | None:
    """The value at the end of the keys, or None."""
    for key in keys:
        if not isinstance(value, Mapping) or key not in value.entries:
            return None
        value = value.entries[key][1]
    return value


def plain_text(value: Value | None) -> str:
    """The text of a single value, which is read by that."""
    if isinstance(value, Leaf):
        value.used = True
    return peek(value)


def peek(value: Value | None) -> str:
    """The text of a single value, for a reader that may not take it."""
    return value.text.strip() if isinstance(value, Scalar) and not value.null else ""


def place_at(manifest: Manifest, value: Value, path: str) -> Place:
    return Place(manifest.file, value.line, value.column, path)


def read(
    manifest: Manifest,
    mapping: Mapping | None,
    shape: Shape,
    found: Found,
    path: str = "spec",
    removed: t.Mapping[str, Removed] | None = None,
) -> Fields:
    """The fields of ``mapping``, which is at ``path`` of the manifest. ``removed``: by key."""
    place = Place(manifest.file, manifest.line, 1, path)
    if mapping is not None and path != "spec":
        place = place_at(manifest, mapping, path)
    reader = _Reader(manifest, place, shape, removed or {}, found)
    if mapping is not None:
        reader.walk(mapping, shape, "")
    reader.settle()
    return reader.fields


class _Reader:
    def __init__(
        self, manifest: Manifest, place: Place, shape: Shape, removed: t.Mapping[str, Removed], found: Found
    ) -> None:
        self._manifest = manifest
        self._shape = shape
        self._top = place.path
        self._removed = removed
        self._found = found
        self._strays: list[tuple[str, Scalar, Value, Shape]] = []
        self.fields = Fields(place)

    def walk(self, mapping: Mapping, shape: Shape, path: str) -> None:
        for key, (name, value) in mapping.entries.items():
            if key not in shape:
                self._strays.append((path, name, value, shape))
            elif not value.null:
                self._take(name, value, shape[key], _join(path, key))

    def _take(self, name: Scalar, value: Value, kind: t.Any, path: str) -> None:
        if kind == ANY:
            self.fields.put(path, value, self._place(name, path))
        elif isinstance(kind, str):
            self._typed(name, value, kind, path)
        elif isinstance(value, Mapping):
            self.fields.put(path, value, self._place(name, path))
            self.walk(value, kind, path)
        else:
            use(value)
            message = "%s instead of a mapping" % value.kind
            self._found.add(
                import_rules.KIND, self._place(name, path), message, "write it as key: value pairs", "nothing"
            )

    def settle(self) -> None:
        """What has no place: gone, at the wrong level, misspelt, or unknown."""
        for path, name, value, shape in self._strays:
            key = name.text
            place = self._place(name, _join(path, key))
            if key in self._removed:
                self.fields.removed.add(_join(path, key))
                use(value)
                gone = self._removed[key]
                message = "the field %s was removed: %s" % (key, gone.why)
                self._found.add(import_rules.REMOVED, place, message, gone.remedy, gone.written)
                continue
            homes = [home for home in _homes(self._shape, key) if not self.fields.has(home[0])]
            if len(homes) == 1:
                self._move(name, value, place, homes[0])
                continue
            close = nearest(key, [each for each in shape if not self.fields.has(_join(path, each))])
            if close:
                message = "unknown field %s%s" % (shown(key), did_you_mean(close))
                self._found.add(import_rules.MISSPELT, place, message, "write %s" % close, close)
                if not value.null:
                    self._take(name, value, shape[close], _join(path, close))
                continue
            if not (isinstance(value, Leaf) and neutral(self._found.kind, place.path, value)):
                remedy = "remove it; the API server drops unknown fields"
                self._found.lose(import_rules.UNKNOWN, place, place.path, shown(flow(value), 120), remedy)
            use(value)

    def _move(self, name: Scalar, value: Value, place: Place, home: tuple[str, t.Any]) -> None:
        where = _join(self._top, home[0])
        message = "%s is at %s, but belongs at %s" % (shown(name.text), place.path, where)
        remedy = "move it: the API server drops unknown fields silently"
        self._found.add(import_rules.LEVEL, place, message, remedy, "its value as %s" % where)
        if not value.null:
            self._take(name, value, home[1], home[0])

    def _typed(self, name: Scalar, value: Value, kind: str, path: str) -> None:
        place = self._place(name, path)
        got = _convert(value, kind)
        # the items of a list are read one by one
        origin = value if kind != ITEMS else None
        if got is not None:
            self.fields.put(path, got, place, origin)
            return
        fixed = _fixed(value, kind)
        if fixed is None:
            use(value)
        given = shown(value.text) if isinstance(value, Scalar) else value.kind
        message = "%s is %s, and the field takes %s" % (given, _nature(value), _WANTED[kind])
        written = "nothing" if fixed is None else shown(_as_text(fixed))
        self._found.add(import_rules.KIND, place, message, "write %s" % _WANTED[kind], written)
        if fixed is not None:
            self.fields.put(path, fixed, place, origin)

    def _place(self, name: Scalar, path: str) -> Place:
        return place_at(self._manifest, name, _join(self._top, path))


def _join(path: str, key: str) -> str:
    return "%s.%s" % (path, key) if path and key else path or key


def _homes(shape: Shape, key: str, path: str = "") -> t.Iterator[tuple[str, t.Any]]:
    for name, kind in shape.items():
        if name == key:
            yield _join(path, name), kind
        if not isinstance(kind, str):
            yield from _homes(kind, key, _join(path, name))


def _convert(value: Value, kind: str) -> t.Any:
    """The value as its kind has it, or None."""
    if kind == ITEMS:
        return value.items if isinstance(value, Sequence) else None
    if kind == TEXTS:
        if not isinstance(value, Sequence) or not all(isinstance(item, Scalar) for item in value.items):
            return None
        return [item.text.strip() for item in value.items if isinstance(item, Scalar) and not item.null]
    if not isinstance(value, Scalar):
        return None
    text = value.text.strip()
    if kind == TEXT:
        return text if not (value.plain and _numeric(text)) else None
    if kind == FLAG:
        return text.lower() in _TRUE if value.plain and text.lower() in _TRUE | _FALSE else None
    if not value.plain or not re.match(r"-?[0-9]{1,18}\Z", text):
        return None
    number = int(text)
    return number if kind == NUMBER or number in (4, 6) else None


def _numeric(text: str) -> bool:
    return bool(re.match(r"[-+]?[0-9]+(\.[0-9]+)?\Z", text)) or text.lower() in _TRUE | _FALSE


def _fixed(value: Value, kind: str) -> t.Any:
    """What a value of the wrong kind surely means, or None."""
    if kind == TEXTS:
        if isinstance(value, Scalar):
            return [part.strip() for part in value.text.split(",") if part.strip()]
        return [item.text.strip() for item in getattr(value, "items", ()) if isinstance(item, Scalar)] or None
    if kind == ITEMS:
        return [value] if isinstance(value, Mapping) else None
    if isinstance(value, Sequence) and len(value.items) == 1 and isinstance(value.items[0], Scalar):
        value = value.items[0]
    if not isinstance(value, Scalar):
        return None
    text = value.text.strip()
    if kind == TEXT:
        return text or None
    if kind == FLAG:
        return text.lower() in _TRUE if text.lower() in _TRUE | _FALSE else None
    digits = re.match(r"(?:ipv|v)?([0-9]{1,9})\Z" if kind == FAMILY else r"([0-9]{1,9})\Z", text.lower())
    if not digits or (kind == FAMILY and digits.group(1) not in ("4", "6")):
        return None
    return int(digits.group(1))


def _nature(value: Value) -> str:
    if not isinstance(value, Scalar):
        return value.kind
    if not value.plain:
        return "a text"
    return "a number" if re.match(r"[-+]?[0-9]", value.text) else "a text"


def _as_text(value: t.Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else str(value)
