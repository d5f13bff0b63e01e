#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/fabric.schema.json, the JSON Schema of the fabric file. With --check, only report whether it is current.

The readers declare the schema: they run on sections that record the keys that they read, with types and limits. So
there is no second list of keys. They run several times, because the keys depend on the values: a single value, a list
or a mapping; listed or generated rails; a choice that is set or missing. The descriptions come from the documentation.
"""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import (  # noqa: E402
    PLUGIN,
    read_sections,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (  # noqa: E402
    Path,
    Report,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section  # noqa: E402
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (  # noqa: E402
    Mapping,
    Scalar,
    Sequence,
    Value,
)
from tools import generated, key_texts  # noqa: E402

Schema = t.Dict[str, t.Any]

# Where the newest release of the schema is.
ID = "https://raw.githubusercontent.com/railyard/railyard.fabric/main/docs/fabric.schema.json"
# A key in place of names that the author of the file chooses. It is valid as every kind of name.
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


class _Keys:
    """The keys of one mapping, as the readers declare them.

    ``kinds``: key -> schemas of its values. ``below``, ``items``: key -> keys of its mapping, or of the mappings in its
    list. ``required``: the required keys of each run. ``closed``: other keys are invalid.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, list[Schema]] = {}
        self.below: dict[str, _Keys] = {}
        self.items: dict[str, _Keys] = {}
        self.required: list[set[str]] = []
        self.closed = False

    def declare(self, key: str, kind: Schema | None) -> None:
        """Add a key, with a schema of its values unless they are mappings or lists of mappings."""
        kinds = self.kinds.setdefault(key, [])
        if kind is not None and kind not in kinds:
            kinds.append(kind)

    def schema(self, texts: key_texts.Tables, path: Path = ()) -> Schema:
        """Return the schema of the mapping.

        :param path: the keys above it, without names that the author of the file chooses.
        """
        required = set.intersection(*self.required) if self.required else set()
        keys = {key: self._value_schema(key, key in required, texts, path) for key in self.kinds}
        schema: Schema = {"type": "object", "properties": {key: keys[key] for key in keys if key != _NAME}}
        if _NAME in keys:
            schema["additionalProperties"] = keys[_NAME]
        elif self.closed:
            schema["additionalProperties"] = False
        if required - {_NAME}:
            schema["required"] = sorted(required - {_NAME})
        return schema

    def _value_schema(self, key: str, required: bool, texts: key_texts.Tables, path: Path) -> Schema:
        kinds = [option for kind in self.kinds[key] for option in kind.get("anyOf", [kind])]
        below = path if key == _NAME else path + (key,)
        if key in self.below:
            kinds.append(self.below[key].schema(texts, below))
        if key in self.items:
            kinds.append({"type": "array", "items": self.items[key].schema(texts, below)})
        # A key without a value counts as absent.
        kinds += [] if required or not kinds else [{"type": "null"}]
        described: Schema = {} if key == _NAME else {"description": key_texts.text_of(texts, below)}
        if len(kinds) != 1:
            return {**described, "anyOf": kinds} if kinds else described
        # Beside $ref, no other word applies.
        return {**described, "allOf": kinds} if described and "$ref" in kinds[0] else {**described, **kinds[0]}


class _Pass(t.NamedTuple):
    """The values that the readers find in one run.

    ``value``: each value that is read as it is written. ``generated``: rails have a generator. ``chosen``: each choice
    is set, to its last one. ``texts``: each text is a network. ``absent``: all keys are missing.
    """

    value: Value | None = None
    generated: bool = False
    chosen: bool = False
    texts: bool = False
    absent: bool = False


class _Recorder(Section):
    """A section that declares the keys that are read from it. All keys are present, but their values cannot be read."""

    def __init__(self, keys: _Keys, run: _Pass, path: Path, report: Report) -> None:
        mapping = Mapping(1, 1)
        name = Scalar(_NAME, False, 1, 1)
        mapping.entries[_NAME] = (name, run.value or name)
        if run.generated and path == ("rails",):
            mapping.entries = {"count": (name, name)}
        super().__init__(mapping, path, report)
        self.keys = keys
        self.run = run
        keys.required.append(set())

    def has(self, key: str) -> bool:
        return not self.run.absent

    def misspelt(self, key: str) -> bool:
        return False

    def done(self) -> None:
        self.keys.closed = True

    def _declare(self, key: str, required: str, kind: Schema | None) -> None:
        self.keys.declare(key, kind)
        if required:
            self.keys.required[-1].add(key)

    def value(self, key: str, required: str = "", lists: bool = False) -> Value | None:
        self._declare(key, required, _TEXTS if lists else None)
        return self.run.value

    def text(self, key: str, required: str = "") -> str | None:
        self._declare(key, required, _TEXT)
        if not self.run.texts:
            return None
        return "fd00::/32" if key.endswith("6") else "10.0.0.0/8"

    def number(self, key: str, low: int, high: int, unit: str = "", required: str = "") -> int | None:
        number: Schema = {"type": "integer", "minimum": low, "maximum": high}
        self._declare(key, required, {"anyOf": [number, _DIGITS]})
        return None

    def flag(self, key: str) -> bool | None:
        self._declare(key, "", _FLAG)
        return None

    def choice(self, key: str, choices: t.Sequence[str], required: str = "", remedy: str = "") -> str | None:
        numbers = [int(choice) for choice in choices if choice.isdigit()]
        self._declare(key, required, {"enum": [*choices, *numbers]})
        return choices[-1] if self.run.chosen else None

    def texts(self, key: str) -> list[str]:
        self._declare(key, "", _TEXTS)
        return []

    def section(self, key: str, required: str = "") -> Section | None:
        self._declare(key, required, None)
        below = self.keys.below.setdefault(key, _Keys())
        return _Recorder(below, self.run, self.path + (key,), self.report)

    def items(self, key: str) -> list[Section | None] | None:
        self._declare(key, "", None)
        if not isinstance(self.run.value, Sequence):
            return None
        item = self.keys.items.setdefault(key, _Keys())
        return [_Recorder(item, self.run, self.path + (key, 0), self.report)]


def schema(pages: t.Mapping[str, str]) -> Schema:
    """Return the schema.

    :param pages: name of each page of ``key_texts.PAGES`` -> its Markdown.
    """
    top = _Keys()
    texts_listed = Sequence(1, 1)
    texts_listed.items.append(Scalar(_NAME, False, 1, 1))
    for run in (
        _Pass(),
        _Pass(generated=True),
        _Pass(Sequence(1, 1)),
        _Pass(Sequence(1, 1), generated=True),
        _Pass(texts_listed),
        _Pass(Mapping(1, 1)),
        _Pass(Mapping(1, 1), generated=True),
        _Pass(chosen=True),
        _Pass(texts=True),
        _Pass(absent=True),
    ):
        report = Report()
        read_sections(_Recorder(top, run, (), report), report)
    rails = top.below["rails"]
    rail = rails.below[_NAME]
    # The address keys of a rail are also valid at planes, at the generator and in ``addresses``.
    for keys in (rails, rail.items["planes"], rails.items["planes"], top.below["addresses"]):
        for key in keys.kinds:
            if not keys.kinds[key] and key not in keys.below and key not in keys.items:
                keys.kinds[key] = rail.kinds.get(key, [])
                if key in rail.below:
                    keys.below[key] = rail.below[key]
    whole = top.schema(key_texts.tables(pages))
    plugin = whole["properties"]["plugin"]
    whole["properties"]["plugin"] = {"description": plugin["description"], "const": PLUGIN}
    # With a generator, its keys are the only ones: a misspelt one is not the name of a rail.
    generator = [key for key in rails.kinds if key != _NAME]
    whole["properties"]["rails"].update({"if": {"required": ["count"]}, "then": {"propertyNames": {"enum": generator}}})
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": ID,
        "title": "Fabric file of railyard.fabric",
        "definitions": _DEFINITIONS,
        **whole,
    }


def pages() -> dict[str, str]:
    """Return the pages that describe the keys: name -> Markdown."""
    return {name: (DOCS / name).read_text(encoding="utf-8") for name in key_texts.PAGES}


def page() -> str:
    return json.dumps(schema(pages()), indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(generated.main("tools/schema_doc.py", __doc__, lambda: {DOCS / "fabric.schema.json": page()}))
