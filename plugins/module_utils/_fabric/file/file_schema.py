# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""JSON Schema of the fabric file, for editors. The readers themselves declare it: they run on sections that record
which keys they ask for, of which kind and with which limits. There is no second list of keys.

The readers run several times, because what they ask for depends on what they find: a single value, a list or a mapping;
listed rails or generated ones; a choice that is open or made.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import PLUGIN, read_sections
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

Schema = t.Dict[str, t.Any]

# A name where the file's author chooses names. It has the form of every kind of name.
_NAME = "x1"
_TEXT: Schema = {"$ref": "#/definitions/text"}
_TEXTS: Schema = {"$ref": "#/definitions/texts"}
_FLAG: Schema = {"$ref": "#/definitions/flag"}
_DIGITS: Schema = {"$ref": "#/definitions/digits"}
_DEFINITIONS: Schema = {
    "text": {"type": ["string", "number", "boolean"], "pattern": "\\S"},
    "texts": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "flag": {
        "anyOf": [
            {"type": "boolean"},
            {"type": "string", "pattern": "^([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF)$"},
        ]
    },
    "digits": {"type": "string", "pattern": "^-?(0|[1-9][0-9]*)$"},
}


class _Node:
    """What the readers asked of one mapping. ``closed``: they know all of its keys."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[Schema]] = {}
        self.below: dict[str, _Node] = {}
        self.items: dict[str, _Node] = {}
        self.required: list[set[str]] = []
        self.closed = False

    def declare(self, key: str, kind: Schema | None = None) -> None:
        kinds = self.kinds.setdefault(key, [])
        if kind is not None and kind not in kinds:
            kinds.append(kind)

    def schema(self) -> Schema:
        required = set.intersection(*self.required) if self.required else set()
        keys = {key: self._of(key, key in required) for key in self.kinds}
        found: Schema = {"type": "object", "properties": {key: keys[key] for key in keys if key != _NAME}}
        if _NAME in keys:
            found["additionalProperties"] = keys[_NAME]
        elif self.closed:
            found["additionalProperties"] = False
        if required - {_NAME}:
            found["required"] = sorted(required - {_NAME})
        return found

    def _of(self, key: str, required: bool) -> Schema:
        kinds = [one for kind in self.kinds[key] for one in kind.get("anyOf", [kind])]
        if key in self.below:
            kinds.append(self.below[key].schema())
        if key in self.items:
            kinds.append({"type": "array", "items": self.items[key].schema()})
        if not kinds:
            return {}
        # a key without a value counts as absent
        kinds += [] if required else [{"type": "null"}]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


class _Pass(t.NamedTuple):
    """``value``: what the readers find where they look at a value itself. ``generated``: rails by a generator.
    ``chosen``: each choice is made, as its last one. ``texts``: texts are networks. ``absent``: no key is there.
    """

    value: Value | None = None
    generated: bool = False
    chosen: bool = False
    texts: bool = False
    absent: bool = False


class _Recorder(Section):
    """A section in which every key is present, and no value can be read."""

    def __init__(self, node: _Node, run: _Pass, path: Path, report: Report) -> None:
        mapping = Mapping(1, 1)
        one = Scalar(_NAME, False, 1, 1)
        mapping.entries[_NAME] = (one, run.value or one)
        if run.generated and path == ("rails",):
            mapping.entries = {"count": (one, one)}
        super().__init__(mapping, path, report)
        self.node = node
        self.run = run
        node.required.append(set())

    def has(self, key: str) -> bool:
        return not self.run.absent

    def misspelt(self, key: str) -> bool:
        return False

    def done(self) -> None:
        self.node.closed = True

    def _ask(self, key: str, required: str, kind: Schema | None) -> None:
        self.node.declare(key, kind)
        if required:
            self.node.required[-1].add(key)

    def value(self, key: str, required: str = "", lists: bool = False) -> Value | None:
        self._ask(key, required, _TEXTS if lists else None)
        return self.run.value

    def text(self, key: str, required: str = "") -> str | None:
        self._ask(key, required, _TEXT)
        if not self.run.texts:
            return None
        return "fd00::/32" if key.endswith("6") else "10.0.0.0/8"

    def number(self, key: str, low: int, high: int, unit: str = "", required: str = "") -> int | None:
        number: Schema = {"type": "integer", "minimum": low, "maximum": high}
        if unit:
            number["description"] = unit
        self._ask(key, required, {"anyOf": [number, _DIGITS]})
        return None

    def flag(self, key: str) -> bool | None:
        self._ask(key, "", _FLAG)
        return None

    def choice(self, key: str, choices: t.Sequence[str], required: str = "") -> str | None:
        numbers = [int(choice) for choice in choices if choice.isdigit()]
        self._ask(key, required, {"enum": [*choices, *numbers]})
        return choices[-1] if self.run.chosen else None

    def texts(self, key: str) -> list[str]:
        self._ask(key, "", _TEXTS)
        return []

    def section(self, key: str, required: str = "") -> Section | None:
        self._ask(key, required, None)
        below = self.node.below.setdefault(key, _Node())
        return _Recorder(below, self.run, self.path + (key,), self.report)

    def items(self, key: str) -> list[Section | None] | None:
        self._ask(key, "", None)
        if not isinstance(self.run.value, Sequence):
            return None
        item = self.node.items.setdefault(key, _Node())
        return [_Recorder(item, self.run, self.path + (key, 0), self.report)]


def as_json() -> bytes:
    """The schema as a file."""
    return (json.dumps(schema(), indent=1) + "\n").encode("utf-8")


def schema() -> Schema:
    """The schema of the whole file."""
    top = _Node()
    for run in (
        _Pass(),
        _Pass(generated=True),
        _Pass(Sequence(1, 1)),
        _Pass(Sequence(1, 1), generated=True),
        _Pass(Mapping(1, 1)),
        _Pass(chosen=True),
        _Pass(texts=True),
        _Pass(absent=True),
    ):
        report = Report()
        read_sections(_Recorder(top, run, (), report), report)
    rails = top.below["rails"]
    rail = rails.below[_NAME]
    # Whatever a rail may have for its addresses may be at its planes, at the generator and in `addresses`.
    for node in (rails, rail.items["planes"], rails.items["planes"], top.below["addresses"]):
        for key in node.kinds:
            if not node.kinds[key] and key not in node.below and key not in node.items:
                node.kinds[key] = rail.kinds.get(key, [])
                if key in rail.below:
                    node.below[key] = rail.below[key]
    found = top.schema()
    found["properties"]["plugin"] = {"const": PLUGIN}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Fabric file of railyard.fabric",
        "definitions": _DEFINITIONS,
        **found,
    }
