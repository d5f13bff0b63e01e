# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read fields of a manifest according to its kind: typed values, with corrections and findings for wrong fields."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import (
    Leaf,
    flow,
    use,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.neutral_fields import neutral
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

# Types of values. A shape maps a key to one of these types or, for a mapping, to a shape.
TEXT, NUMBER, FLAG, TEXTS, FAMILY, ITEMS, ANY = "text", "number", "flag", "texts", "family", "items", "any"
Shape = t.Mapping[str, t.Any]

_LINKS = {"ether": "eth", "ethernet": "eth", "eth": "eth", "infiniband": "ib", "ib": "ib"}
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
    """A field that was removed from the API: reason, remedy, and what the fabric file contains instead."""

    why: str
    remedy: str
    written: str


class Field(t.NamedTuple):
    """One value of a manifest."""

    value: t.Any
    place: Place
    # the node of the manifest, marked as read with the value
    origin: Value | None = None


class Fields:
    """Values of a manifest by dotted path, such as ``macvlan.ippools.ipv4``. Reading a value marks it as read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._fields: dict[str, Field] = {}
        # paths of fields in the manifest that were removed from the API
        self.removed: set[str] = set()

    def put(self, path: str, value: t.Any, place: Place, origin: Value | None = None) -> None:
        """Add a value. The first value of a path is kept."""
        self._fields.setdefault(path, Field(value, place, origin))

    def has(self, path: str) -> bool:
        return path in self._fields

    def place_of(self, path: str) -> Place:
        """Return the place of the field, or of the document if the field is missing."""
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
        """Return the value without marking it as read."""
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
    """Return namespace and name of an object; empty texts if missing."""
    metadata = entry(manifest.root, "metadata")
    return text_at(metadata, "namespace"), text_at(metadata, "name")


def spec_of(manifest: Manifest) -> Mapping | None:
    """Return the ``spec`` of an object; None if it is missing or not a mapping."""
    spec = entry(manifest.root, "spec")
    return spec if isinstance(spec, Mapping) else None


def entry(value: Value | None, *keys: str) -> Value | None:
    """Return the value at the path of keys, or None."""
    for key in keys:
        if not isinstance(value, Mapping) or key not in value.entries:
            return None
        value = value.entries[key][1]
    return value


def text_at(value: Value | None, *keys: str) -> str:
    """Return the text of the scalar at the path of keys and mark it as read; empty without one."""
    return plain_text(entry(value, *keys))


def items_at(value: Value | None, key: str) -> t.Sequence[Value]:
    """Return the items of the list under a key; none without a list."""
    found = entry(value, key)
    return found.items if isinstance(found, Sequence) else ()


def plain_text(value: Value | None) -> str:
    """Return the text of a scalar and mark it as read; empty for other values."""
    if isinstance(value, Leaf):
        value.used = True
    return peek(value)


def peek(value: Value | None) -> str:
    """Return the text of a scalar without marking it as read; empty for other values."""
    return value.text.strip() if isinstance(value, Scalar) and not value.null else ""


def link_type(texts: t.Iterable[str]) -> str | None:
    """Return ``eth`` or ``ib`` for the link types of a selector or interface; None if it has none or several."""
    links = {_LINKS[text.lower()] for text in texts if text.lower() in _LINKS}
    return links.pop() if len(links) == 1 else None


def place_at(manifest: Manifest, value: Value, path: str) -> Place:
    return Place(manifest.file, value.line, value.column, path)


def read_spec(manifest: Manifest, shape: Shape, found: Found, removed: t.Mapping[str, Removed] | None = None) -> Fields:
    """Read the fields of the ``spec`` of an object, as :func:`read` does."""
    return read(manifest, spec_of(manifest), shape, found, removed=removed)


def read(
    manifest: Manifest,
    mapping: Mapping | None,
    shape: Shape,
    found: Found,
    path: str = "spec",
    removed: t.Mapping[str, Removed] | None = None,
) -> Fields:
    """Read the fields of a mapping. Report fields that are removed, misplaced, misspelt, unknown or of a wrong type.

    :param path: path of the mapping in the manifest.
    :param removed: key -> removed field.
    """
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
        """Read the fields of a mapping; collect unknown keys for :meth:`settle`."""
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
        """Report fields that are not in the shape: removed, at the wrong level, misspelt, or unknown."""
        for path, name, value, shape in self._strays:
            key = name.text
            place = self._place(name, _join(path, key))
            if key in self._removed:
                self.fields.removed.add(_join(path, key))
                use(value)
                field = self._removed[key]
                message = "the field %s was removed: %s" % (key, field.why)
                self._found.add(import_rules.REMOVED, place, message, field.remedy, field.written)
                continue
            targets = [target for target in _paths_of_key(self._shape, key) if not self.fields.has(target[0])]
            if len(targets) == 1:
                self._move(name, value, place, targets[0])
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
                self._found.add_not_imported(import_rules.UNKNOWN, place, place.path, shown(flow(value), 120), remedy)
            use(value)

    def _move(self, name: Scalar, value: Value, place: Place, target: tuple[str, t.Any]) -> None:
        new_path = _join(self._top, target[0])
        message = "%s is at %s, but belongs at %s" % (shown(name.text), place.path, new_path)
        remedy = "move it: the API server drops unknown fields silently"
        self._found.add(import_rules.LEVEL, place, message, remedy, "its value as %s" % new_path)
        if not value.null:
            self._take(name, value, target[1], target[0])

    def _typed(self, name: Scalar, value: Value, kind: str, path: str) -> None:
        place = self._place(name, path)
        converted = _convert(value, kind)
        # the items of a list are marked one by one
        origin = value if kind != ITEMS else None
        if converted is not None:
            self.fields.put(path, converted, place, origin)
            return
        corrected = _corrected(value, kind)
        if corrected is None:
            use(value)
        text = shown(value.text) if isinstance(value, Scalar) else value.kind
        message = "%s is %s, and the field takes %s" % (text, _type_name(value), _WANTED[kind])
        written = "nothing" if corrected is None else shown(_as_text(corrected))
        self._found.add(import_rules.KIND, place, message, "write %s" % _WANTED[kind], written)
        if corrected is not None:
            self.fields.put(path, corrected, place, origin)

    def _place(self, name: Scalar, path: str) -> Place:
        return place_at(self._manifest, name, _join(self._top, path))


def _join(path: str, key: str) -> str:
    return "%s.%s" % (path, key) if path and key else path or key


def _paths_of_key(shape: Shape, key: str, path: str = "") -> t.Iterator[tuple[str, t.Any]]:
    for name, kind in shape.items():
        if name == key:
            yield _join(path, name), kind
        if not isinstance(kind, str):
            yield from _paths_of_key(kind, key, _join(path, name))


def _convert(value: Value, kind: str) -> t.Any:
    """Return the value converted to the type, or None."""
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


def _corrected(value: Value, kind: str) -> t.Any:
    """Return the value that is certainly meant by a value of the wrong type, or None."""
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


def _type_name(value: Value) -> str:
    if not isinstance(value, Scalar):
        return value.kind
    if not value.plain:
        return "a text"
    return "a number" if re.match(r"[-+]?[0-9]", value.text) else "a text"


def _as_text(value: t.Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else str(value)
