# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reduced schemas are the output of the tool, and reject every value that upstream's schemas reject.

If upstream's definitions are downloaded (`make vendor`), the reduced ones are compared with them. Otherwise the tool
must return the reduced ones unchanged, and the validator must find a violation of each of their constraints.
"""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests import upstream, yaml_text
from tools import reduced_schemas
from tools.reduced_schemas import SOURCES, Refused

from . import schema

FILES = sorted(upstream.SCHEMAS.glob("*/*.yaml"))
NAMES = ["%s/%s" % (file.parent.name, file.stem) for file in FILES]
Node = t.Mapping[str, t.Any]

EXAMPLE = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: trials.railyard.example
  annotations: {controller-gen.kubebuilder.io/version: v1}
spec:
  group: railyard.example
  names: {kind: Trial, plural: trials}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: A text.
        properties:
          description: {type: string, description: A field of this name., default: {title: kept}, example: x}
          title: {type: array, items: {description: A text., enum: [description]}, x-kubernetes-list-type: set}
          free: {additionalProperties: {title: A text., type: integer, maximum: 4}, anyOf: [{title: x, minimum: 1}]}
        x-kubernetes-validations: [{rule: has(self.free), message: A text.}]
"""


def reduced(text: str = EXAMPLE) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_text.load(reduced_schemas.reduced(text, "a.yaml", SOURCES["spiderpool"])))


def test_texts_are_dropped_and_fields_of_the_same_names_are_kept() -> None:
    found = reduced()
    assert found["metadata"] == {"name": "trials.railyard.example"}
    (version,) = found["spec"].pop("versions")
    assert found["spec"] == {
        "group": "railyard.example",
        "names": {"kind": "Trial", "plural": "trials"},
        "scope": "Cluster",
    }
    assert version.pop("schema")["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "description": {"type": "string", "default": {"title": "kept"}},
            "title": {"type": "array", "items": {"enum": ["description"]}, "x-kubernetes-list-type": "set"},
            "free": {"additionalProperties": {"type": "integer", "maximum": 4}, "anyOf": [{"minimum": 1}]},
        },
        "x-kubernetes-validations": [{"rule": "has(self.free)"}],
    }
    assert version == {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("maximum: 4", "maximun: 4"),
        ("maximum: 4", "x-kubernetes-new: 4"),
        ("message: A", "because: A"),
        ("served: true", "served: true, more: 1"),
        ("scope: Cluster", "scope: Cluster\n  more: 1"),
    ],
)
def test_a_field_that_the_tool_does_not_know_is_refused(old: str, new: str) -> None:
    text = EXAMPLE.replace(old, new.replace(", more", "\n    more"))
    name = re.findall(r"[\w-]+(?=:)", new)[-1]
    with pytest.raises(Refused, match=r"a\.yaml.* has the unknown field %s\. Remedy: " % name):
        reduced(text)


def test_every_source_has_files_and_every_folder_a_source() -> None:
    assert {file.parent.name for file in FILES} == set(SOURCES)


def whole(file: Path) -> Path:
    """Return upstream's file, which must exist if its source is downloaded; otherwise the reduced file."""
    folder = upstream.folder("schemas")
    found = folder / file.parent.name if folder else None
    return found / file.name if found and found.is_dir() else file


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_the_files_are_those_of_the_tool(file: Path) -> None:
    source = whole(file)
    text = reduced_schemas.reduced(source.read_text(encoding="utf-8"), file.name, SOURCES[file.parent.name])
    found = file.read_text(encoding="utf-8")
    if source == file:  # the header has the checksum of upstream's file
        text, found = (re.sub("(?m)^# SHA-256 .*\n", "", each) for each in (text, found))
    assert found == text


def test_the_tool_reports_a_difference_and_repairs_it(tmp_path: Path) -> None:
    """It changes only the folders of tests/schemas that the given folder has."""
    folder, place = tmp_path / "whole", tmp_path / "tests" / "schemas"
    (folder / "spiderpool").mkdir(parents=True)
    (folder / "spiderpool" / "a.yaml").write_text(EXAMPLE)
    for name in ("multus", "spiderpool"):
        (place / name).mkdir(parents=True)
        (place / name / "old.yaml").write_text("")
    program = (
        "import pathlib, sys; from tools import reduced_schemas as tool; tool.ROOT = pathlib.Path(sys.argv[1]);"
        " tool.PLACE = tool.ROOT / 'tests' / 'schemas'; sys.exit(tool.main(sys.argv[2:]))"
    )

    def run(*words: str) -> tuple[int, list[str]]:
        argv = [sys.executable, "-c", program, str(tmp_path), str(folder), *words]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=reduced_schemas.ROOT, check=False)
        return done.returncode, done.stdout.splitlines()

    names = ["tests/schemas/spiderpool/a.yaml", "tests/schemas/spiderpool/old.yaml"]
    assert run("--check") == (1, [name + ": differs" for name in names])
    assert run() == (0, [names[0] + ": written", names[1] + ": removed"])
    assert [path.parent.name for path in place.rglob("old.yaml")] == ["multus"]
    assert run("--check") == run() == (0, [])


# -- no constraint is lost


def sample(node: Node) -> t.Any:
    """Return a value that has all required fields."""
    if "default" in node or "enum" in node:
        return node.get("default", node.get("enum", [None])[0])
    if node.get("type") == "object":
        return {name: sample(node["properties"][name]) for name in node.get("required", ())}
    filled = {
        "string": "a",
        "boolean": True,
        "integer": node.get("minimum", 1),
        "number": node.get("minimum", 1),
        "array": [],
    }
    return filled.get(node.get("type", ""), 1)


def wrong(node: Node, path: str) -> t.Iterator[tuple[str, t.Any]]:
    """Yield values that violate one constraint at or below a node, each with the place that a validator must name."""
    kind = node.get("type")
    if not node.get("nullable"):
        yield path, None
    if node.get("x-kubernetes-int-or-string"):
        yield path, [1]
        return
    if kind:
        yield path, "a" if kind != "string" else 1
    if "enum" in node:
        yield path, "none-of-these" if kind == "string" else max(node["enum"]) + 1
    if "minimum" in node:
        yield path, node["minimum"] - 1
    if "maximum" in node:
        yield path, node["maximum"] + 1
    elif kind == "integer":
        yield path, 2 ** (31 if node.get("format") == "int32" else 63)
    if node.get("minLength"):
        yield path, ""
    if "maxLength" in node:
        yield path, "a" * (node["maxLength"] + 1)
    if "pattern" in node:
        yield (
            path,
            next(each for each in ("", "\n", "-!-", "a b") if not re.search(node["pattern"].replace("(?i)", ""), each)),
        )
    if kind == "array":
        if node.get("minItems"):
            yield path, []
        if "maxItems" in node:
            yield path, [sample(node["items"])] * (node["maxItems"] + 1)
        for place, value in wrong(node["items"], path + "[0]"):
            yield place, [value]
    if kind == "object":
        yield from wrong_fields(node, path)


def wrong_fields(node: Node, path: str) -> t.Iterator[tuple[str, t.Any]]:
    filled, rest = sample(node), node.get("additionalProperties")
    for name in node.get("required", ()):
        yield "%s.%s" % (path, name), {key: value for key, value in filled.items() if key != name}
    if not rest and not node.get("x-kubernetes-preserve-unknown-fields"):
        yield path + ".notAField", {**filled, "notAField": 1}
    for name, each in [*node.get("properties", {}).items(), *([("any", rest)] if isinstance(rest, dict) else ())]:
        for place, value in wrong(each, "%s.%s" % (path, name)):
            yield place, {**filled, name: value}


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_what_the_whole_schema_refuses_the_reduced_one_refuses(file: Path) -> None:
    tried = 0
    versions = [yaml_text.load(each.read_text(encoding="utf-8"))["spec"]["versions"] for each in (whole(file), file)]
    for theirs, ours in zip(*versions):
        node, own = (each["schema"]["openAPIV3Schema"] for each in (theirs, ours))
        for place, value in wrong(node, "it"):
            found = list(schema.violations(value, own, "it"))
            assert any(each.startswith(place) for each in found), (place, value)
            assert found == list(schema.violations(value, node, "it"))
            tried += 1
    assert tried
